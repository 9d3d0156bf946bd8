"""Wheels that roll: against models written by hand, and identities."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from rolled import rolled
from tolerances import error

import dynamics_node as dn
from dynamics_node.algorithms.wheels import LEANING, Wheel, inverse_root
from dynamics_node.graph import ORDERINGS
from dynamics_node.robot.state_arrays import sample_positions
from dynamics_node.symbolic import quaternion_rotation

EXACT = 1e-9
MASS, ACROSS, SPIN, RADIUS = 2.0, 0.03, 0.05, 0.2
UP = np.array([0.0, 0.0, 1.0])


def body(name, mass, inertia, xyz=(0, 0, 0), yaw=0.0):
    ixx, iyy, izz = inertia
    place = " ".join(map(str, xyz))
    return (
        f'<link name="{name}"><inertial><origin xyz="{place}" rpy="0 0 {yaw}"/><mass value="{mass}"/>'
        f'<inertia ixx="{ixx}" iyy="{iyy}" izz="{izz}" ixy="0" ixz="0" iyz="0"/></inertial></link>'
    )


def joint(name, kind, parent, child, axis=(0, 1, 0), xyz=(0, 0, 0)):
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="{" ".join(map(str, xyz))}"/><axis xyz="{" ".join(map(str, axis))}"/></joint>'
    )


def robot_from(*parts, floating_base=True):
    return dn.parse_robot(f'<robot name="wheels">{"".join(parts)}</robot>', floating_base=floating_base)


DISC = body("disc", MASS, (ACROSS, SPIN, ACROSS))


def standing_disc(count, seed=0):
    """The robot, its forward dynamics, and states (q, qd) of a disc that rolls on the ground z = 0, with leanings up to
    72 degrees."""
    robot = robot_from(DISC)
    forward = dn.build(robot, dn.forward_dynamics(robot, dn.Contact("disc", "wheel", radius=RADIUS)))
    random = np.random.default_rng(seed)
    q = sample_positions(robot, 20 * count, random)
    leaning = np.array([UP @ quaternion_rotation(p[3:])[:, 1] for p in q])
    q = q[np.abs(leaning) < np.sin(np.radians(72))][:count]
    assert len(q) == count
    qd = random.uniform(-3, 3, (count, 6))
    for p, v in zip(q, qd, strict=True):
        R = quaternion_rotation(p[3:])
        arm = lowest(R[:, 1])
        p[2] = -arm[2]
        v[3:] = R.T @ -np.cross(R @ v[:3], arm)
    return robot, forward, q, qd


def lowest(axis, normal=UP, radius=RADIUS):
    """From the center of a disc to its lowest point."""
    d = normal - (normal @ axis) * axis
    return -radius * d / np.linalg.norm(d)


def test_a_disc_rolls_as_newton_and_euler_say():
    robot, forward, q, qd = standing_disc(300)
    moment = np.random.default_rng(1).uniform(-1, 1, (300, 3))
    qdd, forces = forward(q, qd, np.hstack([moment, np.zeros((300, 3))]), np.ones((300, 1)))
    for k in range(300):
        R, w = quaternion_rotation(q[k, 3:]), qd[k, :3]
        changes, force = rolling(R, R @ w, R @ moment[k])
        expected = np.r_[R.T @ changes[:3], R.T @ changes[3:] - np.cross(w, qd[k, 3:])]
        assert error(qdd[k], expected) < EXACT
        x = np.cross(R[:, 1], UP) / np.linalg.norm(np.cross(R[:, 1], UP))
        axes = np.stack([x, np.cross(UP, x), UP])
        assert error(forces[k], axes @ force) < EXACT


def rolling(R, w, moment):
    """Angular acceleration and acceleration of the center of the disc (6,), in axes of the world, and the force (3,) at
    its lowest point."""
    axis, inertia = R[:, 1], R @ np.diag([ACROSS, SPIN, ACROSS]) @ R.T
    arm, turning = lowest(axis), np.cross(w, axis)
    d = UP - (UP @ axis) * axis
    d_rate = -(UP @ turning) * axis - (UP @ axis) * turning
    u = d / np.linalg.norm(d)
    arm_rate = -RADIUS * (d_rate - u * (u @ d_rate)) / np.linalg.norm(d)
    # center: -(wd x arm) - w x arm_rate; force = MASS (that + 9.81 up); inertia wd + w x inertia w = arm x force + moment
    S = np.array([[0, -arm[2], arm[1]], [arm[2], 0, -arm[0]], [-arm[1], arm[0], 0]])
    rest = MASS * (9.81 * UP - np.cross(w, arm_rate))
    wd = np.linalg.solve(inertia - MASS * S @ S, np.cross(arm, rest) + moment - np.cross(w, inertia @ w))
    center = S @ wd - np.cross(w, arm_rate)
    return np.r_[wd, center], MASS * (center + 9.81 * UP)


def test_contact_forces_of_a_rolling_disc_have_no_power():
    robot, forward, q, qd = standing_disc(300, seed=2)
    tau = np.random.default_rng(3).uniform(-1, 1, qd.shape)
    qdd, forces = forward(q, qd, tau, np.ones((300, 1)))
    contact = dn.evaluate(robot, "inverse_dynamics", q, qd, qdd, backend="numpy") - tau
    power = (contact * qd).sum(axis=1)
    assert np.abs(power).max() < EXACT * np.abs(contact).max() and np.abs(forces).max() > 1.0


def test_a_rolling_disc_keeps_its_energy_and_does_not_slide():
    robot, forward, q, qd = standing_disc(4, seed=4)
    for p, v in zip(q, qd, strict=True):
        p, v = settled(p, v)
        after, rates = rolled(robot, forward, p, v, np.zeros(6), np.ones(1), 1.0, 2000)
        R = quaternion_rotation(after[3:])
        arm = lowest(R[:, 1])
        assert np.abs(R @ rates[3:] + np.cross(R @ rates[:3], arm)).max() < 1e-8
        assert abs(after[2] + arm[2]) < 1e-8
        assert abs(energy(robot, after, rates) - energy(robot, p, v)) < 1e-8 * energy(robot, p, v)
        assert np.abs(after[:2] - p[:2]).max() > 0.1


def settled(p, v):
    """A state of a fast disc that leans a little: it falls in no second."""
    axis = np.array([0.1, 1.0, 0.05 * np.sign(v[0])])
    axis /= np.linalg.norm(axis)
    x = np.cross(axis, UP) / np.linalg.norm(np.cross(axis, UP))
    R = np.stack([x, axis, np.cross(x, axis)], axis=1)
    w = 12.0 * axis + 0.2 * v[:3]
    q = np.r_[p[:2], -lowest(axis)[2], quaternion_of(R)]
    return q, np.r_[R.T @ w, R.T @ -np.cross(w, lowest(axis))]


def quaternion_of(R):
    """x y z w of a rotation of less than half a turn."""
    w = np.sqrt(1.0 + np.trace(R)) / 2
    return np.r_[R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1], 4 * w * w] / (4 * w)


def energy(robot, q, qd):
    return float(dn.evaluate(robot, "kinetic_energy", q, qd) + dn.evaluate(robot, "potential_energy", q))


def test_directions_change_with_the_normal():
    random = np.random.default_rng(5)
    for roller in (None, 0.785):
        for _ in range(20):
            axis, normal, turn = random.normal(size=(3, 3))
            axis, normal = axis / np.linalg.norm(axis), normal / np.linalg.norm(normal)
            if abs(axis @ normal) > np.sin(np.radians(73)):
                continue
            turn -= (turn @ normal) * normal
            wheel = Wheel(tuple(random.normal(size=3)), tuple(axis), 0.3, roller)
            h = 1e-5
            sides = [wheel.directions(np.cos(h) * normal + s * np.sin(h) * turn) for s in (1, -1)]
            slope = (sides[0] - sides[1]) / (2 * h)
            assert np.abs(wheel.change(normal, turn) - slope).max() < 1e-7 * max(1.0, np.abs(slope).max())


def test_a_root_without_a_root():
    s = np.cos(np.radians(np.linspace(0, 75, 500))) ** 2
    y, loss = inverse_root(s)
    assert np.abs(y * np.sqrt(s) - 1).max() < 1e-12 and loss.max() < LEANING


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_a_wheel_that_lies_flat_has_no_result(backend):
    robot = robot_from(DISC)
    wheel = dn.Contact("disc", "wheel", radius=RADIUS)
    forward = dn.build(robot, dn.forward_dynamics(robot, wheel), backend=backend)
    q, rest = robot.neutral(), np.zeros(6)
    for degrees in (80.0, 85.0, 90.0, 100.0):
        q[3:] = np.sin(np.radians(degrees / 2)), 0, 0, np.cos(np.radians(degrees / 2))
        with pytest.raises(dn.SolutionError, match="'disc'.*75 degrees"):
            forward(q, rest, rest, [1])
        assert np.isnan(forward(q, rest, rest, [1], errors="nan")[0]).all()
        assert error(forward(q, rest, rest, [0])[0], [0, 0, 0, 0, *gravity_in(q)]) < EXACT


def gravity_in(q):
    return (quaternion_rotation(q[3:]).T @ [0, 0, -9.81])[1:]


# --- robots on wheels ---------------------------------------------------------------------------------------

WIDE, AHEAD, REACH = 0.5, 0.1, 0.4  # of wheels, center of mass, caster; m


def by(ordering):
    """Choices of `build`: the recursion, or elimination in an ordering."""
    graph = {"solver": "factor_graph", "ordering": ordering} if ordering else {}
    return graph | {"backend": "numpy"}


def differential_base():
    """A cart with two driven wheels and an omnidirectional wheel as caster, which rolls sideways."""
    wheel, caster = (0.004, 0.007, 0.004), (0.002, 0.001, 0.001)
    robot = robot_from(
        body("base", 8.0, (0.1, 0.2, 0.3), (AHEAD, 0, 0.1)),
        body("left", 1.0, wheel),
        body("right", 1.0, wheel),
        body("caster", 0.5, caster),
        joint("left_joint", "continuous", "base", "left", xyz=(0, WIDE / 2, 0)),
        joint("right_joint", "continuous", "base", "right", xyz=(0, -WIDE / 2, 0)),
        joint("caster_joint", "continuous", "base", "caster", axis=(1, 0, 0), xyz=(REACH, 0, 0)),
    )
    wheels = [dn.Contact(name, "wheel", radius=0.1) for name in ("left", "right")]
    caster = dn.Contact("caster", "wheel", axis=(1, 0, 0), radius=0.1, roller=np.pi / 2)
    return robot, [*wheels, caster]


@pytest.mark.parametrize("ordering", [None, *ORDERINGS])
def test_a_differential_base_against_lagrange(ordering):
    """Both wheels hold the base sideways, so no ordering exists: there, one of them slips sideways. Quasi-velocities v ahead and w about z: (m + 2 I / r^2) dv/dt - m x w^2 = (left + right) / r, and
    J dw/dt + m x v w = (right - left) wide / (2 r)."""
    robot, contacts = differential_base()
    if ordering:
        contacts[1] = replace(contacts[1], roller=np.pi / 2)
    forward = dn.build(robot, dn.forward_dynamics(robot, contacts), **by(ordering))
    at = {name: robot.v_names.index(name) for name in ("left_joint", "right_joint", "caster_joint")}
    r, mx = 0.1, 8.0 * AHEAD + 0.5 * REACH
    along = 10.5 + 2 * 0.007 / r**2
    about = 0.3 + 8 * AHEAD**2 + 2 * (0.004 + 0.25 * WIDE**2 * (1.0 + 0.007 / r**2))
    about += 0.001 + 0.5 * REACH**2 + 0.002 * (REACH / r) ** 2
    random = np.random.default_rng(6)
    for _ in range(20):
        (v, w), (left, right) = random.uniform(-2, 2, (2, 2))
        angle, q, qd, tau = random.uniform(-3, 3), robot.neutral(), np.zeros(9), np.zeros(9)
        q[:7] = 1, 2, r, 0, 0, np.sin(angle / 2), np.cos(angle / 2)
        q[7:] = random.uniform(-3, 3, 3)
        qd[:6] = 0, 0, w, v, 0, 0
        qd[at["left_joint"]], qd[at["right_joint"]] = (v - w * WIDE / 2) / r, (v + w * WIDE / 2) / r
        qd[at["caster_joint"]] = -w * REACH / r
        tau[at["left_joint"]], tau[at["right_joint"]] = left, right
        qdd, _ = forward(q, qd, tau, np.ones(3))
        expected = np.zeros(9)
        dv = ((left + right) / r + mx * w * w) / along
        dw = ((right - left) * WIDE / (2 * r) - mx * v * w) / about
        expected[2], expected[3] = dw, dv
        expected[at["left_joint"]], expected[at["right_joint"]] = (
            (dv - dw * WIDE / 2) / r,
            (dv + dw * WIDE / 2) / r,
        )
        expected[at["caster_joint"]] = -dw * REACH / r
        assert error(qdd, expected) < EXACT


def test_a_mecanum_base_moves_as_its_kinematics_say():
    """The wheel at (x, y) with rollers at angle s turns at (v_x - w y + (v_y + w x) / tan s) / r."""
    r, places = 0.1, list(product((0.3, -0.3), (0.2, -0.2)))
    names = [f"wheel{k}" for k in range(4)]
    robot = robot_from(
        body("base", 20.0, (0.5, 0.7, 1.0), (0.05, 0.02, 0.1)),
        *(body(name, 1.0, (0.004, 0.007, 0.004)) for name in names),
        *(joint(f"j{n}", "continuous", "base", n, xyz=(*p, 0)) for n, p in zip(names, places, strict=True)),
    )
    angles = [np.pi / 4 * -np.sign(x * y) for x, y in places]
    contacts = [dn.Contact(n, "wheel", radius=r, roller=s) for n, s in zip(names, angles, strict=True)]
    forward = dn.build(robot, dn.forward_dynamics(robot, contacts))
    rates = np.array(
        [
            [1 / r, -1 / np.tan(s) / r, (-y - x / np.tan(s)) / r]
            for (x, y), s in zip(places, angles, strict=True)
        ]
    )
    random = np.random.default_rng(7)
    for _ in range(20):
        q, qd, tau = robot.neutral(), np.zeros(10), np.r_[np.zeros(6), random.uniform(-2, 2, 4)]
        q[2], q[7:], motion = r, random.uniform(-3, 3, 4), random.uniform(-1, 1, 3)
        qd[[3, 4, 2]], qd[6:] = motion, rates @ motion
        qdd, forces = forward(q, qd, tau, np.ones(4))
        assert np.abs(qdd[6:] - rates @ qdd[[3, 4, 2]]).max() < EXACT * np.abs(qdd).max()
        assert np.abs(qdd[[0, 1, 5]]).max() < EXACT * np.abs(qdd).max()
        contact = dn.evaluate(robot, "inverse_dynamics", q, qd, qdd, backend="numpy") - tau
        assert abs(contact @ qd) < EXACT * np.abs(contact).max() and np.abs(forces[::2]).max() > 0.1
        assert forces[1::2].sum() == pytest.approx(24 * 9.81)


@pytest.mark.parametrize("ordering", [None, *ORDERINGS])
def test_an_omnidirectional_base_against_newton(ordering):
    """Three wheels with rollers, spinning at B (v_x, v_y, w); each pushes against the axis of its roller by (tau - I ds/dt) / r."""
    r, far, spin, across, mass = 0.1, 0.3, 0.007, 0.004, 0.8
    angles = 0.2 + np.arange(3) * 2 * np.pi / 3
    names = [f"wheel{k}" for k in range(3)]
    axes = np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1)
    robot = robot_from(
        body("base", 20.0, (0.5, 0.7, 1.0), (0, 0, 0.1)),
        *(body(n, mass, (spin, across, across), yaw=a) for n, a in zip(names, angles, strict=True)),
        *(
            joint(f"j{n}", "continuous", "base", n, axis=a, xyz=far * a)
            for n, a in zip(names, axes, strict=True)
        ),
    )
    contacts = [
        dn.Contact(n, "wheel", radius=r, axis=a, roller=np.pi / 2) for n, a in zip(names, axes, strict=True)
    ]
    forward = dn.build(robot, dn.forward_dynamics(robot, contacts), **by(ordering))
    B = np.stack([np.sin(angles), -np.cos(angles), np.full(3, -far)], axis=1) / r
    total = 20.0 + 3 * mass
    inertia = np.diag([total, total, 1.0 + 3 * (across + mass * far**2)]) + spin * B.T @ B
    random = np.random.default_rng(11)
    for _ in range(5):
        (x, y, w), torques, angle = random.uniform(-1, 1, 3), random.uniform(-2, 2, 3), random.uniform(-3, 3)
        q, qd, expected = robot.neutral(), np.zeros(9), np.zeros(9)
        q[:7] = 1, 2, r, 0, 0, np.sin(angle / 2), np.cos(angle / 2)
        qd[[3, 4, 2]], qd[6:] = (x, y, w), B @ (x, y, w)
        rates = np.linalg.solve(inertia, B.T @ torques - total * w * np.array([-y, x, 0]))
        expected[[3, 4, 2]], expected[6:] = rates, B @ rates
        qdd, forces = forward(q, qd, np.r_[np.zeros(6), torques], np.ones(3))
        assert error(qdd, expected) < EXACT
        np.testing.assert_allclose(-forces[::2], (torques - spin * expected[6:]) / r, atol=1e-8)


@pytest.mark.parametrize("backend", ["numpy", "gtsam", "c"])
def test_a_wheel_that_lies_flat_has_no_result_in_any_ordering(backend):
    if backend == "gtsam":
        pytest.importorskip("gtsam", reason="pip install 'gtsam>=4.3'")
    robot = robot_from(DISC)
    problem = dn.forward_dynamics(robot, dn.Contact("disc", "wheel", radius=RADIUS))
    forward = dn.build(robot, problem, solver="factor_graph", ordering="aba", backend=backend)
    q = np.stack([robot.neutral()] * 2)
    q[1, 3:] = np.sin(0.7), 0, 0, np.cos(0.7)  # leans by 80 degrees
    qdd, forces = forward(q, np.zeros(6), np.ones(6), [1], errors="nan")
    assert np.isfinite(qdd[0]).all() and np.isnan(qdd[1]).all() and np.isnan(forces[1]).all()
    off, _ = forward(q, np.zeros(6), np.ones(6), [0])
    assert np.isfinite(off).all()


def test_the_sign_of_rollers():
    """A wheel whose rollers have their axis at 45 degrees to the left of the wheel's pushes along it."""
    robot = robot_from(DISC)
    wheel = dn.Contact("disc", "wheel", radius=RADIUS, roller=np.pi / 4)
    P = Wheel((0, 0, 0), (0, 1, 0), RADIUS, np.pi / 4).directions(UP)
    np.testing.assert_allclose(P[3:, 0], [-np.sqrt(0.5), np.sqrt(0.5), 0], atol=1e-12)
    forward = dn.build(robot, dn.forward_dynamics(robot, wheel))
    qdd, forces = forward(robot.neutral(), np.zeros(6), [0, 0, 0, 1.0, 1.0, 0], [1])
    assert abs(forces[0]) < EXACT and qdd[3] == pytest.approx(0.5) and forces[1] == pytest.approx(MASS * 9.81)


def test_a_disc_on_a_plate_that_turns():
    """After a while it does not slide on the plate: its lowest point moves as the plate does."""
    robot = robot_from(
        '<link name="world"/>',
        body("plate", 5.0, (0.5, 0.6, 0.9), (0.1, 0.0, -0.05)),
        DISC,
        joint("tilt", "revolute", "world", "plate", axis=(0.3, 0.5, 0.8)).replace(
            "</joint>", '<limit lower="-9" upper="9" effort="9" velocity="9"/></joint>'
        ),
        joint("free", "floating", "world", "disc"),
        floating_base=False,
    )
    contact = dn.Contact("disc", "wheel", radius=RADIUS, other="plate", normal=(0.1, -0.2, 1.0))
    forward = dn.build(robot, dn.forward_dynamics(robot, contact))
    random, normal = np.random.default_rng(8), np.array(contact.normal)
    at = robot.independent_joints[[j.name for j in robot.independent_joints].index("free")]
    for _ in range(4):
        q, qd = robot.neutral(), random.uniform(-1, 1, 7)
        place, turned = random.uniform(-0.5, 0.5, 3), random.normal(size=4) * 0.1 + [0, 0, 0, 1]
        q[at.q] = *place, *(turned / np.linalg.norm(turned))
        qd[at.v.start + 3 : at.v.stop] = 0.0
        slip, J = sliding(robot, q, qd, normal)
        qd[at.v.start + 3 : at.v.stop] = -np.linalg.solve(J[:, at.v.start + 3 : at.v.stop], slip)
        assert np.abs(sliding(robot, q, qd, normal)[0]).max() < 1e-12
        before = energy(robot, q, qd)
        q, qd = rolled(robot, forward, q, qd, np.zeros(7), np.ones(1), 0.15, 300)
        assert np.abs(sliding(robot, q, qd, normal)[0]).max() < 1e-8
        assert energy(robot, q, qd) == pytest.approx(before, rel=1e-8)


def sliding(robot, q, qd, normal):
    """The velocity of the lowest point of the disc relative to the plate, and its matrix, in axes of the world."""
    (R, p), (plate, origin) = (
        dn.evaluate(robot, "frame_pose", q, link=link, backend="numpy") for link in ("disc", "plate")
    )
    x = p + lowest(R[:, 1], plate @ normal)
    J = np.zeros((3, robot.nv))
    for link, at, sign in (("disc", p, 1.0), ("plate", origin, -1.0)):
        (full,) = [dn.evaluate(robot, "frame_jacobian", q, link=link, backend="numpy")]
        J += sign * (full[3:] - np.cross((x - at)[None], full[:3].T).T)
    return J @ qd, J


def test_derivatives_of_a_rolling_disc():
    robot, forward, q, qd = standing_disc(4, seed=9)
    tau = np.random.default_rng(10).uniform(-1, 1, qd.shape)
    exact = forward.derivatives()(q, qd, tau, np.ones((4, 1)))
    for k, (p, v) in enumerate(zip(q, qd, strict=True)):
        for j, direction in enumerate(np.eye(6)):
            slope = [
                forward(dn.integrate(robot, p, s * 1e-5 * direction), v, tau[k], [1])[0] for s in (1.0, -1.0)
            ]
            slope = (slope[0] - slope[1]) / 2e-5
            assert np.abs(exact.dqdd_dq[k][:, j] - slope).max() < 1e-6 * max(
                1.0, np.abs(exact.dqdd_dq[k]).max()
            )
    flat = robot.neutral()
    flat[3:] = np.sqrt(0.5), 0, 0, np.sqrt(0.5)
    assert np.isnan(forward.derivatives()(flat, qd[0], tau[0], [1], errors="nan").dqdd_dq).all()
