"""Parameters of rclpy in this process: types, values of the command line, dump and load of `ros2 param`."""

from pathlib import Path

import pytest

rclpy = pytest.importorskip("rclpy", reason="ROS 2: source an installation, or use ./dev")

from rcl_interfaces.msg import Parameter as ParameterMessage
from rclpy.context import Context
from rclpy.node import Node
from rclpy.parameter import Parameter, parameter_dict_from_yaml_file
from rig import fresh_domain

from dynamics_node.node.core.consistency import read_settings
from dynamics_node.node.core.settings import PARAMETERS
from dynamics_node.node.ros.robot_node import declare_parameters, parameter_values

CONFIG = Path(__file__).parents[2] / "config" / "dynamics.yaml"
NAMES = [parameter.name for parameter in PARAMETERS]


@pytest.fixture
def declared():
    """declared(command line words...): a node with the table declared."""
    context, nodes = Context(), []
    rclpy.init(context=context, domain_id=fresh_domain().number)

    def make(*words):
        arguments = ["--ros-args", *words] if words else None
        nodes.append(Node("declared", context=context, cli_args=arguments, enable_rosout=False))
        declare_parameters(nodes[-1])
        return nodes[-1]

    yield make
    for node in nodes:
        node.destroy_node()
    rclpy.shutdown(context=context)


def given(**values):
    """Words of a command line; double underscores stand for dots."""
    return [word for name, text in values.items() for word in ("-p", f"{name.replace('__', '.')}:={text}")]


def test_every_parameter_has_a_value_of_its_type(declared):
    """If a requested parameter has no value, rclpy returns none at all: `ros2 param dump` wrote {}."""
    values = declared().get_parameters(NAMES)
    assert [value.value for value in values] == [parameter.default for parameter in PARAMETERS]


def test_dumped_parameters_can_be_loaded(declared):
    """ros2 param dump writes the values in YAML, load infers their types: [] could be any."""
    source = declared(*given(rate=50, joints="[a, b]", fixed__joints="[c]", fixed__positions="[1]"))
    target = declared(*given(rate=50, joints="[a, b]", fixed__joints="[c]", fixed__positions="[1]"))
    for name in NAMES:
        value = source.get_parameter(name).value
        guessed = (
            Parameter(name, value=value) if value != [] else Parameter(name, Parameter.Type.BOOL_ARRAY, [])
        )
        result = target.set_parameters([guessed])[0]
        assert result.successful, (name, result.reason)
    assert parameter_values(target) == parameter_values(source)


def test_the_parameter_file_can_be_loaded(declared):
    """One by one, as by ros2 param load."""
    node = declared()
    before = read_settings(parameter_values(node))
    loaded = parameter_dict_from_yaml_file(str(CONFIG), use_wildcard=True)
    assert set(loaded) == set(NAMES)
    for message in loaded.values():
        assert isinstance(message, ParameterMessage)
        result = node.set_parameters([Parameter.from_parameter_msg(message)])[0]
        assert result.successful, (message.name, result.reason)
    assert read_settings(parameter_values(node)) == before


def test_the_parameter_file_can_be_passed_at_start(declared):
    node = declared("--params-file", str(CONFIG))
    assert read_settings(parameter_values(node)) == read_settings(parameter_values(declared()))


def test_integers_are_accepted_as_numbers(declared):
    node = declared(*given(rate=100, gravity="[0, 0, -10]"))
    assert (node.get_parameter("rate").value, node.get_parameter("gravity").value) == (
        100.0,
        [0.0, 0.0, -10.0],
    )
    changes = [
        Parameter("rate", value=7),
        Parameter("gravity", value=[0, 0, -1]),
        Parameter("gravity", value="[0, 0, -1.5]"),
    ]
    assert all(result.successful for result in node.set_parameters(changes))
    assert (node.get_parameter("rate").value, node.get_parameter("gravity").value) == (7.0, [0.0, 0.0, -1.5])
    assert node.get_parameter("rate").type_ == Parameter.Type.DOUBLE


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (given(rate="fast"), "rate must be a number, not 'fast'"),
        (given(rate=20000), "rate must be between 0.01 and 10000 or 0, not 20000.0"),
        (given(rate=".nan"), "rate must be between"),
        (given(joints="panda_joint1"), "joints must be a list of texts"),
        (given(strict=1), "strict must be true or false, not 1"),
        (given(joint_state_timeout=0), "joint_state_timeout must be between 0.001 and 60, not 0.0"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value[1:]),
)
def test_an_invalid_start_value_is_named(declared, words, reason):
    with pytest.raises(ValueError) as raised:
        declared(*words)
    assert reason in str(raised.value) and "\n" not in str(raised.value)


def test_another_type_is_rejected_at_run_time(declared):
    node = declared()
    result = node.set_parameters([Parameter("rate", value="fast")])[0]
    assert not result.successful and node.get_parameter("rate").value == 0.0


def test_start_parameters_accept_only_their_value(declared):
    node = declared(*given(autostart="false"))
    assert node.set_parameters([Parameter("autostart", value=False)])[0].successful
    result = node.set_parameters([Parameter("autostart", value=True)])[0]
    assert not result.successful and "autostart can be set only at start" in result.reason
    assert node.get_parameter("autostart").value is False
