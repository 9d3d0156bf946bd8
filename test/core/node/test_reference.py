"""Trajectories: sizes are checked before allocation, and memory is bounded."""

import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest

from dynamics_node.node.errors import BadMessage
from dynamics_node.node.state.joint_memory import MAX_NAMES
from dynamics_node.node.state.reference import MAX_POINTS, read_points, read_reference

JOINTS = ("a", "b", "c")


def point(at, positions=(), velocities=(), accelerations=(), effort=()):
    time = SimpleNamespace(sec=int(at), nanosec=int(at % 1 * 1e9))
    fields = {"positions": positions, "velocities": velocities}
    return SimpleNamespace(time_from_start=time, accelerations=accelerations, effort=effort, **fields)


def largest_allocation(function, *arguments):
    """Peak memory, bytes, while function(...) runs or fails."""
    tracemalloc.start()
    try:
        function(*arguments)
    except BadMessage:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


def test_values_are_assigned_by_name():
    points = [point(0, [1.0, 2.0], effort=[5.0, 6.0]), point(0.5, [3.0, 4.0])]
    reference = read_reference(JOINTS, ("c", "a"), points, 7, 8)
    nan = np.nan
    assert np.array_equal(reference.values.positions, [[2, nan, 1], [4, nan, 3]], equal_nan=True)
    assert np.array_equal(reference.values.effort, [[6, nan, 5], [nan, nan, nan]], equal_nan=True)
    assert np.isnan(reference.values.velocities).all() and reference.values.velocities.shape == (2, 3)
    assert (reference.stamp, reference.received, *reference.times) == (7, 8, 0.0, 0.5)


def test_unknown_joints_need_no_memory():
    """Points x names would be 7.5 GB here."""
    names = [f"x{k}" for k in range(MAX_NAMES)]
    points = [point(k) for k in range(9_999)] + [point(9_999, np.zeros(MAX_NAMES))]
    assert largest_allocation(read_reference, JOINTS, names, points, 0, 0) < 30e6


def test_times_must_rise_in_a_reference_but_not_in_a_batch():
    times, _ = read_points(["a"], [point(1), point(1)])
    assert times.tolist() == [1, 1]
    with pytest.raises(BadMessage, match="time_from_start.*point 1"):
        read_reference(("a",), ["a"], [point(1), point(1)], 0, 0)


@pytest.mark.parametrize(
    "names, points, reason",
    [
        ([str(k) for k in range(MAX_NAMES + 1)], [point(0)], "10001 names.*10000"),
        (["a"], [point(0)] * (MAX_POINTS + 1), "100001 points.*100000"),
        ([str(k) for k in range(MAX_NAMES)], [point(0)] * 1001, "10000000"),
        (["a", "b", "a"], [point(0)], "'a'.*twice"),
        (["a", "b"], [point(0), point(1, [0.0])], "point 1.* 2 .* 1 .*positions"),
        (["a", "b"], [point(0), point(1, effort=[0.0, np.inf])], "point 1.*effort.*'b'.*inf"),
        (["a"], [], "no points"),
    ],
)
def test_invalid_trajectories_are_rejected_before_allocation(names, points, reason):
    with pytest.raises(BadMessage, match=reason):
        read_points(names, points)
    assert largest_allocation(read_points, names, points) < 30e6
