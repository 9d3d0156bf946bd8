"""Closed loops, gears and belts: every algorithm gives the same, and what Pinocchio's tree gives with multipliers."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from mechanisms import joint, link, loop, robot, spatial_loop
from robots import ROBOTS, random_states
from tolerances import EXACT, error

pin = pytest.importorskip("pinocchio", reason="Pinocchio: pip install pin, or ros-$ROS_DISTRO-pinocchio")

import dynamics_node as dn
from dynamics_node.loops import (
    Actuation,
    Custom,
    continued,
    first_closed,
    mechanism_bias,
    mechanism_mass_matrix,
    mechanism_operational_space_inertia,
)
from dynamics_node.loops.alternatives import independent_tree
from dynamics_node.loops.closure import closure
from dynamics_node.loops.constraints import position_program, velocity_program
from dynamics_node.loops.spanning import closure_matrix
from dynamics_node.node.build_job import Job, do
from dynamics_node.node.core import Core
from dynamics_node.node.settings import PARAMETERS, read_settings
from dynamics_node.program import interpret, trace
from dynamics_node.programs import QUANTITIES, dynamics_programs, quantity_programs, rival_programs
from dynamics_node.robots import (
    belt_chain,
    belt_leg,
    differential,
    five_bar,
    four_bar,
    geared_chain,
    humanoid,
    quadruped,
)
from dynamics_node.robots.text import coupling

PLANAR = {"four_bar": four_bar(), "five_bar": five_bar(), "tilted five_bar": five_bar((0.4, 0.7, -0.3))}
GEARED = {"geared_chain": geared_chain(4), "belt_chain": belt_chain(2), "belt_leg": belt_leg()}
SPATIAL = {
    kind: spatial_loop(kind)
    for kind in ("fixed", "revolute", "prismatic", "universal", "ball", "planar", "rod")
}
MOBILITY = {"four_bar": 1, "five_bar": 2, "tilted five_bar": 2, "geared_chain": 4, "belt_chain": 4, "belt_leg": 3, "differential": 2,
            "revolute": 1, "prismatic": 1, "universal": 2, "ball": 3, "planar": 3, "rod": 5}  # fmt: skip
ALL = {
    **PLANAR,
    **GEARED,
    "differential": differential(),
    **{k: v for k, v in SPATIAL.items() if k != "fixed"},
}


def states(mechanism, count=4, seed=3, reach=0.25):
    """Closed positions near the assembled one, and rates."""
    random = np.random.default_rng(seed)
    start = dn.close_loops(mechanism, np.full(mechanism.nq, 0.0 if mechanism.name in SPATIAL else 0.1))
    q = start + np.zeros((count, 1))
    q[:, [mechanism.tree.independent_joints[v].q.start for v in mechanism.independent]] += random.uniform(
        -reach, reach, (count, mechanism.nv)
    )
    return dn.close_loops(mechanism, q), *random.uniform(-1, 1, (2, count, mechanism.nv))


def spread(mechanism, q, yd):
    """G and g as numbers, of one state."""
    inputs = {"q": (mechanism.nq,), "qd": (mechanism.nv,)}
    program = trace(lambda q, qd: dict(zip("Gg", closure(mechanism, q, qd)[:2], strict=True)), inputs)
    found = interpret(program, q=q, qd=yd)
    return found["G"], found["g"]


@pytest.mark.parametrize("name", ALL)
def test_mobility_and_closed_positions(name):
    mechanism = dn.parse_mechanism(ALL[name])
    assert mechanism.nv == MOBILITY[name] == len(mechanism.v_names)
    q, yd, _ = states(mechanism)
    constraints = mechanism.constraints
    program = velocity_program(mechanism.tree, constraints)
    for k in range(len(q)):
        G, _ = spread(mechanism, q[k], yd[k])
        K = interpret(program, q=q[k], qd=np.zeros(mechanism.tree.nv))["K"]
        assert np.abs(K @ G).max() <= 1e-9 * max(1.0, np.abs(K).max() * np.abs(G).max())


@pytest.mark.parametrize("name", ALL)
def test_rates_follow_from_positions(name):
    """G and g against positions closed a little earlier and later on a motion of constant yd."""
    mechanism = dn.parse_mechanism(ALL[name])
    q, yd, _ = states(mechanism, 2)
    independent = [mechanism.tree.independent_joints[v].q.start for v in mechanism.independent]
    step = 1e-4
    for k in range(2):
        moved = []
        for s in (-1, 0, 1):
            there = q[k].copy()
            there[independent] += s * step * yd[k]
            moved.append(dn.close_loops(mechanism, there))
        before, now, after = moved
        G, g = spread(mechanism, q[k], yd[k])
        assert np.allclose((after - before) / (2 * step), G @ yd[k], atol=1e-6)
        assert np.allclose((after - 2 * now + before) / step**2, g, atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("name", ALL)
def test_against_pinocchio(name):
    """M and h of the tree are Pinocchio's; with them the inverse dynamics, and forward dynamics by multipliers."""
    mechanism = dn.parse_mechanism(ALL[name])
    tree, theirs = mechanism.tree, pin.buildModelFromXML(ALL[name])
    data = theirs.createData()
    order = [theirs.joints[theirs.getJointId(n)].idx_v for n in tree.v_names]
    q, yd, ydd = states(mechanism, 3)
    inverse = dn.build(mechanism, dn.inverse_dynamics(mechanism), backend="numpy")(q, yd, ydd)
    constraints = mechanism.constraints
    program = velocity_program(tree, constraints)
    for k in range(3):
        G, g = spread(mechanism, q[k], yd[k])
        at, rates = np.zeros((2, theirs.nv))
        at[order], rates[order] = q[k], G @ yd[k]
        M = np.array(pin.crba(theirs, data, at))
        M = (np.triu(M) + np.triu(M, 1).T)[np.ix_(order, order)]
        h = pin.nonLinearEffects(theirs, data, at, rates)[order]
        expected = G.T @ (M @ (G @ ydd[k] + g) + h)
        assert error(inverse[k], expected) <= EXACT
        found = interpret(program, q=q[k], qd=G @ yd[k])
        K, E = found["K"], np.eye(tree.nv)[:, mechanism.independent]
        system = np.block([[M, K.T], [K, np.zeros((len(K), len(K)))]])
        solution = np.linalg.lstsq(system, np.concatenate([E @ expected - h, found["k"]]), rcond=1e-12)[0]
        assert (
            error(solution[: tree.nv][mechanism.independent], ydd[k]) <= 1e-7
        )  # of a singular system, least squares


def test_point_loops_against_pinocchios_constraint_dynamics():
    """Its own solver for constraints, with a contact where the four-bar's pin is."""
    mechanism = dn.parse_mechanism(four_bar())
    model = pin.buildModelFromXML(four_bar())
    ends = [(model.getJointId("coupler_j"), 0.8), (model.getJointId("rocker_j"), 0.6)]
    places = [pin.SE3(np.eye(3), np.array([x, 0.0, 0.0])) for _, x in ends]
    contact = pin.RigidConstraintModel(
        pin.ContactType.CONTACT_3D, model, ends[0][0], places[0], ends[1][0], places[1], pin.LOCAL
    )
    data, contact_data = model.createData(), contact.createData()
    contacts, contact_datas = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
    contacts.append(contact)
    contact_datas.append(contact_data)
    pin.initConstraintDynamics(model, data, contacts, contact_datas)
    settings = pin.ProximalSettings(1e-12, 1e-12, 200)
    order = [model.joints[model.getJointId(n)].idx_v for n in mechanism.tree.v_names]
    q, yd, tau = states(mechanism, 5)
    ours = dn.build(mechanism, dn.forward_dynamics(mechanism), backend="numpy")(q, yd, tau)
    for k in range(5):
        G, _ = spread(mechanism, q[k], yd[k])
        at, rates, effort = np.zeros((3, 3))
        at[order], rates[order], effort[order[0]] = q[k], G @ yd[k], tau[k, 0]
        theirs = pin.constraintDynamics(model, data, at, rates, effort, contacts, contact_datas, settings)
        assert error(ours[k], theirs[order][mechanism.independent]) <= 1e-6  # its solver's tolerance


@pytest.mark.parametrize("name", ALL)
def test_every_algorithm_and_backend_agrees(name):
    mechanism = dn.parse_mechanism(ALL[name])
    count = 20 if name in SPATIAL else 70  # vectors of many operations take long to compile
    q, yd, ydd = states(mechanism, count, reach=0.03)
    f_ext = np.random.default_rng(5).uniform(-2, 2, (count, mechanism.nbodies, 6))
    forward, inverse = dn.forward_dynamics(mechanism), dn.inverse_dynamics(mechanism)
    tau = dn.build(mechanism, inverse, backend="c")(q, yd, ydd, f_ext)
    for wrenches in (True,) if name in SPATIAL else (False, True):
        push = f_ext if wrenches else None
        known = tau if wrenches else dn.build(mechanism, inverse, backend="numpy")(q, yd, ydd)
        inputs = {"q": q, "qd": yd, "tau": known, "gravity": mechanism.gravity, "f_ext": f_ext}
        for program in dynamics_programs(mechanism, forward, wrenches).values():
            assert error(interpret(program, **inputs)["qdd"], ydd).max() <= 1e-8
        for backend in ("c", "numpy"):
            solver = dn.build(mechanism, forward, backend=backend)
            assert error(solver(q, yd, known, push), ydd).max() <= 1e-8
            one = [solver(q[k], yd[k], known[k], None if push is None else push[k]) for k in range(3)]
            assert error(np.array(one), ydd[:3]).max() <= 1e-8
    if mechanism.nv > 1:
        hybrid = dn.build(mechanism, dn.hybrid_dynamics(mechanism, mechanism.joint_names[:1]))
        found = hybrid(q, yd, ydd, tau, f_ext)
        assert error(found[0], ydd).max() <= 1e-8 and error(found[1], tau).max() <= 1e-8


def floating_states(mechanism, count, seed=0):
    """Any pose of the base, and closed positions near zero."""
    random = np.random.default_rng(seed)
    q = np.tile(mechanism.neutral(), (count, 1))
    q[:, :3], q[:, 3:7] = random.normal(size=(count, 3)), random.normal(size=(count, 4))
    q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
    q[:, 7:] = random.uniform(-1, 1, (count, mechanism.nq - 7))
    return dn.close_loops(mechanism, q), *random.normal(size=(2, count, mechanism.nv))


SHARED = Path(__file__).parents[3] / "shared" / "robots"
FLOATING = {  # text, coordinates of the tree, independent ones
    "quadruped": (quadruped(), 30, 18),
    "humanoid": (humanoid(), 42, 24),
    "mini_cheetah": (SHARED / "mini_cheetah.urdf", 30, 18),
    "mit_humanoid": (SHARED / "mit_humanoid.urdf", 42, 24),
    "jvrc1_humanoid": (SHARED / "jvrc1_humanoid.urdf", 63, 38),
    "tello_humanoid": (SHARED / "tello_humanoid.urdf", 42, 42),
}


@pytest.mark.parametrize("name", FLOATING)
def test_legged_robots_with_gears(name):
    """Against Pinocchio's M and h of the tree, projected; back by every forward algorithm; C-EFPA of both feet."""
    text, nv_tree, nv = FLOATING[name]
    if isinstance(text, Path):
        if not text.is_file():
            pytest.skip(f"{text.name} is not at hand")
        text = text.read_text()
    has_base = 'type="floating"' in text  # in the file, or put there by us
    mechanism = dn.parse_mechanism(text, floating_base=not has_base)
    tree = mechanism.tree
    assert (tree.nv, mechanism.nv) == (nv_tree, nv)
    q, yd, ydd = floating_states(mechanism, 3)
    tau = dn.build(mechanism, dn.inverse_dynamics(mechanism))(q, yd, ydd)
    theirs = pin.buildModelFromXML(text, *(() if has_base else (pin.JointModelFreeFlyer(),)))
    data = theirs.createData()
    scalar = [j for j in tree.independent_joints if j.kind != "floating"]
    at_q = [theirs.joints[theirs.getJointId(j.name)].idx_q for j in scalar]
    order = [3, 4, 5, 0, 1, 2, *(theirs.joints[theirs.getJointId(j.name)].idx_v for j in scalar)]
    assert sorted(order) == list(range(tree.nv)), "every joint of the tree is one of Pinocchio's"
    for k in range(3):
        G, g = spread(mechanism, q[k], yd[k])
        at, rates = np.zeros(theirs.nq), np.zeros(theirs.nv)
        at[:7], at[at_q] = q[k, :7], q[k, 7:]
        rates[order] = G @ yd[k]
        M = np.array(pin.crba(theirs, data, at))
        M = (np.triu(M) + np.triu(M, 1).T)[np.ix_(order, order)]
        h = pin.nonLinearEffects(theirs, data, at, rates)[order]
        expected = G.T @ (M @ (G @ ydd[k] + g) + h)
        assert error(tau[k], expected) <= EXACT
    for program in dynamics_programs(mechanism, dn.forward_dynamics(mechanism)).values():
        back = interpret(program, q=q, qd=yd, tau=tau, gravity=mechanism.gravity)["qdd"]
        assert error(back, ydd).max() <= 1e-9
    feet = [body.name for body in mechanism.bodies[-2:]]
    ways = quantity_programs(mechanism, "operational_space_inertia", links=feet).values()
    right, found = (interpret(way, q=q)["inverse_inertia"] for way in ways)
    assert error(found, right, tail=2).max() <= 1e-9


def test_gears_are_what_mimic_joints_are():
    """The same robot by <mimic> in the tree's own way."""
    text = geared_chain(3)
    model = dn.parse_model(_without_couplings(text, 6.0))
    mechanism = dn.parse_mechanism(text)
    q, yd, ydd = states(mechanism, 5)
    place = [mechanism.q_names.index(name) for name in model.q_names]
    assert mechanism.v_names == model.v_names
    ours = dn.build(mechanism, dn.inverse_dynamics(mechanism))(q, yd, ydd)
    assert error(ours, dn.build(model, dn.inverse_dynamics(model))(q[:, place], yd, ydd)).max() <= EXACT
    through = dn.parse_mechanism(_without_couplings(text, 6.0))  # mimic joints make clusters too
    q = dn.close_loops(through, q)
    forward = dn.build(through, dn.forward_dynamics(through))(q, yd, ours)
    assert error(forward, ydd).max() <= 1e-9


def _without_couplings(text, ratio):
    """The geared chain with <mimic> in place of <coupling>."""
    import re

    text = re.sub("<coupling.*?</coupling>", "", text)
    return re.sub(
        r'(<joint name="m(\d+)" type="revolute") independent="false"(.*?)</joint>',
        rf'\1\3<mimic joint="j\2" multiplier="{ratio}"/></joint>', text,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["revolute", "ball", "planar"])
def test_what_keeps_a_planar_loop_closed_does_not_matter(kind):
    """A pin and a ball leave a planar loop the same mobility; a planar joint in its own plane closes nothing."""
    mechanism = dn.parse_mechanism(four_bar(kind, (None, None, None)))
    assert mechanism.nv == (3 if kind == "planar" else 1)


def test_held_joints_of_geared_robots():
    """A leg of a humanoid alone: gears of what is held have nothing to say. A belt past a joint holds it when its
    rotor and what it drives are held; a joint held away from zero shifts what turns with it."""
    driven = [f"left_{part}_joint" for part in ("thigh", "thigh_rotor", "shank", "shank_rotor")]
    mechanism = dn.parse_mechanism(humanoid(), joints=[*driven, "left_foot_rotor_joint"])
    assert [c.name for c in mechanism.constraints] == ["left_thigh_gear", "left_shank_gear", "left_foot_gear"]
    assert mechanism.joint_names == ("left_thigh_joint", "left_shank_joint")
    with pytest.raises(dn.ModelError, match="'left_foot_gear': the joints of the loop cannot move"):
        dn.parse_mechanism(humanoid(), joints=driven)
    text = belt_leg()
    moving = ["leg_foot_joint", "leg_foot_rotor_joint"]
    held = dn.parse_mechanism(text, joints=moving, positions={"leg_shank_joint": 0.4})
    q = held.neutral()
    q[held.q_names.index("leg_foot_joint")] = 0.1
    at = dict(zip(held.q_names, dn.close_loops(held, q), strict=True))
    assert at["leg_foot_rotor_joint"] == pytest.approx(12.0 * 0.5)  # the belt runs past the knee
    rigid = dn.parse_mechanism(
        four_bar().replace("</robot>", link("tip", 5, 1.0) + joint("free", "rocker", "tip") + "</robot>"),
        joints=["free"],
    )
    assert rigid.nv == 1 and not rigid.constraints


@pytest.mark.parametrize("name", ALL)
def test_rivals_give_the_same(name):
    mechanism = dn.parse_mechanism(ALL[name])
    q, yd, ydd = states(mechanism, 3, reach=0.05)
    tau = dn.build(mechanism, dn.inverse_dynamics(mechanism), backend="numpy")(q, yd, ydd)
    rivals = rival_programs(mechanism)
    given = {"q": q, "qd": yd, "gravity": mechanism.gravity}
    assert error(interpret(rivals["Lagrange"], tau=tau, **given)["qdd"], ydd).max() <= 1e-8
    assert error(interpret(rivals["projected M and h"], qdd=ydd, **given)["tau"], tau).max() <= EXACT


def test_the_independent_tree_with_reflected_inertia():
    """At rest and without gravity the approximation lacks only what rotors do off the diagonal of M."""
    exact, text = dn.parse_mechanism(geared_chain(3)), geared_chain(3)
    reflected, bare = independent_tree(text), independent_tree(text, reflect=False)
    assert reflected.joint_names == bare.joint_names == exact.joint_names
    q = np.zeros(3)
    M = mechanism_mass_matrix(exact, np.zeros(6))
    near, far = dn.mass_matrix(reflected, q), dn.mass_matrix(bare, q)
    assert np.abs(M - near).max() < 0.3 * np.abs(M - far).max()
    turning = [
        body.joint.S[:, 0] @ body.inertia @ body.joint.S[:, 0]
        for body in exact.tree.bodies
        if body.name.startswith("r")
    ]
    assert np.allclose(np.sort(reflected.armature), np.sort(36.0 * np.array(turning)))
    with pytest.raises(dn.ModelError, match="'pin' has no constant ratio"):
        independent_tree(four_bar())


def test_energy_of_a_geared_chain_stays():
    """5 s at a tolerance of 1e-10, as for the four-bar."""
    from scipy.integrate import solve_ivp

    mechanism = dn.parse_mechanism(geared_chain(3))
    forward = dn.build(mechanism, dn.forward_dynamics(mechanism))
    own = [joint.q.start for joint in mechanism.independent_joints]
    n = mechanism.nv

    def position(y):
        q = np.zeros(mechanism.nq)
        q[own] = y
        return dn.close_loops(mechanism, q)

    def energy(y, yd):
        q = position(y)
        _, rates, _ = mechanism.spanning(q, yd)
        kinetic = 0.5 * rates @ dn.mass_matrix(mechanism.tree, q) @ rates
        poses = [(body, *dn.link_pose(mechanism.tree, q, body.name)) for body in mechanism.tree.bodies]
        height = sum(body.inertia[5, 5] * (R @ _com(body) + p) for body, R, p in poses)
        return kinetic - mechanism.gravity @ height

    def rates(t, x):
        return [*x[n:], *forward(position(x[:n]), x[n:], np.zeros(n))]

    start = [0.4, -0.3, 0.8, 0.5, -0.2, 0.3]
    motion = solve_ivp(rates, (0, 5), start, rtol=1e-10, atol=1e-10, method="DOP853")
    energies = [energy(x[:n], x[n:]) for x in motion.y.T]
    assert np.ptp(energies) <= 1e-8 * np.abs(energies).max() and np.ptp(motion.y[0]) > 1.0


def test_energy_of_a_falling_four_bar_stays():
    """2 s at a tolerance of 1e-10; q is closed anew at every step of the integrator."""
    from scipy.integrate import solve_ivp

    mechanism = dn.parse_mechanism(four_bar())
    tree = mechanism.tree
    forward = dn.build(mechanism, dn.forward_dynamics(mechanism))
    gravity = np.array([0.0, -9.81, 0.0])
    start = dn.close_loops(mechanism, np.array([0.4, 0.1, 1.0]))
    branch = [start]

    def position(y):
        guess = branch[-1].copy()
        guess[0] = y
        branch.append(dn.close_loops(mechanism, guess))
        return branch[-1]

    def energy(y, yd):
        q = position(y)
        G, _ = spread(mechanism, q, np.array([yd]))
        qd = (G @ [yd]).ravel()
        kinetic = 0.5 * qd @ dn.mass_matrix(tree, q) @ qd
        height = sum(
            body.inertia[5, 5]
            * (dn.link_pose(tree, q, body.name)[0] @ _com(body) + dn.link_pose(tree, q, body.name)[1])
            for body in tree.bodies
        )
        return kinetic - gravity @ height

    def rates(t, x):
        return [x[1], forward(position(x[0]), [x[1]], [0.0], gravity=gravity)[0]]

    motion = solve_ivp(rates, (0, 2), [start[0], 2.0], rtol=1e-10, atol=1e-10, method="DOP853")
    branch[:] = [start]
    energies = [energy(y, yd) for y, yd in motion.y.T[::3]]
    assert np.ptp(energies) <= 1e-8 * np.abs(energies).max() and np.ptp(motion.y[0]) > 1.0


def _com(body):
    inertia = body.inertia
    return np.array([inertia[2, 4], inertia[0, 5], inertia[1, 3]]) / inertia[5, 5]


@pytest.mark.parametrize("name", ["five_bar", "belt_chain", "ball"])
@pytest.mark.parametrize("backend", ["c", "numpy"])
def test_quantities_of_mechanisms(name, backend):
    """M and h make up inverse dynamics; Lambda^-1 = J M^-1 J^T; J qd is the velocity of the link's origin."""
    mechanism = dn.parse_mechanism(ALL[name])
    q, yd, ydd = states(mechanism, 70, reach=0.03)
    link = mechanism.bodies[-1].name

    def built(quantity, **options):
        return dn.build_quantity(mechanism, quantity, backend=backend, **options)

    M, h = built("mass_matrix")(q), built("bias")(q, yd)
    tau = dn.build(mechanism, dn.inverse_dynamics(mechanism))(q, yd, ydd)
    assert error((M @ ydd[..., None])[..., 0] + h, tau).max() <= EXACT
    J = built("link_jacobian", link=link)(q)
    inverse, same = built("operational_space_inertia", links=[link])(q)
    assert error(same, J, tail=2).max() <= EXACT
    assert error(inverse, J @ np.linalg.solve(M, np.swapaxes(J, 1, 2)), tail=2).max() <= 1e-8
    one = built("mass_matrix")
    assert error(one(q[3]), M[3], tail=2) <= EXACT
    G, _ = spread(mechanism, q[3], yd[3])
    ahead, behind = (dn.link_pose(mechanism.tree, q[3] + s * 1e-6 * (G @ yd[3]), link)[1] for s in (1, -1))
    assert np.allclose((ahead - behind) / 2e-6, (J[3] @ yd[3])[3:], atol=1e-7)
    if name != "belt_chain":
        with pytest.raises(dn.SolutionError, match="is open by"):
            one(q[3] + 0.01)
        assert np.isnan(one(q[3] + 0.01, errors="nan")).all()


@pytest.mark.parametrize("name", ["five_bar", "geared_chain", "belt_chain", "universal"])
@pytest.mark.parametrize("reference", ["world_aligned", "body"])
def test_extended_forces(name, reference):
    """C-EFPA gives what J M^-1 J^T is, for several links at once: in a loop, on one branch, on the root."""
    mechanism = dn.parse_mechanism(ALL[name])
    q, _, _ = states(mechanism, 5, reach=0.03)
    links = [
        mechanism.bodies[-1].name,
        mechanism.bodies[0].name,
        mechanism.base_link,
        mechanism.bodies[-2].name,
    ]
    options = {"links": links, "reference": reference}
    ways = quantity_programs(mechanism, "operational_space_inertia", **options).values()
    returns = QUANTITIES["operational_space_inertia"].returns
    (right, J), (found, same) = ([interpret(way, q=q)[name] for name in returns] for way in ways)
    assert error(found, right, tail=2).max() <= 1e-9 and error(same, J, tail=2).max() <= EXACT


@pytest.mark.parametrize("name", ["four_bar", "five_bar", "belt_chain", "ball"])
@pytest.mark.parametrize("kind", ["inverse", "forward", "hybrid"])
def test_derivatives_of_mechanisms(name, kind):
    """Against differences of the solver itself, along motions that keep the loops closed."""
    mechanism = dn.parse_mechanism(ALL[name])
    if kind == "hybrid":
        problem = dn.hybrid_dynamics(mechanism, mechanism.joint_names[:1])
    else:
        problem = {"inverse": dn.inverse_dynamics, "forward": dn.forward_dynamics}[kind](mechanism)
    q, yd, known = (a[0] for a in states(mechanism, 1, reach=0.03))
    arguments = (known, known) if kind == "hybrid" else (known,)
    derivatives = dn.build_derivatives(mechanism, problem, backend="numpy")
    solver, forward = dn.build(mechanism, problem, backend="numpy"), np.array(problem.forward)
    independent, step = [joint.q.start for joint in mechanism.independent_joints], 1e-6

    def asked(q, yd, known):
        if kind == "hybrid":
            return np.where(forward, *solver(q, yd, known, known))
        return solver(q, yd, known)

    def moved(at, k, s):
        x = at.copy()
        x[k] += s * step
        return x

    def closed(k, s):
        return dn.close_loops(mechanism, moved(q, independent[k], s))

    def column(call):
        return (call(1) - call(-1)) / (2 * step)

    n = range(mechanism.nv)
    expected = (
        [column(lambda s, k=k: asked(closed(k, s), yd, known)) for k in n],
        [column(lambda s, k=k: asked(q, moved(yd, k, s), known)) for k in n],
        [column(lambda s, k=k: asked(q, yd, moved(known, k, s))) for k in n],
    )
    for found, right in zip(derivatives(q, yd, *arguments), expected, strict=True):
        assert error(found, np.array(right).T, tail=2) <= 1e-6  # what differences allow


def test_loops_of_a_sidecar_file(tmp_path):
    """A five-bar whose loop is named beside it: frames of fixed links at its two ends."""
    ends = [
        link("end2"), link("end4"), joint("e2", "left_lower", "end2", "0.5 0 0", kind="fixed"),
        joint("e4", "right_lower", "end4", "0.5 0 0", kind="fixed"),
    ]  # fmt: skip
    bare = five_bar().split("<loop")[0] + "".join(ends) + "</robot>"
    (tmp_path / "robot.urdf").write_text(bare)
    (tmp_path / "loops.yaml").write_text("closed_loop: [[end2, end4]]\ntype: [3d]\n")
    beside = dn.load_mechanism(tmp_path / "robot.urdf", loops_file=tmp_path / "loops.yaml")
    within = dn.parse_mechanism(five_bar())
    q, yd, ydd = states(within, 4)
    ours, theirs = (dn.build(m, dn.inverse_dynamics(m))(q, yd, ydd) for m in (beside, within))
    assert beside.v_names == within.v_names and error(ours, theirs).max() <= EXACT
    for text, words in {
        "closed_loop: [[end2, nothing]]": "successor link 'nothing' does not exist",
        "closed_loop: [[end2, end4]]\ntype: [glued]": "unknown type 'glued'",
        "closed_loop: [[end2, end4]]\ntype: [3d, 6d]": "1 pairs of links and not as many types",
        "closed_loop: [end2]": "needs closed_loop: a list of pairs",
        "[1, 2": "is no YAML",
        "- 1": "needs closed_loop",
        "x" * 2_000_000: "has more than 1048576 bytes",
    }.items():
        with pytest.raises(dn.ModelError, match=words):
            dn.parse_mechanism(bare, loops=text)


# --- motors -------------------------------------------------------------------------------------------------


def test_regular_redundant_and_missing_motors():
    mechanism = dn.parse_mechanism(five_bar())
    q, _, tau = states(mechanism, 6)
    own = Actuation(mechanism, ["j1", "j2"])
    found = own.from_coordinates(q, tau)
    order = [mechanism.v_names.index(name) for name in ("j1", "j2")]
    assert np.allclose(found.torques, tau[:, order], atol=1e-12) and np.abs(found.rest).max() <= 1e-12
    many = Actuation(mechanism, ["j1", "j2", "j3", "j4"], weights=[1.0, 1.0, 4.0, 9.0])
    torques, rest = many.from_coordinates(q, tau)
    assert np.abs(rest).max() <= 1e-9 and error(many.to_coordinates(q, torques), tau).max() <= 1e-10
    A = np.swapaxes(closure_matrix(mechanism, q)[:, many.at], 1, 2)
    for k in range(6):  # other torques of the same effect cost more
        null = np.linalg.svd(A[k])[2][2:]
        for step in (0.1, -0.1):
            other = torques[k] + step * null.sum(axis=0)
            assert other @ np.diag([1, 1, 4, 9]) @ other > torques[k] @ np.diag([1, 1, 4, 9]) @ torques[k]
    few = Actuation(mechanism, ["j1"])
    missed = few.from_coordinates(q, tau)
    assert missed.torques.shape == (6, 1) and np.abs(missed.rest).max() > 0.01
    assert (
        np.abs(
            np.einsum("kij,ki->kj", np.swapaxes(closure_matrix(mechanism, q)[:, few.at], 1, 2), missed.rest)
        ).max()
        <= 1e-10
    )  # of least square


def test_rotors_feel_the_torque_over_the_ratio():
    mechanism = dn.parse_mechanism(geared_chain(3))
    q, _, tau = states(mechanism, 2)
    rotors = Actuation(mechanism, ["m1", "m2", "m3"])
    assert np.allclose(rotors.from_coordinates(q, tau).torques, tau / 6.0)
    for wrong, words in (
        (["m9"], "driven joint 'm9' is unknown"),
        (["m1", "m2"], "weights must be 2 positive"),
    ):
        with pytest.raises(ValueError, match=words):
            Actuation(mechanism, wrong, weights=[1.0, -1.0])


# --- what is refused ----------------------------------------------------------------------------------------


def test_open_and_singular_loops_give_no_torque():
    mechanism = dn.parse_mechanism(four_bar())
    q, yd, ydd = states(mechanism, 1)
    for backend in ("c", "numpy"):
        solver = dn.build(mechanism, dn.inverse_dynamics(mechanism), backend=backend)
        opened = q[0] + [0.0, 0.01, 0.0]
        with pytest.raises(dn.SolutionError, match="'pin' is open by 0.00.*close_loops"):
            solver(opened, yd[0], ydd[0])
        assert np.isnan(solver(opened, yd[0], ydd[0], errors="nan")).all()
    square = dn.parse_mechanism(  # a parallelogram that is stretched out: its coupler may go either way
        robot(link("ground"), *(link(f"l{k}", k, 1.0) for k in (1, 2, 3)),
              joint("a", "ground", "l1", independent=True), joint("b", "l1", "l2", "0.5 0 0", independent=False),
              joint("c", "ground", "l3", "1 0 0", independent=False), loop("pin", "revolute", "l2", "1 0 0", "l3", "0.5 0 0"))
    )  # fmt: skip
    solver = dn.build(square, dn.inverse_dynamics(square))
    with pytest.raises(dn.SolutionError, match="singular position, or too near: pin"):
        solver(np.zeros(3), [1.0], [1.0])
    bent = dn.close_loops(square, [0.5, -0.5, 0.5])
    assert np.isfinite(solver(bent, [1.0], [1.0])).all()


def test_a_position_that_cannot_be_closed():
    mechanism = dn.parse_mechanism(four_bar(independent=(False, False, True)))
    with pytest.raises(dn.ClosureError, match="no closed position near the start: 'pin' stay open by"):
        dn.close_loops(mechanism, [0.0, 0.0, 3.1])


def test_loops_close_from_many_starts():
    """100 starts around reachable positions: residuals below 1e-9 and the independent joints where they were."""
    for name, reach in (
        ("five_bar", 0.4),
        ("four_bar", 0.4),
        ("differential", 0.3),
        ("belt_leg", 1.0),
        ("ball", 0.1),
    ):
        mechanism = dn.parse_mechanism(ALL[name])
        q, _, _ = states(mechanism, 100, reach=reach)
        dependent = [v for v in range(mechanism.tree.nv) if v not in mechanism.independent]
        start = q.copy()
        start[:, dependent] += np.random.default_rng(1).uniform(-reach / 2, reach / 2, (100, len(dependent)))
        closed = dn.close_loops(mechanism, start)
        assert np.array_equal(closed[:, mechanism.independent], q[:, mechanism.independent])
        residuals = interpret(position_program(mechanism.tree, mechanism.constraints), q=closed)["phi"]
        assert np.abs(residuals).max() <= 1e-9 and np.abs(closed - q).max() <= 1e-8


REFUSED = {
    "no such link": (four_bar().replace('predecessor link="coupler"', 'predecessor link="hand"'), "predecessor link 'hand' does not exist"),
    "type": (four_bar("glued"), "loop 'pin': unknown type 'glued'"),
    "no predecessor": (robot(link("a"), '<loop name="x" type="fixed"/>'), "loop 'x' needs one <predecessor>"),
    "rigid": (spatial_loop("fixed"), "'tie': the joints of the loop cannot move"),
    "too many marked": (four_bar(independent=(False, False, False)), "'pin': 2 joints follow from the others, but the file marks 3"),
    "too few marked": (four_bar(independent=(True, True, False)), "2 joints follow from the others, but the file marks 1 as dependent: 'rocker_j'"),
    "never closed": (four_bar().replace('xyz="0.7 0 0"', 'xyz="9 0 0"'), "'pin': no position was found in which the loop is closed"),
    "ends on one body": (four_bar().replace('successor link="rocker"', 'successor link="coupler"'), "no joint moves its ends"),
    "ratio": (geared_chain(1, 0.0), "coupling 'gear1': ratio 0.0 is not a finite number other than 0"),
    "flag": (four_bar().replace('independent="true"', 'independent="yes"'), "independent is 'true' or 'false', not 'yes'"),
    "axis": (four_bar().replace('</successor><axis xyz="0 0 1"/>', '</successor><axis xyz="0 0 0"/>'), "loop 'pin': axis is zero"),
    "numbers": (four_bar().replace('</successor><axis xyz="0 0 1"/>', '</successor><axis xyz="0 0"/>'), "must have 3 numbers, not 2"),
    "coupling of one body": (robot(link("a"), link("b", 1, 1.0), joint("j", "a", "b"), coupling("c", "b", "b", 2.0)), "coupling 'c': no joint moves"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_bad_loops_are_refused_by_name(what):
    text, words = REFUSED[what]
    with pytest.raises(dn.ModelError, match=words):
        dn.parse_mechanism(text)


def test_a_singular_choice_of_independent_joints_is_refused_with_another():
    """Two joints on one axis: one of them can stand for both, they cannot both follow."""
    text = robot(
        link("ground"), link("a", 1, 1.0), link("b", 2, 1.0), link("c", 3, 1.0), link("d", 4, 1.0),
        joint("j1", "ground", "a", independent=False), joint("j2", "a", "b", independent=False),
        joint("j3", "b", "c", "0.3 0 0", independent=True), joint("j4", "c", "d", "0.8 0 0", independent=True),
        loop("tie", "revolute", "d", "0.5 0 0", "ground", "0.9 0.2 0"),
    )  # fmt: skip
    with pytest.raises(dn.ModelError, match="cannot be the independent joints.* could"):
        dn.parse_mechanism(text)


def test_a_model_without_loops_refuses_them():
    with pytest.raises(dn.ModelError, match="'pin' closes a kinematic loop.*load_mechanism"):
        dn.parse_model(four_bar())


@pytest.mark.parametrize("way", [("c", "best"), ("numpy", "best"), ("numpy", "factor_graph")])
def test_other_inertias_without_another_build(way):
    """A payload on a coupler, with wrenches and over batches: as if built for it."""
    backend, solver = way
    mechanism = dn.parse_mechanism(ALL["five_bar"])
    q, yd, ydd = states(mechanism, 70, reach=0.1)
    f_ext = np.random.default_rng(4).uniform(-1, 1, (70, mechanism.nbodies, 6))
    loaded = dn.with_payload(mechanism, "left_lower", 2.0, (0.4, 0.1, 0.0), 0.01 * np.eye(3))
    for problem in (dn.inverse_dynamics(mechanism), dn.forward_dynamics(mechanism)):
        choice = {"backend": backend, "solver": solver}
        first = dn.build(mechanism, problem, parameters=["inertia"], **choice)
        first(q, yd, ydd, f_ext)
        changed, anew = first.with_model(loaded), dn.build(loaded, problem, **choice)
        for push in (None, f_ext):
            assert error(changed(q, yd, ydd, push), anew(q, yd, ydd, push)).max() <= 1e-9
            one = None if push is None else push[0]
            assert error(changed(q[0], yd[0], ydd[0], one), anew(q[0], yd[0], ydd[0], one)) <= 1e-9
        assert error(changed(q, yd, ydd), first(q, yd, ydd)).max() > 1e-3
    with pytest.raises(ValueError, match="built for constant inertia"):
        dn.build(mechanism, dn.inverse_dynamics(mechanism), backend="numpy").with_model(loaded)
    other = dn.parse_mechanism(ALL["five_bar"])
    with pytest.raises(ValueError, match="differs in more than"):
        first.with_model(other)


@pytest.mark.parametrize("name", ["five_bar", "differential", "belt_leg"])
def test_numbers_of_the_tree_projected(name):
    """mass matrix, bias and operational-space inertia by NumPy are the compiled ones."""
    mechanism = dn.parse_mechanism(ALL[name])
    q, yd, _ = states(mechanism, 3, reach=0.1)
    link = mechanism.bodies[-1].name
    assert (
        error(
            mechanism_mass_matrix(mechanism, q), dn.build_quantity(mechanism, "mass_matrix")(q), tail=2
        ).max()
        <= EXACT
    )
    assert error(mechanism_bias(mechanism, q, yd), dn.build_quantity(mechanism, "bias")(q, yd)).max() <= EXACT
    ours = mechanism_operational_space_inertia(mechanism, q, [link])
    theirs = dn.build_quantity(mechanism, "operational_space_inertia", links=[link])(q)
    for a, b in zip(ours, theirs, strict=True):
        assert error(a, b, tail=2).max() <= 1e-9


# --- closing at the rate of a controller ---------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["c", "numpy"])
@pytest.mark.parametrize("name", ["four_bar", "five_bar", "differential", "ball", "belt_leg"])
def test_closing_follows_a_motion(name, backend):
    mechanism = dn.parse_mechanism(ALL[name])
    q, yd, ydd = states(mechanism, 1)
    closing = pickle.loads(pickle.dumps(dn.build_closing(mechanism, backend)))
    own = [joint.q.start for joint in mechanism.independent_joints]
    at = q[0].copy()
    for _ in range(30):
        at[own] += 0.004 * yd[0]
        at, condition = closing(at)
        assert np.abs(at - dn.close_loops(mechanism, at)).max() <= 1e-9
        assert closing.is_regular(at) and 1.0 <= condition < 1e6
    rates, accelerations, G = closing.spread(at, yd[0], ydd[0])
    _, expected, expected_accelerations = mechanism.spanning(at, yd[0], ydd[0])
    assert error(rates, expected) <= EXACT and error(accelerations, expected_accelerations) <= EXACT
    assert error(G @ yd[0], rates) <= EXACT


def test_the_branch_is_kept_where_newton_alone_would_lose_it():
    """A long way in one step, in steps of the library's own."""
    mechanism = dn.parse_mechanism(four_bar())
    start = dn.close_loops(mechanism, [0.4, 0.1, 1.0])
    goal = np.array([2.6, np.nan, np.nan])
    way = start.copy()
    for crank in np.linspace(0.4, 2.6, 400):
        way[0] = crank
        way = dn.close_loops(mechanism, way)
    assert np.allclose(continued(mechanism, start, np.nan_to_num(goal)), way, atol=1e-9)


def test_rotors_far_from_zero():
    """A rotor that nobody measures starts at zero; behind a gear of 100 it is hundreds of radians away."""
    mechanism = dn.parse_mechanism(geared_chain(2, ratio=100.0))
    q = np.zeros(4)
    own = [joint.q.start for joint in mechanism.independent_joints]
    q[own] = 2.5, -1.5
    for closed in (
        dn.close_loops(mechanism, q),
        first_closed(mechanism, q),
        dn.build_closing(mechanism)(q)[0],
    ):
        assert sorted(closed) == pytest.approx([-150.0, -1.5, 2.5, 250.0])


def test_the_first_position_is_found_without_the_passive_joints():
    """From joints at zero, which are a singular position of the five-bar."""
    mechanism = dn.parse_mechanism(five_bar())
    q = first_closed(mechanism, np.zeros(4))
    assert np.abs(q[mechanism.independent]).max() == 0.0
    assert np.abs(dn.close_loops(mechanism, q) - q).max() <= 1e-9


def test_a_constraint_whose_rank_changes_is_refused():
    """On one branch it is one equation, on the other two: no choice of rows is right for both."""
    links = [link("a"), *(link(f"b{k}", k, 1.0) for k in range(3))]
    text = robot(*links, *(joint(f"j{k}", "a", f"b{k}") for k in range(3)))

    def two_branches(tree):
        function = lambda q: np.array([q[0] * q[1], q[0] * q[2]])  # noqa: E731
        return Custom("fork", function, (0, 1, 2), frozenset({0, 1, 2}))

    with pytest.raises(dn.ModelError, match="'fork': the number of independent equations changes"):
        dn.parse_mechanism(text, constraints=[two_branches])


def test_custom_constraints():
    """A function of two joints: what a coupling says, and what nothing else can."""
    text = geared_chain(1).replace(coupling("gear1", "l1", "r1", 6.0), "")

    def tie(function):
        return lambda tree: Custom("tie", function, (0, 1), frozenset({0, 1}))

    geared = dn.parse_mechanism(geared_chain(1))
    same = dn.parse_mechanism(text, constraints=[tie(lambda q: 6.0 * q[0] - q[1])])
    cam = dn.parse_mechanism(text, constraints=[tie(lambda q: np.sin(2 * q[0]) - q[1])])
    q, yd, ydd = states(geared, 3)
    solve = {m: dn.build(m, dn.inverse_dynamics(m)) for m in (geared, same, cam)}
    assert error(solve[same](q, yd, ydd), solve[geared](q, yd, ydd)).max() <= EXACT
    q = dn.close_loops(cam, q)
    assert np.allclose(q[:, 1], np.sin(2 * q[:, 0]))
    G, g = spread(cam, q[0], yd[0])
    assert np.allclose(G[:, 0], [1, 2 * np.cos(2 * q[0, 0])]) and np.allclose(
        g[1], -4 * np.sin(2 * q[0, 0]) * yd[0] ** 2
    )
    tau = solve[cam](q, yd, ydd)
    for solver in ("cluster", "factor_graph"):
        back = dn.build(cam, dn.forward_dynamics(cam), solver=solver)(q, yd, tau)
        assert error(back, ydd).max() <= 1e-9


@pytest.mark.parametrize("name", ["panda7", "solo12", "ur5"])
def test_a_joint_is_a_cluster_of_one(name):
    """A tree without loops through the cluster algorithms gives what the recursions of trees give."""
    made = ROBOTS[name]
    model = made.model()
    mechanism = dn.load_mechanism(made.file, joints=made.joints, floating_base=made.floating_base)
    q, qd, qdd, f_ext = random_states(model, 3, seed=8)
    tau = dn.build(model, dn.inverse_dynamics(model), backend="numpy")(q, qd, qdd, f_ext)
    ours = dn.build(mechanism, dn.inverse_dynamics(mechanism), backend="numpy")
    assert error(ours(q, qd, qdd, f_ext), tau).max() <= EXACT
    for program in dynamics_programs(mechanism, dn.forward_dynamics(mechanism), wrenches=True).values():
        given = {"q": q, "qd": qd, "tau": tau, "gravity": mechanism.gravity, "f_ext": f_ext}
        assert error(interpret(program, **given)["qdd"], qdd).max() <= 1e-9
    link = model.bodies[-1].name
    expected, _ = dn.operational_space_inertia(model, q, [link])
    way = quantity_programs(mechanism, "operational_space_inertia", links=[link])["c-efpa"]
    found = interpret(way, q=q)["inverse_inertia"]
    assert error(found, expected, tail=2).max() <= 1e-9


def test_a_loop_that_ties_nothing_takes_over_from_the_tree():
    """In the node: the same joints, all independent, with a loop and without, either after the other."""
    looped = four_bar("planar", (None, None, None))
    tree = looped.split("<loop")[0] + "</robot>"
    settings = read_settings({parameter.name: parameter.default for parameter in PARAMETERS})
    robots = [do(Job(text, {}, "inverse", backend="numpy")) for text in (tree, looped)]
    assert [robot.closing is None for robot in robots] == [True, False]
    for first, then in (robots, robots[::-1]):
        core = Core(first, settings)
        assert core.serves(then.model)
        core.joints.update(core.joints.names, [0.1, 0.2, 0.3], [0.0] * 3, (), 1, 1)
        before = core.solve(lambda: 1, 1).tau
        core.replace(then, settings)
        assert error(core.solve(lambda: 1, 1).tau, before) <= EXACT
