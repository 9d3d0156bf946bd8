"""Topics: malformed, too large or too many messages."""

import math
import subprocess
import sys
import time
from pathlib import Path

from geometry_msgs.msg import WrenchStamped
from nav_msgs.msg import Odometry
from rig import floats, point, trajectory
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Imu, JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from campaigns.attacks.table import attack
from campaigns.target import Start

PANDA = [f"panda_joint{k}" for k in range(1, 8)] + ["panda_finger_joint1"]
STAMPS = (-(2**31), -1, 0, 1, 2**31 - 1)
FLOOD = 4.0  # s


def flood(target, kind, seconds=FLOOD, count=2):
    """Run processes that publish at the highest rate."""
    command = [sys.executable, str(Path(__file__).with_name("flooder.py")), kind, str(seconds)]
    floods = [
        subprocess.Popen([*command, *target.domain.remappings()], env=target.domain.environment())
        for _ in range(count)
    ]
    try:
        target.until(lambda: all(process.poll() is not None for process in floods), seconds + 60, "floods")
    finally:
        for process in floods:
            process.kill()
            process.wait()


@attack()
def flood_of_unknown_joints(target, random):
    """Joint states of unknown joints, from two processes."""
    flood(target, "unknown_joints")


@attack()
def flood_of_wrenches(target, random):
    """Wrenches on an unknown link, from two processes."""
    flood(target, "wrenches")


@attack()
def flood_of_references(target, random):
    """References of unknown joints, from two processes."""
    flood(target, "references")


@attack()
def many_different_names(target, random):
    """Joint states of 10 000 names, different in every message."""
    flood(target, "many_names", count=1)


@attack()
def a_duplicate_among_ten_thousand_names(target, random):
    """Joint states of 10 000 names with one duplicate."""
    flood(target, "duplicate_name", count=1)


@attack()
def malformed_joint_states(target, random):
    """NaN, infinities, unequal lengths, duplicate names, any stamps: each message must be dropped."""
    publisher = target.publisher(JointState, "joint_states")
    end = time.monotonic() + 3
    while time.monotonic() < end:
        for _ in range(20):
            publisher.publish(_malformed(random))
        target.spin(0.005)


def _malformed(random):
    message = JointState(name=list(PANDA), position=[random.uniform(-1, 1) for _ in PANDA])
    message.velocity = [0.0] * len(PANDA)
    kind = random.randrange(7)
    at = random.randrange(len(PANDA))
    if kind == 0:
        message.position[at] = random.choice([math.nan, math.inf, -math.inf])
    elif kind == 1:
        message.velocity = [0.0] * at + [0.0] * (at == 0)
    elif kind == 2:
        message.name[at] = message.name[at - 1]
    elif kind == 3:
        message.effort = [1.0]
    elif kind == 4:
        message.position = message.position[:at]
    elif kind == 5:
        message.name += [""] * 3
    else:
        message.name = [name * 10_000 for name in message.name]
        message.position = []
    message.header.stamp.sec = random.choice(STAMPS)
    message.header.stamp.nanosec = random.choice([0, 2**32 - 1])
    return message


@attack()
def a_reference_of_points_times_names(target, random):
    """100 000 unknown names and 100 000 empty points: 5 MB that would need 300 GB."""
    message = JointTrajectory(joint_names=[f"{k:x}" for k in range(100_000)])
    message.points = _empty_points(100_000)
    target.publisher(JointTrajectory, "dynamics_node/reference").publish(message)
    target.spin(3)


@attack()
def a_reference_with_a_name_twice(target, random):
    """30 000 names and one duplicate."""
    names = [f"{k:x}" for k in range(30_000)]
    publisher = target.publisher(JointTrajectory, "dynamics_node/reference")
    publisher.publish(JointTrajectory(joint_names=[*names, names[-1]], points=_empty_points(1)))
    target.spin(2)


@attack()
def long_references(target, random):
    """Five references of 50 000 empty points of known joints."""
    message = JointTrajectory(joint_names=list(PANDA), points=_empty_points(50_000))
    publisher = target.publisher(JointTrajectory, "dynamics_node/reference")
    for _ in range(5):
        publisher.publish(message)
        target.spin(0.5)


def _empty_points(count):
    points = [JointTrajectoryPoint() for _ in range(count)]
    for second, each in enumerate(points):
        each.time_from_start.sec = second
    return points


@attack()
def malformed_references(target, random):
    """No points, unequal lengths, decreasing times, NaN."""
    names = PANDA[:3]
    bad = (
        trajectory(names),
        trajectory(names, point(qdd=[1.0])),
        trajectory(names, point(qdd=[math.nan] * 3)),
        trajectory(names, point(1.0), point(0.5)),
        trajectory([names[0]] * 3, point(qdd=[1.0] * 3)),
        trajectory([], *[point(1.0)] * 3),
    )
    publisher = target.publisher(JointTrajectory, "dynamics_node/reference")
    for _ in range(50):
        publisher.publish(random.choice(bad))
        target.spin(0.02)


@attack()
def malformed_wrenches(target, random):
    """NaN and infinities on known and unknown links."""
    publisher = target.publisher(WrenchStamped, "dynamics_node/external_wrench")
    for _ in range(100):
        message = WrenchStamped()
        message.header.frame_id = random.choice(["panda_hand", "ee_link", "link7", "", "x" * 10_000])
        message.wrench.force.z = random.choice([math.nan, math.inf])
        publisher.publish(message)
        target.spin(0.01)


def imu_of_huge_gravity(target, random):
    file = target.folder / "sensors.yaml"
    file.write_text("sensors: [{type: imu, name: base, link: panda_link0, std: 0.1, topic: imu}]")
    return Start({"sensors_file": str(file), "gravity_sensor": "base", "on_stale": "gravity"})


@attack(start=imu_of_huge_gravity, started=True)
def an_imu_and_huge_gravity(target, random):
    """Gravity of 1e200 with gravity_sensor, whose norm overflows: rejected, or harmless."""
    target.until(lambda: "set_enabled" in str(_services(target)), 30, "the node's services")
    target.set(gravity=[0.0, 0.0, -1e200])
    publisher = target.publisher(Imu, "imu")
    message = Imu()
    message.linear_acceleration.z = 9.81
    message.orientation_covariance[0] = -1.0
    for _ in range(40):
        publisher.publish(message)
        target.spin(0.05)
    target.set(gravity=[0.0, 0.0, -9.81], gravity_sensor="", on_stale="silent")
    target.serves()


def _services(target):
    return target.client.node.get_service_names_and_types()


def in_simulated_time(target, random):
    return Start({"use_sim_time": True})


@attack(start=in_simulated_time)
def a_hostile_clock(target, random):
    """Negative, extreme and alternating seconds."""
    publisher = target.publisher(Clock, "/clock")
    for _ in range(30):
        message = Clock()
        message.clock.sec = random.choice([100, 50, *STAMPS])
        message.clock.nanosec = random.choice([0, 4_000_000_000, 2**32 - 1])
        publisher.publish(message)
        target.spin(0.05)


def on_a_floating_base(target, random):
    return Start({"floating_base": True}, robot=random.choice(["panda", "heavy", "ur5", "xarm7"]))


@attack(start=on_a_floating_base, started=True)
def malformed_odometry(target, random):
    """NaN, invalid quaternions and other frames. Valid messages are upright and at rest, so the torques are
    those of a fixed base."""
    publisher = target.publisher(Odometry, "odom")
    timer = target.client.node.create_timer(0.01, lambda: publisher.publish(_odometry(random)))
    target.serves()
    target.spin(2)
    target.serves()
    target.client.node.destroy_timer(timer)


def _odometry(random):
    message = Odometry(child_frame_id=random.choice(["", "", "nowhere"]))
    message.pose.pose.position.x = random.choice([0.0, 1.0, math.nan])
    message.pose.pose.orientation.w = random.choice([1.0, 1.0, 0.0, math.inf])
    message.twist.twist.linear.y = random.choice([0.0, 0.0, math.nan])
    return message


@attack()
def states_from_two_publishers(target, random):
    """A second driver is created and destroyed repeatedly."""
    for _ in range(4):
        publisher = target.client.node.create_publisher(JointState, "joint_states", 10)
        target.spin(0.3)
        for _ in range(50):
            publisher.publish(JointState(name=["a_stranger"], position=floats([1.0])))
            target.spin(0.005)
        target.client.node.destroy_publisher(publisher)
