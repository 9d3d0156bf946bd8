"""Accuracy of the bias, mass and center of mass of a tool from noisy poses, and the time of a compensated
reading.

A UR5 has a force/torque sensor at its flange and an undescribed gripper of 0.9 kg. Errors of the mean reading
of a pose are 0.1 N and 0.005 N m, the noise of a single reading of a small industrial sensor; this allows for
drift and hysteresis. Errors of joint angles are 0.5 mrad. Pinocchio gives the truth.
"""

import time

import harness
import numpy as np
from robots import robot, robot_file

import dynamics_node as dn

JOINT = "ee_fixed_joint"
STD = np.array([0.005] * 3 + [0.1] * 3)  # N m, N
ENCODERS = 5e-4  # rad
MASS, COM, MOMENTS = 0.9, np.array([0.01, -0.015, 0.065]), np.diag([2e-3, 2e-3, 1e-3])
BIAS = np.array([0.2, -0.1, 0.3, 8.0, -5.0, 12.0])
TRIALS = 500
CALLS = 20_000


class Truth:
    """Pinocchio's robot with the gripper on the child link of the sensor's joint, which becomes a joint at
    rest."""

    def __init__(self, path):
        import pinocchio as pin

        self._pin = pin
        head = '<joint name="ee_fixed_joint" type="{}">'
        text = path.read_text().replace(head.format("fixed"), head.format("continuous"))
        self._model = pin.buildModelFromXML(text)
        self._data = self._model.createData()
        self._at = self._model.getJointId(JOINT)
        self._model.inertias[self._at] += pin.Inertia(MASS, COM, MOMENTS)
        self.mass, self.com = self._model.inertias[self._at].mass, self._model.inertias[self._at].lever.copy()

    def reading(self, q):
        """The reading (6,) in a pose at rest, with the bias."""
        whole = self._pin.neutral(self._model)
        whole[: len(q)] = q
        self._pin.rnea(self._model, self._data, whole, np.zeros(self._model.nv), np.zeros(self._model.nv))
        force = self._data.f[self._at]
        return np.concatenate([force.angular, force.linear]) + BIAS


def poses(count, random):
    """q (count, 6): random wrist orientations, the arm nearly upright."""
    q = random.uniform(-0.5, 0.5, (count, 6)) + np.array([0, -1.5, 1.2, 0, 0, 0])
    q[:, 3:] += random.uniform(-1.5, 1.5, (count, 3))
    return q


def trials(model, truth, count, seed=1):
    """Errors of mass (%) and center of mass (mm), normalized squared errors, and conditions, over TRIALS."""
    random, errors = np.random.default_rng(seed), []
    for _ in range(TRIALS):
        q = poses(count, random)
        noisy = np.array([truth.reading(own) for own in q]) + STD * random.normal(size=(count, 6))
        tool = dn.identify_tool(model, JOINT, q + ENCODERS * random.normal(size=q.shape), noisy, std=STD)
        wrong = np.concatenate([tool.bias - BIAS, [tool.mass - truth.mass], tool.com - truth.com])
        squared = wrong @ np.linalg.solve(tool.covariance, wrong)
        mass, com = 100 * abs(wrong[6]) / truth.mass, 1e3 * np.linalg.norm(wrong[7:])
        errors.append((mass, com, squared, tool.condition))
    return np.array(errors).T


def accuracy(model, truth):
    for count in (6, 12, 24):
        mass, com, squared, condition = trials(model, truth, count)
        quantities = (
            ("mass", "%", 1.0, mass, f"; condition {np.median(condition):.1f}"),
            ("center of mass", "mm", 2.0, com, ""),
        )
        for what, unit, most, values, more in quantities:
            yield harness.Row(
                f"{what}, {count} poses, 95 %",
                float(np.percentile(values, 95)),
                unit,
                "lower",
                target=most if count == 12 else None,
                reason=f"worst {values.max():.2f} {unit}{more}",
            )
        note = "1 for a consistent covariance, which excludes errors of joint angles"
        yield harness.Row(
            f"squared error by covariance / 10, {count} poses",
            float(squared.mean() / 10),
            "",
            "lower",
            reason=note,
        )


def cost(model, joint):
    """Rows of the cost of sensor_wrench at a joint."""
    compiled = dn.build(model, "sensor_wrench", joint=joint)
    q, out = np.full(model.nq, 0.3), np.zeros(6)
    least = np.inf
    for _ in range(20):
        begin = time.thread_time()
        for _ in range(CALLS // 20):
            compiled(q, q, q, out=out)
        least = min(least, (time.thread_time() - begin) / (CALLS // 20))
    yield harness.Row(f"sensor_wrench at {joint}, operations", len(compiled.program.ops), "", "lower")
    yield harness.Row(f"sensor_wrench at {joint}, a call", 1e6 * least, "us", "lower")


def main():
    options = harness.arguments("tool").parse_args()
    path = robot_file("ur5")
    model, truth = dn.load_robot(path), Truth(path)
    rows = [*accuracy(model, truth), *cost(robot("panda"), "panda_hand_joint")]
    harness.finish("tool", rows, harness.versions("numpy", "pin"), options.save)


if __name__ == "__main__":
    main()
