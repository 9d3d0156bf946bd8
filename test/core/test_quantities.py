"""Compiled quantities equal NumPy's, which other tests check against Pinocchio, for trees and robots with loops."""

import itertools
import pickle
import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from robots import LOOPS, closed_states, random_states, robot_of
from tolerances import EXACT, error

import dynamics_node as dn
from dynamics_node.algorithms import QUANTITIES, quantity_program
from dynamics_node.names import QuantityName

CASES = [
    ("mass_matrix", None),
    ("nonlinear_effects", None),
    *itertools.product(["frame_jacobian", "operational_space_inertia_inverse"], ["world_aligned", "body"]),
]


BY_ROBOT = [(*case, "panda") for case in CASES]
BY_ROBOT += [(*CASES[k], "solo12") for k in (0, 2, -1)]
BY_ROBOT += [("frame_jacobian", "body", "talos")]
LINKAGES = ("five_bar", "differential", "belt_chain")
BY_ROBOT += [(*case, robot) for robot in LINKAGES for case in CASES if case[1] != "body"]
BY_ROBOT += [("mass_matrix", None, "balls1"), ("frame_jacobian", "world_aligned", "balls1")]
BY_ROBOT += [("inverse_mass_matrix", None, robot) for robot in ("five_bar", "belt_chain")]
BY_ROBOT += [("generalized_momentum", None, robot) for robot in ("panda7", "five_bar")]


@pytest.mark.parametrize("name, reference, robot", BY_ROBOT)
def test_compiled_equals_numpy(name, reference, robot):
    model = robot_of(robot)
    q, qd = (closed_states(model, 10, reach=0.1) if robot in LOOPS else random_states(model, 10, seed=51))[:2]
    links = list(model.frames)[-1:] if robot == "talos" else list(model.frames)[-3::2]
    options = {
        "frame_jacobian": {"link": links[0], "reference": reference},
        "operational_space_inertia_inverse": {"links": links, "reference": reference},
    }.get(name, {})
    function = dn.build(model, name, backend="c", **options)
    reads = [{"q": q, "qd": qd}[read] for read in QUANTITIES[name].reads if read != "gravity"]
    expected = dn.evaluate(model, name, *reads, **options, backend="numpy")
    tolerance = np.maximum(
        EXACT, 1e2 * 2.2e-16 * np.linalg.cond(dn.evaluate(model, "mass_matrix", q, backend="numpy")).max()
    )
    single = [a[0].copy() for a in reads]
    places = as_tuple(function(*single))
    gravity = [model.gravity] if "gravity" in QUANTITIES[name].reads else []
    assert function.runner.call_one(*single, *gravity, *places) is None, "compiled code accepts it"
    copy, whole = pickle.loads(pickle.dumps(function)), as_tuple(function(*reads))
    for k in range(10):
        result = as_tuple(function(*(a[k] for a in reads)))
        again = as_tuple(copy(*(a[k] for a in reads)))
        for f, c, w, e in zip(result, again, whole, as_tuple(expected), strict=True):
            assert error(f, e[k], tail=f.ndim) <= tolerance
            assert error(w[k], e[k], tail=f.ndim) <= tolerance
            assert np.array_equal(c, f)
    many = [np.tile(a, (20, 1)).reshape(2, 100, -1) for a in reads]
    for f, e in zip(as_tuple(function(*many)), as_tuple(expected), strict=True):
        assert f.shape[:2] == (2, 100) and error(f[1, 40:50], e, tail=e.ndim - 1).max() <= tolerance


def as_tuple(result):
    return result if isinstance(result, tuple) else (result,)


def test_editors_complete_every_name():
    assert set(get_args(QuantityName)) == set(QUANTITIES)


@pytest.mark.parametrize("robot", ["panda7", "belt_chain"])
def test_results_have_their_axes(robot):
    """Shapes of the outputs of Programs."""
    model = robot_of(robot)
    link, joint = list(model.frames)[-1], model.bodies[-1].joint.name
    chosen = {"link": link, "links": [link], "joint": joint, "forward_joints": model.joint_names[:1]}
    chosen["contacts"] = [dn.Contact(link)]
    sizes = {"v": model.nv, "l": 1, "x": 3, "b": model.nbodies, "c": 3, "p": 10 * model.nbodies}
    sizes |= dict.fromkeys("msw", 6)
    sizes["t"] = model.tree.nv + len(model.tree.shared_joints)
    for name, row in QUANTITIES.items():
        if name in ("inverse_dynamics_second_derivatives", "operational_space_inertia", "delassus_inverse"):
            continue  # takes long; have the axes of their inverses, which exist everywhere
        options = {option: chosen[option] for option in row.needs}
        options |= {"links": [link]} if name == "frame_poses" else {}
        if name == "reaction_wrenches":
            options["redundant"] = "least"
        program = quantity_program(model, name, **options)
        shapes = {result: tuple(sizes[letter] for letter in axes) for result, axes in row.returns.items()}
        outputs = {result: numbers.shape for result, numbers in program.outputs.items() if result in shapes}
        assert outputs == shapes, name


def test_out_and_errors():
    model = robot_of("panda7")
    M = np.zeros((7, 7))
    function = dn.build(model, "mass_matrix")
    q = np.linspace(-1, 1, 7)
    assert function(q, out=M) is M
    assert error(M, dn.evaluate(model, "mass_matrix", q, backend="numpy"), tail=2) <= EXACT
    with pytest.raises(dn.InputError, match=r"out .*\(7, 7\).*\(2, 7, 7\)"):
        function(q, out=np.zeros((2, 7, 7)))
    osim = dn.build(model, "operational_space_inertia_inverse", links=["panda_hand"])
    places = np.zeros((6, 6)), np.zeros((6, 7))
    assert osim(q, out=places) is places and places[1].any()
    many = np.zeros((3, 6, 6)), np.zeros((3, 6, 7))
    assert np.array_equal(osim(np.tile(q, (3, 1)), out=many)[1], many[1])
    with pytest.raises(dn.InputError, match="out .*shape"):
        osim(q, out=(places[0], np.zeros((7, 6))))
    with pytest.raises(ValueError, match="'inertia'.*inverse_dynamics"):
        dn.build(model, "inertia")
    bias = dn.build(model, "nonlinear_effects", backend="numpy", f_ext=True)
    assert bias(q, q) == pytest.approx(dn.evaluate(model, "nonlinear_effects", q, q, backend="numpy"))
    moon = np.array([0.0, 0.0, -1.6])
    assert bias(q, q, gravity=moon) == pytest.approx(
        dn.evaluate(model, "nonlinear_effects", q, q, gravity=moon, backend="numpy")
    )
    with pytest.raises(TypeError, match="nonlinear_effects.*optionally f_ext, gravity: 1 argument "):
        bias(q)
    compiled = dn.build(model, "nonlinear_effects", backend="c", f_ext=True)
    pushed = np.ones((model.nbodies, 6))
    right = dn.evaluate(model, "inverse_dynamics", q, q, 0 * q, f_ext=pushed, gravity=moon, backend="numpy")
    for own in (bias, compiled, pickle.loads(pickle.dumps(compiled))):
        assert own(q, q, f_ext=pushed, gravity=moon) == pytest.approx(right)
        assert own([q] * 100, q, f_ext=pushed, gravity=moon)[7] == pytest.approx(right)
        assert own(q, q, f_ext=None) == pytest.approx(
            dn.evaluate(model, "nonlinear_effects", q, q, backend="numpy")
        )
    with pytest.raises(TypeError, match="mass_matrix.*wrenches"):
        function(q, f_ext=pushed)
    with pytest.raises(dn.ChoiceError, match="mass_matrix.*f_ext"):
        dn.build(model, "mass_matrix", f_ext=True)
    with pytest.raises(TypeError, match="nonlinear_effects.*f_ext=True"):
        dn.build(model, "nonlinear_effects", backend="numpy")(q, q, f_ext=pushed)


@pytest.mark.parametrize("quantity", ["kinetic_energy", "joint_torque_regressor"])
def test_compiled_in_both_precisions(quantity):
    """One state, batches, float32, results without axes."""
    model = robot_of("double_pendulum")
    q, qd, qdd, _ = random_states(model, 100)
    given = (q, qd, qdd)[: len(QUANTITIES[quantity].reads) - (quantity != "kinetic_energy")]
    right = dn.evaluate(model, quantity, *given, backend="numpy")
    function = dn.build(model, quantity, backend="c")
    single = dn.build(model, quantity, backend="c", precision="float32")
    assert np.allclose(function(*given), right, rtol=1e-10, atol=1e-10)
    single_state = function(*(a[3] for a in given))
    assert single_state.shape == right.shape[1:]
    assert np.allclose(single_state, right[3], rtol=1e-10, atol=1e-10)
    result = single(*(a.astype(np.float32) for a in given))
    assert result.dtype == np.float32 and np.abs(result - right).max() <= 1e-4 * np.abs(right).max()
    with pytest.raises(ValueError, match="precision 'half'"):
        dn.build(model, quantity, precision="half")


def test_every_quantity_is_documented():
    """docs/reference/quantities.md lists every quantity with its options and inputs."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "quantities.md").read_text()
    rows = re.findall(r"^\| `(\w+)`(?: \(([^)]*)\))? \| ([^|]*) \|", page, re.MULTILINE)
    documented = {name: [words.split(", ") if words else [] for words in row] for name, *row in rows}
    assert documented == {name: [[*row.options], [*row.reads]] for name, row in QUANTITIES.items()}


def test_invalid_options_are_rejected():
    model = robot_of("panda7")
    with pytest.raises(TypeError, match="spatial_momentum.*link"):
        dn.build(model, "spatial_momentum", link="tip")
    with pytest.raises(TypeError, match="frame_jacobian.*link"):
        dn.evaluate(model, "frame_jacobian", np.zeros(7), backend="numpy")
    with pytest.raises(dn.ChoiceError, match="mass_matrix"):
        dn.build(model, "mass_matrix", solver="cfa")
    with pytest.raises(dn.ChoiceError, match="mass_matrix.*derivatives"):
        dn.build(model, "mass_matrix", backend="numpy").derivatives()
    with pytest.raises(KeyError, match="'tool'"):
        dn.build(model, "frame_kinematics", link="tool")
