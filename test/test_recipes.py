"""The recipes of the documentation: their parameters exist, and repeated values agree."""

import re
import textwrap
from pathlib import Path

import pytest
import yaml

from dynamics_node.node.core.consistency import read_settings
from dynamics_node.node.core.parameters import as_declared
from dynamics_node.node.core.settings import PARAMETERS

TABLE = {parameter.name: parameter for parameter in PARAMETERS}
ROS2_CONTROL = (Path(__file__).parents[1] / "docs" / "how-to" / "ros2_control.md").read_text()


def blocks(language):
    """Code blocks of a language, also those in lists."""
    fence = re.compile(rf"^( *)```{language}\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(match[2]) for match in fence.finditer(ROS2_CONTROL)]


NODE = [block for block in blocks("yaml") if "/**:" in block]
CONTROLLERS = [block for block in blocks("yaml") if "controller_manager:" in block]


@pytest.mark.parametrize("block", NODE)
def test_node_accepts_the_parameters(block):
    given = yaml.safe_load(block)["/**"]["ros__parameters"]
    assert set(given) <= set(TABLE)
    settings = read_settings({name: as_declared(p, given.get(name)) for name, p in TABLE.items()})
    assert settings.joints == settings.command_joints == ("joint1", "joint2")


@pytest.mark.parametrize("block", CONTROLLERS)
def test_every_controller_has_a_type_and_parameters(block):
    content = yaml.safe_load(block)
    managed = content.pop("controller_manager")["ros__parameters"].items()
    types = {name: entry["type"] for name, entry in managed if isinstance(entry, dict)}
    assert set(content) == set(types) - {"joint_state_broadcaster"}


def test_page_has_three_recipes():
    assert len(CONTROLLERS) == 3 and len(NODE) == 3
    (launch,) = blocks("python")
    compile(launch, "control.launch.py", "exec")
    assert "/effort_controller/commands" in launch and "effort_controller:" in CONTROLLERS[0]
