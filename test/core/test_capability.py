"""Forces and accelerations within effort limits: Pinocchio's matrices and linear programs as the oracle, and
identities."""

import pickle
from functools import cache

import numpy as np
import pytest
from robots import LOOPS, ROBOTS, closed_states, random_states, robot_of
from scipy.optimize import linprog
from scipy.spatial import ConvexHull
from tolerances import error
from two_links import ARM

pytest.importorskip("pinocchio", reason="the oracle: pip install pin")

from cases import oracle_of
from loop_oracle import LoopOracle
from oracle import Quantities

import dynamics_node as dn
from dynamics_node.errors import InputError
from dynamics_node.trajectory.polytopes import slabs, zonotope

SOLVED = 1e-6  # of HiGHS, whose tolerances are 1e-7
SIX = ("rx", "ry", "rz", "x", "y", "z")
CASES = {  # robot: link, axes, reference
    "panda7": ("panda_hand", "xyz", "body"),
    "panda": ("panda_leftfinger", SIX, "world_aligned"),  # a mimic finger
    "ur5": ("tool0", "xyz", "world_aligned"),  # parallel axes
    "kinova": ("j2s6s200_end_effector", ("rx", "ry", "rz"), "world_aligned"),
    "five_bar": ("tip", "xy", "body"),
    "belt_leg": ("leg_foot", ("x", "z"), "world_aligned"),
}


TIP = """<link name="tip"/><joint name="end" type="fixed"><parent link="{}"/><child link="tip"/>
<origin xyz="0.4 0 0"/></joint></robot>"""


@cache
def arm(name):
    """A robot and its oracle."""
    if name != "five_bar":
        return robot_of(name), oracle_of(name, mimic=False)
    text = LOOPS[name].replace("</robot>", TIP.format("right_lower"))
    robot = dn.parse_robot(text)
    return robot, LoopOracle(text, robot)


def states_of(name, count=2):
    robot, _ = arm(name)
    return (random_states(robot, count, 5) if name in ROBOTS else closed_states(robot, count))[:3]


class Task:
    """J, dJ/dt qd, M^-1 and the torques of a state by Pinocchio."""

    def __init__(self, name, q, qd, qdd, motors=False):
        link, axes, reference = CASES[name]
        rows = [SIX.index(axis) for axis in axes]
        robot, oracle = arm(name)
        moved = Quantities(oracle, q, qd, qdd).of_link(link, "world_aligned")
        (rotation, _), turn = moved["frame_pose"], np.eye(6)
        if reference == "body":
            turn = np.kron(np.eye(2), rotation.T)
        self.J = (turn @ moved["frame_jacobian"][0])[rows]
        self.drift = (turn @ moved["frame_jacobian_bias"][0])[rows]
        self.A = self.J @ np.linalg.inv(oracle.mass_matrix(q))
        self.free, self.held = oracle.inverse(q, qd, 0 * qd), oracle.inverse(q, qd, qdd)
        self.low, self.high = -robot.effort_limits, robot.effort_limits
        if motors:  # a line from 0.9 of the limit at rest to 0 at 3 rad/s upward, 0.6 of it downward
            self.high = self.high * np.minimum(0.9 - 0.3 * qd, 1.0)
            self.low = 0.6 * self.low

    def forces(self, u):
        """The largest u f of all forces, and the largest s of forces s u, by linear programs."""
        A, b = (
            np.vstack([self.J.T, -self.J.T]),
            np.concatenate([self.high - self.held, self.held - self.low]),
        )
        return program(-u, A, b), program(np.array([-1.0]), A @ u[:, None], b)

    def accelerations(self, u):
        """The same of accelerations: the variables are torques, and s."""
        box = [*zip(self.low, self.high, strict=True)]
        least = self.drift - self.A @ self.free
        support = program(-(u @ self.A), bounds=box) + u @ least
        equal = np.hstack([self.A, -u[:, None]])
        cost = np.append(np.zeros(len(box)), -1.0)
        return support, program(cost, bounds=[*box, (0, None)], A_eq=equal, b_eq=-least)


def program(cost, A=None, b=None, bounds=None, **more):
    bounds = bounds if bounds is not None else [(0 if len(cost) == 1 else None, None)] * len(cost)
    found = linprog(cost, A, b, bounds=bounds, **more)
    assert found.status in (0, 2), found.message
    return np.nan if found.status == 2 else -found.fun


def motors_of(robot):
    """See Task."""
    return {
        name: {"min_effort": -0.6 * most, "max_effort_at_velocity": [[-3.0, 1.8 * most], [3.0, 0.0]],
               "min_effort_at_velocity": [[-9.0, -2.0 * most], [9.0, -2.0 * most]]}
        for name, most in zip(robot.v_names, robot.effort_limits, strict=True)
    }  # fmt: skip


@pytest.mark.parametrize("motors", [False, True], ids=["constant", "motors"])
@pytest.mark.parametrize("name", CASES)
def test_polytopes_equal_linear_programs(name, motors):
    """In random directions: the support of the vertices, and the largest value along the direction. The
    half-spaces contain the vertices."""
    (robot, _), (link, axes, reference) = arm(name), CASES[name]
    q, qd, qdd = states_of(name)
    options = {"axes": axes, "reference": reference, "friction": False, "backend": "numpy"}
    options |= {"limits": motors_of(robot)} if motors else {}
    capability = dn.capability(robot, link, q, qd, qdd, **options)
    directions = np.random.default_rng(2).normal(size=(3, len(axes)))
    for kind in ("forces", "accelerations"):
        polytope = getattr(capability, kind[:-1])
        vertices = polytope.vertices()
        for k in range(len(q)):
            own = vertices[k][np.isfinite(vertices[k]).all(axis=1)]
            sizes = np.abs(polytope.offsets[k]).max()
            assert (polytope.normals[k] @ own.T - polytope.offsets[k][:, None]).max() < 1e-9 * sizes
            task = Task(name, q[k], qd[k], qdd[k], motors)
            for u in directions / np.linalg.norm(directions, axis=1, keepdims=True):
                support, along = getattr(task, kind)(u)
                assert np.isclose((own @ u).max(), support, rtol=SOLVED, atol=SOLVED)
                assert np.isclose(polytope.along(u)[k], along, rtol=SOLVED, atol=SOLVED, equal_nan=True)


@pytest.mark.parametrize("name", ["panda7", "ur5", "five_bar"])
def test_every_vertex_is_one(name):
    """The number of vertices is that of the convex hull of all corners, and of a zonotope in general position."""
    (robot, _), (link, _, _) = arm(name), CASES[name]
    axes = "xy" if name == "five_bar" else "xyz"
    q, qd, _ = states_of(name, 4)
    acceleration = dn.capability(robot, link, q, qd, axes=axes, backend="numpy").acceleration
    expected = {"panda7": 7 * 6 + 2, "ur5": 6 * 5 + 2, "five_bar": 4}[name]
    vertices = acceleration.vertices()
    assert vertices.shape[1] <= expected
    for own in vertices:
        own = own[np.isfinite(own).all(axis=1)]
        assert len(ConvexHull(own).vertices) == len(own)
        assert name == "ur5" or len(own) == expected


def test_the_largest_force_uses_a_torque_limit():
    """With gravity, a payload, velocities and friction: torques by inverse dynamics with the opposite wrench."""
    robot = dn.with_payload(robot_of("panda7"), "panda_hand", 2.0, [0, 0, 0.1])
    q = np.array([[0.1, -0.5, 0.2, -2.0, 0.3, 1.5, 0.8], [0.5, 0.4, -0.2, -1.5, 0.1, 1.9, 0.2]])
    qd, qdd = np.random.default_rng(1).uniform(-0.5, 0.5, (2, 2, 7))
    u = np.array([0.6, 0.0, 0.8])
    force = dn.capability(robot, "panda_hand", q, qd, qdd, reference="body", backend="numpy").force.along(u)
    assert (force > 10).all()
    wrenches = np.concatenate([np.zeros((2, 3)), -force[:, None] * u], axis=1)
    f_ext = np.array([dn.external_wrenches(robot, {"panda_hand": own}) for own in wrenches])
    tau = dn.evaluate(robot, "inverse_dynamics", q, qd, qdd, f_ext=f_ext, backend="numpy")
    tau += dn.friction_torque(robot, q, qd)
    assert np.allclose((np.abs(tau) / robot.effort_limits).max(axis=1), 1.0)


@pytest.mark.parametrize("name", ["panda7", "five_bar", "belt_leg"])
def test_the_largest_acceleration_is_one_of_forward_dynamics(name):
    (robot, _), (link, axes, _) = arm(name), CASES[name]
    q, qd, _ = (own[0] for own in states_of(name))
    acceleration = dn.capability(robot, link, q, qd, axes=axes, friction=False, backend="numpy").acceleration
    rows = [SIX.index(axis) for axis in axes]
    J = dn.evaluate(robot, "frame_jacobian", q, link=link, backend="numpy")[rows]
    A = J @ dn.evaluate(robot, "inverse_mass_matrix", q, backend="numpy")
    for u in np.random.default_rng(3).normal(size=(3, len(rows))):
        tau = np.copysign(robot.effort_limits, u @ A)
        qdd = dn.evaluate(robot, "forward_dynamics", q, qd, tau, backend="numpy")
        moved = dn.evaluate(robot, "frame_kinematics", q, qd, qdd, link=link, backend="numpy")
        assert np.isclose((acceleration.vertices() @ u).max(), moved.acceleration[rows] @ u)


@pytest.mark.parametrize("name", ["panda7", "five_bar"])
def test_ellipsoids_touch_the_torque_ellipsoid(name):
    """Points of both are images of torques with sum (tau / limit)^2 = 1, and are inside the polytopes."""
    (robot, _), (link, axes, reference) = arm(name), CASES[name]
    axes = "xz" if name == "panda7" else axes
    q, qd, qdd = (0.3 * own if k else own for k, own in enumerate(states_of(name)))
    options = {"axes": axes, "reference": reference, "friction": False, "backend": "numpy"}
    capability = dn.capability(robot, link, q, qd, qdd, **options)
    ball = np.random.default_rng(4).normal(size=(20, 2))
    ball /= np.linalg.norm(ball, axis=1, keepdims=True)
    for kind in ("force", "acceleration"):
        center, directions, lengths = getattr(capability, f"{kind}_ellipsoid")
        points = center[:, None] + (ball * lengths[:, None]) @ np.swapaxes(directions, -1, -2)
        polytope = getattr(capability, kind)
        inside = np.einsum("ski,spi->spk", polytope.normals, points) - polytope.offsets[:, None]
        assert np.isfinite(points).all() and (inside <= 1e-9 * np.abs(polytope.offsets).max()).all()
    K, e, middle, generators = capability._parts
    f_center, f_directions, f_lengths = capability.force_ellipsoid
    forces = f_center[:, None] + (ball * f_lengths[:, None]) @ np.swapaxes(f_directions, -1, -2)
    assert np.allclose(np.linalg.norm(forces @ K + e[:, None], axis=-1), 1.0)
    points = center[:, None] + (ball * lengths[:, None]) @ np.swapaxes(directions, -1, -2) - middle[:, None]
    least = np.linalg.pinv(generators) @ np.swapaxes(points, -1, -2)
    assert np.allclose(np.linalg.norm(least, axis=-2), 1.0)


# --- singular and special positions -------------------------------------------------------------------------


def test_a_planar_arm():
    """Its accelerations are flat, a line where it is stretched; forces out of the plane need no torque."""
    tip = dn.parse_robot(ARM.replace("</robot>", TIP.format("lower")))
    states = bent, stretched = [0.3, 0.8], [0.3, 0.0]
    still = {"gravity": [0, 0, 0], "backend": "numpy"}
    found = dn.capability(tip, "tip", states, **still)
    assert (found.acceleration.along([0, 1, 0]) < 1e-6).all()
    assert found.force.along([0, 1, 0]).tolist() == [np.inf, np.inf]
    with pytest.raises(dn.SolutionError, match="unbounded at state 0"):
        found.force.vertices()
    axis = np.array([np.cos(0.3), 0.0, -np.sin(0.3)])  # of the stretched arm
    along = found.acceleration.along(axis)
    assert along[0] > 1 and along[1] < 1e-6
    assert np.isfinite(found.force.along(axis)[0]) and found.force.along(axis)[1] == np.inf
    vertices = found.acceleration.vertices()
    assert len(vertices[0]) == 4 and np.isfinite(vertices[1]).all(axis=1).sum() == 2
    plane = dn.capability(tip, "tip", bent, axes="xz", **still)
    assert plane.force.vertices().shape == (4, 2) and len(plane.acceleration.vertices()) == 4
    lengths = dn.capability(tip, "tip", stretched, axes="xz", **still)
    assert lengths.force_ellipsoid.lengths[1] == np.inf and lengths.acceleration_ellipsoid.lengths[1] == 0
    found = dn.manipulability(tip, "tip", states, axes="xz", backend="numpy")
    expected = 0.6 * 0.4 * np.sin(0.8)  # product of the links and the sine of the elbow
    assert np.isclose(found.measure[0], expected) and found.measure[1] == 0.0
    assert found.condition[0] < 10 and found.condition[1] == np.inf


def test_a_robot_that_cannot_hold_itself():
    """The polytopes do not contain zero; the set of forces may be empty."""
    tip = dn.parse_robot(ARM.replace("</robot>", TIP.format("lower")))
    weak = {name: {"max_effort": 2.0} for name in tip.v_names}
    found = dn.capability(tip, "tip", [0.0, 0.8], limits=weak, axes="xz", backend="numpy")
    assert found.force.offsets.min() < 0 and np.isnan(found.force.along([1.0, 0.0]))
    leaning = found.force.vertices().mean(axis=0)  # it leans on the environment
    assert leaning[1] < 0 and found.force.along(leaning) >= np.linalg.norm(leaning)
    assert np.isnan(found.acceleration.along([0.0, 1.0]))
    held = dn.capability(
        tip, "tip", [0.0, 0.0], limits=weak, backend="numpy"
    ).force  # the base carries x and y
    assert np.isnan(held.along([1.0, 0.0, 0.0])) and np.isnan(held.along([0.0, 1.0, 0.0]))
    empty = dn.capability(tip, "upper", [0.0, 0.0], limits=weak, axes="xz", backend="numpy")
    assert np.isnan(empty.force.along([[1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])).all()
    assert np.isnan(empty.force_ellipsoid.lengths).all()


def test_degenerate_zonotopes():
    """Parallel, coplanar and zero generators; one point, a line, a cube."""
    cube = zonotope(np.zeros(3), np.array([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]))
    assert len(cube.vertices()) == 8 and cube.along([1, 1, 1]) == pytest.approx(np.sqrt(3))
    doubled = zonotope(np.zeros(3), np.array([[1.0, 0, 0, 1, 1], [0, 1, 0, 0, 1], [0, 0, 1, 0, 0]]))
    assert len(doubled.vertices()) == 12  # a prism over a hexagon
    line = zonotope(np.ones(2), np.array([[1.0, 2.0], [0.0, 0.0]]))
    assert sorted(line.vertices().tolist()) == [[-2.0, 1.0], [4.0, 1.0]]
    point = zonotope(np.ones(2), np.zeros((2, 3)))
    assert point.vertices().tolist() == [[1.0, 1.0]] and point.along([1, 1]) == pytest.approx(np.sqrt(2))
    box = slabs(np.eye(2), np.array([-1.0, -2.0]), np.array([1.0, 2.0]))
    assert len(box.vertices()) == 4 and box.along([0, -3]) == 2
    corner = slabs(np.array([[1.0, 0, 1], [0, 1, 1]]), np.array([-1.0, -1, -2]), np.array([1.0, 1, 2]))
    assert len(corner.vertices()) == 4  # the third slab touches two corners


def roots(kind, n):
    """Differences of unit vectors (A), also sums (D), also the unit vectors (B), as columns."""
    e = np.eye(n)
    pairs = [(e[i], e[j]) for i in range(n) for j in range(i)]
    differences, sums = [a - b for a, b in pairs], [a + b for a, b in pairs]
    return np.array(differences + (sums if kind != "A" else []) + (list(e) if kind == "B" else [])).T


@pytest.mark.parametrize(("kind", "n", "count"), [("A", 4, 24), ("A", 5, 120), ("B", 3, 48), ("D", 4, 192)])
@pytest.mark.parametrize("thinness", [1.0, 1e-4])
def test_vertices_of_root_systems(kind, n, count, thinness):
    """As many as their Weyl group has elements, though many generators share a facet."""
    random = np.random.default_rng(n)
    turn = np.linalg.qr(random.normal(size=(n, n)))[0]
    G = (
        turn
        @ np.diag([1.0] * (n - 1) + [thinness])
        @ np.linalg.qr(random.normal(size=(n, n)))[0]
        @ roots(kind, n)
    )
    vertices = zonotope(np.zeros(n), np.hstack([G, np.zeros((n, 1))])).vertices()
    assert len(np.unique(vertices.round(9), axis=0)) == len(vertices) == count
    if kind != "A":  # flat
        assert len(ConvexHull(vertices / np.abs(vertices).max(axis=0)).vertices) == count


SHARP = {"primal_feasibility_tolerance": 1e-10}  # axes of this arm are parallel to 1e-6
TIAGO = ("torso_lift_joint", *(f"arm_{k}_joint" for k in range(1, 8)))


@pytest.mark.parametrize("axes", [SIX, SIX[1:]])
@pytest.mark.parametrize(("name", "link"), [("xarm7", "link7"), ("tiago", "arm_7_link")])
def test_vertices_in_five_and_six_dimensions(name, link, axes):
    """Of arms with parallel axes, at ordinary positions: they reach the support of the image of the box, and
    each is the only farthest one in some direction."""
    robot = robot_of(name) if name != "tiago" else ROBOTS[name]._replace(joints=TIAGO).model()
    q = np.stack(
        [np.zeros(robot.nq), *np.round(random_states(robot, 2, 3)[0]), *random_states(robot, 2, 4)[0]]
    )
    capability, random = dn.capability(robot, link, q, axes=axes, backend="numpy"), np.random.default_rng(1)
    _, _, center, generators = capability._parts
    for own, c, G in zip(capability.acceleration.vertices(), center, generators, strict=True):
        vertices = own[np.isfinite(own).all(axis=1)] - c
        u = random.normal(size=(50, len(axes)))
        assert np.allclose((u @ vertices.T).max(axis=1), np.abs(u @ G).sum(axis=1), rtol=1e-9)
        U, sizes, _ = np.linalg.svd(G, full_matrices=False)
        spanned = sizes > 1e-9 * sizes[0]  # it is flat at some positions
        own = vertices @ (U[:, spanned] / sizes[spanned])
        for k in random.integers(len(own), size=3):
            room = np.hstack([np.delete(own, k, axis=0) - own[k], np.ones((len(own) - 1, 1))])
            cost = np.append(np.zeros(own.shape[1]), -1.0)  # u (others - own) + t <= 0
            assert program(cost, room, np.zeros(len(room)), [(-1, 1)] * len(cost), options=SHARP) > 1e-8


def test_batches_are_states_one_by_one():
    robot, q = robot_of("panda7"), states_of("panda7", 6)[0].reshape(2, 3, 7)
    qd = np.full(7, 0.2)
    whole = pickle.loads(pickle.dumps(dn.capability(robot, "panda_hand", q, qd, backend="numpy")))
    u = np.eye(3)
    assert whole.force.vertices().shape[:2] == (2, 3) == whole.force.along(u[0]).shape
    none = dn.capability(robot, "panda_hand", q[:0], qd, backend="numpy")
    assert none.force.along(u[0]).shape == none.acceleration.along(u[0]).shape == (0, 3)
    assert none.force.vertices().size == none.acceleration.vertices().size == 0
    one = dn.capability(robot, "panda_hand", q[1, 2], qd)  # by compiled functions
    for kind in ("force", "acceleration"):
        batch, single = getattr(whole, kind), getattr(one, kind)
        assert error(single.along(u), [batch.along(own)[1, 2] for own in u]) < 1e-9
        own = batch.vertices()[1, 2]
        assert len(single.vertices()) == np.isfinite(own).all(axis=1).sum()
        found = getattr(one, f"{kind}_ellipsoid"), getattr(whole, f"{kind}_ellipsoid")
        assert error(found[0].lengths, found[1].lengths[1, 2]) < 1e-9


# --- effective mass and manipulability ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["panda7", "five_bar", "solo12"])
def test_effective_mass_and_manipulability(name):
    robot, oracle = arm(name)
    q, qd, qdd = states_of(name)
    link = CASES[name][0] if name in CASES else "FL_FOOT"
    u = np.array([0.8, 0.6, 0.0])
    for k in range(len(q)):
        moved = Quantities(oracle, q[k], qd[k], qdd[k]).of_link(link, "world_aligned")
        inverse, J = moved["operational_space_inertia_inverse"]
        mass = dn.effective_mass(robot, link, q, 2 * u, backend="numpy")[k]
        assert np.isclose(mass, 1 / (u @ inverse[3:, 3:] @ u))
        if not robot.floating_base:
            axes = "xy" if name == "five_bar" else "xyz"
            found = dn.manipulability(robot, link, q[k], axes=axes, reference="body", backend="numpy")
            J = (np.kron(np.eye(2), moved["frame_pose"][0].T) @ J)[3 : 3 + len(axes)]
            assert np.isclose(found.measure, np.sqrt(np.linalg.det(J @ J.T)))
            assert np.isclose(found.condition, np.linalg.cond(J))
    assert name != "five_bar" or dn.effective_mass(robot, link, q[0], [0, 0, 1], backend="numpy") == np.inf


# --- errors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "match"),
    [
        ("double_pendulum", {}, "no effort limit of joint1"),
        ("solo12", {}, "floating base"),
        ("panda7", {"axes": "xyq"}, "axes"),
        ("panda7", {"reference": "world"}, "reference"),
        ("panda7", {"limits": {"knee": {"max_effort": 1.0}}}, "knee"),
        ("panda7", {"qd": np.zeros(6)}, "qd"),
        ("panda7", {"qd": np.zeros((3, 7))}, "leading axes"),
    ],
)
def test_wrong_arguments(name, options, match):
    robot = robot_of(name)
    q = np.zeros((2, robot.nq)) + robot.neutral()
    with pytest.raises(dn.InputError, match=match):
        dn.capability(robot, list(robot.frames)[-1], q, backend="numpy", **options)


def test_wrong_directions():
    robot, q = robot_of("panda7"), np.zeros(7)
    for direction, match in (([0, 0, 0], "not zero"), ([1, 0], "shape")):
        with pytest.raises(dn.InputError, match=match):
            dn.effective_mass(robot, "panda_hand", q, direction, backend="numpy")
    with pytest.raises(dn.InputError, match="floating base"):
        dn.manipulability(robot_of("solo12"), "FL_FOOT", robot_of("solo12").neutral(), backend="numpy")
    with pytest.raises(KeyError, match="nose"):
        dn.manipulability(robot, "nose", q, backend="numpy")


def test_motors_move_the_ellipsoids():
    """They touch the polytopes from inside: the torques of their surfaces are within the range of each joint,
    and those at the ends of the semi-axes on the ellipsoid of torques."""
    (robot, _), q = arm("panda7"), np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.5, 0.8])
    qd = np.array([0.3, -0.4, 0.2, 0.5, -0.3, 0.1, 0.2])
    options = {"limits": motors_of(robot), "friction": False, "backend": "numpy"}
    capability, task = (
        dn.capability(robot, "panda_hand", q, qd, **options),
        Task("panda7", q, qd, 0 * q, True),
    )
    J = dn.evaluate(robot, "frame_jacobian", q, link="panda_hand", backend="numpy")[3:]
    middle, half = 0.5 * (task.high + task.low), 0.5 * (task.high - task.low)
    own = capability.force_ellipsoid
    ends = own.center[:, None] + own.directions * own.lengths * np.array([[[1.0]], [[-1.0]]])
    tau = task.held + np.swapaxes(ends, 1, 2).reshape(-1, 3) @ J
    assert np.allclose((((tau - middle) / half) ** 2).sum(axis=1), 1.0)
    for kind in ("force", "acceleration"):
        ellipsoid, polytope = getattr(capability, f"{kind}_ellipsoid"), getattr(capability, kind)
        unit = np.random.default_rng(1).normal(size=(200, 3))
        unit /= np.linalg.norm(unit, axis=1, keepdims=True)
        points = ellipsoid.center + (unit * ellipsoid.lengths) @ ellipsoid.directions.T
        assert (polytope.normals @ points.T <= polytope.offsets[:, None] * (1 + 1e-12) + 1e-9).all()


def test_motors_that_are_too_fast():
    (robot, _), q = arm("panda7"), np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.5, 0.8])
    limits = {"panda_joint3": {"max_effort_at_velocity": [[0.0, 20.0], [1.0, 0.0]]}}
    with pytest.raises(InputError, match=r"velocity 2.5 of panda_joint3: its motor has no possible effort"):
        dn.capability(robot, "panda_hand", q, 2.5 * (np.arange(7) == 2), limits=limits, backend="numpy")
