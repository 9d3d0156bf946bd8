"""The robot inside its Programs: in body frames and with inertial parameters that cost few operations.

These frames are internal: inputs and outputs of a Program are in those of the robot. Inertial parameters may
be inputs of a Program instead of constants, for changing payloads. Their values are in the frames of the
Program, see `parameter_values`.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from dynamics_node.robot import Robot, Shapes
from dynamics_node.robot.constraints import LoopJoint
from dynamics_node.robot.inertial_parameters import PARAMETERS, with_parameters
from dynamics_node.robot.reframe import inertias_in, reframe, regroup, regrouped_away
from dynamics_node.robot.robot import cached_on_robot
from dynamics_node.symbolic import (
    Program,
    inertia_of_pseudo,
    inverse_motion_transform,
    matvec,
    product,
    pseudo_inertia,
    trace,
    transform_origin,
    transform_rotation,
    transpose,
)

_UPPER = np.triu_indices(4)


def economical_program(
    robot: Robot,
    reads: Shapes,
    function,
    parameters=(),
    limits=(),
    regrouped=True,
    reframed=True,
) -> Program:
    """The Program of function(robot, **arrays) -> {name: array} for the robot from `economical_robot`.

    reads: {name: shape} of the arrays; f_ext among them is in the function's frames. parameters: those of
    'inertia' and 'armature' that are inputs, after the others. limits: of the output health, see Program.
    regrouped: with base parameters, which do not determine a wrench on a body alone. reframed: in other
    frames than the robot's own; inertias have another meaning in them, also as inputs, so a Program without
    reframing reads none."""
    reduced, T = (
        economical_robot(robot, regrouped) if reframed else (robot, np.tile(np.eye(6), (robot.nbodies, 1, 1)))
    )

    def traced(inertia=None, armature=None, **arrays):
        if "f_ext" in arrays:
            arrays["f_ext"] = matvec(transpose(inverse_motion_transform(T)), arrays["f_ext"])
        return function(with_inputs(reduced, inertia, armature, regrouped), **arrays)

    return trace(traced, reads | parameter_shapes(robot, parameters), limits)


@cached_on_robot
def economical_robot(robot: Robot, regrouped=True) -> tuple[Any, np.ndarray]:
    """The robot in its economical frames and, if regrouped, with base parameters, and T (nbodies, 6, 6) of
    `reframe`. With base parameters, the inertia of one body and the wrench at one joint have no meaning."""
    tree, T = reframe(robot.tree)
    return replace(regroup(tree) if regrouped else tree, clusters=_moved_constraints(robot, T)), T


def _moved_constraints(robot, T):
    """The clusters of a robot in body frames moved by T (nbodies, 6, 6)."""
    return tuple(
        replace(cluster, constraints=tuple(_moved(constraint, T) for constraint in cluster.constraints))
        for cluster in robot.clusters
    )


def _moved(constraint, T):
    """A constraint with its frames in the new body frames."""
    if not isinstance(constraint, LoopJoint):
        return constraint
    rotations, origins = [], []
    for end, body in enumerate((constraint.predecessor, constraint.successor)):
        X = T[body] if body >= 0 else np.eye(6)
        rotations.append(product(transform_rotation(X), constraint.rotations[end]))
        origins.append(product(transform_rotation(X), constraint.origins[end] - transform_origin(X)))
    return replace(constraint, rotations=tuple(rotations), origins=tuple(origins))


# --- inertial parameters as inputs --------------------------------------------------------------------------


def parameter_shapes(robot: Robot, parameters) -> Shapes:
    """{name: shape} of the PARAMETERS that are inputs of a Program."""
    assert set(parameters) <= set(PARAMETERS)
    shapes: Shapes = {"inertia": (robot.nbodies, 10), "armature": robot.tree.armature.shape}
    return {name: shapes[name] for name in parameters}


def parameter_values(
    robot: Robot, parameters=PARAMETERS, frames=None, regrouped=True
) -> dict[str, np.ndarray]:
    """{name: array} of the inputs `parameters` of a Program of the robot.

    inertia (nbodies, 10): the upper triangles of the pseudo-inertias; armature (axles,). frames: `reframe` of
    a Robot of the same geometry, if available; regrouped: as in `economical_program`.
    """
    tree = robot.tree
    reframed, T = frames or reframe(tree)
    reduced = with_parameters(reframed, inertias_in(T, tree.inertias), tree.armature)
    reduced = regroup(reduced) if regrouped else reduced
    values = robot_values(reduced)
    return {name: values[name] for name in parameters}


def robot_values(tree: Robot) -> dict[str, np.ndarray]:
    """{name: array} of all possible inputs, of a tree in the frames of the Program."""
    return {"inertia": pseudo_inertia(tree.inertias)[:, _UPPER[0], _UPPER[1]], "armature": tree.armature}


def with_inputs(robot: Robot, inertia=None, armature=None, regrouped=True) -> Any:
    """The robot of `economical_robot` with inertial parameters that are inputs of a Program; None for
    constant ones."""
    if inertia is None and armature is None:
        return robot
    tree = robot.tree
    inertias = tree.inertias if inertia is None else _inertias(tree, inertia, regrouped)
    return robot.with_tree(with_parameters(tree, inertias, tree.armature if armature is None else armature))


def _inertias(tree, numbers, regrouped):
    """Spatial inertias (nbodies, 6, 6) of the ten numbers of every body; if regrouped, with the zeros of
    `regroup`."""
    J = np.zeros((tree.nbodies, 4, 4), dtype=object)
    J[:, _UPPER[0], _UPPER[1]] = numbers
    J[:, _UPPER[1], _UPPER[0]] = numbers
    if regrouped:
        J[regrouped_away(tree)] = 0.0
    return inertia_of_pseudo(J)
