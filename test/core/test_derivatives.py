"""Derivatives against complex steps and Pinocchio, in tangent space, and along closed motions of loops; one state and
many."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from cases import oracle_of
from mechanisms import joint, link
from mechanisms import robot as robot_text
from oracle import pin, symmetric
from robots import BALL_LOOPS, ROBOTS, closed_states, random_states, robot_of
from tolerances import EXACT, error, solved

import dynamics_node as dn
from dynamics_node.algorithms import crba, rnea
from dynamics_node.algorithms.rates import spread_rates
from dynamics_node.robot.state_arrays import moved, tangent_map
from dynamics_node.symbolic import interpret, jacobian, trace

STEP = 1e-30  # of a complex step, which loses no digits
SMALL = ["panda7", "panda", "double_pendulum", "solo12", "baxter"]
PAIRS = tuple(itertools.product(enumerate(SMALL), enumerate(["inverse", "forward", "hybrid"])))
LARGE = ["pr2", "anymal_c", "g1"]  # tracing one problem takes seconds


def complex_steps(function, x, directions=None):
    """df/dx (..., entries of f, entries of x), or along the columns of directions. All steps are one batch."""
    columns = np.eye(len(x)) if directions is None else directions
    return np.moveaxis(function(x + 1j * STEP * columns.T).imag / STEP, 0, -1)


# --- Programs -----------------------------------------------------------------------------------------------


def few_to_many(x, m):
    """Many outputs of few inputs, with all operations."""
    inner = np.sin(x) * 3 + np.cos(x[::-1] * x + 0.5)
    return {"y": np.outer(np.sin(inner), m @ x) - x[0], "z": 1.0 / (np.outer(inner, inner) + 20.0)}


def many_to_one(x, m):
    return {"y": np.array([np.sin(x * x).sum() / (2.0 - np.cos(m).sum()) - x[1]]), "z": m * x[0] + 1.0}


@pytest.mark.parametrize("function", [few_to_many, many_to_one])
def test_jacobian_of_a_program(function):
    program = trace(function, {"x": (2,), "m": (2, 2)})
    derivative = jacobian(program, ["y", "z"], ["m", "x"])
    assert derivative.inputs == program.inputs
    assert list(derivative.outputs) == ["dy_dm", "dy_dx", "dz_dm", "dz_dx"]
    random = np.random.default_rng(0)
    x, m = random.uniform(-1, 1, (5, 2)), random.uniform(-1, 1, (5, 2, 2))
    values = interpret(derivative, x=x, m=m)
    for k in range(5):
        for name in ("y", "z"):
            by_x = complex_steps(lambda v, k=k, n=name: interpret(program, x=v, m=m[k])[n], x[k])
            by_m = complex_steps(
                lambda v, k=k, n=name: interpret(program, x=x[k], m=v.reshape(-1, 2, 2))[n], m[k].ravel()
            )
            assert np.allclose(values[f"d{name}_dx"][k], by_x, rtol=1e-13, atol=1e-14)
            assert np.allclose(
                values[f"d{name}_dm"][k], by_m.reshape(*by_m.shape[:-1], 2, 2), rtol=1e-13, atol=1e-14
            )


def test_jacobian_uses_the_cheaper_direction():
    """One output of many inputs costs a small multiple of the function, and so does the opposite."""
    down = trace(lambda x: {"y": np.prod(np.sin(x), keepdims=True)}, {"x": (30,)})
    up = trace(lambda x: {"y": np.sin(np.arange(1.0, 31.0) * x)}, {"x": (1,)})
    for program in (down, up):
        assert len(jacobian(program, ["y"], ["x"]).ops) <= 4 * len(program.ops)


def test_unknown_names_raise():
    program = trace(lambda x: {"y": x}, {"x": (2,)})
    with pytest.raises(KeyError, match="z"):
        jacobian(program, ["z"], ["x"])
    with pytest.raises(KeyError, match="z"):
        jacobian(program, ["y"], ["z"])
    assert np.array_equal(interpret(jacobian(program, ["y"], ["x"]), x=np.zeros(2))["dy_dx"], np.eye(2))


# --- dynamics -----------------------------------------------------------------------------------------------


def expected(model, q, qd, f_ext, known, forward):
    """Derivatives by q, qd and known of one state, by complex steps through the recursions. known: the mixed vector."""

    def unknown(*state):
        count = max(np.atleast_2d(x).shape[0] for x in state)
        q, qd, known = (np.broadcast_to(x, (count, x.shape[-1])) for x in state)
        qdd = np.where(forward, 0, known) + 0j
        missing = (known - rnea(model, q, qd, qdd, f_ext))[:, forward, None]
        qdd[:, forward] = np.linalg.solve(crba(model, q)[:, forward][:, :, forward], missing)[..., 0]
        return np.where(forward, qdd, rnea(model, q, qd, qdd, f_ext))

    return (
        complex_steps(lambda x: unknown(x, qd, known), q, tangent_map(model, q)),
        complex_steps(lambda x: unknown(q, x, known), qd),
        complex_steps(lambda x: unknown(q, qd, x), known),
    )


@pytest.mark.parametrize(
    "name, kind, wrenches",
    [
        *(
            (name, kind, (m + n) % 2 == 0) for (m, name), (n, kind) in PAIRS
        ),  # with and without wrenches alternately
        *((name, "hybrid", True) for name in LARGE),
    ],
)
def test_against_complex_steps(name, kind, wrenches):
    model = ROBOTS[name].model()
    problem = {
        "inverse": dn.inverse_dynamics, "forward": dn.forward_dynamics,
        "hybrid": lambda m: dn.hybrid_dynamics(m, m.joint_names[::2]),
    }[kind](model)  # fmt: skip
    forward = np.array(problem.forward)
    q, qd, u, f_ext = random_states(model, 3, seed=31)
    derivatives = dn.build(model, problem, backend="numpy", f_ext=True).derivatives()
    known = (u, u) if kind == "hybrid" else (u,)
    computed = derivatives(q, qd, *known, f_ext=f_ext if wrenches else None)
    for k in range(3):
        right = expected(model, q[k], qd[k], f_ext[k] if wrenches else None, u[k], forward)
        tolerance = (
            solved(dn.evaluate(model, "mass_matrix", q[k], backend="numpy")) if forward.any() else EXACT
        )
        for array, exact in zip(computed, right, strict=True):
            assert error(array[k], exact, tail=2) <= tolerance


@pytest.mark.parametrize("name", ["panda7", "solo12", "talos", "balls1", "balls2"])
def test_against_pinocchio(name):
    """In tangent space, with ball joints and floating bases."""
    model, oracle = robot_of(name), oracle_of(name)
    order = np.ix_(oracle.order, oracle.order)
    q, qd, u, f_ext = random_states(model, 5, seed=32)
    inverse = dn.build(model, "inverse_dynamics_derivatives", backend="numpy", f_ext=True)
    forward = dn.build(model, "forward_dynamics_derivatives", backend="numpy", f_ext=True)
    of_torques, of_accelerations = inverse(q, qd, u, f_ext=f_ext), forward(q, qd, u)
    for k in range(5):
        arguments = [oracle.q(q[k]), oracle.v(qd[k]), oracle.v(u[k])]
        dq, dv, M = pin.computeRNEADerivatives(
            oracle.pin, oracle.data, *arguments, pin.StdVec_Force(oracle.forces(f_ext[k]))
        )
        for array, right in zip(of_torques, (dq, dv, symmetric(M)), strict=True):
            assert error(array[k], right[order], tail=2) <= EXACT
        pin.computeABADerivatives(oracle.pin, oracle.data, *arguments)
        data = oracle.data
        tolerance = solved(oracle.mass_matrix(q[k]))
        for array, right in zip(
            of_accelerations, (data.ddq_dq, data.ddq_dv, symmetric(data.Minv)), strict=True
        ):
            assert error(array[k], right[order], tail=2) <= tolerance


# --- along motions that keep loops closed -------------------------------------------------------------------


def closed_neighbor(robot, q, k, step):
    """The closed position one step along an independent coordinate."""
    rates, _ = spread_rates(robot, q, np.eye(robot.nv)[k])
    return dn.close_loops(robot, moved(robot.tree, q, range(robot.tree.nv), step * rates))


def differences(robot, call, q, *others):
    """[d/dq, d/d(first other), ...] (..., entries) of call, by central differences of 1e-6."""
    step, n = 1e-6, range(robot.nv)

    def column(call):
        return (np.array(call(step)) - np.array(call(-step))) / (2 * step)

    derivatives = [[column(lambda s, k=k: call(closed_neighbor(robot, q, k, s), *others)) for k in n]]
    for m in range(len(others)):
        unit = [[np.eye(robot.nv)[k] * (m == j) for j in range(len(others))] for k in n]
        derivatives.append(
            [
                column(lambda s, e=e: call(q, *(x + s * d for x, d in zip(others, e, strict=True))))
                for e in unit
            ]
        )
    return [np.moveaxis(np.array(columns), 0, -1) for columns in derivatives]


LOOPED = [
    *itertools.product(["four_bar", "five_bar", "belt_chain", "ball"], ["inverse", "forward", "hybrid"]),
    *((name, "inverse") for name in BALL_LOOPS),
]


@pytest.mark.parametrize("name, kind", LOOPED)
def test_against_differences(name, kind):
    """Against differences of the solver itself, to their accuracy."""
    robot = robot_of(name)
    problem = {
        "inverse": dn.inverse_dynamics, "forward": dn.forward_dynamics,
        "hybrid": lambda array: dn.hybrid_dynamics(array, array.joint_names[:1]),
    }[kind](robot)  # fmt: skip
    q, qd, known = (a[0] for a in closed_states(robot, 1, reach=0.03))
    solver, forward = dn.build(robot, problem, backend="numpy"), np.array(problem.forward)

    def unknown(q, qd, known):
        if kind == "hybrid":
            return np.where(forward, *solver(q, qd, known, known))
        return solver(q, qd, known)

    derivatives = solver.derivatives()(q, qd, *((known, known) if kind == "hybrid" else (known,)))
    for array, approximate in zip(derivatives, differences(robot, unknown, q, qd, known), strict=True):
        assert error(array, approximate, tail=2) <= 1e-6 or np.allclose(array, approximate, atol=1e-9)
    if kind == "inverse":
        assert error(derivatives[2], dn.evaluate(robot, "mass_matrix", q, backend="numpy"), tail=2) <= EXACT


SLIDE = joint("slide", "base", "arm", "0.1 0.2 0.3", "0 1 0", "prismatic")
SLIDER = robot_text(link("base", 1, 2.0), link("arm", 2, 1.0), SLIDE)


@pytest.mark.parametrize("name", ["double_pendulum", "floating and sliding", "five_bar"])
def test_second_derivatives(name):
    """Against differences of the first derivatives."""
    robot = dn.parse_robot(SLIDER, floating_base=True) if "sliding" in name else robot_of(name)
    states = closed_states(robot, 1, reach=0.03) if robot.constrained else random_states(robot, 1)[:3]
    q, qd, qdd = (a[0] for a in states)
    first = dn.build(robot, "inverse_dynamics_derivatives", backend="numpy")
    second = dn.build(robot, "inverse_dynamics_second_derivatives", backend="numpy")(q, qd, qdd)
    by_q, by_qd = differences(robot, lambda q, qd: first(q, qd, qdd), q, qd)
    for array, approximate in zip(second, (by_q[0], by_qd[0], by_qd[1], by_q[2]), strict=True):
        assert error(array, approximate, tail=3) <= 1e-6


@pytest.mark.parametrize(
    "name, joints", [("panda7", ROBOTS["panda7"].joints), ("solo12", ["FL_HAA", "FL_HFE", "HR_HAA"])]
)
def test_compiled_one_state_and_batch(name, joints):
    """Only some joints of the quadruped, on two legs: compiling all takes a minute."""
    robot = ROBOTS[name]
    model = dn.load_robot(robot.file, floating_base=robot.floating_base, joints=joints)
    q, qd, u, _ = random_states(model, 100, seed=33)
    for name in ("inverse_dynamics_derivatives", "forward_dynamics_derivatives"):
        derivatives = dn.build(model, name, backend="c")
        whole = derivatives(q, qd, u)
        some = derivatives(q[:5], qd[:5], u[:5])
        plain = dn.evaluate(model, name, q, qd, u, backend="numpy")
        tolerance = solved(dn.evaluate(model, "mass_matrix", q, backend="numpy"))
        for k in range(5):
            for one, few, many, right in zip(derivatives(q[k], qd[k], u[k]), some, whole, plain, strict=True):
                assert error(one, right[k], tail=2) <= tolerance[k]
                assert error(few[k], right[k], tail=2) <= tolerance[k]
                assert error(many[k], right[k], tail=2) <= tolerance[k]
        moon = np.array([0.1, 0.0, -1.6])
        right = dn.evaluate(replace(model, gravity=moon), name, q[0], qd[0], u[0], backend="numpy")
        for one, r in zip(derivatives(q[0], qd[0], u[0], gravity=moon), right, strict=True):
            assert error(one, r, tail=2) <= tolerance[0]
