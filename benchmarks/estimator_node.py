"""dynamics_estimator with real topics: rate and age of estimates of a Panda with two IMUs.

Joint states and both IMUs arrive at 500 Hz; steps are at 250 Hz. The node publishes an estimate with
covariances within one cycle, and only the newest of steps that arrive together.
"""

import os
import sys
import tempfile
import time

import harness
import numpy as np

sys.path.insert(0, str(harness.HERE.parent / "test" / "support"))

import estimated_arm as arm
from dynamics_interfaces.msg import JointStateEstimate
from rig import Rig, set_stamp, stamp_of
from sensor_msgs.msg import Imu

from dynamics_demo.panda import description

SECONDS, RATE = 4.0, 250.0
PERIOD = round(arm.T * 1e9)  # ns between messages


class EstimatedPanda(Rig):
    """The node with publishers of its inputs. late: s from a step to the reception of its estimate, without
    the lag."""

    def __init__(self, sensors_file):
        parameters = {"sensors_file": sensors_file, "rate": RATE}
        parameters |= {"noise.encoder": [arm.ENCODER], "noise.torque": [arm.TORQUE]}
        super().__init__(None, parameters, module="dynamics_node.node.estimator")
        self.late = []
        topic = "dynamics_estimator/joint_state_estimate"
        self.node.create_subscription(JointStateEstimate, topic, self._on_estimate, 500)
        self._imus = {s.name: self.node.create_publisher(Imu, s.name, 50) for s in arm.IMUS}
        self.describe(description())
        self.until(lambda: " estimated at " in self.process.output(), timeout=600, what="a robot")
        self.until(self.states.get_subscription_count, what="discovery")

    def _on_estimate(self, message):
        self.late.append((time.time_ns() - stamp_of(message)) * 1e-9 - message.lag)

    def send(self, readings, k, stamp):
        for name, publisher in self._imus.items():
            message = Imu()
            w, a = message.angular_velocity, message.linear_acceleration
            w.x, w.y, w.z, a.x, a.y, a.z = readings[name][k].tolist()
            set_stamp(message, stamp)
            publisher.publish(message)
        names = list(arm.arm().joint_names)
        self.send_state(names, readings["encoder"][k], effort=readings["torque"][k], stamp=stamp)

    def processor_time(self):
        """CPU time of the node, s."""
        fields = open(f"/proc/{self.process.process.pid}/stat").read().split()  # noqa: SIM115, PTH123
        return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def sensors_text():
    rows = (
        f"- {{type: imu, name: {s.name}, link: {s.link}, std: {list(s.std)}, topic: {s.name}}}\n"
        for s in arm.IMUS
    )
    return "sensors:\n" + "".join(rows)


def main():
    options = harness.arguments("estimator_node").parse_args()
    readings = arm.read(arm.tracked(SECONDS), np.random.default_rng(0))
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(sensors_text())
        file.flush()
        rig = EstimatedPanda(file.name)
        before, begin, k = rig.processor_time(), time.time_ns(), 0
        while k < len(readings["encoder"]):
            rig.send(readings, k, begin + k * PERIOD)
            k = max(k + 1, (time.time_ns() - begin) // PERIOD)  # skips messages that are late
            rig.spin(max(0.0, (begin + k * PERIOD - time.time_ns()) * 1e-9))
        share = (rig.processor_time() - before) / SECONDS
        rig.spin(0.5)
        rig.close()
    rows = [
        harness.Row("estimates a second", len(rig.late) / SECONDS, "Hz", "higher", target=200.0),
        harness.Row("age of an estimate, median", 1e3 * float(np.median(rig.late)), "ms", "lower"),
        harness.Row("age of an estimate, 99 %", 1e3 * float(np.percentile(rig.late, 99)), "ms", "lower"),
        harness.Row("share of a core", share, "", "lower"),
    ]
    harness.finish("estimator_node", rows, harness.versions("numpy"), options.save)


if __name__ == "__main__":
    main()
