"""The ground of rollouts: balls, walls, and heights that are functions."""

import numpy as np
import pytest
from robots import robot_of
from scipy.optimize import minimize
from test_contact_rollouts import BOX, FEET, G, forward_of, sampled

import dynamics_node as dn
from dynamics_node.algorithms.ground import place_above

MASS, RADIUS = 2.0, 0.1
BALL = BOX.replace('ixx=".02" iyy=".03" izz=".04"', 'ixx=".008" iyy=".008" izz=".008"')  # 2/5 m r^2
ROUND = dn.Contact("box", radius=RADIUS)


def hills(x, y):
    return 0.1 * np.sin(2 * x) * np.cos(3 * y) + 0.2 * x


def stairs(x, y):
    turns = 2 * np.pi / 0.3
    x = x - np.sin(turns * x) / turns
    return (x - np.sin(turns * x) / turns) / 3


def test_places_above_a_terrain():
    """Axes are a rotation whose last row is the normal; a ball that touches has no gap, to the third order in its
    radius; points of the terrain have none."""
    random, terrain = np.random.default_rng(0), dn.Terrain(hills)
    for x, y in random.uniform(-2, 2, (50, 2)):
        h = 1e-6
        slopes = [
            (hills(x + h, y) - hills(x - h, y)) / (2 * h),
            (hills(x, y + h) - hills(x, y - h)) / (2 * h),
        ]
        normal = np.array([-slopes[0], -slopes[1], 1.0]) / np.linalg.norm([*slopes, 1.0])
        on_it = np.array([x, y, hills(x, y)])
        place = place_above(terrain, on_it, 0.0)
        axes = place.axes.astype(float)
        np.testing.assert_allclose(axes @ axes.T, np.eye(3), atol=1e-12)
        assert np.linalg.det(axes) == pytest.approx(1.0)
        np.testing.assert_allclose(axes[2], normal, atol=1e-8)
        assert abs(place.gap) < 1e-12 and place.loss < 1e-3
        errors = [abs(place_above(terrain, on_it + r * normal, r).gap) for r in (0.04, 0.02)]
        assert errors[0] < 2e-4 and errors[1] < max(errors[0] / 6, 1e-7)
        above = place_above(terrain, on_it + 0.05 * normal, 0.0)
        assert above.gap == pytest.approx(nearest(hills, on_it + 0.05 * normal), rel=0.1)


def nearest(height, point):
    """Distance of a point from a terrain."""
    found = minimize(lambda at: np.linalg.norm(point - np.r_[at, height(*at)]), point[:2])
    return found.fun


def test_a_terrain_that_is_a_plane_is_one():
    robot = robot_of("solo12")
    q, qd, tau = sampled(robot, steps=20)
    plane = dn.Plane((-0.2, 0.1, 1.0), offset=0.01 / np.sqrt(1.05), friction=0.5)
    terrain = dn.Terrain(lambda x, y: 0.2 * x - 0.1 * y + 0.01, friction=0.5)
    for feet in (FEET, [dn.Contact(foot.link, radius=0.01) for foot in FEET]):
        ours, expected = (
            forward_of(robot).rollout(q, qd, tau, 0.002, contacts=feet, ground=g, sweeps=300)
            for g in (terrain, plane)
        )
        np.testing.assert_allclose(ours.q, expected.q, atol=1e-6)
        np.testing.assert_allclose(
            ours.contact_forces[..., 2::3], expected.contact_forces[..., 2::3], atol=1e-2
        )


def test_a_function_is_a_terrain_and_both_backends_agree():
    robot = robot_of("solo12")
    q, qd, tau = sampled(robot)
    for feet in (FEET, [dn.Contact(foot.link, radius=0.015) for foot in FEET]):
        ours, theirs, same = (
            forward_of(robot, backend=backend).rollout(q, qd, tau, 0.005, contacts=feet, ground=ground)
            for backend, ground in (("c", hills), ("numpy", hills), ("c", dn.Terrain(hills)))
        )
        for name in ours._fields:
            np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=1e-7, err_msg=name)
            np.testing.assert_array_equal(getattr(ours, name), getattr(same, name))


def test_a_height_is_compiled_once():
    forward = forward_of(dn.parse_robot(BALL), backend="numpy")
    for _ in range(3):
        forward.rollout(*rest(0.2), np.zeros((1, 6)), 1e-3, contacts=ROUND, ground=lambda x, y: 0.1 * x)
    assert len(forward._rollouts) == 1


def rest(z, x=0.0):
    """q and qd of the ball."""
    return np.r_[x, 0, z, 0, 0, 0, 1], np.zeros(6)


@pytest.mark.parametrize("mu, share", [(0.8, 5 / 7), (0.05, None)])
@pytest.mark.parametrize("degrees", [10, 30])
def test_a_ball_rolls_down_a_slope(degrees, mu, share):
    """It rolls with 5/7 g sin, or slides with g (sin - mu cos)."""
    angle = np.radians(degrees)
    normal = np.array([np.sin(angle), 0.0, np.cos(angle)])
    start = np.r_[RADIUS * normal, 0, 0, 0, 1]
    path = forward_of(dn.parse_robot(BALL)).rollout(
        start,
        np.zeros(6),
        np.zeros((200, 6)),
        1e-3,
        contacts=ROUND,
        ground=dn.Plane(tuple(normal), friction=mu),
    )
    expected = G * (np.sin(angle) * share if share else np.sin(angle) - mu * np.cos(angle))
    place = path.q[:, :3] @ [np.cos(angle), 0, -np.sin(angle)]
    t = 1e-3 * np.arange(201)
    assert np.polyfit(t[50:], place[50:], 2)[0] * 2 == pytest.approx(expected, abs=1e-3 * G)
    np.testing.assert_allclose(path.q[:, :3] @ normal, RADIUS, atol=2e-5)


def test_a_ball_rolls_through_a_valley():
    """What it loses in height it has at the bottom as energy of rolling, and it stays on the ground."""

    def valley(x, y):
        return -0.3 * np.cos(2 * x)

    speeds = {}
    for dt in (2e-3, 1e-3):
        x0 = -0.4
        normal = np.array([0.6 * -np.sin(2 * x0), 0, 1.0])
        normal /= np.linalg.norm(normal)
        q = np.r_[[x0, 0, valley(x0, 0)] + RADIUS * normal, 0, 0, 0, 1]
        path = forward_of(dn.parse_robot(BALL)).rollout(
            q, np.zeros(6), np.zeros((round(0.8 / dt), 6)), dt, contacts=ROUND, ground=valley
        )
        speed = np.linalg.norm(path.qd[:, 3:], axis=1)
        bottom = int(np.argmax(path.q[:, 0] > 0))
        assert path.q[bottom, 2] == pytest.approx(-0.3 + RADIUS, abs=2e-3)
        speeds[dt] = speed[bottom]
    right = np.sqrt(10 / 7 * G * (q[2] + 0.3 - RADIUS))
    assert speeds[1e-3] == pytest.approx(right, rel=0.01)
    assert speeds[2e-3] == pytest.approx(speeds[1e-3], rel=1e-3)


def test_a_ball_between_walls():
    walls = [dn.Plane(), dn.Plane((1, 0, 0), -0.5, 0.0, 1.0), dn.Plane((-1, 0, 0), -0.5, 0.0, 1.0)]
    q, qd = rest(RADIUS)
    qd[3] = 2.0
    path = forward_of(dn.parse_robot(BALL)).rollout(
        q,
        qd,
        np.zeros((1500, 6)),
        1e-3,
        contacts=dn.Contact("box", radius=RADIUS, friction=0.0),
        ground=walls,
    )
    assert path.q[:, 0].max() == pytest.approx(0.4, abs=3e-3)
    assert path.q[:, 0].min() == pytest.approx(-0.4, abs=3e-3)
    np.testing.assert_allclose(np.abs(path.qd[:, 3]), 2.0, rtol=1e-9)
    assert path.contact_forces.shape == (1500, 9)


def test_a_slope_that_is_too_steep_is_nan():
    robot = dn.parse_robot(BALL)
    for slope, ends in ((10.0, True), (200.0, False)):
        for backend in ("c", "numpy"):
            path = forward_of(robot, backend=backend).rollout(
                *rest(0.5),
                np.zeros((3, 6)),
                1e-3,
                contacts=dn.Contact("box"),
                ground=lambda x, y: slope * x,  # noqa: B023
            )
            assert np.isfinite(path.q[1:]).all() == ends
            assert np.isfinite(path.contact_forces).all() == ends


@pytest.mark.parametrize(
    "height",
    [
        lambda x, y: np.sqrt(x * x + y * y),
        lambda x, y: 0.1 if x > 1 else 0.0,
        lambda x, y: [x, y],
        lambda x: x,
        lambda x, y: "high",
    ],
)
def test_a_height_that_cannot_be_traced_is_an_error(height):
    forward = forward_of(dn.parse_robot(BALL), backend="numpy")
    with pytest.raises(dn.ContactError, match=r"terrain: height\(x, y\)"):
        forward.rollout(*rest(0.5), np.zeros((3, 6)), 1e-3, contacts=ROUND, ground=height)


def test_flat_heights_are_numbers():
    path = forward_of(dn.parse_robot(BALL), backend="numpy").rollout(
        *rest(0.5), np.zeros((400, 6)), 1e-3, contacts=ROUND, ground=lambda x, y: 0.25
    )
    assert path.q[-1, 2] == pytest.approx(0.25 + RADIUS)


@pytest.mark.parametrize(
    "fields", [{"friction": -1}, {"restitution": 2}, {"friction": "rough"}, {"height": 3}]
)
def test_an_invalid_terrain_is_an_error(fields):
    with pytest.raises(dn.ContactError, match="terrain"):
        dn.Terrain(**{"height": stairs, **fields})


def test_balls_are_for_rollouts():
    robot = dn.parse_robot(BALL)
    with pytest.raises(dn.ContactError, match="'box'.*radius"):
        dn.forward_dynamics(robot, [ROUND])
