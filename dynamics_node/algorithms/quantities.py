"""The table of the quantities of a robot: arguments, results and computation of each; their Programs."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, TypedDict

import numpy as np

from dynamics_node.algorithms import energy_and_momentum as whole
from dynamics_node.algorithms import quantity_methods as of
from dynamics_node.algorithms import results
from dynamics_node.algorithms.contact_dynamics import UNCLEAR, delassus_matrix, impact_dynamics
from dynamics_node.algorithms.derivative_programs import (
    SECOND,
    derivative_program,
    second_derivative_program,
)
from dynamics_node.algorithms.dynamics_programs import dynamics_programs
from dynamics_node.algorithms.frame_kinematics import frame_kinematics as tree_frame_kinematics
from dynamics_node.algorithms.frame_kinematics import frame_pose as tree_link_pose
from dynamics_node.algorithms.frame_kinematics import frame_poses as tree_frame_poses
from dynamics_node.algorithms.frame_kinematics import reference_named
from dynamics_node.algorithms.health import health, health_limits
from dynamics_node.algorithms.pivots import weak_coordinates
from dynamics_node.algorithms.quantity_methods import extended_forces, of_the_tree
from dynamics_node.algorithms.rates import Identity, rates_at
from dynamics_node.algorithms.reduced_frames import economical_program
from dynamics_node.algorithms.regressors import energy_regressor as tree_energy_regressor
from dynamics_node.algorithms.regressors import joint_regressor as tree_joint_regressor
from dynamics_node.algorithms.regressors import joint_torque_regressor as tree_joint_torque_regressor
from dynamics_node.algorithms.wheels import LEANING
from dynamics_node.algorithms.wrenches import sensor_wrench as tree_sensor_wrench
from dynamics_node.errors import InputError
from dynamics_node.names import no_argument
from dynamics_node.robot import Problem, Robot, named, state_shapes
from dynamics_node.robot.contacts import Contact
from dynamics_node.robot.problem import KNOWN, UNKNOWN, with_wrenches
from dynamics_node.robot.subtree import only_subtree

Q, QD, QDD = ("q",), ("q", "qd"), ("q", "qd", "qdd")
Reference = Literal["world_aligned", "body", "world", "LOCAL_WORLD_ALIGNED", "LOCAL", "WORLD"]
Redundant = Literal["refuse", "least"]
OF_CONTACTS = ("active", "restitution")


class QuantityOptions(TypedDict, total=False):
    """Options of quantities, see docs/reference/quantities.md. xyz is in m, rpy in rad."""

    forward_joints: Iterable[str] | None
    link: str | None
    links: Iterable[str] | None
    joint: str | None
    reference: Reference | None
    xyz: Sequence[float] | None
    rpy: Sequence[float] | None
    redundant: Redundant | None


class Quantity(NamedTuple):
    """reads: names of the arrays, in order; returns: {name: letters of its axes}, in order. Letters are v:
    velocity coordinates; t: those of all joints, including dependent ones; l: links; m: their motions; s:
    motion of the whole robot; w: a wrench; x: a position; b: bodies; p: their inertial parameters, or those
    of one link; c: rows of contacts. result: the NamedTuple of several; options, needs: keywords, and those
    of them without a default. method: see quantity_methods.py; by_clusters: another, for robots with loops.
    wrenches: whether external wrenches are another input.
    projects: whether it needs G, not only rates. inverts: whether the mass matrix must be invertible.
    view(robot, **options): the robot whose inertias count, if not the whole one.

    regrouped: whether base parameters determine it, see `economical_robot`. reframed: whether it is computed
    in other frames than the robot's own; columns of a regressor refer to the robot's own. Inertias as inputs
    are in the other frames, so a quantity that is not reframed reads none.

    problem(robot, **options): the Problem to solve, in place of a method. write(robot, problem, wrenches,
    parameters): makes the Program of a quantity derived from that of the problem. derivatives: the name of
    the quantity with them. limits: of the entries of one more result of the methods; above them there is no
    result; refusal: the reason."""

    reads: tuple[str, ...]
    returns: dict[str, str]
    method: Callable | None = None
    by_clusters: Callable | None = None
    wrenches: bool = False
    projects: bool = False
    inverts: bool = False
    view: Callable | None = None
    regrouped: bool = True
    reframed: bool = True
    problem: Callable[..., Problem] | None = None
    write: Callable | None = None
    derivatives: str | None = None
    limits: tuple[float, ...] = ()
    refusal: str | None = None
    result: type | None = None
    options: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()

    def __repr__(self):
        returns = getattr(self.result, "_fields", self.returns)
        rows = {"reads": self.reads, "returns": returns, "options": self.options}
        return f"Quantity({', '.join(f'{row}: ' + ' '.join(own) for row, own in rows.items() if own)})"

    @property
    def is_problem(self):
        """Whether a solver of `problem` computes it."""
        return self.problem is not None and self.write is None

    def checked(self, name, options):
        """The options that are not None, names in tuples, a reference by its name. Raises TypeError for a
        foreign or a missing one."""
        given = {option: value for option, value in options.items() if value is not None}
        if foreign := [option for option in given if option not in self.options]:
            raise no_argument(name, foreign[0], self.options)
        if missing := [option for option in self.needs if option not in given]:
            raise TypeError(f"{name} needs the option {', '.join(missing)}")
        for option in given.keys() & {"forward_joints", "links"}:
            names = given[option]
            given[option] = (names,) if isinstance(names, str) else tuple(names)
        if "reference" in given:
            given["reference"] = reference_named(given["reference"])
        if "contacts" in given:
            contacts = given["contacts"]
            given["contacts"] = (contacts,) if isinstance(contacts, Contact) else tuple(contacts)
        return given

    def shapes(self, robot, wrenches=False, **options):
        """{name: shape} of the arrays that it reads."""
        names = with_wrenches(self.reads) if wrenches else self.reads
        own = [name for name in names if name in OF_CONTACTS]
        shapes = state_shapes(robot, [name for name in names if name not in own])
        return shapes | dict.fromkeys(own, (len(options.get("contacts", ())),))

    def methods(self, robot):
        """{readable name: method} on symbols of one state."""
        by_clusters = any(len(cluster.bodies) > 1 for cluster in robot.clusters)
        other = {"by clusters": self.by_clusters} if self.by_clusters and by_clusters else {}
        return {"by the tree": self.method} | other

    def rates(self, robot, q, qd=None):
        """The Rates that the methods need; None if positions suffice."""
        if self.projects or "qd" in self.reads:
            return rates_at(robot, q, qd, explicit=self.projects)
        return Identity(robot.tree.nv)

    def seen(self, robot, options):
        """`view`, or the robot itself."""
        return robot if self.view is None else self.view(robot, **options)


def _one(function):
    """The function with its result as a tuple of one."""
    return lambda *arrays, **options: (function(*arrays, **options),)


def _row(reads, returns, function, rows=(), columns=(), **facts):
    """The row of a function of the tree, see `of_the_tree`."""
    method = of_the_tree(function, reads, rows, columns)
    return Quantity(reads, returns, method, projects=bool(rows or columns), **facts)


def _problem(kind, derivatives, write=None, result=None, **facts):
    """The row of a Problem, or of its derivatives."""
    return Quantity(
        ("q", "qd", *KNOWN[kind], "gravity"),
        dict.fromkeys(UNKNOWN[kind], "v") if write is None else dict.fromkeys(("dq", "dqd", "dknown"), "vv"),
        wrenches=True,
        problem=partial(named, kind),
        write=write,
        derivatives=derivatives,
        result=result,
        options=("forward_joints", "contacts") if kind == "hybrid" else ("contacts",),
        needs=("forward_joints",) if kind == "hybrid" else (),
    )


def _lambda(result, method, by_clusters, **facts):
    """The row of an operational-space inertia of some links."""
    return Quantity(
        Q,
        dict(zip(result._fields, ("mm", "mv"), strict=True)),
        method,
        by_clusters=by_clusters,
        projects=True,
        inverts=True,
        result=result,
        options=("links", "reference"),
        needs=("links",),
        **facts,
    )


# keywords of rows
CONTACT: dict[str, Any] = {
    "projects": True,
    "inverts": True,
    "options": ("contacts",),
    "needs": ("contacts",),
}
LINK: dict[str, Any] = {"options": ("link", "reference"), "needs": ("link",)}

SOLVED = {
    "inverse_dynamics": _problem("inverse", "inverse_dynamics_derivatives"),
    "forward_dynamics": _problem("forward", "forward_dynamics_derivatives"),
    "hybrid_dynamics": _problem("hybrid", "hybrid_dynamics_derivatives", result=results.HybridDynamics),
    "inverse_dynamics_derivatives": _problem(
        "inverse",
        "inverse_dynamics_second_derivatives",
        derivative_program,
        results.InverseDynamicsDerivatives,
    ),
    "forward_dynamics_derivatives": _problem(
        "forward", None, derivative_program, results.ForwardDynamicsDerivatives
    ),
    "hybrid_dynamics_derivatives": _problem(
        "hybrid", None, derivative_program, results.HybridDynamicsDerivatives
    ),
    "inverse_dynamics_second_derivatives": Quantity(
        (*QDD, "gravity"),
        dict.fromkeys(SECOND, "vvv"),
        problem=partial(named, "inverse"),
        write=second_derivative_program,
        result=results.InverseDynamicsSecondDerivatives,
    ),
}

DYNAMICS = {
    "mass_matrix": Quantity(Q, {"mass_matrix": "vv"}, of.mass_matrix, projects=True),
    "inverse_mass_matrix": Quantity(
        Q, {"inverse_mass_matrix": "vv"}, of.inverse_mass_matrix, projects=True, inverts=True
    ),
    "nonlinear_effects": Quantity(
        (*QD, "gravity"), {"nonlinear_effects": "v"}, of.nonlinear_effects, wrenches=True
    ),
    "gravity_torque": Quantity((*Q, "gravity"), {"gravity_torque": "v"}, of.gravity_torque, projects=True),
    "coriolis_torque": Quantity(QD, {"coriolis_torque": "v"}, of.coriolis_torque),
    "coriolis_matrix": Quantity(QD, {"coriolis_matrix": "vv"}, of.coriolis_matrix, projects=True),
    "generalized_momentum": Quantity(
        (*QD, "gravity"),
        {"momentum": "v", "rate": "v"},
        of.generalized_momentum,
        result=results.GeneralizedMomentum,
    ),
}

WHOLE = {
    "kinetic_energy": _row(QD, {"kinetic_energy": ""}, _one(whole.kinetic_energy)),
    "potential_energy": _row(
        (*Q, "gravity"), {"potential_energy": ""}, _one(whole.potential_energy), regrouped=False
    ),
    "spatial_momentum": _row(QD, {"spatial_momentum": "s"}, _one(whole.spatial_momentum), regrouped=False),
    "spatial_momentum_matrix": _row(
        Q,
        {"spatial_momentum_matrix": "sv"},
        _one(whole.spatial_momentum_matrix),
        columns=(0,),
        regrouped=False,
    ),
    "centroidal_momentum": _row(
        QD, {"centroidal_momentum": "s"}, _one(whole.centroidal_momentum), regrouped=False
    ),
    "centroidal_momentum_matrix": _row(
        Q,
        {"centroidal_momentum_matrix": "sv"},
        _one(whole.centroidal_momentum_matrix),
        columns=(0,),
        regrouped=False,
    ),
    "center_of_mass": _row(
        Q,
        {"position": "x", "jacobian": "xv"},
        whole.center_of_mass,
        columns=(1,),
        regrouped=False,
        result=results.CenterOfMass,
    ),
    "center_of_mass_motion": _row(
        QDD,
        {"position": "x", "velocity": "x", "acceleration": "x"},
        whole.center_of_mass_motion,
        regrouped=False,
        result=results.CenterOfMassMotion,
    ),
}

LINKS = {
    "frame_jacobian": Quantity(Q, {"jacobian": "mv"}, of.jacobian, projects=True, **LINK),
    "frame_jacobian_time_derivative": Quantity(
        QD, {"time_derivative": "mv"}, of.frame_jacobian_time_derivative, projects=True, **LINK
    ),
    "frame_pose": _row(
        Q,
        {"rotation": "xx", "position": "x"},
        tree_link_pose,
        result=results.FramePose,
        options=("link",),
        needs=("link",),
    ),
    "frame_poses": _row(
        Q,
        {"rotations": "lxx", "positions": "lx"},
        tree_frame_poses,
        result=results.FramePoses,
        options=("links",),
    ),
    "frame_kinematics": _row(
        QDD,
        {"rotation": "xx", "position": "x", "velocity": "m", "acceleration": "m"},
        tree_frame_kinematics,
        result=results.FrameKinematics,
        **LINK,
    ),
    "frame_jacobian_bias": Quantity(QD, {"frame_jacobian_bias": "m"}, of.frame_jacobian_bias, **LINK),
    "operational_space_inertia": _lambda(
        results.OperationalSpaceInertia,
        of.inverted(of.operational_space_inertia_inverse),
        of.inverted(extended_forces),
        limits=(of.MAX_CONDITION**2,),
        refusal="the links cannot move in all directions (condition of Lambda^-1 1e12 or more), see "
        "operational_space_inertia_inverse",
    ),
    "operational_space_inertia_inverse": _lambda(
        results.OperationalSpaceInertiaInverse, of.operational_space_inertia_inverse, extended_forces
    ),
    "sensor_wrench": _row(
        (*QDD, "gravity"),
        {"wrench": "w"},
        _one(tree_sensor_wrench),
        view=only_subtree,
        regrouped=False,
        options=("joint", "xyz", "rpy"),
        needs=("joint",),
    ),
    "reaction_wrenches": Quantity(
        (*QDD, "gravity"), {"wrenches": "bw"}, of.reaction_wrenches, regrouped=False, options=("redundant",)
    ),
}


def _leaning_counts(method):
    """The method with its last result in units of the limit of a condition."""

    def scaled(*arrays, **options):
        A, J, leaning = method(*arrays, **options)
        return A, J, leaning * (of.MAX_CONDITION**2 / LEANING)

    return scaled


CONTACTS = {
    "delassus_matrix": Quantity(
        Q,
        {"matrix": "cc", "jacobian": "cv"},
        delassus_matrix,
        limits=(LEANING,),
        refusal="a wheel leans more than 75 degrees from upright",
        result=results.DelassusMatrix,
        **CONTACT,
    ),
    "delassus_inverse": Quantity(
        Q,
        {"inverse": "cc", "jacobian": "cv"},
        of.inverted(_leaning_counts(delassus_matrix)),
        limits=(of.MAX_CONDITION**2,),
        refusal="the contacts cannot move in all directions (condition of the Delassus matrix 1e12 or more), "
        "see delassus_matrix",
        result=results.DelassusInverse,
        **CONTACT,
    ),
    "impact_dynamics": Quantity(
        (*QD, *OF_CONTACTS),
        {"qd": "v", "contact_impulses": "c"},
        impact_dynamics,
        limits=(UNCLEAR,),
        refusal="active contacts are nearly redundant, or a wheel leans more than 75 degrees from upright",
        result=results.ImpactDynamics,
        **CONTACT,
    ),
}

REGRESSORS = {
    "joint_torque_regressor": _row(
        (*QDD, "gravity"),
        {"regressor": "vp"},
        _one(tree_joint_torque_regressor),
        rows=(0,),
        regrouped=False,
        reframed=False,
        options=("link",),
    ),
    "momentum_regressor": Quantity(
        (*QD, "gravity"),
        {"momentum": "vp", "rate": "vp"},
        of.momentum_regressor,
        result=results.MomentumRegressor,
        projects=True,
        regrouped=False,
        reframed=False,
        options=("link",),
    ),
    "energy_regressor": _row(
        (*QD, "gravity"),
        {"kinetic": "p", "potential": "p"},
        tree_energy_regressor,
        result=results.EnergyRegressor,
        regrouped=False,
        reframed=False,
    ),
    "joint_regressor": _row(
        QDD,
        {"rotor": "vt", "viscous": "vt", "offset": "vt", "spring": "vt"},
        tree_joint_regressor,
        rows=(0, 1, 2, 3),
        result=results.JointRegressor,
    ),
}

QUANTITIES: dict[str, Quantity] = {**SOLVED, **DYNAMICS, **WHOLE, **LINKS, **CONTACTS, **REGRESSORS}

# --- Programs -----------------------------------------------------------------------------------------------


def quantity_program(robot: Robot, name: str, parameters=(), wrenches=False, **options) -> Any:
    """The Program of a quantity of QUANTITIES, by the method with the fewest operations. Arguments and errors
    as in `quantity_programs`."""
    programs = quantity_programs(robot, name, parameters, wrenches, **options)
    return min(programs.values(), key=lambda program: program.length)


def quantity_programs(robot: Robot, name: str, parameters=(), wrenches=False, **options) -> dict[str, Any]:
    """{readable name: Program} of the methods for a quantity: inputs and outputs as in QUANTITIES, f_ext if
    there are `wrenches`, then parameters and health as in `dynamics_programs`.

    options: keywords of the quantity. Raises ValueError for an unknown name, KeyError for an unknown link or
    joint."""
    if name not in QUANTITIES:
        raise InputError(f"unknown quantity {name!r}; there are {', '.join(QUANTITIES)}")
    quantity = QUANTITIES[name]
    if quantity.problem is not None:
        problem = quantity.problem(robot, **options)
        if quantity.write is None:
            return dynamics_programs(robot, problem, wrenches, parameters)
        return {"derived": quantity.write(robot, problem, wrenches, parameters)}
    robot = quantity.seen(robot, options)
    every = np.full(robot.nv, quantity.inverts)
    watched = weak_coordinates(robot, every)
    limits = np.concatenate([health_limits(robot, watched), quantity.limits])
    reads = quantity.shapes(robot, wrenches, **options)

    def program(method):
        def function(own, q, qd=None, **arrays):
            rates = quantity.rates(own, q, qd)
            results = method(own, rates, q, **arrays, **options)
            named = dict(zip(quantity.returns, results, strict=not quantity.limits))
            if len(limits):
                more = results[-1] if quantity.limits else ()
                named["health"] = np.concatenate([health(own, q, rates, every, watched), more])
            return named

        return economical_program(
            robot, reads, function, parameters, limits, quantity.regrouped, quantity.reframed
        )

    return {description: program(method) for description, method in quantity.methods(robot).items()}
