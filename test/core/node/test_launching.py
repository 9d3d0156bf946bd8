"""Arguments of the launch files, and the parameters of the nodes, with fake modules of launch."""

import runpy
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from dynamics_node.node.core import settings
from dynamics_node.node.estimator import estimator_settings
from dynamics_node.node.launching import (
    SOURCES,
    description_parameters,
    list_text,
    reject_unknown,
    xacro_mappings,
)

ROS2 = ["/opt/ros/jazzy/bin/ros2", "launch"]
KNOWN = ("urdf", "rate")


@pytest.mark.parametrize(
    "line",
    [
        ["dynamics_node", "dynamics.launch.py"],
        ["dynamics_node", "dynamics.launch.py", "urdf:=a.urdf", "rate:=100"],
        ["install/share/dynamics_node/launch/dynamics.launch.py", "rate:=1", "--noninteractive"],
        ["my_robot", "bringup.launch.py", "sped:=3"],  # of the other file
    ],
)
def test_known_arguments_and_arguments_of_other_files_pass(line):
    reject_unknown("/somewhere/dynamics.launch.py", [*ROS2, *line], KNOWN)


def test_an_unknown_argument_is_rejected_with_the_known_ones():
    line = [*ROS2, "dynamics_node", "dynamics.launch.py", "urdf:=a", "use_sim_tme:=true", "rat:=5"]
    with pytest.raises(ValueError) as raised:
        reject_unknown("/somewhere/dynamics.launch.py", line, KNOWN)
    assert str(raised.value) == "dynamics.launch.py has no arguments use_sim_tme, rat; known: urdf, rate"


def test_lists_may_omit_brackets():
    assert list_text("a, b") == "[a, b]"
    assert list_text(" [a, b]") == " [a, b]"


def test_xacro_arguments_are_parsed():
    assert xacro_mappings("") == {}
    assert xacro_mappings("name:=ur ur_type:=ur5e") == {"name": "ur", "ur_type": "ur5e"}
    assert xacro_mappings('tf:="a b" url:=x:=y empty:=') == {"tf": "a b", "url": "x:=y", "empty": ""}


@pytest.mark.parametrize("word", ["ur5e", ":=x", "a=b"])
def test_an_invalid_xacro_argument_is_rejected(word):
    with pytest.raises(ValueError, match="name:=value"):
        xacro_mappings(f"name:=ur {word}")


def test_a_description_file_is_a_parameter():
    assert description_parameters("", "") == {}
    assert description_parameters("a.urdf", "") == {"robot_description_file": "a.urdf"}


# --- the files of both nodes ----------------------------------------------------------------------------------

FOLDER = Path(__file__).parents[3] / "launch"
FAKE_MODULES = {  # the used parts of launch, which is not on PyPI; test/launch uses the real package
    "ament_index_python.packages": {"get_package_share_directory": lambda name: f"/share/{name}"},
    "launch.actions": {
        "DeclareLaunchArgument": lambda name, default_value, description: (name, default_value),
        "OpaqueFunction": lambda function: function,
    },
    "launch.launch_description": {"LaunchDescription": lambda entities: entities},
    "launch.substitutions": {
        "LaunchConfiguration": lambda name: SimpleNamespace(perform=lambda context: context[name]),
        "TextSubstitution": lambda text: text,
    },
    "launch_ros.actions": {"Node": lambda **options: options},
    "launch_ros.parameter_descriptions": {"ParameterValue": lambda value, value_type: (value, value_type)},
}


@pytest.fixture
def launch_file(monkeypatch):
    """launch_file(name): defaults of its arguments, and the function from {argument: text} to nodes."""
    for name, content in FAKE_MODULES.items():
        for part in (name.partition(".")[0], name):
            monkeypatch.setitem(sys.modules, part, ModuleType(part))
        vars(sys.modules[name]).update(content)

    def run(name):
        *declared, make = runpy.run_path(FOLDER / name)["generate_launch_description"]()
        return dict(declared), make

    return run


@pytest.mark.parametrize(
    "name, executable", [("dynamics", "dynamics_node"), ("estimator", "dynamics_estimator")]
)
def test_arguments_reach_the_node(launch_file, name, executable):
    """Arguments have the types of the parameters; others keep the values of the parameter file."""
    defaults, make = launch_file(f"{name}.launch.py")
    (node,) = make(defaults)
    everything = f"/share/dynamics_node/config/{name}.yaml"
    assert (node["executable"], node["namespace"], node["parameters"]) == (executable, "", [everything])
    assert (FOLDER.parent / "config" / f"{name}.yaml").is_file()
    given = {"urdf": "a.urdf", "joints": "a, b", "rate": "100", "use_sim_time": "true", "namespace": "left"}
    (node,) = make(defaults | given)
    assert node["namespace"] == "left"
    typed = {"robot_description_file": ("a.urdf", str), "joints": ("[a, b]", list[str])}
    typed |= {"rate": ("100", float), "use_sim_time": ("true", bool)}
    assert node["parameters"] == [everything, typed]


@pytest.mark.parametrize("name, of", [("dynamics", settings), ("estimator", estimator_settings)])
def test_the_arguments_are_parameters_of_the_node(launch_file, name, of):
    defaults, _ = launch_file(f"{name}.launch.py")
    assert defaults.keys() - {p.name for p in of.PARAMETERS} == {*SOURCES, "use_sim_time"}
