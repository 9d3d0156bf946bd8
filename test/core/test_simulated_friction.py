"""Damping, friction, springs and offsets in a simulation: closed forms, MuJoCo, and the equation of motion."""

from functools import cache

import numpy as np
import pytest
from cart_pole import CART

import dynamics_node as dn
from dynamics_demo.robots import five_bar
from dynamics_node.algorithms import first_closed, smooth_friction

ROTOR = """
<robot name="rotor"><link name="base"/>
<link name="disk"><inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="0.2"/></inertial></link>
<joint name="spin" type="continuous"><parent link="base"/><child link="disk"/><axis xyz="0 0 1"/>
<dynamics damping="{damping}" friction="{friction}"/></joint></robot>"""
INERTIA, DT = 0.2, 2e-3
OVERRIDES = "joints: {slide: {creep: 0.3, spring: 4.0, offset: 0.2}, hinge: {viscous: 0.05, coulomb: 0.02}}"


@cache
def rotor(damping, friction):
    return dn.parse_robot(ROTOR.format(damping=damping, friction=friction))


def spin_down(robot, **choices):
    return dn.simulate(robot, [0.0], [2.0], duration=1.0, dt=DT, backend="numpy", **choices)


def test_damped_rate_decays_exponentially():
    trajectory = spin_down(rotor(0.4, 0.0))
    np.testing.assert_allclose(trajectory.qd[:, 0], 2.0 * np.exp(-2.0 * trajectory.time), atol=3 * DT**2)
    np.testing.assert_allclose(spin_down(rotor(0.4, 0.0), friction=False).qd, 2.0, atol=1e-12)


def test_dry_friction_stops_a_joint():
    """A deceleration of 5 rad/s^2 from 2 rad/s stops the joint after 0.4 s and 0.4 rad."""
    trajectory = spin_down(rotor(0.0, 1.0))
    sliding = trajectory.time < 0.39
    np.testing.assert_allclose(trajectory.qd[sliding, 0], 2.0 - 5.0 * trajectory.time[sliding], atol=1e-2)
    assert np.abs(trajectory.qd[trajectory.time > 0.45]).max() < 1e-3
    np.testing.assert_allclose(trajectory.q[-1, 0], 0.4, atol=2e-2)  # smoothed friction allows some creep


def test_torque_below_friction_causes_no_motion():
    still = dn.simulate(rotor(0.0, 1.0), [0.0], [0.0], duration=0.2, torque=[0.5], backend="numpy")
    assert np.abs(still.qd).max() < 0.01  # the rate within which friction is smoothed
    moved = dn.simulate(rotor(0.0, 1.0), [0.0], [0.0], duration=0.2, torque=[1.5], backend="numpy")
    np.testing.assert_allclose(moved.qd[-1], 0.5, atol=0.01)


def test_every_step_satisfies_the_equation_of_motion():
    """tau = ID + viscous, dry and spring torques at every step of a tree whose slide reverses."""
    robot = dn.parse_robot(CART, parameters=OVERRIDES)
    tau = np.array([-9.0, -0.3])
    trajectory = dn.simulate(
        robot, [0.1, 0.4], [0.5, -1.0], steps=150, dt=2 * DT, torque=tau, backend="numpy"
    )
    inverse = dn.build(robot, dn.inverse_dynamics(robot), backend="numpy")
    passive = smooth_friction(trajectory.qd, [0.5, 0.05], [2.0, 0.02], creep=np.array([0.3, 0.0]))
    passive += [0.2, 0.0] + trajectory.q * [4.0, 0.0]
    np.testing.assert_allclose(dn.friction_torque(robot, trajectory.q, trajectory.qd), passive, atol=1e-12)
    assert trajectory.qd[0, 0] > 0 > trajectory.qd[-1, 0]
    np.testing.assert_allclose(
        inverse(trajectory.q, trajectory.qd, trajectory.qdd) + passive, np.tile(tau, (151, 1)), atol=1e-8
    )


@pytest.mark.parametrize("text", [CART, five_bar()])
def test_one_position_serves_many_velocities(text):
    robot = dn.parse_robot(text)
    q, qd = first_closed(robot, robot.neutral()), np.random.default_rng(0).uniform(-1, 1, (2, 3, robot.nv))
    own = dn.friction_torque(robot, q, qd)
    np.testing.assert_allclose(own, dn.friction_torque(robot, np.tile(q, (2, 3, 1)), qd), atol=1e-14)
    np.testing.assert_allclose(dn.friction_torque(robot, np.tile(q, (2, 3, 1)), qd[0, 0])[1, 2], own[0, 0])


def test_every_joint_of_a_loop_has_its_friction():
    """The friction torque is G^T times the torques of all joints, including passive ones."""
    text = five_bar()
    for name, numbers in {
        "j3": 'damping="0.3" friction="0.2"',
        "j1": 'damping="0.1" friction="0.05"',
    }.items():
        head = text.index(f'name="{name}"')
        at = text.index("</joint>", head)
        text = f"{text[:at]}<dynamics {numbers}/>{text[at:]}"
    robot = dn.parse_robot(text)
    q = first_closed(robot, np.array([-1.2, 0.0, -1.9, 0.0]))
    trajectory = dn.simulate(robot, q, duration=0.1, torque=[0.5, -0.4], backend="numpy")
    tau = dn.build(robot, dn.inverse_dynamics(robot), backend="numpy")(
        trajectory.q, trajectory.qd, trajectory.qdd
    )
    own = dn.friction_torque(robot, trajectory.q, trajectory.qd)
    np.testing.assert_allclose(tau + own, np.tile([0.5, -0.4], (len(trajectory), 1)), atol=1e-7)
    for k in range(0, len(trajectory), 10):
        columns = [dn.spanning(robot, trajectory.q[k], unit, 0 * unit)[1] for unit in np.eye(2)]
        rates = dn.spanning(robot, trajectory.q[k], trajectory.qd[k], 0 * trajectory.qd[k])[1]
        passive = smooth_friction(rates, robot.tree.damping, robot.tree.friction)
        np.testing.assert_allclose(tau[k] + np.array(columns) @ passive, [0.5, -0.4], atol=1e-7)


def test_damping_agrees_with_mujoco():
    mujoco = pytest.importorskip("mujoco", reason="another oracle: pip install mujoco")
    text = CART.replace('friction="2"', 'friction="0"').replace('damping="0.5"', 'damping="6"')
    trajectory = dn.simulate(dn.parse_robot(text), [0.0, 0.6], duration=0.5, dt=1e-3, backend="numpy")
    compiler = '<mujoco><compiler balanceinertia="false" fusestatic="false"/></mujoco><link name="rail"/>'
    model = mujoco.MjModel.from_xml_string(text.replace('<link name="rail"/>', compiler))
    model.opt.timestep, model.opt.integrator = 1e-3, mujoco.mjtIntegrator.mjINT_RK4
    model.opt.disableflags = mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    data = mujoco.MjData(model)
    data.qpos[:] = [0.0, 0.6]
    for _ in range(500):
        mujoco.mj_step(model, data)
    np.testing.assert_allclose(trajectory.q[-1], data.qpos, atol=1e-5)
    np.testing.assert_allclose(trajectory.qd[-1], data.qvel, atol=1e-4)
