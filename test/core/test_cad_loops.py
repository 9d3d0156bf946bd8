"""Loops as CAD programs write them: a link with two parent joints, and pairs of closing frames."""

import numpy as np
import pytest

import dynamics_node as dn
from dynamics_node.algorithms.first_positions import closed_samples

LINK = (
    '<link name="{}"><inertial><origin xyz=".2 0 0"/><mass value="1"/>'
    '<inertia ixx=".01" iyy=".02" izz=".02" ixy="0" ixz="0" iyz="0"/></inertial></link>'
)
JOINT = '<joint name="{}" type="{}"><origin xyz="{}"/><parent link="{}"/><child link="{}"/><axis xyz="0 0 1"/></joint>'


def four_bar(*more):
    """Crank, coupler and rocker from (0, 0), (0, .5) and (.4, 0); the rocker ends at the coupler's end."""
    links = [LINK.format(name) for name in ("crank", "coupler", "rocker")]
    joints = [
        JOINT.format("a", "continuous", "0 0 0", "ground", "crank"),
        JOINT.format("b", "continuous", "0 .5 0", "crank", "coupler"),
        JOINT.format("c", "continuous", ".4 0 0", "ground", "rocker"),
    ]
    return f'<robot name="four_bar"><link name="ground"/>{"".join([*links, *joints, *more])}</robot>'


END = '<link name="end"/>'
AT_COUPLER = JOINT.format("d", "fixed", ".4 .1 0", "coupler", "end")
AT_ROCKER = JOINT.format("e", "{}", "0 .6 0", "rocker", "end")
LOOP = (
    '<loop name="e" type="{}"><predecessor link="rocker"><origin xyz="0 .6 0"/></predecessor>'
    '<successor link="coupler"><origin xyz=".4 .1 0"/></successor><axis xyz="0 0 1"/></loop>'
)


def same(robot, other):
    assert robot.nv == other.nv == 1
    for q in closed_samples(robot, 3, np.random.default_rng(0)):
        for name in ("mass_matrix", "gravity_torque"):
            ours, theirs = (dn.evaluate(r, name, q, backend="numpy") for r in (robot, other))
            np.testing.assert_allclose(ours, theirs, atol=1e-9)


@pytest.mark.parametrize("kind, loop", [("continuous", "revolute"), ("ball", "ball")])
def test_a_second_parent_joint_closes_a_loop(kind, loop):
    with pytest.warns(dn.ModelWarning, match="'e' close"):
        robot = dn.parse_robot(four_bar(END, AT_COUPLER, AT_ROCKER.format(kind)))
    assert [constraint.kind for constraint in robot.constraints] == [loop]
    same(robot, dn.parse_robot(four_bar(LOOP.format(loop))))


def test_a_second_parent_that_puts_the_link_elsewhere_is_an_error():
    """Whether the joint is at its parent's place or at its child's cannot be decided."""
    elsewhere = JOINT.format("e", "continuous", "0 .5 0", "rocker", "end")
    with pytest.raises(dn.ModelError, match="<loop"):
        dn.parse_robot(four_bar(END, AT_COUPLER, elsewhere))


def test_closing_frames_of_onshape_to_robot():
    ends = '<link name="closing_tip_1"/><link name="closing_tip_2"/>'
    at_coupler = JOINT.format("f1", "fixed", ".4 .1 0", "coupler", "closing_tip_1")
    at_rocker = JOINT.format("f2", "fixed", "0 .6 0", "rocker", "closing_tip_2")
    with pytest.warns(dn.ModelWarning, match="closing_tip_1"):
        robot = dn.parse_robot(four_bar(ends, at_coupler, at_rocker))
    assert [constraint.name for constraint in robot.constraints] == ["closing_tip"]
    same(robot, dn.parse_robot(four_bar(LOOP.format("ball"))))


def test_a_loop_of_the_same_name_replaces_closing_frames():
    ends = '<link name="closing_tip_1"/><link name="closing_tip_2"/>'
    at_coupler = JOINT.format("f1", "fixed", ".4 .1 0", "coupler", "closing_tip_1")
    at_rocker = JOINT.format("f2", "fixed", "0 .6 0", "rocker", "closing_tip_2")
    loop = LOOP.format("revolute").replace('name="e"', 'name="closing_tip"')
    robot = dn.parse_robot(four_bar(ends, at_coupler, at_rocker, loop))
    assert [constraint.kind for constraint in robot.constraints] == ["revolute"]


def test_links_in_a_circle_stay_an_error():
    text = (
        f'<robot name="ring">{LINK.format("a")}{LINK.format("b")}{JOINT.format("ab", "continuous", "0 0 0", "a", "b")}'
        f"{JOINT.format('ba', 'continuous', '0 0 0', 'b', 'a')}</robot>"
    )
    with pytest.raises(dn.ModelError, match="cycle"):
        dn.parse_robot(text)
