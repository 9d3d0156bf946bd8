"""Maps between the names of a driver or a recording and those of the robot."""

import pytest

from dynamics_node.robot.joint_names import inverse_pairs, name_pairs, proposed_pair, renamed


@pytest.mark.parametrize(
    ("pairs", "name", "ours"),
    [
        ([("fer_*", "panda_*")], "fer_joint1", "panda_joint1"),
        ([("fer_*", "panda_*")], "joint1", "joint1"),
        ([("*", "left_*")], "joint1", "left_joint1"),
        ([("left/*", "*")], "left/joint1", "joint1"),
        ([("*_fer", "*_panda")], "joint1_fer", "joint1_panda"),
        ([("a*a", "b*b")], "aa", "bb"),
        ([("a*a", "b*b")], "a", "a"),  # head and tail do not share a letter
        ([("joint1", "elbow")], "joint10", "joint10"),
        ([("joint1", "elbow"), ("joint*", "j*")], "joint1", "elbow"),
        ([("joint1", "elbow"), ("joint*", "j*")], "joint10", "j10"),
        ([("a", "b"), ("b", "a")], "a", "b"),  # applied once, not repeatedly
    ],
)
def test_name_is_mapped_and_back(pairs, name, ours):
    pairs = name_pairs(pairs)
    assert renamed(name, pairs) == ours and renamed(ours, inverse_pairs(pairs)) == name


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([("a*", "b")], "one star on both sides, or none"),
        ([("a**", "b**")], "one star on both sides, or none"),
        ([("", "b")], "'=b' has an empty side"),
        ([("a", "")], "'a=' has an empty side"),
        ([("a", "b"), ("a", "c")], "'a' is mapped twice"),
    ],
)
def test_invalid_maps_are_rejected(pairs, words):
    with pytest.raises(ValueError, match="side|sides|twice") as raised:
        name_pairs(pairs)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("theirs", "ours", "pair"),
    [
        (["fer_joint1", "fer_joint2", "gripper"], ["panda_joint1", "panda_joint2"], ("fer_*", "panda_*")),
        (["joint1", "joint2"], ["panda_joint1", "panda_joint2"], ("*", "panda_*")),
        (["left/j1", "left/j2", "right/j1", "right/j2"], ["j1", "j2"], ("left/*", "*")),
        (["fr3_joint1"], ["panda_joint1"], ("fr3_*", "panda_*")),
        (["rightElbow", "rightWrist"], ["Elbow", "Wrist"], ("right*", "*")),
        (["aJoint1", "aJoint2"], ["bJoint1", "bJoint2"], ("a*", "b*")),
        (["fer_joint1"], ["panda_joint1", "panda_joint2"], None),
        (["shoulder", "elbow"], ["panda_joint1", "panda_joint2"], None),
        (["a"], [], None),
        ([], ["a"], None),
    ],
)
def test_pair_is_proposed(theirs, ours, pair):
    assert proposed_pair(theirs, ours) == pair
    if pair:
        assert set(ours) <= {renamed(name, name_pairs([pair])) for name in theirs}
