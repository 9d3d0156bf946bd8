"""The wrench of a sensor at a fixed or movable joint agrees with the wrench that Pinocchio's joint transmits."""

import pickle

import numpy as np
import pytest
from robots import ROBOTS, closed_states, random_states
from sensed import JointWrench, pin
from tolerances import EXACT, error

import dynamics_node as dn
from dynamics_demo.robots import five_bar
from dynamics_node.robot.subtree import subtree

SENSOR = {"xyz": (0.02, -0.01, 0.05), "rpy": (0.3, -0.4, 0.5)}
CASES = [
    ("panda7", "panda_hand_joint"),  # the fingers are merged as well
    ("panda", "panda_joint8"),  # with fingers, one of which mimics the other
    ("panda", "panda_joint4"),  # a movable joint
    ("ur5", "ee_fixed_joint"),  # massless
    ("ur5", "wrist_3_joint"),
    ("xarm7", "joint4"),
    ("baxter", "right_hand_joint"),  # mimic
    ("tiago_pro", "arm_left_tool_joint"),  # a gripper of four fingers, mimic
    ("tiago", "wrist_ft_joint"),  # a whole hand
]


def existing(name, joint):
    model = ROBOTS[name].model()
    known = {body.joint.name for body in model.bodies} | {
        frame.fixed_joint for frame in model.frames.values()
    }
    assert joint in known, sorted(known)
    return model


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("name, joint", CASES)
def test_wrench_agrees_with_pinocchio(name, joint, backend):
    model = existing(name, joint)
    q, qd, qdd, _ = random_states(model, 5, seed=3)
    oracle = JointWrench(ROBOTS[name], model, joint)
    expected = np.array([oracle(*state, **SENSOR) for state in zip(q, qd, qdd, strict=True)])
    function = dn.build(model, "sensor_wrench", backend=backend, joint=joint, **SENSOR)
    assert error(function(q, qd, qdd), expected).max() <= EXACT
    assert error(function(q[0], qd[0], qdd[0]), expected[0]) <= EXACT
    assert np.array_equal(pickle.loads(pickle.dumps(function))(q, qd, qdd), function(q, qd, qdd))


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_only_payloads_in_the_subtree_count(backend):
    """Payloads need no compilation."""
    joint, COM, MOMENTS = "panda_hand_joint", np.array([0.02, -0.03, 0.1]), np.diag([0.02, 0.03, 0.025])
    model = ROBOTS["panda7"].model()
    q, qd, qdd, _ = (a[0] for a in random_states(model, 1, seed=4))
    function = dn.build(
        model, "sensor_wrench", backend=backend, runtime_parameters=["inertia"], joint=joint, **SENSOR
    )
    oracle = JointWrench(ROBOTS["panda7"], model, joint)
    bare = oracle(q, qd, qdd, **SENSOR)
    before = dn.with_payload(model, "panda_link7", 2.0, COM, MOMENTS)
    assert error(function.with_inertias(before)(q, qd, qdd), bare) <= EXACT
    loaded = dn.with_payload(before, "panda_hand_tcp", 1.5, COM, MOMENTS)
    tcp = oracle.pin.frames[oracle.pin.getFrameId("panda_hand_tcp")]
    oracle.pin.inertias[tcp.parentJoint] += tcp.placement.act(pin.Inertia(1.5, COM, MOMENTS))
    expected = oracle(q, qd, qdd, **SENSOR)
    assert (
        error(expected, bare) > 0.1 and error(function.with_inertias(loaded)(q, qd, qdd), expected) <= EXACT
    )


def test_ankle_of_a_floating_robot_measures_the_foot():
    """At rest the force is the weight of the subtree of the ankle."""
    model = ROBOTS["talos"].model()
    q = np.tile(model.neutral(), (1, 1))
    joint = "leg_left_6_joint"
    wrench = dn.build(model, "sensor_wrench", joint=joint)(q, np.zeros((1, model.nv)), np.zeros(model.nv))
    mass = subtree(model, joint).inertia[5, 5]
    assert mass > 0 and np.allclose(np.linalg.norm(wrench[0, 3:]), 9.81 * mass)


def test_sensor_below_the_whole_robot():
    """A sensor between the root and a link fixed to it measures the weight of the whole robot."""
    model = dn.parse_robot(
        """<robot name="r"><link name="world"/>
        <link name="base"><inertial><mass value="3"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>
        </inertial></link><link name="arm"><inertial><origin xyz="1 0 0"/><mass value="2"/>
        <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
        <joint name="scale" type="fixed"><origin xyz="0 0 1"/><parent link="world"/><child link="base"/></joint>
        <joint name="turn" type="continuous"><axis xyz="0 0 1"/><parent link="base"/><child link="arm"/></joint>
        </robot>"""
    )
    for backend in ("numpy", "c"):
        wrench = dn.build(model, "sensor_wrench", backend=backend, joint="scale")([np.pi / 2], [2.0], [0.0])
        assert np.allclose(wrench, [2 * 9.81, 0, 0, 0, -2 * 4, 5 * 9.81])  # about the base: arm out along y


THROWER = """
<robot name="thrower"><link name="base"/>
<link name="arm"><inertial><origin xyz="0.3 0 0"/><mass value="2"/>
<inertia ixx="0.02" ixy="0" ixz="0" iyy="0.06" iyz="0" izz="0.06"/></inertial></link><link name="cup"/>
<link name="stone"><inertial><origin xyz="0 0.1 0"/><mass value="3"/>
<inertia ixx="0.02" ixy="0" ixz="0" iyy="0.03" iyz="0" izz="0.04"/></inertial></link>
<joint name="shoulder" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 1 0"/>
<limit lower="-3" upper="3" velocity="5" effort="50"/></joint>
<joint name="rim" type="fixed"><parent link="arm"/><child link="cup"/><origin xyz="0.6 0 0"/></joint>
<joint name="flight" type="floating"><parent link="cup"/><child link="stone"/></joint></robot>"""


def test_what_hangs_on_an_inner_free_joint_counts():
    """As in the torques of inverse dynamics and in the reactions, of joints above and of the fixed joint."""
    robot = dn.parse_robot(THROWER)
    random = np.random.default_rng(0)
    q, qd, qdd = robot.neutral(), *random.normal(size=(2, robot.nv))
    q[:4] = random.normal(size=4)
    wrench = dn.evaluate(robot, "sensor_wrench", q, qd, qdd, joint="shoulder", backend="numpy")
    reactions = dn.evaluate(robot, "reaction_wrenches", q, qd, qdd, backend="numpy")
    tau = dn.evaluate(robot, "inverse_dynamics", q, qd, qdd, backend="numpy")
    np.testing.assert_allclose(wrench, reactions[0], atol=1e-12)
    assert wrench[1] == pytest.approx(tau[0])
    rim = dn.evaluate(robot, "sensor_wrench", q, qd, qdd, joint="rim", backend="numpy")
    np.testing.assert_allclose(np.linalg.norm(rim[3:]), np.linalg.norm(reactions[1][3:]))
    assert np.linalg.norm(rim[3:]) > 1.0


def test_joint_bridged_by_a_loop_raises_an_error():
    mechanism = dn.parse_robot(five_bar())
    with pytest.raises(dn.ModelError, match="'j1'.*bridged"):
        dn.build(mechanism, "sensor_wrench", joint="j1")


@pytest.mark.parametrize("parameters", [(), ("inertia",)])
def test_sensor_below_a_linkage(parameters):
    """A sensor below a five-bar: its weight at rest, and compiled results equal to those of the tree."""
    mechanism = dn.parse_robot(five_bar())
    plain, compiled = (
        dn.build(mechanism, "sensor_wrench", backend=backend, runtime_parameters=parameters, joint="mount")
        for backend in ("numpy", "c")
    )
    q = closed_states(mechanism, 1)[0][0]
    qd, qdd = np.array([0.7, -0.4]), np.array([1.1, 0.3])
    assert error(compiled(q, qd, qdd), plain(q, qd, qdd)) <= EXACT
    weight = 9.81 * sum(frame.inertia[5, 5] for frame in mechanism.frames.values())
    assert np.linalg.norm(compiled(q, 0 * qd, 0 * qd)[3:]) == pytest.approx(weight)


def test_unknown_joints_are_named():
    with pytest.raises(KeyError, match="'wrist'.*panda_hand_joint"):
        dn.build(ROBOTS["panda7"].model(), "sensor_wrench", joint="wrist")


def test_inertias_of_links_add_up_to_the_body():
    model = ROBOTS["pr2"].model()
    model = dn.with_payload(model, list(model.frames)[-1], 1.0, np.zeros(3), np.eye(3))
    total = np.zeros((model.nbodies, 6, 6))
    for frame in model.frames.values():
        if frame.body >= 0:
            total[frame.body] += frame.X.T @ frame.inertia @ frame.X
    assert error(total.reshape(-1), model.inertias.reshape(-1)) <= EXACT
