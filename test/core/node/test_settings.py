"""Parameters: values that cannot be computed with are rejected, conversion of types, and the files of config/."""

from array import array
from pathlib import Path

import pytest
import yaml
from plain import settings

from dynamics_node.node.core.consistency import read_settings
from dynamics_node.node.core.parameters import as_declared, unknown_names
from dynamics_node.node.core.settings import PARAMETERS
from dynamics_node.node.estimator.estimator_settings import PARAMETERS as ESTIMATOR


@pytest.mark.parametrize(
    "values, reason",
    [
        (
            {"armature__joints": ["a"], "armature__values": [0.1], "armature__gears": [1e200]},
            "armature.gears must",
        ),
        ({"armature__joints": ["a"], "armature__values": [1e308]}, "armature.values must.*1e\\+308"),
        (
            {"armature__joints": ["a"], "armature__values": [1e10], "armature__gears": [1e5]},
            "armature of 'a' is 1e\\+20 with its gear",
        ),
        ({"gravity": [0.0, 0.0, -1e200]}, "gravity must .*, not -1e\\+200"),
        ({"joints": ["a", "b"], "fixed__joints": ["c"], "fixed__positions": [1e12]}, "fixed.positions"),
        (
            {"friction__joints": ["a"], "friction__viscous": [1e300], "friction__coulomb": [0.0]},
            "friction.visc",
        ),
        ({"driven__joints": ["a"], "driven__weights": [1e300]}, "driven.weights"),
        ({"effort_limits": "list", "effort_limits_list": [float("inf")]}, "not finite"),
        ({"rate": float("nan")}, "rate must.*nan"),
        (
            {"robot_description_file": "/a\0b"},
            "robot_description_file '/a.x00b' has a zero or an unpaired surrogate",
        ),
        ({"loops_file": "/a\udcff"}, "loops_file '/a.udcff' has a zero or an unpaired surrogate"),
        ({"joints": ["a", "b\0"]}, "joints 'b.x00' has a zero or an unpaired surrogate"),
        ({"rate": -5.0}, "rate must be between 0.01 and 10000 or 0, not -5.0"),
        ({"joint_state_timeout": 1e9}, "joint_state_timeout must be between 0.001 and 60, not 1000000000.0"),
        ({"gravity": [0.0, 0.0, float("nan")]}, "gravity has entries that are not finite"),
        ({"gravity": [0.0, 0.0]}, "gravity needs 3 numbers, not 2"),
        ({"gravity_sensor": "base", "gravity": [0.0] * 3}, "gravity that is not zero"),
        ({"gravity_sensor": "base", "floating_base": True}, "reads its pose from odom"),
        ({"gravity_sensor": "base"}, "gravity_sensor needs sensors_file"),
        ({"problem": "sideways"}, "problem must be one of inverse, forward, hybrid, .*'sideways'"),
        ({"problem": "hybrid"}, "hybrid.*forward_joints"),
        ({"solver": "magic"}, "solver must.*'magic'"),
        ({"solver": "cluster", "backend": "gtsam"}, "cluster.*gtsam.*numpy, c"),
        ({"solver": "factor_graph", "ordering": "alphabetical"}, "unknown ordering 'alphabetical'"),
        ({"ordering": "custom"}, "unknown ordering 'custom'"),
        ({"ordering": ""}, "unknown ordering"),
        ({"solver": "cluster", "ordering": "aba"}, "'factor_graph': with solver 'cluster'.*'best'"),
        ({"solver": "cluster", "ordering": "F1,A1,tau1"}, "'factor_graph': with solver 'cluster'.*'best'"),
        ({"problem": "sensors", "sensors_file": "a", "ordering": "aba"}, "problem sensors.*ordering"),
        ({"problem": "forward", "compensate__gravity": False}, "compensate\\.\\*"),
        ({"problem": "forward", "compensate__friction": True}, "compensate.friction.*inverse"),
        ({"command_joints": ["a", "a"]}, "command_joints.*twice"),
        ({"effort_limits_list": [-1.0]}, "effort_limits_list.*negative"),
        ({"fixed__joints": ["a"]}, "fixed.joints.*fixed.positions"),
        ({"fixed__joints": ["a"], "fixed__positions": [0.0]}, "fixed.joints.*empty"),
        ({"armature__joints": ["a"]}, "armature.joints.*armature.values"),
        (
            {"armature__joints": ["a", "b"], "armature__values": [1.0, 1.0], "armature__gears": [1.0]},
            "armature.joints.*armature.gears",
        ),
        ({"friction__viscous": [1.0], "friction__coulomb": [1.0]}, "friction.joints.*friction.viscous"),
        (
            {"friction__joints": ["a"], "friction__viscous": [-1.0], "friction__coulomb": [1.0]},
            "friction.viscous.*negative",
        ),
        ({"driven__joints": ["a"], "driven__weights": [-1.0]}, "driven.weights.*1e-06.*-1"),
        ({"driven__joints": ["a"], "driven__weights": [1.0, 1.0]}, "driven.joints.*driven.weights"),
    ],
)
def test_invalid_values_are_rejected(values, reason):
    with pytest.raises(ValueError, match=reason):
        settings(**values)


def test_gears_scale_rotor_inertias():
    job = settings(armature__joints=["a"], armature__values=[2e-5], armature__gears=[-160.0]).job("")
    assert job.choices["armature"] == {"a": pytest.approx(2e-5 * 160**2)}


def test_names_match_fields_and_groups():
    fields = {parameter.name: parameter.field for parameter in PARAMETERS}
    assert fields["joint_names.from"] == "joint_names_from" and fields["fixed.joints"] == "fixed_joints"
    assert fields["joint_state_timeout"] == "joint_state_timeout"
    assert all(name.replace(".", "_") == field for name, field in fields.items())


# --- conversion to the declared type --------------------------------------------------------------------------


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


# --- the files of config/ -------------------------------------------------------------------------------------


CONFIG = Path(__file__).parents[3] / "config"
TABLES = {"dynamics": PARAMETERS, "estimator": ESTIMATOR}


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
    more = {"contacts_file", "limits_file"} if name == "dynamics" else set()
    assert files == {"robot_description_file", "loops_file", "parameters_file", "sensors_file"} | more
    assert all(parameter.read_only for parameter in TABLES[name] if parameter.name in files)


def test_unknown_names_at_start_are_warnings():
    known = [parameter.name for parameter in PARAMETERS]
    given = ["rate", "compensate.gravty", "qos_overrides./joint_states.subscription.depth"]
    (line,) = unknown_names(given, known)
    assert line.startswith("unknown parameter 'compensate.gravty' is ignored; similar: compensate.gravity")
    (line,) = unknown_names(["zzzz"], known)
    assert (
        line == "unknown parameter 'zzzz' is ignored; harmless if a file sets it for other nodes, under /**"
    )
