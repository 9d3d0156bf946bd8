"""Integration rules: residuals on true motions decrease with dt according to their order."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from trajectory_cases import position, rates, system_of, values

from dynamics_node.symbolic import interpret
from dynamics_node.trajectory import factor_program
from dynamics_node.trajectory.robot_factors import equality, euler, random_walk, simpson, trapezoidal

NAMES = ("paper", "slides", "double_pendulum", "balls", "floating", "differential", "ankle")
ORDERS = {"euler": 1, "trapezoidal": 2, "simpson": 4}
DT = 0.06  # for accelerations of 1 rad/s^2; faster robots need less


def factors(system, rule, directions=None):
    if rule == "simpson":
        return [simpson(system, directions)]
    one = {"euler": euler, "trapezoidal": trapezoidal}[rule]
    return [one(x, directions) for x in (system.q, system.qd)]


def motion(name, seed=7):
    """dt -> (q, qd, qdd) after dt; and the constant tau (nv,)."""
    random, system = np.random.default_rng(seed), system_of(name)
    q = position(name, random)
    qd, _, tau = rates(name, q, random)
    tau = 0.1 * tau
    nq = len(q)

    def change(_, y):
        q, qd = y[:nq], y[nq:]
        return np.concatenate([system.q.tangent_map(q) @ qd, values(system, "forward", q, qd, tau)])

    def state(dt):
        y = np.concatenate([q, qd])
        if dt:
            y = solve_ivp(change, (0, dt), y, "DOP853", rtol=1e-13, atol=1e-13).y[:, -1]
        return y[:nq], y[nq:], values(system, "forward", y[:nq], y[nq:], tau)

    return state, tau


def residual(system, factor, now, after, dt, tau):
    given = dict(zip(("q", "qd", "qdd"), now, strict=True))
    given |= dict(zip(("q_next", "qd_next", "qdd_next"), after, strict=True))
    given |= {"dt": np.array([dt]), "tau_middle": tau}
    program = factor_program(factor, (system.q, system.qd, system.qdd))
    return interpret(program, **{name: given[name] for name in program.inputs})["residual"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rule", ORDERS)
def test_residuals_follow_the_order_of_the_rule(name, rule):
    system = system_of(name)
    state, tau = motion(name)
    now, sizes = state(0.0), []
    fine = DT / np.sqrt(1.0 + np.abs(now[2]).max())
    for dt in (fine, fine / 2):
        own = factors(system, rule, system.independent)
        sizes.append(max(np.abs(residual(system, factor, now, state(dt), dt, tau)).max() for factor in own))
    assert sizes[1] > 1e-13, "too small to determine an order"
    assert np.log2(sizes[0] / sizes[1]) == pytest.approx(ORDERS[rule] + 1, abs=0.35)


@pytest.mark.parametrize("rule", ORDERS)
def test_rows_of_some_directions_are_part_of_all(rule):
    system = system_of("floating")
    state, tau = motion("floating")
    for some, all_of in zip(factors(system, rule, (6, 0)), factors(system, rule), strict=True):
        rows = residual(system, some, state(0.0), state(0.02), 0.02, tau)
        complete = residual(system, all_of, state(0.0), state(0.02), 0.02, tau).reshape(
            -1, len(system.directions)
        )
        assert np.allclose(rows, complete[:, (6, 0)].ravel(), atol=1e-15)


def test_equality_factor_measures_the_change():
    system = system_of("balls")
    q = position("balls", np.random.default_rng(1))
    step = 0.3 * np.random.default_rng(2).normal(size=system.q.tangent)
    program = factor_program(equality(system.q), (system.q,))
    change = interpret(program, q=q, q_next=system.q.moved(q, step))["residual"]
    assert np.allclose(change, step, atol=1e-13)
    assert random_walk(system.torque("external_torque")).name == "random walk external_torque"
