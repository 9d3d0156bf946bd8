"""Invalid input on topics is dropped and reported, and the node continues. Every row of the table of bad input in
docs/reference/ros.md is in test/core/node (joint states and references: test_freshness, test_reference; descriptions and
parameters: test_robot_manager)."""

import pytest
from rig import efforts, point, trajectory
from tolerances import EXACT, error

NAN = float("nan")


@pytest.mark.parametrize(
    "change, reason",
    [
        (
            lambda n, q: (n, [*q[:-1], NAN]),
            "position of 'panda_joint7' is nan; exclude it with the parameter joints",
        ),
        (lambda n, q: ([f"x{k}" for k in range(10_001)], [0.0] * 10_001), "10001 names; the limit is 10000"),
    ],
    ids=["NaN", "many names"],
)
def test_an_invalid_joint_state_is_dropped(arm, panda, change, reason):
    arm.answered(panda.names, panda.q, panda.qd)
    bad = arm.send_state(*change(list(panda.names), list(panda.q + 0.3)))
    _, values, _ = arm.diagnostic(lambda s: any(reason in v.value for v in s.values))
    assert values["last drop"] == f"joint_states: {reason}"
    assert bad not in arm.torques
    # the message has no effect
    assert error(efforts(arm.answered(panda.names, panda.q, panda.qd), panda.names), panda.torque()) <= EXACT


def test_unknown_joints_are_ignored_and_counted(arm, panda):
    names, extra = [*panda.names, "a", "b", "c"], [0.0] * 3
    tau = efforts(arm.answered(names, [*panda.q, *extra], [*panda.qd, *extra]), panda.names)
    assert error(tau, panda.torque()) <= EXACT
    arm.diagnostic(lambda s: ("unknown joints in joint_states", "3") in {(v.key, v.value) for v in s.values})


def test_an_invalid_reference_is_dropped(arm, panda):
    arm.until(arm.references.get_subscription_count, what="discovery")
    arm.references.publish(trajectory(panda.names, point(qdd=[NAN] * 7)))
    _, values, _ = arm.diagnostic(lambda s: any("accelerations of" in v.value for v in s.values))
    assert values["last drop"] == "reference: point 0: accelerations of 'panda_joint1' is nan"


def test_a_reference_that_is_too_long_is_dropped(arm, panda):
    arm.answered(panda.names, panda.q, panda.qd)
    arm.references.publish(trajectory([], *(point(0.01 * k) for k in range(100_001))))
    arm.diagnostic(lambda s: any("the limit is 100000" in v.value for v in s.values))


def test_an_invalid_description_keeps_the_last_robot(arm, panda):
    arm.answered(panda.names, panda.q, panda.qd)
    arm.describe('<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><robot>&x;</robot>')
    message, values, level = arm.diagnostic(lambda s: "DTD or an entity" in s.message)
    assert level == b"\x01" and "the last valid robot is in use" in message
    assert error(efforts(arm.answered(panda.names, panda.q, panda.qd), panda.names), panda.torque()) <= EXACT
    arm.describe(panda.robot.file.read_text())
    arm.diagnostic(lambda s: "DTD or an entity" not in s.message)


def test_hostile_names_reach_neither_shell_nor_file(rig, panda, tmp_path):
    mark = tmp_path / "mark"
    hostile = f"$(touch {mark}); `touch {mark}` ../../mark '\"\\n %s {{}}"
    assert len(hostile) < 256  # longer names are rejected
    text = panda.robot.file.read_text().replace(
        "panda_joint1", hostile.replace('"', "&quot;").replace("'", "&apos;")
    )
    r = rig(None, {"backend": "auto"})
    r.describe(text)
    r.until(lambda: "8 joints" in r.process.output() and "(c)" in r.process.output(), what="compiled code")
    assert not mark.exists()


def test_a_robot_with_other_joints_replaces_the_last(rig, panda, case):
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
