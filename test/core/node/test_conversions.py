"""What people write for a parameter, in the type that the parameter has."""

from array import array

import pytest

from dynamics_node.node.core.consistency import read_settings
from dynamics_node.node.core.parameters import as_declared
from dynamics_node.node.core.settings import PARAMETERS

TABLE = {parameter.name: parameter for parameter in PARAMETERS}

TAKEN = [
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
REFUSED = [
    ("rate", True, "rate is a number, not True"),
    ("rate", "fast", "rate is a number, not 'fast'"),
    ("rate", 10**400, "rate is a number, not 1"),
    ("rate", [1.0], r"rate is a number, not \[1.0\]"),
    ("gravity", -9.81, "gravity is a list of numbers, not -9.81"),
    ("gravity", "down", "gravity is a list of numbers, not 'down'"),
    ("gravity", [0.0, 0.0, True], "gravity is a list of numbers"),
    ("joints", "panda_joint1", "joints is a list of texts, as .*, not 'panda_joint1'"),
    ("joints", [1, 2], "joints is a list of texts"),
    ("strict", 1, "strict is true or false, not 1"),
    ("problem", 3, "problem is a text, not 3"),
]


@pytest.mark.parametrize(("name", "written", "value"), TAKEN)
def test_what_is_meant_is_taken(name, written, value):
    read = as_declared(TABLE[name], written)
    assert read == value and type(read) is type(value)
    assert [type(entry) for entry in (read if isinstance(read, list) else [])] == [
        type(entry) for entry in (value if isinstance(value, list) else [])
    ]


@pytest.mark.parametrize(("name", "written", "words"), REFUSED)
def test_another_type_is_refused_by_name(name, written, words):
    with pytest.raises(ValueError, match=words):
        as_declared(TABLE[name], written)


def test_the_defaults_are_of_their_own_types_and_go_together():
    values = {name: as_declared(parameter, parameter.default) for name, parameter in TABLE.items()}
    assert values == {name: parameter.default for name, parameter in TABLE.items()}
    read_settings(values)
