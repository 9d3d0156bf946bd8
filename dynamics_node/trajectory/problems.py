"""What simulation, inversion and estimation share: systems, starts, and Motions of Steps."""

from functools import lru_cache

import numpy as np

from dynamics_node.loops import Mechanism
from dynamics_node.loops.positions import TURNED
from dynamics_node.model import Model
from dynamics_node.program import Program, interpret, trace
from dynamics_node.solver import InputError
from dynamics_node.trajectory.errors import InconsistentStart, SingularPosition, TrajectoryError, WrongBranch
from dynamics_node.trajectory.factor import NEXT, Factor
from dynamics_node.trajectory.graph import Steps, weights_of
from dynamics_node.trajectory.graphs import forward_graph, inverse_graph
from dynamics_node.trajectory.results import Motion, units_of
from dynamics_node.trajectory.systems import System, robot_system
from dynamics_node.trajectory.variables import Variable

OPEN = 1e-6  # m, rad or 1 that loops may be open at the start: what rounding in a file leaves
LENGTH = 1e-6  # that a quaternion may be off unit length
Robot = Model | Mechanism | System


@lru_cache(maxsize=16)  # of the robots at hand: what is compiled for a graph belongs to its System
def system_of(robot: Robot) -> System:
    """A System itself, that of a Model or Mechanism."""
    return robot if isinstance(robot, System) else robot_system(robot)


@lru_cache(maxsize=32)
def graph_of(system: System, kind, *choices):
    """The graph of a 'forward' or 'inverse' problem, the same one for the same choices."""
    make = forward_graph if kind == "forward" else inverse_graph
    return make(system, *choices)


# --- starts -------------------------------------------------------------------------------------------------


def closed_start(system: System, robot: Robot, q, qd=None):
    """q (nq,) and qd (n,) of all directions, zero where they depend on others and nobody tells them, once
    they are found to be consistent. qd (nv,): of the independent directions, or (n,).

    Raises InputError, InconsistentStart, WrongBranch.
    """
    q = _vector("q", q, len(system.q.neutral))
    for name, at in getattr(robot, "quaternions", ()):
        if abs(np.linalg.norm(q[at]) - 1.0) > LENGTH:
            raise InputError(f"the quaternion of {name!r} must be of unit length, not {q[at]}")
    found = interpret(start_program(system), q=q, qd=np.zeros(len(system.directions)))
    advice = "close_loops closes them" if isinstance(robot, Mechanism) else "give a closed position"
    _refuse_open(system, found["positions"], "the loops are open", advice)
    if (found["turned"] > TURNED).any():
        raise WrongBranch(f"{system.name}: loops are closed with ends turned away from each other")
    return q, _closed_rates(system, q, qd)


def _closed_rates(system, q, qd):
    rates = np.zeros(len(system.directions))
    if qd is not None and np.shape(qd) == rates.shape:
        rates = _vector("qd", qd, len(rates))
        found = interpret(start_program(system), q=q, qd=rates)
        _refuse_open(
            system,
            found["velocities"],
            "the velocities open the loops",
            "give those of the independent joints",
        )
    elif qd is not None:
        rates[list(system.independent)] = _vector("qd", qd, len(system.independent))
    return rates


def _refuse_open(system, errors, what, advice):
    k = int(np.argmax(np.abs(errors))) if len(errors) else 0
    if len(errors) and not abs(errors[k]) <= OPEN:
        name = system.directions[system.dependent[k]]
        raise InconsistentStart(f"{system.name}: {what} at the start, {name!r} by {errors[k]:.3g}: {advice}")


@lru_cache(maxsize=16)
def start_program(system: System) -> Program:
    """q, qd -> positions, velocities, turned of the System, and K (dependent, dependent), by which velocities
    change with the dependent rates."""

    units = np.eye(len(system.directions))

    def function(q, qd):
        return {
            "positions": system.positions(q),
            "velocities": system.velocities(q, qd),
            "turned": system.turned(q),
            "K": np.stack([system.velocities(q, units[k]) for k in system.dependent], axis=-1)
            if system.dependent
            else np.zeros((0, 0)),
        }

    return trace(function, {"q": (len(system.q.neutral),), "qd": (len(system.directions),)})


def _vector(name, value, size):
    array = np.array(value, dtype=float)
    if array.shape != (size,) or not np.isfinite(array).all():
        raise InputError(f"{name} must be {size} finite numbers, not {value}")
    return array


# --- results ------------------------------------------------------------------------------------------------


def motion_of(robot: Robot, system: System, time, steps: Steps, **more) -> Motion:
    """A Motion of what the steps are now; tau and push where the graph has them. more: fields of it."""
    own, views = list(system.independent), steps.views
    count = len(steps)
    return Motion(
        name=system.name,
        q_names=system.q.names if isinstance(robot, System) else robot.q_names,
        v_names=system.torque_names,
        units=_planar_units(system) if isinstance(robot, System) else units_of(robot),
        time=time[:count],
        q=views["q"].copy(),
        qd=views["qd"][:, own],
        qdd=views["qdd"][:, own],
        tau=views["tau"].copy(),
        push=views["push"].copy() if "push" in views else None,
        residuals=residuals(steps),
        steps=steps,
        **more,
    )


def _planar_units(system):
    """Coordinates of points are called 'x POINT' and 'y POINT', the others are angles."""
    metres = [name.partition(" ")[0] in "xy" and " " in name for name in system.directions]
    positions = tuple("m" if metre else "rad" for metre in metres)
    own = [positions[k] for k in system.independent]
    torques = tuple("N" if unit == "m" else "N m" for unit in own)
    rates = {kind: tuple(f"{unit}/{s}" for unit in own) for kind, s in (("qd", "s"), ("qdd", "s²"))}
    return {"q": positions, **rates, "tau": torques, "push": torques}


def residuals(steps: Steps) -> dict[str, np.ndarray]:
    """{factor: (count,)}: its largest error at every step, in its own units, from the numbers alone; 0 where
    it has no weight."""
    found = {}
    for factor in steps.graph.factors:
        places = {name: steps[name] for name in (*factor.now, *factor.data)}
        places |= {name + NEXT: np.roll(steps[name], -1, axis=0) for name in factor.after}
        program = residual_program(factor, steps.graph.variables)
        errors = np.abs(interpret(program, **places)["residual"])
        if not factor.exact:
            errors = np.where(steps[weights_of(factor.name)] > 0, errors, 0.0)
        if factor.after:
            errors[-1] = 0.0  # there is no step behind
        found[factor.name] = errors.max(axis=1)
    return found


@lru_cache(maxsize=256)
def residual_program(factor: Factor, variables: tuple[Variable, ...]) -> Program:
    """The residual of a factor alone."""
    sizes = {variable.name: (variable.size,) for variable in variables}
    shapes = {name: sizes[name] for name in factor.now} | {name + NEXT: sizes[name] for name in factor.after}
    return trace(lambda **arrays: {"residual": factor.residual(**arrays)}, shapes | factor.data)


def refuse_turned(system: System, motion: Motion):
    """Raise, with the Motion before: WrongBranch where a loop is closed with its ends turned away,
    SingularPosition where a step went over a position at which the independent joints tell no others."""
    if not system.dependent or not len(motion):
        return
    rates = np.zeros(len(system.directions))
    found = interpret(start_program(system), q=motion.q, qd=rates)
    turned = found["turned"].max(axis=1, initial=0.0) > TURNED
    if turned.any():
        k = int(np.argmax(turned))
        told = f"{system.name}: from {motion.time[k]:.4g} s on loops are closed with ends turned away"
        raise WrongBranch(told, motion.first(k))
    over = _turned_over(found["K"])
    if over.any():
        k = 1 + int(np.argmax(over.any(axis=1)))
        names = ", ".join(repr(system.directions[system.dependent[j]]) for j in np.flatnonzero(over[k - 1]))
        raise SingularPosition(
            f"{system.name}: just before {motion.time[k]:.4g} s it went through a singular position, where "
            f"{names} do not follow from the independent joints; others may be chosen as independent",
            motion.first(k),
        )


def _turned_over(K):
    """(count - 1, dependent): which belong to equations K (count, dependent, dependent) whose determinant has
    another sign than at the step before. Equations that share no joint have determinants of their own."""
    linked = np.eye(K.shape[1], dtype=bool) | (K != 0).any(axis=0)
    linked |= linked.T
    for _ in range(K.shape[1].bit_length()):
        linked = linked @ linked
    found = np.zeros((len(K) - 1, K.shape[1]), dtype=bool)
    for group in np.unique(linked, axis=0):
        signs = np.sign(np.linalg.det(K[:, group][:, :, group]))
        found[:, group] = (signs[1:] * signs[:-1] < 0)[:, None]
    return found


def told_at(error: TrajectoryError, place: str, motion: Motion | None) -> TrajectoryError:
    """The error, with where it was and the Motion so far."""
    error.args = (f"{place}: {error}",)
    error.solution = motion
    return error
