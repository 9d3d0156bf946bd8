"""Services: too large or invalid requests, and requests of killed clients."""

import math
import subprocess
import sys

from dynamics_interfaces.msg import DynamicsState
from dynamics_interfaces.srv import (
    GetMassMatrix,
    GetOperationalSpaceInertia,
    GetQuantity,
    HybridDynamics,
    InverseDynamics,
    SetPayload,
)
from rig import point
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from campaigns.attacks.messages import PANDA, _empty_points
from campaigns.attacks.table import attack
from campaigns.references import Configuration, payload
from campaigns.target import Mute, Start

ZERO = [0.0] * len(PANDA)
STATE = DynamicsState(joints=JointState(name=PANDA, position=ZERO, velocity=ZERO))


def panda_start(target, random):
    return Start(robot="panda")


@attack(start=panda_start)
def a_request_of_points_times_names(target, random):
    """inverse_dynamics of 100 000 names and 100 000 empty points."""
    points = JointTrajectory(joint_names=[f"{k:x}" for k in range(100_000)], points=_empty_points(100_000))
    target.ask(InverseDynamics, "inverse_dynamics", InverseDynamics.Request(state=STATE, points=points))


@attack(start=panda_start)
def a_hundred_thousand_points(target, random):
    """inverse_dynamics of the largest number of points: torques continue and are fresh."""
    request = InverseDynamics.Request(state=STATE, points=_points(100_000))
    _require_success(target.ask(InverseDynamics, "inverse_dynamics", request, 120))


def _points(count):
    """A trajectory of `count` points of the Panda, 1 ms apart."""
    points = [point(k * 1e-3, ZERO, ZERO, ZERO, ZERO) for k in range(count)]
    return JointTrajectory(joint_names=PANDA, points=points)


def _require_success(response):
    """Raise Mute unless a valid request succeeded."""
    if response is None or not response.success:
        raise Mute("not answered" if response is None else f"rejected: {response.message}")


@attack(start=panda_start)
def ten_thousand_points_of_hybrid_dynamics(target, random):
    """hybrid_dynamics of 10 000 points."""
    points = JointTrajectory(
        joint_names=PANDA, points=[point(q=ZERO, qd=ZERO, qdd=ZERO, effort=ZERO)] * 10_000
    )
    request = HybridDynamics.Request(state=STATE, points=points, forward_joints=PANDA[:1])
    target.ask(HybridDynamics, "hybrid_dynamics", request, 120)


@attack(start=panda_start)
def one_link_three_hundred_times(target, random):
    """get_operational_space_inertia of the same link, 300 and 50 000 times."""
    for count in (300, 50_000):
        request = GetOperationalSpaceInertia.Request(state=STATE, links=["panda_hand"] * count)
        target.ask(GetOperationalSpaceInertia, "get_operational_space_inertia", request)


@attack(start=panda_start)
def unknown_names_in_requests(target, random):
    """A million unknown joints and 100 000 unknown links."""
    joints = [f"j{k}" for k in range(1_000_000)]
    request = HybridDynamics.Request(state=STATE, forward_joints=joints)
    target.ask(HybridDynamics, "hybrid_dynamics", request)
    request = GetOperationalSpaceInertia.Request(state=STATE, links=joints[:100_000])
    target.ask(GetOperationalSpaceInertia, "get_operational_space_inertia", request)


@attack(start=panda_start)
def extreme_quantity_requests(target, random):
    """get_quantity: repeated second derivatives, names of a megabyte, a million accelerations."""
    for _ in range(20):
        request = GetQuantity.Request(quantity="inverse_dynamics_second_derivatives", state=STATE)
        _require_success(target.ask(GetQuantity, "get_quantity", request))
    long = "x" * 1_000_000
    for fields in (
        {"quantity": long},
        {"quantity": "frame_kinematics", "link": long},
        {"quantity": "operational_space_inertia_inverse", "links": [long] * 10},
        {"quantity": "nonlinear_effects", "accelerations": [math.nan] * 1_000_000},
    ):
        target.ask(GetQuantity, "get_quantity", GetQuantity.Request(state=STATE, **fields))


@attack()
def invalid_payloads(target, random):
    """Huge, infinite, negative and NaN payloads: they must be rejected."""
    link = target.robot
    bad = [payload(link, mass) for mass in (1e308, math.inf, math.nan, -1.0)]
    bad += [payload(link, com=(1e200, 0.0, 0.0)), payload(link, moments=(1.0, 1.0, 3.0))]
    for request in random.sample(bad, len(bad)):
        target.ask(SetPayload, "set_payload", request)
        target.serves()
    target.ask(SetPayload, "set_payload", payload(link, 0))


@attack()
def payloads_on_and_off(target, random):
    """A valid payload is attached and removed: each torque is with or without it."""
    without, loaded = Configuration(target.robot), Configuration(target.robot, True)
    for _ in range(5):
        for wanted, mass in ((loaded, payload(target.robot)), (without, payload(target.robot, 0))):
            target.watch.allow(without, loaded)
            if target.ask(SetPayload, "set_payload", mass) is None:
                raise Mute("set_payload is not answered")
            target.serves(wanted)
            target.watch.allow(wanted)
            target.spin(random.uniform(0, 0.3))


CALLER = """
import rclpy, sys
from rclpy.node import Node
from dynamics_interfaces.srv import GetMassMatrix
from sensor_msgs.msg import JointState
rclpy.init(args=sys.argv)
node = Node("caller")
states = node.create_publisher(JointState, "joint_states", 10)
node.create_subscription(JointState, "dynamics_node/joint_torques", lambda message: None, 10)
client = node.create_client(GetMassMatrix, "dynamics_node/get_mass_matrix")
while True:
    states.publish(JointState(name=["a"], position=[0.0]))
    client.call_async(GetMassMatrix.Request())
    rclpy.spin_once(node, timeout_sec=0.01)
"""


@attack()
def killed_clients(target, random):
    """Processes that call and publish continuously are killed at random times."""
    for _ in range(3):
        peers = [
            subprocess.Popen(
                [sys.executable, "-c", CALLER, *target.domain.remappings()], env=target.domain.environment()
            )
            for _ in range(2)
        ]
        try:
            target.spin(random.uniform(1.0, 2.5))
        finally:
            for peer in peers:
                peer.kill()
                peer.wait()


@attack()
def requests_of_every_kind_at_once(target, random):
    """Eight concurrent requests, half of them invalid; a service queues ten."""
    client = target.client.node.create_client(GetMassMatrix, "dynamics_node/get_mass_matrix")
    target.until(client.service_is_ready, 20, "get_mass_matrix")
    for _ in range(10):
        futures = []
        for k in range(8):
            state = DynamicsState(joints=JointState(name=PANDA, position=ZERO[k % 2 :]))
            futures.append(client.call_async(GetMassMatrix.Request(state=state)))
        target.until(lambda all_=futures: all(future.done() for future in all_), 30, "answers")
    target.client.node.destroy_client(client)
