"""Backend c: accuracy, calls with any buffer, errors, and parameters."""

import array
import gc
import json
import pickle
import re
import sys
from typing import NamedTuple

import numpy as np
import pytest
from compiled import packed
from robots import ROBOTS, random_states
from tolerances import EXACT, error, solved
from urdf_text import joint, link, robot

import dynamics_node as dn
from dynamics_node.algorithms import cost, dynamics_programs
from dynamics_node.codegen.c import Kernel
from dynamics_node.codegen.c.render import render
from dynamics_node.codegen.c.render_straight import PART, render_run
from dynamics_node.codegen.cache import source_digest
from dynamics_node.graph import ORDERINGS, Memory, best_ordering, eliminated_program, elimination_program
from dynamics_node.robot.inertial_parameters import with_parameters, with_payload
from dynamics_node.symbolic import interpret, trace


@pytest.mark.parametrize("kind", ["inverse_dynamics", "forward_dynamics"])
def test_best_ordering_costs_least(kind):
    """Compared with all named orderings; a small graph is searched as well."""
    model = ROBOTS["double_pendulum"].model()
    problem = getattr(dn, kind)(model)
    best = best_ordering(model, problem)
    costs = [cost(elimination_program(model, problem, name)) for name in ORDERINGS]
    assert best.cost <= min(costs)
    solver = dn.build(model, problem, solver="factor_graph", backend="c")
    assert solver.choice.backend == "c" and solver.description == best.ordering.name
    q, qd, u, _ = random_states(model, 20)
    expected = dn.build(model, problem, backend="numpy")(q, qd, u)
    assert np.all(
        error(solver(q, qd, u), expected) <= solved(dn.evaluate(model, "mass_matrix", q, backend="numpy"))
    )


def test_invalid_cached_ordering_is_searched_again():
    model = ROBOTS["double_pendulum"].model()
    problem = dn.forward_dynamics(model)
    notes: dict[str, bytes] = {}
    memory = Memory(notes.get, notes.__setitem__)
    best = best_ordering(model, problem, memory=memory).ordering
    ((name, first),) = notes.items()
    assert best_ordering(model, problem, memory=memory).ordering == best
    for text in ("", '["x", ["A1"]]', '{"a": 1}'):
        notes[name] = text.encode()
        assert best_ordering(model, problem, memory=memory).ordering == best
        assert notes == {name: first}


def test_ordering_is_searched_again_by_another_version(monkeypatch):
    """Which counts other operations, perhaps."""
    model = ROBOTS["double_pendulum"].model()
    problem = dn.forward_dynamics(model)
    notes: dict[str, bytes] = {}
    memory = Memory(notes.get, notes.__setitem__)
    best = best_ordering(model, problem, memory=memory).ordering
    older = next(name for name in ORDERINGS if name != best.name)
    for name in notes:
        notes[name] = json.dumps([older, [str(x) for x in best.variables]]).encode()
    assert best_ordering(model, problem, memory=memory).ordering.name == older
    monkeypatch.setattr(eliminated_program, "source_digest", lambda *packages: "another")
    assert best_ordering(model, problem, memory=memory).ordering == best


def test_digest_of_sources_has_packages_within_packages(tmp_path, monkeypatch):
    inner = tmp_path / "outer_package" / "inner"
    inner.mkdir(parents=True)
    for folder in (inner.parent, inner):
        (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    whole = source_digest.__wrapped__("outer_package")
    assert source_digest.__wrapped__("outer_package") == whole
    (inner / "__init__.py").write_text("CHANGED = 1\n")
    assert source_digest.__wrapped__("outer_package") != whole


def test_cheapest_algorithm_is_chosen():
    """The mass matrix for a short arm, articulated bodies for a humanoid."""
    arm, humanoid = ROBOTS["panda7"].model(), ROBOTS["talos"].model()
    assert dn.build(arm, dn.forward_dynamics(arm), backend="c").description == "crba + solve"
    assert dn.build(humanoid, dn.forward_dynamics(humanoid), backend="c").description == "aba"


def test_compiled_equals_interpreted():
    """Also for other processors, see test_cross.py."""
    model = ROBOTS["ur5"].model()
    program = dynamics_programs(model, dn.forward_dynamics(model))["aba"]
    q, qd, tau, _ = random_states(model, 10)
    gravity = np.tile(model.gravity, (10, 1))
    expected = interpret(program, q=q, qd=qd, tau=tau, gravity=gravity)["qdd"]
    assert error(packed(Kernel(program)(10, q, qd, tau, gravity)), expected).max() <= 1e-12


def test_golden_text():
    """The text of one small Program, to the letter."""

    def function(x):
        return {"y": np.array([np.sin(x)[0] * -0.5 + x[1] / x[0], np.cos(2 * x[1] + np.sin(x[0])), 2.0])}

    assert (
        "\n".join(render_run(trace(function, {"x": (2,)})))
        == """static void part0(const number *restrict x, number *restrict w, number *restrict y)
{
  const number t5 = w[0] * 0x1.0000000000000p-1;
  const number t6 = 1 / x[0];
  const number t7 = x[1] * t6;
  const number t8 = t7 - t5;
  y[0] = t8;
  const number t9 = x[1] * 0x1.0000000000000p+1;
  const number t10 = w[0] + t9;
  const number t11 = cos(t10);
  y[1] = t11;
}
static void run(const number *restrict x, number *restrict y)
{
  number w[16] __attribute__((aligned(64)));
  vector angle[4 / LANES];
  FOUR_ANGLES(0, x[0], 0, 0, 0);
  sincos_all(4 / LANES, angle, 0, (vector *)(w + 0),
    (vector *)(w + 8));
  part0(x, w, y);
  y[2] = 0x1.0000000000000p+1;
}"""
    )


@pytest.mark.parametrize("scale", [1e-300, 1e-3, 1.0, 100.0, 65536.0, 1e6, 1e300])
def test_sines_and_cosines(scale):
    """Within 2.5 units in the last place for any angle."""
    x = np.random.default_rng(0).uniform(-scale, scale, (1000, 9))
    x[0] = scale * np.array([0, 1, -1, 0.5, -0.5, 0.25, 0.75, -0.75, -0.25])
    if scale == 1.0:
        x[1] = np.pi / 4 * np.arange(-4, 5)
    program = trace(lambda x: {"s": np.sin(x), "c": np.cos(x)}, {"x": (9,)})
    s, c = np.hsplit(packed(Kernel(program)(1000, x)), 2)
    for values, function in ((s, np.sin), (c, np.cos)):
        exact = function(x.astype(np.longdouble))
        assert (np.abs(values - exact) <= 2.5 * np.spacing(np.abs(exact).astype(float))).all()


def test_sines_of_nonfinite_angles():
    program = trace(lambda x: {"s": np.sin(x), "c": np.cos(x)}, {"x": (3,)})
    x, values = np.array([[np.nan, np.inf, 1.0]]), np.empty((1, 6))
    Kernel(program).run(x, values)
    values = values[0]
    assert np.isnan(values[[0, 1, 3, 4]]).all() and np.allclose(values[[2, 5]], [np.sin(1), np.cos(1)])


def test_sines_of_computed_angles():
    def function(x):
        shifted = 2 * x + 0.5
        return {"y": np.sin(shifted) * shifted, "z": np.cos(np.sin(x) + x)}

    program = trace(function, {"x": (3,)})
    x = np.random.default_rng(0).normal(size=(20, 3))
    values = packed(Kernel(program)(20, x))
    assert np.allclose(values, np.hstack([*interpret(program, x=x).values()]), rtol=1e-14, atol=1e-15)


# --- one state, called directly -------------------------------------------------------------------------


def product():
    shapes = {"x": (2,), "m": (2, 3)}
    return trace(lambda x, m: {"y": x @ m, "z": np.sum(x, keepdims=True)}, shapes)


def test_call_one_writes_its_outputs():
    y, z = np.zeros(3), np.zeros(1)
    kernel = Kernel(product())
    m = np.array([[1.0, 2.0, 5.0], [3.0, 4.0, 6.0]])
    assert kernel.call_one(np.array([1.0, 2.0]), m, y, z) is None
    assert y.tolist() == [7.0, 10.0, 17.0] and z.tolist() == [3.0]


def test_call_one_outlives_its_kernel():
    """It keeps its parameters alive."""
    solves = []
    for k in range(50):
        m = np.full((2, 3), float(k))
        solves.append(Kernel(product(), {"m": m}).call_one)
    y, z = np.zeros(3), np.zeros(1)
    for k, solve in enumerate(solves):
        assert solve(np.ones(2), y, z) is None and y.tolist() == [2.0 * k] * 3


def test_call_one_accepts_any_buffer():
    """array.array, as in the fields of ROS messages, and memoryviews. It checks their layout."""
    y, z = np.zeros(3), array.array("d", [0.0])
    kernel = Kernel(product())
    assert kernel.call_one(array.array("d", [1.0, 2.0]), np.ones((2, 3)), y, z) is None
    assert y.tolist() == [3.0, 3.0, 3.0] and z[0] == 3.0
    assert kernel.call_one(array.array("f", [1.0, 2.0]), np.ones((2, 3)), y, z) is False
    assert (
        kernel.call_one(memoryview(np.array([1.0, 3.0])), memoryview(np.ones((2, 3))), memoryview(y), z)
        is None
    )
    assert y.tolist() == [4.0, 4.0, 4.0]
    assert kernel.call_one(memoryview(np.ones(2)), memoryview(np.ones((3, 2))), memoryview(y), z) is False
    assert kernel.call_one(np.ones(2), memoryview(np.ones((2, 3))), b"12345678" * 3, z) is False


BAD = {
    "a list": lambda a: a.update(x=[1.0, 2.0]),
    "float32": lambda a: a.update(x=np.ones(2, np.float32)),
    "integers of the same size": lambda a: a.update(x=np.ones(2, np.int64)),
    "other byte order": lambda a: a.update(x=np.ones(2, ">f8")),
    "too short": lambda a: a.update(x=np.ones(1)),
    "too long": lambda a: a.update(x=np.ones(3)),
    "one axis too many": lambda a: a.update(x=np.ones((1, 2))),
    "flat": lambda a: a.update(m=np.ones(6)),
    "other shape of the same size": lambda a: a.update(m=np.ones((3, 2))),
    "a subclass": lambda a: a.update(m=np.ones((2, 3)).view(np.matrix)[:, ::-1]),
    "strided": lambda a: a.update(x=np.ones(4)[::2]),
    "transposed": lambda a: a.update(m=np.ones((3, 2)).T),
    "nothing": lambda a: a.update(x=None),
    "not finite": lambda a: a.update(x=np.array([1.0, np.nan])),
    "infinite": lambda a: a.update(m=np.array([[1.0, np.inf, 0.0], [0.0] * 3])),
    "read-only output": lambda a: a["y"].setflags(write=False),
    "short output": lambda a: a.update(z=np.zeros(0)),
    "overflow": lambda a: a.update(x=np.full(2, 1e200), m=np.full((2, 3), 1e200)),
}


@pytest.mark.parametrize("spoil", BAD.values(), ids=BAD.keys())
def test_call_one_returns_false_for_bad_arguments(spoil):
    arguments = {"x": np.ones(2), "m": np.ones((2, 3)), "y": np.full(3, 7.0), "z": np.full(1, 7.0)}
    kernel = Kernel(product())
    spoil(arguments)
    arrays = {name: value for name, value in arguments.items() if isinstance(value, np.ndarray)}
    references = {name: sys.getrefcount(value) for name, value in arrays.items()}
    for _ in range(50):
        assert kernel.call_one(*arguments.values()) is False
    assert {name: sys.getrefcount(value) for name, value in arrays.items()} == references
    assert (np.asarray(arguments["y"]) == 7.0).all()
    assert kernel.call_one() is False and kernel.call_one(np.ones(2)) is False


class Pair(NamedTuple):
    y: np.ndarray
    z: np.ndarray


@pytest.mark.parametrize("result", [tuple, Pair])
def test_call_new_returns_counted_references(result):
    """For one state and a few: instances of the class with correct reference counts."""
    kernel = Kernel(product())
    x, m = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 2.0, 5.0], [3.0, 4.0, 6.0]])
    before, bad = sys.getrefcount(result), [1.0, 2.0]
    for _ in range(50):
        one, few = kernel.call_new(result, x[0], m), kernel.call_new(result, x, m)
        assert kernel.call_new(result, bad, m) is None and kernel.call_new(result, x[0]) is None
        assert kernel.call_new(result, x[0] * np.nan, m) is None and kernel.call_new() is None
    assert type(one) is type(few) is result
    assert one[0].tolist() == [7.0, 10.0, 17.0] and one[1].tolist() == [3.0]
    assert few[0].tolist() == (x @ m).tolist() and few[1].tolist() == [[3.0], [7.0]]
    like = [tuple.__new__(result, (np.ones(1), np.ones(1))) for _ in range(2)]
    assert len({sys.getrefcount(array) for pair in (one, few, *like) for array in pair}) == 1
    assert gc.is_tracked(one) and pickle.loads(pickle.dumps(few))[1].tolist() == [[3.0], [7.0]]
    del one, few, like
    assert sys.getrefcount(result) == before


# --- parameters -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, solver",
    [
        *((name, "cluster") for name in ("panda7", "solo12", "panda")),
        *((name, "factor_graph") for name in ("panda7", "double_pendulum")),
    ],
)
def test_inertias_and_armature_as_inputs(name, solver):
    """One compilation serves every payload and every rotor."""
    model = ROBOTS[name].model()
    q, qd, qdd, f_ext = random_states(model, 5, seed=33)
    link = list(model.frames)[-1]
    loaded = with_payload(model, link, 2.5, [0.1, -0.2, 0.3], np.diag([0.02, 0.03, 0.04]))
    rotors = np.where([n in model.joint_names for n in model.v_names], 0.3, 0.0)
    loaded = with_parameters(loaded, loaded.inertias, rotors)
    for problem in (dn.inverse_dynamics(model), dn.forward_dynamics(model)):
        choice = {"solver": solver, "ordering": "crba" if solver == "factor_graph" else "best"}
        plain = dn.build(loaded, problem, backend="numpy", **choice, f_ext=True)
        solve = dn.build(
            model, problem, backend="c", runtime_parameters=("inertia", "armature"), **choice, f_ext=True
        )
        unloaded = dn.build(model, problem, backend="numpy", **choice, f_ext=True)(q, qd, qdd)
        tolerance = 1e-8
        assert error(solve(q, qd, qdd), unloaded).max() <= tolerance
        other = solve.with_inertias(loaded)
        assert error(other(q, qd, qdd), plain(q, qd, qdd)).max() <= tolerance
        assert error(other(q[0], qd[0], qdd[0]), plain(q[0], qd[0], qdd[0])) <= tolerance
        assert error(other(q, qd, qdd, f_ext), plain(q, qd, qdd, f_ext)).max() <= tolerance
        assert error(solve(q[0], qd[0], qdd[0]), unloaded[0]) <= tolerance, "the original is unchanged"
        if problem.kind == "inverse":
            assert error(plain(q, qd, qdd), unloaded).max() > 1e-3
            copy = pickle.loads(pickle.dumps(other))
            assert np.array_equal(copy(q, qd, qdd), other(q, qd, qdd))


def test_with_inertias_needs_runtime_parameters():
    model = ROBOTS["ur5"].model()
    loaded = with_payload(model, "tool0", 1.0, np.zeros(3), 0.01 * np.eye(3))
    solver = dn.build(model, dn.inverse_dynamics(model), backend="c")
    with pytest.raises(ValueError, match="constant inertia.*runtime_parameters"):
        solver.with_inertias(loaded)
    with pytest.raises(ValueError, match="more than inertias"):
        solver.with_inertias(ROBOTS["panda7"].model())
    with pytest.raises(ValueError, match=r"runtime_parameters.*'mass'.*inertia, armature"):
        dn.build(model, dn.inverse_dynamics(model), runtime_parameters=("mass",))


def test_programs_of_several_parts():
    def chain(x):
        y = x
        for k in range(PART):
            y = np.cos(y + 0.1 * k) * x[::-1]
        return {"y": y}

    program = trace(chain, {"x": (2,)})
    assert len(program.ops) > 2 * PART and "part2(x, w, y)" in render(program)
    x = np.random.default_rng(0).normal(size=(7, 2))
    assert np.allclose(packed(Kernel(program)(7, x)), interpret(program, x=x)["y"], rtol=1e-9, atol=1e-12)


def test_parts_use_slots_of_the_workspace_again():
    """Values are read soon, in the next part, or at the end."""
    random = np.random.default_rng(0)

    def mixed(x):
        values = [*x]
        for _ in range(8 * PART):
            a, b = (values[-int(random.integers(1, min(PART, len(values)) + 1))] for _ in range(2))
            values.append((a - 0.5 * x[0]) * 0.7 + b * x[1])
        return {"y": np.array(values[:: PART // 10])}

    program = trace(mixed, {"x": (3,)})
    source = render(program)
    (workspace,) = map(int, re.findall(r"number w\[(\d+)\]", source))
    assert workspace < 0.7 * source.count("  w[")
    x = np.random.default_rng(1).uniform(-0.3, 0.3, (3, 3))
    assert error(packed(Kernel(program)(3, x)), interpret(program, x=x)["y"]).max() <= EXACT


def test_source_contains_no_names_of_the_robot():
    evil = 'x"); system("reboot"); //'
    name = evil.replace('"', "&quot;")
    text = robot(link("pedestal"), link(name), joint(name + "j", "pedestal", name))
    model = dn.parse_robot(text)
    program = dynamics_programs(model, dn.inverse_dynamics(model))["rnea"]
    source = render(program)
    assert "reboot" not in source and "pedestal" not in source
    run = "\n".join(render_run(program))
    assert set(run) <= set("abcdefghijklmnopqrstuvwxyz_*()[]{};,=+-<./0123456789\n ")
