"""The robots of the demos on legs: feet stay or are lifted, rates are those of positions, the ground can give the forces
of the plan, and MuJoCo's ground holds the weight."""

import numpy as np
import pytest

pytest.importorskip("mujoco", minversion="3.2", reason="the robots: pip install mujoco")
pytest.importorskip("pinocchio", reason="the robots: pip install example-robot-data")

import dynamics_node as dn
from dynamics_demo.legged_motion import Motion
from dynamics_demo.legged_robots import CYCLE, FRICTION, LIFTING, PHASES, ROBOTS, SOLO12
from dynamics_demo.legged_simulation import LeggedSimulation
from dynamics_demo.oracles import StandingOracle


@pytest.fixture(scope="module", params=ROBOTS)
def legged(request):
    return ROBOTS[request.param]


@pytest.fixture(scope="module")
def robot(legged):
    return legged.robot()


@pytest.fixture(scope="module")
def motion(legged):
    return Motion(legged, legged.least_seconds)


@pytest.fixture(scope="module")
def planned(legged, robot, motion):
    """tau (k, nv) and wrenches (k, feet, 6) of every tenth cycle, and those cycles."""
    inverse = dn.build(robot, dn.inverse_dynamics(robot, legged.contacts()), backend="numpy")
    k = np.arange(0, len(motion), 10)
    tau, forces = inverse(motion.q[k], motion.qd[k], motion.qdd[k], motion.active[k].astype(float))
    wrenches = np.zeros((len(k), len(legged.feet), 6))
    rows = 6 if legged.half_lengths else 3
    wrenches[..., -rows:] = forces.reshape(len(k), -1, rows)
    return tau, wrenches, k


def test_feet_stay_where_they_stand(legged, robot, motion):
    poses = dn.build(robot, "frame_poses", links=list(legged.feet), backend="numpy")(motion.q)
    places, on_ground = poses.positions, motion.active
    assert len(motion) == round(legged.least_seconds / CYCLE) and np.abs(motion.qd[0]).max() < 1e-5
    assert np.abs((places - places[0])[on_ground]).max() < 1e-11
    if legged.half_lengths:
        assert np.abs(poses.rotations - np.eye(3)).max() < 1e-11, "soles are level"
    assert np.ptp(motion.q[:, :3], axis=0).min() > 0.01, "the body moves"
    for k, foot in enumerate(legged.feet):
        assert places[:, k, 2].max() == pytest.approx(legged.rise if foot in legged.lifted else 0.0, abs=1e-4)
    assert np.all(on_ground.sum(axis=1) >= min(len(legged.feet), 3)), "one foot after the other"


def test_rates_are_those_of_the_positions(robot, motion):
    moved = dn.integrate(robot, motion.q[:-1], CYCLE * (motion.qd[:-1] + 0.5 * CYCLE * motion.qdd[:-1]))
    assert np.abs(dn.difference(robot, moved, motion.q[1:])).max() < 2e-5
    assert np.abs(motion.qd).max() > 0.1


def test_phases(legged, motion):
    names, ends = list(legged.phases(legged.least_seconds)), np.flatnonzero(np.diff(motion.phase))
    assert names == [*PHASES, *([LIFTING] if legged.lifted else [])] and len(ends) == len(names) - 1
    assert motion.active[motion.phase <= PHASES.index(PHASES[-1])].all()


def test_the_ground_can_give_the_forces_of_the_plan(legged, robot, motion, planned):
    """Active feet push and do not slide or tip, within the 1 % of the weight below which the node does not warn."""
    tau, wrenches, k = planned
    weight, on_ground = 9.81 * robot.mass, motion.active[k]
    assert np.abs(tau[:, :6]).max() < 1e-10 * weight
    x, y, z = np.moveaxis(wrenches[..., 3:], -1, 0)
    assert not wrenches[~on_ground].any()
    assert z[on_ground].min() > 0.0
    assert np.all(np.hypot(x, y)[on_ground] < FRICTION * z[on_ground] + 0.01 * weight)
    if legged.half_lengths:
        along_x, along_y = legged.half_lengths
        assert np.all(np.abs(wrenches[..., 1]) < along_x * z) and np.all(
            np.abs(wrenches[..., 0]) < along_y * z
        )


def test_lifted_feet_bear_almost_nothing(legged, robot, motion):
    """Torques and forces hardly change when the set does."""
    inverse = dn.build(robot, dn.inverse_dynamics(robot, legged.contacts()), backend="numpy")
    changes = np.flatnonzero((motion.active[1:] != motion.active[:-1]).any(axis=1))
    assert len(changes) == 2 * len(legged.lifted)
    for k in changes:
        state = motion.q[k], motion.qd[k], motion.qdd[k]
        (before, old), (after, new) = (inverse(*state, motion.active[n].astype(float)) for n in (k, k + 1))
        assert np.abs(new - old).max() < 0.03 * 9.81 * robot.mass
        assert np.abs(after - before).max() < 0.15 * np.abs(after).max()


def test_the_ground_holds_the_weight(legged, robot, motion):
    """With torques of the library and the drives, the body stays, and the forces are those of inverse dynamics."""
    contacts, start = legged.contacts(), motion.q[0]
    inverse = dn.build(robot, dn.inverse_dynamics(robot, contacts), backend="numpy")
    simulated = LeggedSimulation(legged, robot.joint_names, start)
    assert np.array_equal(simulated.pose, start[:7]) and np.array_equal(simulated.q, start[7:])
    tau, forces = inverse(start, np.zeros(robot.nv), np.zeros(robot.nv), np.ones(len(contacts)))
    for _ in range(125):
        simulated.step(tau[6:], start[7:], np.zeros(len(tau) - 6))
    weight, rows = 9.81 * robot.mass, 6 if legged.half_lengths else 3
    assert simulated.wrenches[:, 5].sum() == pytest.approx(weight, rel=1e-2)
    assert np.abs(simulated.wrenches[:, -rows:].ravel() - forces).max() < 0.01 * weight
    assert np.abs(simulated.pose[:3] - start[:3]).max() < 2e-3 and np.abs(simulated.twist).max() < 0.02


def test_wrenches_of_the_ground_balance_the_motion(legged, robot, motion):
    """The change of momentum is the sum of weight and wrenches: in MuJoCo, of a robot that sags."""
    simulated = LeggedSimulation(legged, robot.joint_names, motion.q[0])
    momentum = dn.build(robot, "centroidal_momentum", backend="numpy")

    def linear():
        q = np.concatenate([simulated.pose, simulated.q])
        return momentum(q, np.concatenate([simulated.twist, simulated.qd]))[3:]

    for _ in range(10):
        simulated.step(0.0, motion.q[0, 7:], np.zeros(robot.nv - 6))
    before, pushed = linear(), np.zeros(3)
    for _ in range(10):
        simulated.step(0.0, motion.q[0, 7:], np.zeros(robot.nv - 6))
        pushed += CYCLE * simulated.wrenches[:, 3:].sum(axis=0)
    pushed[2] -= 10 * CYCLE * 9.81 * robot.mass
    assert np.abs(linear() - before - pushed).max() < 0.02 * 9.81 * robot.mass * 10 * CYCLE


def test_twists_are_in_axes_of_the_base(legged, robot, motion):
    """Rates of two poses two cycles apart, by Simpson's rule."""
    simulated, push = LeggedSimulation(legged, robot.joint_names, motion.q[250]), 0.3 * np.ones(robot.nv - 6)
    q = np.tile(robot.neutral(), (3, 1))
    twists = np.zeros((3, 6))
    for k in range(3):
        simulated.step(push, motion.q[250, 7:] + 0.1, 0.0 * push)
        q[k, :7], twists[k] = simulated.pose, simulated.twist
    rates, mean = dn.difference(robot, q[0], q[2])[:6] / (2 * CYCLE), [1 / 6, 4 / 6, 1 / 6] @ twists
    assert np.abs(rates - mean).max() < 0.05 * np.abs(rates).max()
    assert robot.base_link == legged.base


def test_the_oracle_is_another_computation_of_the_same(legged, robot, motion, planned):
    """Also while three feet stand. A wrong set is far off."""
    tau, wrenches, cycles = planned
    oracle = StandingOracle(legged.urdf(), robot.joint_names, legged.contacts())
    for n in range(0, len(cycles), 37):
        k = cycles[n]
        expected, forces = oracle.solve(motion.q[k], motion.qd[k], motion.qdd[k], motion.active[k])
        assert np.abs(expected - tau[n, 6:]).max() < 1e-11 * np.abs(expected).max()
        assert np.abs(forces - wrenches[n]).max() < 1e-11 * np.abs(forces).max()
    other = ~motion.active[k] | (np.arange(len(legged.feet)) > 0)
    assert np.abs(oracle.solve(motion.q[k], motion.qd[k], motion.qdd[k], other)[1] - wrenches[n]).max() > 0.01


def test_durations():
    assert SOLO12.phases(15.0)[LIFTING][1] == 15.0 and SOLO12.least_seconds == pytest.approx(10.3)
