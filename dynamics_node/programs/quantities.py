"""The quantities of a robot: one row each, which says what it reads and returns and how it is computed, with
loops or without."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dynamics_node import algorithms
from dynamics_node.algorithms import crba, operational_space_inertia, rnea
from dynamics_node.loops import dynamics
from dynamics_node.loops import quantities as of_loops
from dynamics_node.loops.carried import carried_alone
from dynamics_node.loops.momentum import momentum as loops_momentum
from dynamics_node.loops.quantities import of_the_tree
from dynamics_node.programs.second_derivatives import SECOND, second_derivative_program

Q, QD, QDD = ("q",), ("q", "qd"), ("q", "qd", "qdd")


class Quantity(NamedTuple):
    """reads, returns: names of the arrays, in order; options: keywords of its functions. inverts: whether the
    mass matrix must have an inverse. view(robot, **options): the robot whose inertias count, where that is
    not the whole one.

    tree(model, *arrays, **options) -> arrays; clusters: {what it is, for people: function(mechanism, *arrays,
    **options) -> (arrays, condition of the constraints)}.

    regrouped: whether base parameters tell it, see `economical`; reframed: whether it is computed in other
    frames than the robot's own, in which alone the columns of a regressor mean what they should. Inertias as
    inputs are in those other frames: what is not reframed reads none. write(robot, parameters, **options):
    makes the Program of what is derived from another one, in place of all these functions."""

    reads: tuple[str, ...]
    returns: tuple[str, ...]
    tree: Callable
    clusters: dict[str, Callable]
    inverts: bool = False
    view: Callable | None = None
    regrouped: bool = True
    reframed: bool = True
    write: Callable | None = None
    options: tuple[str, ...] = ()

    def seen(self, robot, options):
        """`view`, or the robot itself."""
        return robot if self.view is None else self.view(robot, **options)


def _one(function):
    """The result of a function as a tuple of one."""
    return lambda *arrays, **options: (function(*arrays, **options),)


def _row(reads, returns, tree, rows=(), columns=(), **facts):
    """Of what the tree has at the rates of the loops, see `of_the_tree`."""
    return Quantity(reads, returns, tree, {"tree": of_the_tree(tree, reads, rows, columns)}, **facts)


def _gravity_torque(model, q, gravity):
    still = np.zeros(model.nv)
    return rnea(model, q, still, still, gravity=gravity)


def _coriolis_torque(model, q, qd):
    return rnea(model, q, qd, np.zeros(model.nv), gravity=np.zeros(3))


LINK, ABOUT = ("link", "reference"), ("about",)
_LINK_MOTION = _row(
    QDD, ("rotation", "position", "velocity", "acceleration"), algorithms.link_motion, options=LINK
)

DYNAMICS = {
    "mass_matrix": Quantity(Q, ("mass_matrix",), _one(crba), {"projection": dynamics.mass_matrix}),
    "bias": Quantity(
        (*QD, "gravity"),
        ("bias",),
        lambda model, q, qd, gravity: (algorithms.bias(model, q, qd, gravity=gravity),),
        {"c-rnea": dynamics.bias},
    ),
    "gravity_torque": _row((*Q, "gravity"), ("gravity_torque",), _one(_gravity_torque), rows=(0,)),
    "coriolis_torque": Quantity(
        QD,
        ("coriolis_torque",),
        _one(_coriolis_torque),
        {"c-rnea": lambda mechanism, q, yd: dynamics.bias(mechanism, q, yd, np.zeros(3))},
    ),
    "coriolis_matrix": Quantity(
        QD, ("coriolis_matrix",), _one(algorithms.coriolis_matrix), {"projection": of_loops.coriolis_matrix}
    ),
    "momentum": Quantity(
        (*QD, "gravity"), ("momentum", "rate"), algorithms.momentum, {"projection": loops_momentum}
    ),
    "second_derivatives": Quantity(
        (*QDD, "gravity"), SECOND, algorithms.rnea, {}, write=second_derivative_program
    ),
}

WHOLE = {
    "kinetic_energy": _row(QD, ("kinetic_energy",), _one(algorithms.kinetic_energy)),
    "potential_energy": _row(
        (*Q, "gravity"), ("potential_energy",), _one(algorithms.potential_energy), regrouped=False
    ),
    "spatial_momentum": _row(
        QD, ("spatial_momentum",), _one(algorithms.spatial_momentum), regrouped=False, options=ABOUT
    ),
    "momentum_matrix": _row(
        Q,
        ("momentum_matrix",),
        _one(algorithms.momentum_matrix),
        columns=(0,),
        regrouped=False,
        options=ABOUT,
    ),
    "centre_of_mass": _row(
        Q, ("position", "jacobian"), algorithms.centre_of_mass, columns=(1,), regrouped=False
    ),
    "centre_of_mass_motion": _row(
        QDD, ("position", "velocity", "acceleration"), algorithms.centre_of_mass_motion, regrouped=False
    ),
}

LINKS = {
    "link_jacobian": Quantity(
        Q, ("jacobian",), _one(algorithms.link_jacobian), {"projection": dynamics.jacobian}, options=LINK
    ),
    "link_motion": _LINK_MOTION,
    "jacobian_drift": Quantity(
        QD,
        ("jacobian_drift",),
        _one(algorithms.jacobian_drift),
        {"tree": of_loops.jacobian_drift(_LINK_MOTION.clusters["tree"])},
        options=LINK,
    ),
    "operational_space_inertia": Quantity(
        Q,
        ("inverse_inertia", "jacobian"),
        operational_space_inertia,
        {"projection": dynamics.operational_space_inertia, "c-efpa": dynamics.extended_forces},
        inverts=True,
        options=("links", "reference"),
    ),
    "carried_wrench": Quantity(
        (*QDD, "gravity"),
        ("wrench",),
        _one(algorithms.carried_wrench),
        {"projection": dynamics.carried_wrench},
        view=carried_alone,
        regrouped=False,
        options=("joint", "xyz", "rpy"),
    ),
    "joint_wrenches": Quantity(
        (*QDD, "gravity"),
        ("wrenches",),
        lambda *arrays, redundant="refuse": (algorithms.joint_wrenches(*arrays),),  # of a tree nothing is
        {"tree": of_loops.joint_wrenches},
        regrouped=False,
        options=("redundant",),
    ),
}

REGRESSORS = {
    "joint_torque_regressor": _row(
        (*QDD, "gravity"),
        ("regressor",),
        _one(algorithms.joint_torque_regressor),
        rows=(0,),
        regrouped=False,
        reframed=False,
        options=("link",),
    ),
    "momentum_regressor": Quantity(
        (*QD, "gravity"),
        ("momentum", "rate"),
        algorithms.momentum_regressor,
        {"projection": of_loops.momentum_regressor},
        regrouped=False,
        reframed=False,
        options=("link",),
    ),
    "energy_regressor": _row(
        (*QD, "gravity"),
        ("kinetic", "potential"),
        algorithms.energy_regressor,
        regrouped=False,
        reframed=False,
    ),
    "joint_regressor": _row(
        QDD, ("rotor", "viscous", "offset", "spring"), algorithms.joint_regressor, rows=(0, 1, 2, 3)
    ),
}

QUANTITIES: dict[str, Quantity] = {**DYNAMICS, **WHOLE, **LINKS, **REGRESSORS}
