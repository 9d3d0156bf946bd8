"""The paper's four-bar with the noise of its Table 2.

The soft equality of consecutive positions damps the motion. With its covariance of 1e2 the errors equal those in the
paper's Table 1; without it they equal those of the trapezoidal rule.
"""

from functools import cache

import numpy as np
import planar_oracle
import pytest
from four_bar import FOUR_BAR_START
from scipy.integrate import solve_ivp
from trajectory_cases import system_of

from dynamics_node.trajectory import FixedLag, prior
from dynamics_node.trajectory.graphs import forward_graph
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
    system = system_of("paper")
    graph = forward_graph(system, coordinates=coordinates, soft=True)
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
