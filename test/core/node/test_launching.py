"""Arguments of the launch files, as far as they need no launch."""

import pytest

from dynamics_node.node.launching import description_parameters, list_text, refuse_unknown, xacro_mappings

ROS2 = ["/opt/ros/jazzy/bin/ros2", "launch"]
KNOWN = ("urdf", "rate")


@pytest.mark.parametrize(
    "line",
    [
        ["dynamics_node", "dynamics.launch.py"],
        ["dynamics_node", "dynamics.launch.py", "urdf:=a.urdf", "rate:=100"],
        ["install/share/dynamics_node/launch/dynamics.launch.py", "rate:=1", "--noninteractive"],
        ["my_robot", "bringup.launch.py", "sped:=3"],  # the other file's own
    ],
)
def test_known_arguments_and_those_of_other_files_pass(line):
    refuse_unknown("/somewhere/dynamics.launch.py", [*ROS2, *line], KNOWN)


def test_an_unknown_argument_is_refused_with_the_known_ones():
    line = [*ROS2, "dynamics_node", "dynamics.launch.py", "urdf:=a", "use_sim_tme:=true", "rat:=5"]
    with pytest.raises(ValueError) as raised:
        refuse_unknown("/somewhere/dynamics.launch.py", line, KNOWN)
    assert str(raised.value) == "dynamics.launch.py has no arguments use_sim_tme, rat; it has urdf, rate"


def test_lists_may_do_without_brackets():
    assert list_text("a, b") == "[a, b]"
    assert list_text(" [a, b]") == " [a, b]"


def test_arguments_of_a_xacro():
    assert xacro_mappings("") == {}
    assert xacro_mappings("name:=ur ur_type:=ur5e") == {"name": "ur", "ur_type": "ur5e"}
    assert xacro_mappings('tf:="a b" url:=x:=y empty:=') == {"tf": "a b", "url": "x:=y", "empty": ""}


@pytest.mark.parametrize("word", ["ur5e", ":=x", "a=b"])
def test_what_is_no_argument_of_a_xacro(word):
    with pytest.raises(ValueError, match="is not name:=value"):
        xacro_mappings(f"name:=ur {word}")


def test_a_description_file_is_a_parameter():
    assert description_parameters("", "") == {}
    assert description_parameters("a.urdf", "") == {"robot_description_file": "a.urdf"}
