"""Parameters of dynamics_estimator: what is refused, and what the file of the package says."""

from pathlib import Path

import pytest
import yaml
from robots import ROBOTS

from dynamics_node.node.estimator.settings import PARAMETERS, check_against, read_settings

CONFIG = Path(__file__).parents[3] / "config" / "estimator.yaml"
DEFAULTS = {parameter.name: parameter.default for parameter in PARAMETERS}


def settings(**values):
    named = {name.replace("__", "."): value for name, value in values.items()}
    assert named.keys() <= DEFAULTS.keys(), named.keys() - DEFAULTS.keys()
    return read_settings({**DEFAULTS, **named})


@pytest.mark.parametrize(
    "values, words",
    [
        ({"window": 0.5, "rate": 1000.0}, "500 steps at 1000 Hz; the limit is 200"),
        ({"lag": 0.05}, "lag 0.05 s is not within the window of 0.02 s"),
        ({"noise__encoder": []}, "noise.encoder needs a number"),
        ({"noise__torque": [0.0]}, "noise.torque has 0"),
        ({"command_joints": ["a"]}, "command_joints goes with torque_source commanded"),
        ({"torque_source": "commanded", "command_joints": ["a", "a"]}, "command_joints names a joint twice"),
        ({"torque_source": "guessed"}, "is none of measured, commanded, none"),
        ({"held__joints": ["a"]}, "held.joints and held.positions differ in length"),
        ({"armature__joints": ["a"], "armature__values": [-1.0]}, "armature.values must not be negative"),
    ],
)
def test_refused(values, words):
    with pytest.raises(ValueError, match=words):
        settings(**values)


def test_times_become_steps():
    chosen = settings(rate=250.0, window=0.1, lag=0.04)
    assert (chosen.steps, chosen.steps_of_lag) == (25, 10)
    assert chosen.options().period == 0.004 and chosen.options().window == 25
    assert settings(window=0.001, lag=0.0).steps == 2


def test_numbers_of_joints_are_those_of_the_robot():
    model = ROBOTS["panda7"].model()
    check_against(settings(noise__encoder=[1e-4] * 7), model)
    with pytest.raises(
        ValueError, match=r"noise.torque has 3 entries; give one for all, or one of each of 7"
    ):
        check_against(settings(noise__torque=[0.1] * 3), model)
    with pytest.raises(ValueError, match="friction.joints: 'elbow' is none of"):
        check_against(
            settings(friction__joints=["elbow"], friction__viscous=[1.0], friction__coulomb=[0.0]), model
        )


def flat(tree, prefix=""):
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def test_the_file_of_the_package_has_every_parameter_with_its_default():
    written = dict(flat(yaml.safe_load(CONFIG.read_text())["/**"]["ros__parameters"]))
    assert list(written) == [parameter.name for parameter in PARAMETERS]
    for parameter in PARAMETERS:
        empty = parameter.default == [] and written[parameter.name] in ([""], [])
        assert empty or written[parameter.name] == parameter.default, parameter.name


@pytest.mark.parametrize("parameter", PARAMETERS, ids=[parameter.name for parameter in PARAMETERS])
def test_the_file_of_the_package_says_what_the_table_says(parameter):
    said = [parameter.description]
    said += [f"({', '.join(parameter.choices)})"] if parameter.choices else []
    said += ["({:g} to {:g})".format(*parameter.bounds)] if parameter.bounds else []
    said += ["(read only)"] if parameter.read_only else []
    lines = [line.strip() for line in CONFIG.read_text().splitlines()]
    at = lines.index(f"# {' '.join(said)}")
    assert lines[at + 1].startswith(f"{parameter.name.rpartition('.')[2]}:")


def test_files_are_given_at_the_start_alone():
    files = {parameter.name for parameter in PARAMETERS if parameter.name.endswith("_file")}
    assert files == {"robot_description_file", "loops_file", "sensors_file"}
    assert all(parameter.read_only for parameter in PARAMETERS if parameter.name in files)
