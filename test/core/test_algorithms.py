"""All algorithms and backends agree on robots with loops, gears and belts."""

import numpy as np
import pytest
from robots import LEGGED, LOOPS, SPATIAL, TEXTS, closed_states, random_states, robot_of, states_of
from tolerances import EXACT, error

import dynamics_node as dn
from benchmarks.cluster_alternatives import alternative_programs, spanning_tree
from dynamics_demo.robots import belt_chain, coupling, four_bar, geared_chain
from dynamics_node.algorithms import QUANTITIES, aba, dynamics_programs, quantity_programs, rnea
from dynamics_node.algorithms.aba import columns
from dynamics_node.algorithms.quantity_methods import extended_forces, operational_space_inertia_inverse
from dynamics_node.algorithms.rates import closure_matrix, rates_at, spread_rates
from dynamics_node.node.building.build_job import Job, do
from dynamics_node.node.core.consistency import read_settings
from dynamics_node.node.core.dynamics_core import Core
from dynamics_node.node.core.settings import PARAMETERS
from dynamics_node.robot.constraints import FunctionConstraint
from dynamics_node.symbolic import interpret, trace

PLAIN = {"four_bar", "five_bar", "geared_chain"}  # also without wrenches, which is another Program
COMPILED = {*TEXTS} - {*SPATIAL} | {"rod"}  # other Programs in space take seconds to compile


@pytest.mark.parametrize("name", TEXTS)
def test_every_algorithm_and_backend_agrees(name):
    """Forward dynamics is compiled for most, the other problems for some."""
    backends = ("c", "numpy") if name in COMPILED else ("numpy",)
    other = "c" if name in ("five_bar", "wrist") else "numpy"
    mechanism = robot_of(name)
    q, yd, ydd = closed_states(mechanism, 70, reach=0.03)
    f_ext = np.random.default_rng(5).uniform(-2, 2, (70, mechanism.nbodies, 6))
    forward, inverse = dn.forward_dynamics(mechanism), dn.inverse_dynamics(mechanism)
    tau = dn.build(mechanism, inverse, backend=other, f_ext=True)(q, yd, ydd, f_ext)
    for wrenches in (False, True) if name in PLAIN else (True,):
        forces = f_ext if wrenches else None
        torques = tau if wrenches else dn.build(mechanism, inverse, backend="numpy", f_ext=True)(q, yd, ydd)
        inputs = {"q": q, "qd": yd, "tau": torques, "gravity": mechanism.gravity, "f_ext": f_ext}
        for program in dynamics_programs(mechanism, forward, wrenches).values():
            assert error(interpret(program, **inputs)["qdd"], ydd).max() <= 1e-8
        for backend in backends:
            solver = dn.build(mechanism, forward, backend=backend, f_ext=True)
            assert error(solver(q, yd, torques, forces), ydd).max() <= 1e-8
            one = [solver(q[k], yd[k], torques[k], None if forces is None else forces[k]) for k in range(3)]
            assert error(np.array(one), ydd[:3]).max() <= 1e-8
    if mechanism.nv > 1:
        problem = dn.hybrid_dynamics(mechanism, [mechanism.independent_joints[0].name])
        hybrid = dn.build(mechanism, problem, backend=other, f_ext=True)(q, yd, ydd, tau, f_ext)
        assert error(hybrid[0], ydd).max() <= 1e-8 and error(hybrid[1], tau).max() <= 1e-8


@pytest.mark.parametrize("name", LEGGED)
def test_every_algorithm_inverts_dynamics_of_legged_robots(name):
    """Forward dynamics by every algorithm; C-EFPA for both feet."""
    robot = robot_of(name)
    q, qd, qdd, _ = states_of(name, 3)
    tau = dn.evaluate(robot, "inverse_dynamics", q, qd, qdd, backend="numpy")
    for program in dynamics_programs(robot, dn.forward_dynamics(robot)).values():
        accelerations = interpret(program, q=q, qd=qd, tau=tau, gravity=robot.gravity)["qdd"]
        assert error(accelerations, qdd).max() <= 1e-9
    feet = [body.name for body in robot.bodies[-2:]]
    programs = quantity_programs(robot, "operational_space_inertia_inverse", links=feet).values()
    right, *others = (interpret(program, q=q)["inertia_inverse"] for program in programs)
    assert bool(others) == any(len(cluster.bodies) > 1 for cluster in robot.clusters)
    assert all(error(other, right, tail=2).max() <= 1e-9 for other in others)


@pytest.mark.parametrize("name", ["five_bar", "geared_chain", "belt_chain", "universal"])
@pytest.mark.parametrize("reference", ["world_aligned", "body", "WORLD"])
def test_extended_forces(name, reference):
    """C-EFPA equals J M^-1 J^T for several links at once: in a loop, on one branch, on the root."""
    robot = robot_of(name)
    q, _, _ = closed_states(robot, 5, reach=0.03)
    links = [robot.bodies[-1].name, robot.bodies[0].name, robot.base_link, robot.bodies[-2].name]
    options = {"links": links, "reference": reference}
    programs = quantity_programs(robot, "operational_space_inertia_inverse", **options).values()
    returns = QUANTITIES["operational_space_inertia_inverse"].returns
    (right, J), (inertia, jacobian) = (
        [interpret(program, q=q)[name] for name in returns] for program in programs
    )
    assert error(inertia, right, tail=2).max() <= 1e-9 and error(jacobian, J, tail=2).max() <= EXACT


def test_gears_equal_mimic_joints():
    """The same robot with <mimic>: its rotors have no coordinates either."""
    text = geared_chain(3)
    mimics, geared = dn.parse_robot(_without_couplings(text, 6.0)), dn.parse_robot(text)
    assert mimics.q_names == mimics.v_names == geared.q_names == geared.v_names == ("j1", "j2", "j3")
    assert (mimics.joint_map == geared.joint_map).all()
    for problem in (dn.inverse_dynamics, dn.forward_dynamics):
        programs = [dynamics_programs(robot, problem(robot)) for robot in (mimics, geared)]
        assert all(np.array_equal(programs[0][name].ops, programs[1][name].ops) for name in programs[0])


def _without_couplings(text, ratio):
    """The geared chain with <mimic> in place of <coupling>."""
    import re

    text = re.sub("<coupling.*?</coupling>", "", text)
    return re.sub(
        r'(<joint name="m(\d+)" type="revolute") independent="false"(.*?)</joint>',
        rf'\1\3<mimic joint="j\2" multiplier="{ratio}"/></joint>', text,
    )  # fmt: skip


@pytest.mark.parametrize("name", LOOPS)
def test_alternative_algorithms_agree(name):
    mechanism = robot_of(name)
    q, yd, ydd = closed_states(mechanism, 3, reach=0.05)
    tau = dn.build(mechanism, dn.inverse_dynamics(mechanism), backend="numpy")(q, yd, ydd)
    alternatives = alternative_programs(
        mechanism, None if mechanism.constraints else spanning_tree(LOOPS[name])
    )
    given = {"q": q, "qd": yd, "gravity": mechanism.gravity}
    assert error(interpret(alternatives["Lagrange"], tau=tau, **given)["qdd"], ydd).max() <= 1e-8
    assert error(interpret(alternatives["projected M and h"], qdd=ydd, **given)["tau"], tau).max() <= EXACT


@pytest.mark.parametrize("name", ["panda", "solo12", "ur5", "geared_chain", "belt_chain", "belt_leg"])
def test_articulated_bodies_on_arrays(name):
    """Single bodies and explicit clusters, many states at once: against RNEA and the mass matrix."""
    robot = robot_of(name)
    q, qd, qdd, f_ext = random_states(robot, 3, seed=8)
    tau = rnea(robot, q, qd, qdd, f_ext)
    assert error(aba(robot, q, qd, tau, f_ext=f_ext)[0], qdd).max() <= 1e-9
    forward = np.zeros(robot.nv, dtype=bool)
    for own in columns(robot)[::2]:
        forward[own] = True
    known = np.where(forward, 0.0, qdd), np.where(forward, tau, 0.0)
    hybrid = aba(robot, q, qd, known[1], known[0], forward, f_ext)
    assert error(hybrid[0], qdd).max() <= 1e-9 and error(hybrid[1], tau).max() <= 1e-9
    link = robot.bodies[-1].name
    (expected, _), q = operational_space_inertia_inverse(robot, rates_at(robot, q), q, [link]), q
    program = trace(
        lambda q: {"inverse": extended_forces(robot, rates_at(robot, q), q, [link])[0]}, {"q": (robot.nq,)}
    )
    assert error(interpret(program, q=q)["inverse"], expected, tail=2).max() <= 1e-9


@pytest.mark.parametrize("solver", ["cluster", "factor_graph"])
def test_rotor_inertia_couples_two_joints(solver):
    """A rotor behind a belt of ratio 4 couples both joints in M, in every solver, and in the derivatives."""
    robot = dn.parse_robot(belt_chain(1), armature={"mb1": 0.01, "jb1": 0.2})
    without_rotors, q = dn.parse_robot(belt_chain(1)), np.array([0.3, -0.4])
    M, M_without = (dn.evaluate(each, "mass_matrix", q, backend="numpy") for each in (robot, without_rotors))
    assert np.allclose(M - M_without, 0.16 * np.ones((2, 2)) + np.diag([0.0, 0.2]), atol=1e-12)
    qd, qdd = np.array([0.5, -1.0]), np.array([1.0, 2.0])
    for kind in ("forward", "hybrid"):
        problem = dn.forward_dynamics(robot) if kind == "forward" else dn.hybrid_dynamics(robot, ["ja1"])
        inverse = dn.build(robot, dn.inverse_dynamics(robot), solver=solver, backend="numpy")
        solve = dn.build(robot, problem, solver=solver, backend="numpy")
        tau = inverse(q, qd, qdd)
        accelerations = solve(q, qd, tau) if kind == "forward" else solve(q, qd, qdd, tau)[0]
        assert error(accelerations, qdd) <= 1e-9
    *_, by_tau = dn.build(robot, "forward_dynamics_derivatives", backend="numpy")(q, qd, tau)
    assert error(by_tau @ M, np.eye(2), tail=2) <= 1e-9


def test_custom_constraints():
    """A function of two joints replaces a coupling, or describes a cam."""
    text = geared_chain(1).replace(coupling("gear1", "l1", "r1", 6.0), "")

    def tie(function):
        return lambda tree: FunctionConstraint("tie", function, (0, 1), frozenset({0, 1}))

    geared = dn.parse_robot(geared_chain(1))
    same = dn.parse_robot(text, constraints=[tie(lambda q: 6.0 * q[0] - q[1])])
    cam = dn.parse_robot(text, constraints=[tie(lambda q: np.sin(2 * q[0]) - q[1])])
    q, yd, ydd = closed_states(geared, 3)
    solve = {m: dn.build(m, dn.inverse_dynamics(m)) for m in (geared, same, cam)}
    tied = np.hstack([q, 6.0 * q])
    assert error(solve[same](tied, yd, ydd), solve[geared](q, yd, ydd)).max() <= EXACT
    q = dn.close_loops(cam, tied)
    assert np.allclose(q[:, 1], np.sin(2 * q[:, 0]))
    G, (_, g) = closure_matrix(cam, q[0]), spread_rates(cam, q[0], yd[0], 0 * yd[0])
    assert np.allclose(G[:, 0], [1, 2 * np.cos(2 * q[0, 0])])
    assert np.allclose(g[1], -4 * np.sin(2 * q[0, 0]) * yd[0] ** 2)
    tau = solve[cam](q, yd, ydd)
    for solver in ("cluster", "factor_graph"):
        back = dn.build(cam, dn.forward_dynamics(cam), solver=solver)(q, yd, tau)
        assert error(back, ydd).max() <= 1e-9


def test_node_swaps_a_tree_for_a_loop_without_constraint():
    """The same joints, all independent, with a loop and without; each replaces the other."""
    looped = four_bar("planar", (None, None, None))
    tree = looped.split("<loop")[0] + "</robot>"
    settings = read_settings({parameter.name: parameter.default for parameter in PARAMETERS})
    robots = [do(Job(text, {}, "inverse", backend="numpy")) for text in (tree, looped)]
    assert [robot.loop_solver is None for robot in robots] == [True, False]
    for first, then in (robots, robots[::-1]):
        core = Core(first, settings)
        assert core.serves(then.model)
        core.joints.update(core.joints.names, [0.1, 0.2, 0.3], [0.0] * 3, (), 1, 1)
        before = core.solve(lambda: 1, 1).tau
        core.replace(then, settings)
        assert error(core.solve(lambda: 1, 1).tau, before) <= EXACT
