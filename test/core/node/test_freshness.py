"""Old input, input out of order, and references that begin, hold and end."""

import numpy as np
import pytest
from cases import case_of
from plain import MS, point, serve
from tolerances import EXACT, error

from dynamics_node.node.errors import BadMessage


def test_a_joint_that_falls_silent_is_named(panda):
    served = serve("panda7")
    served.hear(panda.names, panda.q, panda.qd)
    served.wait(201).hear(panda.names[:6], panda.q[:6], panda.qd[:6])
    assert served.silence("joint states older than 0.2 s: panda_joint7").stale
    served.hear(panda.names[6:], panda.q[6:], panda.qd[6:])
    assert error(served.tau(), panda.torque()) <= EXACT


def test_a_needed_joint_that_is_missing_is_named(panda):
    served = serve("panda7")
    assert served.silence("never seen: panda_joint1, ").remedy == "nothing has come on the topic joint_states"
    served.hear(panda.names[1:], panda.q[1:], panda.qd[1:])
    silence = served.silence("never seen: panda_joint1")
    assert str(silence) == "never seen: panda_joint1" and "parameter joints" in silence.remedy


def test_states_of_strangers_move_nothing(panda):
    served = serve("panda7")
    assert not served.hear(["x", "y"], [1.0, 2.0])
    assert served.core.joints.unknown == 2


def test_stamps_that_jump_back_begin_anew(panda):
    """A bag that loops: the old joints are forgotten, no mixture is published."""
    served = serve("panda7", joint_state_timeout=10.0)
    served.hear(panda.names, panda.q, panda.qd)
    early = served.stamp - 5000 * MS
    served.hear(panda.names[:3], panda.q[:3], panda.qd[:3], stamp=early)
    served.silence("never seen: panda_joint4")
    served.hear(panda.names[3:], panda.q[3:], panda.qd[3:], stamp=early + 1)
    assert error(served.tau(), panda.torque()) <= EXACT


def test_messages_out_of_order_move_nothing(panda):
    served = serve("panda7")
    served.hear(panda.names, panda.q, panda.qd)
    assert not served.hear(panda.names, 0 * panda.q, panda.qd, stamp=served.stamp - 100 * MS)
    assert error(served.tau(), panda.torque()) <= EXACT


def test_after_a_jump_of_time_nothing_is_known(panda):
    served = serve("panda7")
    served.hear(panda.names, panda.q, panda.qd)
    served.refer(panda.names, point(qdd=panda.qdd))
    served.core.forget()
    served.silence("never seen: panda_joint1")
    assert served.core.reference is None


NAN = float("nan")
BAD_STATES = {
    "duplicate name": (
        lambda n, q, v: ([*n, n[0]], [*q, 0.0], [*v, 0.0], ()),
        "joint 'panda_joint1' is named twice",
    ),
    "short position": (lambda n, q, v: (n, q[:-1], v, ()), "7 names but 6 entries in position"),
    "no position": (lambda n, q, v: (n, [], v, ()), "7 names but 0 entries in position"),
    "short velocity": (lambda n, q, v: (n, q, v[:-1], ()), "7 names but 6 entries in velocity"),
    "long effort": (lambda n, q, v: (n, q, v, [0.0] * 9), "7 names but 9 entries in effort"),
    "NaN position": (
        lambda n, q, v: (n, [*q[:-1], NAN], v, ()),
        "position of 'panda_joint7' is nan; the parameter joints can leave it out",
    ),
    "infinite position": (
        lambda n, q, v: (n, [np.inf, *q[1:]], v, ()),
        "position of 'panda_joint1' is inf; the parameter joints can leave it out",
    ),
    "many names": (
        lambda n, q, v: ([f"x{k}" for k in range(10_001)], [0.0] * 10_001, (), ()),
        "10001 names; the limit is 10000",
    ),
}


@pytest.mark.parametrize("kind", BAD_STATES)
def test_a_bad_joint_state_is_dropped_whole(panda, kind):
    make, words = BAD_STATES[kind]
    served = serve("panda7")
    served.hear(panda.names, panda.q, panda.qd)
    with pytest.raises(BadMessage) as caught:
        served.hear(*make(list(panda.names), list(panda.q + 0.3), list(panda.qd)))
    assert str(caught.value) == words
    assert error(served.tau(), panda.torque()) <= EXACT, "nothing of it was kept"


# --- references ---------------------------------------------------------------------------------------------


def test_one_point_holds_and_times_out(panda):
    served = serve("panda7", reference_timeout=0.5, joint_state_timeout=10.0)
    served.hear(panda.names, panda.q, panda.qd)
    served.refer(panda.names, point(qdd=panda.qdd))
    assert error(served.tau(), panda.torque(qdd=panda.qdd)) <= EXACT
    assert error(served.wait(500).tau(), panda.torque(qdd=panda.qdd)) <= EXACT
    assert error(served.wait(1).tau(), panda.torque()) <= EXACT


def test_several_points_are_interpolated_and_end(panda):
    served = serve("panda7", joint_state_timeout=10.0)
    served.hear(panda.names, panda.q, panda.qd)
    served.refer(panda.names, point(0.0, qdd=0 * panda.qdd), point(1.0, qdd=panda.qdd))
    for passed in (0, 250, 500, 999, 1000):
        served.now = served.ros = 0
        served.ros = served.core.reference.stamp
        assert error(served.wait(passed).tau(), panda.torque(qdd=passed / 1000 * panda.qdd)) <= EXACT
    assert error(served.wait(1).tau(), panda.torque()) <= EXACT, "after the end"
    served.ros = served.core.reference.stamp - 1
    assert error(served.tau(), panda.torque()) <= EXACT, "before the beginning"


def test_a_reference_of_joints_in_another_order_and_of_strangers(panda):
    served = serve("panda7")
    served.hear(panda.names, panda.q, panda.qd)
    served.refer([*panda.names[::-1], "wheel"], point(qdd=[*panda.qdd[::-1], 99.0]))
    assert error(served.tau(), panda.torque(qdd=panda.qdd)) <= EXACT


@pytest.mark.parametrize(
    "names, points, words",
    [
        ((), [], "without points"),
        (["panda_joint1"] * 2, [point(qdd=[1, 1])], "'panda_joint1'.*twice"),
        (["panda_joint1", "b"], [point(qdd=[1])], "point 0.* 2 .* 1 .*accelerations"),
        (["panda_joint1"], [point(qdd=[NAN])], "accelerations.*'panda_joint1'.*nan"),
        (["panda_joint1"], [point(0.5), point(0.5)], "time_from_start.*point 1"),
    ],
)
def test_after_a_bad_reference_the_last_one_holds(panda, names, points, words):
    served = serve("panda7")
    served.hear(panda.names, panda.q, panda.qd)
    served.refer(panda.names, point(qdd=panda.qdd))
    with pytest.raises(BadMessage, match=words):
        served.refer(names, *points)
    assert error(served.tau(), panda.torque(qdd=panda.qdd)) <= EXACT


def test_state_of_the_reference(panda):
    served, q = serve("panda7", state_source="reference"), panda.q + 0.1
    served.silence("no reference in force")
    names = panda.names[::-1]
    served.refer(names, point(q=q[::-1], qd=panda.qd[::-1], qdd=panda.qdd[::-1]))
    assert error(served.tau(), panda.torque(q=q, qdd=panda.qdd)) <= EXACT
    assert served.wait(501).silence("no reference in force (state_source: reference)").stale
    served.refer(names[:6], point(q=q[:6], qd=panda.qd[:6]))
    served.silence("reference without position of panda_joint1")
    served.refer(names, point(q=q))
    served.silence("reference without velocity of panda_joint1")


# --- the floating base --------------------------------------------------------------------------------------

POSE = np.array([0.1, 0.2, 0.3, 0.1, -0.2, 0.3, np.sqrt(1 - 0.14)])
TWIST = np.array([0.3, -0.1, 0.2, 0.5, 0.4, -0.3])


def floating(**values):
    dog, served = case_of("solo12"), serve("solo12", **values)
    served.hear(dog.names, dog.q, dog.qd)
    return dog, served


def see_base(served, pose=POSE, twist=TWIST, link=""):
    state = served.core.state
    state.base = state.read_base(pose, twist, served.stamp, served.now, link)


def test_a_floating_base_needs_odometry():
    dog, served = floating()
    assert "publish odom" in served.silence("floating base, but no odom message yet").remedy
    see_base(served, link=dog.model.base_link)
    q, qd = np.concatenate([POSE, dog.q]), np.concatenate([TWIST, dog.qd])
    expected, limits = dog.oracle.inverse(q, qd, 0 * qd)[6:], dog.model.effort_limits[6:]
    assert error(served.tau(dog.names), np.clip(expected, -limits, limits)) <= EXACT
    served.wait(201).hear(dog.names, dog.q, dog.qd)
    assert served.silence("odom older than 0.2 s").stale


@pytest.mark.parametrize(
    "pose, twist, link, reason",
    [
        ((0, 0, 0, 0, 0, 0, 0), (0,) * 6, "", "quaternion.*norm 0"),
        ((0, 0, NAN, 0, 0, 0, 1), (0,) * 6, "", "not finite"),
        ((0, 0, 0, 0, 0, 0, 1), (np.inf, 0, 0, 0, 0, 0), "", "not finite"),
        ((0, 0, 0, 0, 0, 0, 1), (0,) * 6, "camera", "child_frame_id 'camera'"),
    ],
)
def test_bad_odometry_is_dropped(pose, twist, link, reason):
    _, served = floating()
    with pytest.raises(BadMessage, match=reason):
        see_base(served, pose, twist, link)
    served.silence("no odom message yet")
