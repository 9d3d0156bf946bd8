"""LoopPrograms give the same results as their recursions."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from compiled import packed
from robots import ROBOTS, random_states
from tolerances import EXACT, error, solved

import dynamics_node as dn
from dynamics_node.algorithms import aba, can_roll, parameter_values, rnea, rolled_program
from dynamics_node.algorithms.rolled_recursions import LONG
from dynamics_node.codegen.c import Kernel
from dynamics_node.robot.description import Description, JointDescription, Link, Mimic
from dynamics_node.robot.from_description import tree_from_description
from dynamics_node.symbolic import LoopProgram, rpy_rotation


def snake(n, seed=0, branches=False, mimics=False):
    """n joints of generic geometry in a chain or a random tree: mostly revolute, some prismatic. mimics: the last joint
    mimics the first."""
    random = np.random.default_rng(seed)
    links, joints = [Link("l0")], []
    for k in range(1, n + 1):
        A = random.normal(size=(3, 3))
        links.append(Link(f"l{k}", random.uniform(0.5, 2), 0.2 * random.normal(size=3), A @ A.T + np.eye(3)))
        parent = k - 1 if not branches else max(0, k - 1 - int(random.integers(0, 3)))
        kind = "prismatic" if k % 7 == 3 else "revolute"
        turn = rpy_rotation(random.uniform(-3, 3, 3))
        place, axis = 0.2 * random.normal(size=3), random.normal(size=3)
        joints.append(JointDescription(f"j{k}", kind, f"l{parent}", f"l{k}", turn, place, axis))
    if mimics:
        joints[-1] = replace(joints[-1], mimic=Mimic("j1", 2.0, 0.1))
    return tree_from_description(Description("snake", tuple(links), tuple(joints)))


def problems(model):
    yield "inverse", dn.inverse_dynamics(model)
    if not model.explicit_joints:
        yield "forward", dn.forward_dynamics(model)
        yield "hybrid", dn.hybrid_dynamics(model, model.joint_names[::2])


def by_recursion(model, problem, q, qd, u, f_ext):
    """The concatenated results of a problem by recursion; u: the known values."""
    if problem.kind == "inverse":
        return rnea(model, q, qd, u, f_ext)
    qdd, tau = aba(model, q, qd, u, u, np.array(problem.forward), f_ext)
    return qdd if problem.kind == "forward" else np.hstack([qdd, tau])


OPTIMIZED = ("panda", "solo12")  # the others are compiled without optimization


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.optimized] * (name in OPTIMIZED)) for name in ROBOTS]
)
def test_rolled_programs_agree_with_recursions(name):
    """All robots, also small ones: branches, prismatic and floating joints, mimic joints. One problem of most of
    them, by turns."""
    model = ROBOTS[name].model()
    q, qd, u, f_ext = random_states(model, 5, seed=41)
    condition = np.linalg.cond(dn.evaluate(model, "mass_matrix", q, backend="numpy"))
    own = list(enumerate(problems(model)))
    for k, (kind, problem) in own if name in OPTIMIZED else [own[sum(map(ord, name)) % len(own)]]:
        wrenches = (len(name) + k) % 2 == 0  # alternately
        parameters = ("inertia", "armature") if wrenches else ()
        program = rolled_program(model, problem, wrenches, parameters)
        kernel = Kernel(program, parameter_values(model, parameters))
        state = {"q": q, "qd": qd, "qdd": u, "tau": u, "gravity": model.gravity, "f_ext": f_ext}
        inputs = [state[read] for read in problem.reads(model, wrenches)]
        right = by_recursion(model, problem, q, qd, u, f_ext if wrenches else None)
        tolerance = EXACT if kind == "inverse" else np.maximum(1e-9, 1e-13 * condition)
        assert np.all(error(packed(kernel(5, *inputs)), right) <= tolerance), (kind, parameters, wrenches)


@pytest.mark.parametrize("branches", [False, True])
def test_functions_of_a_long_robot(branches):
    model = snake(120, branches=branches)
    q, qd, u, f_ext = random_states(model, 70, seed=42)
    for kind, problem in problems(model):
        solver = dn.build(model, problem, backend="c", runtime_parameters=("inertia",))
        assert isinstance(solver.program, LoopProgram)
        plain = dn.build(model, problem, backend="numpy", solver="cluster", runtime_parameters=("inertia",))
        known = (u, u) if kind == "hybrid" else (u,)
        right = plain(q[:5], qd[:5], *(k[:5] for k in known), f_ext[:5])
        many = solver(q, qd, *known, f_ext)
        copy = pickle.loads(pickle.dumps(solver))
        tolerance = (
            EXACT if kind == "inverse" else solved(dn.evaluate(model, "mass_matrix", q[:5], backend="numpy"))
        )
        for k in range(5):
            single = copy(q[k], qd[k], *(x[k] for x in known), f_ext[k])
            for result, whole, r in zip(*map(as_tuple, (single, many, right)), strict=True):
                assert error(result, r[k]) <= np.max(tolerance) and error(whole[k], r[k]) <= np.max(tolerance)
        payload = dn.with_payload(model, "l60", 2.0, np.ones(3), np.eye(3))
        loaded, again = solver.with_inertias(payload), plain.with_inertias(payload)
        for a, b in zip(
            *(as_tuple(s(q[0], qd[0], *(x[0] for x in known))) for s in (loaded, again)), strict=True
        ):
            assert error(a, b) <= np.max(tolerance)
        q[3, 7] = np.nan
        flagged = as_tuple(solver(q, qd, *known, errors="nan"))[-1]
        assert np.isnan(flagged[3]).all() and np.isfinite(np.delete(flagged, 3, 0)).all()
        q[3, 7] = 0.0


def as_tuple(result):
    return result if isinstance(result, tuple) else (result,)


def test_forward_dynamics_of_a_long_chain_inverts_inverse_dynamics():
    """1024 links: FD(ID(qdd)) = qdd, without a straight line of 400 000 operations."""
    model = snake(1024)
    q, qd, qdd, _ = random_states(model, 1, seed=43)
    inverse = dn.build(model, dn.inverse_dynamics(model), backend="c")
    forward = dn.build(model, dn.forward_dynamics(model), backend="c")
    tau = inverse(q[0], qd[0], qdd[0])
    again = inverse(q[0], qd[0], forward(q[0], qd[0], tau))
    assert error(again, tau) <= EXACT


def test_short_or_coupled_robots_are_not_rolled():
    model = ROBOTS["panda7"].model()
    assert not can_roll(model, dn.inverse_dynamics(model))
    long, coupled = snake(LONG), snake(LONG, mimics=True)
    assert can_roll(long, dn.forward_dynamics(long))
    assert can_roll(coupled, dn.inverse_dynamics(coupled))
    assert not can_roll(coupled, dn.forward_dynamics(coupled))


def test_derivatives_too_long_to_compile_are_interpreted(monkeypatch, caplog):
    monkeypatch.setattr("dynamics_node.codegen.c.kernel.MOST_OPERATIONS", 1000)
    model = ROBOTS["panda7"].model()
    derivatives = dn.build(model, "inverse_dynamics_derivatives")
    assert derivatives.runner.backend == "numpy" and "operations are too many to compile" in caplog.text
    with pytest.raises(dn.codegen.CompileError, match="too many"):
        dn.build(model, "inverse_dynamics_derivatives", backend="c")
