"""Rollouts: step by step by Pinocchio and MuJoCo, orders of the integrators, invariants, batches, states that diverge."""

import pickle

import numpy as np
import pytest
from balls import ball_robot
from cases import oracle_of
from mujoco_oracle import Tree, mujoco
from oracle import pin
from robots import ROBOTS, closed_states, random_states, robot_of
from tolerances import error

import dynamics_node as dn
from dynamics_node.codegen.c import threads

EULER, RK4 = "semi_implicit_euler", "rk4"
IN_MUJOCO = {EULER: mujoco.mjtIntegrator.mjINT_EULER, RK4: mujoco.mjtIntegrator.mjINT_RK4}
DT = 0.01
FLOATING = ROBOTS["double_pendulum"]._replace(floating_base=True)
SINGLE = 1e-4  # of float32, after ten steps


def start_of(name, count=3):
    """A robot with a start: q, qd. Those of loops are slow: their legs are short."""
    robot = robot_of(name)
    if robot.constrained:
        q, qd, _ = closed_states(robot, count, reach=0.05)
        return robot, q, 0.5 * qd
    q, qd, *_ = random_states(robot, count)
    return robot, q, 0.5 * qd


def forward_of(robot, backend="numpy", **options):
    return dn.build(robot, "forward_dynamics", backend=backend, **options)


@pytest.mark.parametrize("name", ["panda7", "balls0"])
def test_pinocchio_step_by_step(name):
    """The same integrator, with Pinocchio's dynamics and positions. Rotors are not in its forward dynamics."""
    robot, q, qd = start_of(name, count=1)
    tau = 0.1 * np.random.default_rng(0).normal(size=(3, robot.nv))
    result = forward_of(robot).rollout(q[0], qd[0], tau, 1e-3)
    oracle = oracle_of(name)
    theirs, rates = oracle.q(q[0]), qd[0]
    for t, torque in enumerate(tau):
        M = oracle.mass_matrix(result.q[t])
        rates = rates + 1e-3 * np.linalg.solve(M, torque - oracle.inverse(result.q[t], rates, 0 * rates))
        theirs = pin.integrate(oracle.pin, theirs, 1e-3 * oracle.v(rates))
        ours = oracle.q(result.q[t + 1])
        assert np.allclose(np.abs(ours), np.abs(theirs), rtol=0, atol=1e-9)  # quaternions of either sign
        assert error(result.qd[t + 1], rates) <= 1e-8


@pytest.mark.parametrize(
    ("name", "integrator"), [("panda7", EULER), ("panda7", RK4), ("balls", EULER), ("solo12", EULER)]
)
def test_mujoco_step_by_step(name, integrator):
    """Orientations of ball joints move along a constant angular velocity in body axes there, too, and floating
    bases along a constant linear velocity in axes of the world."""
    robot = dn.parse_robot(ball_robot(2)) if name == "balls" else robot_of(name)
    q, qd, *_ = (array[0] for array in random_states(robot, 1))
    tau = np.random.default_rng(0).normal(size=(5, robot.nv))
    result = forward_of(robot).rollout(q, qd, tau, DT, integrator=integrator)
    theirs = Tree(robot)
    data, options = theirs.data, theirs.model.opt
    options.timestep, options.integrator = DT, IN_MUJOCO[integrator]
    data.qpos[:], data.qvel[:] = theirs.qpos(q), theirs.qvel(q, qd)
    for t, torque in enumerate(tau, 1):
        data.qfrc_applied[:] = theirs.qvel(result.q[t - 1], torque)
        mujoco.mj_step(theirs.model, data)
        assert np.allclose(np.abs(theirs.qpos(result.q[t])), np.abs(data.qpos), rtol=0, atol=1e-8)
        assert np.allclose(theirs.qvel(result.q[t], result.qd[t]), data.qvel, rtol=0, atol=1e-7)


@pytest.mark.parametrize("name", ["balls1", "five_bar", "rssr", "belt_leg"])
def test_orders(name):
    """Also of orientations, a floating base and closed loops, which stay closed."""
    robot, q, qd = start_of(name, count=2)
    forward = forward_of(robot)
    for integrator, order, steps in ((EULER, 1, (8, 16)), (RK4, 4, (4, 8))):
        few, more, exact = (
            np.concatenate(
                [
                    states[:, -1]
                    for states in forward.rollout(q, qd, np.zeros((n, robot.nv)), 0.1 / n, integrator=way)
                ],
                -1,
            )
            for n, way in ((steps[0], integrator), (steps[1], integrator), (16, RK4))
        )
        ratio = np.linalg.norm(few - exact, axis=-1) / np.linalg.norm(more - exact, axis=-1)
        assert (np.abs(np.log2(ratio) - order) < 0.3).all()
    end = forward.rollout(q, qd, np.zeros((5, robot.nv)), DT).q[:, -1]
    assert np.allclose(dn.close_loops(robot, end), end, rtol=0, atol=1e-9)


def test_energy_and_momentum_in_free_flight():
    """Their changes are of fourth order."""
    robot = ROBOTS["solo12"].model(gravity=(0.0, 0.0, 0.0))
    q, qd, *_ = random_states(robot, 2)
    changes = []
    for steps in (5, 10):
        along = forward_of(robot).rollout(q, qd, np.zeros((steps, robot.nv)), 0.05 / steps, integrator=RK4)
        energy = dn.evaluate(robot, "kinetic_energy", along.q, along.qd, backend="numpy")
        momentum = dn.evaluate(robot, "centroidal_momentum", along.q, along.qd, backend="numpy")
        changes.append([np.ptp(energy, axis=1), np.linalg.norm(momentum[:, -1] - momentum[:, 0], axis=-1)])
    assert (changes[0][0] < 1e-3 * energy[:, 0]).all()
    assert (np.divide(*changes) > 12).all()


@pytest.mark.parametrize("integrator", [EULER, RK4])
@pytest.mark.parametrize("name", ["floating", "five_bar"])
def test_compiled_batches(name, integrator, monkeypatch):
    """Vectors of states on several threads: as one by one, to the last bit, and as interpreted."""
    monkeypatch.setattr(threads, "WORTH_A_THREAD", 1)
    robot = FLOATING.model() if name == "floating" else robot_of(name)
    _, q, qd = start_of(name, 37) if name == "five_bar" else (robot, *random_states(robot, 37)[:2])
    tau = 0.1 * np.random.default_rng(0).normal(size=(37, 4, robot.nv))
    forward = forward_of(robot, "c")
    result = forward.rollout(q, qd, tau, DT, integrator=integrator)
    assert result.q.shape == (37, 5, robot.nq) and result.qd.shape == (37, 5, robot.nv)
    expected = forward_of(robot).rollout(q[:3], qd[:3], tau[:3], DT, integrator=integrator)
    for ours, theirs in zip(result, expected, strict=True):
        assert error(ours[:3], theirs).max() <= 1e-11
    for k in (0, 17, 36):
        alone = forward.rollout(q[k], qd[k], tau[k], DT, integrator=integrator)
        assert np.array_equal(alone.q, result.q[k]) and np.array_equal(alone.qd, result.qd[k])
    again = pickle.loads(pickle.dumps(forward)).rollout(q, qd[0], tau[0], DT, integrator=integrator)
    assert np.array_equal(again.q[0], result.q[0]) and not np.array_equal(again.q[1], result.q[1])


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("integrator", [EULER, RK4])
def test_states_that_diverge_change_no_other(backend, integrator):
    robot = robot_of("double_pendulum")
    q, qd, *_ = random_states(robot, 9)
    tau = np.zeros((9, 6, robot.nv))
    forward = forward_of(robot, backend)
    healthy = forward.rollout(q, qd, tau, DT, integrator=integrator)
    tau[4, 2] = 1e300
    result = forward.rollout(q, qd, tau, DT, integrator=integrator)
    others = np.arange(9) != 4
    for ours, right in zip(result, healthy, strict=True):
        assert np.isfinite(right).all()
        assert np.array_equal(ours[others], right[others])
        assert np.array_equal(ours[4, :3], right[4, :3]) and np.isnan(ours[4, -1]).all()


def test_loops_that_do_not_close_are_nan():
    """A velocity of 300 rad/s leaves the position from which Newton steps close a loop."""
    robot, q, qd = start_of("five_bar", count=2)
    qd[1] = 300.0
    result = forward_of(robot).rollout(q, qd, np.zeros((3, robot.nv)), DT)
    assert np.isfinite(result.q[0]).all() and np.isnan(result.q[1, -1]).all()
    assert np.allclose(dn.close_loops(robot, result.q[0]), result.q[0], rtol=0, atol=1e-9)


def test_float32():
    robot = FLOATING.model()
    q, qd, *_ = random_states(robot, 20)
    tau = np.zeros((10, robot.nv))
    exact = forward_of(robot, "c").rollout(q, qd, tau, DT)
    single = forward_of(robot, "c", precision="float32").rollout(q, qd, tau, DT)
    assert single.q.dtype == np.float32
    assert error(single.q[:, -1], exact.q[:, -1]).max() <= SINGLE


def test_other_inertias_and_gravity():
    """The results of `with_inertias` share the code."""
    robot = robot_of("double_pendulum")
    heavier = dn.with_payload(robot, robot.bodies[-1].name, 1.0, [0.0, 0.0, 0.3], np.zeros((3, 3)))
    q, qd, *_ = random_states(robot, 2)
    changed = forward_of(robot, runtime_parameters=["inertia"])
    tau = np.zeros((4, robot.nv))
    light = changed.rollout(q, qd, tau, DT)
    heavy = changed.with_inertias(heavier).rollout(q, qd, tau, DT)
    assert error(heavy.qd, forward_of(heavier).rollout(q, qd, tau, DT).qd).max() <= 1e-9
    assert error(light.qd, forward_of(robot).rollout(q, qd, tau, DT).qd).max() <= 1e-9


def test_errors_name_the_argument():
    robot = robot_of("solo12")
    q, qd, tau = robot.neutral(), np.zeros(robot.nv), np.zeros((4, robot.nv))
    forward = forward_of(robot)
    for dt in (0.0, -0.1, np.nan, np.inf, [0.1]):
        with pytest.raises(dn.InputError, match="dt must be a positive number"):
            forward.rollout(q, qd, tau, dt)
    bad = tau.copy()
    bad[2, 7] = np.nan
    for arrays, words in (
        ((q, qd, tau[0]), "controls must have shape"),
        ((q, qd, tau[:, 1:]), "controls must have shape"),
        ((q[1:], qd, tau), "q0 must have shape"),
        ((q, qd, bad), rf"controls\[7\] \({robot.v_names[7]}\) at step 2 is not finite"),
        ((q, qd, np.tile(bad, (200, 1, 1))), "at step 2 of state 0 is not finite"),
        ((2 * q, qd, tau), "normalize it"),
        ((np.tile(q, (3, 1)), qd, np.zeros((2, 4, robot.nv))), "leading axes do not broadcast"),
    ):
        with pytest.raises(dn.InputError, match=words):
            forward.rollout(*arrays, DT)
    with pytest.raises(dn.ChoiceError, match="there are semi_implicit_euler, rk4"):
        forward.rollout(q, qd, tau, DT, integrator="leapfrog")
    with pytest.raises(dn.ChoiceError, match="inverse_dynamics has no rollouts"):
        dn.build(robot, "inverse_dynamics", backend="numpy").rollout(q, qd, tau, DT)
    assert forward.rollout(np.zeros((0, robot.nq)) + q, qd, tau[:0], DT).q.shape == (0, 1, robot.nq)
