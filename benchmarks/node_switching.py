"""Time until the compiled solver runs, and gaps in the node's output while solver, ordering, backend, gravity
and payload change at 500 Hz.

Take-over is the time from the publication of a description to the log line of the compiled solver, on an idle
node. Cold: the compile cache is empty. Warm: it contains the results of the cold start.

A gap is the largest interval between two torques around a change, in periods of the joint states. For regular
states it is one period plus the increase of latency. Intervals without a change in the same run measure
machine and client.
"""

import gc
import re
import sys
import tempfile
import time

import harness
import numpy as np

sys.path.insert(0, str(harness.HERE.parent / "test" / "support"))

from dynamics_interfaces.srv import SetPayload
from rcl_interfaces.msg import Parameter as ParameterMessage
from rcl_interfaces.srv import SetParametersAtomically
from rclpy.parameter import Parameter
from rig import BEST_EFFORT, Rig, stamp_of
from robots import ROBOTS
from sensor_msgs.msg import JointState

RATE, CHANGES = 500.0, 100  # Hz, number
WINDOW = {
    "algorithm": 1.6,
    "gravity": 0.4,
    "payload": 0.4,
}  # s with states after a change; a build takes a second
ANSWERED = 10.0  # s after the window, at most
ALGORITHMS = (
    {"solver": "factor_graph", "ordering": "rnea"},
    {"solver": "cluster", "ordering": "best"},
    {"solver": "factor_graph", "ordering": "crba"},
)
STARTS = 3  # of each robot, cold and warm; the median counts
SETTLED = 3.0  # s after the first diagnostics, until the node's helper processes run
SERVES = re.compile(r"\[(\d+\.\d+)\] \[[^]]*\]: .* dynamics by .*\(c\)")  # stamp of the log line
TAKE_OVERS = {  # {row: robot, target cold, target warm}, s
    "arm": ("panda7", 1.5, 0.3),
    "humanoid": ("talos", 4.0, 0.3),
}
GRAVITIES = ([0.0, 0.0, -9.81], [0.0, 0.0, -1.62])


class Run:
    """A node under load, and the latencies of its torques."""

    def __init__(self):
        self.rig = Rig(ROBOTS["panda7"], {"effort_limits": "none"})
        self.names = ROBOTS["panda7"].model().joint_names
        self.rig.answered(self.names, np.zeros(7), np.zeros(7))
        self.rig.until(lambda: "(c)" in self.rig.process.output(), 60)
        self.latencies: list[float] = []  # s
        create = self.rig.node.create_subscription
        create(JointState, "dynamics_node/joint_torques", self._note, BEST_EFFORT)
        client = self.rig.node.create_client
        self._set = client(SetParametersAtomically, "dynamics_node/set_parameters_atomically")
        self._load = client(SetPayload, "dynamics_node/set_payload")
        self.rig.until(lambda: self._set.service_is_ready() and self._load.service_is_ready())

    def _note(self, message):
        self.latencies.append((time.time_ns() - stamp_of(message)) * 1e-9)

    def states(self, seconds):
        """Send states at RATE and return the largest interval between torques, in periods."""
        start = time.monotonic()
        self.latencies.clear()
        k = 0
        while (now := time.monotonic()) < start + seconds:
            self.rig.send_state(self.names, 0.3 * np.sin(now + np.arange(7)), np.zeros(7))
            k += 1
            self.rig.spin(max(0.0, start + k / RATE - time.monotonic()))
        return 1.0 + float(np.diff(self.latencies).max()) * RATE

    def set(self, **values):
        request = SetParametersAtomically.Request()
        for name, value in values.items():
            message = Parameter(name, value=value).get_parameter_value()
            request.parameters.append(ParameterMessage(name=name, value=message))
        return self._set.call_async(request)

    def payload(self, mass):
        request = SetPayload.Request(link="panda_hand")
        request.inertia.m = mass
        request.inertia.ixx = request.inertia.iyy = request.inertia.izz = 0.01 * mass
        return self._load.call_async(request)


def change(run, kind, k):
    if kind == "algorithm":
        return run.set(**ALGORITHMS[k % len(ALGORITHMS)])
    if kind == "gravity":
        return run.set(gravity=GRAVITIES[k % 2])
    return run.payload(float(k % 2))


def take_over(robot, cache):
    """Seconds from the description to the compiled solver in a new node."""
    rig = Rig(ROBOTS[robot], describe=False, environment={"XDG_CACHE_HOME": cache})
    text = rig.robot.file.read_text()
    rig.diagnostic()
    rig.spin(SETTLED)
    start = time.time()
    rig.describe(text)
    rig.until(lambda: SERVES.search(rig.process.output()), 60)
    match = SERVES.search(rig.process.output())
    rig.close()
    return float(match[1]) - start


def take_overs():
    """Rows of the take-over of each robot, cold and warm."""
    rows = []
    for name, (robot, *targets) in TAKE_OVERS.items():
        seconds: dict[str, list[float]] = {"cold": [], "warm": []}
        for _ in range(STARTS):
            with tempfile.TemporaryDirectory() as cache:
                for times in seconds.values():
                    times.append(take_over(robot, cache))
        rows += [
            harness.Row(
                f"{name}: compiled solver, {kind} cache", float(np.median(times)), "s", "lower",
                target=target,
            )
            for (kind, times), target in zip(seconds.items(), targets, strict=True)
        ]  # fmt: skip
    return rows


def gaps():
    """Rows of the largest intervals between torques around changes."""
    gc.disable()  # pauses of the client would count
    run = Run()
    largest: dict[str, list[float]] = {kind: [] for kind in WINDOW}
    quiet: dict[str, list[float]] = {kind: [] for kind in WINDOW}
    run.states(1.0)
    for k in range(CHANGES):
        kind = list(WINDOW)[k % len(WINDOW)]
        quiet[kind].append(run.states(WINDOW[kind]))
        future = change(run, kind, k // len(WINDOW))
        largest[kind].append(run.states(WINDOW[kind]))
        run.rig.until(future.done, ANSWERED)
    run.rig.close()
    rows = []
    for kind, intervals in largest.items():
        baseline = quiet[kind]
        rows += [
            harness.Row(
                f"{kind}: largest interval", max(intervals), "periods", "lower", "no change", max(baseline),
            ),
            harness.Row(
                f"{kind}: median of the largest intervals", float(np.median(intervals)), "periods", "lower",
                "no change", float(np.median(baseline)),
            ),
        ]  # fmt: skip
    gc.enable()
    everything = [gap for intervals in largest.values() for gap in intervals]
    rows.append(harness.Row("largest interval of all", max(everything), "periods", "lower", target=3.0))
    return rows


PARTS = {"take_over": take_overs, "gaps": gaps}


def main():
    parser = harness.arguments("node_switching")
    parser.add_argument("--part", choices=PARTS, help="run one part, without writing its results")
    options = parser.parse_args()
    if options.part:
        harness.print_table(PARTS[options.part]())
        return
    rows = [row for part in PARTS.values() for row in part()]
    harness.finish("node_switching", rows, harness.versions("numpy", "ros-rclpy"), options.save)


if __name__ == "__main__":
    main()
