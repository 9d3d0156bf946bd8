"""JointMemory: differentiated velocities, long or invalid messages, joints that are not needed."""

import contextlib
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from plain import serve

from dynamics_node.node.errors import BadMessage, NoOutput
from dynamics_node.node.state.joint_memory import MAX_NAMES, JointMemory, require_once

MS = 1_000_000  # ns
BEGIN = 1_700_000_000_000_000_000  # ns, a recent time


def memory(*names, needed=slice(None)):
    return JointMemory([SimpleNamespace(name=name, kind="revolute") for name in names], needed)


def velocity_after(joints, names, position, at):
    joints.update(names, position, (), (), BEGIN + at, 0)
    return joints.differentiated()


def test_velocity_is_the_difference_of_two_positions():
    joints = memory("a", "b")
    assert np.isnan(velocity_after(joints, ("a", "b"), [1.0, 2.0], 0)).all()
    velocity = velocity_after(joints, ("b", "a"), [2.5, 1.2], 2 * MS)
    assert velocity == pytest.approx([100.0, 250.0])


@pytest.mark.parametrize("names", [("a",), ("a", "elsewhere")])
@pytest.mark.parametrize("gap", [1, 50_000, 999_999])
def test_a_second_publisher_causes_no_velocity_jump(names, gap):
    """The second publishes 1 mrad more, up to 1 ms later: over 50 us that would be 20 rad/s."""
    joints = memory("a", "b") if "elsewhere" not in names else memory("a")
    joints.update(("b",), [0.0], (), (), BEGIN, 0)
    largest = 0.0
    for at in range(0, 40 * MS, 2 * MS):
        for offset, late in ((0.0, 0), (1e-3, gap)):
            velocity = velocity_after(joints, names, [0.3 + offset] * len(names), at + late)[0]
            if not np.isnan(velocity):
                largest = max(largest, abs(velocity))
    assert 0 < largest <= 1e-3 / 1e-3 + 1e-9
    assert not np.isnan(velocity)


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("period", [100_000, 250_000, 990_000, 2 * MS])
def test_velocity_of_fast_and_slow_drivers_follows(period, partial):
    """Differences span a few milliseconds at most, at any rate."""
    joints = memory("a", "b") if partial else memory("a")
    for at in range(0, 60 * MS, period):
        velocity = velocity_after(joints, ("a",), [np.sin(at * 1e-9)], at)[0]
    assert velocity == pytest.approx(np.cos(at * 1e-9), abs=5e-3)


def test_a_long_gap_gives_no_velocity():
    joints = memory("a")
    velocity_after(joints, ("a",), [0.0], 0)
    assert np.isnan(velocity_after(joints, ("a",), [1.0], 600 * MS)).all()


def test_a_duplicate_name_is_detected_in_one_pass():
    class Counted(str):
        compared = 0
        __hash__ = str.__hash__

        def __eq__(self, other):
            Counted.compared += 1
            return str.__eq__(self, other)

    names = [Counted(k) for k in range(MAX_NAMES)]
    with pytest.raises(BadMessage, match="'9999'.*twice"):
        require_once([*names, Counted(9999)])
    assert Counted.compared < 3 * MAX_NAMES
    with pytest.raises(BadMessage, match="'9999'.*twice"):
        memory("a").update([*names[1:], names[-1]], [0.0] * MAX_NAMES, (), (), 0, 0)


@pytest.mark.parametrize("source", ["message", "differentiate", "filter"])
@pytest.mark.parametrize("problem", ["inverse", "forward"])
@pytest.mark.parametrize("field", ["position", "velocity", "effort"])
def test_huge_numbers_cause_no_warning(field, problem, source, panda):
    """Warnings of NumPy are errors here. The result is finite, or an error."""
    served = serve("panda7", velocity_source=source, problem=problem)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for sign in (0, 1, -1, 1):
            given = {"position": panda.q, "velocity": panda.qd, "effort": np.ones(7)}
            given[field] = given[field] + sign * np.finfo(float).max
            served.wait(2)
            with contextlib.suppress(NoOutput, BadMessage):
                served.receive(panda.names, *given.values())
                result = served.solve()
                assert all(np.isfinite(x).all() for x in (result.tau, result.qdd) if x is not None)


# --- joints that are not needed -------------------------------------------------------------------------------


NAMES = ("shoulder", "rocker", "elbow")
NEEDED = np.array([0, 2])
NOT_FINITE = (float("nan"), float("inf"), float("-inf"))


def update(joints, names, position, stamp=1, velocity=(), effort=()):
    return joints.update(names, position, velocity, effort, stamp, stamp)


@pytest.mark.parametrize("bad", NOT_FINITE)
def test_an_unknown_joint_may_have_any_position(bad):
    """joint_state_broadcaster sends NaN for wheels that have no position interface."""
    joints = memory(*NAMES, needed=NEEDED)
    assert update(joints, ("wheel", *NAMES), (bad, 1.0, 2.0, 3.0), velocity=(bad, 0.1, 0.2, 0.3))
    assert joints.position.tolist() == [1.0, 2.0, 3.0] and joints.velocity.tolist() == [0.1, 0.2, 0.3]
    assert joints.unknown == 1 and not joints.missing()


@pytest.mark.parametrize("bad", NOT_FINITE)
def test_a_passive_joint_without_a_position_is_ignored(bad):
    joints = memory(*NAMES, needed=NEEDED)
    update(joints, NAMES, (1.0, 2.0, 3.0))
    assert update(joints, NAMES, (4.0, bad, 6.0), stamp=2)
    assert joints.position.tolist() == [4.0, 2.0, 6.0]
    assert joints.stamp.tolist() == [2, 1, 2]
    assert update(joints, NAMES, (7.0, 8.0, 9.0), stamp=3)
    assert joints.position.tolist() == [7.0, 8.0, 9.0]


def test_a_message_without_positions_changes_nothing():
    joints = memory(*NAMES, needed=NEEDED)
    assert not update(joints, ("rocker",), (float("nan"),))


@pytest.mark.parametrize("bad", NOT_FINITE)
def test_a_needed_joint_without_a_position_drops_the_message(bad):
    joints = memory(*NAMES, needed=NEEDED)
    update(joints, NAMES, (1.0, 2.0, 3.0))
    with pytest.raises(BadMessage, match=f"'elbow'.*{bad}.*joints"):
        update(joints, NAMES, (4.0, 5.0, bad), stamp=2)
    assert joints.position.tolist() == [1.0, 2.0, 3.0] and joints.stamp.tolist() == [1, 1, 1]


def test_a_message_without_efforts_clears_them():
    joints = memory(*NAMES, needed=NEEDED)
    update(joints, NAMES, (1.0, float("nan"), 3.0), effort=(1.0, 2.0, 3.0))
    update(joints, NAMES, (1.0, 2.0, 3.0), stamp=2)
    assert np.isnan(joints.effort[[0, 2]]).all()


def test_mimic_joints_are_not_unknown():
    """robot_state_publisher expects them in joint_states; their values are redundant."""
    driven = JointMemory([SimpleNamespace(name="finger1", kind="prismatic")], followers=["finger2"])
    update(driven, ("finger1", "finger2", "wheel"), (0.01, 0.01, 3.0))
    assert driven.unknown == 1 and driven.strangers == ("wheel",)
