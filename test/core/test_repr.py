"""`repr` of what users meet has at most twelve short lines."""

import numpy as np
import pytest
from robots import robot_of

import dynamics_node as dn
from dynamics_node.display import WIDE

NAMES = ("talos", "five_bar")


@pytest.fixture(scope="module", params=NAMES)
def robot(request):
    return robot_of(request.param)


def require_short(thing):
    lines = repr(thing).splitlines()
    assert len(lines) <= 12 and max(map(len, lines)) <= WIDE + 20, repr(thing)
    return lines


def test_robot(robot):
    lines = require_short(robot)
    assert robot.name in lines[0] and f"nv {robot.nv}" in lines[0]
    assert any("loops" in line and robot.constraints[0].name in line for line in lines) == robot.constrained
    assert robot._repr_html_().count("<tr>") == robot.nbodies + 1
    for part in (*robot.bodies, *robot.clusters, *robot.frames.values()):
        require_short(part)


def test_functions_and_results(robot):
    q, rest = dn.close_loops(robot, robot_position(robot)), np.zeros(robot.nv)
    for name, state in (
        ("inverse_dynamics", (q, rest, rest)),
        ("center_of_mass", (q,)),
        ("energy_regressor", (q, rest)),
    ):
        function = dn.build(robot, name, backend="numpy")
        assert name in require_short(function)[0]
        require_short(function(*state))
    require_short(function.spec.choice)
    require_short(dn.forward_dynamics(robot))


def robot_position(robot):
    return np.full(robot.nq, 0.1) if robot.constrained else robot.neutral()


def test_html_is_escaped():
    """Names come from the network."""
    robot = dn.parse_robot(
        '<robot name="&lt;script&gt;"><link name="a"/><link name="&lt;b&gt;"><inertial><mass value="1"/>'
        '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>'
        '<joint name="&lt;j&gt;" type="continuous"><parent link="a"/><child link="&lt;b&gt;"/></joint></robot>'
    )
    table = robot._repr_html_()
    assert "<script>" not in table and "<b>" not in table and "&lt;j&gt;" in table
