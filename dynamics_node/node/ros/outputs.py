"""The published topics: one row each."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from builtin_interfaces.msg import Time
from dynamics_interfaces.msg import ContactWrenches
from geometry_msgs.msg import WrenchStamped
from rclpy.node import Node
from rclpy.qos_overriding_options import QoSOverridingOptions
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray
from trajectory_msgs.msg import JointTrajectory

from dynamics_node.algorithms import Actuation
from dynamics_node.node.core.dynamics_core import Core
from dynamics_node.node.ros.inputs import RELIABLE
from dynamics_node.node.ros.messages import (
    doubles,
    plain_wrench,
    point_message,
    torque_message,
    trajectory_message,
    wrench_message,
)

Write = Callable[[Any, Time], Iterable[Any]]  # of a result and a stamp


def _always(core) -> bool:
    """Published for every robot."""
    return True


class Output(NamedTuple):
    """A topic.

    writer(core): called once for a robot and its settings; returns write(result, stamp), which returns
    messages. wanted(core): whether it is published for them; on_demand: only while it has subscriptions.
    """

    topic: str
    kind: type
    writer: Callable[[Core], Write]
    wanted: Callable[[Core], bool] = _always
    on_demand: bool = False


# --- of a Result --------------------------------------------------------------------------------------------


def _efforts(core, names, values):
    """A writer of efforts. values(result): in the order of names."""
    message = torque_message(names, core.model.base_link)

    def write(result, stamp):
        message.header.stamp = stamp
        message.effort = doubles(values(result))
        return (message,)

    return write


def _torques(core):
    at = core.coordinates.v_at
    return _efforts(core, core.joints.names, lambda result: result.tau[at])


def _commands(core):
    at = core.coordinates.v_at[core.command_index]
    return lambda result, stamp: (Float64MultiArray(data=doubles(result.tau[at])),)


def _is_command(core):
    return core.command_index.size > 0 and core.kind in ("inverse", "hybrid")


def _solution(core):
    names, frame = list(core.joints.names), core.model.base_link
    q_at, at = core.coordinates.q_at, core.coordinates.v_at

    def write(result, stamp):
        point = point_message(result.q[q_at], result.qd[at], result.qdd[at], result.tau[at])
        return (trajectory_message(names, [point], (stamp, frame)),)

    return write


def _gravity_torques(core):
    at = core.coordinates.independent_v
    return _efforts(core, core.coordinates.independent_names, lambda result: core.weights(result.q)[at])


def _motor_torques(core):
    model, names = core.model, [actuator.name for actuator in core.model.actuators]
    motors = Actuation(model, names)

    def torques(result):
        return motors.from_coordinates(result.q[: model.nq], result.tau[model.independent]).torques

    write_efforts = _efforts(core, names, torques)

    def write(result, stamp):
        messages = write_efforts(result, stamp)
        return messages if np.isfinite(messages[0].effort).all() else ()

    return write


def _has_motors(core):
    return bool(core.model.actuators) and not core.settings.driven_joints


def _estimated_wrenches(core):
    """A writer with one message per link."""
    return lambda result, stamp: (
        wrench_message(estimate.wrench, estimate.link, stamp) for estimate in result.wrenches
    )


def _contact_wrenches(core):
    """A writer that stores the names, which are the same in every message."""
    contacts, frame, nq = core.contacts, core.model.base_link, core.model.nq
    message = ContactWrenches(names=list(core.active.names))
    message.header.frame_id = frame

    def write(result, stamp):
        if (loads := result.loads) is None:  # of on_stale zero
            return ()
        wrenches = contacts.wrenches(result.q[:nq], loads.forces)
        message.header.stamp, message.active = stamp, loads.active.astype(bool).tolist()
        message.wrenches = [wrench_message(wrench.on_link, wrench.link, stamp) for wrench in wrenches]
        message.components = [plain_wrench(wrench.components) for wrench in wrenches]
        return (message,)

    return write


def _base_residual(core):
    base = core.model.tree.bodies[0].name

    def write(result, stamp):
        return () if result.loads is None else (wrench_message(result.loads.residual, base, stamp),)

    return write


def _has_contacts(core):
    return core.contacts is not None


OUTPUTS = (
    Output("~/joint_torques", JointState, _torques),
    Output("~/effort_commands", Float64MultiArray, _commands, _is_command),
    Output("~/solution", JointTrajectory, _solution, on_demand=True),
    Output("~/gravity_torques", JointState, _gravity_torques, on_demand=True),
    Output("~/motor_torques", JointState, _motor_torques, _has_motors, on_demand=True),
    Output("~/estimated_wrenches", WrenchStamped, _estimated_wrenches, lambda core: core.sensors is not None),
    Output("~/contact_wrenches", ContactWrenches, _contact_wrenches, _has_contacts),
    Output("~/base_residual", WrenchStamped, _base_residual, _has_contacts),
)


# --- of a ContactEstimate -----------------------------------------------------------------------------------

ESTIMATED_CONTACTS = (Output("~/estimated_contacts", ContactWrenches, _contact_wrenches, _has_contacts),)


# --- of an ExternalTorque -----------------------------------------------------------------------------------


def _external_torques(core):
    at = core.coordinates.independent_v
    return _efforts(core, core.coordinates.independent_names, lambda torque: torque.torques[at])


def _external_wrench(core):
    def write(torque, stamp):
        estimate = torque.wrench
        return () if estimate is None else (wrench_message(estimate.wrench, estimate.link, stamp),)

    return write


EXTERNAL_TORQUES = (
    Output("~/external_torques", JointState, _external_torques),
    Output(
        "~/external_wrench_estimate",
        WrenchStamped,
        _external_wrench,
        lambda core: bool(core.settings.observer_link),
    ),
    Output("~/contact", Bool, lambda core: lambda torque, stamp: (Bool(data=torque.contact),)),
)


# --- of a compensated reading of the force/torque sensor ----------------------------------------------------

READINGS = (
    Output(
        "~/compensated_wrench",
        WrenchStamped,
        lambda core: lambda reading, stamp: (wrench_message(reading.numbers, reading.frame, stamp),),
    ),
)


class Outputs:
    """Publishers of rows."""

    def __init__(self, node: Node, rows: tuple[Output, ...]):
        self._rows = rows
        self._publishers = [_publisher(node, row) for row in rows]
        self._writers: list[tuple[Any, bool, Write]] = []  # publishers, whether on demand, and writers
        self._robot_and_settings: tuple = (None, None)

    def publish(self, core: Core, result: Any, stamp: Time):
        """Publish the wanted topics of a result; stamp: of its input."""
        robot, settings = self._robot_and_settings
        if core.unloaded is not robot or core.settings is not settings:
            rows = zip(self._rows, self._publishers, strict=True)
            self._writers = [(p, row.on_demand, row.writer(core)) for row, p in rows if row.wanted(core)]
            self._robot_and_settings = core.unloaded, core.settings
        for publisher, on_demand, write in self._writers:
            if not on_demand or publisher.get_subscription_count():
                for message in write(result, stamp):
                    publisher.publish(message)


def _publisher(node, row):
    options = QoSOverridingOptions.with_default_policies()
    return node.create_publisher(row.kind, row.topic, RELIABLE, qos_overriding_options=options)
