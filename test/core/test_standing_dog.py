"""The quadruped of the demo: its feet stay, its rates are those of its positions, MuJoCo's ground holds its weight."""

import numpy as np
import pytest

pytest.importorskip("mujoco", minversion="3.2", reason="the quadruped: pip install mujoco")
pytest.importorskip("pinocchio", reason="the robots: pip install example-robot-data")

import dynamics_node as dn
from dynamics_demo.standing_dog import BASE, CYCLE, FEET, RADIUS, Motion, StandingDog, described, feedback


@pytest.fixture(scope="module")
def robot():
    return dn.parse_robot(described(), floating_base=True)


@pytest.fixture(scope="module")
def motion():
    return Motion(described(), 2.0)


def test_feet_stay_where_they_stand(robot, motion):
    assert len(motion) == 1000 and np.abs(motion.qd[0]).max() < 1e-5
    feet = dn.build(robot, "frame_poses", links=list(FEET))(motion.q).positions
    assert np.abs(feet - feet[0]).max() < 1e-12 and np.abs(feet[:, :, 2] - RADIUS).max() < 1e-12
    assert np.ptp(motion.q[:, :3], axis=0).min() > 0.01, "the body moves"


def test_rates_are_those_of_the_positions(robot, motion):
    moved = dn.integrate(robot, motion.q[:-1], CYCLE * (motion.qd[:-1] + 0.5 * CYCLE * motion.qdd[:-1]))
    assert np.abs(dn.difference(robot, moved, motion.q[1:])).max() < 1e-6
    assert np.abs(motion.qd).max() > 0.1


def test_the_ground_holds_the_weight(robot, motion):
    """With PD and torques of the library, the body stays, and the forces are those of inverse dynamics."""
    inverse = dn.build(
        robot, dn.inverse_dynamics(robot, [dn.Contact(foot) for foot in FEET]), backend="numpy"
    )
    dog, start = StandingDog(described(), robot.joint_names, motion.q[0]), motion.q[0]
    assert np.array_equal(dog.pose, start[:7]) and np.array_equal(dog.q, start[7:])
    tau, forces = inverse(start, np.zeros(18), np.zeros(18), np.ones(4))
    for _ in range(150):
        dog.step(tau[6:] + feedback(motion, 0, dog.q, dog.qd))
    assert dog.forces[:, 2].sum() == pytest.approx(9.81 * robot.mass, rel=1e-2)
    assert np.abs(dog.forces - forces.reshape(4, 3)).max() < 0.2
    assert np.abs(dog.pose[:3] - start[:3]).max() < 2e-3 and np.abs(dog.twist).max() < 0.02


def test_twists_are_in_axes_of_the_base(robot, motion):
    """Rates of two poses one cycle apart."""
    dog = StandingDog(described(), robot.joint_names, motion.q[500])
    dog.step(np.full(12, 0.3))
    before, twist = dog.pose.copy(), dog.twist.copy()
    dog.step(np.full(12, 0.3))
    q = np.tile(robot.neutral(), (2, 1))
    q[:, :7] = before, dog.pose
    rates = dn.difference(robot, q[0], q[1])[:6] / CYCLE
    assert np.abs(rates - 0.5 * (twist + dog.twist)).max() < 0.05 * np.abs(rates).max()
    assert robot.base_link == BASE
