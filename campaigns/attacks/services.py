"""Services: requests that are too large, make no sense, or whose sender is no more."""

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


def a_panda(target, random):
    return Start(robot="panda")


@attack(start=a_panda)
def a_request_of_points_times_names(target, random):
    """inverse_dynamics of 100 000 names and 100 000 empty points."""
    points = JointTrajectory(joint_names=[f"{k:x}" for k in range(100_000)], points=_empty_points(100_000))
    target.ask(InverseDynamics, "inverse_dynamics", InverseDynamics.Request(state=STATE, points=points))


@attack(start=a_panda)
def a_hundred_thousand_points(target, random):
    """inverse_dynamics of as many points as are allowed: the torques go on meanwhile, and are fresh."""
    request = InverseDynamics.Request(state=STATE, points=_moving(100_000))
    _answered(target.ask(InverseDynamics, "inverse_dynamics", request, 120))


def _moving(count):
    """So many points of the Panda, a millisecond apart."""
    points = [point(k * 1e-3, ZERO, ZERO, ZERO, ZERO) for k in range(count)]
    return JointTrajectory(joint_names=PANDA, points=points)


def _answered(response):
    """Raises Mute where a request that is allowed was not served."""
    if response is None or not response.success:
        raise Mute("not answered" if response is None else f"refused: {response.message}")


@attack(start=a_panda)
def ten_thousand_points_of_hybrid_dynamics(target, random):
    """hybrid_dynamics of 10 000 points."""
    points = JointTrajectory(
        joint_names=PANDA, points=[point(q=ZERO, qd=ZERO, qdd=ZERO, effort=ZERO)] * 10_000
    )
    request = HybridDynamics.Request(state=STATE, points=points, forward_joints=PANDA[:1])
    target.ask(HybridDynamics, "hybrid_dynamics", request, 120)


@attack(start=a_panda)
def one_link_three_hundred_times(target, random):
    """get_operational_space_inertia of the same link, 300 and 50 000 times."""
    for count in (300, 50_000):
        request = GetOperationalSpaceInertia.Request(state=STATE, links=["panda_hand"] * count)
        target.ask(GetOperationalSpaceInertia, "get_operational_space_inertia", request)


@attack(start=a_panda)
def strangers_in_requests(target, random):
    """A million joints and 100 000 links that the robot does not have."""
    joints = [f"j{k}" for k in range(1_000_000)]
    request = HybridDynamics.Request(state=STATE, forward_joints=joints)
    target.ask(HybridDynamics, "hybrid_dynamics", request)
    request = GetOperationalSpaceInertia.Request(state=STATE, links=joints[:100_000])
    target.ask(GetOperationalSpaceInertia, "get_operational_space_inertia", request)


@attack(start=a_panda)
def quantities_and_what_is_none(target, random):
    """get_quantity: second derivatives again and again, names of a megabyte, a million accelerations."""
    for _ in range(20):
        request = GetQuantity.Request(quantity="inverse_dynamics_second_derivatives", state=STATE)
        _answered(target.ask(GetQuantity, "get_quantity", request))
    long = "x" * 1_000_000
    for fields in (
        {"quantity": long},
        {"quantity": "frame_kinematics", "link": long},
        {"quantity": "operational_space_inertia_inverse", "links": [long] * 10},
        {"quantity": "nonlinear_effects", "accelerations": [math.nan] * 1_000_000},
    ):
        target.ask(GetQuantity, "get_quantity", GetQuantity.Request(state=STATE, **fields))


@attack()
def payloads_that_no_body_has(target, random):
    """Huge, infinite, negative, NaN: refused, or the torques are wrong or silent."""
    link = target.robot
    bad = [payload(link, mass) for mass in (1e308, math.inf, math.nan, -1.0)]
    bad += [payload(link, com=(1e200, 0.0, 0.0)), payload(link, moments=(1.0, 1.0, 3.0))]
    for request in random.sample(bad, len(bad)):
        target.ask(SetPayload, "set_payload", request)
        target.serves()
    target.ask(SetPayload, "set_payload", payload(link, 0))


@attack()
def payloads_on_and_off(target, random):
    """A good payload comes and goes: each torque has it or not."""
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
def peers_that_are_killed(target, random):
    """Processes that call and publish without pause, killed at random times."""
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
    """Eight requests under way together, half of them bad; a service queues ten."""
    client = target.client.node.create_client(GetMassMatrix, "dynamics_node/get_mass_matrix")
    target.until(client.service_is_ready, 20, "get_mass_matrix")
    for _ in range(10):
        futures = []
        for k in range(8):
            state = DynamicsState(joints=JointState(name=PANDA, position=ZERO[k % 2 :]))
            futures.append(client.call_async(GetMassMatrix.Request(state=state)))
        target.until(lambda all_=futures: all(future.done() for future in all_), 30, "answers")
    target.client.node.destroy_client(client)
