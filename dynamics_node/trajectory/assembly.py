"""Whether loops are closed at the start of a motion, and keep the way they are assembled."""

from functools import lru_cache

import numpy as np

from dynamics_node.algorithms.loop_closure import TURNED
from dynamics_node.functions import InputError
from dynamics_node.symbolic import Program, interpret, trace
from dynamics_node.trajectory.errors import InconsistentStart, SingularPosition, WrongBranch
from dynamics_node.trajectory.systems import System
from dynamics_node.trajectory.trajectory import Trajectory

OPEN = 1e-6  # m, rad or 1 that loops may be open at the start: what rounding in a file leaves
LENGTH = 1e-6  # that a quaternion may be off unit length


def closed_start(system: System, q, qd=None):
    """q (nq,) and qd (n,) of all directions, zero where they depend on others and nobody tells them, once
    they are found to be consistent. qd (nv,): of the independent directions, or (n,).

    Raises InputError, InconsistentStart, WrongBranch.
    """
    q = _vector("q", q, len(system.q.neutral))
    for name, at in system.robot.quaternions if system.robot else ():
        if abs(np.linalg.norm(q[at]) - 1.0) > LENGTH:
            raise InputError(f"the quaternion of {name!r} must be of unit length, not {q[at]}")
    found = interpret(start_program(system), q=q, qd=np.zeros(len(system.directions)))
    advice = "close_loops closes them" if system.robot else "give a closed position"
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


def refuse_turned(system: System, motion: Trajectory):
    """Raise, with the Trajectory before: WrongBranch where a loop is closed with its ends turned away,
    SingularPosition where a step went over a position at which the independent joints tell no others."""
    if not system.dependent or not len(motion):
        return
    rates = np.zeros(len(system.directions))
    found = interpret(start_program(system), q=motion.q, qd=rates)
    turned = found["turned"].max(axis=1, initial=0.0) > TURNED
    if turned.any():
        k = int(np.argmax(turned))
        message = f"{system.name}: from {motion.time[k]:.4g} s on loops are closed with ends turned away"
        raise WrongBranch(message, motion.first(k))
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
