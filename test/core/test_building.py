"""Robots are built in a process of its own, which yields to a node that computes torques."""

import os
import sys
import time

import pytest

from dynamics_node.node.build_job import NICENESS, Building, Failure, Job, Robot
from dynamics_node.robots import four_bar


def result_of(building):
    """What was built, and the highest niceness meanwhile."""
    result, niceness = None, 0
    while result is None:
        niceness = max(niceness, os.getpriority(os.PRIO_PROCESS, building._process.pid))
        time.sleep(0.005)
        result = building.poll()
    return result, niceness


@pytest.mark.parametrize("aside, more", [(False, 0), (True, NICENESS)])
def test_it_yields_when_asked_to(aside, more):
    building = Building(Job(four_bar(), {}, "inverse", backend="numpy"), aside)
    assert os.getpgid(building._process.pid) != os.getpgid(0), "Ctrl-C would end it"
    if sys.version_info >= (3, 11):
        assert (os.getsid(building._process.pid) != os.getsid(0)) == aside
    robot, niceness = result_of(building)
    assert isinstance(robot, Robot) and robot.model.name == "four_bar"
    assert niceness == os.getpriority(os.PRIO_PROCESS, 0) + more


def test_a_process_that_is_killed_is_a_failure():
    building = Building(Job(four_bar(), {}, "inverse", backend="numpy"), aside=False)
    building._process.kill()
    result, _ = result_of(building)
    assert result == Failure("the building process ended with code -9")
