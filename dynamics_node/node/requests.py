"""What a service request asks about: its state and its points as arrays."""

from typing import NamedTuple

import numpy as np

from dynamics_node.node.core import Core, listed, read_base
from dynamics_node.node.joint_memory import BadMessage, JointMemory
from dynamics_node.node.messages import pose_numbers, twist_numbers
from dynamics_node.node.reference import read_points


class State(NamedTuple):
    """q (nq,), qd (nv,), and effort over the scalar joints; NaN where nobody knows."""

    q: np.ndarray
    qd: np.ndarray
    effort: np.ndarray


class Batch(NamedTuple):
    """q (k, nq), qd, qdd, tau (k, nv) of k points; tau is NaN where nobody knows. times: k Durations."""

    q: np.ndarray
    qd: np.ndarray
    qdd: np.ndarray
    tau: np.ndarray
    times: list


def read_state(core: Core, message, now, complete=True) -> State:
    """State of a DynamicsState; without joints the latest measured one.

    complete: refuse a state without joints when there is no measured one; else they are NaN.
    Raises BadMessage and Silence.
    """
    if message.joints.name:
        position, velocity, effort = _given_joints(core, message.joints, now)
    elif complete or not core.joints.missing():
        (position, velocity), effort = core.measured_joints(now), core.joints.effort
    else:
        position = effort = np.full(len(core.q_at), np.nan)
        velocity = np.zeros(len(core.q_at))
    return State(*core.vectors(position, velocity, _base(core, message, now)), effort)


def _given_joints(core, joints, now):
    memory = JointMemory(core.model)
    memory.update(joints.name, joints.position, joints.velocity, joints.effort, 0, now)
    if missing := memory.missing():
        raise BadMessage(f"state without joint {listed(missing)}")
    velocity = memory.velocity if len(joints.velocity) else np.zeros(len(core.q_at))
    if absent := memory.without(velocity):
        raise BadMessage(f"state with velocity NaN of {listed(absent)}")
    return memory.position, velocity, memory.effort


def _base(core, message, now):
    if core.model.floating_base and message.has_base:
        return read_base(pose_numbers(message.base_pose), twist_numbers(message.base_twist), 0, now)
    return core.fresh_base(now)


def read_batch(core: Core, message, points, now) -> Batch:
    """The state of a request, overridden by its points where they have entries. Raises BadMessage and
    Silence, also when neither gives a position."""
    state = read_state(core, message, now, complete=not points.points)
    zero, tau = np.zeros(core.model.nv), np.zeros(core.model.nv)
    tau[core.v_at] = state.effort
    if not points.points:
        return Batch(state.q[None], state.qd[None], zero[None], tau[None], [None])
    _, table = read_points(points.joint_names, points.points)
    target = _joint_numbers(core, points.joint_names)
    defaults = ((state.q, core.q_at), (state.qd, core.v_at), (zero, core.v_at), (tau, core.v_at))
    q, qd, qdd, tau = (
        _overridden(default, at[target], given) for (default, at), given in zip(defaults, table, strict=True)
    )
    require_known(core, q[:, core.q_at], "position")
    return Batch(q, qd, qdd, tau, [point.time_from_start for point in points.points])


def require_known(core, table, what):
    """Raise BadMessage naming the joints with a NaN in a (k, joints) table."""
    if np.isnan(table).any():
        lacking = [core.joints.names[k] for k in np.flatnonzero(np.isnan(table).any(axis=0))]
        raise BadMessage(f"neither points nor state give the {what} of {listed(lacking)}")


def _joint_numbers(core, names):
    number = {name: k for k, name in enumerate(core.joints.names)}
    if unknown := [name for name in names if name not in number]:
        raise BadMessage(f"points name unknown joint {listed(unknown)}")
    return np.array([number[name] for name in names], dtype=int)


def _overridden(default, columns, given):
    """The default as a row for every point, with what is given (NaN: not) in its columns."""
    rows = np.tile(default, (len(given), 1))
    rows[:, columns] = np.where(np.isnan(given), rows[:, columns], given)
    return rows
