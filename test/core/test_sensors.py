"""Records of sensors, from Python and from files: what they may be, and what is said if they are not."""

import pickle

import numpy as np
import pytest
from urdf_text import joint, link, robot

import dynamics_node as dn
from dynamics_demo.robots import four_bar
from dynamics_node.robot import sensors as s
from dynamics_node.robot.sensors.sensors_file import MAX_BYTES


def gripper():
    """An arm link, two fingers of which one mimics the other, and a flange that is fixed."""
    mimic = '<axis xyz="0 0 1"/><mimic joint="left" multiplier="-2"/>'
    return dn.parse_robot(
        robot(
            link("base"), link("arm"), link("l"), link("r"), link("flange"),
            joint("shoulder", "base", "arm"), joint("left", "arm", "l"), joint("right", "arm", "r", extra=mimic),
            joint("mount", "arm", "flange", kind="fixed"),
        )
    )  # fmt: skip


# --- records ------------------------------------------------------------------------------------------------


def test_sequences_become_tuples_and_names_have_defaults():
    sensor = s.Imu("torso", std=np.full(6, 0.1), xyz=[0, 0, 1])
    assert sensor.std == (0.1,) * 6
    assert sensor.xyz == (0.0, 0.0, 1.0)
    assert sensor.name == "torso imu"
    assert hash(sensor) == hash(s.Imu("torso", std=[0.1] * 6, xyz=(0, 0, 1)))
    assert pickle.loads(pickle.dumps(sensor)) == sensor


def test_zero_and_unknown_wrenches_need_no_noise():
    assert s.ExternalWrench("foot", rows="unknown").std == 0.0
    with pytest.raises(dn.SensorError, match="'foot wrench'.*std"):
        s.ExternalWrench("foot", rows=("measured", *5 * ["zero"]))


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({}, "either as std .0.0: exact. or as covariance"),
        ({"std": 1.0, "covariance": np.eye(6)}, "either as std"),
        ({"std": -1.0}, "not negative"),
        ({"std": 1e-300}, "deviation of 1e-300 is not between 1e-12 and 1e.12, nor 0"),
        ({"covariance": 1e-300 * np.eye(6)}, "deviation of 1e-150 is not between"),
        ({"std": [1.0, np.nan]}, "finite"),
        ({"std": "much"}, "std must be"),
        ({"covariance": np.ones((6, 6))}, "not positive definite"),
        ({"covariance": np.eye(6) - 2 * np.eye(6)[0]}, "not"),
        ({"covariance": np.triu(np.ones((6, 6))) + 6 * np.eye(6)}, "not symmetric"),
        ({"covariance": np.eye(6)[:5]}, "square"),
        ({"covariance": np.full((6, 6), np.inf)}, "finite"),
        ({"covariance": [[1, 2], [3]]}, "square"),
        ({"std": 1.0, "xyz": (0, 1)}, "xyz must be 3 numbers, not 2"),
        ({"std": 1.0, "rpy": (0, 1, np.inf)}, "rpy must be a sequence of finite"),
        ({"std": 1.0, "value": np.nan}, "value must be"),
    ],
)
def test_a_sensor_that_cannot_be_is_named(wrong, said):
    with pytest.raises(dn.SensorError, match=said) as error:
        s.Imu("torso", name="back", **wrong)
    assert "'back'" in str(error.value)


@pytest.mark.parametrize("rows", [("measured",) * 5, "all", ("measured",) * 5 + ("known",)])
def test_rows_of_a_wrench_are_six_roles(rows):
    with pytest.raises(dn.SensorError, match="'foot wrench': rows must be 6"):
        s.ExternalWrench("foot", std=1.0, rows=rows)


# --- with a robot -------------------------------------------------------------------------------------------


def test_readings_are_named_in_order():
    rows = ("zero", "unknown", "measured", "zero", "zero", "measured")
    problem = dn.sensor_problem(
        gripper(),
        [
            s.JointTorque("left", std=0.1),
            s.ForceTorque("mount", measures="parent_to_child", std=0.1, name="ft"),
            s.JointAcceleration("right", std=0.1, value=0.0),
            s.ExternalWrench("l", std=0.1, rows=rows),
        ],
    )
    six = [f"ft.{row}" for row in ("mx", "my", "mz", "fx", "fy", "fz")]
    assert list(problem.readings) == ["left torque", *six, "l wrench.mz", "l wrench.fz"]
    assert problem.reads(gripper())["readings"] == (9,)
    assert problem.places == (slice(0, 1), slice(1, 7), None, slice(7, 9))
    assert hash(problem) == hash(dn.sensor_problem(gripper(), problem.sensors))


@pytest.mark.parametrize(
    "sensor, said",
    [
        (s.JointTorque("elbow", std=1), "'elbow torque': joint 'elbow' is unknown.*shoulder"),
        (s.JointTorque("mount", std=1), "'mount torque': joint 'mount' is unknown or does not move"),
        (s.JointTorque("right", std=1), "'right torque': joint 'right' follows 'left'"),
        (s.ForceTorque("elbow", measures="parent_to_child", std=1), "'elbow force torque': unknown joint .*mount"),
        (s.Gyro("hand", std=1), "'hand gyro': unknown link 'hand'.*flange"),
        (s.Imu("base", std=1), "'base imu': link 'base' is fixed to the root"),
        (s.ExternalWrench("base", std=1), "'base wrench': link 'base' is fixed to the root"),
        (s.Gyro("arm", std=0.0), "'arm gyro': .*cannot be exact"),
        (s.Imu("arm", std=(1, 1, 0, 1, 1, 1)), "'arm imu': .*cannot be exact"),
        (s.Imu("arm", std=(1, 1, 1)), "'arm imu': it has 6 rows, but std is 3 numbers"),
        (s.JointTorque("left", covariance=np.eye(2)), "'left torque': it has 1 rows, but its covariance is 2 x 2"),
        (s.ExternalWrench("l", std=1, value=(1, 2)), "'l wrench': it has 6 rows, but value is 2 numbers"),
        ("imu", "is no sensor"),
    ],
)  # fmt: skip
def test_a_sensor_that_fits_no_robot_is_named(sensor, said):
    with pytest.raises(dn.SensorError, match=said):
        dn.sensor_problem(gripper(), [sensor])


def test_a_sensor_twice():
    twice = [s.JointTorque("left", std=1), s.JointTorque("left", std=2)]
    with pytest.raises(dn.SensorError, match="'left torque' is there twice.*name"):
        dn.sensor_problem(gripper(), twice)
    dn.sensor_problem(gripper(), [twice[0], s.JointTorque("left", std=2, name="again")])
    rows = [s.Gyro("l", std=1, name="a"), s.JointTorque("left", std=1, name="a.wx")]
    with pytest.raises(dn.SensorError, match="'a.wx' is there twice"):
        dn.sensor_problem(gripper(), rows)


def test_nothing_drives_floating_and_dependent_joints():
    floating = dn.parse_robot(robot(link("a")), floating_base=True)
    with pytest.raises(dn.SensorError, match="nothing drives floating joint 'floating_base'"):
        dn.sensor_problem(floating, [s.JointTorque("floating_base", std=1)])
    linkage = dn.parse_robot(four_bar())
    own = {joint.name for joint in linkage.independent_joints}
    other = next(body.joint.name for body in linkage.bodies if body.joint.name not in own)
    with pytest.raises(dn.SensorError, match=f"'{other} torque'.*follows from a loop.*{own.pop()}"):
        dn.sensor_problem(linkage, [s.JointTorque(other, std=1)])


def test_a_robot_that_does_not_move():
    rigid = dn.parse_robot(robot(link("a"), link("b"), joint("j", "a", "b", kind="fixed")))
    with pytest.raises(dn.SensorError, match="robot 'r' has no joint that moves"):
        dn.sensor_problem(rigid, [s.ForceTorque("j", measures="parent_to_child", std=1)])


def test_covariances_are_asked_by_name():
    assert dn.sensor_problem(gripper(), [], ["tau", "qdd"]).covariance == ("qdd", "tau")
    with pytest.raises(ValueError, match="qdd, tau, f_ext, not of q"):
        dn.sensor_problem(gripper(), [], ["q"])


def test_readings_by_name():
    problem = dn.sensor_problem(
        gripper(), [s.JointTorque("left", std=1), s.Gyro("l", std=1), s.Gyro("r", std=1, value=0)]
    )
    found = problem.gathered({"l gyro": np.ones((5, 3)), "left torque": 2.0})
    np.testing.assert_array_equal(found, np.tile([2.0, 1, 1, 1], (5, 1)))
    for given, said in (
        ({"left torque": 1.0}, "'l gyro' has no reading; with readings: left torque"),
        ({"l gyro": [1, 2, 3]}, "'left torque' has no reading"),
        ({"l gyro": [1, 2, 3], "left torque": 1, "r gyro": 1}, "no sensor 'r gyro' is read"),
        ({"l gyro": [1, 2], "left torque": 1}, "'l gyro': its reading has 3 rows, but the array is .2,."),
        ({"l gyro": "high", "left torque": 1}, "'l gyro': its reading is not an array of numbers"),
    ):
        with pytest.raises(dn.SensorError, match=said):
            problem.gathered(given)


# --- files --------------------------------------------------------------------------------------------------

TEXT = """
sensors:
  - {type: imu, name: back, link: torso, xyz: [0, 0, 0.1], std: [1e-3, 1e-3, 1e-3, 0.05, 0.05, 0.05]}
  - type: torque
    joint: [l_knee, r_knee]
    std: 0.5
  - {type: wrench, link: foot, rows: [measured, measured, unknown, measured, zero, zero], std: 1, value: 0}
  - {type: acceleration, joint: hip, covariance: [[1e-4]]}
"""


def test_sensors_from_a_file(tmp_path):
    file = tmp_path / "sensors.yaml"
    file.write_text(TEXT)
    rows = ("measured", "measured", "unknown", "measured", "zero", "zero")
    assert dn.load_sensors(file) == (
        s.Imu("torso", name="back", xyz=(0, 0, 0.1), std=(1e-3, 1e-3, 1e-3, 0.05, 0.05, 0.05)),
        s.JointTorque("l_knee", std=0.5),
        s.JointTorque("r_knee", std=0.5),
        s.ExternalWrench("foot", rows=rows, std=1.0, value=0.0),
        s.JointAcceleration("hip", covariance=[[1e-4]]),
    )


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "needs sensors: a list"),
        ("[]", "needs sensors: a list.*line 1, column 1"),
        ("sensors: 3", "needs sensors: a list"),
        ("sensors: []\nmore: 1", "a list, and nothing else"),
        ("sensors: [1]", "a list of mappings .line 1, column 11"),
        ("sensors:\n- {type: nose}", "line 2, column 3: a sensor needs a type, one of torque"),
        ("sensors:\n- {link: a}", "line 2, column 3: a sensor needs a type"),
        ("sensors:\n- {type: [imu]}", "line 2, column 3: a sensor needs a type"),
        ("sensors:\n- {type: imu, std: 1}", "line 2, column 3: a sensor of type imu needs link"),
        ("sensors:\n- {type: torque, joint: [], std: 1}", "a sensor of type torque needs joint"),
        ("sensors:\n- {type: force_torque, joint: a, std: 1}", "a sensor of type force_torque needs measures"),
        ("sensors:\n- {type: force_torque, joint: a, std: 1, measures: up}", "'a force torque': measures must be one"),
        ("sensors:\n- type: imu\n  nose: 1", "line 3, column 9: this field is not one of a sensor of type imu"),
        ("sensors:\n- {type: imu, link: a, std: 1, std: 2}", "line 2, column 32: this field is there twice"),
        ("sensors:\n- {type: imu, link: a, std: b}", "line 2, column 29: std is a number or a list"),
        ("sensors:\n- {type: imu, link: a, std: {b: 1}}", "std is a number or a list"),
        ("sensors:\n- {type: imu, link: [a], std: 1}", "link is one word"),
        ("sensors:\n- {type: torque, joint: [a, b], name: c, std: 1}", "with a name is at one joint"),
        ("sensors:\n- {type: torque, joint: [[a]], std: 1}", "joint is a word or a list"),
        ("sensors:\n- {type: imu, link: a, std: -1}", "line 2, column 3: sensor 'a imu': .*not negative"),
        ("sensors:\n- {type: imu, link: a, covariance: [[1, 2], [2, 1]]}", "'a imu': .*not positive definite"),
        ("a: &a 1\nsensors: *a", "an alias .line 2, column 10"),
        ("sensors: {[a]: b}", "no YAML of words: line 1, column 11"),
        ("sensors: [", "is no YAML: line 1"),
        ("[" * 10_000, "no YAML"),
        ("\0", "is no YAML"),
        ("#" * (MAX_BYTES + 1), "more than"),
    ],
)  # fmt: skip
def test_what_a_file_of_sensors_may_not_be(text, said):
    with pytest.raises(dn.SensorError, match=said):
        s.parse_sensors(text)


def test_a_file_that_is_no_file(tmp_path):
    with pytest.raises(OSError, match="no regular file"):
        dn.load_sensors(tmp_path)
