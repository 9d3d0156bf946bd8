"""Identities of trees and of robots with loops: sums, and rates along a motion."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from robots import BALLS, TEXTS, random_states, robot_of, states_of
from tolerances import EXACT, error, solved

import dynamics_node as dn
from dynamics_demo.robots import four_bar, geared_chain
from dynamics_node.algorithms import (
    QUANTITIES,
    generalized_momentum,
    inertial_parameters,
    inertias_of_parameters,
    quantity_program,
    rnea,
)
from dynamics_node.algorithms.rates import closure_matrix, spread_rates
from dynamics_node.robot.inertial_parameters import with_parameters
from dynamics_node.robot.state_arrays import moved
from dynamics_node.robot.transforms import joint_transforms
from dynamics_node.symbolic import inverse_motion_transform, jacobian, trace

COUNT, STEP = 3, 1e-3
CHANGE = 1e-8  # of derivatives by five-point differences


class Case:
    """A robot at some states, and the same a little later and earlier on a motion."""

    def __init__(self, name, robot=None, time=0.0):
        self.name, self.robot = name, robot_of(name) if robot is None else robot
        self.q, self.qd, self.qdd, self.f_ext = states_of(name, COUNT, seed=7)
        if time:
            rates = spread_rates(self.robot, self.q, self.qd, self.qdd)
            step = time * rates[0] + time**2 / 2 * rates[1]
            self.q = moved(self.robot.tree, self.q, range(self.robot.tree.nv), step)
            self.q, self.qd = dn.close_loops(self.robot, self.q), self.qd + time * self.qdd
        self.link, self.known = list(self.robot.frames)[-1], {}

    def of(self, quantity, **options):
        """The only result of a quantity, or all of them."""
        key = (quantity, *options.items())
        if key not in self.known:
            reads = [getattr(self, name) for name in QUANTITIES[quantity].reads if name != "gravity"]
            self.known[key] = dn.evaluate(self.robot, quantity, *reads, **options, backend="numpy")
        return self.known[key]

    def change(self, call):
        """d/dt of call(Case) along the motion."""
        at = {k: np.asarray(call(moved_case(self.name, k))) for k in (-2, -1, 1, 2)}
        return (8 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12 * STEP)


case_of = cache(Case)


@cache
def moved_case(name, steps):
    return Case(name, time=steps * STEP)


# Every kind of joint; test_against_pinocchio.py has larger trees
TREES = ("panda", "panda_floating", "ur5", "so101", "double_pendulum", "solo12", *BALLS)


@pytest.fixture(params=[*TREES, *TEXTS, "quadruped"])
def case(request):
    return case_of(request.param)


def times(matrix, vector):
    return (matrix @ vector[..., None])[..., 0]


def assert_equal_rates(rate, expected, tail=1):
    assert error(rate, expected, tail).max() <= CHANGE or np.allclose(rate, expected, atol=CHANGE)


# --- torques ------------------------------------------------------------------------------------------------


def test_torques_add_up(case):
    M, h, tau = case.of("mass_matrix"), case.of("nonlinear_effects"), case.of("inverse_dynamics")
    assert error(times(M, case.qdd) + h, tau).max() <= EXACT
    assert error(case.of("gravity_torque") + case.of("coriolis_torque"), h).max() <= EXACT


def test_forward_inverts_inverse_dynamics(case):
    tau = dn.evaluate(
        case.robot, "inverse_dynamics", case.q, case.qd, case.qdd, f_ext=case.f_ext, backend="numpy"
    )
    accelerations = dn.evaluate(
        case.robot, "forward_dynamics", case.q, case.qd, tau, f_ext=case.f_ext, backend="numpy"
    )
    assert np.all(error(accelerations, case.qdd) <= 10 * solved(case.of("mass_matrix")))


def test_mass_matrix_is_symmetric_and_positive(case):
    M = case.of("mass_matrix")
    assert error(M, np.swapaxes(M, -1, -2), tail=2).max() <= EXACT
    assert np.linalg.eigvalsh(M).min() > 0
    one = np.broadcast_to(np.eye(case.robot.nv), M.shape)
    assert np.all(error(case.of("inverse_mass_matrix") @ M, one, tail=2) <= 10 * solved(M))


def test_coriolis_matrix_gives_the_rate_of_the_mass_matrix(case):
    """dM/dt = C + C^T: so dM/dt - 2 C is skew."""
    C = case.of("coriolis_matrix")
    assert error(times(C, case.qd), case.of("coriolis_torque")).max() <= EXACT
    assert_equal_rates(C + np.swapaxes(C, 1, 2), case.change(lambda at: at.of("mass_matrix")), tail=2)


@pytest.mark.parametrize("axes, reference", [("link", "body"), ("world", "world_aligned")])
def test_virtual_work_of_an_external_wrench(case, axes, reference):
    """A wrench on a link loads the joints with minus J^T wrench."""
    wrench, link = np.array([1.0, -2.0, 0.5, 3.0, 0.2, -1.0]), case.link
    place = {"axes": axes, "q": case.q} if axes == "world" else {}
    f_ext = dn.external_wrenches(case.robot, {link: wrench}, **place)
    loaded = dn.evaluate(case.robot, "nonlinear_effects", case.q, case.qd, f_ext=f_ext, backend="numpy")
    J = case.of("frame_jacobian", link=link, reference=reference)
    assert error(loaded, case.of("nonlinear_effects") - np.swapaxes(J, 1, 2) @ wrench).max() <= EXACT


def test_gravity_argument_equals_gravity_of_the_robot(case):
    tilted = np.array([1.5, -2.0, -9.0])
    other = case.robot.with_tree(replace(case.robot.tree, gravity=tilted))
    state = case.q, case.qd, case.qdd
    expected = dn.evaluate(other, "inverse_dynamics", *state, backend="numpy")
    given = dn.evaluate(case.robot, "inverse_dynamics", *state, gravity=tilted, backend="numpy")
    assert error(given, expected).max() <= EXACT


# --- energy and momentum ------------------------------------------------------------------------------------


def test_energies(case):
    """The power of the torques is the rate of energy; the power against gravity is the rate of potential energy."""
    quadratic = 0.5 * (case.qd * times(case.of("mass_matrix"), case.qd)).sum(axis=1)
    assert error(case.of("kinetic_energy"), quadratic, tail=0).max() <= EXACT
    power = (case.of("inverse_dynamics") * case.qd).sum(axis=1)
    potential = case.change(lambda at: at.of("potential_energy"))
    scale = np.abs(case.of("inverse_dynamics") * case.qd).sum(axis=1).max()
    assert np.allclose(potential, (case.of("gravity_torque") * case.qd).sum(axis=1), atol=CHANGE * scale)
    kinetic = case.change(lambda at: at.of("kinetic_energy"))
    assert np.allclose(kinetic + potential, power, atol=CHANGE * scale)


def test_momenta(case):
    """The rate of M qd is tau plus `rate`, the effect of velocities and gravity."""
    for name in ("spatial_momentum", "centroidal_momentum"):
        assert error(times(case.of(f"{name}_matrix"), case.qd), case.of(name)).max() <= EXACT
    p, rate = case.of("generalized_momentum")
    assert error(p, times(case.of("mass_matrix"), case.qd)).max() <= EXACT
    change = case.change(lambda at: at.of("generalized_momentum").momentum)
    assert_equal_rates(case.of("inverse_dynamics") + rate, change)


def test_center_of_mass(case):
    _, J = case.of("center_of_mass")
    position, velocity, acceleration = case.of("center_of_mass_motion")
    assert error(times(J, case.qd), velocity).max() <= EXACT
    assert error(position, case.of("center_of_mass").position).max() <= EXACT
    assert_equal_rates(case.change(lambda at: at.of("center_of_mass").position), velocity)
    assert_equal_rates(case.change(lambda at: at.of("center_of_mass_motion").velocity), acceleration)


# --- links --------------------------------------------------------------------------------------------------


def test_links(case):
    link = {"link": case.link}
    _, _, v, a = case.of("frame_kinematics", **link)
    J = case.of("frame_jacobian", **link)
    assert np.allclose(times(J, case.qd), v, rtol=EXACT, atol=EXACT)
    drift = case.of("frame_jacobian_bias", **link)
    assert np.allclose(times(J, case.qdd) + drift, a, rtol=EXACT, atol=EXACT)
    assert_equal_rates(case.change(lambda at: at.of("frame_pose", **link).position), v[:, 3:])
    assert_equal_rates(case.change(lambda at: at.of("frame_kinematics", **link).velocity), a)


def test_rate_of_jacobians(case):
    """Along the motion; in closed loops G turns, too. Every robot has one reference, by turns."""
    of_link = {"link": case.link, "reference": ("world_aligned", "body", "WORLD")[len(case.name) % 3]}
    rate = case.of("frame_jacobian_time_derivative", **of_link)
    assert_equal_rates(rate, case.change(lambda at: at.of("frame_jacobian", **of_link)), tail=2)
    drift, a = case.of("frame_jacobian_bias", **of_link), case.of("frame_kinematics", **of_link).acceleration
    assert np.allclose(times(rate, case.qd), drift, rtol=EXACT, atol=EXACT)
    J = case.of("frame_jacobian", **of_link)
    assert np.allclose(times(J, case.qdd) + times(rate, case.qd), a, rtol=EXACT, atol=EXACT)


def test_transform_inverse():
    X = joint_transforms(robot_of("ur5"), random_states(robot_of("ur5"), 3)[0]).matrix(2)
    identity = np.broadcast_to(np.eye(6), X.shape)
    assert np.abs(inverse_motion_transform(X) @ X - identity).max() < 1e-14


# --- regressors ---------------------------------------------------------------------------------------------


def test_regressors_times_inertias(case):
    """With the robot's inertias and with others: torques are linear in them."""
    tree, random = case.robot.tree, np.random.default_rng(3)
    p = inertial_parameters(tree.inertias)
    assert np.allclose(inertias_of_parameters(p), tree.inertias, atol=1e-12)
    (P, R), (T, V) = case.of("momentum_regressor"), case.of("energy_regressor")
    Y = case.of("joint_torque_regressor")
    for step in (np.zeros(p.shape), random.uniform(-0.05, 0.05, p.shape)):
        bare = with_parameters(tree, inertias_of_parameters(p + step), np.zeros(len(tree.axle_map)))
        other, x = Case(case.name, case.robot.with_tree(bare)), (p + step).ravel()
        momentum, rate = other.of("generalized_momentum")
        assert error(Y @ x, other.of("inverse_dynamics")).max() <= EXACT
        assert error(P @ x, momentum).max() <= EXACT and error(R @ x, rate).max() <= 1e-9
        assert np.allclose(T @ x, other.of("kinetic_energy"), rtol=EXACT)
        assert np.allclose(V @ x, other.of("potential_energy"), rtol=EXACT, atol=1e-12)


def test_regressors_of_joints(case):
    """Rotors, friction, offsets and springs at the axles, mapped by G."""
    rotor, viscous, offset, spring = case.of("joint_regressor")
    tree, W = case.robot.tree, case.robot.tree.axle_map
    rates, accelerations = spread_rates(case.robot, case.q, case.qd, case.qdd)
    if case.robot.constrained:
        mapping = np.swapaxes(W @ closure_matrix(case.robot, case.q), 1, 2)
    else:
        mapping = np.broadcast_to(W.T, (COUNT, *W.T.shape))
    scalar = [joint for joint in tree.independent_joints if joint.type.is_scalar]
    axles = [joint.v.start for joint in scalar] + list(range(tree.nv, len(W)))
    position = np.zeros((COUNT, len(W)))
    for k, joint in zip(axles, (*scalar, *tree.shared_joints), strict=True):
        position[:, k] = joint.position(case.q)[:, 0] - joint.offset
    one = np.ones((COUNT, len(W)))
    for regressor, values in (
        (rotor, accelerations @ W.T),
        (viscous, rates @ W.T),
        (offset, one),
        (spring, position),
    ):
        assert np.allclose(regressor[:, :, axles], (mapping * values[:, None])[:, :, axles], atol=1e-9)
    armature = np.zeros(len(W))
    armature[axles] = np.random.default_rng(1).uniform(0.1, 0.2, len(axles))
    loaded = case.robot.with_tree(with_parameters(tree, tree.inertias, tree.armature + armature))
    difference = Case(case.name, loaded).of("inverse_dynamics") - case.of("inverse_dynamics")
    assert error(difference, rotor @ armature).max() <= 1e-9


# --- Programs, and motions ----------------------------------------------------------------------------------


def test_rate_of_momentum_costs_less_than_a_derivative():
    """The recursion has fewer operations than dT/dq of the traced energy and the weight."""
    model = robot_of("panda7")
    recursion = quantity_program(model, "generalized_momentum")

    def energy_of(q, qd):
        return {"T": 0.5 * np.array(qd @ generalized_momentum(model, q, qd, np.zeros(3))[0], dtype=object)}

    energy = trace(energy_of, {"q": (7,), "qd": (7,)})
    weight = trace(
        lambda q, g: {"g": rnea(model, q, np.zeros(7), np.zeros(7), gravity=g)}, {"q": (7,), "g": (3,)}
    )
    derivative = jacobian(energy, ["T"], ["q", "qd"])
    assert len(recursion.ops) < 0.8 * (len(derivative.ops) + len(weight.ops))


@pytest.mark.parametrize("name", ["geared_chain", "four_bar"])
def test_energy_is_constant_in_a_free_motion(name):
    """2 s at a tolerance of 1e-10; q is closed again at every step of the integrator."""
    from scipy.integrate import solve_ivp

    robot = dn.parse_robot(geared_chain(3) if name == "geared_chain" else four_bar())
    gravity = np.array([0.0, -9.81, 0.0])
    forward = dn.build(robot, dn.forward_dynamics(robot))
    T, V = (dn.build(robot, f"{kind}_energy") for kind in ("kinetic", "potential"))
    n, columns = robot.nv, [joint.q.start for joint in robot.independent_joints]
    start = [0.4, -0.3, 0.8, 0.5, -0.2, 0.3] if n == 3 else [0.4, 2.0]
    branch = [robot.neutral() if n == 3 else dn.close_loops(robot, np.array([0.4, 0.1, 1.0]))]

    def position(y):
        guess = branch[-1].copy()
        guess[columns] = y
        branch.append(dn.close_loops(robot, guess))
        return branch[-1]

    def rates(t, x):
        return [*x[n:], *forward(position(x[:n]), x[n:], np.zeros(n), gravity=gravity)]

    motion = solve_ivp(rates, (0, 2), start, rtol=1e-10, atol=1e-10, method="DOP853")
    branch[1:] = []
    energies = [T(q := position(x[:n]), x[n:]) + V(q, gravity=gravity) for x in motion.y.T[::3]]
    assert np.ptp(energies) <= 1e-8 * np.abs(energies).max() and np.ptp(motion.y[0]) > 0.5
