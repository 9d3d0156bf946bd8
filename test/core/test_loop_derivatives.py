"""Derivatives of the dynamics of closed loops."""

import numpy as np
import pytest
from closed_loops import mechanism_of, states
from tolerances import error

import dynamics_node as dn


@pytest.mark.parametrize("name", ["four_bar", "five_bar", "belt_chain", "ball"])
@pytest.mark.parametrize("kind", ["inverse", "forward", "hybrid"])
def test_derivatives_of_mechanisms(name, kind):
    """Against differences of the solver itself, along motions that keep the loops closed."""
    mechanism = mechanism_of(name)
    if kind == "hybrid":
        problem = dn.hybrid_dynamics(mechanism, mechanism.joint_names[:1])
    else:
        problem = {"inverse": dn.inverse_dynamics, "forward": dn.forward_dynamics}[kind](mechanism)
    q, yd, known = (a[0] for a in states(mechanism, 1, reach=0.03))
    arguments = (known, known) if kind == "hybrid" else (known,)
    solver, forward = dn.build(mechanism, problem, backend="numpy"), np.array(problem.forward)
    derivatives = solver.derivatives()
    independent, step = [joint.q.start for joint in mechanism.independent_joints], 1e-6

    def asked(q, yd, known):
        if kind == "hybrid":
            return np.where(forward, *solver(q, yd, known, known))
        return solver(q, yd, known)

    def moved(at, k, s):
        x = at.copy()
        x[k] += s * step
        return x

    def closed(k, s):
        return dn.close_loops(mechanism, moved(q, independent[k], s))

    def column(call):
        return (call(1) - call(-1)) / (2 * step)

    n = range(mechanism.nv)
    expected = (
        [column(lambda s, k=k: asked(closed(k, s), yd, known)) for k in n],
        [column(lambda s, k=k: asked(q, moved(yd, k, s), known)) for k in n],
        [column(lambda s, k=k: asked(q, yd, moved(known, k, s))) for k in n],
    )
    for found, right in zip(derivatives(q, yd, *arguments), expected, strict=True):
        assert error(found, np.array(right).T, tail=2) <= 1e-6  # what differences allow
