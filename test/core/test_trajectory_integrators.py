"""The trapezoidal rule: residuals on true motions decrease with dt according to its order."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from trajectory_cases import accelerations, position, rates, system_of

from dynamics_node.symbolic import interpret
from dynamics_node.trajectory import factor_program
from dynamics_node.trajectory.robot_factors import random_walk, trapezoidal

NAMES = ("paper", "slides", "double_pendulum", "balls", "floating", "differential", "ankle")
DT = 0.06  # for accelerations of 1 rad/s^2; faster robots need less


def factors(system, directions=None):
    return [trapezoidal(x, directions) for x in (system.q, system.qd)]


def motion(name, seed=7):
    """dt -> (q, qd, qdd) after dt; and the constant tau (nv,)."""
    random, system = np.random.default_rng(seed), system_of(name)
    q = position(name, random)
    qd, _, tau = rates(name, q, random)
    tau = 0.1 * tau
    nq = len(q)

    def change(_, y):
        q, qd = y[:nq], y[nq:]
        return np.concatenate([system.q.tangent_map(q) @ qd, accelerations(name, q, qd, tau)])

    def state(dt):
        y = np.concatenate([q, qd])
        if dt:
            y = solve_ivp(change, (0, dt), y, "DOP853", rtol=1e-13, atol=1e-13).y[:, -1]
        return y[:nq], y[nq:], accelerations(name, y[:nq], y[nq:], tau)

    return state


def residual(system, factor, now, after, dt):
    given = dict(zip(("q", "qd", "qdd"), now, strict=True))
    given |= dict(zip(("q_next", "qd_next", "qdd_next"), after, strict=True))
    given |= {"dt": np.array([dt])}
    program = factor_program(factor, (system.q, system.qd, system.qdd))
    return interpret(program, **{name: given[name] for name in program.inputs})["residual"]


@pytest.mark.parametrize("name", NAMES)
def test_residuals_follow_the_order_of_the_rule(name):
    system = system_of(name)
    state = motion(name)
    now, sizes = state(0.0), []
    fine = DT / np.sqrt(1.0 + np.abs(now[2]).max())
    for dt in (fine, fine / 2):
        rows = [residual(system, one, now, state(dt), dt) for one in factors(system, system.independent)]
        sizes.append(np.abs(rows).max())
    assert sizes[1] > 1e-13, "too small to determine an order"
    assert np.log2(sizes[0] / sizes[1]) == pytest.approx(3, abs=0.35)


def test_rows_of_some_directions_are_part_of_all():
    system, state = system_of("floating"), motion("floating")
    for some, all_of in zip(factors(system, (6, 0)), factors(system), strict=True):
        rows, complete = (residual(system, one, state(0.0), state(0.02), 0.02) for one in (some, all_of))
        assert np.allclose(rows, complete[[6, 0]], atol=1e-15)


def test_random_walk_measures_the_change():
    system = system_of("balls")
    q = position("balls", np.random.default_rng(1))
    step = 0.3 * np.random.default_rng(2).normal(size=system.q.tangent)
    program = factor_program(random_walk(system.q), (system.q,))
    change = interpret(program, q=q, q_next=system.q.moved(q, step))["residual"]
    assert np.allclose(change, step, atol=1e-13)
    assert random_walk(system.torque("external_torque")).name == "random walk external_torque"
