"""Functions of a robot for trajectory factors, against Pinocchio, dense multipliers and Lagrange's equations."""

import numpy as np
import planar_oracle
import pytest
from four_bar import FOUR_BAR_START, four_bar
from natural_coordinates import Angle, Bar, Slider, planar_system
from oracle import BallOracle, Oracle
from robots import ROBOTS
from tolerances import EXACT, error
from trajectory_cases import MECHANISMS, PLANAR, TREES, position, rates, robot_of, system_of, values

from dynamics_node.algorithms import crba, rnea
from dynamics_node.robot.loops.newton import TURNED

STEP = 1e-30
LOOPED = (*PLANAR, *MECHANISMS)


def along(name, function, q, *more, by=(), qd=None):
    """The time derivative of a function at rates qd; `by`: rates of the arguments `more`."""
    system = system_of(name)
    moved = system.q.moved(q, 1j * STEP * qd)
    changed = (x + 1j * STEP * y for x, y in zip(more, by, strict=True))
    return values(system, function, moved, *changed).imag / STEP


@pytest.mark.parametrize("name", TREES)
def test_trees_agree_with_pinocchio(name):
    random, system = np.random.default_rng(8), system_of(name)
    model = robot_of(name)
    oracle = Oracle(ROBOTS[name], model) if name in ROBOTS else BallOracle(model)
    q, (qd, qdd) = position(name, random), random.normal(size=(2, model.nv))
    truth = oracle.inverse(q, qd, qdd)
    assert error(values(system, "inverse", q, qd, qdd), truth) <= EXACT
    assert system.dependent == () and values(system, "positions", q).size == 0


@pytest.mark.parametrize("name", LOOPED)
def test_closed_positions_satisfy_the_constraints(name):
    system, q = system_of(name), position(name, np.random.default_rng(1))
    assert values(system, "positions", q).shape == (len(system.dependent),)
    assert np.abs(values(system, "positions", q)).max(initial=0.0) <= 1e-10
    assert np.abs(values(system, "turned", q)).max(initial=0.0) <= 1e-9
    assert sorted((*system.independent, *system.dependent)) == list(range(len(system.directions)))


@pytest.mark.parametrize("name", LOOPED)
def test_constraint_rates_are_derivatives(name):
    random = np.random.default_rng(2)
    q = position(name, random)
    qd, qdd, _ = rates(name, q, random)
    assert np.abs(along(name, "positions", q, qd=qd)).max(initial=0.0) <= 1e-9
    change = along(name, "velocities", q, qd, by=(qdd,), qd=qd)
    assert np.abs(change).max(initial=0.0) <= 1e-8 * np.abs(qdd).max()


@pytest.mark.parametrize("name", LOOPED)
def test_constraints_determine_the_dependent_rates(name):
    """Only motions of the mechanism satisfy the constraints: as many as independent directions."""
    q, n = position(name, np.random.default_rng(3)), len(system_of(name).directions)
    J = np.stack([along(name, "positions", q, qd=e) for e in np.eye(n)], axis=-1)
    dependent = list(system_of(name).dependent)
    assert J.shape == (len(dependent), n) and (not dependent or np.linalg.cond(J[:, dependent]) < 1e8)


@pytest.mark.parametrize("name", MECHANISMS)
def test_mechanisms_agree_with_multipliers(name):
    """[M K^T; K 0] [qdd; lambda] = [B tau - h; k] over the tree, dense."""
    random, system, robot = np.random.default_rng(4), system_of(name), robot_of(name)
    q, n, m = position(name, random), len(system.directions), len(system.dependent)
    qd, qdd, tau = rates(name, q, random)
    still = np.zeros(n)
    K = np.stack([values(system, "velocities", q, e) for e in np.eye(n)], axis=-1)
    k = -values(system, "accelerations", q, qd, still)
    B = np.eye(n)[:, list(system.independent)]
    matrix = np.block([[crba(robot.tree, q), K.T], [K, np.zeros((m, m))]])
    h = rnea(robot.tree, q, qd, still)
    truth = np.linalg.lstsq(matrix, np.concatenate([B @ tau - h, k]), rcond=None)[0][:n]
    assert error(values(system, "inverse", q, qd, truth), tau) <= 1e-8
    forces = np.linalg.lstsq(np.hstack([B, K.T]), rnea(robot.tree, q, qd, qdd), rcond=None)[0]
    assert error(values(system, "inverse", q, qd, qdd), forces[: len(tau)]) <= 1e-9


@pytest.mark.parametrize("name", PLANAR)
@pytest.mark.parametrize("seed", range(5))
def test_planar_mechanisms_agree_with_lagrange(name, seed):
    random, system = np.random.default_rng(seed), system_of(name)
    q = position(name, random)
    qd, _, tau = rates(name, q, random)
    at = list(system.independent)
    truth = planar_oracle.forward(name, q[_independent(name)], qd[_independent(name)], tau[_order(name)])
    qdd_by_system = values(system, "forward", q, qd, tau)
    assert error(qdd_by_system[_independent(name)], truth) <= 1e-8
    assert np.abs(values(system, "accelerations", q, qd, qdd_by_system)).max() <= 1e-9 * max(
        1, np.abs(qdd_by_system).max()
    )
    assert error(values(system, "inverse", q, qd, qdd_by_system), tau) <= 1e-9
    assert len(at) == len(truth)


def _independent(name):
    """Indices of the oracle's coordinates in q."""
    return [4] if name == "paper" else [6, 2]


def _order(name):
    """Indices of the oracle's torques among those of the System's independent coordinates."""
    return [system_of(name).independent.index(k) for k in _independent(name)]


def test_half_a_turn_is_detected():
    """The equation of the angle also holds at half a turn."""
    system, q = four_bar(), np.array(FOUR_BAR_START)
    other = q + np.array([0.0, 0.0, 0.0, 0.0, np.pi])
    assert np.abs(values(system, "positions", other)).max() <= 1e-15
    assert values(system, "turned", q).max() < TURNED < values(system, "turned", other).max()


@pytest.mark.parametrize("theta", [0.0, 0.5 * np.pi, np.pi, -0.5 * np.pi])
def test_angle_is_regular_at_singularities_of_the_paper(theta):
    q = planar_oracle.four_bar_position(np.array([theta]))
    J = np.stack([along("paper", "positions", q, qd=e) for e in np.eye(5)], axis=-1)
    assert np.linalg.cond(J[:, :4]) < 20


def test_errors_in_planar_systems_are_named():
    ends = {"A": (0.0, 0.0), "P": None}
    bar, angle = Bar("A", "P", 1.0, 1.0), Angle("theta", "A", "P")
    with pytest.raises(ValueError, match="'phi'.*x P, y P, theta"):
        planar_system("pendulum", ends, (bar, angle), ("phi",))
    with pytest.raises(ValueError, match="2 equations.* 1 dependent"):
        planar_system("pendulum", ends, (bar, angle), ("theta", "x P"))
    with pytest.raises(ValueError, match="point 'Q'"):
        planar_system("pendulum", ends, (Bar("A", "Q", 1.0),), ("theta",))
    with pytest.raises(ValueError, match="bar.*'A'.*'P'"):
        planar_system("pendulum", ends, (angle,), ("theta",))
    with pytest.raises(ValueError, match="mass.*'A'"):
        planar_system("pendulum", ends, (bar, angle), ("theta",), masses={"A": 1.0})
    with pytest.raises(ValueError, match="point 'Q'"):
        planar_system("pendulum", ends, (bar, angle, Slider("Q", "A", "P")), ("theta",))
