"""Ball joints, whose state no topic contains: no output, or they follow from measured joints. Floating joints, whose
odom has the pose of their child in the root link."""

import numpy as np
import pytest
from balls import leg, wrist
from scipy.spatial.transform import Rotation
from test_joint_names import served
from tolerances import EXACT, error

import dynamics_node as dn
from dynamics_node.node.errors import BadMessage, NoOutput


def test_an_unmeasured_ball_joint_gives_no_output_with_its_name():
    core = served(leg())
    core.joints.update(("knee",), (0.3,), (0.1,), (), 1, 1)
    message = "'hip'.*joint_states"
    for call in (lambda: core.solve(lambda: 1, 1), core.gravity_torques, lambda: core.state.vectors_now(1)):
        with pytest.raises(NoOutput, match=message):
            call()


def test_a_robot_with_a_fixed_ball_joint_is_served():
    core = served(leg(), joints=["knee"])
    core.joints.update(("knee",), (0.3,), (0.1,), (), 1, 1)
    model = dn.parse_robot(leg(), joints=["knee"])
    expected = dn.build(model, dn.inverse_dynamics(model), backend="numpy")([0.3], [0.1], [0.0])
    assert error(core.solve(lambda: 1, 1).tau, expected) <= 1e-12


def test_a_dependent_ball_joint_is_served():
    """One hinge of the wrist is measured; the orientation of the hand follows."""
    mechanism = dn.parse_robot(wrist())
    (own,) = mechanism.joint_names
    core = served(wrist())
    core.joints.update((own,), (-0.1,), (0.2,), (), 1, 1)
    result = core.solve(lambda: 1, 1)
    assert result.q[mechanism.q_names.index(own)] == -0.1
    assert error(dn.close_loops(mechanism, result.q), result.q) <= 1e-8
    expected = dn.build(mechanism, dn.inverse_dynamics(mechanism))(result.q, [0.2], [0.0])
    assert error(result.tau[mechanism.independent], expected) <= EXACT


# --- a floating joint of the description ----------------------------------------------------------------------


TRUNK = """<link name="trunk"><inertial><origin xyz="0.1 0 0.2"/><mass value="3"/>
<inertia ixx="0.1" iyy="0.2" izz="0.3" ixy="0" ixz="0" iyz="0"/></inertial></link>
<link name="arm"><inertial><origin xyz="0 0 0.3"/><mass value="1"/>
<inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="hinge" type="revolute"><parent link="trunk"/><child link="arm"/><axis xyz="0 1 0"/>
<limit lower="-3" upper="3" effort="1000" velocity="9"/></joint>"""
OWN = '<link name="odom"/><joint name="float" type="floating"><parent link="odom"/><child link="trunk"/>{}</joint>'
ORIGIN = '<origin xyz="0.5 -1 2" rpy="0.3 -0.7 1.1"/>'


def robot(origin=None):
    """Core of the trunk with its own floating joint, or with the parameter floating_base."""
    own = "" if origin is None else OWN.format(origin)
    return served(f'<robot name="r">{own}{TRUNK}</robot>', floating_base=origin is None, effort_limits="none")


def tau(core, link="trunk"):
    random = np.random.default_rng(2)
    turn = Rotation.random(random_state=3).as_quat()
    core.joints.update(("hinge",), (0.4,), (0.7,), (), 1, 1)
    core.state.base = core.state.read_base([*random.normal(size=3), *turn], random.normal(size=6), 1, 1, link)
    return core.solve(lambda: 1, 1).tau


@pytest.mark.parametrize("origin", ["", ORIGIN])
@pytest.mark.parametrize("link", ["trunk", ""])
def test_a_described_floating_joint_equals_the_parameter(origin, link):
    assert np.allclose(tau(robot(origin), link), tau(robot()), atol=1e-12)


@pytest.mark.parametrize(("origin", "link"), [("", "odom"), ("", "arm"), (None, "odom")])
def test_another_link_is_rejected_with_the_right_one(origin, link):
    with pytest.raises(BadMessage, match=f"'{link}'.*'trunk'"):
        tau(robot(origin), link)
