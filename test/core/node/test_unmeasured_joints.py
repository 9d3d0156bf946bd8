"""Ball joints, whose state no topic contains: no output, or they follow from measured joints."""

import pytest
from balls import leg, wrist
from test_joint_names import served
from tolerances import EXACT, error

import dynamics_node as dn
from dynamics_node.node.errors import NoOutput


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
