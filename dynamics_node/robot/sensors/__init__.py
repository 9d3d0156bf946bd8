"""Sensors of a robot: reading, pose and accuracy."""

from dynamics_node.robot.sensors.records import (
    WRENCH,
    Accelerometer,
    AngularAcceleration,
    ExternalWrench,
    ForceTorque,
    Gyro,
    Imu,
    JointAcceleration,
    JointTorque,
    LinkSensor,
    Sensor,
)
from dynamics_node.robot.sensors.sensors_file import load_sensors, parse_sensors
