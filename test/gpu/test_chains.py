"""The solvers of long chains on arrays of CuPy."""

import pickle

import numpy as np
import pytest
from parallel_robots import FIVE_LIMBS, chain, states, tree
from tolerances import EXACT, error

import dynamics_node as dn
from dynamics_node.algorithms import aba
from dynamics_node.chains import SOLVERS
from dynamics_node.codegen.cuda import lost


def build(robot, solver, **choices):
    return dn.build(robot, "forward_dynamics", solver=solver, backend="cuda", f_ext=True, **choices)


@pytest.mark.parametrize("solver", SOLVERS)
def test_functions_of_chains(gpu, solver):
    """Also of trees, after a pickle, of another payload, and in float32."""
    for robot in (chain(3, 0.5), tree(FIVE_LIMBS, 0.3, floating=True)):
        q, qd, tau, f_ext = states(robot, 2)
        forward = pickle.loads(pickle.dumps(build(robot, solver, runtime_parameters=("inertia",))))
        assert forward.choice.backend == "cuda"
        assert error(forward(q, qd, tau, f_ext), aba(robot, q, qd, tau, f_ext=f_ext)[0]).max() <= EXACT
        heavier = dn.with_payload(robot, "l0_2", 3.0, [0, 0, 0.1], 0.1 * np.eye(3))
        assert error(forward.with_inertias(heavier)(q, qd, tau), aba(heavier, q, qd, tau)[0]).max() <= EXACT
        single = [a.astype(np.float32) for a in (q, qd, tau)]
        accelerations = build(robot, solver, precision="float32")(*single)
        exact = aba(robot, *(a.astype(float) for a in single))[0]
        assert accelerations.dtype == np.float32 and 1e-9 < error(accelerations, exact).max() < 1e-3
    assert lost() is None


@pytest.mark.parametrize("solver, ordering", [("cfa", "oee"), ("cfa", "cr"), ("jsiia", "best")])
def test_numpy_goes_on_when_the_device_is_lost(stand_in, solver, ordering):
    robot = chain(3, 0.5)
    q, qd, tau, _ = states(robot, 2)
    forward = build(robot, solver, ordering=ordering)
    stand_in.fault.plan(0)
    for _ in range(2):
        assert error(forward(q, qd, tau), aba(robot, q, qd, tau)[0]).max() <= EXACT
    assert lost()
