"""velocity_source filter with plain values: rates of a known motion from noisy positions."""

import numpy as np
import pytest
from cases import case_of
from plain import robot_settings, serve, settings

from dynamics_node.node.core.dynamics_core import Core
from dynamics_node.node.errors import NoOutput

STD, STEP = 1e-5, 2  # rad, ms
GIVEN = {"velocity_source": "filter", "filter__position_std": STD, "filter__jerk_density": 1e3}


def motion(q, t):
    """Position, velocity and acceleration (7,) at t, s."""
    rate = np.linspace(2.0, 5.0, len(q))
    return q + 0.2 * np.sin(rate * t), 0.2 * rate * np.cos(rate * t), -0.2 * rate**2 * np.sin(rate * t)


def receive_motion(served, case, count, random=None, **more):
    """Receive `count` steps of a motion and solve at each; returns its last state."""
    for k in range(count):
        state = motion(case.q, k * STEP * 1e-3)
        noise = 0.0 if random is None else random.normal(0.0, STD, len(case.q))
        served.wait(STEP)
        stamp = served.stamp + STEP * 1_000_000
        served.receive(case.names, state[0] + noise, stamp=stamp, **more)
        if k:
            served.solve()
        else:
            with pytest.raises(NoOutput, match="second position"):
                served.solve()
    return state


@pytest.mark.parametrize("backend", ["c", "numpy"])
def test_rates_follow_the_motion_and_their_errors_the_covariance(backend):
    case = case_of("panda7")
    served = serve("panda7", backend=backend, **GIVEN)
    _, qd, qdd = receive_motion(served, case, 400, np.random.default_rng(3))
    variance = served.core.robot.rates.covariance
    rates = (served.solve().qd, qd, 0.01), (served.core.filtered_acceleration(), qdd, 3.0)
    for k, (estimate, right, most) in enumerate(rates, start=1):
        std = np.sqrt(variance[:, k, k])
        assert (np.abs(estimate - right) < 4.5 * std).all() and std.max() < most
    assert np.array_equal(served.core.state.filtered_now().variance, variance[:, 1, 1])


def test_the_filter_continues_after_a_rebuild():
    case = case_of("panda7")
    served = serve("panda7", **GIVEN)
    receive_motion(served, case, 50)
    before = served.core.state.filtered_now()
    again = serve("panda7", backend="c", **GIVEN).core.robot
    served.core.replace(again, robot_settings("panda7", backend="c", **GIVEN))
    served.wait(STEP)
    served.receive(case.names, motion(case.q, 50 * STEP * 1e-3)[0], stamp=served.stamp + STEP * 1_000_000)
    assert np.abs(served.core.state.filtered_now().velocity - before.velocity).max() < 0.05


def test_a_snapshot_has_the_filtered_rates():
    case = case_of("panda7")
    served = serve("panda7", **GIVEN)
    receive_motion(served, case, 20)
    other = Core(served.core.robot, served.core.settings)
    other.follow(served.core.snapshot())
    estimate, own = (core.state.vectors_now(served.now)[1] for core in (other, served.core))
    assert np.array_equal(estimate, own)


def test_the_filter_restarts_after_a_gap():
    case = case_of("panda7")
    served = serve("panda7", joint_state_timeout=5.0, **GIVEN)
    receive_motion(served, case, 20)
    served.wait(1000)
    served.receive(case.names, case.q, stamp=served.stamp + 1_000_000_000)
    with pytest.raises(NoOutput, match="second position"):
        served.solve()


def test_filtered_accelerations_need_filtered_velocities():
    with pytest.raises(ValueError, match="velocity_source"):
        settings(wrench_sensor__acceleration="filter")
