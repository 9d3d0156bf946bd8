"""Latency and loss of ~/reference at the rate of a controller: each message is one point.

A controller publishes a reference and then its joint state, in every cycle. The acceleration of the first
joint numbers the reference, and ~/solution returns it, so each result names the reference that it used.
Latency is from the publication of a reference to the first result that used it. A reference is lost if no
result used it: a newer one overtook it, or it arrived after its joint state. The load has one core, the node
the other.
"""

import os
import signal
import subprocess
import sys
import time

import harness
import numpy as np
from node_latency import LOAD_CORE, NODE_CORE, SECONDS, WARM_UP, joint_names, longest_gap
from robots import robot_file

from dynamics_node.node.building.build_job import Job, do

RATES = (500, 1000)
ROUNDS = 3
UNIT = 1e-6  # rad/s^2 between consecutive references


def load(rate, robot="panda"):
    """Publish references and joint states at `rate` Hz. Print the latency (p50 and p99 in us), the number of
    references, of lost ones, and of the longest run of them."""
    import rclpy
    from rclpy.node import Node
    from sensor_msgs.msg import JointState
    from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

    from dynamics_node.node.ros.inputs import RELIABLE, SENSOR
    from dynamics_node.node.ros.running import Guard, make_executor

    rclpy.init()
    names, node = joint_names(robot), Node("load")
    states = node.create_publisher(JointState, "joint_states", SENSOR)
    references = node.create_publisher(JointTrajectory, "reference", RELIABLE)
    sent: dict[int, int] = {}  # number of a reference: ns of its publication
    used: dict[int, int] = {}  # number of a reference: ns of the first result
    number = 0
    counting = False

    def received(message):
        now = time.time_ns()
        acceleration = message.points[0].accelerations
        if len(acceleration):
            used.setdefault(round(acceleration[0] / UNIT), now)

    def publish():
        nonlocal number
        number += 1
        t = time.monotonic()
        q = [0.3 * np.sin(t + k) - (1.5 if k == 3 else 0) for k in range(len(names))]
        qd = [0.3 * np.cos(t + k) for k in range(len(names))]
        qdd = [number * UNIT, *[0.0] * (len(names) - 1)]
        point = JointTrajectoryPoint(positions=q, velocities=qd, accelerations=qdd)
        message = JointTrajectory(joint_names=names, points=[point])
        state = JointState(name=names, position=q, velocity=qd)
        now = time.time_ns()
        for stamped in (message, state):
            stamped.header.stamp.sec, stamped.header.stamp.nanosec = divmod(now, 1_000_000_000)
        references.publish(message)
        states.publish(state)
        if counting:
            sent[number] = now

    node.create_subscription(JointTrajectory, "solution", received, RELIABLE)
    executor = make_executor(Guard(node.get_logger().error))
    executor.add_node(node)
    timer = node.create_timer(1.0 / rate, publish)
    start = time.monotonic()
    while time.monotonic() < start + SECONDS:
        counting = time.monotonic() > start + WARM_UP
        executor.spin_once(timeout_sec=0.1)
    node.destroy_timer(timer)
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        executor.spin_once(timeout_sec=0.05)
    latencies = [used[k] - then for k, then in sent.items() if k in used]
    p50, p99 = np.percentile(latencies, (50, 99)) / 1e3 if latencies else (np.nan, np.nan)
    print(p50, p99, len(sent), len(sent.keys() - used.keys()), longest_gap(sent, used))


def measure(rate, robot="panda"):
    """p50 us, p99 us, lost references in %, longest run of them."""
    environment = {**os.environ, "ROS_DOMAIN_ID": "78"}
    joints = "joints:=[" + ",".join(joint_names(robot)) + "]"
    command = [
        sys.executable, "-m", "dynamics_node.node.main", "--ros-args", "-p", joints,
        "-p", f"robot_description_file:={robot_file(robot)}", "-p", "state_source:=reference",
        "-r", "~/reference:=reference", "-r", "~/solution:=solution",
    ]  # fmt: skip
    node = subprocess.Popen(command, env=environment)
    os.sched_setaffinity(node.pid, {NODE_CORE})
    time.sleep(2.0)
    run = subprocess.Popen(
        [sys.executable, __file__, "--load", str(rate)], env=environment, stdout=subprocess.PIPE, text=True
    )
    os.sched_setaffinity(run.pid, {LOAD_CORE})
    out, _ = run.communicate(timeout=60)
    node.send_signal(signal.SIGINT)
    node.wait(timeout=10)
    p50, p99, sent, lost, gap = map(float, out.split())
    return p50, p99, 100 * lost / sent, gap


def main():
    parser = harness.arguments("reference_latency")
    parser.add_argument("--load", type=int, help="run the load at this rate")
    options = parser.parse_args()
    if options.load:
        load(options.load)
        return
    do(
        Job(robot_file("panda").read_text(), {"joints": tuple(joint_names("panda"))}, "inverse")
    )  # fills the cache
    rows = []
    for rate in RATES:
        p50, p99, lost, gap = np.median([measure(rate) for _ in range(ROUNDS)], axis=0).tolist()
        at = f"Panda 7-dof, reference at {rate} Hz"
        rows += [
            harness.Row(f"{at}: median", p50, "us", "lower"),
            harness.Row(f"{at}: p99", p99, "us", "lower"),
            harness.Row(f"{at}: lost", lost, "%", "lower", target=1),
            harness.Row(f"{at}: lost in a row", gap, "points", "lower", target=2),
        ]
    package_versions = harness.versions("numpy", "ros-rclpy", "ros-rmw-fastrtps-cpp")
    harness.finish("reference_latency", rows, package_versions, options.save)


if __name__ == "__main__":
    main()
