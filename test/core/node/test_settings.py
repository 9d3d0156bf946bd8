"""Parameters: values that cannot be computed with are rejected."""

import pytest
from plain import settings

from dynamics_node.node.core.settings import PARAMETERS


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
        ({"solver": "factor_graph", "ordering": "alphabetical"}, "ordering must.*'alphabetical'"),
        ({"ordering": "aba"}, "orderings"),
        ({"solver": "factor_graph", "ordering": "custom"}, "custom_ordering"),
        ({"problem": "forward", "compensate__gravity": False}, "compensate\\.\\*"),
        (
            {"problem": "forward", "compensate__friction": True},
            "compensate.friction.*inverse",
        ),
        ({"command_joints": ["a", "a"]}, "command_joints.*twice"),
        ({"effort_limits_list": [-1.0]}, "effort_limits_list.*negative"),
        ({"fixed__joints": ["a"]}, "fixed.joints.*fixed.positions"),
        (
            {"fixed__joints": ["a"], "fixed__positions": [0.0]},
            "fixed.joints.*empty",
        ),
        ({"armature__joints": ["a"]}, "armature.joints.*armature.values"),
        (
            {"armature__joints": ["a", "b"], "armature__values": [1.0, 1.0], "armature__gears": [1.0]},
            "armature.joints.*armature.gears",
        ),
        (
            {"friction__viscous": [1.0], "friction__coulomb": [1.0]},
            "friction.joints.*friction.viscous",
        ),
        (
            {"friction__joints": ["a"], "friction__viscous": [-1.0], "friction__coulomb": [1.0]},
            "friction.viscous.*negative",
        ),
        (
            {"driven__joints": ["a"], "driven__weights": [-1.0]},
            "driven.weights.*1e-06.*-1",
        ),
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
