"""Quantities and regressors of closed loops: by derivatives along the motion, and by what they have to add up to."""

import numpy as np
import pytest
from closed_loops import mechanism_of, spread, states
from tolerances import EXACT, error
from two_links import ARM

import dynamics_node as dn
from dynamics_node.algorithms import (
    dynamics_program,
    inertial_parameters,
    inertias_of_parameters,
    kinetic_energy,
    quantity_program,
)
from dynamics_node.algorithms.rates import sampled_rates
from dynamics_node.identification import RegressorModel
from dynamics_node.robot.inertial_parameters import with_parameters
from dynamics_node.symbolic import interpret

LOOPS = ["five_bar", "tilted five_bar", "belt_chain", "differential", "universal"]
STEP = 1e-6


class Case:
    """A mechanism at some states, and the same a little later and earlier."""

    def __init__(self, name):
        self.robot = mechanism_of(name)
        self.q, self.yd, self.ydd = states(self.robot, 3, reach=0.03)
        self.state = {"q": self.q, "qd": self.yd, "qdd": self.ydd, "gravity": self.robot.gravity}
        self.rates = sampled_rates(self.robot, self.q, self.yd).qd

    def of(self, quantity, **options):
        return self.at(self.state, quantity, **options)

    def at(self, state, quantity, **options):
        program = quantity_program(self.robot, quantity, **options)
        found = interpret(program, **{name: state[name] for name in program.inputs})
        return [found[name] for name in program.outputs if name != "health"]

    def change(self, call):
        """d/dt of call(state) along the motion."""
        later, earlier = (call(self.moved(s * STEP)) for s in (1, -1))
        return (np.asarray(later) - earlier) / (2 * STEP)

    def moved(self, time):
        q = dn.close_loops(self.robot, self.q + time * self.rates)
        return self.state | {"q": q, "qd": self.yd + time * self.ydd}


@pytest.fixture(scope="module", params=LOOPS)
def case(request):
    return Case(request.param)


def times(matrix, vector):
    return (matrix @ vector[..., None])[..., 0]


def test_torques_and_coriolis_matrix(case):
    (gravity,), (coriolis,), (bias,) = (
        case.of(n) for n in ("gravity_torque", "coriolis_torque", "nonlinear_effects")
    )
    (C,) = case.of("coriolis_matrix")
    assert error(gravity + coriolis, bias).max() <= EXACT
    assert error(times(C, case.yd), coriolis).max() <= EXACT
    change = case.change(lambda state: case.at(state, "mass_matrix")[0])
    assert error(C + np.swapaxes(C, 1, 2), change, tail=2).max() <= 1e-6


def test_energies_and_momenta(case):
    """What torques and gravity do is what energy and momentum change by."""
    (T,), (M,) = case.of("kinetic_energy"), case.of("mass_matrix")
    assert np.allclose(T, 0.5 * (case.yd * times(M, case.yd)).sum(axis=1), rtol=EXACT)
    (g,) = case.of("gravity_torque")
    power = case.change(lambda state: case.at(state, "potential_energy")[0])
    assert np.allclose(power, (g * case.yd).sum(axis=1), atol=1e-6)
    (A,), (h,) = case.of("spatial_momentum_matrix"), case.of("spatial_momentum")
    assert error(times(A, case.yd), h).max() <= EXACT
    c, J = case.of("center_of_mass")
    position, velocity, acceleration = case.of("center_of_mass_motion")
    assert error(times(J, case.yd), velocity).max() <= EXACT and error(position, c).max() <= EXACT
    assert np.allclose(case.change(lambda state: case.at(state, "center_of_mass")[0]), velocity, atol=1e-7)
    change = case.change(lambda state: case.at(state, "center_of_mass_motion")[1])
    assert np.allclose(change, acceleration, atol=1e-6)


def test_links(case):
    link = {"link": case.robot.bodies[-1].name}
    R, p, v, a = case.of("frame_kinematics", **link)
    (drift,) = case.of("frame_jacobian_bias", **link)
    (J,) = case.of("frame_jacobian", **link)
    assert np.allclose(times(J, case.yd), v, atol=1e-10)
    assert np.allclose(times(J, case.ydd) + drift, a, atol=1e-10)
    assert np.allclose(
        case.change(lambda state: case.at(state, "frame_kinematics", **link)[1]), v[:, 3:], atol=1e-7
    )
    assert np.allclose(case.change(lambda state: case.at(state, "frame_kinematics", **link)[2]), a, atol=1e-6)
    R_now = dn.evaluate(case.robot.tree, "frame_pose", case.q, link=link["link"])[0]
    assert error(R, R_now, tail=2).max() <= EXACT


def test_the_regressor_is_the_derivative_of_torques(case):
    """By inertias at random, in which torques are linear: of the compiled way, C-RNEA."""
    tree, random = case.robot.tree, np.random.default_rng(3)
    p = inertial_parameters(tree.inertias)
    (Y,) = case.of("joint_torque_regressor")
    P, R = case.of("momentum_regressor")
    T, V = case.of("energy_regressor")
    for step in (np.zeros(p.shape), random.uniform(-0.05, 0.05, p.shape)):
        inertias = inertias_of_parameters(p + step)
        other = Case.__new__(Case)
        vars(other).update(vars(case))
        other.robot = case.robot.with_tree(with_parameters(tree, inertias, np.zeros(tree.nv)))
        program = dynamics_program(other.robot, dn.inverse_dynamics(other.robot), "rnea")
        tau = interpret(program, **case.state)["tau"]
        x = (p + step).ravel()
        momentum, rate = other.of("generalized_momentum")
        assert error(Y @ x, tau).max() <= EXACT
        assert error(P @ x, momentum).max() <= EXACT and error(R @ x, rate).max() <= 1e-9
        assert np.allclose(T @ x, kinetic_energy(other.robot.tree, case.q, case.rates), rtol=EXACT)
        assert np.allclose(V @ x, other.of("potential_energy")[0], rtol=EXACT, atol=1e-12)


def test_regressors_of_joints(case):
    """Rotors, friction, offsets and springs at the axles, felt through G."""
    rotor, viscous, offset, spring = case.of("joint_regressor")
    tree = case.robot.tree
    positions = [*tree.q_names, *(joint.name for joint in tree.shared_joints)]
    every = [body.joint.name for body in tree.bodies]
    for k in range(len(case.q)):
        G, g = spread(case.robot, case.q[k], case.yd[k])
        at = dn.spanning(case.robot, case.q[k])[0][[every.index(name) for name in positions]]
        W = tree.axle_map
        for own, values in (
            (rotor, W @ (G @ case.ydd[k] + g)),
            (viscous, W @ case.rates[k]),
            (offset, np.ones(len(W))),
            (spring, at),
        ):
            assert np.allclose(own[k], (W @ G).T * values, atol=1e-9)
    armature = np.random.default_rng(1).uniform(0.1, 0.2, len(tree.axle_map))
    loaded = case.robot.with_tree(with_parameters(tree, tree.inertias, tree.armature + armature))
    torques = [
        interpret(dynamics_program(robot, dn.inverse_dynamics(robot), "rnea"), **case.state)["tau"]
        for robot in (case.robot, loaded)
    ]
    assert error(torques[1] - torques[0], rotor @ armature).max() <= 1e-9


def test_second_derivatives():
    """Against differences of the first ones, along motions that keep the loops closed."""
    case, step = Case("five_bar"), 1e-6
    robot, q, yd, ydd = case.robot, case.q[0], case.yd[0], case.ydd[0]
    first = dn.build(robot, "inverse_dynamics_derivatives", backend="numpy")
    found = dn.build(robot, "inverse_dynamics_second_derivatives", backend="numpy")(q, yd, ydd)
    places = [joint.q.start for joint in robot.independent_joints]

    def closed(k, s):
        moved = q.copy()
        moved[places[k]] += s
        return dn.close_loops(robot, moved)

    def along(call):
        columns = [
            np.array(call(k, step * e, step)) - np.array(call(k, -step * e, -step))
            for k, e in enumerate(np.eye(robot.nv))
        ]
        return np.stack(columns, axis=-1) / (2 * step)

    by_q = along(lambda k, e, s: first(closed(k, s), yd, ydd))
    by_qd = along(lambda k, e, s: first(q, yd + e, ydd))
    for own, other in zip(found, (by_q[0], by_qd[0], by_qd[1], by_q[2]), strict=True):
        assert error(own, other, tail=3) <= 1e-6


COUPLED = """<link name="motor"><inertial><mass value="1e-9"/>
<inertia ixx="1e-9" ixy="0" ixz="0" iyy="1e-9" iyz="0" izz="1e-9"/></inertial></link>
<joint name="motor_joint" type="continuous"><parent link="base"/><child link="motor"/><axis xyz="0 1 0"/>
<limit velocity="9" effort="50"/></joint>
<coupling name="wrist"><predecessor link="motor"/><successor link="lower"/><ratio value="1"/></coupling></robot>"""


def test_a_motor_that_turns_with_the_sum_of_two_joints(tmp_path):
    """A link of its own, coupled to the second joint's: its rotor and friction act on the sum, are columns, and
    are read from a parameters file."""
    text, random = ARM.replace("</robot>", COUPLED), np.random.default_rng(5)
    robot, arm = dn.parse_robot(text), dn.parse_robot(ARM)
    linear = RegressorModel(robot, ("rotor", "viscous"), "numpy")
    q, qd, qdd = random.standard_normal((3, 50, 2))
    assert robot.q_names == ("joint1", "joint2")
    given = {"rotor": 0.3, "viscous": 2.0}
    torque = given["rotor"] * qdd.sum(axis=1) + given["viscous"] * qd.sum(axis=1)
    Y = linear.matrix(q, qd, qdd).reshape(100, -1)
    found = np.linalg.lstsq(Y, np.column_stack([torque, torque]).ravel(), rcond=None)[0]
    expected = [given[name.split(".")[1]] if "motor" in name else 0.0 for name in linear.names]
    np.testing.assert_allclose(found, expected, atol=1e-9)
    file = tmp_path / "parameters.yaml"
    file.write_text("joints: {motor_joint: {rotor: 0.3}}")
    (tmp_path / "arm.urdf").write_text(text)
    loaded = dn.load_robot(tmp_path / "arm.urdf", parameters_file=file)
    tau = dn.build(loaded, dn.inverse_dynamics(loaded), backend="numpy")(q, qd, qdd)
    own = dn.build(arm, dn.inverse_dynamics(arm), backend="numpy")(q, qd, qdd)
    np.testing.assert_allclose(tau - own, 0.3 * qdd.sum(axis=1)[:, None] * [1, 1], atol=1e-7)
