"""Invalid input on topics is dropped and reported, and the node continues. Every row of the table of bad input in
docs/reference/ros.md is in test/core/node (joint states and references: test_freshness, test_reference; descriptions and
parameters: test_robot_manager). test_fuzz sends thousands of them."""

from rig import efforts
from tolerances import EXACT, error


def test_an_invalid_joint_state_is_dropped(arm, panda):
    arm.answered(panda.names, panda.q, panda.qd)
    bad = arm.send_state(panda.names, [*panda.q[:-1], float("nan")])
    _, values, _ = arm.diagnostic(lambda s: any("'panda_joint7' is nan" in v.value for v in s.values))
    assert values["last drop"].startswith("joint_states: position of 'panda_joint7'")
    assert bad not in arm.torques
    # the message has no effect
    assert error(efforts(arm.answered(panda.names, panda.q, panda.qd), panda.names), panda.torque()) <= EXACT


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
