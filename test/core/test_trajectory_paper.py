"""The paper's four-bar with the noise of its Table 2.

The soft equality of consecutive positions damps the motion. With its covariance of 1e2 the errors equal those in the
paper's Table 1; without it they equal those of the trapezoidal rule.
"""

from functools import cache

import numpy as np
import planar_oracle
import pytest
from four_bar import FOUR_BAR_START, four_bar
from paper_problems import forward_graph, inverse_trajectory, simulate
from scipy.integrate import solve_ivp

from dynamics_node.trajectory import FixedLag, prior
from dynamics_node.trajectory.trajectory_graph import weights_of

DT, DURATION = 1e-3, 5.0
TABLE_2 = {"trapezoidal q": 1e-2, "trapezoidal qd": 1e-2, "dynamics": 1e-4}
EQUALITY, NONE = 1e2, 1e12
PAPER = {"dependent": 0.00236, "independent": 0.0238}  # m, its Table 1, a window of 2 steps


@cache
def truth():
    """Positions of P1 and P2 (steps, 4)."""

    def change(_, y):
        return [y[1], planar_oracle.forward("paper", y[:1], y[1:], np.zeros(1))[0]]

    times = DT * np.arange(round(DURATION / DT) + 1)
    angles = solve_ivp(change, (0, DURATION), [0.0, 0.0], "DOP853", times, rtol=1e-9, atol=1e-10).y[0]
    return np.array([planar_oracle.four_bar_position(angles[k : k + 1])[:4] for k in range(len(times))])


def simulated(coordinates, equality, window=2):
    graph = forward_graph(four_bar(), coordinates, soft=True)
    variances = TABLE_2 | {"equality q": equality}
    weights = {weights_of(f.name): np.full(len(f.rows), 1 / variances[f.name]) for f in graph.weighted}
    rates = np.where(np.arange(5) == 4, 1e-3, 1.0)
    lag = FixedLag(graph, window, prior(graph, {"q": np.array(FOUR_BAR_START)}, {"q": 1e-10, "qd": rates}))
    positions = []
    for _ in truth():
        lag.append(dt=DT, tau=0.0, **weights)
        positions.append(lag.steps["q"][len(lag) - 1].copy())
    return np.array(positions)


def error(q):
    return np.sqrt(((q[:, :4] - truth()) ** 2).sum(axis=1).mean())


@pytest.mark.parametrize("coordinates, perfect", [("dependent", 5e-5), ("independent", 1e-5)])
def test_soft_equality_reproduces_the_errors_of_the_paper(coordinates, perfect):
    assert error(simulated(coordinates, EQUALITY)) == pytest.approx(PAPER[coordinates], rel=0.1)
    assert error(simulated(coordinates, NONE)) <= perfect


def test_windows_agree():
    """The solution in independent coordinates is unique; that in dependent ones hardly depends on the window."""
    fall = {"steps": 500, "dt": DT}
    first = simulate(four_bar(), FOUR_BAR_START, **fall)
    assert np.abs(simulate(four_bar(), FOUR_BAR_START, window=5, **fall).q - first.q).max() <= 1e-10
    few, many = (
        simulate(four_bar(), FOUR_BAR_START, coordinates="dependent", window=window, **fall)
        for window in (2, 10)
    )
    assert np.abs(few.q - many.q).max() <= 1e-6
    assert 1e-9 < np.abs(few.q - first.q).max() <= 1e-4


def test_crank_follows_a_curve():
    """Torques by the four stages of the paper, against Lagrange's equations and a simulation."""
    time, w = np.linspace(0.0, 1.0, 1001), 2.0
    z, zd, zdd = (
        x[:, None]
        for x in (0.8 * np.sin(w * time), 0.8 * w * np.cos(w * time), -0.8 * w * w * np.sin(w * time))
    )
    motion = inverse_trajectory(four_bar(), time, z, zd, zdd, FOUR_BAR_START)
    assert np.abs(motion.q[:, 4:] - z).max() <= 1e-6 and np.abs(motion.qd - zd).max() <= 1e-4
    for k in range(0, 1001, 50):
        qdd = planar_oracle.forward("paper", z[k], zd[k], motion.tau[k])
        heavier = planar_oracle.forward("paper", z[k], zd[k], motion.tau[k] + 1e-5 * np.abs(motion.tau).max())
        assert abs(qdd[0] - zdd[k, 0]) <= abs(heavier[0] - qdd[0])  # within 1e-5 of the largest torque
    crank = simulate(four_bar(), motion.q[0], steps=1000, dt=DT, tau=motion.tau, rates=motion.steps["qd"][0])
    assert np.abs(crank.q - motion.q).max() <= 1e-6
