"""Trajectories as ROS writes them: messages, files, and what is not read."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from cart_pole import CART

import dynamics_node as dn
from dynamics_node.cli import main
from dynamics_node.io.motion_files import message_text
from dynamics_node.trajectory import joint_trajectory_of, read_joint_trajectory

TRAJECTORY = {
    "header": {"stamp": {"sec": 0, "nanosec": 0}, "frame_id": "world"},
    "joint_names": ["slide", "hinge"],
    "points": [
        {
            "positions": [0.1 * k, 0.0],
            "velocities": [0.0, 0.0],
            "accelerations": [],
            "effort": [],
            "time_from_start": {"sec": k, "nanosec": 500_000_000},
        }
        for k in range(3)
    ],
}
PLAN = {"joint_trajectory": TRAJECTORY, "multi_dof_joint_trajectory": {"joint_names": [], "points": []}}
START = {"joint_state": {"name": ["hinge", "slide"], "position": [0.3, 0.0]}, "is_diff": False}
MESSAGES = {
    "JointTrajectory": TRAJECTORY,
    "RobotTrajectory": PLAN,
    "DisplayTrajectory": {"model_id": "cart", "trajectory": [PLAN], "trajectory_start": START},
    "FollowJointTrajectory goal": {"trajectory": TRAJECTORY, "goal_tolerance": [], "goal_time_tolerance": {"sec": 1}},
    "ExecuteTrajectory goal": {"goal": {"trajectory": PLAN, "controller_names": []}, "goal_id": {"uuid": []}},
}  # fmt: skip


def as_objects(fields):
    """Messages with attributes, as rclpy has them."""
    if isinstance(fields, dict):
        return SimpleNamespace(**{name: as_objects(value) for name, value in fields.items()})
    return [as_objects(value) for value in fields] if isinstance(fields, list) else fields


@pytest.mark.parametrize("name", MESSAGES)
@pytest.mark.parametrize("text", [yaml.safe_dump, json.dumps, lambda own: yaml.safe_dump(own) + "---\n"])
def test_messages_with_a_trajectory(name, text, tmp_path):
    path = tmp_path / "message.yaml"
    path.write_text(text(MESSAGES[name]))
    for points in (
        read_joint_trajectory(path).points,
        joint_trajectory_of(MESSAGES[name]),
        joint_trajectory_of(as_objects(MESSAGES[name])),
    ):
        assert points.names == ("slide", "hinge") and points.time.tolist() == [0.5, 1.5, 2.5]
        assert points.q.tolist() == [[0.0, 0.0], [0.1, 0.0], [0.2, 0.0]]
        assert not points.qd.any() and np.isnan(points.qdd).all()


@pytest.mark.parametrize("stamp", [{"secs": 1, "nsecs": 250_000_000}, {"sec": "1", "nanosec": 2.5e8}, 1.25])
def test_durations(stamp):
    points = [{"positions": [0.0], "time_from_start": 0.0}, {"positions": [0.1], "time_from_start": stamp}]
    assert joint_trajectory_of({"joint_names": ["slide"], "points": points}).time.tolist() == [0.0, 1.25]


def test_a_checked_trajectory_is_read_again(tmp_path):
    check = dn.check_trajectory(dn.parse_robot(CART), TRAJECTORY, backend="numpy")
    path = tmp_path / "trajectory.yaml"
    path.write_text(message_text(check.message()))
    again, start = read_joint_trajectory(path)
    assert np.array_equal(again.q, check.trajectory.q) and np.array_equal(again.time, check.trajectory.time)
    assert again.names == check.trajectory.names and np.isnan(again.qdd).all() and not start


def point(**fields):
    return {**TRAJECTORY, "points": [TRAJECTORY["points"][0] | fields]}


@pytest.mark.parametrize(
    ("message", "match"),
    [
        (point(velocity=[0.0, 0.0]), "point 0: unknown field velocity"),
        (point(time=0.1), "point 0: unknown field time"),
        (point(time_from_start={"seconds": 1}), "point 0 needs time_from_start"),
        (point(time_from_start={"sec": 1, "nsec": 5}), "point 0 needs time_from_start"),
        (point(time_from_start={}), "point 0 needs time_from_start"),
        (point(positions=3.0), "point 0: positions"),
        (TRAJECTORY | {"points": [*TRAJECTORY["points"], "..."]}, "full-length"),
        (TRAJECTORY | {"point": []}, "unknown field point"),
        (TRAJECTORY | {"joint_names": "slide"}, "joint_names"),
        (PLAN | {"start": 1}, "unknown field start"),
        (PLAN | {"multi_dof_joint_trajectory": {"joint_names": ["base"], "points": []}}, "base"),
        ({"trajectory": [PLAN, PLAN]}, "2 trajectories"),
        ({"trajectory": []}, "0 trajectories"),
        ({"trajectory": [PLAN], "trajectory_start": {"joint_state": {"name": ["slide"]}}}, "trajectory_start"),
        ({"joints": ["slide"], "waypoints": []}, "there are joints, waypoints"),
    ],
)  # fmt: skip
def test_what_is_not_read_is_an_error(message, match, tmp_path):
    """No field is skipped, and no missing one is zero."""
    path = tmp_path / "message.json"
    path.write_text(json.dumps(message))
    with pytest.raises(dn.InputError, match=rf"{path}.*{match}"):
        read_joint_trajectory(path)


def test_a_file_has_one_message(tmp_path):
    path = tmp_path / "echo.yaml"
    for text, match in (
        (f"{TRAJECTORY}\n---\n{TRAJECTORY}\n", "2 messages"),
        ("---\n", "joint_names"),
        ("", "joint_names"),
    ):
        path.write_text(text)
        with pytest.raises(dn.InputError, match=rf"{path}.*{match}"):
            read_joint_trajectory(path)


def test_joints_that_a_plan_omits_rest_at_its_start(tmp_path, capsys):
    """The pole falls with 0.3 rad: the check has its effort."""
    robot, path = tmp_path / "cart_pole.urdf", tmp_path / "plan.yaml"
    robot.write_text(CART)
    rows = [{"positions": [0.1 * k], "velocities": [0.0], "time_from_start": {"sec": k}} for k in range(2)]
    plan = {"joint_trajectory": {"joint_names": ["slide"], "points": rows}}
    path.write_text(yaml.safe_dump({"trajectory": [plan], "trajectory_start": START}))
    peaks = []
    for options in ([], ["--q0", "0,0.3"], ["--q0", "0,0"]):
        assert main(["check", str(robot), str(path), "--json", *options]) == 0
        peaks.append(
            {own["name"]: own["peak_effort"] for own in json.loads(capsys.readouterr().out)["joints"]}[
                "hinge"
            ]
        )
    assert peaks[0] == peaks[1] > 1.1 * peaks[2]


def test_limits_of_a_fixed_joint(tmp_path, capsys):
    """A file of limits may have all joints of the description; those that do not exist are errors."""
    tool = '<link name="tool"/><joint name="flange" type="fixed"><parent link="cart"/><child link="tool"/></joint></robot>'
    robot, path, limits = (tmp_path / name for name in ("cart_pole.urdf", "plan.yaml", "joint_limits.yaml"))
    robot.write_text(CART.replace("</robot>", tool))
    path.write_text(yaml.safe_dump(TRAJECTORY))
    for name, code in (("flange", 1), ("flank", 3)):
        own = {"slide": {"max_velocity": 0.01}, name: {"max_velocity": 1.0, "max_effort": 1.0}}
        limits.write_text(yaml.safe_dump({"joint_limits": own}))
        assert main(["check", str(robot), str(path), "--limits", str(limits)]) == code
    assert "flank" in capsys.readouterr().err
