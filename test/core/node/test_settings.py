"""Parameters: no value that nothing can be computed with is taken."""

import pytest
from plain import settings

from dynamics_node.node.core.settings import PARAMETERS


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
        ({"rate": -5.0}, "rate -5.0 is not between 0.01 and 10000, nor 0"),
        ({"joint_state_timeout": 1e9}, "joint_state_timeout 1000000000.0 is not between 0.001 and 60"),
        ({"gravity": [0.0, 0.0, float("nan")]}, "gravity has an entry that is not finite"),
        ({"gravity": [0.0, 0.0]}, "gravity needs 3 numbers, not 2"),
        ({"gravity_sensor": "base", "gravity": [0.0] * 3}, "strength of gravity from gravity, which is zero"),
        ({"gravity_sensor": "base", "floating_base": True}, "has its pose from odom"),
        ({"gravity_sensor": "base"}, "gravity_sensor needs sensors_file"),
        ({"problem": "sideways"}, "problem 'sideways' is none of inverse, forward, hybrid"),
        ({"problem": "hybrid"}, "hybrid.*forward_joints"),
        ({"solver": "magic"}, "solver 'magic'"),
        ({"solver": "cluster", "backend": "gtsam"}, "best with auto.numpy.c"),
        ({"solver": "factor_graph", "ordering": "alphabetical"}, "ordering 'alphabetical'"),
        ({"ordering": "aba"}, "orderings"),
        ({"solver": "factor_graph", "ordering": "custom"}, "together"),
        ({"problem": "forward", "compensate__gravity": False}, "compensate\\.\\*"),
        (
            {"problem": "forward", "compensate__friction": True},
            "compensate.friction.*inverse",
        ),
        ({"command_joints": ["a", "a"]}, "command_joints.*twice"),
        ({"effort_limits_list": [-1.0]}, "effort_limits_list.*negative"),
        ({"held__joints": ["a"]}, "held.joints.*held.positions"),
        (
            {"held__joints": ["a"], "held__positions": [0.0]},
            "held.joints.*empty",
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
            "driven.weights.*-1.*1e-06",
        ),
        ({"driven__joints": ["a"], "driven__weights": [1.0, 1.0]}, "driven.joints.*driven.weights"),
    ],
)
def test_refused(values, reason):
    with pytest.raises(ValueError, match=reason):
        settings(**values)


def test_motors_with_gears_are_taken():
    job = settings(armature__joints=["a"], armature__values=[2e-5], armature__gears=[-160.0]).job("")
    assert job.choices["armature"] == {"a": pytest.approx(2e-5 * 160**2)}


def test_a_name_is_a_field_and_a_group():
    fields = {parameter.name: parameter.field for parameter in PARAMETERS}
    assert fields["joint_names.from"] == "joint_names_from" and fields["held.joints"] == "held_joints"
    assert fields["joint_state_timeout"] == "joint_state_timeout"
    assert all(name.replace(".", "_") == field for name, field in fields.items())
