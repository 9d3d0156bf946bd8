"""The smallest contact forces: against SciPy with Pinocchio's matrices, certificates of optimality, statics by hand,
and MuJoCo at rest."""

import pickle

import numpy as np
import pytest
from balls import ball_robot
from robots import random_positions, robot_of
from robots import states_of as states_of_robot
from scipy.optimize import minimize, nnls
from scipy.spatial.transform import Rotation

import dynamics_node as dn
from dynamics_node.codegen.c import cone_program
from dynamics_node.codegen.c.batch_kernel import BatchKernel
from dynamics_node.codegen.c.cone_program import ConeKernel
from dynamics_node.functions import cone_qp

pytest.importorskip("daqp", reason="contact forces: pip install daqp")

FEET = ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT")
SOLES = ("left_sole_link", "right_sole_link")
G = 9.81


def box(mass=2.0, size=(0.4, 0.2, 0.1)):
    """A box that floats."""
    x, y, z = size
    moments = mass / 12 * np.array([y * y + z * z, x * x + z * z, x * x + y * y])
    ixx, iyy, izz = moments
    return dn.parse_robot(
        f'<robot name="box"><link name="box"><inertial><mass value="{mass}"/><inertia ixx="{ixx}" ixy="0" ixz="0"'
        f' iyy="{iyy}" iyz="0" izz="{izz}"/></inertial></link></robot>',
        floating_base=True,
    )


def corners(friction=0.5, places=((1, 1), (1, -1), (-1, -1), (-1, 1)), **fields):
    return [
        dn.Contact("box", name=f"corner {k}", xyz=(0.2 * x, 0.1 * y, -0.05), friction=friction, **fields)
        for k, (x, y) in enumerate(places)
    ]


def solver_of(robot, contacts, **choices):
    return dn.build_contact_solver(robot, contacts, backend="numpy", **choices)


def at_rest(solver, q=None, **more):
    still = np.zeros(solver.robot.nv)
    return solver(solver.robot.neutral() if q is None else q, still, still, **more)


def tilted(robot, angle, axis="y"):
    q = robot.neutral()
    q[3:7] = Rotation.from_euler(axis, angle).as_quat()
    return q


# --- statics by hand ----------------------------------------------------------------------------------------


def test_a_box_on_four_feet_has_a_quarter_of_its_weight_on_each():
    tau, forces, margins = at_rest(solver_of(box(), corners()))
    np.testing.assert_allclose(forces.reshape(4, 3), [[0, 0, 2 * G / 4]] * 4, atol=1e-9)
    np.testing.assert_allclose(margins, [2 * G / 4, 0.5 * 2 * G / 4] * 4, atol=1e-9)
    np.testing.assert_allclose(tau, 0, atol=1e-9)


@pytest.mark.parametrize("kind", ["points", "surface"])
@pytest.mark.parametrize("friction", [0.1, 0.5, 0.9])
def test_a_box_slips_above_the_angle_of_friction(kind, friction):
    robot = box()
    for excess in (-1e-4, 1e-4):
        angle = np.arctan(friction) + excess
        q, slope = tilted(robot, angle), (np.sin(angle), 0.0, np.cos(angle))
        if kind == "points":
            contacts = corners(friction, normal=slope)
        else:
            contacts = [
                dn.Contact("box", "surface", xyz=(0, 0, -0.05), half_lengths=(0.2, 0.1), friction=friction)
            ]
        solver = solver_of(robot, contacts)
        if excess < 0:
            tau, forces, margins = at_rest(solver, q)
            left = 2 * G * (friction * np.cos(angle) - np.sin(angle))
            assert 0 < left < 1e-2
            rows = [k for k, name in enumerate(solver.limits) if name.endswith(".friction")]
            assert margins[rows].sum() == pytest.approx(left, abs=1e-6)
        else:
            with pytest.raises(dn.SolutionError, match="slips"):
                at_rest(solver, q)
            missing = 2 * G * (np.sin(angle) - friction * np.cos(angle))
            least = at_rest(solver, q, errors="least")
            rows = [k for k, name in enumerate(solver.limits) if name.endswith(".friction")]
            assert least.margins[rows].sum() == pytest.approx(-missing, abs=1e-5)


def test_a_box_tips_over_the_edge_of_its_surface():
    """With the center of mass 0.05 m above a face of half length 0.02 m, above tan = 0.4."""
    robot = box()
    contact = dn.Contact("box", "surface", xyz=(0, 0, -0.05), half_lengths=(0.02, 0.1), friction=2.0)
    solver = solver_of(robot, contact)
    edge = solver.limits.index("box.edge_x")
    for angle in (0.39, -0.37):
        normal = 2 * G * np.cos(angle)
        expected = 0.02 * normal - 0.05 * 2 * G * np.sin(abs(angle))
        result = at_rest(solver, tilted(robot, angle), errors="least")
        assert result.margins[edge] == pytest.approx(expected, abs=1e-6)
        if expected < 0:
            with pytest.raises(dn.SolutionError, match=f"'box' tips: {-expected:.3g} N m"):
                at_rest(solver, tilted(robot, angle))
        else:
            at_rest(solver, tilted(robot, angle))


def test_a_surface_bounds_the_moment_about_its_normal():
    """A turning disc of corners: friction times weight times the distance of the corners."""
    robot = box()
    solver = solver_of(
        robot, dn.Contact("box", "surface", xyz=(0, 0, -0.05), half_lengths=(0.3, 0.4), friction=0.5)
    )
    most = 0.5 * 2 * G * 0.5  # N m
    inertia = robot.bodies[0].inertia[2, 2]
    for share in (0.999, 1.001):
        turning = np.zeros(6)
        turning[2] = share * most / inertia
        arguments = (robot.neutral(), np.zeros(6), turning)
        if share < 1:
            assert solver(*arguments).contact_forces[2] == pytest.approx(share * most)
        else:
            with pytest.raises(dn.SolutionError, match="slips"):
                solver(*arguments)


def test_a_falling_box_touches_without_force():
    solver = solver_of(box(), corners())
    falling = np.array([0, 0, 0, 0, 0, -G])
    result = solver(solver.robot.neutral(), np.zeros(6), falling)
    np.testing.assert_allclose(result.contact_forces, 0, atol=1e-9)
    with pytest.raises(dn.SolutionError, match="lifts: it would have to pull"):
        solver(solver.robot.neutral(), np.zeros(6), 2 * falling)
    grip = solver_of(box(), corners(None))  # a contact without friction holds
    assert grip(grip.robot.neutral(), np.zeros(6), 2 * falling).contact_forces[2] == pytest.approx(-2 * G / 4)


def test_an_external_wrench_is_held():
    solver = solver_of(box(), corners(), f_ext=True)
    push = dn.external_wrenches(solver.robot, {"box": [0, 0, 0, 3.0, 0, -4.0]})
    forces = at_rest(solver, f_ext=push).contact_forces.reshape(4, 3)
    np.testing.assert_allclose(forces.sum(axis=0), [-3, 0, 2 * G + 4], atol=1e-9)
    with pytest.raises(TypeError):
        at_rest(solver_of(box(), corners()), f_ext=push)


# --- degenerate sets ----------------------------------------------------------------------------------------

LINE = [(1, 0), (0.5, 0), (-1, 0)]


@pytest.mark.parametrize(
    "contacts",
    [
        corners(0.0),
        corners(places=LINE),
        corners(0.0, places=LINE),
        corners(None),
        corners(None, places=LINE),
        corners(places=[(1, 1), (-1, -1)]),
        [
            *corners(),
            *(dn.Contact("box", name=f"again {k}", xyz=c.xyz, friction=0.5) for k, c in enumerate(corners())),
        ],
        [
            dn.Contact("box", "surface", name=n, xyz=(0, 0, -0.05), half_lengths=(0.1, 0.1), friction=0.5)
            for n in "ab"
        ],
        [dn.Contact("box", "surface", xyz=(0, 0, -0.05), half_lengths=(0.1, 0.1), friction=0.0)],
        [dn.Contact("box", "surface", xyz=(0, 0, -0.05), friction=0.5)],
        [dn.Contact("box", "surface", xyz=(0, 0, -0.05))],
        [dn.Contact("box", xyz=(0, 0, -0.05), friction=0.0)],
    ],
    ids=lambda contacts: f"{len(contacts)} {contacts[0].kind} {contacts[0].friction}",
)
def test_degenerate_sets_carry_the_weight(contacts):
    result = at_rest(solver_of(box(), contacts))
    solver = solver_of(box(), contacts)
    vertical = [k for k, name in enumerate(solver.rows.names) if name.endswith(".fz")]
    assert result.contact_forces[vertical].sum() == pytest.approx(2 * G)
    assert np.abs(result.tau).max() < 1e-7
    assert result.margins.min(initial=0.0) > -1e-7


def test_a_line_of_feet_holds_no_moment_about_itself():
    solver = solver_of(box(), corners(places=LINE))
    turning = np.array([1.0, 0, 0, 0, 0, 0])
    with pytest.raises(
        dn.SolutionError, match=r"no motor gives the .* that 'floating_base\.angular\.x' needs"
    ):
        solver(solver.robot.neutral(), np.zeros(6), turning)


def test_contacts_that_are_not_active_have_no_force_and_no_limit():
    solver = solver_of(box(), corners())
    tau, forces, margins = at_rest(solver, active=[1, 0, 1, 0])
    np.testing.assert_allclose(forces.reshape(4, 3)[:, 2], [G, 0, G, 0], atol=1e-7)
    assert np.isposinf(margins[[2, 3, 6, 7]]).all() and np.isfinite(margins[[0, 1, 4, 5]]).all()
    with pytest.raises(dn.SolutionError, match="floating_base.linear.z"):
        at_rest(solver, active=np.zeros(4))


# --- other solvers ------------------------------------------------------------------------------------------

CASES = {
    "four feet": ("solo12", [dn.Contact(foot, friction=0.5) for foot in FEET], {}),
    "slopes": (
        "solo12",
        [dn.Contact(foot, normal=(0.1, 0.3 * k - 0.4, 2), friction=0.4) for k, foot in enumerate(FEET)],
        {},
    ),
    "weak joints": (
        "solo12",
        [dn.Contact(foot, friction=0.8) for foot in FEET],
        {"effort_limits": np.full(18, 1.1)},
    ),
    "two soles": (
        "talos",
        [dn.Contact(sole, "surface", half_lengths=(0.1, 0.06), friction=0.3) for sole in SOLES],
        {"torque_weights": 1e-2, "force_weights": [1.0, 3.0]},
    ),
}


def states_of(name, robot, count, seed=0):
    """Squatting positions, and accelerations that friction just allows in half of the cases."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        q = robot.neutral()
        q[7:] = random.uniform(-0.1, 0.1, robot.nq - 7)
        if name == "solo12":
            q[7:] += [0, 0.8, -1.6] * 4
        qdd = np.zeros(robot.nv)
        qdd[3:6] = random.uniform(-1, 1, 3) * (3.0 if name == "solo12" else 1.0)
        yield q, random.uniform(-0.2, 0.2, robot.nv), qdd


@pytest.mark.parametrize("case", CASES)
def test_scipy_finds_the_same_forces(case):
    """SLSQP with Pinocchio's matrices, exact cones, and forces at the corners of soles."""
    pytest.importorskip("pinocchio", reason="the oracle: pip install pin")
    from test_contact_dynamics import Dense

    name, contacts, choices = CASES[case]
    robot, dense = robot_of(name), Dense(name, contacts)
    solver = solver_of(robot, contacts, **choices)
    limits = np.broadcast_to(choices.get("effort_limits", robot.effort_limits), robot.nv)
    weights = np.broadcast_to(choices.get("torque_weights", 1.0), robot.nv)[6:]
    compared = bound = 0
    for q, qd, qdd in states_of(name, robot, 24):
        J, _ = dense.rows(q, qd)
        tau0 = dense.oracle.inverse(q, qd, qdd)
        spread, friction = _points(contacts)
        of_contact = np.repeat(
            np.broadcast_to(choices.get("force_weights", 1.0), len(contacts)), len(spread[0]) // len(contacts)
        )
        A = J.T @ spread
        try:
            tau, forces, margins = solver(q, qd, qdd)
        except dn.SolutionError:
            continue
        np.testing.assert_allclose(tau, tau0 - J.T @ forces, atol=1e-8)

        def cost(x, tau0=tau0, A=A, of_contact=of_contact):
            tau = tau0[6:] - A[6:] @ x
            return 0.5 * (of_contact * x @ x + weights * tau @ tau), of_contact * x - A[6:].T @ (
                weights * tau
            )

        def inside(x, tau0=tau0, A=A, friction=friction):
            points, torques = x.reshape(-1, 3), tau0[6:] - A[6:] @ x
            cones = friction * points[:, 2] - np.hypot(points[:, 0], points[:, 1])
            efforts = np.concatenate([limits[6:] - torques, limits[6:] + torques])
            return np.concatenate([cones, points[:, 2], efforts[np.isfinite(efforts)]])

        start = np.linalg.lstsq(spread, forces, rcond=None)[0] + 1e-3
        found = minimize(
            cost,
            start,
            jac=True,
            method="SLSQP",
            constraints=[
                {"type": "eq", "fun": lambda x, A=A, t=tau0: A[:6] @ x - t[:6], "jac": lambda x, A=A: A[:6]},
                {"type": "ineq", "fun": inside},
            ],
            options={"maxiter": 500, "ftol": 1e-12},
        )
        if not found.success:
            continue
        size = 1 + np.abs(forces).max()
        assert np.abs(spread @ found.x - forces).max() < 1e-4 * size
        compared, bound = compared + 1, bound + (margins.min() < 1e-6 * size)
    assert compared > 6
    assert bound or case == "slopes"  # limits count


def _points(contacts):
    """The map from forces at points to the rows of the contacts, and friction of the points."""
    if contacts[0].kind == "point":
        return np.eye(3 * len(contacts)), np.array([contact.friction for contact in contacts])
    x, y = contacts[0].half_lengths
    maps = []
    for arm in ([x, y, 0], [x, -y, 0], [-x, -y, 0], [-x, y, 0]):
        maps.append(np.concatenate([np.cross(arm, np.eye(3)).T, np.eye(3)]))
    return np.kron(np.eye(len(contacts)), np.hstack(maps)), np.repeat([c.friction for c in contacts], 4)


@pytest.mark.parametrize("seed", range(40))
def test_random_robots_have_certified_forces(seed):
    """Multipliers exist for the results: of equations, of cones at their tangent planes, and of efforts. Where there are
    no results, no forces within slightly wider polyhedral cones produce the motion."""
    random = np.random.default_rng(seed)
    robot = dn.parse_robot(ball_robot(seed % 20), floating_base=True)
    links = [body.name for body in robot.bodies]
    count = int(random.integers(1, 6))
    contacts = [
        dn.Contact(
            str(random.choice(links)),
            name=f"c{k}",
            xyz=random.uniform(-0.3, 0.3, 3),
            normal=random.normal(size=3),
            friction=float(random.choice([0.0, 0.4, 2.0])),
        )
        for k in range(count)
    ]
    solver = solver_of(robot, contacts, effort_limits=np.full(robot.nv, 60.0))
    q = random_positions(robot, 1, seed)[0]
    qd, qdd = random.uniform(-1, 1, (2, robot.nv))
    J, axes = _jacobian(robot, contacts, q)
    if seed % 2:  # a motion that is certainly possible
        push = np.concatenate([_within(contact, random) for contact in contacts])
        M = dn.evaluate(robot, "mass_matrix", q, backend="numpy")
        driven = np.concatenate([np.zeros(6), random.uniform(-30, 30, robot.nv - 6)])
        qdd = np.linalg.solve(
            M, driven + J.T @ push - dn.evaluate(robot, "nonlinear_effects", q, qd, backend="numpy")
        )
    tau0 = dn.evaluate(robot, "inverse_dynamics", q, qd, qdd, backend="numpy")
    try:
        tau, forces, margins = solver(q, qd, qdd)
    except dn.SolutionError:
        assert not seed % 2
        assert _impossible(J, tau0, contacts)
        return
    size = 1 + np.abs(tau0).max()
    np.testing.assert_allclose(tau, tau0 - J.T @ forces, atol=1e-8 * size)
    assert np.abs(tau[:6]).max() < 2e-6 * size and margins.min() > -2e-6 * size
    gradient = forces - J[:, 6:] @ tau[6:]
    outward = [*J[:, :6].T, *-J[:, :6].T]  # normals of constraints that are met with equality
    for k, contact in enumerate(contacts):
        own = forces[3 * k : 3 * k + 3]
        outward += [np.pad(n, (3 * k, len(forces) - 3 * k - 3)) for n in _planes(contact, own, 1e-5 * size)]
    for v in range(6, robot.nv):
        if 60 - abs(tau[v]) < 1e-5 * size:
            outward.append(-np.sign(tau[v]) * J[:, v])
    _, rest = nnls(np.array(outward).T, -gradient, maxiter=10_000)
    assert rest < 1e-4 * (1 + np.abs(gradient).max())


def _jacobian(robot, contacts, q):
    """J (rows, nv) from Jacobians of links: x, y, z as the records define them."""
    rows, axes = [], []
    for contact in contacts:
        J = dn.evaluate(robot, "frame_jacobian", q, link=contact.link, backend="numpy")
        R = dn.evaluate(robot, "frame_pose", q, link=contact.link, backend="numpy").rotation
        arm = R @ contact.xyz
        z = np.array(contact.normal)
        x = np.eye(3)[np.argmin(np.abs(z))]
        x = x - (x @ z) * z
        x /= np.linalg.norm(x)
        axes.append(np.array([x, np.cross(z, x), z]))
        rows.append(axes[-1] @ (J[3:] + np.cross(J[:3].T, arm).T))
    return np.concatenate(rows), axes


def _within(contact, random):
    tangent = random.normal(size=2)
    tangent *= contact.friction * random.uniform(0, 1) / np.linalg.norm(tangent)
    return random.uniform(0, 50) * np.array([*tangent, 1.0])


def _planes(contact, force, close):
    """Outward normals of a cone at a force on it; at its apex, those of many directions."""
    length = np.hypot(*force[:2])
    if not contact.friction:
        yield from np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0.0]])
        if force[2] < close:
            yield np.array([0, 0, -1.0])
    elif force[2] < close:
        for angle in np.linspace(0, 2 * np.pi, 100):
            yield np.array([np.cos(angle), np.sin(angle), -contact.friction])
    elif contact.friction * force[2] - length < close:
        yield np.array([*force[:2] / length, -contact.friction])


def _impossible(J, tau0, contacts):
    """Whether no forces in pyramids around the cones give the base its wrench within 1e-7, or all of them need
    more than the effort limits."""
    from scipy.optimize import linprog

    generators = []
    for k, contact in enumerate(contacts):
        angles = np.arange(16) * np.pi / 8
        wide = contact.friction / np.cos(np.pi / 16)
        for angle in angles if contact.friction else [0.0]:
            force = np.array([wide * np.cos(angle), wide * np.sin(angle), 1.0])
            generators.append(np.pad(force, (3 * k, 3 * (len(contacts) - k - 1))))
    A = J.T @ np.array(generators).T
    rows = np.concatenate([A[6:], -A[6:]])
    bounds = np.concatenate([60 + tau0[6:], 60 - tau0[6:]])
    found = linprog(np.zeros(A.shape[1]), rows, bounds, A[:6], tau0[:6], method="highs")
    return found.status == 2


@pytest.mark.parametrize(
    "name, link", [("humanoid", "foot"), ("jvrc1_humanoid", "ankle-roll"), ("talos", "sole_link")]
)
def test_forces_are_external_wrenches(name, link):
    """With the forces as external wrenches, inverse dynamics has the same torques: with belts, and closed loops."""
    robot = robot_of(name)
    links = [frame for frame in robot.frames if frame.endswith(link)][:2]
    contacts = [
        dn.Contact(links[0], "surface", xyz=(0.1, 0.02, -0.05), rpy=(0.3, 0.2, 0.1)),
        dn.Contact(links[1]),
    ]
    q, qd, qdd = (array[0] for array in states_of_robot(name, 1)[:3])
    tau, forces, _ = solver_of(robot, contacts, effort_limits=False)(q, qd, qdd)
    R = Rotation.from_euler("xyz", contacts[0].rpy).as_matrix()
    moment, force = R @ forces[:3], R @ forces[3:6]
    point = dn.evaluate(robot, "frame_pose", q, link=links[1], backend="numpy").rotation.T @ forces[6:]
    wrenches = {
        links[0]: [*(moment + np.cross(contacts[0].xyz, force)), *force],
        links[1]: [0, 0, 0, *point],
    }
    f_ext = dn.external_wrenches(robot, wrenches)
    expected = dn.evaluate(robot, "inverse_dynamics", q, qd, qdd, f_ext=f_ext, backend="numpy")
    np.testing.assert_allclose(tau, expected, atol=1e-8 * np.abs(expected).max())
    np.testing.assert_allclose(tau[:6], 0, atol=1e-7 * np.abs(expected).max())


@pytest.mark.parametrize(
    "name, contacts",
    [
        ("solo12", [dn.Contact(foot, normal=(0.1, 0.2, 1.0)) for foot in FEET]),
        ("talos", [dn.Contact(sole, "surface", rpy=(0.1, 0.2, 0.3)) for sole in SOLES]),
        ("talos", [dn.Contact(SOLES[0], "surface", half_lengths=(0.1, 0.05)), dn.Contact(SOLES[1])]),
    ],
)
def test_grips_without_torques_have_the_shortest_forces(name, contacts):
    """As inverse dynamics with contacts."""
    robot = robot_of(name)
    q, qd, qdd = next(states_of(name, robot, 1))
    active = np.ones(len(contacts))
    expected = dn.build(robot, dn.inverse_dynamics(robot, contacts), backend="numpy")(q, qd, qdd, active)
    result = solver_of(robot, contacts, torque_weights=0.0, effort_limits=False)(q, qd, qdd)
    for ours, theirs in zip(result, expected, strict=False):
        np.testing.assert_allclose(ours, theirs, atol=1e-7 * np.abs(theirs).max())


# --- wheels -------------------------------------------------------------------------------------------------


def wheels(count=4, **fields):
    places = [(0.2, 0.1), (0.2, -0.1), (-0.2, -0.1), (-0.2, 0.1)][:count]
    return [
        dn.Contact("box", "wheel", name=f"wheel {k}", xyz=(x, y, 0.0), radius=0.05, **fields)
        for k, (x, y) in enumerate(places)
    ]


def test_forces_of_wheels_act_at_their_lowest_points():
    robot = box()
    normal, axis = np.array([0.1, -0.2, 1.0]), np.array([0.2, 1.0, 0.1])
    contacts = wheels(3, axis=axis, normal=normal)
    q = robot.neutral()
    q[3:7] = Rotation.from_euler("xyz", [0.2, 0.5, -0.3]).as_quat()
    qd, qdd = np.random.default_rng(0).uniform(-1, 1, (2, 6))
    forces = solver_of(robot, contacts)(q, qd, qdd).contact_forces.reshape(3, 3)
    R = Rotation.from_quat(q[3:7]).as_matrix()
    n, a = R.T @ normal / np.linalg.norm(normal), axis / np.linalg.norm(axis)
    down, x = n - (n @ a) * a, np.cross(a, n) / np.linalg.norm(np.cross(a, n))
    total = np.zeros(6)
    for contact, (fx, fy, fz) in zip(contacts, forces, strict=True):
        point = contact.xyz - 0.05 * down / np.linalg.norm(down)
        force = fx * x + fy * np.cross(n, x) + fz * n
        total += [*np.cross(point, force), *force]
    np.testing.assert_allclose(
        total, dn.evaluate(robot, "inverse_dynamics", q, qd, qdd, backend="numpy"), atol=1e-9
    )


@pytest.mark.parametrize("angle", [0.6, -0.8])
def test_rollers_push_along_their_axes(angle):
    """Four mecanum wheels with parallel rollers: friction bounds the acceleration along their axes, and there is
    none across them."""
    solver = solver_of(box(), wheels(roller=angle, friction=0.5))
    along = np.array([-np.sin(angle), np.cos(angle), 0.0])  # from the axis y, about z
    for share in (0.999, -0.999, 1.001):
        qdd = np.concatenate([np.zeros(3), share * 0.5 * G * along])
        result = solver(solver.robot.neutral(), np.zeros(6), qdd, errors="least")
        assert result.contact_forces.reshape(4, 2)[:, 0].sum() == pytest.approx(2 * share * 0.5 * G, rel=1e-6)
        slack = [
            m for m, name in zip(result.margins, solver.limits, strict=True) if name.endswith("friction")
        ]
        assert sum(slack) == pytest.approx(2 * (1 - abs(share)) * 0.5 * G, rel=1e-3)
    with pytest.raises(dn.SolutionError, match="slips"):
        solver(solver.robot.neutral(), np.zeros(6), qdd)
    across = np.concatenate([np.zeros(3), np.cross([0, 0, 1], along)])
    with pytest.raises(dn.SolutionError, match="no motor"):
        solver(solver.robot.neutral(), np.zeros(6), across)


def test_states_without_equations_have_a_reason():
    solver = solver_of(box(), wheels(friction=0.5))
    for call in (at_rest, lambda solver, q: dn.support_region(solver.robot, q, wheels(friction=0.5))):
        with pytest.raises(dn.SolutionError, match="leans"):
            call(solver, tilted(solver.robot, 1.4, "x"))
    assert np.isnan(at_rest(solver, tilted(solver.robot, 1.4, "x"), errors="nan").tau).all()
    robot = robot_of("five_bar")
    solver = solver_of(robot, dn.Contact(robot.bodies[-1].name))
    q = states_of_robot("five_bar", 1)[0][0]
    at_rest(solver, q)
    q[robot.q_names.index(next(name for name in robot.tree.v_names if name not in robot.v_names))] += 0.1
    with pytest.raises(dn.SolutionError, match="closed"):
        at_rest(solver, q)


# --- at rest, and calls -------------------------------------------------------------------------------------


def test_mujoco_has_the_same_forces_at_rest():
    """A box on three feet: its normal forces are unique."""
    mujoco = pytest.importorskip("mujoco", reason="another oracle: pip install mujoco")
    places = [(0.2, 0.05), (-0.1, 0.1), (-0.15, -0.1)]
    feet = "".join(
        f'<geom name="f{k}" type="sphere" solref="0.003 1" size="0.01" pos="{x} {y} -0.05" mass="0"/>'
        for k, (x, y) in enumerate(places)
    )
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><option timestep="0.001"/><worldbody><geom type="plane" size="1 1 1"/><body pos="0 0 0.06"><freejoint/>'
        f'<inertial mass="2" pos="0 0 0" diaginertia="0.01 0.02 0.03"/>{feet}</body></worldbody></mujoco>'
    )
    data = mujoco.MjData(model)
    for _ in range(4000):
        mujoco.mj_step(model, data)
    assert data.ncon == 3 and np.abs(data.qvel).max() < 1e-6
    theirs = np.zeros(3)
    for k in range(data.ncon):
        force = np.zeros(6)
        mujoco.mj_contactForce(model, data, k, force)
        theirs[max(data.contact[k].geom1, data.contact[k].geom2) - 1] = force[0]
    contacts = [
        dn.Contact("box", name=f"f{k}", xyz=(x, y, -0.05), friction=1.0) for k, (x, y) in enumerate(places)
    ]
    ours = at_rest(solver_of(box(), contacts)).contact_forces.reshape(3, 3)[:, 2]
    np.testing.assert_allclose(ours, theirs, rtol=1e-3)


def test_batches_are_states_one_by_one():
    robot = robot_of("solo12")
    contacts = [dn.Contact(foot, friction=0.5) for foot in FEET]
    solver = solver_of(robot, contacts)
    q, qd, qdd = map(np.array, zip(*states_of("solo12", robot, 12, seed=5), strict=True))
    active = np.ones((12, 4))
    active[::3, 1] = 0
    together = solver(
        q.reshape(3, 4, -1),
        qd.reshape(3, 4, -1),
        qdd.reshape(3, 4, -1),
        active.reshape(3, 4, -1),
        errors="least",
    )
    alone = [solver(*state, errors="least") for state in zip(q, qd, qdd, active, strict=True)]
    for k, array in enumerate(together):
        np.testing.assert_allclose(array.reshape(12, -1), [result[k] for result in alone], atol=1e-9)
    some = solver(q, qd, qdd, active, errors="nan")
    bad = np.isnan(some.tau).any(axis=1)
    assert bad.any() and not bad.all()
    np.testing.assert_allclose(some.margins[~bad], np.array([r.margins for r in alone])[~bad], atol=1e-9)
    with pytest.raises(dn.SolutionError, match=f"at state {np.flatnonzero(bad)[0]}:"):
        solver(q, qd, qdd, active)
    q[3] = np.nan
    assert np.isnan(solver(q, qd, qdd, active, errors="nan").tau[3]).all()
    with pytest.raises(dn.InputError, match="q"):
        solver(q, qd, qdd, active)


@pytest.mark.parametrize("case", ["four feet", "weak joints", "two soles"])
def test_states_where_no_limit_counts_need_no_solver(case, monkeypatch):
    """They have the forces that DAQP finds, also in a batch with states at limits."""
    name, contacts, choices = CASES[case]
    robot = robot_of(name)
    solver = solver_of(robot, contacts, **choices)
    states = [*map(np.array, zip(*states_of(name, robot, 24, seed=3), strict=True))]
    active = np.ones((24, len(contacts)))
    active[0, 0] = 0
    together = solver(*states, active, errors="nan")
    solved = []

    class Counting:
        @staticmethod
        def solve(*arguments, **settings):
            solved.append(1)
            return daqp.solve(*arguments, **settings)

    daqp = cone_qp.required_daqp()
    monkeypatch.setattr(cone_qp, "required_daqp", lambda: Counting)
    alone, needed = [], []
    for state in zip(*states, active, strict=True):
        before = len(solved)
        alone.append(solver(*state, errors="nan"))
        needed.append(len(solved) > before)
    assert any(needed) and not all(needed)
    monkeypatch.setattr(dn.ContactSolver, "_without_limits", lambda *_: (None, False))
    for k, state in enumerate(zip(*states, active, strict=True)):
        by_daqp = solver(*state, errors="nan")
        for one, other, array in zip(by_daqp, alone[k], together, strict=True):
            np.testing.assert_allclose(other, one, atol=1e-6)
            np.testing.assert_allclose(array[k], one, atol=1e-6)


MIXED = [
    *wheels(2, roller=0.6, friction=0.5),
    *corners(0.5, places=((-1, -1), (-1, 1))),
    dn.Contact("box", name="smooth", xyz=(0.0, 0.0, -0.05), friction=0.0),
    dn.Contact("box", name="grip", xyz=(0.1, 0.0, -0.05)),
]


@pytest.mark.parametrize("case", [*CASES, "mixed"])
def test_compiled_code_finds_the_forces_of_daqp(case, monkeypatch):
    """At limits, in a batch and one by one, also with contacts that are not active."""
    robot, contacts, choices = box(), MIXED, {}
    if case != "mixed":
        name, contacts, choices = CASES[case]
        robot = robot_of(name)
    random = np.random.default_rng(4)
    if case == "mixed":
        q, qd = np.tile(robot.neutral(), (60, 1)), np.zeros((60, 6))
        qdd = random.uniform(-1, 1, (60, 6)) * [0.0, 0.0, 8.0, 3.0, 3.0, 1.0]
    else:
        q, qd, qdd = map(np.array, zip(*states_of(name, robot, 60, seed=4), strict=True))
    active = np.where(random.uniform(size=(60, len(contacts))) < 0.1, 0.0, 1.0)
    expected = solver_of(robot, contacts, **choices)(q, qd, qdd, active, errors="nan")
    limited = expected.margins.min(axis=1) < 1e-6 * (1.0 + np.abs(expected.tau).max(axis=1))
    assert limited.sum() > 5
    solver = dn.build_contact_solver(robot, contacts, backend="c", **choices)
    monkeypatch.setattr(cone_qp.ConeSolver, "by_daqp", lambda *_: pytest.fail("left to DAQP"))
    states = [array[limited] for array in (q, qd, qdd, active)]
    together = solver(*states)
    for array, one in zip(together, expected, strict=True):
        np.testing.assert_allclose(array, one[limited], atol=1e-6 * np.abs(together.contact_forces).max())
    for k, state in enumerate(zip(*states, strict=True)):
        for array, one in zip(together, solver(*state), strict=True):
            np.testing.assert_allclose(one, array[k], atol=1e-9 * np.abs(together.contact_forces).max())


def pushed_box(count, seed=0):
    """q, qd, qdd of a box that friction just holds."""
    qdd = np.random.default_rng(seed).uniform(-1, 1, (count, 6)) * [0.0, 0.0, 8.0, 3.5, 3.5, 1.0]
    return np.tile(box().neutral(), (count, 1)), np.zeros((count, 6)), qdd


def test_a_second_start_solves_states_that_the_first_one_leaves(monkeypatch):
    """Steps from a high mu alone find the same forces."""
    states = pushed_box(100)
    expected = dn.build_contact_solver(box(), corners(), backend="c")(*states, errors="nan")
    solved = ~np.isnan(expected.tau[:, 0])
    assert (expected.margins[solved].min(axis=1) < 1e-6).sum() > 5
    monkeypatch.setitem(cone_program.NUMBERS, "FEW_TURNS", 1)
    solver = dn.build_contact_solver(box(), corners(), backend="c")
    monkeypatch.setattr(cone_qp.ConeSolver, "by_daqp", lambda *_: pytest.fail("left to DAQP"))
    for array, one in zip(solver(*(a[solved] for a in states)), expected, strict=True):
        np.testing.assert_allclose(array, one[solved], atol=1e-7)


def test_compiled_code_has_no_forces_where_a_number_is_not_finite():
    """Nor does such a state change those beside it."""
    solver = dn.build_contact_solver(box(), corners(), backend="c")
    q, qd, qdd = pushed_box(20)
    arrays = solver.qp(q, qd, qdd, np.ones(4), solver.robot.gravity)
    kernel = solver._cones.kernel
    expected = kernel(20, *arrays, np.ones(4))
    for k, array in enumerate(arrays):
        bad = array.copy()
        bad.reshape(20, -1)[::3, -1] = np.nan
        found = kernel(20, *arrays[:k], bad, *arrays[k + 1 :], np.ones(4))
        assert np.isnan(found[0][::3]).all() and np.isnan(found[2][::3]).all()
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(np.delete(one, np.s_[::3], 0), np.delete(other, np.s_[::3], 0))


def test_a_solver_is_compiled_in_advance(monkeypatch):
    """All its Programs, also for batches: nothing is left to compile in a call."""
    solver = dn.build_contact_solver(box(), corners(), backend="c")
    solver.compile(batches=True)
    for kernel in (BatchKernel, ConeKernel):
        monkeypatch.setattr(kernel, "_compile", lambda *_: pytest.fail("compiled in a call"))
    states = np.zeros((100, 6))
    states[::2, 3] = 0.45 * G  # beyond friction without limits
    q = np.tile(solver.robot.neutral(), (100, 1))
    assert abs(solver(q, 0.0 * states, states).margins[::2].min()) < 1e-6


@pytest.mark.parametrize("backend", ["c", "numpy"])
def test_a_solver_is_pickled(backend):
    """With the compiled code for states at limits."""
    solver = dn.build_contact_solver(box(), corners(), backend=backend)
    states = np.zeros((2, 6))
    states[1, 3] = 0.45 * G
    q = np.tile(solver.robot.neutral(), (2, 1))
    forces = solver(q, 0.0 * states, states).contact_forces
    copy = pickle.loads(pickle.dumps(solver))
    np.testing.assert_array_equal(copy(q, 0.0 * states, states).contact_forces, forces)


def test_a_payload_needs_no_build():
    robot = robot_of("solo12")
    contacts = [dn.Contact(foot, friction=0.5) for foot in FEET]
    heavier = dn.with_payload(robot, "FR_LOWER_LEG", 1.5, [0.02, 0.01, -0.05], np.diag([2e-3, 3e-3, 4e-3]))
    changed = pickle.loads(pickle.dumps(solver_of(robot, contacts, runtime_parameters=["inertia"])))
    changed, built = changed.with_inertias(heavier), solver_of(heavier, contacts)
    for q, qd, qdd in states_of("solo12", robot, 6, seed=1):
        for one, other in zip(*(s(q, qd, qdd, errors="least") for s in (changed, built)), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-7)
    with pytest.raises(dn.InputError, match="constant inertia"):
        solver_of(robot, contacts).with_inertias(heavier)
    with pytest.raises(dn.InputError, match="differs in more than inertias"):
        changed.with_inertias(robot_of("talos"))


def test_violated_limits_are_listed():
    robot = robot_of("solo12")
    solver = solver_of(robot, [dn.Contact(foot, friction=0.5) for foot in FEET])
    q, qdd = next(states_of("solo12", robot, 1))[0], np.zeros(18)
    assert solver.violated(at_rest(solver, q)) == []
    qdd[3:6] = dn.evaluate(robot, "frame_poses", q, links=["base_link"], backend="numpy").rotations[0].T @ [
        6,
        0,
        0,
    ]
    with pytest.raises(dn.InputError, match=r"one state, not tau of shape \(2, 18\)"):
        solver.violated(solver(np.stack([q, q]), 0 * qdd, 0 * qdd))
    words = solver.violated(solver(q, 0 * qdd, qdd, errors="least"))
    assert words and all("_FOOT' slips: " in text for text in words)


def test_joints_without_a_motor_are_named():
    robot = robot_of("solo12")
    contacts = [dn.Contact(foot, friction=0.9) for foot in FEET]
    q = next(states_of("solo12", robot, 1))[0]
    free = solver_of(robot, contacts, unactuated=["FL_HAA"])
    assert "FL_HAA.effort" not in free.limits and "FR_HAA.effort" in free.limits
    tau = at_rest(free, q).tau
    assert abs(tau[6]) < 1e-7 < 1e-3 < abs(at_rest(solver_of(robot, contacts), q).tau[6])
    assert not [name for name in solver_of(robot, contacts, effort_limits=False).limits if "effort" in name]
    with pytest.raises(dn.UnknownNameError, match="FL_KNEE"):
        solver_of(robot, contacts, unactuated=["FL_KNEE"])


def test_violations_have_the_units_of_their_joints():
    """A slider needs newtons, not newton meters."""
    inertial = (
        '<inertial><mass value="2"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    )
    slider = dn.parse_robot(
        f'''<robot name="slider"><link name="base">{inertial}</link><link name="foot">{inertial}</link>
        <joint name="leg" type="prismatic"><parent link="base"/><child link="foot"/><axis xyz="0 0 1"/>
        <limit lower="-1" upper="1" effort="5" velocity="1"/></joint></robot>''',
        floating_base=True,
    )  # fmt: skip
    solver = solver_of(slider, dn.Contact("foot", "surface", half_lengths=(0.1, 0.1), friction=0.5))
    with pytest.raises(dn.SolutionError, match=r"joint 'leg' needs 14\.6 N more than its limit of 5"):
        at_rest(solver, slider.neutral())
    words = r"gives the 39\.2 N that 'floating_base\.linear\.z' needs"
    with pytest.raises(dn.SolutionError, match=words):
        at_rest(solver, slider.neutral(), active=[0])


def test_a_weak_joint_is_named():
    robot = robot_of("solo12")
    limits = robot.effort_limits.copy()
    limits[8] = 0.01
    solver = solver_of(robot, [dn.Contact(foot) for foot in FEET], effort_limits=limits)
    q = next(states_of("solo12", robot, 1))[0]
    at_rest(solver, q)  # other feet carry more
    with pytest.raises(dn.SolutionError, match=r"joint 'FL_KFE' needs .* more than its limit of 0\.01"):
        at_rest(solver, q, active=[1, 0, 0, 0])


@pytest.mark.parametrize(
    "choices, word",
    [
        ({"force_weights": 0.0}, "force_weights"),
        ({"force_weights": [1, 1]}, "force_weights"),
        ({"torque_weights": -1.0}, "torque_weights"),
        ({"torque_weights": np.inf}, "torque_weights"),
        ({"effort_limits": [1, 2]}, "effort_limits"),
        ({"effort_limits": np.full(6, np.nan)}, "effort_limits"),
    ],
)
def test_invalid_choices_are_named(choices, word):
    with pytest.raises(dn.InputError, match=word):
        solver_of(box(), corners(), **choices)


def test_invalid_arguments_are_named():
    solver = solver_of(box(), corners())
    with pytest.raises(dn.InputError, match="active"):
        at_rest(solver, active=[1, 0.5, 1, 1])
    with pytest.raises(dn.InputError, match="errors"):
        at_rest(solver, errors="ignore")
    with pytest.raises(dn.InputError, match="contacts"):
        solver_of(box(), [])
    with pytest.raises(dn.ContactError, match="toe"):
        solver_of(box(), dn.Contact("toe"))


def test_wrong_solutions_are_not_returned(monkeypatch):
    """Whatever the status of the solver is, where friction counts."""
    solver, daqp = solver_of(box(), corners()), cone_qp.required_daqp()
    state = solver.robot.neutral(), np.zeros(6), np.array([0, 0, 0, 0.45 * G, 0, 0])
    assert abs(solver(*state).margins.min()) < 1e-6

    class Liar:
        @staticmethod
        def solve(*arguments, **settings):
            x, cost, status, info = daqp.solve(*arguments, **settings)
            return x + 1e-3, cost, 1, info

    monkeypatch.setattr(cone_qp, "required_daqp", lambda: Liar)
    for errors in ("raise", "least"):
        with pytest.raises(dn.SolutionError, match="check"):
            solver(*state, errors=errors)
    assert np.isnan(solver(*state, errors="nan").tau).all()


def test_without_daqp_the_command_to_install_it_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "daqp", None)
    cone_qp.required_daqp.cache_clear()
    try:
        with pytest.raises(ImportError, match="pip install 'daqp"):
            solver_of(box(), corners())
    finally:
        cone_qp.required_daqp.cache_clear()
