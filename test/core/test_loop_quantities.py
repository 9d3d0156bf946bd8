"""Mass matrix, bias, Jacobians and operational-space inertia of closed loops."""

import numpy as np
import pytest
from closed_loops import mechanism_of, spread, states
from tolerances import EXACT, error

import dynamics_node as dn
from dynamics_node.algorithms import QUANTITIES, quantity_programs
from dynamics_node.symbolic import interpret


@pytest.mark.parametrize(
    "name, backend",
    [
        *((name, "numpy") for name in ("five_bar", "belt_chain", "ball")),
        ("five_bar", "c"),
        ("belt_chain", "c"),
    ],
)
def test_quantities_of_mechanisms(name, backend):
    """M and h make up inverse dynamics; Lambda^-1 = J M^-1 J^T; J qd is the velocity of the link's origin."""
    mechanism = mechanism_of(name)
    q, yd, ydd = states(mechanism, 70, reach=0.03)
    link = mechanism.bodies[-1].name

    def built(quantity, **options):
        return dn.build(mechanism, quantity, backend=backend, **options)

    one = built("mass_matrix")
    M, h = one(q), built("nonlinear_effects")(q, yd)
    tau = dn.build(mechanism, dn.inverse_dynamics(mechanism), backend="numpy")(q, yd, ydd)
    assert error((M @ ydd[..., None])[..., 0] + h, tau).max() <= EXACT
    J = built("frame_jacobian", link=link)(q)
    inverse, same = built("operational_space_inertia_inverse", links=[link])(q)
    assert error(same, J, tail=2).max() <= EXACT
    assert error(built("inverse_mass_matrix")(q) @ M, np.eye(mechanism.nv) + 0 * M, tail=2).max() <= 1e-9
    assert error(inverse, J @ np.linalg.solve(M, np.swapaxes(J, 1, 2)), tail=2).max() <= 1e-8
    assert error(one(q[3]), M[3], tail=2) <= EXACT
    G, _ = spread(mechanism, q[3], yd[3])
    ahead, behind = (
        dn.evaluate(mechanism.tree, "frame_pose", q[3] + s * 1e-6 * (G @ yd[3]), link=link)[1]
        for s in (1, -1)
    )
    assert np.allclose((ahead - behind) / 2e-6, (J[3] @ yd[3])[3:], atol=1e-7)
    if name != "belt_chain":
        with pytest.raises(dn.SolutionError, match="is open by"):
            one(q[3] + 0.01)
        assert np.isnan(one(q[3] + 0.01, errors="nan")).all()


@pytest.mark.parametrize("reference", ["LOCAL_WORLD_ALIGNED", "LOCAL", "WORLD"])
@pytest.mark.parametrize("name", ["tilted five_bar", "differential", "ball"])
def test_how_jacobians_change(name, reference):
    """By differences along the motion; closed loops turn G, too."""
    mechanism = mechanism_of(name)
    q, yd, _ = (a[0] for a in states(mechanism, 1, reach=0.05))
    of_link = {"link": mechanism.bodies[-1].name, "reference": reference}
    ahead, behind = (
        dn.evaluate(mechanism, "frame_jacobian", dn.integrate(mechanism, q, s * yd), **of_link)
        for s in (1e-5, -1e-5)
    )
    found = dn.evaluate(mechanism, "frame_jacobian_time_derivative", q, yd, **of_link)
    assert np.allclose((ahead - behind) / 2e-5, found, atol=1e-7)
    drift = dn.evaluate(mechanism, "frame_jacobian_bias", q, yd, **of_link)
    assert np.allclose(found @ yd, drift, atol=1e-10)


@pytest.mark.parametrize("name", ["five_bar", "geared_chain", "belt_chain", "universal"])
@pytest.mark.parametrize("reference", ["world_aligned", "body", "WORLD"])
def test_extended_forces(name, reference):
    """C-EFPA gives what J M^-1 J^T is, for several links at once: in a loop, on one branch, on the root."""
    mechanism = mechanism_of(name)
    q, _, _ = states(mechanism, 5, reach=0.03)
    links = [
        mechanism.bodies[-1].name,
        mechanism.bodies[0].name,
        mechanism.base_link,
        mechanism.bodies[-2].name,
    ]
    options = {"links": links, "reference": reference}
    ways = quantity_programs(mechanism, "operational_space_inertia_inverse", **options).values()
    returns = QUANTITIES["operational_space_inertia_inverse"].returns
    (right, J), (found, same) = ([interpret(way, q=q)[name] for name in returns] for way in ways)
    assert error(found, right, tail=2).max() <= 1e-9 and error(same, J, tail=2).max() <= EXACT


@pytest.mark.parametrize("name", ["five_bar", "differential", "belt_leg"])
def test_numbers_of_the_tree_projected(name):
    """mass matrix, bias and operational-space inertia by NumPy are the compiled ones."""
    mechanism = mechanism_of(name)
    q, yd, _ = states(mechanism, 3, reach=0.1)
    link = mechanism.bodies[-1].name
    assert (
        error(dn.evaluate(mechanism, "mass_matrix", q), dn.build(mechanism, "mass_matrix")(q), tail=2).max()
        <= EXACT
    )
    assert (
        error(
            dn.evaluate(mechanism, "nonlinear_effects", q, yd),
            dn.build(mechanism, "nonlinear_effects")(q, yd),
        ).max()
        <= EXACT
    )
    ours = dn.evaluate(mechanism, "operational_space_inertia_inverse", q, links=[link])
    theirs = dn.build(mechanism, "operational_space_inertia_inverse", links=[link])(q)
    for a, b in zip(ours, theirs, strict=True):
        assert error(a, b, tail=2).max() <= 1e-9
