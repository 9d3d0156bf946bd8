"""The order of elimination of a step, and exact factors that are definite."""

import numpy as np
import pytest
from trajectories import CASES
from trajectory_cases import system_of

from dynamics_node.trajectory import FixedLag, SingularPosition, forward_graph, prior
from dynamics_node.trajectory.factor import Factor, vector
from dynamics_node.trajectory.step_elimination import forward_program
from dynamics_node.trajectory.trajectory_graph import TrajectoryGraph, last_first


def test_rows_that_fill_few_right_sides_are_eliminated_first():
    """The dense row comes last, rows of one right side follow each other; as they are where all are the same."""
    occupied = np.array([[1, 1, 1], [1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]], dtype=bool)
    order = last_first(occupied)[::-1]
    assert order[-1] == 0 and abs(order.index(1) - order.index(3)) == 1
    assert last_first(np.ones((4, 3), dtype=bool)) == [0, 1, 2, 3]


def test_the_order_saves_operations():
    graph, plain = (forward_graph(system_of("double_pendulum")) for _ in range(2))
    plain.__dict__.update(order=plain.free, link_order=sorted(plain.link_order))
    assert sorted(graph.order) == graph.free
    assert len(forward_program(graph).ops) < 0.93 * len(forward_program(plain).ops)


def test_append_is_extend_and_solve():
    """It takes what is known of the first step as it was left; `solve` looks where that step is now."""
    steps, known = CASES["pendulum"]()
    one, other = (FixedLag(steps.graph, 4, known, "numpy") for _ in range(2))
    for k in range(9):
        told = {n: steps[n][k] for n in steps.graph.row if n in steps.graph.data or n.startswith("weights ")}
        one.append(**told)
        other.extend(**told)
        other.solve()
        np.testing.assert_allclose(one.steps["q"], other.steps["q"], rtol=0, atol=1e-13)


def _pulled(inertia):
    """Two points whose accelerations follow from forces by an inertia (2, 2)."""
    v, a = vector("v", ["1", "2"], "a"), vector("a", ["1", "2"])
    newton = Factor(
        name="newton",
        residual=lambda v, a: inertia(v) @ a - np.array([1.0, 2.0]),
        rows=("1", "2"),
        now=("v", "a"),
        determines=(("a", 0), ("a", 1)),
        definite=True,
    )
    rate = Factor(
        name="rate", residual=lambda v, v_next: v_next - v, rows=("1", "2"), now=("v",), after=("v",)
    )
    graph = TrajectoryGraph((v, a), (newton, rate))
    return FixedLag(graph, 2, prior(graph, {"v": [0.3, 0.1]}, {"v": 1.0}), "numpy")


def test_a_definite_factor_determines():
    lag = _pulled(lambda v: np.array([[2.0 + v[0] * v[0], v[1]], [v[1], 1.0]]))
    lag.append(dt=0.1)
    np.testing.assert_allclose(
        lag.steps["a"][0], np.linalg.solve([[2.09, 0.1], [0.1, 1.0]], [1.0, 2.0]), rtol=1e-12
    )


@pytest.mark.parametrize("small", [0.0, 1e-14])
def test_a_definite_factor_that_is_singular_is_told(small):
    lag = _pulled(lambda v: np.array([[1.0 + v[0] * 0.0, v[1] * 10.0], [v[1] * 10.0, 1.0 + small]]))
    with pytest.raises(SingularPosition, match="at step 0"):
        lag.append(dt=0.1)
