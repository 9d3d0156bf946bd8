"""The support region: hulls of feet, and on slopes against the forces that a robot at rest needs."""

import numpy as np
import pytest
from robots import robot_of
from scipy.spatial import ConvexHull
from test_contact_forces import FEET, LINE, box, corners, states_of

import dynamics_node as dn


def region(contacts, **choices):
    robot = box()
    return dn.support_region(robot, robot.neutral(), contacts, **choices)


def area(polygon):
    x, y = polygon.T
    return 0.5 * (x @ np.roll(y, -1) - y @ np.roll(x, -1))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("friction", [0.0, 0.5])
def test_feet_on_a_plane_support_their_hull(seed, friction):
    places = np.random.default_rng(seed).uniform(-0.3, 0.3, (3 + seed % 5, 2))
    contacts = [
        dn.Contact("box", name=f"foot {k}", xyz=(x, y, -0.1), friction=friction)
        for k, (x, y) in enumerate(places)
    ]
    hull = places[ConvexHull(places).vertices]  # counterclockwise
    vertices = region(contacts)
    assert area(vertices) == pytest.approx(area(hull), rel=1e-6)
    first = np.linalg.norm(hull - vertices[0], axis=1).argmin()
    np.testing.assert_allclose(vertices, np.roll(hull, -first, axis=0), atol=1e-7)


def test_feet_of_a_robot_support_their_hull():
    robot = robot_of("solo12")
    q = next(states_of("solo12", robot, 1))[0]
    q[:3] = 0.3, -0.2, 0.1
    feet = np.array(
        [dn.evaluate(robot, "frame_pose", q, link=foot, backend="numpy").position for foot in FEET]
    )
    level = [
        dn.Contact(foot, xyz=_down(robot, q, foot, p[2] - feet[:, 2].min()), friction=1.0)
        for foot, p in zip(FEET, feet, strict=True)
    ]
    vertices = dn.support_region(robot, q, level)
    assert area(vertices) == pytest.approx(ConvexHull(feet[:, :2]).volume, rel=1e-6)


def _down(robot, q, link, height):
    """The point below the origin of a link, in its axes."""
    return dn.evaluate(robot, "frame_pose", q, link=link, backend="numpy").rotation.T @ [0, 0, -height]


@pytest.mark.parametrize(
    "places, expected",
    [
        ([(1, 1)], [[0.2, 0.1]]),
        ([(1, 1), (-1, 0)], [[-0.2, 0.0], [0.2, 0.1]]),
        (LINE, [[-0.2, 0.0], [0.2, 0.0]]),
        ([(1, 1), (1, 1)], [[0.2, 0.1]]),
    ],
)
def test_points_and_segments(places, expected):
    np.testing.assert_allclose(region(corners(places=places)), expected, atol=1e-8)


def test_a_surface_supports_its_area():
    sole = dn.Contact("box", "surface", xyz=(0.1, 0, 0), half_lengths=(0.1, 0.05), friction=0.1)
    np.testing.assert_allclose(
        region(sole), [[0.0, -0.05], [0.2, -0.05], [0.2, 0.05], [0.0, 0.05]], atol=1e-8
    )


def test_a_groove_by_hand():
    """Feet at x = -0.1 and 0.1 on slopes of 45 degrees without friction: both carry half, at the middle."""
    groove = [
        dn.Contact("box", name=name, xyz=(x, 0, 0), normal=(-x, 0, 0.1), friction=0.0)
        for name, x in (("left", -0.1), ("right", 0.1))
    ]
    np.testing.assert_allclose(region(groove), [[0.0, 0.0]], atol=1e-8)
    # with friction mu, forces lean up to 45 degrees +- atan(mu): they meet above x = 0.1 tan(45 - atan(mu)) ...
    mu = 0.5
    rough = [dn.Contact(c.link, name=c.name, xyz=c.xyz, normal=c.normal, friction=mu) for c in groove]
    low, high = np.tan(np.pi / 4 - np.arctan(mu)), np.tan(np.pi / 4 + np.arctan(mu))
    meet = (
        0.1 * (high - low) / (high + low)
    )  # of the left one that leans least and the right one that leans most
    np.testing.assert_allclose(region(rough), [[-meet, 0.0], [meet, 0.0]], atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_the_robot_rests_exactly_where_the_region_says(seed):
    """Contacts moved against the center of mass of the box: forces exist inside, and not outside."""
    pytest.importorskip("daqp", reason="contact forces: pip install daqp")
    random = np.random.default_rng(seed)
    robot, count = box(), int(random.integers(3, 6))
    places = random.uniform(-0.2, 0.2, (count, 3))
    normals = np.concatenate([random.uniform(-0.8, 0.8, (count, 2)), np.ones((count, 1))], axis=1)
    frictions = random.choice([0.2, 0.6, 1.0], count)

    def contacts(center):
        return [
            dn.Contact("box", name=f"foot {k}", xyz=p - [*center, 0.0], normal=n, friction=mu)
            for k, (p, n, mu) in enumerate(zip(places, normals, frictions, strict=True))
        ]

    def rests(center):
        solver = dn.build_contact_solver(robot, contacts(center), backend="numpy")
        return np.isfinite(solver(robot.neutral(), np.zeros(6), np.zeros(6), errors="nan").tau).all()

    try:
        polygon = dn.support_region(robot, robot.neutral(), contacts((0, 0)), tolerance=2e-3)
    except dn.SolutionError:
        assert not any(rests(center) for center in [*places[:, :2], (0, 0), places[:, :2].mean(axis=0)])
        return
    middle = polygon.mean(axis=0)
    for k in range(len(polygon)):
        edge = 0.5 * (polygon[k - 1] + polygon[k])
        assert rests(middle + (1 - 1e-3) * (edge - middle))
        assert rests(middle + (1 - 1e-3) * (polygon[k] - middle))
        step = polygon[k] - polygon[k - 1]
        outward = np.array([step[1], -step[0]]) / np.hypot(*step)
        assert not rests(edge + 2.1e-3 * outward)
    assert area(polygon) > 0 and len(polygon) > 2


@pytest.mark.parametrize(
    "contacts, error, word",
    [
        (corners(None), dn.InputError, "bounds"),
        ([dn.Contact("box", normal=(1, 0, 1), friction=0.5)], dn.SolutionError, "no forces"),
        (corners()[:0], dn.SolutionError, "no contact"),
        ([dn.Contact("toe")], dn.ContactError, "toe"),
    ],
)
def test_without_a_region(contacts, error, word):
    with pytest.raises(error, match=word):
        region(contacts)


def test_invalid_arguments_are_named():
    for choices, word in (
        ({"tolerance": 0.0}, "tolerance"),
        ({"active": [1, 0]}, "active"),
        ({"active": [1, 0, 0.5, 1]}, "active"),
    ):
        with pytest.raises(dn.InputError, match=word):
            region(corners(), **choices)
    fixed = robot_of("panda7")
    with pytest.raises(dn.InputError, match="floating base"):
        dn.support_region(fixed, fixed.neutral(), dn.Contact("panda_hand"))
    robot = box()
    with pytest.raises(dn.InputError, match="quaternion"):
        dn.support_region(robot, 2 * robot.neutral(), corners())
