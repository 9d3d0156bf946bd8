"""Functions in CasADi: results, derivatives."""

import compilers
import numpy as np
import pytest
from bridged import CASES, STEP, built, require_tangent
from robots import robot_of

import dynamics_node as dn

compilers.require("cc", module=True)
casadi = pytest.importorskip("casadi", reason="pip install casadi")


@pytest.mark.parametrize(("name", "quantity"), CASES)
def test_results_and_derivatives(name, quantity):
    function, states = built(name, quantity)
    bridge = function.casadi()
    assert bridge.name_in() == [n for n in function.runner.inputs if n != "gravity"]
    derivatives = function.derivatives()
    results = bridge.map(4)(*(array.T for array in states))
    assert np.allclose(np.array(results).T, function(*states), rtol=1e-10, atol=1e-10)
    jacobian = bridge.jacobian()
    for state in zip(*states, strict=True):
        blocks = [np.array(block) for block in jacobian(*state, 0)]
        by_q, *others = derivatives(*state)
        require_tangent(function.robot, state[0], blocks[0], by_q)
        for block, own in zip(blocks[1:], others, strict=True):
            assert np.allclose(block, own, rtol=0, atol=1e-9 * max(1, np.abs(own).max()))


@pytest.mark.parametrize("name", ["five_bar", "solo12"])
def test_derivatives_along_a_direction(name):
    function, states = built(name, "inverse_dynamics")
    state, random = [array[0] for array in states], np.random.default_rng(1)
    along = [random.uniform(-1, 1, x.shape) for x in state]
    bridge, symbols = function.casadi(), [casadi.MX.sym(f"x{k}", x.size) for k, x in enumerate(state)]
    step = casadi.MX.sym("step")
    moved = bridge(*(x + step * d for x, d in zip(state, along, strict=True)))
    forward = casadi.Function("forward", [step], [casadi.jacobian(moved, step)])(0)
    difference = (bridge(*_moved(state, along, STEP)) - bridge(*_moved(state, along, -STEP))) / (2 * STEP)
    scale = max(1, np.abs(np.array(difference)).max())
    assert np.allclose(np.array(forward), np.array(difference), rtol=0, atol=1e-6 * scale)
    weight = random.uniform(-1, 1, function(*state).shape)
    sum_ = casadi.dot(weight, bridge(*symbols))
    gradient = casadi.Function("gradient", symbols, [casadi.gradient(sum_, x) for x in symbols])(*state)
    total = sum(float(casadi.dot(g, d)) for g, d in zip(gradient, along, strict=True))
    assert np.isclose(total, weight @ np.array(difference).ravel(), rtol=1e-6, atol=1e-6 * scale)


def _moved(state, along, step):
    return [x + step * d for x, d in zip(state, along, strict=True)]


def test_hessian():
    function, states = built("five_bar", "forward_dynamics")
    state = [array[0] for array in states]
    symbols = [casadi.MX.sym(f"x{k}", x.size) for k, x in enumerate(state)]
    squares = casadi.sumsqr(function.casadi(order=2)(*symbols))
    at = np.concatenate(state)
    gradient = casadi.Function(
        "gradient", symbols, [casadi.vertcat(*(casadi.gradient(squares, s) for s in symbols))]
    )
    blocks = [[casadi.jacobian(casadi.gradient(squares, a), b) for b in symbols] for a in symbols]
    hessian = np.array(casadi.Function("hessian", symbols, [casadi.blockcat(blocks)])(*state))

    def gradient_at(values):
        return np.array(gradient(*np.split(values, np.cumsum([s.size for s in state])[:-1]))).ravel()

    columns = [
        (gradient_at(at + STEP * e) - gradient_at(at - STEP * e)) / (2 * STEP) for e in np.eye(at.size)
    ]
    right = np.stack(columns, axis=1)
    assert np.allclose(hessian, right, rtol=0, atol=1e-6 * np.abs(right).max())


def test_singular_state():
    function = dn.build(
        robot_of("panda7"), "operational_space_inertia", backend="numpy", links=["panda_hand"]
    )
    bridge = function.casadi(order=0)
    with pytest.raises(RuntimeError):
        bridge(np.zeros(7))
    good = [0.1, 0.2, 0.3, -1, 0.5, 1, 0.7]
    assert np.allclose(np.array(bridge(good)[0]), function(good)[0].reshape(6, -1), rtol=1e-9)
