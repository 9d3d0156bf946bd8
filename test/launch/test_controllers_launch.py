"""DynamicsFeedforward in a controller_manager with mock hardware, alone and behind joint_trajectory_controller."""

import json
import re
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ament_index_python", reason="ROS 2: source an installation, or use ./dev")
from ament_index_python.packages import PackageNotFoundError, get_package_prefix

PACKAGES = (
    "controller_manager",
    "joint_trajectory_controller",
    "joint_state_broadcaster",
    "dynamics_controllers",
)


def is_missing(package):
    try:
        get_package_prefix(package)
    except PackageNotFoundError:
        return True
    return False


if missing := [package for package in PACKAGES if is_missing(package)]:
    pytest.skip(
        f"{', '.join(missing)} not found: docs/how-to/control_loop.md has the commands",
        allow_module_level=True,
    )

import pinocchio
import rclpy
from control_msgs.action import FollowJointTrajectory
from control_msgs.msg import JointTolerance
from controller_manager_msgs.srv import ConfigureController, LoadController, SwitchController
from dynamics_interfaces.srv import SetPayload
from rclpy.action import ActionClient
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from dynamics_demo.panda import PANDA_JOINTS
from dynamics_demo.tracked_arm import CENTER, PAYLOAD, described

DEADLINE = 60.0  # s, far above any of the waits
BROADCASTER, TRAJECTORY = "joint_state_broadcaster", "joint_trajectory_controller"


def description():
    """The Panda of the demo with mock hardware at CENTER, which repeats efforts as its state."""
    joints = "".join(
        f'<joint name="{name}"><command_interface name="effort"/><state_interface name="effort"/>'
        f'<state_interface name="position"><param name="initial_value">{position}</param></state_interface>'
        '<state_interface name="velocity"/></joint>'
        for name, position in zip(PANDA_JOINTS, CENTER, strict=True)
    )
    plugin = "<hardware><plugin>mock_components/GenericSystem</plugin></hardware>"
    control = f'<ros2_control name="arm" type="system">{plugin}{joints}</ros2_control>'
    return re.sub("</robot>", f"{control}</robot>", described())


def parameters(law, interfaces):
    joints = list(PANDA_JOINTS)
    effort = law == "effort"
    types = {
        BROADCASTER: "joint_state_broadcaster/JointStateBroadcaster",
        TRAJECTORY: "joint_trajectory_controller/JointTrajectoryController",
        law: "dynamics_controllers/DynamicsFeedforward",
        "other": "dynamics_controllers/DynamicsFeedforward",
    }
    own = {
        "controller_manager": {"update_rate": 500, **{name: {"type": kind} for name, kind in types.items()}},
        law: {"joints": joints, "law": law, "gains": {name: {"p": 50.0, "d": 5.0} for name in joints}},
        "other": {"joints": joints, "library": "/nowhere/libpanda.so"},
        TRAJECTORY: {
            "joints": joints,
            "command_joints": [f"{law}/{name}" for name in joints],
            "command_interfaces": interfaces,
            "state_interfaces": ["position", "velocity"],
            "constraints": {"stopped_velocity_tolerance": 0.0},
        }
        | ({"gains": {name: {"p": 50.0, "d": 5.0, "i": 0.0} for name in joints}} if effort else {}),
    }
    return {name: {"ros__parameters": values} for name, values in own.items()}


class Manager:
    """ros2_control_node in a process of its own, and a node that uses its services."""

    def __init__(self, folder, law, interfaces):
        (folder / "parameters.yaml").write_text(json.dumps(parameters(law, interfaces)))  # JSON is YAML
        rclpy.init()
        self.node = rclpy.create_node("controllers_test")
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.urdf = description()
        self.node.create_publisher(String, "robot_description", latched).publish(String(data=self.urdf))
        self.efforts = []  # (7,) of all joint states
        self.node.create_subscription(JointState, "joint_states", self._receive, 1000)
        self.log = folder / "log"
        program = Path(
            get_package_prefix("controller_manager"), "lib", "controller_manager", "ros2_control_node"
        )
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [program, "--ros-args", "--params-file", folder / "parameters.yaml"], stdout=log, stderr=log
            )

    def _receive(self, message):
        at = [message.name.index(name) for name in PANDA_JOINTS]
        self.efforts.append(np.array(message.effort)[at])

    def call(self, kind, service, **request):
        client = self.node.create_client(kind, service)
        assert client.wait_for_service(timeout_sec=DEADLINE), self.log.read_text()
        return self.result(client.call_async(kind.Request(**request)))

    def result(self, future):
        rclpy.spin_until_future_complete(self.node, future, timeout_sec=DEADLINE)
        assert future.done(), self.log.read_text()
        return future.result()

    def load(self, name):
        """Whether the controller was configured."""
        assert self.call(LoadController, "controller_manager/load_controller", name=name).ok
        return self.call(ConfigureController, "controller_manager/configure_controller", name=name).ok

    def switch(self, activate=(), deactivate=()):
        strict = SwitchController.Request.STRICT
        answer = self.call(
            SwitchController, "controller_manager/switch_controller", strictness=strict,
            activate_controllers=list(activate), deactivate_controllers=list(deactivate),
        )  # fmt: skip
        assert answer.ok, self.log.read_text()

    def watch(self, count=200):
        """Efforts (count, 7) of the next states."""
        self.efforts.clear()
        end = time.monotonic() + DEADLINE
        while len(self.efforts) < count:
            assert time.monotonic() < end, self.log.read_text()
            rclpy.spin_once(self.node, timeout_sec=0.1)
        return np.array(self.efforts)

    def close(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(DEADLINE)
        self.node.destroy_node()
        rclpy.shutdown()


@pytest.fixture(params=["effort", "feedforward", "computed_torque"])
def law(request):
    return request.param


@pytest.fixture
def manager(tmp_path, law):
    own = Manager(tmp_path, law, ["effort"] if law == "effort" else ["position", "velocity", "acceleration"])
    yield own
    own.close()


def gravity(urdf, payload=False):
    """Gravity torques (7,) at CENTER by Pinocchio."""
    model = pinocchio.buildModelFromXML(urdf)
    if payload:
        hand = model.frames[model.getFrameId(PAYLOAD.link)]
        inertia = pinocchio.Inertia(PAYLOAD.mass, np.array(PAYLOAD.center), PAYLOAD.moment * np.eye(3))
        model.appendBodyToJoint(hand.parentJoint, inertia, hand.placement)
    return pinocchio.computeGeneralizedGravity(model, model.createData(), CENTER)


def follow(manager):
    """Send a trajectory that the mock hardware cannot follow; the error code of its end."""
    client = ActionClient(manager.node, FollowJointTrajectory, f"{TRAJECTORY}/follow_joint_trajectory")
    assert client.wait_for_server(timeout_sec=DEADLINE)
    point = JointTrajectoryPoint(positions=list(CENTER + 0.2), velocities=[0.0] * 7)
    point.time_from_start.sec = 1
    goal = FollowJointTrajectory.Goal(
        trajectory=JointTrajectory(joint_names=list(PANDA_JOINTS), points=[point])
    )
    goal.goal_time_tolerance.nanosec = 100_000_000
    goal.path_tolerance = [JointTolerance(name=name, position=0.1) for name in PANDA_JOINTS]
    handle = manager.result(client.send_goal_async(goal))
    assert handle.accepted
    return manager.result(handle.get_result_async()).result.error_code


def test_gravity_is_carried_through_the_life_of_a_trajectory(manager, law):
    expected = gravity(manager.urdf)
    assert manager.load(BROADCASTER) and manager.load(law) and manager.load(TRAJECTORY), (
        manager.log.read_text()
    )
    assert not manager.load("other")
    assert "/nowhere/libpanda.so" in manager.log.read_text()

    def deviation(count=200):
        return np.abs(manager.watch(count) - expected).max()

    manager.switch(activate=[BROADCASTER, law])
    manager.watch()
    assert deviation() < 1e-9  # without a preceding controller
    manager.switch(activate=[TRAJECTORY])
    assert deviation() < 1e-9  # the trajectory controller holds the position
    manager.efforts.clear()
    assert follow(manager) == FollowJointTrajectory.Result.PATH_TOLERANCE_VIOLATED
    moved = np.array(manager.efforts)
    assert np.abs(moved - expected).max() > 1.0  # it pulled
    assert np.abs(moved - expected).max() < 40.0  # gravity never left: at 0.1 rad the gains add 5 N m
    manager.watch(20)
    assert deviation() < 1e-9  # after the abort
    manager.efforts.clear()
    manager.switch(deactivate=[TRAJECTORY])
    manager.watch(20)
    assert deviation() < 1e-9  # without its preceding controller

    payload = SetPayload.Request(link=PAYLOAD.link)
    payload.inertia.m = PAYLOAD.mass
    payload.inertia.com.x, payload.inertia.com.y, payload.inertia.com.z = PAYLOAD.center
    payload.inertia.ixx = payload.inertia.iyy = payload.inertia.izz = PAYLOAD.moment
    client = manager.node.create_client(SetPayload, f"{law}/set_payload")
    assert client.wait_for_service(timeout_sec=DEADLINE)
    answer = manager.result(client.call_async(payload))
    assert answer.success, answer.message
    expected = gravity(manager.urdf, payload=True)
    manager.watch(20)
    assert deviation() < 1e-9
    payload.link = "elbow"
    assert "'elbow'" in manager.result(client.call_async(payload)).message

    manager.switch(deactivate=[law])
    manager.watch(20)
    assert deviation() < 1e-9  # the hardware keeps the gravity torques
    assert manager.process.poll() is None
