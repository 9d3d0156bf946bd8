"""Stale input, input out of order, and references over time."""

import contextlib

import numpy as np
import pytest
from cases import case_of
from plain import MS, point, serve
from tolerances import EXACT, error

from dynamics_node.node.errors import BadMessage, NoOutput


def test_a_stale_joint_is_named(panda):
    served = serve("panda7")
    served.receive(panda.names, panda.q, panda.qd)
    served.wait(201).receive(panda.names[:6], panda.q[:6], panda.qd[:6])
    assert served.no_output("joint states older than 0.2 s: panda_joint7").stale
    served.receive(panda.names[6:], panda.q[6:], panda.qd[6:])
    assert error(served.tau(), panda.torque()) <= EXACT


def test_input_that_becomes_stale_during_a_solve_raises(panda):
    served = serve("panda7")
    served.receive(panda.names, panda.q, panda.qd)
    assert np.isfinite(served.wait(199).tau()).all()
    served.core.require_fresh(200 * MS)
    with pytest.raises(NoOutput, match=r"older.*panda_joint1") as caught:
        served.core.require_fresh(201 * MS)
    assert caught.value.stale
    served.use(state_source="reference")
    served.core.require_fresh(201 * MS)


def test_a_needed_joint_that_is_missing_is_named(panda):
    served = serve("panda7")
    assert (
        served.no_output("never seen: panda_joint1, ").remedy
        == "no message has arrived on the topic joint_states"
    )
    served.receive(panda.names[1:], panda.q[1:], panda.qd[1:])
    no_output = served.no_output("never seen: panda_joint1")
    assert str(no_output) == "never seen: panda_joint1" and "joints in `joints`" in no_output.remedy


def test_states_of_unknown_joints_are_ignored(panda):
    served = serve("panda7")
    assert not served.receive(["x", "y"], [1.0, 2.0])
    assert served.core.joints.unknown == 2


def test_a_jump_back_of_stamps_resets_the_state(panda):
    """A restarted bag: the old state is cleared, and no mixture is published."""
    served = serve("panda7", joint_state_timeout=10.0)
    served.receive(panda.names, panda.q, panda.qd)
    early = served.stamp - 5000 * MS
    served.receive(panda.names[:3], panda.q[:3], panda.qd[:3], stamp=early)
    served.no_output("never seen: panda_joint4")
    served.receive(panda.names[3:], panda.q[3:], panda.qd[3:], stamp=early + 1)
    assert error(served.tau(), panda.torque()) <= EXACT


def test_messages_out_of_order_are_ignored(panda):
    served = serve("panda7")
    served.receive(panda.names, panda.q, panda.qd)
    assert not served.receive(panda.names, 0 * panda.q, panda.qd, stamp=served.stamp - 100 * MS)
    assert error(served.tau(), panda.torque()) <= EXACT


def test_forget_clears_state_and_reference(panda):
    served = serve("panda7")
    served.receive(panda.names, panda.q, panda.qd)
    served.refer(panda.names, point(qdd=panda.qdd))
    served.core.forget()
    served.no_output("never seen: panda_joint1")
    assert served.core.reference is None


NAN = float("nan")
BAD_STATES = {
    "duplicate name": (
        lambda n, q, v: ([*n, n[0]], [*q, 0.0], [*v, 0.0], ()),
        "joint 'panda_joint1' is listed twice",
    ),
    "short position": (lambda n, q, v: (n, q[:-1], v, ()), "7 names but 6 entries in position"),
    "no position": (lambda n, q, v: (n, [], v, ()), "7 names but 0 entries in position"),
    "short velocity": (lambda n, q, v: (n, q, v[:-1], ()), "7 names but 6 entries in velocity"),
    "long effort": (lambda n, q, v: (n, q, v, [0.0] * 9), "7 names but 9 entries in effort"),
    "NaN position": (
        lambda n, q, v: (n, [*q[:-1], NAN], v, ()),
        "position of 'panda_joint7' is nan; exclude it with the parameter joints",
    ),
    "infinite position": (
        lambda n, q, v: (n, [np.inf, *q[1:]], v, ()),
        "position of 'panda_joint1' is inf; exclude it with the parameter joints",
    ),
    "huge position": (
        lambda n, q, v: (n, [1e150, *q[1:]], v, ()),
        "position of 'panda_joint1' is 1e+150, above 1e+08; exclude it with the parameter joints",
    ),
    "many names": (
        lambda n, q, v: ([f"x{k}" for k in range(10_001)], [0.0] * 10_001, (), ()),
        "10001 names; the limit is 10000",
    ),
}


@pytest.mark.parametrize("source", ["message", "differentiate", "filter"])
def test_impossible_velocities_give_no_torque(panda, source):
    """Torques of 1e298 N m would follow from 1e150 rad/s. States that are possible have torques again."""
    served = serve("panda7", velocity_source=source, joint_state_timeout=60.0)
    q, qd = panda.q.copy(), panda.qd.copy()
    served.receive(panda.names, q, qd)
    with contextlib.suppress(NoOutput):  # the second state of a filter has a velocity
        served.solve()
    if source == "message":
        qd[2] = 1e150
    else:
        q[2] = 9e7
    served.wait(1).receive(panda.names, q, qd)
    assert "above 1e+08" in str(served.no_output("velocity of 'panda_joint3' is "))
    if source == "filter":
        return  # it forgets gradually
    for _ in range(3):
        served.wait(1).receive(panda.names, panda.q, panda.qd)
    resting = panda.qd if source == "message" else 0 * panda.qd
    assert error(served.tau(), panda.torque(qd=resting)) <= EXACT


@pytest.mark.parametrize("field", ["q", "qd", "qdd", "effort"])
def test_impossible_numbers_of_a_reference_are_rejected(panda, field):
    served = serve("panda7")
    with pytest.raises(BadMessage, match="'panda_joint7' is -1e[+]150, above"):
        served.refer(panda.names, point(**{field: [0.0] * 6 + [-1e150]}))
    assert served.core.reference is None


def test_an_impossible_effort_counts_as_missing(panda):
    served = serve("panda7", problem="forward")
    served.receive(panda.names, panda.q, panda.qd, [0.0] * 6 + [1e150])
    served.no_output("no effort in joint_states or reference for panda_joint7")


@pytest.mark.parametrize("kind", BAD_STATES)
def test_an_invalid_joint_state_is_dropped(panda, kind):
    make, reason = BAD_STATES[kind]
    served = serve("panda7")
    served.receive(panda.names, panda.q, panda.qd)
    with pytest.raises(BadMessage) as caught:
        served.receive(*make(list(panda.names), list(panda.q + 0.3), list(panda.qd)))
    assert str(caught.value) == reason
    assert error(served.tau(), panda.torque()) <= EXACT, "the message has no effect"


# --- references ---------------------------------------------------------------------------------------------


def test_a_one_point_reference_times_out(panda):
    served = serve("panda7", reference_timeout=0.5, joint_state_timeout=10.0)
    served.receive(panda.names, panda.q, panda.qd)
    served.refer(panda.names, point(qdd=panda.qdd))
    assert error(served.tau(), panda.torque(qdd=panda.qdd)) <= EXACT
    assert error(served.wait(500).tau(), panda.torque(qdd=panda.qdd)) <= EXACT
    assert error(served.wait(1).tau(), panda.torque()) <= EXACT


def test_several_points_are_interpolated(panda):
    served = serve("panda7", joint_state_timeout=10.0)
    served.receive(panda.names, panda.q, panda.qd)
    served.refer(panda.names, point(0.0, qdd=0 * panda.qdd), point(1.0, qdd=panda.qdd))
    for passed in (0, 250, 500, 999, 1000):
        served.now = served.ros = 0
        served.ros = served.core.reference.stamp
        assert error(served.wait(passed).tau(), panda.torque(qdd=passed / 1000 * panda.qdd)) <= EXACT
    assert error(served.wait(1).tau(), panda.torque()) <= EXACT, "after the end"
    served.ros = served.core.reference.stamp - 1
    assert error(served.tau(), panda.torque()) <= EXACT, "before the beginning"


def test_a_reference_may_have_another_order_and_unknown_joints(panda):
    served = serve("panda7")
    served.receive(panda.names, panda.q, panda.qd)
    served.refer([*panda.names[::-1], "wheel"], point(qdd=[*panda.qdd[::-1], 99.0]))
    assert error(served.tau(), panda.torque(qdd=panda.qdd)) <= EXACT


@pytest.mark.parametrize(
    "names, points, reason",
    [
        ((), [], "no points"),
        (["panda_joint1"] * 2, [point(qdd=[1, 1])], "'panda_joint1'.*twice"),
        (["panda_joint1", "b"], [point(qdd=[1])], "point 0.* 2 .* 1 .*accelerations"),
        (["panda_joint1"], [point(qdd=[NAN])], "accelerations.*'panda_joint1'.*nan"),
        (["panda_joint1"], [point(0.5), point(0.5)], "time_from_start.*point 1"),
    ],
)
def test_an_invalid_reference_keeps_the_last_one(panda, names, points, reason):
    served = serve("panda7")
    served.receive(panda.names, panda.q, panda.qd)
    served.refer(panda.names, point(qdd=panda.qdd))
    with pytest.raises(BadMessage, match=reason):
        served.refer(names, *points)
    assert error(served.tau(), panda.torque(qdd=panda.qdd)) <= EXACT


def test_the_state_can_come_from_the_reference(panda):
    served, q = serve("panda7", state_source="reference"), panda.q + 0.1
    served.no_output("no active reference")
    names = panda.names[::-1]
    served.refer(names, point(q=q[::-1], qd=panda.qd[::-1], qdd=panda.qdd[::-1]))
    assert error(served.tau(), panda.torque(q=q, qdd=panda.qdd)) <= EXACT
    assert served.wait(501).no_output("no active reference (state_source: reference)").stale
    served.refer(names[:6], point(q=q[:6], qd=panda.qd[:6]))
    served.no_output("reference without position of panda_joint1")
    served.refer(names, point(q=q))
    served.no_output("reference without velocity of panda_joint1")


# --- the floating base --------------------------------------------------------------------------------------

POSE = np.array([0.1, 0.2, 0.3, 0.1, -0.2, 0.3, np.sqrt(1 - 0.14)])
TWIST = np.array([0.3, -0.1, 0.2, 0.5, 0.4, -0.3])


def floating(**values):
    dog, served = case_of("solo12"), serve("solo12", **values)
    served.receive(dog.names, dog.q, dog.qd)
    return dog, served


def set_base(served, pose=POSE, twist=TWIST, link=""):
    state = served.core.state
    state.base = state.read_base(pose, twist, served.stamp, served.now, link)


def test_a_floating_base_needs_odometry():
    dog, served = floating()
    assert "publish odom" in served.no_output("floating base, but no odom message yet").remedy
    set_base(served, link=dog.model.base_link)
    q, qd = np.concatenate([POSE, dog.q]), np.concatenate([TWIST, dog.qd])
    expected, limits = dog.oracle.inverse(q, qd, 0 * qd)[6:], dog.model.effort_limits[6:]
    assert error(served.tau(dog.names), np.clip(expected, -limits, limits)) <= EXACT
    served.wait(201).receive(dog.names, dog.q, dog.qd)
    assert served.no_output("odom older than 0.2 s").stale


@pytest.mark.parametrize(
    "pose, twist, link, reason",
    [
        ((0, 0, 0, 0, 0, 0, 0), (0,) * 6, "", "quaternion.*norm 0"),
        ((0, 0, NAN, 0, 0, 0, 1), (0,) * 6, "", "not finite"),
        ((0, 0, 0, 0, 0, 0, 1), (np.inf, 0, 0, 0, 0, 0), "", "not finite"),
        ((0, 0, 0, 0, 0, 0, 1), (0, 0, 0, 1e150, 0, 0), "", "above"),
        ((0, 0, 0, 0, 0, 0, 1), (0,) * 6, "camera", "child_frame_id 'camera'"),
    ],
)
def test_bad_odometry_is_dropped(pose, twist, link, reason):
    _, served = floating()
    with pytest.raises(BadMessage, match=reason):
        set_base(served, pose, twist, link)
    served.no_output("no odom message yet")
