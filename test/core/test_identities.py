"""What must hold whoever computes it."""

import numpy as np
from robots import random_states
from tolerances import EXACT, error, solved

import dynamics_node as dn
from dynamics_node.algorithms.recursion import joint_motions, outward
from dynamics_node.algorithms.transforms import joint_transforms
from dynamics_node.robot.state_arrays import moved
from dynamics_node.symbolic import inverse_motion_transform


def test_inverse_is_mass_times_acceleration_plus_bias(model):
    q, qd, qdd, _ = random_states(model, 20, seed=7)
    tau = dn.build(model, dn.inverse_dynamics(model), backend="numpy")(q, qd, qdd)
    M = dn.evaluate(model, "mass_matrix", q)
    assert (
        error((M @ qdd[..., None])[..., 0] + dn.evaluate(model, "nonlinear_effects", q, qd), tau).max()
        <= EXACT
    )


def test_forward_undoes_inverse(model):
    q, qd, qdd, f_ext = random_states(model, 20, seed=8)
    tau = dn.build(model, dn.inverse_dynamics(model), backend="numpy")(q, qd, qdd, f_ext)
    found = dn.build(model, dn.forward_dynamics(model), backend="numpy")(q, qd, tau, f_ext)
    assert np.all(error(found, qdd) <= solved(dn.evaluate(model, "mass_matrix", q)))


def test_mass_matrix_is_symmetric_and_positive(model):
    q = random_states(model, 20, seed=9)[0]
    M = dn.evaluate(model, "mass_matrix", q)
    assert error(M, np.swapaxes(M, -1, -2), tail=2).max() <= EXACT
    assert np.linalg.eigvalsh(M).min() > 0


def _kinetic_energy(model, q, qd):
    v = outward(model, joint_transforms(model, q), joint_motions(model, qd))
    rotors = 0.5 * (model.armature * qd**2).sum(-1)
    return 0.5 * np.einsum("...bi,bij,...bj", v, model.inertias, v) + rotors


def test_kinetic_energy_is_the_quadratic_form_of_the_mass_matrix(model):
    q, qd, _, _ = random_states(model, 20, seed=10)
    quadratic = 0.5 * np.einsum("...i,...ij,...j", qd, dn.evaluate(model, "mass_matrix", q), qd)
    assert error(_kinetic_energy(model, q, qd), quadratic, tail=0).max() <= EXACT


def _potential_energy(model, q):
    energy = 0.0
    for body in model.bodies:
        rotation, origin = dn.evaluate(model, "frame_pose", q, link=body.name)
        mass = body.inertia[5, 5]
        first_moment = np.array([body.inertia[2, 4], body.inertia[0, 5], body.inertia[1, 3]])
        energy -= (mass * origin + rotation @ first_moment) @ model.gravity
    return energy


def test_power_of_the_torques_is_the_change_of_energy(model):
    """dE/dt = tau . qd, by central differences along the motion; independent of every recursion's h."""
    q, qd, qdd, _ = random_states(model, 5, seed=11)
    tau = dn.build(model, dn.inverse_dynamics(model), backend="numpy")(q, qd, qdd)
    step = 1e-5

    def energy(t):
        position = moved(model, q, range(model.nv), t * qd + t * t / 2 * qdd)
        velocity = qd + t * qdd
        return _kinetic_energy(model, position, velocity) + _potential_energy(model, position)

    change = (energy(step) - energy(-step)) / (2 * step)
    power = (tau * qd).sum(-1)
    scale = np.abs(tau * qd).sum(-1)
    assert np.all(np.abs(change - power) <= 1e-6 * np.maximum(1.0, scale))


def test_virtual_work_of_an_external_wrench(model):
    """A wrench on a link loads the joints with minus J^T wrench."""
    q, qd, _, _ = random_states(model, 1, seed=12)
    link = [name for name, frame in model.frames.items() if frame.body >= 0][-1]
    wrench = np.array([1.0, -2.0, 0.5, 3.0, 0.2, -1.0])
    loaded = dn.evaluate(
        model, "nonlinear_effects", q[0], qd[0], f_ext=dn.external_wrenches(model, {link: wrench})
    )
    expected = (
        dn.evaluate(model, "nonlinear_effects", q[0], qd[0])
        - dn.evaluate(model, "frame_jacobian", q[0], link=link, reference="body").T @ wrench
    )
    assert error(loaded, expected) <= EXACT


def test_gravity_argument_equals_gravity_of_the_model(robot, model):
    from robots import ROBOTS

    q, qd, qdd, _ = random_states(model, 3, seed=13)
    tilted = (1.5, -2.0, -9.0)
    other = ROBOTS[robot].model(gravity=tilted)
    expected = dn.build(other, dn.inverse_dynamics(other), backend="numpy")(q, qd, qdd)
    found = dn.build(model, dn.inverse_dynamics(model), backend="numpy")(q, qd, qdd, gravity=tilted)
    assert error(found, expected).max() <= EXACT


def test_transform_inverse():
    model = __import__("robots").ROBOTS["ur5"].model()
    X = joint_transforms(model, random_states(model, 3)[0]).matrix(2)
    identity = np.broadcast_to(np.eye(6), X.shape)
    assert np.abs(inverse_motion_transform(X) @ X - identity).max() < 1e-14
