"""Functions over Runners: equal results for one state, a few and many, compiled and interpreted, for any Program and
all problems of a robot."""

import copy
import ctypes
import inspect
import pickle
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from robots import ROBOTS, random_states, robot_of
from tolerances import EXACT, error

import dynamics_node as dn
from dynamics_demo.robots import five_bar
from dynamics_node.algorithms import first_closed
from dynamics_node.codegen import NoFastPath, WithFallback, make_runner
from dynamics_node.codegen.c import BATCH
from dynamics_node.errors import InputError
from dynamics_node.functions import Function
from dynamics_node.functions.arguments import plain_signature
from dynamics_node.node.building.build_job import REFERENCE, Job, do
from dynamics_node.symbolic import trace

RUNNERS = ("c", "numpy")  # backends that run Programs
EXPORTED_BY_PYTHON_3_10 = set(
    re.findall(
        r"\w+",
        """
    PyBool_FromLong PyBuffer_Release PyCFunction_GetFunction PyCFunction_GetSelf PyCapsule_GetPointer
    PyDict_New PyDict_SetItem PyErr_Clear PyErr_Occurred PyEval_RestoreThread PyEval_SaveThread
    PyLong_AsLong PyLong_FromLong PyObject_Call PyObject_CallObject PyObject_GetAttr PyObject_GetBuffer
    PyObject_IsInstance PyTuple_GetItem PyTuple_New PyTuple_SetItem PyTuple_Size PyTuple_Type
    PyType_FromSpecWithBases PyType_GenericAlloc PyUnicode_InternFromString PyVectorcall_Call
""",
    )
)  # of those that compiled code uses
COUNTS = (0, 1, 2, 7, BATCH - 1, BATCH, 3 * BATCH + 5)


def quotient(limits=()):
    """Two outputs, one of which may be infinite; with limits also the health that detects it."""

    def function(x, m):
        outputs = {"y": m @ x, "z": x[:1] / m[0, 0]}
        return outputs | ({"health": 1.0 / (m[0, 0] * m[0, 0]) * np.ones(1)} if limits else {})

    return trace(function, {"x": (3,), "m": (2, 3)}, limits)


def arrays(count, seed=0):
    random = np.random.default_rng(seed)
    return random.uniform(-1, 1, (count, 3)), random.uniform(1, 2, (count, 2, 3))


def expected(x, m):
    return (m @ x[..., None])[..., 0], x[..., :1] / m[..., 0, :1]


# --- Programs of users ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", RUNNERS)
@pytest.mark.parametrize("count", COUNTS)
def test_any_number_of_states(backend, count):
    function, (x, m) = dn.compile(quotient(), backend), arrays(count)
    for results in (function(x, m), function(x, m=m), function(x.tolist(), m) if count else function(x, m)):
        for result, right in zip(results, expected(x, m), strict=True):
            assert result.shape == right.shape and np.allclose(result, right, rtol=1e-14, atol=1e-14)
    places = np.empty((count, 2)), np.empty((count, 1))
    assert function(x, m, out=places) is not None
    assert all(np.array_equal(a, b) for a, b in zip(places, function(x, m), strict=True))
    for k in range(min(count, 3)):
        assert all(np.allclose(a, b[k]) for a, b in zip(function(x[k], m[k]), results, strict=True))


@pytest.mark.parametrize("backend", RUNNERS)
def test_any_shape_of_the_batch(backend):
    function, (x, m) = dn.compile(quotient(), backend), arrays(12)
    for one, right in (
        (function(x.reshape(3, 4, 3), m[:4]), expected(x.reshape(3, 4, 3), m[:4])),
        (function(x[0], m), expected(x[0], m)),
        (function(x, m[0]), expected(x, m[0])),
        (function(x[::2], m[:6]), expected(x[::2], m[:6])),
    ):
        assert all(a.shape == b.shape and np.allclose(a, b) for a, b in zip(one, right, strict=True))


@pytest.mark.parametrize("backend", RUNNERS)
@pytest.mark.parametrize("count", [1, 5, 100])
def test_bad_states_become_nan_and_others_stay_right(backend, count):
    """Not finite, without a finite result, and above the limits of health."""
    for function in (dn.compile(quotient(), backend), dn.compile(quotient((100.0,)), backend)):
        x, m = arrays(count)
        right = function(x, m)
        m[-1, 0, 0] = 0.0
        if count > 2:
            x[1, 2] = np.nan
            m[2, 0, 0] = 0.05 if function.program.limits else 0.0
        results = function(x, m, errors="nan")
        bad = np.isin(np.arange(count), [1, 2, count - 1] if count > 2 else [count - 1])
        for result, before in zip(results, right, strict=True):
            assert np.isnan(result[bad]).all() and np.array_equal(result[~bad], before[~bad])
        with pytest.raises(dn.InputError if count > 2 else dn.SolutionError):
            function(x, m)
        with pytest.raises(dn.SolutionError, match="finite"):
            function(x[-1], m[-1])


def test_arguments_are_named_and_counted():
    function = dn.compile(quotient(), name="quotient", defaults={"m": np.ones((2, 3))})
    assert np.array_equal(function(np.ones(3))[0], [3.0, 3.0])
    assert np.array_equal(function(np.ones(3), m=2 * np.ones((2, 3)))[0], [6.0, 6.0])
    assert np.array_equal(function(x=np.ones(3), m=None)[0], [3.0, 3.0])
    assert np.array_equal(function(np.ones(3), 2 * np.ones((2, 3)))[0], [6.0, 6.0])
    with pytest.raises(TypeError, match="quotient takes x and optionally m: 3 arguments are given"):
        function(np.ones(3), np.ones((2, 3)), 1.0)
    with pytest.raises(TypeError, match="quotient takes x, m, .*, not 'n'"):
        function(np.ones(3), n=1.0)
    with pytest.raises(dn.InputError, match=r"x .*\(..., 3\).*\(2,\)"):
        function(np.ones(2))
    with pytest.raises(dn.InputError, match=r"m\[1\].*finite"):
        function(np.ones(3), m=[[1, 1, 1], [1, np.nan, 1]])


def test_pickled_function_has_its_limits_and_defaults():
    function = dn.compile(quotient((100.0,)), defaults={"m": np.ones((2, 3))})
    copy, x = pickle.loads(pickle.dumps(function)), arrays(200)[0]
    for states in (x[0], x[:5], x):
        assert all(np.array_equal(a, b) for a, b in zip(copy(states), function(states), strict=True))


def test_call_without_python_accepts_what_python_does():
    """The class of a compiled Function adds a call; all else is that of its own class."""
    function, x = dn.compile(quotient(), "c", defaults={"m": arrays(1)[1][0]}), arrays(2)[0]
    assert type(function) is not Function and type(function).__name__ == "Function"
    assert inspect.signature(function) == inspect.signature(Function.__call__.__get__(function))
    copies = function, pickle.loads(pickle.dumps(function)), copy.copy(function), replace(function)
    assert {type(other) for other in copies} == {type(function)}
    out = np.empty(2), np.empty(1)
    right = function(x[0], m=function.defaults["m"])
    for other in copies:
        assert other(x[0], out=out) is out
        assert other(x[0], errors="nan", out=out) is out
        same = [other(x[0], errors=errors) for errors in ("raise", "nan")]
        for results in (out, other(x[0]), other(x[0], out=None), other(x=x[0]), *same):
            assert all(np.array_equal(a, b) for a, b in zip(results, right, strict=True))


def test_function_with_another_runner_is_called():
    """The class derived for compiled code also serves Functions without it."""
    compiled, interpreted = (dn.compile(quotient(), backend) for backend in ("c", "numpy"))
    function, (x, m) = replace(compiled, runner=interpreted.runner), arrays(2)
    out = np.empty(2), np.empty(1)
    for states in ((x[0], m[0]), (x, m)):
        for a, b in zip(function(*states), interpreted(*states), strict=True):
            assert np.array_equal(a, b)
    assert function(x[0], m[0], out=out) is out and np.array_equal(out[0], interpreted(x[0], m[0])[0])


def test_texts_use_what_the_oldest_python_exports():
    """Compiled code finds the functions of CPython when it is loaded: a name that came later makes a library of
    no use. CPython 3.11 adds PyObject_Vectorcall, for example."""
    names = {
        name
        for folder in ("codegen", "chains", "functions")
        for text in (Path(dn.__file__).parent / folder).rglob("*.c")
        for name in re.findall(r"\b_?Py[A-Z][A-Za-z]*_[A-Za-z_]+", text.read_text())
    }
    missing = names - EXPORTED_BY_PYTHON_3_10 - {"PyType_Slot", "PyType_Spec"}
    assert not missing and all(hasattr(ctypes.pythonapi, name) for name in EXPORTED_BY_PYTHON_3_10)


def test_errors_leaves_the_fast_call_of_healthy_states_alone(monkeypatch):
    """A call with `errors` reaches Python only for a state without a result; its value is checked always."""
    function, (x, m) = dn.compile(quotient(), "c"), arrays(2)
    monkeypatch.setattr(type(function), "_by_python", None)
    for named in ({"errors": "nan"}, {"errors": "raise"}, {"errors": "nan", "m": m[0]}):
        given = (x[0],) if "m" in named else (x[0], m[0])
        assert np.isfinite(function(*given, **named)[0]).all()
    monkeypatch.undo()
    assert np.isnan(function(x[0], 0 * m[0], errors="nan")[1]).all()
    for compiled in (function, dn.compile(quotient(), "numpy")):
        with pytest.raises(InputError, match="errors must be 'raise' or 'nan', not 'ignore'"):
            compiled(x[0], m[0], errors="ignore")


def test_call_without_python_declines():
    """What goes wrong is told by Python, and no reference is lost or kept."""
    function, (x, m) = dn.compile(quotient(), "c"), arrays(2)
    (one, two), place = (x[0], m[0]), np.empty(2)
    bad: list[tuple] = [
        (TypeError, (one,), {}),
        (TypeError, (one, two), {"places": place}),
        (TypeError, (one, *[two] * 40), {}),
        (InputError, (one * np.nan, two), {}),
        (ValueError, (one, two), {"out": (place,)}),
    ]
    counted = one, two, place, function
    before = [sys.getrefcount(thing) for thing in counted]
    for _ in range(5):
        for kind, given, named in bad:
            with pytest.raises(kind):
                function(*given, **named)
        function(one, two)
    assert [sys.getrefcount(thing) for thing in counted] == before


def test_float32_computes_batches_in_single_precision():
    """A difference of nearly equal numbers reveals the precision."""
    program = trace(lambda x: {"y": (x + 1.0) - x}, {"x": (1,)})
    single, x = dn.compile(program, precision="float32"), np.full((100, 1), 1e8, np.float32) / 3
    assert single(x).dtype == np.float32 and single(x[:5]).dtype == np.float32
    assert single(x[:5])[0, 0] == 1.0  # a few states: float64, rounded at the end
    assert single(x)[0, 0] != 1.0


def test_ill_conditioned_states_are_solved_in_float64():
    """The limit of health is lower for float32; states above it are solved in float64."""
    function = dn.compile(quotient((1e16,)), precision="float32")
    x, m = (a.astype(np.float32) for a in arrays(100))
    m[7, 0, 0], m[9, 0, 0] = 1e-5, 1e-9
    z = function(x, m, errors="nan")[1]
    expected_z = x[:, :1].astype(float) / m[:, 0, :1]
    assert np.isnan(z[9]).all() and z.dtype == np.float32
    assert error(z[np.arange(100) != 9], expected_z[np.arange(100) != 9]).max() <= 1e-6
    assert z[7, 0] == np.float32(expected_z[7, 0]), "rounded once"


def test_fallback_solves_rejected_states():
    """The second runner has only the states that the first one rejects."""
    first, second = make_runner(quotient((100.0,)), "c"), make_runner(quotient(), "numpy")
    counts = []

    class CountingRunner(NoFastPath):
        inputs = second.inputs

        @staticmethod
        def run_checked(count, inputs, dtype):
            counts.append(count)
            return second.run_checked(count, inputs, dtype)

    runner = WithFallback(first, CountingRunner())
    function = Function(signature=plain_signature("both", first.inputs), runner=runner)
    x, m = arrays(100)
    function(x, m)
    assert counts == []
    m[3:5, 0, 0] = 0.01
    assert all(np.allclose(a, b) for a, b in zip(function(x, m), expected(x, m), strict=True))
    assert counts == [2]
    assert np.allclose(function(x[3], m[3])[1], x[3, :1] / 0.01) and counts == [2, 1]
    m[50, 0, 0] = np.nan
    assert np.isnan(function(x, m, errors="nan")[0]).any(axis=1).nonzero()[0].tolist() == [50]


# --- robots with loops ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def linkage():
    """A five-bar, states near a closed position, and wrenches."""
    mechanism = dn.parse_robot(five_bar())
    random = np.random.default_rng(2)
    q = first_closed(mechanism, mechanism.neutral()) + np.zeros((200, 1))
    q[:, mechanism.independent] += random.uniform(-0.1, 0.1, (200, mechanism.nv))
    rates = random.uniform(-1, 1, (2, 200, mechanism.nv))
    f_ext = random.uniform(-1, 1, (200, mechanism.nbodies, 6))
    return mechanism, (dn.close_loops(mechanism, q), *rates), f_ext


@pytest.mark.parametrize("kind", ["inverse", "forward"])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_batches_of_linkages_are_vectorized(linkage, kind, precision):
    mechanism, state, f_ext = linkage
    problem = getattr(dn, f"{kind}_dynamics")(mechanism)
    solver = dn.build(mechanism, problem, backend="c", precision=precision, f_ext=True)
    exact = dn.build(mechanism, problem, backend="numpy", f_ext=True)
    limit = EXACT if precision == "float64" else 1e-3
    for wrenches in (None, f_ext):
        results = solver(*state, wrenches)
        assert list(solver.runner.batches) == [np.dtype(precision)]
        assert results.dtype == precision
        assert error(results, exact(*state, wrenches)).max() <= max(limit, 1e-9)
        rounded = dn.build(mechanism, problem, backend="c", f_ext=True)(*state, wrenches).astype(precision)
        assert np.array_equal(results, rounded) == (precision == "float64"), "float32 rounds every operation"
    with pytest.raises(dn.SolutionError, match="'j5'.*open.*close_loops"):
        solver(state[0] + 0.01, *state[1:])


@pytest.mark.parametrize("backend", RUNNERS)
def test_one_wrench_for_all_states(linkage, backend):
    """As many states as bodies, and one wrench per body: names identify the axes."""
    mechanism, state, f_ext = linkage
    n = mechanism.nbodies
    solver = dn.build(mechanism, dn.inverse_dynamics(mechanism), backend=backend, f_ext=True)
    some = [a[:n] for a in state]
    torques = solver(*some, f_ext[0])
    assert error(torques, solver(*some, np.tile(f_ext[0], (n, 1, 1)))).max() <= EXACT
    some[0] = some[0].copy()
    some[0][1] += 0.1  # open
    flagged = solver(*some, f_ext[0], errors="nan")
    assert np.isnan(flagged).any(axis=1).tolist() == [k == 1 for k in range(n)]
    assert np.array_equal(np.delete(flagged, 1, 0), np.delete(torques, 1, 0))


# --- quantities that follow a payload -------------------------------------------------------------------------


@pytest.mark.parametrize("backend", RUNNERS)
@pytest.mark.parametrize("name", ["mass_matrix", "nonlinear_effects", "operational_space_inertia_inverse"])
def test_quantities_follow_a_payload(linkage, name, backend):
    arm = ROBOTS["panda7"].model()
    q, qd, _, _ = random_states(arm, 100)
    for robot, link, state in ((arm, "panda_link7", (q, qd)), (linkage[0], "left_lower", linkage[1][:2])):
        loaded = dn.with_payload(robot, link, 2.0, (0.1, 0.0, 0.2), 0.01 * np.eye(3))
        options = {"links": [robot.bodies[-1].name]} if name == "operational_space_inertia_inverse" else {}
        arguments = state if name == "nonlinear_effects" else state[:1]
        first = dn.build(robot, name, backend=backend, runtime_parameters=["inertia"], **options)
        changed, rebuilt = first.with_inertias(loaded), dn.build(loaded, name, backend="numpy", **options)
        changed = pickle.loads(pickle.dumps(changed))
        for states in (0, slice(3), slice(None)):
            results, right = (as_tuple(f(*(a[states] for a in arguments))) for f in (changed, rebuilt))
            for a, b in zip(results, right, strict=True):
                axes = a.ndim - (states != 0)
                assert error(a, b, tail=axes).max() <= 1e-9
        assert error(as_tuple(first(*arguments))[0], as_tuple(changed(*arguments))[0]).max() > 1e-6
        with pytest.raises(ValueError, match="constant inertia"):
            rebuilt.with_inertias(robot)


def as_tuple(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("robot", ["five-bar", "double_pendulum"])
def test_services_are_compiled_and_follow_a_payload(robot):
    """The node's functions for mass matrices and operational-space inertias, built in another process."""
    text = five_bar() if robot == "five-bar" else ROBOTS[robot].file.read_text()
    link = dn.parse_robot(text).bodies[-1].name
    robot = pickle.loads(pickle.dumps(do(Job(text, {}, "inverse", backend="c", services="c", links=(link,)))))
    loaded = dn.with_payload(robot.model, link, 3.0, (0.1, 0.0, 0.0), 0.01 * np.eye(3))
    serving = robot.with_inertias(loaded)
    q = robot.model.neutral() + 0.1
    q = q if robot.loop_solver is None else robot.loop_solver.following(q)[0]
    compiled = serving.operational_space_inertia([link], REFERENCE)
    at_call = serving.operational_space_inertia([link], "body")
    assert compiled.runner.backend == "c" and compiled is not at_call
    assert serving.mass_matrix.runner.backend == serving.nonlinear_effects.runner.backend == "c"
    reference = dn.build(loaded, "mass_matrix", backend="numpy")
    assert error(serving.mass_matrix(q), reference(q), tail=2) <= 1e-9
    right = dn.build(loaded, "operational_space_inertia_inverse", backend="numpy", links=[link])(q)
    for a, b in zip(compiled(q), right, strict=True):
        assert error(a, b, tail=2) <= 1e-9


# --- hybrid dynamics of one state ----------------------------------------------------------------------------


def test_one_hybrid_state_is_compiled():
    """A NaN among unread inputs has no effect."""
    model = ROBOTS["panda7"].model()
    q, qd, u, f_ext = (a[0] for a in random_states(model, 1))
    solver = dn.build(model, dn.hybrid_dynamics(model, model.joint_names[::2]), backend="c", f_ext=True)
    plain = dn.build(model, solver.problem, backend="numpy", f_ext=True)
    one, other = np.empty(7), np.empty(7)
    assert solver.runner.call_one(q, qd, u, u, f_ext, model.gravity, one, other) is None
    forward = np.array(solver.problem.forward)
    unread = np.where(forward, np.nan, u), np.where(forward, u, np.nan)
    for wrenches in (None, f_ext):
        right = plain(q, qd, u, u, wrenches)
        for known in ((u, u), unread):
            assert all(
                error(a, b) <= 1e-9 for a, b in zip(solver(q, qd, *known, wrenches), right, strict=True)
            )
    places = one, other
    assert solver(q, qd, u, u, out=places) == places and error(one, plain(q, qd, u, u)[0]) <= 1e-9


# --- results in the caller's arrays --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("quantity", "options"),
    [("forward_dynamics_derivatives", {}), ("frame_kinematics", {"link": "panda_link7"})],
)
def test_results_of_a_call_can_be_the_next_out(quantity, options):
    """A NamedTuple of one state or of many."""
    model = ROBOTS["panda7"].model()
    function = dn.build(model, quantity, backend="numpy", **options)
    states = random_states(model, 3)[:3]
    one, other = (tuple(a[k] for a in states) for k in (0, 1))
    for first, second in ((one, other), (states, tuple(a[::-1] for a in states))):
        results = function(*first)
        again, right = function(*second, out=results), function(*second)
        assert type(again) is type(results) is type(right) is not tuple
        for result, place, expected in zip(again, results, right, strict=True):
            assert result is place and np.array_equal(result, expected)


@pytest.mark.parametrize(
    "what, choices, hint",
    [
        ("crba", {}, "mass_matrix"),
        ("nle", {}, "nonlinear_effects"),
        ("inverse_dynamic", {}, "inverse_dynamics"),
    ],
)
def test_names_of_other_libraries_lead_to_ours(what, choices, hint):
    with pytest.raises(dn.InputError, match=hint):
        dn.build(robot_of("panda7"), what, **choices)


@pytest.mark.parametrize("keyword, hint", [("fext", "f_ext"), ("orderin", "ordering"), ("links_", "links")])
def test_an_unknown_keyword_lists_similar_ones(keyword, hint):
    with pytest.raises(TypeError, match=f"{keyword}.*{hint}"):
        dn.build(robot_of("panda7"), "operational_space_inertia", **{keyword: 1})


def test_an_ordering_alone_implies_the_factor_graph():
    function = dn.build(robot_of("panda7"), "forward_dynamics", ordering="aba", backend="numpy")
    assert function.choice[:2] == ("factor_graph", "aba")


@pytest.mark.parametrize("reference", ["local", "LOCAL", "Body"])
def test_references_in_any_case(reference):
    q = np.zeros(7)
    ours, body = (
        dn.evaluate(
            robot_of("panda7"), "frame_jacobian", q, link="panda_link7", reference=each, backend="numpy"
        )
        for each in (reference, "body")
    )
    np.testing.assert_array_equal(ours, body)
