"""Generalised momentum and its rate: trees against Pinocchio, loops against derivatives along the motion."""

import numpy as np
import pytest
from closed_loops import mechanism_of, states
from oracle import Oracle, pin
from robots import ROBOTS, random_states
from tolerances import EXACT, error

import dynamics_node as dn
from dynamics_demo.robots import quadruped
from dynamics_node.algorithms import crba, generalized_momentum, quantity_program, rnea
from dynamics_node.algorithms.rates import explicit_rates, rates_at
from dynamics_node.symbolic import derivative_name, interpret, jacobian, trace


@pytest.mark.parametrize("name", ["panda7", "panda", "ur5", "so101", "solo12", "hyq", "panda_floating", "g1"])
def test_trees_against_pinocchio(name):
    """p = M qd; with M' = C + C^T, which Pinocchio's C keeps to on floating bases too, rate = C^T qd - g."""
    robot = ROBOTS[name]
    model = robot.model()
    oracle = Oracle(robot, model)
    q, qd, _, _ = random_states(model, 5, seed=3)
    found = dn.build(model, "generalized_momentum", backend="c")(q, qd)
    plain = generalized_momentum(model, q, qd)
    for k in range(5):
        theirs = oracle.q(q[k]), oracle.v(qd[k])
        C = np.array(pin.computeCoriolisMatrix(oracle.pin, oracle.data, *theirs))
        g = pin.computeGeneralizedGravity(oracle.pin, oracle.data, theirs[0])
        rate = (C.T @ theirs[1] - g)[oracle.order]
        p = oracle.mass_matrix(q[k]) @ qd[k]
        for own in (found, plain):
            if model.explicit_joints:  # Pinocchio has no Coriolis matrix of these
                continue
            assert error(own[0][k], p) <= EXACT and error(own[1][k], rate) <= EXACT


@pytest.mark.parametrize("name", ["panda", "baxter"])
def test_joints_that_mimic(name):
    """M' qd by differences of our mass matrix, which Pinocchio has checked."""
    model = ROBOTS[name].model()
    q, qd, _, _ = random_states(model, 5, seed=3)
    p, rate = generalized_momentum(model, q, qd)
    ahead, behind = (dn.evaluate(model, "mass_matrix", q + s * 1e-5 * qd) for s in (1, -1))
    change = (((ahead - behind) / 2e-5) @ qd[..., None])[..., 0]
    assert model.explicit_joints
    assert error(p, (dn.evaluate(model, "mass_matrix", q) @ qd[..., None])[..., 0]).max() <= EXACT
    assert error(rate, change - dn.evaluate(model, "nonlinear_effects", q, qd)).max() <= 1e-7


LOOPS = ["five_bar", "differential", "belt_leg", "ball", "quadruped", "universal"]


@pytest.mark.parametrize("name", LOOPS)
def test_loops_along_the_motion(name):
    """The derivative of G^T M G yd along the motion, less h: the definition, derived by the Program's own
    derivatives, of which the recursion uses none."""
    mechanism, q, yd = floating() if name == "quadruped" else fixed(name)
    p, rate = by_derivatives(mechanism, q, yd)
    found = dn.build(mechanism, "generalized_momentum", backend="c")(q, yd)
    plain = dn.build(mechanism, "generalized_momentum", backend="numpy")(q, yd)
    assert error(p, (dn.evaluate(mechanism, "mass_matrix", q) @ yd[..., None])[..., 0]).max() <= EXACT
    for own in (found, plain):
        assert error(own[0], p).max() <= EXACT and error(own[1], rate).max() <= 1e-9


def fixed(name):
    mechanism = mechanism_of(name)
    return mechanism, *states(mechanism, 5, reach=0.03)[:2]


def floating():
    mechanism, random = dn.parse_robot(quadruped(), floating_base=True), np.random.default_rng(4)
    q = np.tile(mechanism.neutral(), (5, 1))
    q[:, 3:7] = random.standard_normal((5, 4))
    q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1)[:, None]
    own = [joint.q.start for joint in mechanism.independent_joints if joint.kind != "floating"]
    q[:, own] += random.uniform(0.0, 0.2, (5, len(own)))
    return mechanism, dn.close_loops(mechanism, q), random.uniform(-1, 1, (5, mechanism.nv))


def by_derivatives(mechanism, q, yd):
    tree = mechanism.tree

    def later(q, yd, t):
        rates = explicit_rates(mechanism, q, yd).G @ yd
        moved = np.array(q, dtype=object)
        for joint in tree.independent_joints:
            moved[joint.q] = q[joint.q] + t[0] * (joint.type.tangent(q[joint.q]) @ rates[joint.v])
        return {"p": rates_at(mechanism, moved, explicit=True).congruence(crba(tree, moved)) @ yd}

    program = trace(later, {"q": (mechanism.nq,), "yd": (mechanism.nv,), "t": (1,)})
    state = {"q": q, "yd": yd, "t": np.zeros(1)}
    change = interpret(jacobian(program, ["p"], ["t"]), **state)[derivative_name("p", "t")][..., 0]
    return interpret(program, **state)["p"], change - dn.evaluate(mechanism, "nonlinear_effects", q, yd)


def test_fewer_operations_than_a_derivative():
    """Why the recursion is used: dT/dq of the traced energy, less the weight, costs more."""
    model = ROBOTS["panda7"].model()
    own = quantity_program(model, "generalized_momentum")
    energy = trace(
        lambda q, qd: {
            "T": 0.5 * np.array(qd @ generalized_momentum(model, q, qd, np.zeros(3))[0], dtype=object)
        },
        {"q": (7,), "qd": (7,)},
    )
    weight = trace(
        lambda q, g: {"g": rnea(model, q, np.zeros(7), np.zeros(7), gravity=g)}, {"q": (7,), "g": (3,)}
    )
    swept = jacobian(energy, ["T"], ["q", "qd"])
    assert len(own.ops) < 0.8 * (len(swept.ops) + len(weight.ops))


def test_payloads_and_rotors_are_inputs():
    model = ROBOTS["panda7"].model()
    loaded = dn.with_payload(model, "panda_link7", 2.0, (0.0, 0.1, 0.1), 0.01 * np.eye(3))
    loaded = dn.with_parameters(loaded, loaded.inertias, np.linspace(0.1, 0.3, 7))
    q, qd, _, _ = random_states(model, 5)
    function = dn.build(
        model, "generalized_momentum", runtime_parameters=("inertia", "armature")
    ).with_inertias(loaded)
    for own, right in zip(function(q, qd), generalized_momentum(loaded, q, qd), strict=True):
        assert error(own, right).max() <= EXACT
