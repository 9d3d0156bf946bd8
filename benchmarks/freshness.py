"""The largest age of the input of a published torque on a busy machine.

The node under test and an echo node receive the same joint states, while one busy process per core competes
for the processor. The age is the middleware's publication time minus the stamp. With requests, another
process repeatedly requests the inverse dynamics of 100 000 points.
"""

import json
import os
import signal
import subprocess
import sys
import time

import harness

SECONDS, WARM_UP = 20.0, 6.0
RATE = 500  # Hz
POINTS = 100_000
REST = 1.0  # s between requests
DOMAIN = "78"


def watch(names):
    """Publish joint states at RATE, and print the largest age (ms) and the count of the output of both
    nodes."""
    import rclpy
    from rclpy.node import Node
    from sensor_msgs.msg import JointState

    from dynamics_node.node.ros.inputs import RELIABLE, SENSOR
    from dynamics_node.node.ros.running import make_executor

    rclpy.init()
    node, ages, begin = Node("watch"), {"torques": [], "echoes": []}, time.monotonic() + WARM_UP
    publisher = node.create_publisher(JointState, "joint_states", SENSOR)

    def listen(topic):
        def record_age(message, info):
            stamp = message.header.stamp
            if time.monotonic() > begin:
                ages[topic].append(info["source_timestamp"] - stamp.sec * 1_000_000_000 - stamp.nanosec)

        node.create_subscription(JointState, topic, record_age, RELIABLE)

    def publish():
        message = JointState(name=names, position=[0.1] * len(names), velocity=[0.1] * len(names))
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(time.time_ns(), 1_000_000_000)
        publisher.publish(message)

    for topic in ages:
        listen(topic)
    node.create_timer(1.0 / RATE, publish)
    executor = make_executor(_StrictGuard)
    executor.add_node(node)
    while time.monotonic() < begin + SECONDS:
        executor.spin_once(timeout_sec=0.1)
    print(json.dumps({topic: [max(own) / 1e6, len(own)] for topic, own in ages.items()}))


class _StrictGuard:
    """A Guard that raises every error."""

    @staticmethod
    def report(what, error):
        raise error


def send_requests(names):
    """Request the inverse dynamics of POINTS points repeatedly, and print the number of replies."""
    import numpy as np
    import rclpy
    from dynamics_interfaces.srv import InverseDynamics
    from rclpy.node import Node

    from dynamics_node.node.ros.messages import point_message

    rclpy.init()
    node = Node("requests")
    client = node.create_client(InverseDynamics, "/dynamics_node/inverse_dynamics")
    request = InverseDynamics.Request()
    request.points.joint_names = names
    request.points.points = [point_message(*np.full((4, len(names)), 0.1)) for _ in range(POINTS)]
    for k, point in enumerate(request.points.points):
        point.time_from_start.sec = k
    client.wait_for_service()
    answered, end = 0, time.monotonic() + WARM_UP + SECONDS
    while time.monotonic() < end:
        future = client.call_async(request)
        rclpy.spin_until_future_complete(node, future, timeout_sec=60)
        answered += future.done() and future.result().success
        time.sleep(REST)
    print(answered)


def rows(title, names, peer, node, requests):
    """Rows of one run; peer, node: commands of nodes that receive joint_states and publish `echoes` and
    `torques`."""
    (age, torques), (echo_age, echoes), answered = _run(names, peer, node, requests)
    at = f"{title} inverse, {RATE} Hz, busy{', with requests' if requests else ''}"
    excess = max(0.0, age - echo_age) * RATE / 1000
    note = f"{answered} requests of {POINTS} points answered" if requests else ""
    return [
        harness.Row(
            f"{at}: oldest input, excess over echo", excess, "period", "lower", target=3, reason=note
        ),
        harness.Row(f"{at}: oldest input", age, "ms", "lower", "echo node", echo_age),
        harness.Row(f"{at}: answered", torques, "msg", "higher", "echo node", echoes),
    ]


def _run(names, peer, node, requests):
    environment = {**os.environ, "ROS_DOMAIN_ID": DOMAIN}

    def start(command, **options):
        return subprocess.Popen(command, env=environment, text=True, **options)

    def own(role):
        return start([sys.executable, __file__, role, ",".join(names)], stdout=subprocess.PIPE)

    served = [start(peer), start(node, stderr=subprocess.DEVNULL)]
    own("wait_until_settled").communicate(timeout=120)
    busy = [start([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        watching = own("watch")
        requesting = own("send_requests") if requests else None
        ages = json.loads(watching.communicate(timeout=120)[0])
        answered = int(requesting.communicate(timeout=120)[0]) if requesting else 0
    finally:
        for process in busy:
            process.kill()
            process.wait()
        for process in served:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=20)
    return ages["torques"], ages["echoes"], answered


def wait_until_settled(_names):
    """Wait until diagnostics report the backend c and no build in progress, for the robot and its
    services."""
    import rclpy
    from diagnostic_msgs.msg import DiagnosticArray
    from rclpy.node import Node

    rclpy.init()
    node, is_settled = Node("settled"), []

    def on_diagnostics(message):
        for status in message.status:
            values = {pair.key: pair.value for pair in status.values}
            if values.get("backend") == "c" and values.get("building") == "False":
                is_settled.append(True)

    node.create_subscription(DiagnosticArray, "/diagnostics", on_diagnostics, 10)
    while not is_settled:
        rclpy.spin_once(node, timeout_sec=0.1)


if __name__ == "__main__":
    {"watch": watch, "send_requests": send_requests, "wait_until_settled": wait_until_settled}[sys.argv[1]](
        sys.argv[2].split(",")
    )
