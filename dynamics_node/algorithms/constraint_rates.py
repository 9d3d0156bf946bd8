"""The constraints at the level of rates, K qd = 0, and of accelerations, K qdd = k with k = -(dK/dt) qd, on
symbols: derivatives of the equations of `robot.loops`.
"""

import numpy as np

from dynamics_node.robot.loops.equations import (
    equations,
    once_per_geometry,
    over_velocities,
    position_program,
)
from dynamics_node.symbolic import Program, derivative_name, interpret, jacobian, trace

WORTH = 0.89  # of the operations of K and k by rates: those by positions share fewer expressions


@once_per_geometry
def velocity_program(tree, constraints: tuple) -> Program:
    """q, qd (of the tree) -> K (rows, nv) and k (rows,) with K qdd = k. k is computed in the way with fewer
    operations: for parallel axes by derivatives of K, for spatial motion by those of phi."""
    position = position_program(tree, constraints)
    K = position.outputs["K"] - position.input_size

    def program(right_hand_side):
        def function(q, qd):
            return {"K": interpret(position, q=q)["K"], "k": right_hand_side(q, qd)}

        return trace(function, {"q": (tree.nq,), "qd": (tree.nv,)})

    if np.isin(K, range(len(position.constants))).all():  # linear constraints
        return program(lambda q, qd: -np.zeros(len(K)))
    by_rates = program(_change_of_rates(tree, position))
    by_positions = program(_second_change(tree, constraints))
    return by_positions if len(by_positions.ops) < WORTH * len(by_rates.ops) else by_rates


@once_per_geometry
def jerk_program(tree, constraints: tuple) -> Program:
    """q, qd (of the tree) -> change (rows,) of k in time, at constant rates."""
    velocity = velocity_program(tree, constraints)
    change = _along_motion(tree, lambda q, qd: interpret(velocity, q=q, qd=qd)["k"])
    return trace(lambda q, qd: {"change": change(q, qd)}, {"q": (tree.nq,), "qd": (tree.nv,)})


@once_per_geometry
def change_program(tree, constraints: tuple) -> Program:
    """q, qd (of the tree), forces (rows,) -> change (nv of the tree,) = (dK/dt)^T forces along qd."""
    position = position_program(tree, constraints)

    def later(q, qd, forces, t):
        K = interpret(position, q=_moved(tree, q, qd, t))["K"]
        return {"f": K.T @ forces}

    (rows,) = position.outputs["phi"].shape
    shapes: dict[str, tuple[int, ...]] = {"q": (tree.nq,), "qd": (tree.nv,), "forces": (rows,)}
    change = jacobian(trace(later, {**shapes, "t": (1,)}), ["f"], ["t"])

    def function(**arrays):
        derivatives = interpret(change, **arrays, t=np.zeros(1))
        return {"change": derivatives[derivative_name("f", "t")][:, 0]}

    return trace(function, shapes)


def _change_of_rates(tree, position):
    """k(q, qd) = -(dK/dt) qd, by the derivatives of K qd."""
    rates = trace(
        lambda q, qd: {"rate": interpret(position, q=q)["K"] @ qd}, {"q": (tree.nq,), "qd": (tree.nv,)}
    )
    change = jacobian(rates, ["rate"], ["q"])

    def k(q, qd):
        derivative = interpret(change, q=q, qd=qd)[derivative_name("rate", "q")]
        return -(over_velocities(tree, q, derivative) @ qd)

    return k


def _second_change(tree, constraints):
    """k(q, qd): minus the second time derivative of phi at constant rates."""
    first = _along_motion(tree, lambda q, qd: equations(tree, constraints, q))
    second = _along_motion(tree, first)
    return lambda q, qd: -second(q, qd)


def _along_motion(tree, function):
    """The time derivative of function(q, qd) (rows,) at constant rates."""

    def later(q, qd, t):
        return {"f": function(_moved(tree, q, qd, t), qd)}

    shapes: dict[str, tuple[int, ...]] = {"q": (tree.nq,), "qd": (tree.nv,), "t": (1,)}
    change = jacobian(trace(later, shapes), ["f"], ["t"])

    def derivative(q, qd):
        return interpret(change, q=q, qd=qd, t=np.zeros(1))[derivative_name("f", "t")][:, 0]

    return derivative


def _moved(tree, q, qd, t):
    """Positions after a short time t (1,) at rates qd, to first order."""
    moved = np.array(q, dtype=object)
    for joint in tree.independent_joints:
        moved[joint.q] = q[joint.q] + t[0] * (joint.type.tangent(q[joint.q]) @ qd[joint.v])
    return moved
