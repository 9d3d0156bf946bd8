"""Positions as points of a manifold, limits and masses: against Pinocchio; closed loops against their rates."""

import numpy as np
import pytest
from balls import ball_robot
from oracle import BallOracle, Oracle, pin
from robots import ROBOTS, closed_states, robot_of
from tolerances import EXACT

import dynamics_node as dn
from dynamics_node.algorithms import spanning

TREES = ("solo12", "panda", "double_pendulum", "pr2")  # free, sliding and mimic, continuous joints
SWAPPED = [3, 4, 5, 0, 1, 2]  # angular first
COUNT = 5


def robot_and_oracle(name):
    """A robot and its Pinocchio oracle."""
    if name == "balls":
        robot = dn.parse_robot(ball_robot(3, kinds=("ball", "revolute", "prismatic")))
        return robot, BallOracle(robot)
    robot = ROBOTS[name].model()
    return robot, Oracle(ROBOTS[name], robot)


@pytest.mark.parametrize("name", [*TREES, "balls"])
def test_steps_and_differences(name):
    robot, oracle = robot_and_oracle(name)
    q0, q1 = dn.random_configuration(robot, (2, COUNT), random=1)
    v = np.random.default_rng(2).uniform(-1.5, 1.5, (COUNT, robot.nv))
    after, between = dn.integrate(robot, q0, v), dn.difference(robot, q0, q1)
    interpolated = dn.interpolate(robot, q0, q1, 0.3)
    of_step = dn.integrate_derivatives(robot, q0, v)
    of_difference = dn.difference_derivatives(robot, q0, q1)
    sides = (pin.ARG0, pin.ARG1)
    for k in range(COUNT):
        start, goal, step = oracle.q(q0[k]), oracle.q(q1[k]), oracle.v(v[k])
        assert_same_position(robot, oracle.q(after[k]), pin.integrate(oracle.pin, start, step))
        assert_same_position(robot, oracle.q(interpolated[k]), pin.interpolate(oracle.pin, start, goal, 0.3))
        right = pin.difference(oracle.pin, start, goal)[oracle.order]
        assert np.allclose(between[k], right, rtol=0, atol=1e-9)
        rows = np.ix_(oracle.order, oracle.order)
        for derivative, side in zip(of_step, sides, strict=True):
            assert np.allclose(
                derivative[k], pin.dIntegrate(oracle.pin, start, step, side)[rows], rtol=0, atol=1e-9
            )
        for derivative, side in zip(of_difference, sides, strict=True):
            right = pin.dDifference(oracle.pin, start, goal, side)[rows]
            assert np.allclose(derivative[k], right, rtol=0, atol=1e-9)
    assert dn.interpolate(robot, q0[0], q1[0], np.linspace(0, 1, 3)).shape == (3, robot.nq)
    assert np.array_equal(oracle.q(robot.neutral()), pin.neutral(oracle.pin))


def assert_same_position(robot, position, expected):
    """Quaternions may have either sign."""
    for _, at in robot.quaternions:
        if position[at] @ expected[at] < 0:
            position[at] *= -1
    assert np.allclose(position, expected, rtol=0, atol=EXACT)


@pytest.mark.parametrize("name", ["five_bar", "differential", "ball"])
def test_steps_close_loops(name):
    """Independent joints move by the step, the others follow; the result is closed."""
    robot = robot_of(name)
    q, qd, _ = closed_states(robot, COUNT, reach=0.05)
    end = dn.integrate(robot, q, 0.05 * qd)
    assert np.allclose(dn.close_loops(robot, end), end, atol=1e-9)
    assert np.allclose(dn.difference(robot, q, end), 0.05 * qd, atol=1e-12)
    assert np.allclose(dn.interpolate(robot, q, end, 1.0), end, atol=1e-9)
    near = [dn.integrate(robot, q, s * 1e-5 * qd) for s in (1, -1)]
    assert np.allclose((near[0] - near[1]) / 2e-5, robot_rates(robot, q, qd), atol=1e-7)
    drawn = dn.random_configuration(robot, 4, random=0)
    assert np.allclose(dn.close_loops(robot, drawn), drawn, atol=1e-9)
    with pytest.raises(ValueError, match="integrate_derivatives is for robots without closed loops"):
        dn.integrate_derivatives(robot, q, qd)


def robot_rates(robot, q, qd):
    return spanning(robot.tree, q, spanning(robot, q, qd)[1])[1]


def test_rigid_motions():
    """Also near the identity and near half a turn."""
    random = np.random.default_rng(0)
    sizes = np.concatenate([[0.0, 1e-9, 1e-5, np.pi - 1e-9, np.pi - 1e-5], random.uniform(0.2, 3, 10)])
    axes = random.normal(size=(len(sizes), 3))
    w = axes * (sizes / np.linalg.norm(axes, axis=1))[:, None]
    motions = np.concatenate([w, random.normal(size=w.shape)], axis=1)
    R, p = dn.exp6(motions)
    assert np.array_equal(R, dn.exp3(w))
    assert np.allclose(dn.log6(R, p), motions, rtol=0, atol=1e-14)
    for k, motion in enumerate(motions):
        right = pin.exp6(pin.Motion(motion[SWAPPED]))
        assert np.allclose(R[k], right.rotation, rtol=0, atol=1e-12)
        assert np.allclose(p[k], right.translation, rtol=0, atol=1e-12)
        if sizes[k] > 0.1:
            assert np.allclose(dn.log6(R[k], p[k])[SWAPPED], pin.log6(right).vector, rtol=0, atol=1e-7)


@pytest.mark.parametrize("name", TREES)
def test_limits_and_masses(name):
    robot, oracle = robot_and_oracle(name)
    pin_model = oracle.pin
    lower, upper = robot.lower_position_limits, robot.upper_position_limits
    names = [body.joint.name for body in robot.bodies]
    for joint in robot.independent_joints:
        pin_joint = pin_model.joints[oracle.numbers[names.index(joint.name)]]
        if joint.type.bounded:
            assert lower[joint.q] == pin_model.lowerPositionLimit[pin_joint.idx_q]
            assert upper[joint.q] == pin_model.upperPositionLimit[pin_joint.idx_q]
        else:
            assert (lower[joint.q] == -np.inf).all() and (upper[joint.q] == np.inf).all()
        if joint.type.is_scalar:
            for limits, right in (
                (robot.velocity_limits, pin_model.velocityLimit),
                (robot.effort_limits, pin_model.effortLimit),
            ):
                assert limits[joint.v] == (right[pin_joint.idx_v] or np.inf)
    q = dn.random_configuration(robot, 100, random=0)
    assert (q >= lower).all() and (q <= upper).all() and q.std(axis=0).min() > 0
    assert robot.mass == pytest.approx(pin.computeTotalMass(pin_model), rel=1e-12)
    for body, mass in zip(robot.bodies, robot.masses, strict=True):
        name = "root_joint" if body.joint.kind == "floating" else body.joint.name
        assert (
            body.mass == mass == pytest.approx(pin_model.inertias[pin_model.getJointId(name)].mass, rel=1e-12)
        )


def test_limits_of_loops_have_the_shapes_of_q_and_qd():
    robot = robot_of("five_bar")
    assert robot.lower_position_limits.shape == robot.upper_position_limits.shape == (robot.nq,)
    assert robot.velocity_limits.shape == robot.effort_limits.shape == (robot.nv,)


def test_wrong_arguments():
    robot = ROBOTS["panda7"].model()
    q = robot.neutral()
    with pytest.raises(dn.InputError, match=r"v must have shape \(..., 7\), not \(6,\)"):
        dn.integrate(robot, q, np.zeros(6))
    with pytest.raises(dn.InputError, match=r"q1\[2\] \(panda_joint3\) is not finite"):
        dn.difference(robot, q, [0, 0, np.nan, 0, 0, 0, 0])
    with pytest.raises(dn.InputError, match=r"lower\[0\] \(panda_joint1\) is 3, above upper\[0\]"):
        dn.random_configuration(robot, lower=np.full(7, 3.0))
    with pytest.raises(dn.InputError, match=r"upper\[0\] \(panda_joint1\) is not a number"):
        dn.random_configuration(robot, upper=np.full(7, np.nan))
    with pytest.raises(dn.InputError, match="lower must have shape"):
        dn.random_configuration(robot, lower=np.zeros(6))


@pytest.mark.parametrize(
    "function, arguments, words",
    [
        (dn.exp3, [np.ones(4)], r"^rotation_vector .*\(\.\.\., 3\), not \(4,\)"),
        (dn.exp6, [np.ones(5)], r"^motion .*\(\.\.\., 6\), not \(5,\)"),
        (dn.log3, [np.ones(3)], r"^rotation .*\(\.\.\., 3, 3\), not \(3,\)"),
        (dn.log3, [np.ones((3, 3))], "^rotation is not orthogonal: .* by 3"),
        (dn.log3, [-np.eye(3)], "^rotation is a reflection"),
        (dn.log6, [np.eye(3), np.zeros(2)], r"^position .*\(\.\.\., 3\), not \(2,\)"),
    ],
)
def test_wrong_motions_raise(function, arguments, words):
    with pytest.raises(ValueError, match=words):
        function(*arguments)


def test_rotation_of_float32_is_accepted():
    rotation = dn.exp3([0.1, -0.2, 0.3]).astype(np.float32)
    assert np.allclose(dn.log3(rotation), [0.1, -0.2, 0.3], atol=1e-6)
