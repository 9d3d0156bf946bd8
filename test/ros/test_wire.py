"""Readers of serialized messages against the serialization of rclpy."""

import contextlib

import numpy as np
import pytest
from rclpy.serialization import serialize_message
from rig import floats, trajectory
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectoryPoint

from dynamics_node.node.errors import BadMessage
from dynamics_node.node.state.joint_memory import MAX_NAMES
from dynamics_node.node.state.reference import MAX_POINTS, read_reference, reading
from dynamics_node.node.state.wire import StateReader, is_plain

JOINTS = ("a", "joint_2", "wrist")


def state(random):
    count = int(random.integers(0, 5))
    names = [f"{'ü' * int(random.integers(0, 4))}{k}" for k in range(count)]
    fields = [floats(random.normal(size=count if random.random() < 0.7 else 0)) for _ in range(3)]
    message = JointState(name=names, position=fields[0], velocity=fields[1], effort=fields[2])
    message.header.frame_id = "x" * int(random.integers(0, 9))
    message.header.stamp.sec = int(random.integers(-(2**31), 2**31))
    message.header.stamp.nanosec = int(random.integers(0, 2**32))
    return message


def test_joint_states_of_every_alignment():
    random, reader = np.random.default_rng(4), StateReader()
    for _ in range(300):
        message = state(random)
        data = serialize_message(message)
        assert is_plain(data)
        read = reader.read(data)
        assert read.names == tuple(message.name)
        for field in ("position", "velocity", "effort"):
            assert np.array_equal(getattr(read, field), getattr(message, field))
        assert read.stamp == (message.header.stamp.sec, message.header.stamp.nanosec)


def test_names_of_alternating_senders_are_right():
    reader = StateReader()
    for _ in range(3):
        for count in range(1, 12):
            message = JointState(name=[f"j{k}" for k in range(count)], position=[0.0] * count)
            assert reader.read(serialize_message(message)).names == tuple(message.name)


def test_truncated_or_inconsistent_joint_states_are_rejected():
    data = serialize_message(JointState(name=["a", "b"], position=[1.0, 2.0], velocity=[3.0, 4.0]))
    for end in range(len(data) - 8):
        with pytest.raises(BadMessage):
            StateReader().read(data[:end])
    for at in range(4, len(data) - 3):
        with_huge_count = data[:at] + b"\xff\xff\xff\xff" + data[at + 4 :]
        with contextlib.suppress(BadMessage):
            StateReader().read(with_huge_count)


def test_names_are_counted_before_they_are_read():
    data = serialize_message(JointState(name=["x"] * (MAX_NAMES + 1)))
    with pytest.raises(BadMessage, match="10001 names.*10000"):
        StateReader().read(data)


def random_trajectory(random, names, count):
    points = []
    for k in range(count):
        point = JointTrajectoryPoint()
        for field in ("positions", "velocities", "accelerations", "effort"):
            if random.random() < 0.6:
                setattr(point, field, floats(random.normal(size=len(names))))
        point.time_from_start.sec = k
        points.append(point)
    return trajectory(names, *points)


def read_in_slices(data):
    slices = reading(JOINTS, data, 5, 6)
    while True:
        try:
            next(slices)
        except StopIteration as end:
            return end.value


@pytest.mark.parametrize("names", [["wrist"], ["wrist", "a"], ["b", "joint_2", "ccc", "a"], ["x"], []])
@pytest.mark.parametrize("count", [1, 2, 401])
def test_references_read_in_slices_match_the_message(names, count):
    message = random_trajectory(np.random.default_rng(count), names, count)
    from_slices = read_in_slices(serialize_message(message))
    from_message = read_reference(JOINTS, message.joint_names, message.points, 5, 6)
    assert np.array_equal(from_slices.times, from_message.times)
    for one, other in zip(from_slices.values, from_message.values, strict=True):
        assert np.array_equal(one, other, equal_nan=True)
    assert (from_slices.stamp, from_slices.received) == (5, 6)


def test_truncated_references_are_rejected():
    """rclpy appends a few bytes to the message."""
    message = random_trajectory(np.random.default_rng(0), ["a", "wrist"], 3)
    data = serialize_message(message)
    expected = read_reference(JOINTS, message.joint_names, message.points, 5, 6)
    whole = 0
    for end in range(len(data)):
        try:
            reference = read_in_slices(data[:end])
        except BadMessage:
            assert not whole
        else:
            assert np.array_equal(reference.values.effort, expected.values.effort, equal_nan=True)
            whole += 1
    assert whole < 32


@pytest.mark.parametrize(
    "points, reason",
    [
        ([], "no points"),
        ([JointTrajectoryPoint(positions=[0.0, 0.0])], "point 0: 1 names but 2 entries in positions"),
        ([JointTrajectoryPoint(effort=[np.nan])], "point 0: effort of 'a' is nan"),
        ([JointTrajectoryPoint()] * 2, "time_from_start of point 1 is not after"),
        (
            [JointTrajectoryPoint()] * (MAX_POINTS + 1),
            "the trajectory has 100001 points; the limit is 100000",
        ),
    ],
)
def test_invalid_references_are_rejected(points, reason):
    with pytest.raises(BadMessage, match=reason):
        read_in_slices(serialize_message(trajectory(["a"], *points)))
