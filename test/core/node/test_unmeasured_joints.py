"""Ball joints, which no topic tells of: the node says so, or they follow from what is measured."""

import pytest
from balls import leg, wrist
from test_joint_names import served
from tolerances import EXACT, error

import dynamics_node as dn
from dynamics_node.node.errors import NoOutput


def test_what_cannot_be_served_is_told_by_name():
    core = served(leg())
    core.joints.update(("knee",), (0.3,), (0.1,), (), 1, 1)
    message = "'hip'.*joint_states"
    for call in (lambda: core.solve(lambda: 1, 1), core.gravity_torques, lambda: core.state.vectors_now(1)):
        with pytest.raises(NoOutput, match=message):
            call()


def test_what_is_left_when_the_ball_joint_is_held():
    core = served(leg(), joints=["knee"])
    core.joints.update(("knee",), (0.3,), (0.1,), (), 1, 1)
    model = dn.parse_robot(leg(), joints=["knee"])
    expected = dn.build(model, dn.inverse_dynamics(model), backend="numpy")([0.3], [0.1], [0.0])
    assert error(core.solve(lambda: 1, 1).tau, expected) <= 1e-12


def test_a_ball_joint_that_follows_from_others():
    """Of the wrist one hinge is measured; the orientation of the hand follows."""
    mechanism = dn.parse_robot(wrist())
    (own,) = mechanism.joint_names
    core = served(wrist())
    core.joints.update((own,), (-0.1,), (0.2,), (), 1, 1)
    found = core.solve(lambda: 1, 1)
    assert found.q[mechanism.q_names.index(own)] == -0.1
    assert error(dn.close_loops(mechanism, found.q), found.q) <= 1e-8
    expected = dn.build(mechanism, dn.inverse_dynamics(mechanism))(found.q, [0.2], [0.0])
    assert error(found.tau[mechanism.independent], expected) <= EXACT
