"""
Sensors of a humanoid
=====================

Torques of a humanoid on two feet from any sensors, and the most likely faulty sensor.

./dev run -- python examples/sensors.py
"""
# sphinx_gallery_thumbnail_path = 'figures/paper4_1.svg'

import numpy as np

import dynamics_node as dn
from dynamics_node.robot.sensors import ExternalWrench, Imu, JointAcceleration, JointTorque

FEET = ("left_foot", "right_foot")


def main():
    robot = dn.example_robot("humanoid")
    q, still = robot.neutral(), np.zeros(robot.nv)

    # At rest, all weight on the left foot: inverse dynamics is a sensor problem, too.
    at_rest = [JointAcceleration(joint.name, std=0.0, value=0.0) for joint in robot.independent_joints]
    soles = [dn.Contact(foot, "surface") for foot in FEET]
    on_one_foot = dn.sensor_problem(robot, at_rest, contacts=soles[0])
    truth = dn.build(robot, on_one_foot, backend="numpy")(q, still, {})

    # Accelerations are known roughly, feet measure all but the yaw torque: paper 4, eq. (24).
    all_but_yaw = ("mx", "my", "fx", "fy", "fz")
    sensors = [JointAcceleration(joint.name, std=0.5, value=0.0) for joint in robot.independent_joints]
    sensors += [ExternalWrench(foot, rows=all_but_yaw, std=2.0) for foot in FEET]
    print(dn.observability(robot, dn.sensor_problem(robot, sensors, contacts=soles), q))

    torques = [joint for joint in robot.independent_joints if joint.type.is_scalar]
    sensors += [JointTorque(joint.name, std=0.5) for joint in torques]
    sensors += [Imu("torso", std=(0.01, 0.01, 0.01, 0.1, 0.1, 0.1))]
    problem = dn.sensor_problem(robot, sensors, covariance=["tau"], contacts=soles)
    estimator = dn.build(robot, problem, backend="numpy")
    print(estimator.observability)

    random = np.random.default_rng(0)
    foot = truth.f_ext[robot.frame("left_foot").body]
    readings = {f"{joint.name} torque": truth.tau[joint.v] + 0.5 * random.normal(size=1) for joint in torques}
    readings |= {"left_foot wrench": np.delete(foot, 2), "right_foot wrench": np.zeros(5)}
    readings["torso imu"] = np.array([0, 0, 0, 0, 0, 9.81])
    estimate = estimator(q, still, readings)
    std = np.sqrt(np.diag(estimate.tau_covariance))
    for joint in torques[:5]:
        k = joint.v.start
        read = readings[f"{joint.name} torque"][0]
        estimated = f"{estimate.tau[k]:8.3f} +- {3 * std[k]:.3f} N m"
        print(f"{joint.name:24} {read:8.3f} read, {estimated}, {truth.tau[k]:8.3f} true")
    print(estimator.judge(q, still, readings))
    readings["left_shank_joint torque"] += 10.0
    print(estimator.judge(q, still, readings))


if __name__ == "__main__":
    main()
