"""Robots of example-robot-data by name."""

import warnings

import pytest
from robots import robot_of

import dynamics_node as dn
from dynamics_demo.robots import ROBOTS
from dynamics_node.robot.example_robots import EXAMPLE_ROBOTS, OWN_ROBOTS


@pytest.mark.parametrize("name", EXAMPLE_ROBOTS)
def test_every_name_is_a_robot(name):
    robot_of("panda7")  # skips without the package
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dn.ModelWarning)
        robot = dn.example_robot(name)
    assert robot.nv > 0
    assert robot.v_names[0].startswith("floating_base") == EXAMPLE_ROBOTS[name].floating_base


@pytest.mark.parametrize("name", OWN_ROBOTS)
def test_robots_of_the_examples_have_names(name):
    robot = dn.example_robot(name)
    assert robot.nv > 0 and robot.floating_base == OWN_ROBOTS[name]
    with pytest.raises(dn.UnknownNameError, match=f"dynamics_demo.robots {name}"):
        dn.example_robot_file(name)


def test_every_robot_of_the_examples_has_a_name():
    assert OWN_ROBOTS.keys() == ROBOTS.keys()
    assert dn.example_robot("quadruped", floating_base=False).nv == 12


def test_choices_are_those_of_load_robot():
    assert dn.example_robot("solo12", floating_base=False).nv == 12
    assert dn.example_robot("panda", tips=["panda_hand"]).v_names == robot_of("panda7").v_names


def test_an_unknown_name_lists_similar_ones():
    with pytest.raises(dn.UnknownNameError, match="ur5"):
        dn.example_robot("ur55")
    with pytest.raises(dn.UnknownNameError, match="ur5.*five_bar"):
        dn.example_robot("xyz")


def test_without_the_package_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr("dynamics_node.robot.example_robots._shares", lambda: iter(()))
    with pytest.raises(FileNotFoundError, match="pip install .?example-robot-data"):
        dn.example_robot("ur5")
