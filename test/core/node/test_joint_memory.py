"""What is remembered of the joints: velocities by differences, and messages that are long or wrong."""

import contextlib
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from plain import serve

from dynamics_node.node.errors import BadMessage, NoOutput
from dynamics_node.node.state.joint_memory import MAX_NAMES, JointMemory, require_once

MS = 1_000_000  # ns
BEGIN = 1_700_000_000_000_000_000  # ns, a time of our days


def memory(*names):
    return JointMemory([SimpleNamespace(name=name, kind="revolute") for name in names])


def heard(joints, names, position, at):
    joints.update(names, position, (), (), BEGIN + at, 0)
    return joints.differentiated()


def test_velocity_of_two_positions():
    joints = memory("a", "b")
    assert np.isnan(heard(joints, ("a", "b"), [1.0, 2.0], 0)).all()
    velocity = heard(joints, ("b", "a"), [2.5, 1.2], 2 * MS)
    assert velocity == pytest.approx([100.0, 250.0])


@pytest.mark.parametrize("names", [("a",), ("a", "elsewhere")])
@pytest.mark.parametrize("gap", [1, 50_000, 999_999])
def test_a_second_publisher_close_behind_makes_no_jump(names, gap):
    """One publishes 1 mrad more than the other, a moment later: over 50 us that would be 20 rad/s."""
    joints = memory("a", "b") if "elsewhere" not in names else memory("a")
    joints.update(("b",), [0.0], (), (), BEGIN, 0)
    largest = 0.0
    for at in range(0, 40 * MS, 2 * MS):
        for offset, late in ((0.0, 0), (1e-3, gap)):
            velocity = heard(joints, names, [0.3 + offset] * len(names), at + late)[0]
            if not np.isnan(velocity):
                largest = max(largest, abs(velocity))
    assert 0 < largest <= 1e-3 / 1e-3 + 1e-9
    assert not np.isnan(velocity)


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("period", [100_000, 250_000, 990_000, 2 * MS])
def test_velocity_of_fast_and_slow_drivers_follows(period, partial):
    """Differences reach back a few milliseconds at most, whatever the rate."""
    joints = memory("a", "b") if partial else memory("a")
    for at in range(0, 60 * MS, period):
        velocity = heard(joints, ("a",), [np.sin(at * 1e-9)], at)[0]
    assert velocity == pytest.approx(np.cos(at * 1e-9), abs=5e-3)


def test_a_long_pause_gives_no_velocity():
    joints = memory("a")
    heard(joints, ("a",), [0.0], 0)
    assert np.isnan(heard(joints, ("a",), [1.0], 600 * MS)).all()


def test_the_name_that_comes_twice_is_found_in_one_pass():
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
def test_numbers_near_the_largest_are_no_line_of_the_log(field, problem, source, panda):
    """NumPy's warnings, errors here, would be one. There is a finite result, or a silence."""
    served = serve("panda7", velocity_source=source, problem=problem)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for sign in (0, 1, -1, 1):
            given = {"position": panda.q, "velocity": panda.qd, "effort": np.ones(7)}
            given[field] = given[field] + sign * np.finfo(float).max
            served.wait(2)
            with contextlib.suppress(NoOutput):
                served.hear(panda.names, *given.values())
                result = served.solve()
                assert all(np.isfinite(x).all() for x in (result.tau, result.qdd) if x is not None)
