"""Ball joints, in every layer: against Pinocchio, by identities, at the borders."""

import numpy as np
import pytest
from balls import BallOracle, ball_robot, pin
from mechanisms import joint, link, robot
from robots import random_states
from tolerances import EXACT, error, solved

import dynamics_node as dn
from dynamics_node.graph import ORDERINGS
from dynamics_node.robot.state_arrays import moved

SEEDS = range(6)
MANY = 70  # states: of these vectors of states are made


@pytest.fixture(scope="module", params=SEEDS)
def model(request):
    """On a fixed or a floating base, with rotors at some joints."""
    text = ball_robot(request.param)
    armature = {"j1": 0.04} if request.param % 3 == 0 else {}
    return dn.parse_robot(text, floating_base=request.param % 2 == 1, armature=armature)


@pytest.fixture(scope="module")
def oracle(model):
    return BallOracle(model)


@pytest.fixture(scope="module")
def state(model):
    return random_states(model, MANY, seed=41)


@pytest.fixture(scope="module")
def torques(model, oracle, state):
    q, qd, qdd, f_ext = state
    found = [oracle.inverse(q[k], qd[k], qdd[k], f_ext[k]) for k in range(MANY)]
    return np.array(found) + model.armature * qdd


def test_coordinates():
    model = dn.parse_robot(ball_robot(0, joints=1))
    assert (model.nq, model.nv) == (4, 3) and model.joint_names == ()
    assert model.q_names == ("j1.qx", "j1.qy", "j1.qz", "j1.qw")
    assert model.v_names == ("j1.angular.x", "j1.angular.y", "j1.angular.z")
    assert model.neutral().tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_inverse_and_forward(model, state, torques, backend):
    q, qd, qdd, f_ext = state
    inverse = dn.build(model, dn.inverse_dynamics(model), backend=backend)
    forward = dn.build(model, dn.forward_dynamics(model), backend=backend)
    tolerance = solved(dn.evaluate(model, "mass_matrix", q))
    assert error(inverse(q, qd, qdd, f_ext), torques).max() <= EXACT
    assert (error(forward(q, qd, torques, f_ext), qdd) <= tolerance).all()
    for k in range(3):
        assert error(inverse(q[k], qd[k], qdd[k], f_ext[k]), torques[k]) <= EXACT
        assert error(forward(q[k], qd[k], torques[k], f_ext[k]), qdd[k]) <= tolerance[k]
        assert error(inverse(q[k], qd[k], forward(q[k], qd[k], torques[k])), torques[k]) <= EXACT


def test_quantities(model, oracle, state):
    q, link = state[0][:5], model.bodies[-1].name
    compiled = {
        name: dn.build(model, name, backend="c", **more)
        for name, more in (("mass_matrix", {}), ("frame_jacobian", {"link": link}))
    }
    for k, position in enumerate(q):
        M = oracle.mass_matrix(position) + np.diag(model.armature)
        assert error(dn.evaluate(model, "mass_matrix", position), M, tail=2) <= EXACT
        assert error(compiled["mass_matrix"](q[k]), M, tail=2) <= EXACT
        for reference in ("body", "world_aligned"):
            J = oracle.jacobian(position, link, reference)
            assert (
                error(
                    dn.evaluate(model, "frame_jacobian", position, link=link, reference=reference), J, tail=2
                )
                <= EXACT
            )
        assert error(compiled["frame_jacobian"](q[k]), J, tail=2) <= EXACT
        for found, right in zip(
            dn.evaluate(model, "frame_pose", position, link=link), oracle.pose(position, link), strict=True
        ):
            assert np.allclose(found, right, atol=1e-12)


@pytest.mark.parametrize(("seed", "floating_base"), [(0, False), (1, True)])
def test_derivatives(seed, floating_base):
    """Along the tangent space, as Pinocchio has them."""
    model = dn.parse_robot(ball_robot(seed, joints=3), floating_base=floating_base)
    oracle = BallOracle(model)
    q, qd, u, _ = random_states(model, 3, seed=40)
    order = np.ix_(oracle.order, oracle.order)
    inverse = dn.build(model, "inverse_dynamics_derivatives")(q, qd, u)
    forward = dn.build(model, "forward_dynamics_derivatives", backend="numpy")(q, qd, u)
    for k in range(3):
        arguments = [oracle.q(q[k]), oracle.v(qd[k]), oracle.v(u[k])]
        dq, dv, M = pin.computeRNEADerivatives(oracle.pin, oracle.data, *arguments)
        M = np.triu(M) + np.triu(M, 1).T
        for found, right in zip(inverse, (dq, dv, M), strict=True):
            assert error(found[k], right[order], tail=2) <= EXACT
        pin.computeABADerivatives(oracle.pin, oracle.data, *arguments)
        Minv = np.triu(oracle.data.Minv) + np.triu(oracle.data.Minv, 1).T
        for found, right in zip(forward, (oracle.data.ddq_dq, oracle.data.ddq_dv, Minv), strict=True):
            assert error(found[k], right[order], tail=2) <= solved(M)


def test_power_of_the_torques_is_the_change_of_energy(model, oracle, state):
    """By central differences along a motion, energies by Pinocchio."""
    q, qd, qdd, _ = (array[:4] for array in state)
    tau = dn.build(model, dn.inverse_dynamics(model), backend="numpy")(q, qd, qdd)
    step, every = 1e-5, range(model.nv)

    def energy(k, t):
        there, rates = moved(model, q[k], every, t * qd[k] + t * t / 2 * qdd[k]), qd[k] + t * qdd[k]
        rotors = 0.5 * model.armature @ rates**2
        return rotors + pin.computeMechanicalEnergy(oracle.pin, oracle.data, oracle.q(there), oracle.v(rates))

    for k in range(4):
        change = (energy(k, step) - energy(k, -step)) / (2 * step)
        assert abs(change - tau[k] @ qd[k]) <= 1e-6 * max(1.0, np.abs(tau[k] * qd[k]).sum())


@pytest.mark.parametrize("backend", ["numpy", "gtsam"])
def test_every_ordering(backend):
    if backend == "gtsam":
        pytest.importorskip("gtsam")
    model = dn.parse_robot(ball_robot(1), floating_base=True)
    q, qd, qdd, f_ext = random_states(model, 3, seed=42)
    tau = dn.build(model, dn.inverse_dynamics(model), backend="numpy")(q, qd, qdd, f_ext)
    hybrid = dn.hybrid_dynamics(model, ["j1"])
    tolerance = solved(dn.evaluate(model, "mass_matrix", q))
    for ordering in ORDERINGS:
        choice = {"solver": "factor_graph", "ordering": ordering, "backend": backend}
        found = dn.build(model, dn.inverse_dynamics(model), **choice)(q, qd, qdd, f_ext)
        assert error(found, tau).max() <= 1e-9, ordering
        found = dn.build(model, dn.forward_dynamics(model), **choice)(q, qd, tau, f_ext)
        assert (error(found, qdd) <= tolerance).all(), ordering
        found = dn.build(model, hybrid, **choice)(q, qd, qdd, tau, f_ext)
        assert (error(found[0], qdd) <= tolerance).all() and error(found[1], tau).max() <= 1e-9, ordering


def test_hybrid_compiled():
    model = dn.parse_robot(ball_robot(1), floating_base=True)
    q, qd, qdd, _ = random_states(model, MANY, seed=43)
    tau = dn.build(model, dn.inverse_dynamics(model), backend="numpy")(q, qd, qdd)
    found = dn.build(model, dn.hybrid_dynamics(model, ["j1"]), backend="c")(q, qd, qdd, tau)
    assert error(found[0], qdd).max() <= 1e-9 and error(found[1], tau).max() <= 1e-9


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_quaternions_of_another_length(backend):
    model = dn.parse_robot(ball_robot(2))
    q, qd, qdd, _ = random_states(model, MANY, seed=44)
    solver = dn.build(model, dn.inverse_dynamics(model), backend=backend)
    right, (name, at) = solver(q, qd, qdd), model.quaternions[-1]
    nearly, bad = q.copy(), q.copy()
    nearly[:, at] *= 1 + 5e-7
    assert error(solver(nearly, qd, qdd), right).max() <= 1e-12
    assert error(solver(nearly[0], qd[0], qdd[0]), right[0]) <= 1e-12
    bad[3, at] *= 1.01
    for states in (slice(None), slice(5), 3):
        with pytest.raises(dn.InputError, match=rf"quaternion of '{name}' has norm 1.01"):
            solver(bad[states], qd[states], qdd[states])
    found = solver(bad, qd, qdd, errors="nan")
    assert np.isnan(found[3]).all() and error(np.delete(found, 3, 0), np.delete(right, 3, 0)).max() <= 1e-12


def test_single_precision():
    model = dn.parse_robot(ball_robot(3))
    q, qd, qdd, _ = random_states(model, MANY, seed=45)
    right = dn.build(model, dn.inverse_dynamics(model))(q, qd, qdd)
    found = dn.build(model, dn.inverse_dynamics(model), precision="float32")(q, qd, qdd)
    assert found.dtype == np.float32 and error(found, right).max() <= 1e-3


def test_payloads_and_rotors_without_compilation():
    model = dn.parse_robot(ball_robot(4), armature={"j1": 0.1})
    q, qd, qdd, _ = random_states(model, 3, seed=46)
    solver = dn.build(
        model, dn.forward_dynamics(model), backend="c", runtime_parameters=("inertia", "armature")
    )
    other = dn.parse_robot(ball_robot(4), armature={"j1": 0.2})
    other = dn.with_payload(other, model.bodies[-1].name, 1.0, (0.1, 0, 0.2), np.eye(3) * 0.01)
    expected = dn.build(other, dn.forward_dynamics(other), backend="numpy")(q, qd, qdd)
    assert error(solver.with_inertias(other)(q, qd, qdd), expected).max() <= 1e-9


def test_a_long_robot_has_no_loops_over_its_bodies():
    from dynamics_node.algorithms.rolled_recursions import can_roll

    text = ball_robot(5, joints=70, kinds=("revolute",))
    model = dn.parse_robot(text)
    assert model.nbodies == 70 and not can_roll(model, dn.inverse_dynamics(model))
    q, qd, qdd, _ = random_states(model, 2, seed=47)
    tau = dn.build(model, dn.inverse_dynamics(model), backend="numpy")(q, qd, qdd)
    forward = dn.build(model, dn.forward_dynamics(model), backend="numpy")(q, qd, tau)
    assert (
        error(dn.build(model, dn.inverse_dynamics(model), backend="numpy")(q, qd, forward), tau).max() <= 1e-9
    )


def test_a_ball_joint_that_is_held_stays_at_neutral():
    text = ball_robot(0)
    whole = dn.parse_robot(text)
    scalar = [joint.name for joint in whole.independent_joints if joint.type.is_scalar]
    model = dn.parse_robot(text, joints=scalar)
    q, qd, qdd, _ = random_states(model, 3, seed=48)
    q_all = np.tile(whole.neutral(), (3, 1))
    places = {joint.name: joint for joint in whole.independent_joints}
    v = [places[name].v.start for name in scalar]
    q_all[:, [places[name].q.start for name in scalar]] = q
    rates = np.zeros((2, 3, whole.nv))
    rates[..., v] = qd, qdd
    expected = dn.build(whole, dn.inverse_dynamics(whole), backend="numpy")(q_all, *rates)[:, v]
    assert (
        error(dn.build(model, dn.inverse_dynamics(model), backend="numpy")(q, qd, qdd), expected).max()
        <= EXACT
    )
    with pytest.raises(dn.ModelError, match="joint 'j1': a ball joint has no single position to be held at"):
        dn.parse_robot(text, joints=scalar, positions={"j1": 0.3})


def test_nothing_mimics_a_ball_joint():
    parts = [link("a"), link("b", 1, 1.0), link("c", 2, 1.0), joint("hip", "a", "b", kind="ball")]
    mimic = joint("toe", "b", "c").replace("<limit", '<mimic joint="hip"/><limit')
    with pytest.raises(dn.ModelError, match="joint 'toe': a ball joint can take no part in mimic"):
        dn.parse_robot(robot(*parts, mimic))


def test_base_parameters_of_a_ball_joint():
    """The mass at its centre is its parent's: a Program that regroups is as short as one without that mass."""
    from dynamics_node.robot.reframe import regroup

    model = dn.parse_robot(ball_robot(0))
    own = regroup(model).bodies[0].inertia
    assert own[5, 5] == 0 and model.bodies[0].inertia[5, 5] > 0
