"""Every result against Pinocchio: 21 robots, 50 random states each."""

import numpy as np
import pytest
from robots import random_states
from tolerances import EXACT, error, solved

import dynamics_node as dn


@pytest.fixture
def states(model):
    return random_states(model)


def test_inverse(model, oracle, states):
    q, qd, qdd, f_ext = states
    expected = [oracle.inverse(*state) for state in zip(*states, strict=True)]
    solver = dn.build(model, dn.inverse_dynamics(model), backend="numpy")
    assert error(solver(q, qd, qdd, f_ext), expected).max() <= EXACT


def test_mass_matrix_and_bias(model, oracle, states):
    q, qd, _, _ = states
    assert (
        error(dn.evaluate(model, "mass_matrix", q), [oracle.mass_matrix(x) for x in q], tail=2).max() <= EXACT
    )
    expected = [oracle.inverse(x, v, 0 * v) for x, v in zip(q, qd, strict=True)]
    assert error(dn.evaluate(model, "nonlinear_effects", q, qd), expected).max() <= EXACT


def test_forward(model, oracle, states):
    q, qd, _, f_ext = states
    tau = np.random.default_rng(5).uniform(-20, 20, qd.shape)
    expected = [oracle.forward(*state) for state in zip(q, qd, tau, f_ext, strict=True)]
    qdd = dn.build(model, dn.forward_dynamics(model), backend="numpy")(q, qd, tau, f_ext)
    M = np.array([oracle.mass_matrix(x) for x in q])
    assert np.all(error(qdd, expected) <= solved(M))
    residual = [oracle.inverse(*state) for state in zip(q, qd, qdd, f_ext, strict=True)]
    assert error(residual, tau).max() <= EXACT


def test_hybrid(model, oracle, states):
    """Pinocchio has no hybrid dynamics: its inverse dynamics must confirm both halves."""
    q, qd, qdd, f_ext = states
    names = [joint.name for joint in model.independent_joints[::2]]
    problem = dn.hybrid_dynamics(model, names)
    forward = np.array(problem.forward)
    tau = np.array([oracle.inverse(*state) for state in zip(*states, strict=True)])
    known_qdd, known_tau = np.where(forward, np.nan, qdd), np.where(forward, tau, np.nan)
    found_qdd, found_tau = dn.build(model, problem, backend="numpy")(q, qd, known_qdd, known_tau, f_ext)
    M = np.array([oracle.mass_matrix(x) for x in q])
    assert np.all(error(found_qdd, qdd) <= solved(M))
    assert np.array_equal(found_qdd[:, ~forward], qdd[:, ~forward])
    assert np.array_equal(found_tau[:, forward], tau[:, forward])
    residual = [oracle.inverse(*state) for state in zip(q, qd, found_qdd, f_ext, strict=True)]
    assert error(residual, found_tau).max() <= EXACT


@pytest.mark.parametrize("reference", ["world_aligned", "body"])
def test_link_jacobians(model, oracle, states, reference):
    q = states[0][:10]
    for link in _some_links(model):
        expected = [oracle.jacobian(x, link, reference) for x in q]
        assert (
            error(
                dn.evaluate(model, "frame_jacobian", q, link=link, reference=reference), expected, tail=2
            ).max()
            <= EXACT
        )


def test_link_poses(model, oracle, states):
    q = states[0][:10]
    for link in _some_links(model):
        rotation, origin = dn.evaluate(model, "frame_pose", q, link=link)
        expected = [oracle.pose(x, link) for x in q]
        assert error(rotation, [e[0] for e in expected], tail=2).max() <= EXACT
        assert error(origin, [e[1] for e in expected]).max() <= EXACT


def test_operational_space(model, oracle, states):
    q = states[0][:10]
    links = _some_links(model)[-2:]
    inverse, J = dn.evaluate(model, "operational_space_inertia_inverse", q, links=links)
    for state in range(len(q)):
        M = oracle.mass_matrix(q[state])
        reference = np.concatenate([oracle.jacobian(q[state], link, "world_aligned") for link in links])
        assert error(J[state], reference, tail=2) <= EXACT
        expected = reference @ np.linalg.solve(M, reference.T)
        assert error(inverse[state], expected, tail=2) <= solved(M)


def _some_links(model):
    """About six links, fixed ones and the last among them."""
    links = [name for name, frame in model.frames.items() if frame.body >= 0]
    return [*links[:: max(1, len(links) // 5)], links[-1]]
