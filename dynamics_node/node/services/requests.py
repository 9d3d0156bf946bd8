"""States and points of service requests as arrays."""

from typing import Any, NamedTuple

import numpy as np
from builtin_interfaces.msg import Time

from dynamics_node.errors import InputError
from dynamics_node.io.motion_files import JointLimits
from dynamics_node.node.core.dynamics_core import Core
from dynamics_node.node.errors import BadMessage, NoOutput
from dynamics_node.node.ros.messages import accel_numbers, pose_numbers, twist_numbers
from dynamics_node.node.state.active_contacts import flags_of
from dynamics_node.node.state.joint_memory import (
    LARGEST,
    JointMemory,
    impossible,
    possible,
    require_few,
    require_once,
    require_possible,
)
from dynamics_node.node.state.reference import read_points
from dynamics_node.node.state.robot_state import Base
from dynamics_node.text import listed

# fields of a request
LIMITS = ("max_velocity", "max_acceleration", "max_deceleration", "max_jerk", "max_effort", "max_effort_rate")


class RequestedState(NamedTuple):
    """position, velocity and effort of the scalar joints, NaN if unknown, and the floating base.

    why: the reason for the absence of a measured state.
    """

    position: np.ndarray
    velocity: np.ndarray
    effort: np.ndarray
    base: Base | None
    why: str = ""


class RequestedStates(NamedTuple):
    """q (k, nq), qd, qdd (k, nv) of k points; efforts (k, joints), NaN if unknown. times: k Durations."""

    q: np.ndarray
    qd: np.ndarray
    qdd: np.ndarray
    efforts: np.ndarray
    times: list


def read_state(core: Core, message, now, complete=True) -> RequestedState:
    """The state of a DynamicsState; without joints, the latest measured state.

    complete: whether the measured state is required; if not, its absence gives NaN. Raises BadMessage and
    NoOutput.
    """
    why = ""
    core.state.require_supported()
    if message.joints.name:
        position, velocity, effort = _given_joints(core, message.joints, now)
    else:
        try:
            (position, velocity), effort = core.state.joints_now(now), core.joints.effort
        except NoOutput as reason:
            if complete:
                raise
            position = effort = np.full(len(core.joints.names), np.nan)
            velocity = np.full(len(core.joints.names), 0.0 if core.joints.missing() else np.nan)
            why = reason.with_remedy
    return RequestedState(position, velocity, effort, _base(core, message, now), why)


def read_vectors(core: Core, message, now):
    """q (nq,) and qd (nv,) of a DynamicsState with closed loops. Raises the errors of `read_state`, and
    SolutionError if loops are singular."""
    state = read_state(core, message, now)
    q, qd = core.state.vectors(state.position, state.velocity, state.base)
    core.coordinates.require_regular(q)
    return q, qd


def read_accelerations(core: Core, names, values):
    """qdd (nv,) of the accelerations of the joints `names`, zero if empty. Entries of dependent joints are
    ignored. Raises BadMessage."""
    qdd = np.zeros(core.model.nv)
    if not len(values):
        return qdd
    if len(values) != len(names):
        raise BadMessage(f"{len(names)} names in state.joints but {len(values)} entries in accelerations")
    at, given = core.coordinates, dict(zip(names, values, strict=True))
    entries = np.array([given[name] for name in at.independent_names], dtype=float)
    if not possible(entries).all():
        bad = int(np.flatnonzero(~possible(entries))[0])
        raise BadMessage(f"acceleration of {at.independent_names[bad]!r} is {impossible(entries[bad])}")
    qdd[at.independent_v] = entries
    return qdd


def read_active(core: Core, names):
    """Flags (contacts,) of the active contacts of a request, None without names. Raises BadMessage."""
    if not names:
        return None
    if core.contacts is None:
        raise BadMessage("active_contacts: there are no contacts, set the parameter contacts_file")
    require_few(names)
    require_once(names, "contact")
    try:
        return flags_of(core.active.names, names)
    except InputError as error:
        raise BadMessage(f"active_contacts: {error}") from None


def with_base_accelerations(core: Core, qdd, accelerations):
    """qdd (k, nv) with the Accels of the floating base: none, one, or k. Raises BadMessage."""
    if not accelerations:
        return qdd
    if not core.model.floating_base:
        raise BadMessage("base_accelerations: the robot has no floating base")
    if len(accelerations) not in (1, len(qdd)):
        raise BadMessage(f"{len(qdd)} points but {len(accelerations)} entries in base_accelerations")
    values = np.array([accel_numbers(accel) for accel in accelerations])
    if not possible(values).all():
        bad = int(np.flatnonzero(~possible(values).all(axis=1))[0])
        raise BadMessage(f"entry {bad} of base_accelerations is not finite, or above {LARGEST:g}")
    qdd = qdd.copy()
    qdd[:, :6] = values
    return qdd


def read_links(core: Core, links):
    """Links of a request, by default those of the parameter tip_links. Raises BadMessage."""
    links = list(links) or list(core.settings.tip_links)
    if not links:
        raise BadMessage("no links: list them in the request or in the parameter tip_links")
    if len(links) > len(core.model.frames):
        raise BadMessage(f"{len(links)} links in the request; the robot has {len(core.model.frames)}")
    require_once(links, "link")
    return links


def read_limits(core, request) -> JointLimits:
    """Limits of the request, whose type may lack some fields, and those of the parameters effort_limits_list
    and limits_file. Raises BadMessage."""
    limits: dict[str, Any] = {name: dict(entries) for name, entries in core.unloaded.limits.items()}
    for name in request.limited_joints:
        limits.setdefault(name, {})
    for field in LIMITS:
        values, count = getattr(request, field, ()), len(request.limited_joints)
        if len(values) not in (0, count):
            raise BadMessage(f"{count} limited_joints but {len(values)} entries in {field}")
        for name, value in zip(request.limited_joints, values, strict=False):
            _tighten(limits[name], field, value)
    if core.settings.effort_limits == "list":
        moving = set(core.model.v_names)
        for name, value in zip(core.coordinates.names, core.settings.effort_limits_list, strict=True):
            if name in moving and value > 0:
                _tighten(limits.setdefault(name, {}), "max_effort", value)
    return limits


def _tighten(entries, field, value):
    """Limit an entry by a magnitude; max_effort is one of both signs only without min_effort."""
    entries[field] = min(value, entries.get(field, np.inf))
    if field == "max_effort" and "min_effort" in entries:
        entries["min_effort"] = max(-value, entries["min_effort"])


def read_stamp(core: Core, message) -> Time:
    """Stamp of a DynamicsState: its own, or that of the newest measured joint."""
    if message.joints.name:
        return message.joints.header.stamp
    seconds, rest = divmod(core.joints.newest, 1_000_000_000)
    return Time(sec=seconds, nanosec=rest)


def _given_joints(core, joints, now):
    memory = JointMemory(core.coordinates.joints, core.coordinates.independent)
    memory.update(joints.name, joints.position, joints.velocity, joints.effort, 0, now)
    if missing := memory.missing():
        raise BadMessage(f"the state lacks joint {listed(missing)}")
    for what, values in (("velocity", memory.velocity), ("effort", memory.effort)):
        require_possible(what, memory.names, values)
    velocity = memory.velocity if len(joints.velocity) else np.zeros(len(memory.names))
    if absent := memory.joints_without(velocity):
        raise BadMessage(f"the state has velocity NaN for {listed(absent)}")
    return memory.position, velocity, memory.effort


def _base(core, message, now):
    if core.model.floating_base and message.has_base:
        return core.state.read_base(
            pose_numbers(message.base_pose), twist_numbers(message.base_twist), 0, now
        )
    return core.state.base_now(now)


def read_batch(core: Core, message, points, now) -> RequestedStates:
    """The state of a request, overridden by entries of its points. Raises BadMessage and NoOutput, also if
    neither has a position."""
    state = read_state(core, message, now, complete=not points.points)
    defaults = (state.position, state.velocity, np.zeros_like(state.position), state.effort)
    if not points.points:
        return _batch(core, [field[None] for field in defaults], state, [None])
    target = _joint_numbers(core, points.joint_names)
    _, table = read_points(points.joint_names, points.points)
    fields = [_overridden(default, target, given) for default, given in zip(defaults, table, strict=True)]
    not_given = np.ones(fields[0].shape, dtype=bool)
    if table[0].size:
        not_given[:, target] = np.isnan(table[0])
    fields[0] = core.coordinates.forget(fields[0], not_given)
    return _batch(core, fields, state, [point.time_from_start for point in points.points])


def _batch(core, fields, state, times):
    """States of positions, velocities, accelerations and efforts (k, joints)."""
    positions, *rates, efforts = fields
    at, count = core.coordinates, len(positions)
    require_known(at.independent_names, positions[:, at.independent], "position", state.why)
    require_known(at.independent_names, rates[0][:, at.independent], "velocity", state.why)
    q = np.zeros((count, core.model.nq))
    q[:, at.q_at[: at.counted]] = positions[:, : at.counted]
    qd, qdd = np.zeros((2, count, core.model.nv))
    for coordinates, given in zip((qd, qdd), rates, strict=True):
        coordinates[:, at.independent_v] = given[:, at.independent]
    if state.base is not None:
        q[:, :7], qd[:, :6] = state.base.pose, state.base.twist
    return RequestedStates(at.close_all(q), qd, qdd, efforts, times)


def known_torques(core, batch, forward):
    """tau (k, nv) of a batch; forward (nv,) bool: coordinates that need an effort. Raises BadMessage with
    the joints whose effort is unknown."""
    at = core.coordinates
    needed = at.efforts_needed(forward)
    require_known([at.names[k] for k in needed], batch.efforts[:, needed], "effort")
    return at.collect(batch.q, np.nan_to_num(batch.efforts))


def require_known(names, table, what, why=""):
    """Raise BadMessage with the names whose column of a table (k, names) has a number that is not
    `possible`. why: reason of the state."""
    if not (known := possible(table)).all():
        missing = [names[k] for k in np.flatnonzero(~known.all(axis=0))]
        reason = f" ({why})" if why else ""
        raise BadMessage(f"neither points nor state have the {what} of {listed(missing)}{reason}")


def _joint_numbers(core, names):
    require_few(names)
    number = {name: k for k, name in enumerate(core.joints.names)}
    if unknown := [name for name in names if name not in number]:
        raise BadMessage(f"points have unknown joint {listed(unknown)}")
    return np.array([number[name] for name in names], dtype=int)


def _overridden(default, columns, given):
    """The default row for every point, overridden in `columns` by entries that are not NaN."""
    rows = np.tile(default, (len(given), 1))
    if given.size:
        rows[:, columns] = np.where(np.isnan(given), rows[:, columns], given)
    return rows
