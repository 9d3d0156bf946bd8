"""Limits, friction and springs of joints in rollouts, also of joints that follow others."""

import numpy as np
import pytest
from robots import robot_of
from test_contact_rollouts import SLIDER, forward_of

import dynamics_node as dn
from dynamics_demo.robots import four_bar

LIMIT = '<limit lower="-9" upper="9" effort="100" velocity="20"/>'


def follower(multiplier, offset, lower, upper):
    """A mass on a slider, and one on a second slider that mimics it."""
    mimic = f"""
  <joint name="follow" type="prismatic"> <parent link="world"/> <child link="other"/> <axis xyz="0 1 0"/>
    <limit lower="{lower}" upper="{upper}" effort="100" velocity="100"/>
    <mimic joint="slide" multiplier="{multiplier}" offset="{offset}"/> <dynamics friction="1.5"/> </joint>
  <link name="other"> <inertial> <mass value="1"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/> </inertial> </link>
</robot>"""
    return dn.parse_robot(SLIDER.format(0, 0).replace("</robot>", mimic))


@pytest.mark.parametrize("name", ["panda", "ur5"])
def test_joints_stay_within_their_limits(name):
    robot = robot_of(name)
    random, (low, high) = np.random.default_rng(0), (robot.lower_position_limits, robot.upper_position_limits)
    q = 0.5 * (low + high) + random.uniform(-0.3, 0.3, (8, robot.nv)) * (high - low)
    tau = random.uniform(-20, 20, (8, 1, robot.nv)) * np.ones((200, 1))
    path = forward_of(robot).rollout(q, np.zeros(robot.nv), tau, 2e-3, contacts=(), sweeps=100)
    beyond = np.maximum(path.q - high, low - path.q).max(axis=(0, 1))
    assert beyond.max() < 0.01 and (beyond > -1e-3).sum() >= 3  # some are reached


@pytest.mark.parametrize("backend", ["c", "numpy"])
def test_a_joint_that_follows_stops_at_its_own_limit(backend):
    forward = forward_of(follower(-2.0, 0.1, -0.5, 9.0), backend=backend)
    path = forward.rollout([0.0], [0.5], np.full((800, 1), 4.0), 1e-3, contacts=())
    assert path.q[-1, 0] == pytest.approx(0.3, abs=1e-9) and abs(path.qd[-1, 0]) < 1e-9


@pytest.mark.parametrize("force, moves", [(2.9, False), (3.1, True)])
def test_friction_of_a_joint_that_follows_acts_at_its_master(force, moves):
    forward = forward_of(follower(-2.0, 0.0, -9.0, 9.0))
    path = forward.rollout([0.0], [0.0], np.full((100, 1), force), 1e-3, contacts=())
    assert path.qd[-1, 0] == pytest.approx(0.1 * (force - 3.0) / 6.0 if moves else 0.0, abs=1e-12)


def linkage(rocker):
    """The four-bar with other lines at its rocker, and its closed position at a crank angle of 0.5 rad."""
    first, joint, rest = four_bar().partition('<joint name="rocker_j"')
    robot = dn.parse_robot(first + joint + rest.replace(LIMIT, rocker, 1))
    return robot, dn.first_closed(robot, [0.5, 0.0, 0.0])


def test_a_rocker_stops_at_its_limit():
    robot, q = linkage(LIMIT)
    end = q[2] - 0.1
    robot, q = linkage(LIMIT.replace("-9", f"{end}"))
    path = forward_of(robot).rollout(q, [1.0], np.full((400, 1), 0.5), 1e-3, contacts=())
    assert path.q[-1, 2] == pytest.approx(end, abs=1e-6) and abs(path.qd[-1, 0]) < 1e-6
    assert path.q[:, 2].min() > end - 1e-5
    free = forward_of(robot).rollout(q, [1.0], np.full((400, 1), 0.5), 1e-3, contacts=(), limits=False)
    assert free.q[:, 2].min() < end - 0.01


@pytest.mark.parametrize("share, moves", [(0.95, False), (1.05, True)])
def test_friction_of_a_rocker_holds_the_crank(share, moves):
    robot, q = linkage(f'{LIMIT}<dynamics friction="0.5"/>')
    _, rates, _ = dn.spanning(robot, q, [1.0])
    tau = np.full((20, 1), share * 0.5 * abs(rates[2]))
    path = forward_of(robot).rollout(q, [0.0], tau, 1e-3, contacts=())
    assert (abs(path.qd[-1, 0]) > 1e-4) == moves and (moves or abs(path.qd[-1, 0]) < 1e-12)


def sprung(stiffness):
    return dn.parse_robot(SLIDER.format(0, 0), parameters=f"joints: {{slide: {{spring: {stiffness}}}}}")


def test_a_stiff_spring_is_stable():
    """The step is implicit in the spring: it decays where its period is shorter than a step, and swings with the
    right period where steps are short."""
    stiff = sprung(1e8)
    path = forward_of(stiff).rollout([0.1], [0.0], np.zeros((50, 1)), 1e-2, contacts=())
    assert np.abs(path.q[1:]).max() <= 0.1 and abs(path.q[-1, 0]) < 1e-6
    soft = sprung(2 * (2 * np.pi) ** 2)
    path = forward_of(soft).rollout([0.1], [0.0], np.zeros((1000, 1)), 1e-3, contacts=())
    assert path.q[500, 0] == pytest.approx(-0.1, rel=0.03) and path.q[-1, 0] == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_limits_of_neighbors_change_no_bit(precision):
    """Some samples of a vector pass a limit, others do not: each has the results that it has alone."""
    robot = robot_of("panda")
    low, high = robot.lower_position_limits, robot.upper_position_limits
    q = np.tile(0.5 * (low + high), (8, 1))
    q[::2, :4] = high[:4] - 0.01
    qd = np.full(robot.nv, 0.5)
    tau = np.random.default_rng(0).uniform(-5, 5, (8, 60, robot.nv))
    forward = forward_of(robot, precision=precision)
    together = forward.rollout(q, qd, tau, 2e-3, contacts=())
    stopped = (np.abs(together.q - high) < 1e-4).any(axis=(1, 2))
    assert stopped[::2].all() and not stopped[1::2].all()
    for k in range(8):
        alone = forward.rollout(q[k], qd, tau[k], 2e-3, contacts=())
        for name in together._fields:
            np.testing.assert_array_equal(getattr(alone, name), getattr(together, name)[k], err_msg=name)
