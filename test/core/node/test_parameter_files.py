"""The files of config/ document every parameter of both nodes."""

from pathlib import Path

import pytest
import yaml

from dynamics_node.node.core import settings
from dynamics_node.node.estimator import estimator_settings

CONFIG = Path(__file__).parents[3] / "config"
TABLES = {"dynamics": settings.PARAMETERS, "estimator": estimator_settings.PARAMETERS}


def flat(tree, prefix=""):
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


@pytest.mark.parametrize("name", TABLES)
def test_the_file_has_every_parameter_with_its_default(name):
    text = (CONFIG / f"{name}.yaml").read_text()
    written = dict(flat(yaml.safe_load(text)["/**"]["ros__parameters"]))
    assert list(written) == [parameter.name for parameter in TABLES[name]]
    for parameter in TABLES[name]:
        empty = parameter.default == [] and written[parameter.name] in ([""], [0.0], [])
        assert empty or written[parameter.name] == parameter.default, parameter.name


@pytest.mark.parametrize("name", TABLES)
def test_comments_of_the_file_match_the_table(name):
    lines = [line.strip() for line in (CONFIG / f"{name}.yaml").read_text().splitlines()]
    for parameter in TABLES[name]:
        comment = [parameter.description]
        comment += [f"({', '.join(parameter.choices)})"] if parameter.choices else []
        or_zero = ", or 0" * parameter.or_zero
        comment += ["({:g} to {:g}{})".format(*parameter.bounds, or_zero)] if parameter.bounds else []
        comment += ["(read only)"] if parameter.read_only else []
        at = lines.index(f"# {' '.join(comment)}")
        assert lines[at + 1].startswith(f"{parameter.name.rpartition('.')[2]}:")


@pytest.mark.parametrize("name", TABLES)
def test_file_parameters_are_read_only(name):
    files = {parameter.name for parameter in TABLES[name] if parameter.name.endswith("_file")}
    assert files == {"robot_description_file", "loops_file", "parameters_file", "sensors_file"}
    assert all(parameter.read_only for parameter in TABLES[name] if parameter.name in files)
