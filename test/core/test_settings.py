"""Parameters: no value that nothing can be computed with is taken."""

import pytest

from dynamics_node.node.settings import PARAMETERS, read_settings

DEFAULTS = {parameter.name: parameter.default for parameter in PARAMETERS}


def settings(**values):
    return read_settings({**DEFAULTS, **{name.replace("__", "."): value for name, value in values.items()}})


@pytest.mark.parametrize(
    "values, reason",
    [
        (
            {"armature__joints": ["a"], "armature__values": [0.1], "armature__gears": [1e200]},
            "armature.gears has",
        ),
        ({"armature__joints": ["a"], "armature__values": [1e308]}, "armature.values has 1e\\+308"),
        (
            {"armature__joints": ["a"], "armature__values": [1e10], "armature__gears": [1e5]},
            "armature of 'a' is 1e\\+20 with its gear",
        ),
        ({"gravity": [0.0, 0.0, -1e200]}, "gravity has -1e\\+200, which is not between"),
        ({"joints": ["a", "b"], "held__joints": ["c"], "held__positions": [1e12]}, "held.positions"),
        (
            {"friction__joints": ["a"], "friction__viscous": [1e300], "friction__coulomb": [0.0]},
            "friction.visc",
        ),
        ({"driven__joints": ["a"], "driven__weights": [1e300]}, "driven.weights"),
        ({"effort_limits": "list", "effort_limits_list": [float("inf")]}, "not finite"),
        ({"rate": float("nan")}, "rate nan is not between"),
        ({"robot_description_file": "/a\0b"}, "robot_description_file '/a.x00b' has a character"),
        ({"loops_file": "/a\udcff"}, "loops_file '/a.udcff' has a character"),
        ({"joints": ["a", "b\0"]}, "joints 'b.x00' has a character"),
    ],
)
def test_refused(values, reason):
    with pytest.raises(ValueError, match=reason):
        settings(**values)


def test_motors_with_gears_are_taken():
    job = settings(armature__joints=["a"], armature__values=[2e-5], armature__gears=[-160.0]).job("")
    assert job.choices["armature"] == {"a": pytest.approx(2e-5 * 160**2)}


def test_files_are_given_at_the_start_alone():
    files = {parameter.name for parameter in PARAMETERS if parameter.name.endswith("_file")}
    assert files == {"robot_description_file", "loops_file"}
    assert all(parameter.read_only for parameter in PARAMETERS if parameter.name in files)
