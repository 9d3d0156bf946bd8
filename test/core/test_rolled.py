"""Programs with loops over the bodies: the same results as the recursions they are made of."""

import pickle

import numpy as np
import pytest
from robots import ROBOTS, random_states
from tolerances import EXACT, error, solved

import dynamics_node as dn
from dynamics_node.backends import rolled
from dynamics_node.backends.c import Kernel
from dynamics_node.backends.recursive import RecursiveEngine
from dynamics_node.backends.traced import parameter_values
from dynamics_node.model.assemble import assemble
from dynamics_node.model.description import Description, JointDescription, Link
from dynamics_node.program import Rolled
from dynamics_node.spatial import rpy_rotation


def snake(n, seed=0, branches=False):
    """n joints in a chain or a random tree: mostly revolute, a few prismatic, of generic geometry."""
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
    return assemble(Description("snake", tuple(links), tuple(joints)))


def problems(model):
    yield "inverse", dn.inverse_dynamics(model)
    if not model.has_mimic:
        yield "forward", dn.forward_dynamics(model)
        yield "hybrid", dn.hybrid_dynamics(model, model.joint_names[::2])


def asked(engine, q, qd, u, f_ext):
    forward = np.array(engine.problem.forward)
    qdd, tau = engine(q, qd, np.where(forward, 0, u), np.where(forward, u, 0), f_ext, None)
    return np.where(forward, qdd, tau)


@pytest.mark.parametrize("name", [*ROBOTS])
def test_every_kind_of_robot(name):
    """Also robots that are too small for it: branches, sliding and floating joints, mimic joints."""
    model = ROBOTS[name].model()
    q, qd, u, f_ext = random_states(model, 5, seed=41)
    condition = np.linalg.cond(dn.mass_matrix(model, q))
    for kind, problem in problems(model):
        engine = RecursiveEngine(model, problem)
        for parameters, wrenches in (((), False), (("inertia", "armature"), True)):
            program = rolled.rolled_program(engine, wrenches, parameters)
            kernel = Kernel(program, {k: parameter_values(engine)[k] for k in parameters})
            inputs = [q, qd, u, model.gravity, *([f_ext.reshape(5, -1)] if wrenches else [])]
            right = asked(engine, q, qd, u, f_ext if wrenches else None)
            tolerance = EXACT if kind == "inverse" else np.maximum(1e-9, 1e-13 * condition)
            assert np.all(error(kernel(5, *inputs), right) <= tolerance), (kind, parameters, wrenches)


@pytest.mark.parametrize("branches", [False, True])
def test_facade_of_a_long_robot(branches):
    model = snake(120, branches=branches)
    q, qd, u, f_ext = random_states(model, 70, seed=42)
    for kind, problem in problems(model):
        solver = dn.build(model, problem, backend="c", parameters=("inertia",))
        assert isinstance(solver.engine.kernel.program, Rolled)
        plain = dn.build(model, problem, backend="numpy", solver="cluster", parameters=("inertia",))
        known = (u, u) if kind == "hybrid" else (u,)
        right = plain(q[:5], qd[:5], *(k[:5] for k in known), f_ext[:5])
        many = solver(q, qd, *known, f_ext)
        copy = pickle.loads(pickle.dumps(solver))
        tolerance = EXACT if kind == "inverse" else solved(dn.mass_matrix(model, q[:5]))
        for k in range(5):
            one = copy(q[k], qd[k], *(x[k] for x in known), f_ext[k])
            for found, whole, r in zip(*map(as_tuple, (one, many, right)), strict=True):
                assert error(found, r[k]) <= np.max(tolerance) and error(whole[k], r[k]) <= np.max(tolerance)
        payload = dn.with_payload(model, "l60", 2.0, np.ones(3), np.eye(3))
        loaded, again = solver.with_model(payload), plain.with_model(payload)
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


def test_a_long_chain_solves_its_own_inverse():
    """1024 links: FD(ID(qdd)) = qdd, without a straight line of 400 000 operations."""
    model = snake(1024)
    q, qd, qdd, _ = random_states(model, 1, seed=43)
    inverse = dn.build(model, dn.inverse_dynamics(model), backend="c")
    forward = dn.build(model, dn.forward_dynamics(model), backend="c")
    tau = inverse(q[0], qd[0], qdd[0])
    again = inverse(q[0], qd[0], forward(q[0], qd[0], tau))
    assert error(again, tau) <= EXACT


def test_what_is_short_or_coupled_has_no_loops():
    model = ROBOTS["panda7"].model()
    assert not rolled.can_roll(RecursiveEngine(model, dn.inverse_dynamics(model)))
    long = snake(rolled.LONG)
    assert rolled.can_roll(RecursiveEngine(long, dn.forward_dynamics(long)))
    assert not rolled.can_roll(RecursiveEngine(long, dn.forward_dynamics(long), by_mass_matrix=True))


def test_derivatives_too_long_to_compile_are_interpreted(monkeypatch, caplog):
    monkeypatch.setattr("dynamics_node.backends.c.kernel.MOST_OPERATIONS", 1000)
    model = ROBOTS["panda7"].model()
    derivatives = dn.build_derivatives(model, dn.inverse_dynamics(model))
    assert derivatives.kernel is None and "operations are too many to compile" in caplog.text
    with pytest.raises(dn.backends.c.CompileError, match="too many to compile"):
        dn.build_derivatives(model, dn.inverse_dynamics(model), backend="c")
