"""Loop closure at the start of a motion, and the branch of assembly along it."""

from functools import lru_cache

import numpy as np

from dynamics_node.errors import InconsistentStart, SingularPosition, WrongBranch
from dynamics_node.functions.checks import finite, numbers, require_unit_quaternions
from dynamics_node.robot import Robot
from dynamics_node.robot.loops.newton import TURNED
from dynamics_node.symbolic import Program, interpret, trace
from dynamics_node.trajectory.systems import System, robot_system
from dynamics_node.trajectory.trajectory import Trajectory

OPEN = 1e-6  # m, rad or 1: loop error allowed at the start, for rounding in files


def closed_start(robot: Robot, q0, qd0=None):
    """Consistent q (nq,) and qd (n,) of all directions; unspecified dependent rates are zero. qd0 (nv,): of
    the independent directions, or (n,).

    Raises InputError, InconsistentStart, WrongBranch.
    """
    system, q = robot_system(robot), finite("q0", q0, (robot.nq,)).copy()
    for name, at in robot.quaternions:
        require_unit_quaternions(name, q[at])
    constraints = interpret(start_program(system), q=q, qd=np.zeros(len(system.directions)))
    _require_closed(system, constraints["positions"], "the loops are open", "use close_loops")
    if (constraints["turned"] > TURNED).any():
        raise WrongBranch(f"{system.name}: loops are closed with ends rotated half a turn apart")
    return q, _closed_rates(system, q, qd0)


def _closed_rates(system, q, qd):
    rates = np.zeros(len(system.directions))
    qd = None if qd is None else numbers("qd0", qd)
    if qd is not None and qd.shape == rates.shape:
        rates = finite("qd0", qd, rates.shape).copy()
        constraints = interpret(start_program(system), q=q, qd=rates)
        _require_closed(
            system,
            constraints["velocities"],
            "the velocities open the loops",
            "give rates of the independent joints only",
        )
    elif qd is not None:
        rates[list(system.independent)] = finite("qd0", qd, (len(system.independent),))
    return rates


def _require_closed(system, errors, problem, advice):
    k = int(np.argmax(np.abs(errors))) if len(errors) else 0
    if len(errors) and not abs(errors[k]) <= OPEN:
        name = system.directions[system.dependent[k]]
        raise InconsistentStart(
            f"{system.name}: {problem} at the start, {name!r} by {errors[k]:.3g}: {advice}"
        )


@lru_cache(maxsize=16)
def start_program(system: System) -> Program:
    """q, qd -> positions, velocities, turned of the System, and K (dependent, dependent), the Jacobian of the
    velocity constraints by the dependent rates."""

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


def require_branch(system: System, motion: Trajectory):
    """Raise with the Trajectory so far: WrongBranch if a loop is closed with its ends rotated half a turn
    apart, SingularPosition if a step crossed a position where the independent joints do not determine the
    others."""
    if not system.dependent or not len(motion):
        return
    rates = np.zeros(len(system.directions))
    constraints = interpret(start_program(system), q=motion.q, qd=rates)
    turned = constraints["turned"].max(axis=1, initial=0.0) > TURNED
    if turned.any():
        k = int(np.argmax(turned))
        message = f"{system.name}: from {motion.time[k]:.4g} s on, loops are closed half a turn apart"
        raise WrongBranch(message, motion.first(k))
    crossed = _sign_changes(constraints["K"])
    if crossed.any():
        k = 1 + int(np.argmax(crossed.any(axis=1)))
        names = ", ".join(
            repr(system.directions[system.dependent[j]]) for j in np.flatnonzero(crossed[k - 1])
        )
        raise SingularPosition(
            f"{system.name}: just before {motion.time[k]:.4g} s it crossed a singular position, where "
            f"{names} do not follow from the independent joints; choose other independent joints",
            motion.first(k),
        )


def _sign_changes(K):
    """(count - 1, dependent): joints of those equations in K (count, dependent, dependent) whose determinant
    changes its sign since the previous step. Equations without common joints have separate determinants."""
    linked = np.eye(K.shape[1], dtype=bool) | (K != 0).any(axis=0)
    linked |= linked.T
    for _ in range(K.shape[1].bit_length()):
        linked = linked @ linked
    crossed = np.zeros((len(K) - 1, K.shape[1]), dtype=bool)
    for group in np.unique(linked, axis=0):
        signs = np.sign(np.linalg.det(K[:, group][:, :, group]))
        crossed[:, group] = (signs[1:] * signs[:-1] < 0)[:, None]
    return crossed
