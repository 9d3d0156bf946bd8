"""Motors that move several joints: transmissions of URDF and tendons of MJCF, against MuJoCo's tendons."""

import numpy as np
import pytest
from tolerances import EXACT

import dynamics_node as dn
from dynamics_node.algorithms import Actuation
from dynamics_node.robot.loading import read_description
from dynamics_node.robot.urdf_writer import urdf_text

LINK = (
    '<link name="{0}"><inertial><origin xyz=".02 -.01 .1"/><mass value="{1}"/>'
    '<inertia ixx=".03" iyy=".02" izz=".025" ixy="0" ixz="0" iyz="0"/></inertial></link>'
)
JOINT = (
    '<joint name="{0}" type="continuous"><parent link="{1}"/><child link="{2}"/>'
    '<origin xyz="0 0 .3"/><axis xyz="{3}"/></joint>'
)
ARM = "".join(
    [
        '<link name="base"/>',
        JOINT.format("shoulder", "base", "upper", "0 1 0"),
        LINK.format("upper", 3),
        JOINT.format("pitch", "upper", "fore", "1 0 0"),
        LINK.format("fore", 2),
        JOINT.format("roll", "fore", "hand", "0 1 0"),
        LINK.format("hand", 1),
    ]
)
OFFSETS, REDUCTIONS, MOTORS, ROTORS = (0.1, -0.2), (2.0, -3.0), (50.0, 40.0), (1e-4, 2e-4)
WEIGHTS = {  # of pitch and roll, by the formulas of ros2_control's transmission_interface
    "Differential": [[50.0 * 2.0, 50.0 * -3.0], [40.0 * 2.0, -40.0 * -3.0]],
    "FourBarLinkage": [[2.0 * 50.0, 0.0], [40.0, 40.0 * -3.0]],
}


def urdf(*more):
    return f'<robot name="arm">{ARM}{"".join(more)}</robot>'


def ros1(kind, order=1):
    """In the form of ROS 1; the roles have the numbers, so the order in the file has no meaning."""
    joints = [
        f'<joint name="{name}"><role>joint{k}</role><offset>{offset}</offset>'
        f"<mechanicalReduction>{reduction}</mechanicalReduction></joint>"
        for k, name, offset, reduction in zip((1, 2), ("pitch", "roll"), OFFSETS, REDUCTIONS, strict=True)
    ]
    motors = [
        f'<actuator name="m{k}"><role>actuator{k}</role><mechanicalReduction>{reduction}</mechanicalReduction>'
        f"<motorInertia>{rotor}</motorInertia></actuator>"
        for k, reduction, rotor in zip((1, 2), MOTORS, ROTORS, strict=True)
    ]
    parts = "".join([*joints[::order], *motors[::order]])
    kind = f"<type>transmission_interface/{kind}Transmission</type>"
    return f'<transmission name="wrist">{kind}{parts}</transmission>'


def ros2(kind):
    """In the form of ros2_control, with the rotors in Drake's elements."""
    joints = (
        f'<joint name="{name}" role="joint{k}"><offset>{offset}</offset>'
        f"<mechanical_reduction>{reduction}</mechanical_reduction></joint>"
        for k, name, offset, reduction in zip((1, 2), ("pitch", "roll"), OFFSETS, REDUCTIONS, strict=True)
    )
    motors = (
        f'<actuator name="m{k}" role="actuator{k}"><mechanical_reduction>{reduction}</mechanical_reduction>'
        f'<drake:rotor_inertia value="{rotor}"/></actuator>'
        for k, reduction, rotor in zip((1, 2), MOTORS, ROTORS, strict=True)
    )
    kind = f"<plugin>transmission_interface/{kind}Transmission</plugin>"
    parts = "".join([*joints, *motors])
    return (
        f'<ros2_control name="c" type="system"><transmission name="wrist">{kind}{parts}</transmission>'
        "</ros2_control>"
    )


FORMS = {"ROS 1": ros1, "roles": lambda kind: ros1(kind, -1), "ros2_control": ros2}


def mjcf(weights):
    """The same arm, with motors at tendons that have an armature."""
    inertial = '<inertial mass="{}" pos=".02 -.01 .1" diaginertia=".03 .02 .025"/>'
    tendons = "".join(
        f'<fixed name="t{k}" armature="{rotor}"><joint joint="pitch" coef="{a}"/><joint joint="roll" coef="{b}"/></fixed>'
        for k, rotor, (a, b) in zip((1, 2), ROTORS, weights, strict=True)
    )
    return f"""
    <mujoco><worldbody>
      <body name="upper" pos="0 0 .3"> <joint name="shoulder" axis="0 1 0"/> {inertial.format(3)}
        <body name="fore" pos="0 0 .3"> <joint name="pitch" axis="1 0 0"/> {inertial.format(2)}
          <body name="hand" pos="0 0 .3"> <joint name="roll" axis="0 1 0"/> {inertial.format(1)} </body>
      </body> </body>
    </worldbody>
    <tendon> {tendons} </tendon>
    <actuator> <motor name="m1" tendon="t1"/> <motor name="m2" tendon="t2"/> </actuator>
    </mujoco>"""


@pytest.fixture(params=[(kind, form) for kind in WEIGHTS for form in FORMS], ids=str)
def case(request):
    kind, form = request.param
    robot = dn.parse_robot(urdf(FORMS[form](kind)))
    assert robot.warnings == ()
    return robot, np.array(WEIGHTS[kind])


def states(robot, count=4):
    return np.random.default_rng(3).uniform(-2, 2, (count, 3, robot.nv))


# --- one transmission ---------------------------------------------------------------------------------------


def test_motors_turn_as_ros2_control_computes_them(case):
    robot, A = case
    for q, qd, _ in states(robot):
        motors = [motor.position(q)[0] for motor in robot.actuators]
        np.testing.assert_allclose(motors, A @ (q[1:] - OFFSETS), rtol=1e-13)
        np.testing.assert_allclose([motor.rate(qd)[0] for motor in robot.actuators], A @ qd[1:], rtol=1e-13)


def test_rotors_and_torques_are_those_of_mujoco(case):
    mujoco = pytest.importorskip("mujoco", reason="MuJoCo: pip install mujoco")
    robot, A = case
    model = mujoco.MjModel.from_xml_string(mjcf(A))
    data = mujoco.MjData(model)
    motors = Actuation(robot, ["m1", "m2"])
    for q, qd, qdd in states(robot):
        data.qpos, data.qvel, data.qacc = q, qd, qdd
        mujoco.mj_inverse(model, data)
        tau = dn.evaluate(robot, "inverse_dynamics", q, qd, qdd, backend="numpy")
        assert np.abs(tau - data.qfrc_inverse).max() < EXACT * np.abs(tau).max()
        data.ctrl = motors.from_coordinates(q, tau).torques
        mujoco.mj_forward(model, data)
        assert np.abs(data.qfrc_actuator - [0, *tau[1:]]).max() < EXACT * np.abs(tau).max()
        assert np.abs(motors.to_coordinates(q, data.ctrl) - data.qfrc_actuator).max() < EXACT


def test_forward_dynamics_inverts_it(case):
    robot, _ = case
    for backend in "numpy", "c":
        forward = dn.build(robot, "forward_dynamics", backend=backend)
        inverse = dn.build(robot, "inverse_dynamics", backend=backend)
        for q, qd, qdd in states(robot):
            assert np.abs(forward(q, qd, inverse(q, qd, qdd)) - qdd).max() < EXACT * np.abs(qdd).max()


def test_rotors_have_energy(case):
    robot, A = case
    bare = dn.parse_robot(urdf())
    for q, qd, _ in states(robot):
        more = 0.5 * np.sum(np.array(ROTORS) * (A @ qd[1:]) ** 2)
        with_rotors, without = (
            dn.evaluate(r, "kinetic_energy", q, qd, backend="numpy") for r in (robot, bare)
        )
        assert with_rotors - without == pytest.approx(more)


def test_they_can_be_switched_off():
    text, q = urdf(ros1("Differential")), np.array([0.1, 0.2, 0.3])
    off = dn.parse_robot(text, armature={"m1": 0.0, "m2": 0.0})
    bare = dn.parse_robot(urdf())
    M, expected = (dn.evaluate(r, "mass_matrix", q, backend="numpy") for r in (off, bare))
    assert np.array_equal(M, expected)
    assert [motor.name for motor in off.actuators] == ["m1", "m2"]


def test_a_parameters_file_replaces_them():
    text = urdf(ros1("Differential"))
    robot = dn.parse_robot(text, parameters="joints: {m2: {rotor: 0.003, viscous: 0.01}}")
    assert robot.armature.tolist() == [0, 0, 0, 1e-4, 0.003] and robot.damping[4] == 0.01
    with pytest.raises(dn.ModelError, match="m3"):
        dn.parse_robot(text, parameters="joints: {m3: {rotor: 0.003}}")


@pytest.mark.parametrize("kind", WEIGHTS)
def test_every_kind_is_written(kind):
    first = dn.parse_robot(urdf(ros1(kind)))
    again = dn.parse_robot(urdf_text(read_description(urdf(ros1(kind)))))
    assert np.allclose(first.joint_map, again.joint_map, rtol=1e-13, atol=0)
    assert np.array_equal(first.armature, again.armature)
    assert [motor.offset for motor in first.actuators] == pytest.approx(
        [motor.offset for motor in again.actuators]
    )


def test_a_selection_fixes_one_of_the_joints():
    robot = dn.parse_robot(urdf(ros1("Differential")), joints=["roll"], positions={"pitch": 0.5})
    A = np.array(WEIGHTS["Differential"])
    M = dn.evaluate(robot, "mass_matrix", [0.3], backend="numpy")
    bare = dn.parse_robot(urdf(), joints=["roll"], positions={"pitch": 0.5})
    expected = dn.evaluate(bare, "mass_matrix", [0.3], backend="numpy") + A[:, 1] ** 2 @ ROTORS
    assert M[0, 0] == pytest.approx(expected[0, 0], rel=1e-13)
    positions = [motor.position(np.array([0.3]))[0] for motor in robot.actuators]
    assert positions == pytest.approx((A @ (np.array([0.5, 0.3]) - OFFSETS)).tolist())


def test_rotors_can_change_without_a_build():
    robot = dn.parse_robot(urdf(ros1("Differential")))
    other = dn.with_parameters(robot, robot.inertias, np.array([0, 0, 0, 3e-4, 1e-4]))
    function = dn.build(robot, "mass_matrix", backend="numpy", runtime_parameters=["armature"])
    q = np.array([0.1, 0.2, 0.3])
    expected = dn.evaluate(other, "mass_matrix", q, backend="numpy")
    np.testing.assert_allclose(function.with_inertias(other)(q), expected, rtol=1e-12)


def test_solvers_for_chains_name_the_motors():
    with pytest.raises(dn.ModelError, match="m1"):
        dn.build(dn.parse_robot(urdf(ros1("Differential"))), "forward_dynamics", solver="jsiia")


# --- other transmissions ------------------------------------------------------------------------------------


def simple(more="", name="t"):
    return (
        f'<transmission name="{name}"><type>transmission_interface/SimpleTransmission</type>'
        '<joint name="roll"><offset>0.5</offset></joint>'
        f'<actuator name="motor"><mechanicalReduction>-50</mechanicalReduction>{more}</actuator></transmission>'
    )


def test_a_simple_one_has_its_rotor_at_the_joint():
    robot = dn.parse_robot(urdf(simple("<motorInertia>1e-4</motorInertia>")))
    assert robot.armature.tolist() == [0, 0, 0.25]
    (motor,) = robot.actuators
    assert motor.position(np.array([0, 0, 0.7]))[0] == pytest.approx(-50 * 0.2)
    tau = np.array([1.0, 2.0, 3.0])
    assert Actuation(robot, ["motor"]).from_coordinates(np.zeros(3), tau).torques == pytest.approx([-0.06])


def test_names_that_are_taken_get_that_of_the_transmission():
    robot = dn.parse_robot(urdf(simple(), simple(name="u"), simple().replace('name="motor"', 'name="roll"')))
    assert [motor.name for motor in robot.actuators] == ["motor", "u/motor", "t/roll"]


WRONG = {
    "two joints": (ros1("Simple"), "pitch"),
    "one motor": (ros1("Differential").replace('<actuator name="m2">', '<other name="m2">').replace(
        "</actuator></trans", "</other></trans"), "2 joints and 1 actuators"),
    "unknown joint": (ros1("Differential").replace('"roll"', '"ghost"'), "ghost"),
    "the same joint": (ros1("FourBarLinkage").replace('"roll"', '"pitch"'), "both joints"),
    "no reduction": (ros1("Differential").replace(">50.0<", ">0<"), "zero"),
    "a huge one": (ros1("Differential").replace(">50.0<", ">1e200<"), "'m1' is not between"),
    "a huge offset": (ros1("Differential").replace(">0.1<", ">1e20<"), "offset"),
    "another type": (ros1("Pr2Wrist"), "type is not known"),
    "no reduction of one joint": ('<transmission name="wrist"><joint name="roll"/><actuator name="m"><motorInertia>'
        "1e-4</motorInertia><mechanicalReduction>0</mechanicalReduction></actuator></transmission>", "'m' is zero"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_not_read_is_a_warning(name):
    text, words = WRONG[name]
    (warning,) = (robot := dn.parse_robot(urdf(text))).warnings
    assert "'wrist' is not read" in warning and words in warning
    assert robot.actuators == () and len(robot.armature) == 3


@pytest.mark.parametrize("wrong", ["nan", "1e400", "x", ""])
def test_words_that_are_no_numbers_are_errors(wrong):
    with pytest.raises(dn.ModelError, match="wrist"):
        dn.parse_robot(urdf(ros1("Differential").replace(">50.0<", f">{wrong}<")))


def test_a_negative_rotor_is_an_error():
    with pytest.raises(dn.ModelError, match="m1.*negative"):
        dn.parse_robot(urdf(ros1("Differential").replace(">0.0001<", ">-0.0001<")))


def test_the_node_publishes_torques_of_motors():
    outputs = pytest.importorskip("dynamics_node.node.ros.outputs", reason="ROS 2: see ./dev")
    from builtin_interfaces.msg import Time
    from plain import Served, settings

    served = Served(urdf(ros1("Differential"), simple()), settings(backend="numpy"))
    q, qd = np.array([0.3, -0.4, 0.5]), np.array([0.1, 0.2, 0.3])
    served.receive(("shoulder", "pitch", "roll"), q, qd)
    (row,) = (row for row in outputs.OUTPUTS if row.topic == "~/motor_torques")
    assert row.wanted(served.core)
    (message,) = row.writer(served.core)(served.solve(), Time())
    assert list(message.name) == ["m1", "m2", "motor"]
    A = np.array([*WEIGHTS["Differential"], [0.0, -50.0]])
    np.testing.assert_allclose(A.T @ message.effort, served.tau()[1:], rtol=1e-12)
    assert not row.wanted(Served(urdf(), settings(backend="numpy")).core)


def test_info_lists_the_motors(tmp_path, capsys):
    from dynamics_node.cli.commands import run

    file = tmp_path / "arm.urdf"
    file.write_text(urdf(ros1("Differential"), simple()))
    assert run(["info", str(file)]) == 0
    out = capsys.readouterr().out
    assert "+100 pitch -150 roll" in out and "0.0002" in out and "at the joint" in out
