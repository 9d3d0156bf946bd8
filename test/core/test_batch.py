"""Many states at once: the same results as one by one, in any shape and on any number of threads."""

import os
import pickle
import signal
import threading

import numpy as np
import pytest
from compiled import packed
from robots import ROBOTS, random_states
from tolerances import EXACT, error

import dynamics_node as dn
from dynamics_node.codegen.c import BatchKernel, Kernel, batch_kernel, render
from dynamics_node.codegen.c.batch_kernel import BATCH, WORTH_A_THREAD
from dynamics_node.codegen.c.render_straight import PART
from dynamics_node.codegen.result_memory import LARGE
from dynamics_node.symbolic import LaneProgram, interpret, trace

AGREEMENT = 1e-13  # of vectors with scalars, relative to the largest entry
FLOATING = ROBOTS["double_pendulum"]._replace(floating_base=True)
SINGLE = 2e-4  # of float32 with float64, relative to the largest entry: roundings add up along a chain


def program():
    """Every operation, constants as outputs, an angle that needs a sine first."""

    def function(x, m):
        inner = np.sin(x) * 3 + np.cos(x[::-1] + 0.5)
        return {"y": np.sin(inner) / (m @ x + 5) - x, "z": np.array([2.0, x[0], -x[1]], dtype=object)}

    return trace(function, {"x": (2,), "m": (2, 2)})


@pytest.mark.optimized
@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 1001])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_batch_equals_scalar(count, dtype):
    random = np.random.default_rng(count)
    x, m = random.uniform(-1, 1, (count, 2)), random.uniform(-1, 1, (count, 2, 2))
    batch, agreement = BatchKernel(program(), dtype), AGREEMENT if dtype == np.float64 else SINGLE
    (y, z), good = batch(count, x.astype(dtype), m.astype(dtype))
    assert good
    assert (y.shape, z.shape, y.dtype, z.dtype) == ((count, 2), (count, 3), dtype, dtype)
    assert error(np.hstack([y, z]), packed(Kernel(program())(count, x, m))).max() <= agreement
    same = packed(batch(count, x, m[0]))
    assert error(same, packed(Kernel(program())(count, x, m[0]))).max() <= agreement
    assert np.array_equal(packed(pickle.loads(pickle.dumps(batch))(count, x, m[0])), same)


@pytest.mark.optimized
@pytest.mark.parametrize("size", [1, 8, 20])
@pytest.mark.parametrize("dtype", [None, np.float64, np.float32])
@pytest.mark.usefixtures("fresh")
def test_many_results_are_written_past_the_caches(size, dtype, monkeypatch):
    """At any alignment, in vectors of states or (None) state by state; memory around the arrays is untouched."""
    for module in (render, batch_kernel):
        monkeypatch.setattr(module, "ABOVE_CACHES", 4 * size)
    program = trace(lambda x: {"y": x[::-1] * 2.0, "z": x[:1] + 1.0}, {"x": (size,)})
    kernel = Kernel(program) if dtype is None else BatchKernel(program, dtype)
    for count in (1, 2, 5, 16, 33):
        x = np.arange(count * size, dtype=dtype or float).reshape(count, size)
        around = np.empty(count * (size + 1) + 16, x.dtype)
        for shift in range(8):
            y = around[shift : shift + count * size].reshape(count, size)
            z = around[shift + count * size :][:count].reshape(count, 1)
            around[:] = -7.0
            out = [y, z]
            assert (
                kernel.quick(count, [x], out) if dtype is None else kernel.quick(count, x, out=out)
            ) is not None
            assert np.array_equal(y, 2 * x[:, ::-1]) and np.array_equal(z, x[:, :1] + 1)
            assert np.count_nonzero(around == -7.0) == 16


@pytest.mark.optimized
@pytest.mark.parametrize("size", [1, 3, 8, 9, 20])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_of_any_size(size, dtype):
    """Every entry of a row keeps its place; memory around the arrays stays untouched."""
    batch = BatchKernel(trace(lambda x: {"y": x[::-1] * 2.0}, {"x": (size,)}), dtype)
    for count in (1, 5, 16, 31, 32, 33, 50):
        x = np.arange(count * size, dtype=dtype).reshape(count, size)
        assert np.array_equal(packed(batch(count, x)), 2 * x[:, ::-1])


def test_a_constant_beyond_floats_is_an_error():
    program = trace(lambda x: {"y": x * 1e39}, {"x": (1,)})
    assert packed(BatchKernel(program)(2, np.ones((2, 1)))).tolist() == [[1e39], [1e39]]
    with pytest.raises(ValueError, match="1e\\+39 .* use float64"):
        BatchKernel(program, np.float32)


def test_empty_batch():
    assert [y.shape for y in BatchKernel(program())(0, np.zeros((0, 2)), np.zeros(4))[0]] == [(0, 2), (0, 3)]


@pytest.mark.parametrize("more", [0, 5])
def test_results_do_not_depend_on_threads(more):
    count = 3 * WORTH_A_THREAD // len(program().ops) + more
    x = np.random.default_rng(0).uniform(-1, 1, (count, 2))
    batch = BatchKernel(program())
    alone = packed(batch(count, x, np.ones(4), threads=1))
    assert np.array_equal(packed(batch(count, x, np.ones(4), threads=3)), alone)
    assert np.array_equal(packed(batch(count, x, np.ones(4))), alone)


def test_input_of_any_layout_and_type():
    x = np.random.default_rng(0).uniform(-1, 1, (2, 100)).astype(np.float32)
    batch = BatchKernel(program())
    expected = packed(batch(100, x.T.astype(float).copy(), np.ones(4)))
    assert np.array_equal(packed(batch(100, x.T, np.ones(4))), expected)
    wide = np.zeros((200, 4))
    wide[::2, ::2] = x.T
    assert np.array_equal(packed(batch(100, wide[::2, ::2], np.ones(4))), expected)
    assert np.array_equal(packed(batch(100, x.T.tolist(), np.ones(4, dtype=int))), expected)
    unaligned = np.frombuffer(b" " + x.T.astype(float).tobytes(), dtype=float, offset=1).reshape(100, 2)
    assert np.array_equal(packed(batch(100, unaligned, np.ones(4))), expected)
    equal = x.T.astype(np.dtype(float, metadata={"unit": "rad"}))  # equals float64, but is another type
    assert np.array_equal(packed(batch(100, np.ascontiguousarray(equal), np.ones(4))), expected)
    assert np.array_equal(packed(batch(100, x.T.astype(">f8"), np.ones(4))), expected)
    with pytest.raises(ValueError, match=r"\(100, 3\).*\(100, 4\)"):
        batch(100, x.T, np.ones((100, 3)))


@pytest.mark.optimized
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_bad_state_leaves_others_unchanged(dtype):
    x = np.random.default_rng(0).uniform(-1, 1, (20, 2)).astype(dtype)
    batch = BatchKernel(program(), dtype)
    expected = packed(batch(20, x, np.ones(4)))
    x[[3, 17], 0] = np.nan, np.finfo(dtype).max
    results = packed(batch(20, x, np.ones(4)))
    assert batch(20, x, np.ones(4))[1] is False
    good = ~np.isin(np.arange(20), [3, 17])
    agreement = AGREEMENT if dtype == np.float64 else 1e-5
    assert error(results[good], expected[good]).max() <= agreement and np.isnan(results[3]).any()


@pytest.mark.parametrize("bad", ["input", "same", "output", "quaternion"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_batch_flags_bad_states(bad, dtype):
    """Also bad numbers that no output depends on."""
    batch = BatchKernel(trace(lambda p, x: {"y": 1.0 / (x[:1] + p[3:])}, {"p": (5,), "x": (2,)}), dtype, [1])
    p, x = np.zeros((40, 5)), np.ones((40, 2))
    p[:, 2] = 1.0
    same = np.array([1.0, 2.0])
    assert batch(40, p, x)[1] and batch(40, p, same)[1]
    if bad == "input":
        p[39, 0] = np.nan
    elif bad == "same":
        same[1] = np.inf
    elif bad == "output":
        x[38, 0] = 0.0
    else:
        p[3, 2] = 1.0 + 1e-5
    assert not batch(40, p, same if bad == "same" else x)[1]


def near_quarters():
    """The floats next to 4000 multiples of pi / 2."""
    quarters = (np.arange(-2000, 2000) * np.pi / 2).astype(np.float32)
    return np.concatenate([quarters, np.nextafter(quarters, 1e9), np.nextafter(quarters, -1e9)])[:, None]


@pytest.mark.optimized
@pytest.mark.parametrize("magnitude", [1.0, 100.0, 4000.0, 5000.0, 1e6, "near quarters"])
def test_sines_of_floats(magnitude):
    """Within 2.5 units in the last place; above LARGE the C library computes them."""
    x = near_quarters()
    if magnitude != "near quarters":
        x = np.random.default_rng(0).uniform(-magnitude, magnitude, (4000, 1)).astype(np.float32)
    batch = BatchKernel(trace(lambda x: {"s": np.sin(x), "c": np.cos(x)}, {"x": (1,)}), np.float32)
    for values, exact in zip(
        batch(len(x), x)[0], (np.sin(x.astype(float)), np.cos(x.astype(float))), strict=True
    ):
        assert np.abs((values - exact) / np.spacing(np.abs(exact).astype(np.float32))).max() <= 2.5


@pytest.mark.parametrize("robot", [ROBOTS["panda7"], FLOATING], ids=["fixed", "floating"])
def test_float32_on_request(robot):
    model = robot.model()
    q, qd, qdd, f_ext = random_states(model, 100, seed=5)
    for problem in (dn.inverse_dynamics(model), dn.forward_dynamics(model)):
        exact = dn.build(model, problem, backend="c", f_ext=True)(q, qd, qdd, f_ext)
        for backend in ("c", "numpy"):
            solver = dn.build(model, problem, backend=backend, precision="float32", f_ext=True)
            for states in (slice(None), slice(7), 0):
                results = solver(q[states], qd[states], qdd[states], f_ext[states])
                assert results.dtype == np.float32
                assert error(results, exact[states]).max() <= 1e-3  # float32 loses digits in forward dynamics
    with pytest.raises(ValueError, match="'float16'.*float64, float32"):
        dn.build(model, problem, precision="float16", f_ext=True)


@pytest.mark.parametrize("backend", ["c", "numpy"])
@pytest.mark.parametrize("count", [5, 100])
@pytest.mark.parametrize("kind", ["inverse", "forward", "hybrid", "derivatives"])
def test_bad_states_become_nan_and_others_stay_right(backend, count, kind):
    model = FLOATING.model()
    q, qd, u, _ = random_states(model, count, seed=9)
    gravity = np.tile(model.gravity, (count, 1))
    if kind == "hybrid":
        solver = dn.build(model, dn.hybrid_dynamics(model, model.joint_names[-1:]), backend=backend)
        arrays = [q, qd, u, u.copy()]
    elif kind == "derivatives":
        solver = dn.build(model, "inverse_dynamics_derivatives", backend=backend)
        arrays = [q, qd, u]
    else:
        solver = dn.build(model, getattr(dn, f"{kind}_dynamics")(model), backend=backend)
        arrays = [q, qd, u]

    def solve(states, **options):
        results = solver(*(a[states] for a in arrays), gravity=gravity[states], **options)
        return results if isinstance(results, tuple) else (results,)

    expected = solve(slice(None))
    assert all(np.array_equal(a, b) for a, b in zip(solve(slice(None), errors="nan"), expected, strict=True))
    q[0, 3:7] *= 1.1  # not of unit length
    qd[2, -1] = np.nan
    gravity[4, 2] = np.inf
    with pytest.raises(dn.InputError, match="finite.*nan"):
        solve(slice(None))
    good = ~np.isin(np.arange(count), [0, 2, 4])
    for result, right in zip(solve(slice(None), errors="nan"), expected, strict=True):
        assert np.isnan(result[~good]).all()
        assert error(result[good], right[good]).max() <= AGREEMENT
    assert all(np.isnan(a).all() and a.shape == b.shape[1:] for a, b in
               zip(solve(2, errors="nan"), expected, strict=True))  # fmt: skip
    with pytest.raises(ValueError, match="errors.*'ignore'"):
        solve(slice(None), errors="ignore")


def test_forked_child_has_its_own_threads():
    """The threads of the pool stay with the parent: a child that waits for them hangs."""
    model = ROBOTS["double_pendulum"].model()
    solver = dn.build(model, dn.inverse_dynamics(model), backend="c")
    kernel = BatchKernel(solver.program)
    count = 2 * WORTH_A_THREAD // len(kernel.program.ops) + BATCH
    rows = [np.zeros((count, *shape)) for shape in solver.program.inputs.values()]
    (expected,), _ = kernel(count, *rows, threads=2)
    child = os.fork()
    if child == 0:
        (torques,), _ = kernel(count, *rows, threads=2)
        os._exit(0 if np.array_equal(torques, expected) else 1)
    ended = threading.Event()
    state = []
    threading.Thread(target=lambda: (state.append(os.waitpid(child, 0)[1]), ended.set()), daemon=True).start()
    if not ended.wait(60):
        os.kill(child, signal.SIGKILL)
        ended.wait(60)
    assert state == [0]


@pytest.mark.optimized
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_zeros_among_the_results(dtype):
    """Separate code writes zeros: before, between and after computed entries, in runs of any length."""
    places = {"a": (7, 3), "b": (40, 0), "c": (61, 16), "d": (19, 18), "e": (33, 33), "f": (2, 2)}

    def function(x):
        results = {}
        for name, (size, zeros) in places.items():
            row = np.array([x[k % 3] * (k + 1.0) for k in range(2 * size)], dtype=object)
            row[size // 2 : size // 2 + zeros] = 0.0
            row[2 * size - zeros :] = 0.0
            results[name] = row.reshape(2, size)
        return results

    program = trace(function, {"x": (3,)})
    x = np.random.default_rng(0).uniform(1, 2, (83, 3)).astype(dtype)
    arrays, good = BatchKernel(program, dtype)(83, x)
    right = interpret(program, x=x.astype(float))
    assert good
    for array, expected in zip(arrays, right.values(), strict=True):
        assert np.allclose(array, expected, rtol=1e-6, atol=0.0)
    bad = x.copy()
    bad[5, 1] = np.nan
    assert not BatchKernel(program, dtype)(83, bad)[1]


@pytest.mark.optimized
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_columns_computed_far_apart(dtype):
    """A vector of columns is written when its last column is computed. It mixes first and last operations, inputs,
    constants and zeros."""

    def function(x):
        steps = [x]
        while len(steps) < PART:
            steps.append(np.roll(steps[-1], 1) * 0.5 + x)  # several parts of operations
        kinds = [steps[1], steps[-1], x, np.array([0.0, 2.0, 0.0], dtype=object), steps[PART // 2]]
        row = np.concatenate([kinds[k % 5] * (k % 5 + 1.0) for k in range(11)])
        return {"y": np.concatenate([row, np.zeros(40), row[::-1]]), "z": row[:1]}

    written = trace(function, {"x": (3,)})
    batch = BatchKernel(written, dtype)
    for count in (1, 7, 8, 9, 4097):
        x = np.random.default_rng(count).uniform(-1, 1, (count, 3)).astype(dtype)
        (y, z), good = batch(count, x)
        right = interpret(written, x=x.astype(float))
        assert good and np.array_equal(y[:, 6:9], 3 * x)
        assert error(np.hstack([y, z]), np.hstack([right["y"], right["z"]])).max() <= 10 * np.finfo(dtype).eps


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_regressors_of_many_states(precision):
    model = ROBOTS["panda7"].model()
    function = dn.build(model, "joint_torque_regressor", backend="c", precision=precision)
    plain = dn.build(model, "joint_torque_regressor", backend="numpy")
    agreement = EXACT if precision == "float64" else SINGLE
    q, qd, qdd, _ = random_states(model, 4097, seed=3)
    right, whole = plain(q, qd, qdd), function(q, qd, qdd)
    assert error(whole, right).max() <= agreement
    for count in (1, 7, 8, 9, BATCH + 1):
        assert error(function(q[:count], qd[:count], qdd[:count]), right[:count]).max() <= agreement
    strided = np.zeros((2 * len(q), model.nv))
    strided[::2] = q
    assert np.array_equal(function(strided[::2], qd, qdd), whole)
    out = np.full((4097, 7, 70), np.nan, function.dtype)
    assert function(q, qd, qdd, out=out) is out and np.array_equal(out, whole)
    turned = np.empty((70, 7, 4097)).T
    assert np.array_equal(function(q, qd, qdd, out=turned), whole)


@pytest.mark.parametrize("count", [BATCH, 200])
def test_results_are_written_into_out(count):
    """The solver computes in `out` itself, unless `out` overlaps inputs or is no plain array of the right type."""
    model = ROBOTS["panda7"].model()
    q, qd, u, _ = random_states(model, count, seed=8)
    solver = dn.build(model, dn.hybrid_dynamics(model, model.joint_names[-1:]), backend="c")
    expected = solver(q, qd, u, u)
    kernel = solver.runner.batches[np.dtype(float)]
    out = tuple(np.full((count, 7), np.nan) for _ in range(2))
    written = kernel.quick(count, q, qd, u, u, model.gravity, out=out)
    assert all(a is b for a, b in zip(written, out, strict=True))
    both = np.zeros((2, count, 7))
    for places in (out, tuple(both), tuple(both.transpose(0, 2, 1).reshape(2, count, 7).astype(np.float32))):
        results = solver(q, qd, u, u, out=places)
        for place, array, right in zip(places, results, expected, strict=True):
            assert place is array and error(array, right).max() <= 1e-6
    with pytest.raises(dn.InputError, match="out .*shape"):
        solver(q, qd, u, u, out=(out[0], np.empty((count + 1, 7))))


@pytest.mark.parametrize("count", [BATCH, 200])
def test_out_may_overlap_inputs(count):
    model = ROBOTS["panda7"].model()
    q, qd, qdd, _ = random_states(model, count + BATCH, seed=8)
    solver = dn.build(model, dn.inverse_dynamics(model), backend="c")
    expected = solver(q[:count], qd[:count], qdd[:count])
    for k in (0, 1, 3, BATCH):  # results overwrite the inputs of later states
        memory = np.empty((count + BATCH, 7))
        given, out = memory[k : count + k], memory[:count]
        given[:] = qdd[:count]
        assert solver(q[:count], qd[:count], given, out=out) is out
        assert np.array_equal(out, expected)
    f = dn.build(model, "inverse_dynamics_derivatives", backend="c")
    expected = f(q, qd, qdd)
    memory = np.empty((len(q) + 1, 7, 7))
    f(q, qd, qdd, out=(memory[:-1], memory[1:], np.empty((len(q), 7, 7))))  # the later output wins
    assert np.array_equal(memory[1:], expected[1])


def test_few_states_with_large_results_take_memory_of_earlier_ones():
    f = dn.compile(trace(lambda x: {"y": np.outer(x, x)}, {"x": (40,)}), "c")
    x = np.random.default_rng(0).uniform(-1, 1, (BATCH // 2, 40))
    place, first = np.empty((len(x), 40, 40)), f(x)
    assert first.nbytes > LARGE and f(x, out=place) is place
    assert np.array_equal(first, x[:, :, None] * x[:, None]) and np.array_equal(place, first)
    memory = first.ctypes.data
    del first
    assert f(x).ctypes.data == memory


def test_out_of_states_in_stages(monkeypatch):
    monkeypatch.setattr(render, "STRAIGHT", 0)
    model = ROBOTS["panda7"].model()
    q, qd, qdd, _ = random_states(model, 2 * BATCH, seed=8)
    f = dn.build(model, "inverse_dynamics_derivatives", backend="c")
    expected = f(q, qd, qdd)
    assert isinstance(f.runner.batches[np.dtype(float)].program, LaneProgram)
    for array, own in zip(expected, f(q[7], qd[7], qdd[7]), strict=True):
        assert error(array[7], own, tail=2) <= 1e-12
    monkeypatch.setattr(LaneProgram, "op_count", None)  # takes milliseconds: no call may use it
    out = tuple(np.full_like(a, np.nan) for a in expected)
    results = f.runner.call_batch(len(q), (q, qd, qdd, model.gravity), np.dtype(float), out)
    assert all(a is b for a, b in zip(results, out, strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(out, expected, strict=True))
    assert all(a is b for a, b in zip(f(q, qd, qdd, out=out), out, strict=True))
    with pytest.raises(dn.InputError):
        f(q, np.vstack([qd, qd]), qdd)
    with pytest.raises(dn.InputError, match="out .*shape"):
        f(q, qd, qdd, out=tuple(np.vstack([a, a]) for a in out))
    qd[5, 1] = np.nan
    assert np.isnan(f(q, qd, qdd, errors="nan")[0][5]).all()
    with pytest.raises(dn.InputError, match="finite"):
        f(q, qd, qdd)
