"""The elimination order of a step, and definite exact factors."""

import numpy as np
import pytest
from trajectories import CASES
from trajectory_cases import system_of

from dynamics_node.errors import SingularPosition
from dynamics_node.trajectory import FixedLag, forward_graph, prior
from dynamics_node.trajectory.factor import TrajectoryFactor, vector
from dynamics_node.trajectory.step_elimination import forward_program
from dynamics_node.trajectory.trajectory_graph import TrajectoryGraph, last_first


def test_sparse_rows_are_eliminated_first():
    """The dense row is last, and rows with the same right-hand side are adjacent; equal rows keep their order."""
    occupied = np.array([[1, 1, 1], [1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]], dtype=bool)
    order = last_first(occupied)[::-1]
    assert order[-1] == 0 and abs(order.index(1) - order.index(3)) == 1
    assert last_first(np.ones((4, 3), dtype=bool)) == [0, 1, 2, 3]


def test_order_reduces_operations():
    graph, plain = (forward_graph(system_of("double_pendulum")) for _ in range(2))
    plain.__dict__.update(order=plain.free, link_order=sorted(plain.link_order))
    assert sorted(graph.order) == graph.free
    assert len(forward_program(graph).ops) < 0.93 * len(forward_program(plain).ops)


def test_append_equals_extend_and_solve():
    """append keeps the linearization of the first step's prior, solve updates it; both give the same result."""
    steps, known = CASES["pendulum"]()
    appended, extended = (FixedLag(steps.graph, 4, known, "numpy") for _ in range(2))
    for k in range(9):
        numbers = {
            n: steps[n][k] for n in steps.graph.row if n in steps.graph.data or n.startswith("weights ")
        }
        appended.append(**numbers)
        extended.extend(**numbers)
        extended.solve()
        np.testing.assert_allclose(appended.steps["q"], extended.steps["q"], rtol=0, atol=1e-13)


def _points(inertia):
    """Two points with forces and an inertia matrix (2, 2), which determine the accelerations."""
    v, a = vector("v", ["1", "2"], "a"), vector("a", ["1", "2"])
    newton = TrajectoryFactor(
        name="newton",
        residual=lambda v, a: inertia(v) @ a - np.array([1.0, 2.0]),
        rows=("1", "2"),
        now=("v", "a"),
        determines=(("a", 0), ("a", 1)),
        definite=True,
    )
    rate = TrajectoryFactor(
        name="rate", residual=lambda v, v_next: v_next - v, rows=("1", "2"), now=("v",), after=("v",)
    )
    graph = TrajectoryGraph((v, a), (newton, rate))
    return FixedLag(graph, 2, prior(graph, {"v": [0.3, 0.1]}, {"v": 1.0}), "numpy")


def test_definite_factor_determines_its_variables():
    lag = _points(lambda v: np.array([[2.0 + v[0] * v[0], v[1]], [v[1], 1.0]]))
    lag.append(dt=0.1)
    np.testing.assert_allclose(
        lag.steps["a"][0], np.linalg.solve([[2.09, 0.1], [0.1, 1.0]], [1.0, 2.0]), rtol=1e-12
    )


@pytest.mark.parametrize("small", [0.0, 1e-14])
def test_singular_definite_factor_raises_an_error(small):
    lag = _points(lambda v: np.array([[1.0 + v[0] * 0.0, v[1] * 10.0], [v[1] * 10.0, 1.0 + small]]))
    with pytest.raises(SingularPosition, match="at step 0"):
        lag.append(dt=0.1)
