"""Other body frames and base parameters do not change results. All robots have them in test_product.py."""

import numpy as np
import pytest
from robots import DISTINCT, random_states
from tolerances import EXACT, error, solved
from urdf_text import joint, link, robot

import dynamics_node as dn
from dynamics_node.algorithms import rnea
from dynamics_node.robot.reframe import reframe, regroup, regrouped_away
from dynamics_node.symbolic import pseudo_inertia


@pytest.mark.parametrize("robot", DISTINCT)
def test_results_do_not_depend_on_body_frames(model):
    other, T = reframe(model)
    q, qd, qdd, f_ext = random_states(model, 10, seed=41)
    moved = np.einsum("iba,...ib->...ia", np.linalg.inv(T), f_ext)
    inverse, inverse_other = (
        dn.build(m, dn.inverse_dynamics(m), backend="numpy", f_ext=True) for m in (model, other)
    )
    assert error(inverse_other(q, qd, qdd, moved), inverse(q, qd, qdd, f_ext)).max() <= EXACT
    M, right = (dn.evaluate(each, "mass_matrix", q, backend="numpy") for each in (other, model))
    assert error(M, right, tail=2).max() <= EXACT
    link = list(model.frames)[-1]
    J, J_other = (dn.evaluate(m, "frame_jacobian", q, link=link, backend="numpy") for m in (model, other))
    assert error(J_other, J, tail=2).max() <= EXACT


@pytest.mark.parametrize("robot", DISTINCT)
def test_results_do_not_depend_on_regrouped_mass(model):
    """Base parameters give the same torques, accelerations and mass matrix from fewer numbers."""
    other, T = reframe(model)
    fewer = regroup(other)
    q, qd, qdd, f_ext = random_states(model, 10, seed=43)
    moved = np.einsum("iba,...ib->...ia", np.linalg.inv(T), f_ext)
    tau = rnea(model, q, qd, qdd, f_ext)
    M = dn.evaluate(model, "mass_matrix", q, backend="numpy")
    assert error(rnea(fewer, q, qd, qdd, moved), tau).max() <= EXACT
    assert error(dn.evaluate(fewer, "mass_matrix", q, backend="numpy"), M, tail=2).max() <= EXACT
    forward = dn.build(fewer, dn.forward_dynamics(fewer), backend="numpy", f_ext=True)
    assert np.all(error(forward(q, qd, tau, moved), qdd) <= solved(M))
    pseudo_inertias = pseudo_inertia(fewer.inertias)
    assert np.abs(pseudo_inertias[regrouped_away(fewer)]).max(initial=0.0) < 1e-12


def test_nearly_right_angle_is_not_rounded():
    """A rotation of 1e-8, as in a URDF with angles of 8 digits, must not be dropped."""
    tilted = joint("j2", "b", "c").replace("<origin ", '<origin rpy="1e-8 0 1e-7" ')
    text = robot(link("a"), link("b"), link("c"), joint("j1", "a", "b"), tilted)
    text = text.replace('xyz="0 0 0.1"', 'xyz="0.3 0.2 0.1"')
    model = dn.parse_robot(text)
    assert model.bodies[1].inertia[0, 5] != 0
    assert 5e-9 < abs(model.bodies[1].X_tree[1, 2]) < 2e-8
    q, qd, qdd, _ = random_states(model, 5)
    solver = dn.build(model, dn.inverse_dynamics(model), backend="c")
    assert error(solver(q, qd, qdd), rnea(model, q, qd, qdd)).max() <= EXACT


def test_reduced_frames_have_unit_axes_and_no_y_shift(model):
    """In reduced frames z is the axis, and the fixed part between two revolute joints has r_y = 0."""
    other, _ = reframe(model)
    for body in other.bodies:
        joint = body.joint
        if joint.kind == "floating":
            continue
        unit = np.zeros(6)
        unit[5 if joint.kind == "prismatic" else 2] = joint.masters.weights[0] if joint.masters else 1.0
        assert np.allclose(joint.S[:, 0], unit, atol=1e-12)
        if body.parent >= 0 and joint.kind != "prismatic":
            parent = other.bodies[body.parent]
            siblings = [b for b in other.bodies if b.parent == body.parent and b.joint.kind != "prismatic"]
            if parent.joint.kind in ("revolute", "continuous") and siblings[0] is body:
                E, minus_Er = body.X_tree[:3, :3], body.X_tree[3:, :3]
                r_cross = -E.T @ minus_Er
                assert abs(r_cross[0, 2]) < 1e-9 and abs(E[1, 0]) < 1e-9 and abs(E[2, 0]) < 1e-9
