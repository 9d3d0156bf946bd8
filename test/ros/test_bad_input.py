"""Every row of the table of bad input in docs/ros.md."""

import numpy as np
import pytest
from rig import efforts, point, trajectory
from tolerances import EXACT, error

NAMES = [f"panda_joint{i}" for i in range(1, 8)]

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
        lambda n, q, v: (n, [*q[:-1], np.nan], v, ()),
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


@pytest.fixture(scope="module")
def arm(case):
    from rig import Rig
    from robots import ROBOTS

    made = Rig(ROBOTS["panda7"])
    yield made
    made.close()


@pytest.mark.parametrize("kind", BAD_STATES)
def test_bad_joint_state_is_dropped_whole(arm, panda, kind):
    make, words = BAD_STATES[kind]
    arm.answered(panda.names, panda.q, panda.qd)
    q = panda.q + 0.3
    bad = arm.send_state(*make(list(panda.names), list(q), list(panda.qd)))
    message, values, _ = arm.diagnostic(lambda s: any(words in v.value for v in s.values))
    assert values["last drop"] == f"joint_states: {words}"
    assert bad not in arm.torques
    # nothing of it was kept
    assert error(efforts(arm.answered(panda.names, panda.q, panda.qd), panda.names), panda.torque()) <= EXACT


def test_unknown_joints_are_ignored_and_counted(arm, panda):
    names, extra = [*panda.names, "a", "b", "c"], [0.0] * 3
    tau = efforts(arm.answered(names, [*panda.q, *extra], [*panda.qd, *extra]), panda.names)
    assert error(tau, panda.torque()) <= EXACT
    arm.diagnostic(lambda s: ("unknown joints in joint_states", "3") in {(v.key, v.value) for v in s.values})


def test_only_unknown_joints_move_nothing(arm, panda):
    arm.answered(panda.names, panda.q, panda.qd)
    assert arm.silent_for(0.3, lambda: arm.send_state(["x", "y"], [1.0, 2.0]))


def test_needed_joint_missing_is_silence_that_names_it(rig, panda):
    r = rig().serving()

    def send():
        r.send_state(panda.names[1:], panda.q[1:], panda.qd[1:])

    r.diagnostic(lambda s: s.message == "silent: never seen: panda_joint1", send=send)
    assert r.silent_for(0.5, send)


BAD_REFERENCES = {
    "no points": (trajectory(NAMES), "trajectory without points"),
    "duplicate": (trajectory(["panda_joint1"] * 2, point(qdd=[1, 1])), "joint 'panda_joint1' is named twice"),
    "unequal": (trajectory(NAMES, point(qdd=[1])), "point 0: 7 names but 1 entries in accelerations"),
    "NaN": (trajectory(NAMES, point(qdd=[np.nan] * 7)), "accelerations of 'panda_joint1' is nan"),
    "times": (trajectory(NAMES, point(0.5), point(0.5)), "time_from_start of point 1"),
}


@pytest.mark.parametrize("kind", BAD_REFERENCES)
def test_bad_reference_is_dropped_and_the_last_one_holds(rig, panda, kind):
    message, words = BAD_REFERENCES[kind]
    r = rig(parameters={"reference_timeout": 20.0})
    r.answered(panda.names, panda.q, panda.qd)
    r.until(lambda: r.references.get_subscription_count())
    r.send_reference(panda.names, point(qdd=panda.qdd))
    r.spin(0.1)
    r.references.publish(message)
    _, values, _ = r.diagnostic(lambda s: any(words in v.value for v in s.values))
    assert values["last drop"].startswith("reference: ")
    tau = efforts(r.answered(panda.names, panda.q, panda.qd), panda.names)
    assert error(tau, panda.torque(qdd=panda.qdd)) <= EXACT


def test_too_long_reference(arm, panda):
    arm.answered(panda.names, panda.q, panda.qd)
    arm.references.publish(trajectory([], *(point(0.01 * k) for k in range(100_001))))
    arm.diagnostic(lambda s: any("the limit is 100000" in v.value for v in s.values), timeout=30)


@pytest.mark.parametrize(
    "text, words",
    [
        ("<robot", "malformed XML"),
        ("", "malformed XML"),
        ('<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><robot>&x;</robot>', "DTD or an entity"),
        ("<robot name='r'><link name='a'/><link name='b'/></robot>", "without a parent joint: 'a', 'b'"),
    ],
)
def test_bad_description_leaves_the_last_good_model(arm, panda, text, words):
    arm.answered(panda.names, panda.q, panda.qd)
    arm.describe(text)
    message, values, level = arm.diagnostic(lambda s: words in s.message)
    assert level == b"\x01" and "the last good model serves" in message
    assert error(efforts(arm.answered(panda.names, panda.q, panda.qd), panda.names), panda.torque()) <= EXACT
    arm.describe(panda.robot.file.read_text())
    arm.diagnostic(lambda s: words not in s.message)


def test_parameters_still_work_after_a_bad_description(rig, panda):
    """Found by the fuzz test: the bad text was built again and the new value never used."""
    r = rig()
    r.answered(panda.names, panda.q, panda.qd)
    r.describe("<robot")
    r.diagnostic(lambda s: "malformed" in s.message)
    assert r.set_parameters(gravity=[0.0, 0.0, 0.0], solver="factor_graph", ordering="aba")[0]
    r.diagnostic(lambda s: ("algorithm", "aba") in {(v.key, v.value) for v in s.values})
    still = np.zeros(7)
    assert np.abs(efforts(r.answered(panda.names, panda.q, still), panda.names)).max() < 1e-12


def test_limits_are_checked_while_a_build_is_under_way(rig, panda):
    """Found by the fuzz test: the check was left out then."""
    r = rig()
    r.answered(panda.names, panda.q, panda.qd)
    assert r.set_parameters(solver="factor_graph")[0]
    ok, reason = r.set_parameters(effort_limits="list")
    assert not ok and "effort_limits_list has 0 entries" in reason


def test_a_first_description_refused_by_a_parameter_is_built_when_that_changes(rig, panda):
    r = rig(parameters={"joints": ["no_such_joint"]})
    r.diagnostic(lambda s: "unknown joint 'no_such_joint'" in s.message)
    assert r.set_parameters(joints=list(panda.names))[0]
    assert r.answered(panda.names, panda.q, panda.qd)


def test_hostile_names_reach_no_shell_and_no_file(rig, panda, tmp_path):
    mark = tmp_path / "mark"
    evil = f"$(touch {mark}); `touch {mark}` ../../{mark} '\"\\n %s {{}}"
    text = panda.robot.file.read_text().replace(
        "panda_joint1", evil.replace('"', "&quot;").replace("'", "&apos;")
    )
    r = rig(None)
    r.spin(1.0)
    r.describe(text)
    r.until(lambda: "8 joints" in r.process.output())
    assert not mark.exists()


def test_another_joint_set_stops_resizes_and_resumes(rig, panda, case):
    r = rig(None)
    r.describe(panda.robot.file.read_text())
    whole = case("panda")
    r.answered(whole.names, whole.q, whole.qd)
    other = case("ur5")
    r.describe(other.robot.file.read_text())
    r.until(lambda: "6 joints" in r.process.output())
    assert r.silent_for(0.3, lambda: r.send_state(whole.names, whole.q, whole.qd))
    tau = efforts(r.answered(other.names, other.q, other.qd), other.names)
    assert error(tau, other.torque()) <= EXACT
    assert len(r.torque_log[-1].effort) == 6


def test_a_description_while_one_is_built_wins(rig, panda, case):
    other = case("ur5")
    r = rig(None)
    r.spin(1.0)
    r.describe(panda.robot.file.read_text())
    r.spin(0.02)
    r.describe(other.robot.file.read_text())
    assert error(efforts(r.answered(other.names, other.q, other.qd), other.names), other.torque()) <= EXACT


def test_floating_joint_away_from_the_root_is_told(rig):
    text = """<robot name='r'><link name='a'/>
    <link name='b'><inertial><mass value='1'/><inertia ixx='1' ixy='0' ixz='0' iyy='1' iyz='0' izz='1'/></inertial></link>
    <link name='c'><inertial><mass value='1'/><inertia ixx='1' ixy='0' ixz='0' iyy='1' iyz='0' izz='1'/></inertial></link>
    <joint name='j' type='continuous'><parent link='a'/><child link='b'/></joint>
    <joint name='loose' type='floating'><parent link='b'/><child link='c'/></joint></robot>"""
    r = rig(None)
    r.describe(text)
    r.until(lambda: "1 joints" in r.process.output())
    assert r.silent_for(0.5, lambda: r.send_state(["j"], [0.1], [0.1]))
    assert "floating joint 'loose' is not at the root" in r.diagnostic(lambda s: "loose" in s.message)[0]
