"""Conversion of parameter values to the declared type."""

from array import array

import pytest

from dynamics_node.node.core.consistency import read_settings
from dynamics_node.node.core.parameters import as_declared
from dynamics_node.node.core.settings import PARAMETERS

TABLE = {parameter.name: parameter for parameter in PARAMETERS}

ACCEPTED = [
    ("rate", 100, 100.0),
    ("rate", 0.5, 0.5),
    ("gravity", [0, 0, -10], [0.0, 0.0, -10.0]),
    ("gravity", array("d", [0.0, 0.0, -9.81]), [0.0, 0.0, -9.81]),
    ("gravity", "[0, 0, -9.81]", [0.0, 0.0, -9.81]),
    ("armature.values", [], []),
    ("armature.values", None, []),
    ("joints", [], []),
    ("joints", ["a", "b"], ["a", "b"]),
    ("strict", True, True),
    ("problem", "forward", "forward"),
    ("problem", None, "inverse"),
]
REJECTED = [
    ("rate", True, "rate must be a number, not True"),
    ("rate", "fast", "rate must be a number, not 'fast'"),
    ("rate", 10**400, "rate must be a number, not 1"),
    ("rate", [1.0], r"rate must be a number, not \[1.0\]"),
    ("gravity", -9.81, "gravity must be a list of numbers, not -9.81"),
    ("gravity", "down", "gravity must be a list of numbers, not 'down'"),
    ("gravity", [0.0, 0.0, True], "gravity must be a list of numbers"),
    ("joints", "panda_joint1", "joints must be a list of texts, as .*, not 'panda_joint1'"),
    ("joints", [1, 2], "joints must be a list of texts"),
    ("strict", 1, "strict must be true or false, not 1"),
    ("problem", 3, "problem must be a text, not 3"),
]


@pytest.mark.parametrize(("name", "written", "value"), ACCEPTED)
def test_values_are_converted_to_the_declared_type(name, written, value):
    read = as_declared(TABLE[name], written)
    assert read == value and type(read) is type(value)
    assert [type(entry) for entry in (read if isinstance(read, list) else [])] == [
        type(entry) for entry in (value if isinstance(value, list) else [])
    ]


@pytest.mark.parametrize(("name", "written", "reason"), REJECTED)
def test_another_type_is_rejected_with_the_name(name, written, reason):
    with pytest.raises(ValueError, match=reason):
        as_declared(TABLE[name], written)


def test_defaults_have_their_types_and_are_consistent():
    values = {name: as_declared(parameter, parameter.default) for name, parameter in TABLE.items()}
    assert values == {name: parameter.default for name, parameter in TABLE.items()}
    read_settings(values)
