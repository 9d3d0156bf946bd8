"""Torques at motors that move several joints, on a topic. For their values, see test/core/test_transmissions."""

import numpy as np
import pytest
from coupled_motors import coupled_motors
from rig import Rig, efforts
from sensor_msgs.msg import JointState
from tolerances import EXACT, error

import dynamics_node as dn

MOTORS = ("shoulder_motor", "side_motor", "roll_motor", "pitch_motor")


@pytest.fixture(scope="module")
def coupled():
    made = Rig(None, {"joint_state_timeout": 60.0})
    made.describe(coupled_motors())
    yield made
    made.close()


def test_motors_balance_the_power_of_their_joints(coupled):
    robot = dn.parse_robot(coupled_motors())
    received: list[JointState] = []
    coupled.node.create_subscription(JointState, "dynamics_node/motor_torques", received.append, 10)
    random = np.random.default_rng(4)
    q, qd = random.uniform(-1, 1, (2, robot.nv))
    torques = coupled.answered(robot.v_names, q, qd)
    coupled.until(lambda: coupled.send_state(robot.v_names, q, qd) and received, what="no motor torques")
    (motors,) = received[-1:]
    assert sorted(motors.name) == sorted(MOTORS)
    tau = efforts(torques, robot.v_names)
    actuation = dn.Actuation(robot, motors.name)
    moved = actuation.to_coordinates(q, motors.effort)
    joints = [robot.v_names.index(name) for name in ("shoulder", "side", "roll", "pitch")]
    assert error(moved[joints], tau[joints]) <= EXACT and np.abs(motors.effort).max() > 0
