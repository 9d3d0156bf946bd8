"""Kernels of Programs that are rolled up: what the text computes as C, what NVRTC makes of it, and long robots on
devices."""

from functools import cache

import by_nvrtc
import compilers
import numpy as np
import pytest

compilers.require("cc", module=True)

from parallel_robots import chain, states, tree
from text_in_c import built
from tolerances import error

import dynamics_node as dn
from dynamics_node.algorithms import aba, parameter_values, rnea, rolled_program
from dynamics_node.codegen.cuda import choice, lost
from dynamics_node.codegen.cuda import runner as runners
from dynamics_node.codegen.printer import Variant, kernel
from dynamics_node.codegen.printer import loop_text as slots
from dynamics_node.codegen.runner import returned
from dynamics_node.robot.description import Description, JointDescription, Link
from dynamics_node.robot.from_description import tree_from_description

ROUNDING = {"float": 3e-5, "double": 1e-12}
PROBLEMS = {
    "inverse": dn.inverse_dynamics,
    "forward": dn.forward_dynamics,
    "hybrid": lambda model: dn.hybrid_dynamics(model, model.joint_names[::2]),
}


@cache
def limbs():
    """Two limbs on a base that floats, rotors, sliding joints: small, and rolled on purpose."""
    return tree((2, 3), 0.3, True, 0.1)


@cache
def gimbal():
    """Links without mass between pan, tilt and roll: where two axes line up the mass matrix is singular."""
    axes = {"p": (0, 0, 1), "t": (0, 1, 0), "c": (1, 0, 0)}
    links = (Link("base"), Link("p"), Link("t"), Link("c", 1.0, np.array([0.1, 0.2, 0.3]), 0.3 * np.eye(3)))
    parents = ("base", "p", "t")
    joints = tuple(
        JointDescription(
            f"to_{child}", "revolute", parent, child, np.eye(3), np.zeros(3), np.array(axis, float)
        )
        for (child, axis), parent in zip(axes.items(), parents, strict=True)
    )
    return tree_from_description(Description("gimbal", links, joints))


def plainly(model, problem, q, qd, u, f_ext=None):
    """{what the Problem returns: array} by NumPy; u: what is known."""
    if problem.kind == "inverse":
        return {"tau": rnea(model, q, qd, u, f_ext)}
    forward = np.array(problem.forward)
    qdd, tau = aba(model, q, qd, np.where(forward, u, 0), np.where(forward, 0, u), forward, f_ext)
    return {name: {"qdd": qdd, "tau": np.where(forward, u, tau)}[name] for name in problem.returns(model)}


def given(model, program, count, dtype=np.float64):
    """{input: array} of random states; parameters are the robot's."""
    q, qd, u, f_ext = states(model, count)
    every = {"q": q, "qd": qd, "qdd": u, "tau": u, "f_ext": f_ext, "gravity": model.gravity}
    every |= parameter_values(model, [name for name in ("inertia", "armature") if name in program.inputs])
    return {name: np.asarray(every[name], dtype) for name in program.inputs}


@pytest.mark.parametrize("layout", ["rows", "columns"])
@pytest.mark.parametrize("precision", ["float", "double"])
@pytest.mark.parametrize("kind", PROBLEMS)
def test_results_are_those_of_the_recursions(kind, precision, layout):
    """Also with pushes, and with inertias and rotors that all states have in common."""
    model = limbs()
    problem, parameters = PROBLEMS[kind](model), ("inertia", "armature")
    for wrenches, common in ((False, ()), (True, parameters)):
        program = rolled_program(model, problem, wrenches, common)
        made = kernel(program, Variant(precision, layout, 32), ("gravity", *common), model.quaternion_places)
        inputs = given(model, program, 70)
        outputs = built(made, "-O0")(70, inputs, returned(program))
        q, qd, u = (inputs[name] for name in ("q", "qd", "tau" if "tau" in inputs else "qdd"))
        for name, right in plainly(model, problem, q, qd, u, inputs.get("f_ext")).items():
            assert error(outputs[name], right).max() < 30 * ROUNDING[precision]


def test_joints_that_share_a_coordinate_are_summed():
    pytest.importorskip("pinocchio", reason="the robots: pip install pin")
    from robots import ROBOTS

    model = ROBOTS["panda_floating"].model()
    assert model.explicit_joints
    program = rolled_program(model, dn.inverse_dynamics(model))
    made = kernel(program, Variant("double", "rows", 32), ("gravity",), model.quaternion_places)
    inputs = given(model, program, 40)
    right = rnea(model, inputs["q"], inputs["qd"], inputs["qdd"])
    assert error(built(made, "-O0")(40, inputs, returned(program))["tau"], right).max() < 1e-13


@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_bad_states_have_no_result_and_change_no_other(layout):
    """No number, infinite, an angle beyond the sine, a quaternion that is too long; each alone."""
    model = limbs()
    program = rolled_program(model, dn.forward_dynamics(model))
    made = kernel(program, Variant("double", layout, 32), ("gravity",), model.quaternion_places)
    inputs = given(model, program, 40)
    run = built(made, "-O0")
    right = run(40, inputs, returned(program))["qdd"]
    turning = next(body.joint for body in model.bodies if body.joint.type.turns)
    inputs["qd"][3, 7], inputs["tau"][5, 0] = np.nan, np.inf
    inputs["q"][7, turning.q.start] = 1e6
    inputs["q"][11, model.quaternion_places[0]] += 0.1
    outputs = run(40, inputs, returned(program))["qdd"]
    bad = np.isin(np.arange(40), (3, 5, 7, 11))
    assert np.isnan(outputs[bad]).all()
    np.testing.assert_array_equal(outputs[~bad], right[~bad])


def test_singular_mass_matrix_is_reported():
    model = gimbal()
    program = rolled_program(model, dn.forward_dynamics(model))
    assert program.limits
    made = kernel(program, Variant("double", "columns", 32), ("gravity",))
    inputs = given(model, program, 40)
    inputs["q"][:, 1] = np.linspace(-1.2, 1.0, 40)  # pan and roll line up at a quarter turn
    inputs["q"][9, 1] = np.pi / 2
    outputs = built(made, "-O0")(40, inputs, returned(program))["qdd"]
    assert np.isnan(outputs[9]).all() and np.isfinite(np.delete(outputs, 9, axis=0)).all()
    good = np.delete(np.arange(40), 9)
    right = aba(model, *(inputs[name][good] for name in ("q", "qd", "tau")))[0]
    assert error(outputs[good], right).max() < 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_bodies_share_places_that_nobody_needs(seed):
    """Outward every child finds its parent's number; inward a body finds the sum of its children's."""
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 40))
    parents = np.array([int(random.integers(-1, k)) for k in range(count)])
    place, last = slots.slots(parents), slots.last_children(parents)
    kept = np.full(place.max() + 1, -7)
    for body, parent in enumerate(parents):
        assert parent < 0 or kept[place[parent]] == parent
        kept[place[body]] = body
    sums = np.full(place.max() + 1, np.nan)
    for body in reversed(range(count)):
        own = 1 + (0 if last[body] == body else sums[place[body]])  # bodies in the tree that begins here
        assert own == 1 + sum(body in ancestors(parents, k) for k in range(count))
        if (parent := parents[body]) >= 0:
            sums[place[parent]] = own + (0 if last[parent] == body else sums[place[parent]])
    chain_of_ten = np.arange(-1, 9)
    assert slots.slots(chain_of_ten).max() == 1


def ancestors(parents, body):
    """Bodies that a body hangs on."""
    bodies = set()
    while (body := parents[body]) >= 0:
        bodies.add(body)
    return bodies


# --- long robots --------------------------------------------------------------------------------------------


@cache
def long_robot():
    return tree((20, 20, 21), 0.2, True, 0.05)


def test_a_long_robot_on_cuda(gpu, monkeypatch):
    """Batches of NumPy in pieces, arrays on the device, other inertias."""
    monkeypatch.setattr(runners, "PIECE_BYTES", 2**18)
    model = long_robot()
    solver = dn.build(model, dn.forward_dynamics(model), backend="cuda", runtime_parameters=("inertia",))
    q, qd, tau, _ = states(model, 300)
    right = aba(model, q, qd, tau)[0]
    assert error(solver(q, qd, tau), right).max() < 1e-8
    there = [gpu.cupy.asarray(array) for array in (q, qd, tau)]
    assert error(solver(*there).get(), right).max() < 1e-8
    heavier = dn.with_payload(model, "l0_3", 2.0, np.ones(3), np.eye(3))
    right = aba(heavier, q, qd, tau)[0]
    assert error(solver.with_inertias(heavier)(*there).get(), right).max() < 1e-8
    assert lost() is None
    if not gpu.real:  # a multiprocessor has room for so many blocks at a time
        assert {count for _, count, _, _ in gpu.launches[:1]} == {runners.TRIED}
        assert max(blocks for _, _, blocks, _ in gpu.launches) <= 4


@pytest.mark.parametrize("arch", [by_nvrtc.ARCHS[0], by_nvrtc.ARCHS[-1]])
def test_nvrtc_compiles_sweeps(arch):
    program = rolled_program(limbs(), dn.forward_dynamics(limbs()))
    made = kernel(program, Variant("float"), ("gravity",), limbs().quaternion_places)
    taken = by_nvrtc.compiled(made.text, arch)
    assert taken.registers <= 128 and taken.spilled == taken.shared == 0


def test_what_is_rolled_has_one_order():
    program = rolled_program(chain(70), dn.forward_dynamics(chain(70)))
    assert choice.orders_of(program, None, {}) == {"rolled": program}
