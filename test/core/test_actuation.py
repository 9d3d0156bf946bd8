"""Torques of the driven joints: as many as coordinates, fewer, or more."""

import numpy as np
import pytest
from robots import closed_states
from tolerances import error

import dynamics_node as dn
from dynamics_demo.robots import five_bar, geared_chain
from dynamics_node.algorithms import Actuation
from dynamics_node.algorithms.rates import closure_matrix


def test_regular_redundant_and_missing_motors():
    mechanism = dn.parse_robot(five_bar())
    q, _, tau = closed_states(mechanism, 6)
    regular = Actuation(mechanism, ["j1", "j2"])
    solution = regular.from_coordinates(q, tau)
    order = [mechanism.v_names.index(name) for name in ("j1", "j2")]
    assert np.allclose(solution.torques, tau[:, order], atol=1e-12) and np.abs(solution.rest).max() <= 1e-12
    redundant = Actuation(mechanism, ["j1", "j2", "j3", "j4"], weights=[1.0, 1.0, 4.0, 9.0])
    torques, rest = redundant.from_coordinates(q, tau)
    assert np.abs(rest).max() <= 1e-9 and error(redundant.to_coordinates(q, torques), tau).max() <= 1e-10
    A = np.swapaxes(closure_matrix(mechanism, q)[:, redundant.at], 1, 2)
    for k in range(6):  # equivalent torques cost more
        null = np.linalg.svd(A[k])[2][2:]
        for step in (0.1, -0.1):
            other = torques[k] + step * null.sum(axis=0)
            assert other @ np.diag([1, 1, 4, 9]) @ other > torques[k] @ np.diag([1, 1, 4, 9]) @ torques[k]
    partial = Actuation(mechanism, ["j1"])
    fit = partial.from_coordinates(q, tau)
    assert fit.torques.shape == (6, 1) and np.abs(fit.rest).max() > 0.01
    G = closure_matrix(mechanism, q)[:, partial.at]
    assert np.abs(np.einsum("kji,ki->kj", G, fit.rest)).max() <= 1e-10, "a least-squares fit"


def test_rotor_torque_is_the_joint_torque_over_the_ratio():
    mechanism = dn.parse_robot(geared_chain(3))
    q, _, tau = closed_states(mechanism, 2)
    rotors = Actuation(mechanism, ["m1", "m2", "m3"])
    assert np.allclose(rotors.from_coordinates(q, tau).torques, tau / 6.0)
    for wrong, words in ((["m9"], "'m9'.*unknown"), (["m1", "m2"], "weights.* 2 ")):
        with pytest.raises(ValueError, match=words):
            Actuation(mechanism, wrong, weights=[1.0, -1.0])
