"""Bad input on real topics: it is dropped, that is told, and the node goes on. Every row of the table of bad input in
docs/reference/ros.md is in test/core/node (joint states and references: test_freshness, test_reference; descriptions and
parameters: test_robot_manager)."""

import pytest
from rig import efforts, point, trajectory
from tolerances import EXACT, error

NAN = float("nan")


@pytest.mark.parametrize(
    "change, words",
    [
        (
            lambda n, q: (n, [*q[:-1], NAN]),
            "position of 'panda_joint7' is nan; the parameter joints can leave it out",
        ),
        (lambda n, q: ([f"x{k}" for k in range(10_001)], [0.0] * 10_001), "10001 names; the limit is 10000"),
    ],
    ids=["NaN", "many names"],
)
def test_a_bad_joint_state_is_dropped_whole(arm, panda, change, words):
    arm.answered(panda.names, panda.q, panda.qd)
    bad = arm.send_state(*change(list(panda.names), list(panda.q + 0.3)))
    _, values, _ = arm.diagnostic(lambda s: any(words in v.value for v in s.values))
    assert values["last drop"] == f"joint_states: {words}"
    assert bad not in arm.torques
    # nothing of it was kept
    assert error(efforts(arm.answered(panda.names, panda.q, panda.qd), panda.names), panda.torque()) <= EXACT


def test_unknown_joints_are_ignored_and_counted(arm, panda):
    names, extra = [*panda.names, "a", "b", "c"], [0.0] * 3
    tau = efforts(arm.answered(names, [*panda.q, *extra], [*panda.qd, *extra]), panda.names)
    assert error(tau, panda.torque()) <= EXACT
    arm.diagnostic(lambda s: ("unknown joints in joint_states", "3") in {(v.key, v.value) for v in s.values})


def test_a_bad_reference_is_dropped(arm, panda):
    arm.until(arm.references.get_subscription_count, what="discovery")
    arm.references.publish(trajectory(panda.names, point(qdd=[NAN] * 7)))
    _, values, _ = arm.diagnostic(lambda s: any("accelerations of" in v.value for v in s.values))
    assert values["last drop"] == "reference: point 0: accelerations of 'panda_joint1' is nan"


def test_too_long_reference(arm, panda):
    arm.answered(panda.names, panda.q, panda.qd)
    arm.references.publish(trajectory([], *(point(0.01 * k) for k in range(100_001))))
    arm.diagnostic(lambda s: any("the limit is 100000" in v.value for v in s.values))


def test_a_bad_description_leaves_the_last_good_model(arm, panda):
    arm.answered(panda.names, panda.q, panda.qd)
    arm.describe('<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><robot>&x;</robot>')
    message, values, level = arm.diagnostic(lambda s: "DTD or an entity" in s.message)
    assert level == b"\x01" and "the last good model serves" in message
    assert error(efforts(arm.answered(panda.names, panda.q, panda.qd), panda.names), panda.torque()) <= EXACT
    arm.describe(panda.robot.file.read_text())
    arm.diagnostic(lambda s: "DTD or an entity" not in s.message)


def test_hostile_names_reach_no_shell_and_no_file(rig, panda, tmp_path):
    mark = tmp_path / "mark"
    evil = f"$(touch {mark}); `touch {mark}` ../../{mark} '\"\\n %s {{}}"
    text = panda.robot.file.read_text().replace(
        "panda_joint1", evil.replace('"', "&quot;").replace("'", "&apos;")
    )
    r = rig(None, {"backend": "auto"})
    r.describe(text)
    r.until(lambda: "8 joints" in r.process.output() and "(c)" in r.process.output(), what="compiled code")
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
