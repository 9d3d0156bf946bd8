"""Parameter files: their effect on a robot, and errors that name the link, joint or line."""

import numpy as np
import pytest
from identified import Truth
from robots import LOOPS, ROBOTS
from two_links import ARM

import dynamics_node as dn
from dynamics_node.algorithms import smooth_friction
from dynamics_node.cli import main
from dynamics_node.errors import ModelError
from dynamics_node.identification import RegressorModel, identified_numbers, identified_robot, identified_text
from dynamics_node.robot import load_robot, parse_robot
from dynamics_node.robot.overrides import JointNumbers, Overrides, overrides_text, read_overrides
from dynamics_node.robot.state_arrays import sample_positions
from dynamics_node.robot.urdf_numbers import ALL_FIGURES, Dynamics, Inertial, with_numbers

ALL = ("inertia", "rotor", "viscous", "coulomb", "offset", "spring")
BODY = "{mass: 2, com: [0.1, 0, 0], inertia: {ixx: 1, ixy: 0, ixz: 0, iyy: 1, iyz: 0, izz: 1}}"


def other(robot):
    """Parameters of other bodies, with every term that a joint may have."""
    linear = RegressorModel(robot, ALL, "numpy")
    random = np.random.default_rng(2)
    parameters = linear.described.copy()
    parameters[linear.places("inertia")] = (
        Truth(robot, 1).parameters[linear.places("inertia")]
        if not hasattr(robot, "clusters")
        else 1.3 * parameters[linear.places("inertia")]
    )
    for term in ALL[1:]:
        low = -0.5 if term in ("offset", "spring") else 0.1
        parameters[linear.places(term)] += random.uniform(low, 1.0, len(linear.joints))
    return linear, parameters


def states(robot, count=20):
    random = np.random.default_rng(3)
    return sample_positions(robot, count, random, 1.0), *random.normal(size=(2, count, robot.nv))


@pytest.mark.parametrize("name", ["ur5", "panda", "tiago"])
def test_torques_with_a_file_match_the_regressor(name):
    """The regressor is independent of the file and the description."""
    robot = ROBOTS[name]
    linear, parameters = other(robot.model())
    numbers = identified_numbers(linear, parameters)
    again = parse_robot(robot.file.read_bytes(), parameters=overrides_text(numbers))
    q, qd, qdd = states(again)
    tau = dn.build(again, dn.inverse_dynamics(again), backend="numpy")(q, qd, qdd)
    tau += smooth_friction(qd, again.damping, again.friction) + again.torque_offsets
    at = [joint.v.start for joint in linear.joints]
    tau[:, at] += again.springs[at] * q[:, [joint.q.start for joint in linear.joints]]
    assert np.allclose(tau, linear.matrix(q, qd, qdd) @ parameters, atol=1e-9)


@pytest.mark.parametrize("factor", [0.9, 0.3, 0.02, "a small ball beside all of them"])
def test_links_without_inertia_are_read_back(factor):
    """A tool of 0.1 kg without inertia, on a hand identified as lighter, and one of 0.1 kg with inertia."""
    tool = '<link name="tool"><inertial><mass value="0.1"/><inertia ixx="0" ixy="0" ixz="0" iyy="0" iyz="0" '
    tool += 'izz="0"/></inertial></link><joint name="tip" type="fixed"><parent link="tool0"/>'
    tool += '<child link="tool"/><origin xyz="0.1 0 0.3"/></joint></robot>'
    second = tool.replace('"0"', '"0.001"').replace('ixy="0.001"', 'ixy="0"')
    second = second.replace('ixz="0.001"', 'ixz="0"').replace('iyz="0.001"', 'iyz="0"')
    second = second.replace('"tool"', '"grip"').replace('"tip"', '"bolt"')
    text = ROBOTS["ur5"].file.read_text().replace("</robot>", tool).replace("</robot>", second)
    linear = RegressorModel(parse_robot(text.encode()), ("inertia",), "numpy")
    target = linear.described.copy()
    if isinstance(factor, str):
        target[-10:] = 1e-5 * np.array([1.0, -0.2, 0, 0, 1e-4, 0, 0.0401, 0, 0, 0.0401])
    else:
        target[-10:] *= factor
    numbers = identified_numbers(linear, target)
    again = parse_robot(text.encode(), parameters=overrides_text(numbers))
    assert np.allclose(RegressorModel(again, ("inertia",), "numpy").described, target, atol=1e-12)
    same = parse_robot(identified_text(text, linear, target, ALL_FIGURES).encode())
    assert np.allclose(same.inertias, again.inertias, atol=1e-12)


def test_parameters_file_matches_the_corrected_description(tmp_path):
    robot = ROBOTS["ur5"]
    linear, parameters = other(robot.model())
    numbers = identified_numbers(linear, parameters)
    (tmp_path / "parameters.yaml").write_text(overrides_text(numbers))
    friction = {name: Dynamics(own.viscous, own.coulomb) for name, own in numbers.joints.items()}
    corrected = dn.parse_robot(with_numbers(robot.file.read_bytes(), numbers.links, friction, ALL_FIGURES))
    loaded = load_robot(robot.file, parameters_file=tmp_path / "parameters.yaml")
    assert np.allclose(loaded.inertias, corrected.inertias, rtol=0, atol=1e-13)
    assert np.array_equal(loaded.damping, corrected.damping)
    assert np.array_equal(loaded.friction, corrected.friction)
    assert np.allclose(loaded.armature, parameters[linear.places("rotor")], atol=0)
    straight = identified_robot(linear, parameters)
    for what in ("inertias", "damping", "friction", "armature", "springs", "torque_offsets"):
        assert np.allclose(getattr(straight, what), getattr(loaded, what), rtol=0, atol=1e-12), what


def test_written_numbers_are_read_back_exactly():
    random = np.random.default_rng(0)
    A = random.normal(size=(3, 3)) * 1e-7
    links = {"a: [b]": Inertial(A @ A.T, 1e-5 / 3, random.normal(size=3))}
    joints = {"# j": JointNumbers(1 / 3, None, 1e-300, 0.1, -2 / 7e22, 0.0), "": JointNumbers()}
    again = read_overrides(overrides_text(Overrides(links, joints)).encode())
    assert again.joints == joints and list(again.links) == list(links)
    for written, read in zip(links["a: [b]"], again.links["a: [b]"], strict=True):
        assert np.array_equal(written, read)
    assert read_overrides("links:\njoints: {}") == Overrides()


def test_missing_numbers_keep_their_values():
    before = dn.parse_robot(ARM)
    after = parse_robot(ARM, parameters="joints: {joint2: {viscous: 0.25}}")
    assert after.damping.tolist() == [before.damping[0], 0.25]
    assert np.array_equal(after.inertias, before.inertias)
    assert after.friction.tolist() == before.friction.tolist() and not after.springs.any()


def test_parameters_of_a_robot_with_loops():
    text = LOOPS["five_bar"]
    robot = parse_robot(text)
    linear, parameters = other(robot)
    numbers = identified_numbers(linear, parameters)
    again = parse_robot(text, parameters=overrides_text(numbers))
    assert np.allclose(again.tree.inertias, 1.3 * robot.tree.inertias, atol=1e-12)
    assert np.allclose(
        again.tree.springs[[j.v.start for j in linear.joints]], parameters[linear.places("spring")]
    )


@pytest.mark.parametrize(
    "text, message",
    [
        ("joints: {joint9: {}}", "no joint 'joint9'; it has 'joint1', 'joint2'"),
        ("links: {upper: %s}" % BODY.replace("izz: 1", "izz: -1"), "link 'upper': inertia is not positive"),  # noqa: UP031
        ("links: {upper: %s}" % BODY.replace("mass: 2", "mass: -2"), "link 'upper': mass -2.0 is negative"),  # noqa: UP031
        ("links: {upper: %s}" % BODY.replace("mass: 2", "mass: 1e999"), "link 'upper': mass is not finite"),  # noqa: UP031
        ("links: {upper: %s}" % BODY.replace("0.1", "1e16"), "link 'upper': inertial origin exceeds"),  # noqa: UP031
        ("joints: {joint1: {viscous: -1}}", "joint 'joint1': damping -1.0 is negative"),
        ("joints: {joint1: {creep: -1}}", "joint 'joint1': creep -1.0 is negative"),
        ("joints: {joint1: {spring: 1e999}}", "joint 'joint1': spring is not finite"),
        ("links: {upper: %s}" % BODY.replace("[0.1, 0, 0]", "secret"), "needs three numbers of com"),  # noqa: UP031
        ("joints: {joint1: {viscous: secret}}", "line 1, column 28 needs a number"),
        ("joints: {joint1: {secret: 1}}", "line 1, column 19 needs each once, of rotor, viscous, coulomb, creep"),
        ("joints: {joint1: {rotor: 1, rotor: 2}}", "line 1, column 29 needs each once"),
        ("links: {a: {}, a: {}}", "line 1, column 16 needs each name once"),
        ("", "the parameters file is empty"),
        ("# secret", "the parameters file is empty"),
        ("joints: [secret]", "line 1, column 9 needs names"),
        ("joints: {joint1: &secret {rotor: 1}, joint2: *secret}", "has an alias"),
        ("root:x:0:0:secret", "needs names"),
        ("#" * (4 * 1024 * 1024 + 1), "more than 4194304 bytes"),
    ],
)  # fmt: skip
def test_invalid_files_are_rejected(text, message):
    """The message has the name or the position, and no content of files that are no parameter files."""
    with pytest.raises(ModelError) as error:
        parse_robot(ARM, parameters=text)
    assert message in str(error.value) and "secret" not in str(error.value)


def test_springs_and_offsets_of_mimic_joints_act_on_the_master():
    """The torque on the master joint is the derivative of the total work."""
    text = ARM.replace('<axis xyz="0 1 0"/><limit velocity="5" effort="50"/>',
                       '<axis xyz="0 1 0"/><limit velocity="5" effort="50"/><mimic joint="joint1" multiplier="-2" offset="0.3"/>')  # fmt: skip
    robot = parse_robot(
        text, parameters="joints: {joint1: {spring: 2, offset: 3}, joint2: {spring: 5, offset: 7}}"
    )

    def work(q):
        follower = -2 * q + 0.3
        return 0.5 * 2 * q**2 + 3 * q + 0.5 * 5 * follower**2 + 7 * follower

    for q in (-0.4, 0.0, 0.7):
        tau = (work(q + 1e-5) - work(q - 1e-5)) / 2e-5
        assert abs(robot.torque_offsets[0] + robot.springs[0] * q - tau) < 1e-8


def test_evaluate_uses_a_parameters_file(tmp_path):
    robot = ROBOTS["ur5"]
    linear, parameters = other(robot.model())
    (tmp_path / "parameters.yaml").write_text(overrides_text(identified_numbers(linear, parameters)))
    q, qd, qdd = states(linear.robot)
    np.savez(tmp_path / "in.npz", q=q, qd=qd, qdd=qdd)
    arguments = ["--parameters", str(tmp_path / "parameters.yaml"), str(tmp_path / "in.npz")]
    assert main(["evaluate", str(robot.file), *arguments, "--output", str(tmp_path / "out.npz")]) == 0
    with np.load(tmp_path / "out.npz") as results:
        assert np.allclose(results["tau"], linear.matrix(q, qd, qdd) @ parameters, atol=1e-9)


COUPLED = """<link name="motor"><inertial><mass value="1e-9"/>
<inertia ixx="1e-9" ixy="0" ixz="0" iyy="1e-9" iyz="0" izz="1e-9"/></inertial></link>
<joint name="motor_joint" type="continuous"><parent link="base"/><child link="motor"/><axis xyz="0 1 0"/>
<limit velocity="9" effort="50"/></joint>
<coupling name="wrist"><predecessor link="motor"/><successor link="lower"/><ratio value="1"/></coupling></robot>"""


def test_motor_of_a_sum_of_joints_has_its_own_parameters(tmp_path):
    """A motor link is coupled to the second joint. Its rotor and friction act on the sum of both joints, are regressor
    columns, and can be set in a parameters file."""
    text, random = ARM.replace("</robot>", COUPLED), np.random.default_rng(5)
    robot, arm = dn.parse_robot(text), dn.parse_robot(ARM)
    linear = RegressorModel(robot, ("rotor", "viscous"), "numpy")
    q, qd, qdd = random.standard_normal((3, 50, 2))
    assert robot.q_names == ("joint1", "joint2")
    given = {"rotor": 0.3, "viscous": 2.0}
    torque = given["rotor"] * qdd.sum(axis=1) + given["viscous"] * qd.sum(axis=1)
    Y = linear.matrix(q, qd, qdd).reshape(100, -1)
    identified = np.linalg.lstsq(Y, np.column_stack([torque, torque]).ravel(), rcond=None)[0]
    expected = [given[name.split(".")[1]] if "motor" in name else 0.0 for name in linear.names]
    np.testing.assert_allclose(identified, expected, atol=1e-9)
    file = tmp_path / "parameters.yaml"
    file.write_text("joints: {motor_joint: {rotor: 0.3}}")
    (tmp_path / "arm.urdf").write_text(text)
    loaded = dn.load_robot(tmp_path / "arm.urdf", parameters_file=file)
    tau = dn.build(loaded, dn.inverse_dynamics(loaded), backend="numpy")(q, qd, qdd)
    own = dn.build(arm, dn.inverse_dynamics(arm), backend="numpy")(q, qd, qdd)
    np.testing.assert_allclose(tau - own, 0.3 * qdd.sum(axis=1)[:, None] * [1, 1], atol=1e-7)


def test_inertias_in_axes_of_a_quaternion():
    """with_numbers writes moments in the axes of the <inertial>, which a quaternion may give."""
    from urdf_text import INERTIAL, joint, link, robot

    turned = INERTIAL.replace("<origin ", '<origin quat_xyzw="0.1 0.5 -0.2 0.8" ')
    text = robot(link("a"), link("b", turned), joint("j", "a", "b"))
    moments = np.array([[0.03, 0.001, 0.002], [0.001, 0.02, 0.003], [0.002, 0.003, 0.01]])
    written = with_numbers(text, {"b": Inertial(moments)}, figures=ALL_FIGURES)
    again, before = (dn.parse_robot(own).bodies[0].inertia for own in (written, text))
    mass, com = 1.0, np.array([0.0, 0.0, 0.1])
    about_origin = moments + mass * (com @ com * np.eye(3) - np.outer(com, com))
    assert np.allclose(again[:3, :3], about_origin, atol=1e-12) and not np.allclose(before, again)
