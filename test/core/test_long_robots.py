"""Robots of many bodies: straight lines of 10,000 operations and more, in functions of a bounded length."""

import pickle

import numpy as np
import pytest
from parallel_robots import chain, humanoid_with_hands, states
from tolerances import EXACT, error, solved

import dynamics_node as dn
from dynamics_node.algorithms import aba, rnea
from dynamics_node.errors import CompileError

ROBOTS = {
    "60": lambda: chain(60, sliding=0.2, floating=True, armature=0.1),
    "humanoid": humanoid_with_hands,
}


@pytest.mark.parametrize("name", ROBOTS)
def test_functions_agree_with_recursions_on_arrays(name):
    """One state, a pickled copy, batches in vectors, other inertias; inverse dynamics of the accelerations found are
    the torques."""
    robot = ROBOTS[name]()
    q, qd, u, f_ext = states(robot, 70)
    build = {"backend": "c", "runtime_parameters": ("inertia",)}
    forward, inverse = (
        dn.build(robot, f"{kind}_dynamics", **build, f_ext=True) for kind in ("forward", "inverse")
    )
    tolerance = solved(dn.evaluate(robot, "mass_matrix", q[:5], backend="numpy"))
    for function, reference, bound in (
        (forward, lambda *x: aba(robot, *x[:3], f_ext=x[3])[0], tolerance),
        (inverse, lambda *x: rnea(robot, *x), EXACT),
    ):
        right = reference(*(x[:5] for x in (q, qd, u, f_ext)))
        assert function.runner.backend == "c"
        assert np.all(error(function(q, qd, u, f_ext)[:5], right) <= bound)
        copy = pickle.loads(pickle.dumps(function))
        assert np.all(error(copy(q[0], qd[0], u[0], f_ext[0]), right[0]) <= np.max(bound))
    qdd = forward(q, qd, u)
    assert error(inverse(q, qd, qdd), u).max() <= EXACT
    last = robot.bodies[-1].name
    heavier = dn.with_payload(robot, last, 2.0, np.ones(3), np.eye(3))
    torques = inverse.with_inertias(heavier)(q[:5], qd[:5], u[:5])
    assert error(torques, rnea(heavier, q[:5], qd[:5], u[:5])).max() <= EXACT


def test_forward_dynamics_of_a_long_chain_inverts_inverse_dynamics():
    robot = chain(200)
    q, qd, qdd, _ = states(robot, 1)
    forward, inverse = (dn.build(robot, f"{kind}_dynamics", backend="c") for kind in ("forward", "inverse"))
    tau = inverse(q[0], qd[0], qdd[0])
    assert error(inverse(q[0], qd[0], forward(q[0], qd[0], tau)), tau) <= EXACT


def test_programs_too_long_to_compile_are_interpreted(monkeypatch, caplog):
    monkeypatch.setattr("dynamics_node.codegen.c.kernel.MOST_OPERATIONS", 1000)
    robot = chain(7)
    derivatives = dn.build(robot, "inverse_dynamics_derivatives")
    assert derivatives.runner.backend == "numpy" and "operations are too many to compile" in caplog.text
    with pytest.raises(CompileError, match="too many"):
        dn.build(robot, "inverse_dynamics_derivatives", backend="c")
