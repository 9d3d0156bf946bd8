"""Parameters of dynamics_estimator: validation."""

import contextlib
from dataclasses import fields
from types import SimpleNamespace

import numpy as np
import pytest
from plain import extremes
from robots import ROBOTS

from dynamics_node.node.estimator.estimator_settings import PARAMETERS, check_against, read_settings

DEFAULTS = {parameter.name: parameter.default for parameter in PARAMETERS}


def settings(**values):
    named = {name.replace("__", "."): value for name, value in values.items()}
    assert named.keys() <= DEFAULTS.keys(), named.keys() - DEFAULTS.keys()
    return read_settings({**DEFAULTS, **named})


@pytest.mark.parametrize(
    "values, reason",
    [
        ({"window": 0.5, "rate": 1000.0}, "500 .*1000 .*200"),
        ({"lag": 0.05}, "lag 0.05.*window.*0.02"),
        ({"noise__encoder": []}, "noise.encoder"),
        ({"noise__torque": [0.0]}, "noise.torque.* 0"),
        (
            {"noise__jerk_density": 1e10, "noise__torque": [1e-6], "noise__external_torque_density": 1e-6},
            r"noise.jerk_density 1e\+10.*1e\+04.*noise.torque 1e-06.*noise.external_torque_density 1e-06",
        ),
        ({"command_joints": ["a"]}, "command_joints.*torque_source"),
        ({"torque_source": "commanded", "command_joints": ["a", "a"]}, "command_joints.*twice"),
        ({"torque_source": "guessed"}, "measured, commanded, none"),
        ({"fixed__joints": ["a"]}, "fixed.joints.*fixed.positions"),
        ({"armature__joints": ["a"], "armature__values": [-1.0]}, "armature.values.*negative"),
    ],
)
def test_invalid_values_are_rejected(values, reason):
    with pytest.raises(ValueError, match=reason):
        settings(**values)


def test_times_become_steps():
    chosen = settings(rate=250.0, window=0.1, lag=0.04)
    assert (chosen.steps, chosen.steps_of_lag) == (25, 10)
    assert chosen.options().period == 0.004 and chosen.options().lag_steps == 25
    assert settings(window=0.001, lag=0.0).steps == 5


def test_lengths_must_match_the_robot():
    robot = SimpleNamespace(model=ROBOTS["panda7"].model())
    check_against(settings(noise__encoder=[1e-4] * 7), robot)
    with pytest.raises(ValueError, match=r"noise.torque.* 3 .*7"):
        check_against(settings(noise__torque=[0.1] * 3), robot)
    with pytest.raises(ValueError, match="friction.joints.*'elbow'"):
        check_against(
            settings(friction__joints=["elbow"], friction__viscous=[1.0], friction__coulomb=[0.0]), robot
        )


def test_accepted_values_keep_variances_positive():
    """Each extreme value is rejected, or gives positive smoother options."""
    for name, value in extremes(PARAMETERS):
        with contextlib.suppress(ValueError):
            options = settings(**{name.replace(".", "__"): value}).options()
            numbers = [np.square(getattr(options, field.name)) for field in fields(options)]
            assert all(np.isfinite(x).all() and (x > 0).all() for x in numbers), (name, value)
