"""Robots of example-robot-data by name."""

import warnings

import pytest
from robots import robot_of

import dynamics_node as dn
from dynamics_node.robot.example_robots import EXAMPLE_ROBOTS


@pytest.mark.parametrize("name", EXAMPLE_ROBOTS)
def test_every_name_is_a_robot(name):
    robot_of("panda7")  # skips without the package
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dn.ModelWarning)
        robot = dn.example_robot(name)
    assert robot.nv > 0
    assert robot.v_names[0].startswith("floating_base") == EXAMPLE_ROBOTS[name].floating_base


def test_choices_are_those_of_load_robot():
    assert dn.example_robot("solo12", floating_base=False).nv == 12
    assert dn.example_robot("panda", tips=["panda_hand"]).v_names == robot_of("panda7").v_names


def test_an_unknown_name_lists_similar_ones():
    with pytest.raises(dn.UnknownNameError, match="ur5"):
        dn.example_robot("ur55")


def test_without_the_package_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr("dynamics_node.robot.example_robots._shares", lambda: iter(()))
    with pytest.raises(FileNotFoundError, match="pip install example-robot-data"):
        dn.example_robot("ur5")
