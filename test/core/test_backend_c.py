"""Backend c: right on every robot it is tried on, private, and never in the way when it cannot work."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from robots import ROBOTS, random_states
from test_urdf import INERTIAL, joint, link, robot
from tolerances import EXACT, error, solved

import dynamics_node as dn
from dynamics_node.backends.c import CompileError, Kernel
from dynamics_node.backends.c.compiler import cache_folder, compiler
from dynamics_node.backends.c.render import PART, render
from dynamics_node.backends.recursive import RecursiveEngine
from dynamics_node.backends.traced import problem_program
from dynamics_node.program import interpret, trace
from dynamics_node.solver import ChoiceError

TRIED = ("panda7", "panda", "ur5", "double_pendulum", "baxter", "solo12", "panda_floating", "talos")


@pytest.fixture(params=TRIED)
def case(request):
    """model, states (q, qd, qdd, tau, f_ext)."""
    model = ROBOTS[request.param].model()
    q, qd, qdd, f_ext = random_states(model, 50, seed=31)
    tau = dn.build(model, dn.inverse_dynamics(model), backend="numpy")(q, qd, qdd, f_ext)
    return model, (q, qd, qdd, tau, f_ext)


@pytest.mark.timeout(300)
def test_compiled_equals_numpy(case):
    model, (q, qd, qdd, tau, f_ext) = case
    tolerance = solved(dn.mass_matrix(model, q))
    inverse = dn.build(model, dn.inverse_dynamics(model), backend="c")
    assert inverse.choice.backend == "c"
    assert error(inverse(q, qd, qdd, f_ext), tau).max() <= EXACT
    plain = dn.build(model, dn.inverse_dynamics(model), backend="numpy")
    tilted = (1.0, 2.0, -9.0)
    expected = plain(q, qd, qdd, gravity=tilted)
    assert error(inverse(q, qd, qdd, gravity=tilted), expected).max() <= EXACT
    forward = dn.build(model, dn.forward_dynamics(model), backend="c")
    assert np.all(error(forward(q, qd, expected, gravity=tilted), qdd) <= tolerance)
    hybrid = dn.hybrid_dynamics(model, [joint.name for joint in model.independent_joints[::2]])
    found_qdd, found_tau = dn.build(model, hybrid, backend="c")(q, qd, qdd, plain(q, qd, qdd))
    assert np.all(error(found_qdd, qdd) <= tolerance)
    assert np.all(error(found_tau, plain(q, qd, qdd)) <= tolerance)


@pytest.mark.parametrize("kind", ["inverse_dynamics", "forward_dynamics"])
@pytest.mark.parametrize("ordering", ["rnea", "crba", "aba", "colamd", "metis", "minimum_degree"])
def test_orderings_as_programs(kind, ordering):
    """Those whose pivots are safe; the others keep their checks and stay with numpy."""
    model = ROBOTS["panda7"].model()
    q, qd, qdd, _ = random_states(model, 20, seed=32)
    problem = getattr(dn, kind)(model)
    choice = {"solver": "factor_graph", "ordering": ordering}
    expected = dn.build(model, problem, backend="numpy", **choice)(q, qd, qdd)
    safe = kind == "inverse_dynamics" or ordering in ("crba", "aba")
    solver = dn.build(model, problem, **choice)
    assert solver.choice.backend == ("c" if safe else "numpy")
    assert np.all(error(solver(q, qd, qdd), expected) <= solved(dn.mass_matrix(model, q)))
    if not safe:
        with pytest.raises(ChoiceError, match="checks pivots of this robot at run time"):
            dn.build(model, problem, backend="c", **choice)


def test_compiled_equals_interpreted():
    model = ROBOTS["ur5"].model()
    program = problem_program(RecursiveEngine(model, dn.forward_dynamics(model)))
    q, qd, tau, _ = random_states(model, 10)
    gravity = np.tile(model.gravity, (10, 1))
    meant = interpret(program, q=q, qd=qd, known=tau, gravity=gravity)["asked"]
    assert error(Kernel(program)(10, q, qd, tau, gravity), meant).max() <= 1e-12


def test_golden_text():
    """One small Program, to the letter."""
    program = trace(lambda x: {"y": np.array([np.sin(x)[0] * -0.5 + x[1] / x[0], 2.0])}, {"x": (2,)})
    assert (
        render(program)
        == """#include <math.h>
static void part0(const double *restrict x, double *restrict w)
{
  const double t4 = sin(x[0]);
  const double t5 = t4 * 0x1.0000000000000p-1;
  const double t6 = 1.0 / x[0];
  const double t7 = x[1] * t6;
  const double t8 = t7 - t5;
  w[0] = t8;
}
void program(long count, const double *restrict x, double *restrict y)
{
  double w[1];
  for (long k = 0; k < count; ++k, x += 2, y += 2) {
    part0(x, w);
    y[0] = w[0];
    y[1] = 0x1.0000000000000p+1;
  }
}
"""
    )


def test_programs_of_several_parts():
    def chain(x):
        y = x
        for k in range(PART):
            y = np.cos(y + 0.1 * k) * x[::-1]
        return {"y": y}

    program = trace(chain, {"x": (2,)})
    assert len(program.ops) > 2 * PART and "part2(x, w)" in render(program)
    x = np.random.default_rng(0).normal(size=(7, 2))
    assert np.allclose(Kernel(program)(7, x), interpret(program, x=x)["y"], rtol=1e-9, atol=1e-12)


def test_empty_batch_and_any_shape():
    model = ROBOTS["panda7"].model()
    inverse = dn.build(model, dn.inverse_dynamics(model), backend="c")
    assert inverse(np.zeros((0, 7)), np.zeros((0, 7)), np.zeros((0, 7))).shape == (0, 7)
    q, qd, qdd, f_ext = random_states(model, 6)
    whole = inverse(q, qd, qdd, f_ext)
    shaped = inverse(*(a.reshape(2, 3, *a.shape[1:]) for a in (q, qd, qdd, f_ext)))
    assert np.array_equal(shaped.reshape(6, 7), whole)
    assert np.array_equal(inverse(q[2], qd[2], qdd[2], f_ext[2]), whole[2])
    assert np.array_equal(
        inverse(q[0], qd, qdd[:1], f_ext[0]),
        inverse(*map(np.array, ([q[0]] * 6, qd, [qdd[0]] * 6, [f_ext[0]] * 6))),
    )
    gravity = np.tile([0.0, 0.0, -9.81], (6, 1))
    assert np.array_equal(inverse(q, qd, qdd, f_ext, gravity=gravity), whole)


def test_robot_without_joints():
    model = dn.parse_model("<robot name='r'><link name='l'/></robot>")
    solver = dn.build(model, dn.inverse_dynamics(model), backend="c")
    assert solver([], [], []).shape == (0,)
    assert solver(*np.zeros((3, 4, 0))).shape == (4, 0)


def test_names_of_the_robot_reach_no_source():
    evil = 'x"); system("reboot"); //'
    name = evil.replace('"', "&quot;")
    text = robot(link("base"), link(name), joint(name + "j", "base", name))
    model = dn.parse_model(text)
    source = render(problem_program(RecursiveEngine(model, dn.inverse_dynamics(model))))
    assert "reboot" not in source and "base" not in source
    assert set(source) <= set("#include <math.h>\nabcdefghijklmnopqrstuvwxyz_*()[]{};,=+-<./0123456789 ")
    assert INERTIAL


# --- the cache ------------------------------------------------------------------------------------------


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "dynamics_node"


def small():
    return trace(lambda x: {"y": x * 3.0 + 1.0}, {"x": (2,)})


def test_cache_is_private_and_used_again(own_cache):
    kernel = Kernel(small())
    assert own_cache.stat().st_mode & 0o777 == 0o700
    (library,) = own_cache.glob("*.so")
    written = library.stat().st_mtime_ns
    assert np.array_equal(Kernel(small())(1, np.array([1.0, 2.0])), [[4.0, 7.0]])
    copy = pickle.loads(pickle.dumps(kernel))
    assert np.array_equal(copy(1, np.array([1.0, 2.0])), [[4.0, 7.0]])
    assert library.stat().st_mtime_ns == written


def test_open_folder_is_closed(own_cache):
    own_cache.mkdir(mode=0o777)
    own_cache.chmod(0o777)
    Kernel(small())
    assert own_cache.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damage", ["cut", "other", "note"])
def test_a_library_that_was_tampered_with_is_built_anew(own_cache, damage):
    """In a process of its own: this one has the library mapped."""
    code = "from test_backend_c import *; print(Kernel(small())(1, np.array([1.0, 2.0])).tolist())"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def values():
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=100
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert values() == "[[4.0, 7.0]]"
    (library,) = own_cache.glob("*.so")
    if damage == "cut":
        library.write_bytes(library.read_bytes()[:100])
    elif damage == "other":
        library.write_bytes(b"#!/bin/sh\nreboot\n")
    else:
        library.with_suffix(".sha256").write_text("0" * 64)
    assert values() == "[[4.0, 7.0]]"


def test_unpickling_after_the_cache_was_emptied(own_cache):
    data = pickle.dumps(Kernel(small()))
    for file in own_cache.iterdir():
        file.unlink()
    assert np.array_equal(pickle.loads(data)(1, np.array([1.0, 2.0])), [[4.0, 7.0]])


def test_two_processes_compile_the_same_robot_at_once(own_cache):
    assert ROBOTS["ur5"].file  # skips without the robots
    code = (
        "from robots import ROBOTS; import dynamics_node as dn, numpy as np; m = ROBOTS['ur5'].model(); "
        "print(dn.build(m, dn.inverse_dynamics(m), backend='c')(*np.ones((3, 6))).tolist())"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    both = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    first, second = (process.communicate(timeout=100)[0] for process in both)
    assert first == second and first.startswith("[")
    assert len(list(own_cache.glob("*.so"))) == 1 and not list(own_cache.glob("tmp*"))


@pytest.fixture
def forgotten_compiler():
    compiler.cache_clear()
    yield
    compiler.cache_clear()


def test_no_compiler(own_cache, monkeypatch, forgotten_compiler, caplog):
    monkeypatch.setenv("PATH", str(own_cache))
    monkeypatch.delenv("CC", raising=False)
    model = ROBOTS["ur5"].model()
    with pytest.raises(CompileError, match="no C compiler on the PATH: sudo apt install gcc"):
        dn.build(model, dn.inverse_dynamics(model), backend="c")
    solver = dn.build(model, dn.inverse_dynamics(model))
    assert solver.choice.backend == "numpy"
    assert caplog.messages == ["no C compiler on the PATH: sudo apt install gcc; numpy serves instead"]


def test_broken_compiler(own_cache, monkeypatch, forgotten_compiler, tmp_path):
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\necho 'internal error' >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    with pytest.raises(CompileError, match="the C compiler failed: internal error"):
        Kernel(small())
    assert not list(own_cache.glob("*.so"))


def test_no_place_for_the_cache(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(CompileError, match="no place for compiled code"):
        cache_folder()
