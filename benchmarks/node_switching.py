"""Gaps in the node's output while solver, ordering, backend, gravity and payload change at 500 Hz.

The largest interval between two torques around every change, in periods of the joint states, as it would be
if the states came regularly: one period and what the latency grew by. Beside it that of as many stretches
without a change, in the same run: what machine and client do by themselves.
"""

import gc
import sys
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
}  # s of states after a change; a build takes a second
ANSWERED = 10.0  # s after the window, at most
ALGORITHMS = (
    {"solver": "factor_graph", "ordering": "rnea"},
    {"solver": "cluster", "ordering": "best"},
    {"solver": "factor_graph", "ordering": "crba"},
)
GRAVITIES = ([0.0, 0.0, -9.81], [0.0, 0.0, -1.62])


class Run:
    """A node under load, and when its torques arrive."""

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
        """States at RATE; the largest interval between torques meanwhile, in periods."""
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


def main():
    options = harness.arguments("node_switching").parse_args()
    gc.disable()  # the client's own pauses would be measured
    run = Run()
    gaps: dict[str, list[float]] = {kind: [] for kind in WINDOW}
    quiet: dict[str, list[float]] = {kind: [] for kind in WINDOW}
    run.states(1.0)
    for k in range(CHANGES):
        kind = list(WINDOW)[k % len(WINDOW)]
        quiet[kind].append(run.states(WINDOW[kind]))
        future = change(run, kind, k // len(WINDOW))
        gaps[kind].append(run.states(WINDOW[kind]))
        run.rig.until(future.done, ANSWERED)
    run.rig.close()
    rows = []
    for kind, found in gaps.items():
        none = quiet[kind]
        rows += [
            harness.Row(f"{kind}: largest interval", max(found), "periods", "lower", "no change", max(none)),
            harness.Row(
                f"{kind}: median of the largest intervals", float(np.median(found)), "periods", "lower",
                "no change", float(np.median(none)),
            ),
        ]  # fmt: skip
    everything = [gap for found in gaps.values() for gap in found]
    rows.append(harness.Row("largest interval of all", max(everything), "periods", "lower", target=3.0))
    harness.finish("node_switching", rows, harness.versions("numpy", "ros-rclpy"), options.save)


if __name__ == "__main__":
    main()
