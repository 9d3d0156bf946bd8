"""Against MuJoCo: planar linkages at zero, from its mass matrix, its bias and the Jacobian of its connections; trees
with ball joints."""

import numpy as np
import pytest
from balls import ball_robot
from linkages import grid, palletizer
from mujoco_oracle import Connected, Tree
from robots import random_states
from tolerances import EXACT, error

import dynamics_node as dn


@pytest.mark.parametrize(
    "make, seed", [*((palletizer, k) for k in (1, 2, 3)), *((grid, k) for k in (4, 8, 15))]
)
def test_linkages_at_zero(make, seed):
    linkage = make(np.random.default_rng(seed))
    mechanism = dn.parse_robot(linkage.text, floating_base=False)
    mujoco, q = Connected(linkage, mechanism), np.zeros(mechanism.nq)
    yd, ydd = np.random.default_rng(0).uniform(-1, 1, (2, mechanism.nv))
    solver = dn.build(mechanism, dn.inverse_dynamics(mechanism))
    assert error(solver(q, 0 * yd, ydd), mujoco.torques(q, 0 * yd, ydd)) <= EXACT
    assert error(solver(q, yd, ydd), mujoco.torques(q, yd, ydd)) <= 1e-7


@pytest.mark.parametrize("seed", range(4))
def test_ball_joints(seed):
    tree = dn.parse_robot(ball_robot(seed), armature={"j1": 0.05})
    mujoco = Tree(tree)
    solver = dn.build(tree, dn.inverse_dynamics(tree), backend="numpy")
    for q, qd, qdd in zip(*random_states(tree, 5, seed=seed)[:3], strict=True):
        assert error(solver(q, qd, qdd), mujoco.inverse(q, qd, qdd)) <= EXACT
