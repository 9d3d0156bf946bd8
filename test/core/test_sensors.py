"""Records of sensors from Python and from files: valid values and error messages."""

import pickle

import numpy as np
import pytest
from urdf_text import joint, link, robot

import dynamics_node as dn
from dynamics_demo.robots import four_bar
from dynamics_node.robot import sensors as s
from dynamics_node.robot.sensors.sensors_file import MAX_BYTES


def gripper():
    """An arm link, two fingers of which one mimics the other, and a fixed flange."""
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


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({}, "std.*covariance"),
        ({"std": 1.0, "covariance": np.eye(6)}, "either"),
        ({"std": -1.0}, "negative"),
        ({"std": 1e-300}, "1e-300.*1e-12.*1e.12"),
        ({"covariance": 1e-300 * np.eye(6)}, "1e-150"),
        ({"std": [1.0, np.nan]}, "finite"),
        ({"std": "much"}, "std "),
        ({"covariance": np.ones((6, 6))}, "positive definite"),
        ({"covariance": np.eye(6) - 2 * np.eye(6)[0]}, "not"),
        ({"covariance": np.triu(np.ones((6, 6))) + 6 * np.eye(6)}, "symmetric"),
        ({"covariance": np.eye(6)[:5]}, "square"),
        ({"covariance": np.full((6, 6), np.inf)}, "finite"),
        ({"covariance": [[1, 2], [3]]}, "square"),
        ({"std": 1.0, "xyz": (0, 1)}, "xyz.* 3 .*2"),
        ({"std": 1.0, "rpy": (0, 1, np.inf)}, "rpy.*finite"),
        ({"std": 1.0, "value": np.nan}, "value "),
    ],
)
def test_invalid_sensor_is_named(wrong, message):
    with pytest.raises(dn.SensorError, match=message) as error:
        s.Imu("torso", name="back", **wrong)
    assert "'back'" in str(error.value)


@pytest.mark.parametrize("rows", [(), "all", ("mx", "fx", "mx"), ("mx", "known")])
def test_rows_of_a_wrench_are_its_components(rows):
    with pytest.raises(dn.SensorError, match="'foot wrench'.*rows"):
        s.ExternalWrench("foot", std=1.0, rows=rows)


# --- with a robot -------------------------------------------------------------------------------------------


def test_readings_are_named_in_order():
    pads = [dn.Contact("l", "surface"), dn.Contact("flange", other="r")]
    problem = dn.sensor_problem(
        gripper(),
        [
            s.JointTorque("left", std=0.1),
            s.ForceTorque("mount", measures="parent_to_child", std=0.1, name="ft"),
            s.JointAcceleration("right", std=0.1, value=0.0),
            s.ExternalWrench("l", std=0.1, rows=("mz", "fz")),
        ],
        contacts=pads,
    )
    six = [f"ft.{row}" for row in ("mx", "my", "mz", "fx", "fy", "fz")]
    assert list(problem.readings) == ["left torque", *six, "l wrench.mz", "l wrench.fz"]
    assert problem.reads(gripper())["readings"] == (9,)
    assert problem.places == (slice(0, 1), slice(1, 7), None, slice(7, 9))
    assert problem.contacts == tuple(pads)
    assert hash(problem) == hash(dn.sensor_problem(gripper(), problem.sensors, contacts=pads))


@pytest.mark.parametrize(
    "sensor, message",
    [
        (s.JointTorque("elbow", std=1), "'elbow torque'.*'elbow'.*shoulder"),
        (s.JointTorque("mount", std=1), "'mount torque'.*'mount'"),
        (s.JointTorque("right", std=1), "'right torque'.*'right'.*'left'"),
        (s.ForceTorque("elbow", measures="parent_to_child", std=1), "'elbow force torque'.*'elbow'.*mount"),
        (s.Gyro("hand", std=1), "'hand gyro'.*'hand'.*flange"),
        (s.Imu("base", std=1), "'base imu'.*'base'.*fixed"),
        (s.ExternalWrench("base", std=1), "'base wrench'.*'base'.*fixed"),
        (s.ExternalWrench("r", std=1), "'r wrench'.*'r'.*contact.*'surface'"),
        (s.Gyro("arm", std=0.0), "'arm gyro'.*exact"),
        (s.Imu("arm", std=(1, 1, 0, 1, 1, 1)), "'arm imu'.*exact"),
        (s.Imu("arm", std=(1, 1, 1)), "'arm imu'.* 6 rows.*std.* 3 "),
        (s.JointTorque("left", covariance=np.eye(2)), "'left torque'.* 1 rows.*covariance.* 2 x 2"),
        (s.ExternalWrench("l", std=1, value=(1, 2)), "'l wrench'.* 6 rows.*value.* 2 "),
        ("imu", "is not a sensor"),
    ],
)  # fmt: skip
def test_sensor_that_does_not_fit_the_robot_is_named(sensor, message):
    with pytest.raises(dn.SensorError, match=message):
        dn.sensor_problem(gripper(), [sensor], contacts=[dn.Contact("l", "surface")])


def test_duplicate_sensors_are_rejected():
    twice = [s.JointTorque("left", std=1), s.JointTorque("left", std=2)]
    with pytest.raises(dn.SensorError, match="'left torque'.*twice"):
        dn.sensor_problem(gripper(), twice)
    dn.sensor_problem(gripper(), [twice[0], s.JointTorque("left", std=2, name="again")])
    rows = [s.Gyro("l", std=1, name="a"), s.JointTorque("left", std=1, name="a.wx")]
    with pytest.raises(dn.SensorError, match="'a.wx'.*twice"):
        dn.sensor_problem(gripper(), rows)


def test_floating_and_dependent_joints_have_no_torque_sensors():
    floating = dn.parse_robot(robot(link("a")), floating_base=True)
    with pytest.raises(dn.SensorError, match="'floating_base'"):
        dn.sensor_problem(floating, [s.JointTorque("floating_base", std=1)])
    linkage = dn.parse_robot(four_bar())
    own = {joint.name for joint in linkage.independent_joints}
    other = next(body.joint.name for body in linkage.bodies if body.joint.name not in own)
    with pytest.raises(dn.SensorError, match=f"'{other} torque'.*loop.*{own.pop()}"):
        dn.sensor_problem(linkage, [s.JointTorque(other, std=1)])


def test_robot_without_joints_is_rejected():
    rigid = dn.parse_robot(robot(link("a"), link("b"), joint("j", "a", "b", kind="fixed")))
    with pytest.raises(dn.SensorError, match="'r'.*no joint"):
        dn.sensor_problem(rigid, [s.ForceTorque("j", measures="parent_to_child", std=1)])


def test_covariances_are_requested_by_name():
    assert dn.sensor_problem(gripper(), [], ["tau", "qdd"]).covariance == ("qdd", "tau")
    with pytest.raises(ValueError, match="qdd, tau, f_ext.* q"):
        dn.sensor_problem(gripper(), [], ["q"])


def test_readings_are_gathered_by_name():
    problem = dn.sensor_problem(
        gripper(), [s.JointTorque("left", std=1), s.Gyro("l", std=1), s.Gyro("r", std=1, value=0)]
    )
    readings = problem.gathered({"l gyro": np.ones((5, 3)), "left torque": 2.0})
    np.testing.assert_array_equal(readings, np.tile([2.0, 1, 1, 1], (5, 1)))
    for given, message in (
        ({"left torque": 1.0}, "'l gyro'.*left torque"),
        ({"l gyro": [1, 2, 3]}, "'left torque'.*reading"),
        ({"l gyro": [1, 2, 3], "left torque": 1, "r gyro": 1}, "'r gyro'"),
        ({"l gyro": [1, 2], "left torque": 1}, "'l gyro'.* 3 rows.*.2,."),
        ({"l gyro": "high", "left torque": 1}, "'l gyro'.*array of numbers"),
    ):
        with pytest.raises(dn.SensorError, match=message):
            problem.gathered(given)


def test_force_sensor_inside_a_loop_is_rejected():
    text = """<robot name="r"><link name="base"/>{}
    <loop name="tie" type="revolute"><predecessor link="base"><origin xyz="1 0 0"/></predecessor>
    <successor link="c"><origin xyz="1 0 0"/></successor><axis xyz="0 0 1"/></loop></robot>"""
    inertial = (
        '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    )
    parts = []
    for k, (name, parent, kind) in enumerate(
        [("a", "base", "revolute"), ("b", "a", "revolute"), ("c", "b", "revolute"), ("d", "c", "fixed")]
    ):
        parts.append(
            f'<link name="{name}">{inertial}</link><joint name="j{name}" type="{kind}"><parent link="{parent}"/>'
            f'<child link="{name}"/><origin xyz="{0.2 + 0.3 * k} 0.1 0"/><axis xyz="0 0 1"/>'
            '<limit lower="-1" upper="1" effort="1" velocity="1"/></joint>'
        )
    mechanism = dn.parse_robot(text.format("".join(parts)))
    with pytest.raises(dn.SensorError, match="'jd force torque'.*'tie'"):
        dn.sensor_problem(mechanism, [s.ForceTorque("jd", measures="parent_to_child", std=1)])
    dn.sensor_problem(mechanism, [s.ForceTorque("jb", measures="parent_to_child", std=1)])


# --- files --------------------------------------------------------------------------------------------------

TEXT = """
sensors:
  - {type: imu, name: back, link: torso, xyz: [0, 0, 0.1], std: [1e-3, 1e-3, 1e-3, 0.05, 0.05, 0.05]}
  - type: torque
    joint: [l_knee, r_knee]
    std: 0.5
  - {type: wrench, link: foot, rows: [mx, my, fx], std: 1, value: 0}
  - {type: acceleration, joint: hip, covariance: [[1e-4]]}
"""


def test_sensors_from_a_file(tmp_path):
    file = tmp_path / "sensors.yaml"
    file.write_text(TEXT)
    assert dn.load_sensors(file) == (
        s.Imu("torso", name="back", xyz=(0, 0, 0.1), std=(1e-3, 1e-3, 1e-3, 0.05, 0.05, 0.05)),
        s.JointTorque("l_knee", std=0.5),
        s.JointTorque("r_knee", std=0.5),
        s.ExternalWrench("foot", rows=("mx", "my", "fx"), std=1.0, value=0.0),
        s.JointAcceleration("hip", covariance=[[1e-4]]),
    )


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "sensors"),
        ("[]", "sensors.*line 1, column 1"),
        ("sensors: 3", "sensors"),
        ("sensors: []\nmore: 1", "nothing else"),
        ("sensors: [1]", "mappings.*line 1, column 11"),
        ("sensors:\n- {type: nose}", "line 2, column 3.*type.*torque"),
        ("sensors:\n- {link: a}", "line 2, column 3.*type"),
        ("sensors:\n- {type: [imu]}", "line 2, column 3.*type"),
        ("sensors:\n- {type: imu, std: 1}", "line 2, column 3.*imu.*link"),
        ("sensors:\n- {type: torque, joint: [], std: 1}", "torque.*joint"),
        ("sensors:\n- {type: force_torque, joint: a, std: 1}", "force_torque.*measures"),
        ("sensors:\n- {type: force_torque, joint: a, std: 1, measures: up}", "'a force torque'.*measures"),
        ("sensors:\n- type: imu\n  nose: 1", "line 3, column 9.*field.*imu"),
        ("sensors:\n- {type: imu, link: a, std: 1, std: 2}", "line 2, column 32.*twice"),
        ("sensors:\n- {type: imu, link: a, std: b}", "line 2, column 29.*std"),
        ("sensors:\n- {type: imu, link: a, std: {b: 1}}", "std "),
        ("sensors:\n- {type: imu, link: [a], std: 1}", "link.*word"),
        ("sensors:\n- {type: torque, joint: [a, b], name: c, std: 1}", "name.*one joint"),
        ("sensors:\n- {type: torque, joint: [[a]], std: 1}", "joint.*word"),
        ("sensors:\n- {type: imu, link: a, std: -1}", "line 2, column 3.*'a imu'.*negative"),
        ("sensors:\n- {type: imu, link: a, covariance: [[1, 2], [2, 1]]}", "'a imu'.*positive definite"),
        ("a: &a 1\nsensors: *a", "alias.*line 2, column 10"),
        ("sensors: {[a]: b}", "scalar.*line 1, column 11"),
        ("sensors: [", "YAML.*line 1"),
        ("[" * 10_000, "YAML"),
        ("\0", "YAML"),
        ("#" * (MAX_BYTES + 1), "more than"),
    ],
)  # fmt: skip
def test_invalid_sensor_files_are_rejected(text, message):
    with pytest.raises(dn.SensorError, match=message):
        s.parse_sensors(text)


def test_folder_is_no_sensor_file(tmp_path):
    with pytest.raises(OSError, match="regular file"):
        dn.load_sensors(tmp_path)
