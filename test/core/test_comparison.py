"""Whether two descriptions describe the same robot."""

import re
from dataclasses import replace

import numpy as np
import pytest
from coupled_motors import coupled_motors
from mjcf_texts import PENDULUM
from robots import robot_of

import dynamics_node as dn
from dynamics_demo.robots import five_bar, quadruped
from dynamics_node.robot.loading import read_description
from dynamics_node.robot.urdf_writer import urdf_text


def test_a_robot_is_itself():
    for robot in (robot_of("panda7"), robot_of("solo12"), dn.parse_robot(five_bar())):
        comparison = dn.compare(robot, robot)
        assert comparison.is_same
        assert not comparison.numbers
        assert not comparison.frames
        assert comparison.torques.max() == 0
        assert "same torques" in comparison.lines()[0]


def test_the_cause_of_a_difference():
    robot = robot_of("panda7")
    heavier = dn.with_payload(robot, "panda_link5", 0.3, [0, 0, 0], np.zeros((3, 3)))
    comparison = dn.compare(robot, heavier)
    assert not comparison.is_same
    assert (comparison.worst.link, comparison.worst.parameter) == ("panda_link5", "m")
    assert comparison.base_parameters
    assert all("panda_link" in one.of for one in comparison.base_parameters)
    (mass,) = [one for one in comparison.numbers if one.what == "mass"]
    assert mass.second - mass.first == pytest.approx(0.3)
    q, qd, qdd = comparison.worst.q, comparison.worst.qd, comparison.worst.qdd
    joint = robot.v_names.index(comparison.worst.joint)
    for each, torque in ((robot, comparison.worst.first), (heavier, comparison.worst.second)):
        assert dn.evaluate(each, "inverse_dynamics", q, qd, qdd, backend="numpy")[joint] == pytest.approx(
            torque
        )


def panda_with(pattern, text):
    """The Panda with a text in place of a part of its description."""
    before = dn.example_robot_file("panda").read_text()
    after, count = re.subn(pattern, text, before, count=1, flags=re.DOTALL)
    assert count == 1
    return dn.parse_robot(after)


JOINT = '(<joint name="panda_joint3".*?)'
CHANGES = {
    "axis": (JOINT + r'<axis xyz="0 0 1"\s*/>', r'\1<axis xyz="0 0.01 1"/>', "axis of panda_joint3 differs"),
    "origin": (
        '(<joint name="panda_joint4".*?)xyz="0.0825 0 0"', r'\1xyz="0.0835 0 0"',
        "origin of panda_joint4 differs",
    ),
    "rotor": (JOINT + r"<dynamics[^>]*>", r'\1<dynamics armature="0.3"/>', "by armature of panda_joint3"),
    "mass": (
        '(<link name="panda_link4">.*?<mass value=")[0-9.]+', r"\g<1>4.1", "by m of panda_link4",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_the_verdict_names_what_was_changed(name):
    robot_of("panda7")  # skips without the package
    pattern, text, words = CHANGES[name]
    comparison = dn.compare(dn.example_robot("panda"), panda_with(pattern, text))
    assert not comparison.is_same
    assert words in comparison.lines()[0]
    assert comparison.lines()[1].startswith("this is at q = ")


def test_rotors_of_motors_that_move_several_joints():
    text = coupled_motors()
    comparison = dn.compare(dn.parse_robot(text), dn.parse_robot(text.replace(">5e-05<", ">0.001<")))
    assert (comparison.worst.link, comparison.worst.parameter) == ("pitch_motor", "armature")
    (rotor,) = comparison.numbers
    assert rotor == ("rotor", "pitch_motor", 5e-5, 0.001, "kg m^2")


def test_a_description_and_the_one_that_mujoco_makes_of_it(tmp_path):
    mujoco = pytest.importorskip("mujoco", reason="MuJoCo: pip install mujoco")
    robot_of("panda7")  # skips without the package
    text = dn.example_robot_file("panda").read_text()
    spec = mujoco.MjSpec.from_string(re.sub(r"<(visual|collision)>.*?</\1>", "", text, flags=re.DOTALL))
    spec.compiler.fusestatic = False
    spec.compile()
    (tmp_path / "panda.xml").write_text(spec.to_xml())  # with six digits
    comparison = dn.compare(dn.example_robot("panda"), dn.load_robot(tmp_path / "panda.xml"))
    assert comparison.is_same, comparison.lines()


def test_a_description_and_its_identified_parameters(tmp_path, capsys):
    from dynamics_node.cli.commands import run

    first, numbers = tmp_path / "first.urdf", tmp_path / "parameters.yaml"
    first.write_text(coupled_motors())
    numbers.write_text("joints: {elbow: {rotor: 0.2, viscous: 0.3}, roll_motor: {rotor: 0.0001}}")
    assert run(["compare", str(first), str(first), "--parameters", str(numbers)]) == 1
    out = capsys.readouterr().out
    assert "armature of elbow" in out.splitlines()[0]
    assert "damping of elbow: 0.3 and 0" in out and "roll_motor" not in out


def test_names_and_the_order_of_joints_do_not_count():
    description = read_description(quadruped())
    turned = urdf_text(
        replace(description, joints=description.joints[::-1], couplings=description.couplings[::-1])
    )
    first = dn.parse_robot(quadruped(), floating_base=True)
    second = dn.parse_robot(turned.replace('"fl_', '"front_'), floating_base=True)
    assert second.v_names != first.v_names
    named = {
        name: name.replace("front_", "fl_")
        for name in (*second.frames, *(b.joint.name for b in second.bodies))
    }
    assert not dn.compare(first, second).is_comparable
    comparison = dn.compare(
        first, second, names={theirs: ours for theirs, ours in named.items() if theirs != ours}
    )
    assert comparison.is_same, comparison.lines()
    with pytest.raises(dn.InputError, match="mapping"):
        dn.compare(first, second, names="nothing")
    with pytest.raises(dn.InputError, match="nothing"):
        dn.compare(first, second, names={"nothing": "something"})


def test_other_frames_are_named():
    robot = robot_of("panda7")
    text = five_bar()
    first = dn.parse_robot(text)
    second = dn.parse_robot(text.replace('xyz="0', 'xyz="0.01', 1))
    comparison = dn.compare(first, second)
    assert comparison.frames or not comparison.is_same
    other = dn.compare(robot, first)
    assert not other.is_comparable
    assert other.torques.size == 0


def test_states_are_within_the_limits():
    from dynamics_node.identification.comparison import _states

    robot = robot_of("panda7")
    q, qd, _ = _states(robot)
    assert ((q >= robot.lower_position_limits) & (q <= robot.upper_position_limits)).all()
    assert (np.abs(qd) <= robot.velocity_limits).all()


def test_limits_and_friction_are_numbers_only():
    robot = robot_of("panda7")
    bodies = list(robot.bodies)
    joint = replace(bodies[2].joint, damping=3.0, limits=replace(bodies[2].joint.limits, effort=1.0))
    bodies[2] = replace(bodies[2], joint=joint)
    comparison = dn.compare(robot, replace(robot, bodies=tuple(bodies)))
    assert comparison.is_same
    assert {one.what for one in comparison.numbers} == {"damping", "effort limit"}


def test_the_command(tmp_path, capsys):
    from dynamics_node.cli.commands import run

    first, second = tmp_path / "first.urdf", tmp_path / "second.urdf"
    first.write_text(five_bar())
    second.write_text(five_bar().replace('"j', '"k'))
    page = tmp_path / "page.html"
    assert run(["compare", str(first), str(first), "-o", str(page)]) == 0
    assert "same torques" in capsys.readouterr().out
    assert "same torques" in page.read_text()
    assert run(["compare", str(first), str(second)]) == 1
    assert "not comparable" in capsys.readouterr().out
    assert run(["compare", str(first), str(second), "--names", "k*=j*"]) == 0
    assert run(["compare", str(first), str(second), "--names", "k1"]) == 2
    assert run(["compare", str(first), str(tmp_path / "absent.urdf")]) == 3


@pytest.mark.parametrize("places", [(0, 1), (1, 0), (1, 1)])
def test_xacro_at_both_places(places, tmp_path, capsys):
    """Arguments go to the files that are xacro."""
    pytest.importorskip("xacro", reason="pip install xacro")
    from dynamics_node.cli.commands import run

    file = tmp_path / "pendulum.urdf.xacro"
    file.write_text(PENDULUM)
    assert run(["convert", str(file), "-o", str(tmp_path / "heavy.urdf"), "--xacro", "mass:=3"]) == 0
    files = [str([tmp_path / "heavy.urdf", file][place]) for place in places]
    assert run(["compare", *files, "--xacro", "mass:=3"]) == 0
    assert run(["compare", *files]) == (0 if places == (1, 1) else 1)
    assert run(["compare", files[0], str(tmp_path / "heavy.urdf"), "--xacro", "mass:=2"]) == (
        1 if places[0] else 3
    )


def test_parameters_that_no_torque_shows_are_no_base_parameters():
    """A mass on the first link of an arm, on its vertical axis, changes no torque."""
    robot = robot_of("panda7")
    heavier = dn.with_payload(robot, "panda_link1", 1.0, [0, 0, 0.1], np.zeros((3, 3)))
    comparison = dn.compare(robot, heavier)
    assert comparison.is_same
    assert not comparison.base_parameters
    assert [one.of for one in comparison.numbers] == ["panda_link1"]
