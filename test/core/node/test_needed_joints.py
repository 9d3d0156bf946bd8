"""Joint states in which only some joints are needed: the others may have any value."""

from types import SimpleNamespace

import numpy as np
import pytest

from dynamics_node.node.errors import BadMessage
from dynamics_node.node.state.joint_memory import JointMemory

NAMES = ("shoulder", "rocker", "elbow")
NEEDED = np.array([0, 2])
NOT_FINITE = (float("nan"), float("inf"), float("-inf"))


def memory():
    return JointMemory([SimpleNamespace(name=name, kind="revolute") for name in NAMES], NEEDED)


def update(joints, names, position, stamp=1, velocity=(), effort=()):
    return joints.update(names, position, velocity, effort, stamp, stamp)


@pytest.mark.parametrize("bad", NOT_FINITE)
def test_an_unknown_joint_may_have_any_position(bad):
    """joint_state_broadcaster sends NaN for wheels that have no position interface."""
    joints = memory()
    assert update(joints, ("wheel", *NAMES), (bad, 1.0, 2.0, 3.0), velocity=(bad, 0.1, 0.2, 0.3))
    assert joints.position.tolist() == [1.0, 2.0, 3.0] and joints.velocity.tolist() == [0.1, 0.2, 0.3]
    assert joints.unknown == 1 and not joints.missing()


@pytest.mark.parametrize("bad", NOT_FINITE)
def test_a_passive_joint_without_a_position_is_ignored(bad):
    joints = memory()
    update(joints, NAMES, (1.0, 2.0, 3.0))
    assert update(joints, NAMES, (4.0, bad, 6.0), stamp=2)
    assert joints.position.tolist() == [4.0, 2.0, 6.0]
    assert joints.stamp.tolist() == [2, 1, 2]
    assert update(joints, NAMES, (7.0, 8.0, 9.0), stamp=3)
    assert joints.position.tolist() == [7.0, 8.0, 9.0]


def test_a_message_without_positions_changes_nothing():
    joints = memory()
    assert not update(joints, ("rocker",), (float("nan"),))


@pytest.mark.parametrize("bad", NOT_FINITE)
def test_a_needed_joint_without_a_position_drops_the_message(bad):
    joints = memory()
    update(joints, NAMES, (1.0, 2.0, 3.0))
    with pytest.raises(BadMessage, match=f"'elbow'.*{bad}.*joints"):
        update(joints, NAMES, (4.0, 5.0, bad), stamp=2)
    assert joints.position.tolist() == [1.0, 2.0, 3.0] and joints.stamp.tolist() == [1, 1, 1]


def test_a_message_without_efforts_clears_them():
    joints = memory()
    update(joints, NAMES, (1.0, float("nan"), 3.0), effort=(1.0, 2.0, 3.0))
    update(joints, NAMES, (1.0, 2.0, 3.0), stamp=2)
    assert np.isnan(joints.effort[[0, 2]]).all()


def test_mimic_joints_are_not_unknown():
    """robot_state_publisher expects them in joint_states; their values are redundant."""
    driven = JointMemory([SimpleNamespace(name="finger1", kind="prismatic")], followers=["finger2"])
    update(driven, ("finger1", "finger2", "wheel"), (0.01, 0.01, 3.0))
    assert driven.unknown == 1 and driven.strangers == ("wheel",)
