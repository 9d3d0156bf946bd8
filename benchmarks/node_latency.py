"""Latency from JointState to torque, against an echo node with the same executor, QoS and types, in the same
run. Also the largest age of an input, see freshness.py; with --trace the parts of long cycles, see
node_cycles.py.

Latency is from the stamp, just before publication, to reception at the consumer. The load (publisher and
consumer) has one core, the node under test the other. The node skips states that a newer one overtakes, while
the echo node answers all. Rows list the share of states without an answer within a period, and the longest
run of such states, of both.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import freshness
import harness
import numpy as np
from robots import PANDA, robot_file

from dynamics_node.node.building.build_job import Job, do
from dynamics_node.robot import load_robot

SECONDS, WARM_UP = 9.0, 3.0
ROUNDS = 3  # alternating; medians reduce the influence of a shared machine
CASES = (("panda", 500), ("panda", 1000), ("talos", 500))
TITLE = {"panda": "Panda 7-dof", "talos": "Talos 32-dof"}
NODE_CORE, LOAD_CORE = 0, 1


def echo(topic):
    """Run the echo node: it publishes a JointState with efforts for every JointState."""
    from rclpy.node import Node
    from sensor_msgs.msg import JointState

    from dynamics_node.node.ros.inputs import RELIABLE, SENSOR
    from dynamics_node.node.ros.running import run, start_rclpy

    stop = start_rclpy()
    node = Node("echo")
    publisher = node.create_publisher(JointState, topic, RELIABLE)

    def answer(message):
        reply = JointState(header=message.header, name=message.name, effort=message.position)
        publisher.publish(reply)

    node.create_subscription(JointState, "joint_states", answer, SENSOR)
    run(node, stop)


def joint_names(name):
    return PANDA if name == "panda" else list(load_robot(robot_file(name)).joint_names)


def load(rate, robot):
    """Publish a robot's joint states at `rate` Hz and print latencies (us) and counts."""
    import rclpy
    from rclpy.node import Node
    from sensor_msgs.msg import JointState

    from dynamics_node.node.ros.inputs import RELIABLE, SENSOR
    from dynamics_node.node.ros.running import Guard, make_executor

    rclpy.init()
    names = joint_names(robot)
    numbers = range(len(names))
    node, latencies, sent, answered = Node("load"), [], [], set()
    publisher = node.create_publisher(JointState, "joint_states", SENSOR)
    clock = time.time_ns
    counting = False

    def received(message):
        now = clock()
        stamp = message.header.stamp
        then = stamp.sec * 1_000_000_000 + stamp.nanosec
        if counting:
            latencies.append(now - then)
            if now - then <= 1_000_000_000 / rate:
                answered.add(then)

    def publish():
        t = time.monotonic()
        message = JointState(
            name=names,
            position=[0.3 * np.sin(t + k) - (1.5 if k == 3 else 0) for k in numbers],
            velocity=[0.3 * np.cos(t + k) for k in numbers],
        )
        now = clock()
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(now, 1_000_000_000)
        publisher.publish(message)
        if counting:
            sent.append(now)

    node.create_subscription(JointState, "torques", received, RELIABLE)
    executor = make_executor(Guard(node.get_logger().error))
    executor.add_node(node)
    node.create_timer(1.0 / rate, publish)
    start = time.monotonic()
    while time.monotonic() < start + SECONDS:
        counting = time.monotonic() > start + WARM_UP
        executor.spin_once(timeout_sec=0.1)
    counting, stop = True, time.monotonic() + 0.3
    node.destroy_timer(next(iter(node.timers)))
    while time.monotonic() < stop:
        executor.spin_once(timeout_sec=0.05)
    p50, p99 = np.percentile(latencies, (50, 99)) / 1e3 if latencies else (np.nan, np.nan)
    print(p50, p99, len(sent), len(set(sent) - answered), longest_gap(sent, answered))


def longest_gap(sent, answered):
    """The largest number of states in a row without an answer within a period."""
    longest = current = 0
    for stamp in sent:
        current = 0 if stamp in answered else current + 1
        longest = max(longest, current)
    return longest


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(command, rate, robot):
    """p50 us, p99 us, late states in %, longest run of them, CPU % of the node under test."""
    environment = {**os.environ, "ROS_DOMAIN_ID": "77"}
    node = subprocess.Popen(command, env=environment)
    os.sched_setaffinity(node.pid, {NODE_CORE})
    time.sleep(2.0)
    begin, at = cpu_seconds(node.pid), time.monotonic()
    run = subprocess.Popen(
        [sys.executable, __file__, "--load", str(rate), "--robot", robot],
        env=environment, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    os.sched_setaffinity(run.pid, {LOAD_CORE})
    out, _ = run.communicate(timeout=60)
    cpu = 100 * (cpu_seconds(node.pid) - begin) / (time.monotonic() - at)
    node.send_signal(signal.SIGINT)
    node.wait(timeout=10)
    p50, p99, sent, late, gap = map(float, out.split())
    over = f"late {late:.0f} of {sent:.0f}, {gap:.0f} in a row"
    print(f"  {command[-1][-40:]:42} {rate} Hz: {p50} {p99} us, {over}, CPU {cpu:.0f} %")
    return p50, p99, 100 * late / sent, gap, cpu


def main():
    parser = harness.arguments("node_latency")
    parser.add_argument("--echo", metavar="TOPIC", help="run the echo node")
    parser.add_argument("--load", type=int, help="run the load at this rate")
    parser.add_argument("--robot", default="panda", help="robot whose joint states are published")
    parser.add_argument("--trace", action="store_true", help="report the parts of long cycles")
    options = parser.parse_args()
    if options.echo:
        echo(options.echo)
    elif options.load:
        load(options.load, options.robot)
    elif options.trace:
        trace()
    else:
        compare(options.save)


ECHO = "--echo", "torques"


def node_arguments(robot):
    """Module and arguments of the node, which finds its functions in the cache."""
    names = joint_names(robot)
    do(Job(robot_file(robot).read_text(), {"joints": tuple(names)}, "inverse", services="auto"))
    joints = "joints:=[" + ",".join(names) + "]"
    description = f"robot_description_file:={robot_file(robot)}"
    remapped = "-r", "~/joint_torques:=torques", "-p", joints, "-p", description
    return "dynamics_node.node.main", "--ros-args", *remapped


def trace():
    """Print the report of node_cycles.py for the echo node and the node in every case."""
    cycles = Path(__file__).parent / "node_cycles.py"
    for robot, rate in CASES:
        for arguments in (("node_latency", *ECHO), node_arguments(robot)):
            with tempfile.NamedTemporaryFile("r") as report:
                measure([sys.executable, str(cycles), report.name, *arguments], rate, robot)
                print(Path(report.name).read_text())


def compare(save):
    """Measure the echo node and the node in every case."""
    peer = [sys.executable, __file__, *ECHO]
    rows = []
    for robot, rate in CASES:
        names = joint_names(robot)
        node = [sys.executable, "-m", *node_arguments(robot)]
        rounds = [(measure(peer, rate, robot), measure(node, rate, robot)) for _ in range(ROUNDS)]
        medians = np.median(np.array(rounds), axis=0).tolist()
        (e50, e99, elate, egap, ecpu), (p50, p99, late, gap, cpu) = medians
        at = f"{TITLE[robot]} inverse, {rate} Hz"
        rows += [
            harness.Row(f"{at}: median", p50, "us", "lower", "echo node", e50, target=1.2),
            harness.Row(f"{at}: p99", p99, "us", "lower", "echo node", e99, target=1.3),
            harness.Row(f"{at}: late, excess over echo", max(0.0, late - elate), "%", "lower", target=1),
            harness.Row(
                f"{at}: late in a row, excess over echo", max(0.0, gap - egap), "states", "lower", target=2
            ),
            harness.Row(f"{at}: CPU of one core", cpu, "%", "lower", "echo node", ecpu),
        ]
        if rate == freshness.RATE:
            echo_command = [*peer[:-1], "echoes"]
            for requests in (False, True):
                rows += freshness.rows(TITLE[robot], names, echo_command, node, requests)
    package_versions = harness.versions("numpy", "ros-rclpy", "ros-rmw-fastrtps-cpp")
    harness.finish("node_latency", rows, package_versions, save)


if __name__ == "__main__":
    main()
