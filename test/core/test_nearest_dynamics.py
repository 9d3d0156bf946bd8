"""Dynamics at singular positions of loops: Gauss' principle, compared with proximal steps in extended precision, with
Pinocchio's algorithms, and with the ordinary results near these positions."""

import pickle
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

pin = pytest.importorskip("pinocchio", reason="the oracle: pip install pin")

from five_bars import FIVE_BAR, flat_four_bar
from linkages import Drawing, parallelograms, sarrus, stewart, three_cranks
from loop_oracle import LoopOracle
from mechanisms import robot as mechanism
from proximal import Proximal
from robots import robot_of, states_of
from test_assemblies import FOLDED, parse_marked, regular_positions
from test_singular_positions import four_bar as massless_four_bar
from test_singular_positions import turned_back
from tolerances import EXACT, error

import dynamics_node as dn
from dynamics_demo.robots import four_bar
from dynamics_node.algorithms.singular_positions import plain_basis
from dynamics_node.robot.loops.equations import position_program
from dynamics_node.robot.state_arrays import moved
from dynamics_node.symbolic import interpret

KINDS = ("forward", "inverse", "hybrid")
COLLINEAR = np.array(
    [np.pi - np.arccos(0.75), np.arccos(0.75) - np.pi, np.arccos(0.75), np.pi - np.arccos(0.75)]
)


def dead_point():
    """Positions of a four-bar with crank and coupler in line."""
    x = (1.1**2 + 0.7**2 - 0.6**2) / 1.4
    y = np.sqrt(1.1**2 - x * x)
    return [np.arctan2(y, x), 0.0, np.arctan2(y, x - 0.7)]


def flat_five_bar():
    """All links are in line at zero, where both branches of either side meet."""
    d, z = Drawing("flat_five_bar", np.random.default_rng(6)), (0, 0, 1)
    for side, x, length in (("left", 0.0, 0.5), ("right", 0.4, 0.3)):
        d.add(f"{side}_crank", "ground", (x, 0, 0), z, independent=True)
        d.add(f"{side}_rod", f"{side}_crank", (x + length, 0, 0), z, independent=False)
    d.tie("revolute", "left_rod", "right_rod", np.array([1.0, 0, 0]))
    return d.done().text


STEWART = [
    0.02, 0.0, 0.0, 0.6759844521637433, 1.2, 0.1, -0.21840491113210833, 0.13247375105128456,
    0.1399473110474123, 0.6032816332767124, 0.12767451903286614, -0.19219869713355908,
]  # fmt: skip
# name: text, position, numbers of self-motions and internal torques
CASES = {
    "five-bar with its rods in line": (FIVE_BAR, COLLINEAR, 1, 1),
    "four-bar driven by its rocker at a dead point": (
        four_bar(independent=(False, False, True), tilt=(0.4, 0.7, -0.3)),
        dead_point(),
        1,
        1,
    ),
    "Stewart platform": (stewart(np.random.default_rng(1)).text, STEWART, 1, 1),
    "flat parallelogram": (flat_four_bar(), np.zeros(3), 1, 0),
    "flat parallelogram with two rockers": (three_cranks().text, np.zeros(4), 1, 0),
    "flat five-bar": (flat_five_bar(), np.zeros(4), 1, 0),
    "flat parallelogram on a floating base": (parallelograms(np.random.default_rng(3)).text, None, 1, 0),
}
BRANCHES = [name for name, (*_, motions, torques) in CASES.items() if motions > torques]


class Case(NamedTuple):
    robot: dn.Robot
    oracle: LoopOracle
    q: np.ndarray


@cache
def case_of(name):
    text, q, _, _ = CASES[name]
    robot = dn.parse_robot(text, floating_base="floating" in name)
    q = robot.neutral() if q is None else np.array(q, dtype=float)
    oracle = LoopOracle(text, robot)
    assert oracle.gap(q) < 1e-14
    return Case(robot, oracle, q)


@cache
def built(name, kind, backend="numpy", **choice):
    robot = case_of(name).robot
    first = robot.independent_joints[0].name
    problem = {
        "forward": dn.forward_dynamics,
        "inverse": dn.inverse_dynamics,
        "hybrid": lambda robot: dn.hybrid_dynamics(robot, [first]),
    }[kind](robot)
    return dn.build(robot, problem, backend=backend, singular="nearest", f_ext=True, **choice)


def possible(rates, internal_torques):
    """The part of rates of the independent joints that the position permits."""
    return rates - (rates @ internal_torques.T) @ internal_torques


def arguments(kind, q, qd, qdd, tau):
    return {"forward": (q, qd, tau), "inverse": (q, qd, qdd), "hybrid": (q, qd, qdd, tau)}[kind]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_proximal_steps(name, kind):
    """Joints move where no branches meet. Torques are compared without their internal part."""
    robot, oracle, q = case_of(name)
    random, function = np.random.default_rng(5), built(name, kind)
    qd, qdd, tau = random.normal(size=(3, robot.nv))
    f_ext = random.normal(size=(robot.nbodies, 6))
    T = function.nearest(*arguments(kind, q, 0 * qd, qdd, tau)).internal_torques
    qd = 0 * qd if name in BRANCHES else possible(qd, T)
    given = arguments(kind, q, qd, qdd, tau)
    result = function.nearest(*given, f_ext=f_ext)
    state = Proximal(oracle, q, f_ext)
    rates = state.rates(qd)
    forward = np.array(function.problem.forward)
    accelerations, torques = state.accelerations(rates, forward, result.qdd, tau)
    assert error(result.rates, rates[oracle.order]) < EXACT
    assert error(result.accelerations, accelerations[oracle.order]) < EXACT
    assert error(possible(result.tau, T), possible(torques, T)) < EXACT
    assert np.array_equal(result.tau[forward], tau[forward])
    back = built(name, "forward").nearest(q, qd, result.tau, f_ext=f_ext)
    assert error(back.accelerations, result.accelerations) < EXACT
    called = function(*given, f_ext)
    for own, other in zip(called if kind == "hybrid" else [called], function.runner.outputs, strict=True):
        assert np.array_equal(own, getattr(result, other))
    with pytest.raises(dn.SolutionError, match="singular position"):
        dn.build(robot, function.problem, backend="numpy", f_ext=True)(*given, f_ext)


@pytest.mark.parametrize("name", ["five-bar with its rods in line", "flat parallelogram"])
def test_accelerations_are_those_of_pinocchio(name):
    """Its sparse solver of constraint dynamics and LCABA, both by proximal steps."""
    robot, oracle, q = case_of(name)
    model, data = oracle.pin, oracle.pin.createData()
    models, datas = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
    for tie in oracle.ties:
        ends = []
        for end in (tie.predecessor, tie.successor):
            frame = model.frames[model.getFrameId(end.link, pin.BODY)]
            place = pin.SE3(np.asarray(end.rotation), np.asarray(end.origin, float))
            ends += [frame.parentJoint, frame.placement * place]
        models.append(pin.RigidConstraintModel(pin.ContactType.CONTACT_3D, model, *ends, pin.LOCAL))
        datas.append(models[-1].createData())
    tau, efforts = np.arange(1.0, 1.0 + robot.nv), np.zeros(model.nv)
    efforts[oracle.own] = tau
    pin.initConstraintDynamics(model, data, models, datas)
    state = model, data, oracle.q(q), np.zeros(model.nv), efforts, models, datas
    result = built(name, "forward").nearest(q, np.zeros(robot.nv), tau)
    theirs = pin.constraintDynamics(*state, pin.ProximalSettings(1e-14, 1e-6, 100))
    assert error(result.accelerations, theirs[oracle.order]) < 1e-8
    if hasattr(pin, "lcaba"):
        pin.computeJointMinimalOrdering(model, data, models)
        theirs = pin.lcaba(*state, pin.ProximalSettings(1e-14, 1e-6, 100))
        assert error(result.accelerations, theirs[oracle.order]) < 1e-7


@pytest.mark.parametrize("name", CASES)
def test_open_directions(name):
    """Self-motions keep loops closed and independent joints still; forces of the loops balance internal torques."""
    robot, oracle, q = case_of(name)
    *_, motions, torques = CASES[name]
    random = np.random.default_rng(7)
    qdd = random.normal(size=robot.nv)
    result = built(name, "inverse").nearest(q, np.zeros(robot.nv), qdd)
    assert result.self_motions.shape == (motions, robot.tree.nv)
    assert result.internal_torques.shape == (torques, robot.nv)
    K = oracle.rows(q, np.zeros(oracle.pin.nv))[0]
    assert np.abs(K[:, oracle.order] @ result.self_motions.T).max() < 1e-12
    assert np.abs(result.self_motions[:, robot.independent]).max() < 1e-12
    efforts = np.zeros((torques, oracle.pin.nv))
    efforts[:, oracle.own] = result.internal_torques
    forces = np.linalg.lstsq(K.T, efforts.T, rcond=1e-10)[0]
    assert np.abs(K.T @ forces - efforts.T).max(initial=0.0) < 1e-12
    assert np.abs(result.qdd - possible(qdd, result.internal_torques)).max() < 1e-12
    assert np.abs(result.internal_torques @ result.tau).max(initial=0.0) < 1e-12
    assert result.gap[0] < 1e-12 and result.gap[1] > 1e-2


@pytest.mark.parametrize("name", ["five_bar", "belt_leg", "ball", "wrist", "quadruped", "panda7"])
@pytest.mark.parametrize("kind", ["forward", "inverse"])
def test_regular_positions_have_the_ordinary_results(name, kind):
    robot = robot_of(name)
    q, qd, u, f_ext = states_of(name, 3)
    function = dn.build(robot, f"{kind}_dynamics", backend="numpy", f_ext=True)
    result = function.nearest(q, qd, u, f_ext=f_ext)
    right = function(q, qd, u, f_ext)
    assert error(result.qdd if kind == "forward" else result.tau, right).max() < 1e-9
    assert result.self_motions.size == result.internal_torques.size == 0


def near(robot, q, step, rates):
    """The closed position next to q + step by all joints, to the last digits, and the nearest possible rates there."""
    program, every = position_program(robot.tree, robot.constraints), range(robot.tree.nv)
    q = moved(robot.tree, q[None], every, step[None])
    for _ in range(60):
        equations = interpret(program, q=q)
        K = equations["K"][0]
        q = moved(robot.tree, q, every, -(np.linalg.pinv(K, rcond=1e-12) @ equations["phi"][0])[None])
    return q[0], rates - np.linalg.pinv(K, rcond=1e-12) @ (K @ rates)


# name, rates of all joints that are not quite those of a branch
MOTIONS = {
    "no branches": ("five-bar with its rods in line", None),
    "parallel": ("flat parallelogram", [1.0, -1.0, 1.0]),
    "crossed": ("flat parallelogram", [1.0, -1.24, -1.26]),
    "two rockers": ("flat parallelogram with two rockers", [0.5, -0.5, 0.51, 0.49]),
    "two cranks": ("flat five-bar", [1.0, -1.0, 0.2, 1.0]),
    "floating base": (
        "flat parallelogram on a floating base",
        [0.3, -0.2, 0.5, 0.1, 0.4, -0.3, 1.0, -1.1, 1.1],
    ),
}


@pytest.mark.parametrize("motion", MOTIONS)
def test_results_are_the_limits_along_a_motion(motion):
    """Ordinary results before and after the position have the nearest ones as their mean, to second order in time."""
    name, rates = MOTIONS[motion]
    robot, _, q = case_of(name)
    forward, inverse = built(name, "forward"), built(name, "inverse")
    if rates is None:
        K = interpret(position_program(robot.tree, robot.constraints), q=q)["K"]
        rates = np.linalg.svd(K)[2][-2:].T @ [0.7, -0.4]
    rates, tau = np.array(rates), np.linspace(1.0, -2.0, robot.nv)
    at = forward.nearest(q, rates[robot.independent], tau, rates=rates)
    assert error(at.rates, rates) < 0.3
    assert error(at.qdd, forward.nearest(q, 0 * tau, tau).qdd) > 1e-3
    ordinary = dn.build(robot, "forward_dynamics", backend="numpy")
    misses = []
    for time in (4e-3, 1e-3):
        around = []
        for t in (-time, time):
            v = at.rates + t * at.accelerations
            position, v = near(robot, q, t * at.rates + t * t / 2 * at.accelerations, v)
            around.append(ordinary(position, v[robot.independent], tau))
        misses.append(error(np.mean(around, axis=0), at.qdd))
    assert misses[0] < 2e-2 and misses[1] < misses[0] / 10 + 1e-6
    back = inverse.nearest(q, rates[robot.independent], at.qdd, rates=rates)
    assert error(back.accelerations, at.accelerations) < EXACT
    assert error(back.tau, possible(tau, at.internal_torques)) < EXACT


def test_branches_need_rates():
    """Tiny rates select a branch, too. Without them accelerations at rest belong to none."""
    name = "flat parallelogram"
    robot, _, q = case_of(name)
    forward = built(name, "forward")
    rates = np.array([1.0, -1.0, 1.0])
    regular = dn.build(robot, "forward_dynamics", backend="numpy")(1e-3 * rates, [0.0], [1.0])
    assert error(forward.nearest(q, [1e-9], [1.0], rates=1e-9 * rates).qdd, regular) < 1e-6
    assert error(forward(q, [0.0], [1.0]), regular) > 0.5
    assert error(forward(q, [1e-9], [1.0]), forward(q, [0.0], [1.0])) < EXACT
    with pytest.raises(dn.SolutionError, match=r"branches .* meet .*\(pin\)"):
        forward(q, [1.0], [1.0])
    assert np.isnan(forward(q, [1.0], [1.0], errors="nan")).all()


def test_another_assembly():
    """A Sarrus linkage for one motion, folded, where it has two: as one that is read for two motions."""
    linkage = sarrus(np.random.default_rng(0))
    lifted, swung = (parse_marked(linkage, *dependent, *FOLDED) for dependent in (["lower_b"], []))
    (q, *_), tau = regular_positions(swung), np.zeros(2)
    tau[swung.v_names.index(lifted.v_names[0])] = 0.7
    forward = dn.build(lifted, "forward_dynamics", backend="numpy", singular="nearest")
    rates = dn.spanning(swung, q, [0.8, -0.5])[1]
    result = forward.nearest(q, rates[lifted.independent], [0.7], rates=rates)
    ordinary = dn.build(swung, "forward_dynamics", backend="numpy")(q, [0.8, -0.5], tau)
    assert error(result.rates, rates) < EXACT and len(result.self_motions) == 1
    assert error(result.accelerations[swung.independent], ordinary) < 1e-9


def test_more_equations_than_usual_are_errors():
    """They are those of an assembly with fewer motions."""
    linkage = sarrus(np.random.default_rng(0))
    swung, lifted = (parse_marked(linkage, *dependent, *FOLDED) for dependent in ([], ["lower_b"]))
    forward = dn.build(swung, "forward_dynamics", backend="numpy", singular="nearest")
    with pytest.raises(dn.SolutionError, match="another assembly.*4 equations"):
        forward(regular_positions(lifted)[0], np.zeros(2), np.ones(2))


def test_rates_that_no_branch_has_are_errors():
    name = "flat five-bar"
    robot, _, q = case_of(name)
    forward = built(name, "forward")
    moving = forward.nearest(q, [1.0, 1.0], [0.0, 0.0], rates=[1.0, -1.0, 1.0, -1.0])
    assert error(moving.rates[robot.independent], np.ones(2)) < EXACT
    with pytest.raises(dn.SolutionError, match="no motion .* these rates: tie0"):
        forward.nearest(q, [1.0, 4.0], [0.0, 0.0], rates=[1.0, 0.0, 4.0, 0.0])


def test_self_motions_have_the_least_energy_or_the_given_rates():
    name = "Stewart platform"
    robot, oracle, q = case_of(name)
    forward = built(name, "forward")
    still = forward.nearest(q, np.zeros(6), np.zeros(6))
    assert not still.rates.any()
    moving = forward.nearest(q, np.zeros(6), np.zeros(6), rates=0.3 * still.self_motions[0])
    assert error(moving.rates, 0.3 * still.self_motions[0]) < EXACT
    accelerations, _ = Proximal(oracle, q).accelerations(
        moving.rates[np.argsort(oracle.order)], np.ones(6, dtype=bool), np.zeros(6), np.zeros(6)
    )
    assert error(moving.accelerations, accelerations[oracle.order]) < EXACT


@pytest.mark.parametrize("backend, precision", [("c", "float64"), ("c", "float32"), ("numpy", "float64")])
def test_only_singular_states_of_a_batch_are_recomputed(backend, precision):
    name = "five-bar with its rods in line"
    robot, _, q = case_of(name)
    forward = built(name, "forward", backend, precision=precision, runtime_parameters=("inertia",))
    ordinary = dn.build(
        robot, "forward_dynamics", backend=backend, precision=precision, runtime_parameters=("inertia",)
    )
    states = np.tile(dn.first_closed(robot, [1.9, 0.0, 1.2, 0.0]), (40, 1))
    states[[3, 17]], states[8, 0], states[9, 1] = q, np.nan, 1.0
    qd, tau = np.zeros((40, 2)), np.tile([1.0, -2.0], (40, 1))
    qdd, plain = (function(states, qd, tau, errors="nan") for function in (forward, ordinary))
    assert qdd.dtype == precision and np.isnan(plain[[3, 17, 8, 9]]).all()
    others = np.delete(np.arange(40), [3, 17])
    assert np.array_equal(qdd[others], plain[others], equal_nan=True)
    exact, rounding = forward.nearest(q, qd[0], tau[0]).qdd, 1e-5 if precision == "float32" else 1e-9
    assert error(qdd[[3, 17]], np.tile(exact, (2, 1))).max() < rounding
    with pytest.raises(dn.InputError, match="state 8"):
        forward(states, qd, tau)
    with pytest.raises(dn.SolutionError, match="'j5' is open"):
        forward(states[9:], qd[9:], tau[9:])
    loaded = dn.with_payload(robot, "left_lower", 2.0, (0.1, 0, 0), 0.1 * np.eye(3))
    heavy = pickle.loads(pickle.dumps(forward.with_inertias(loaded)))
    right = dn.build(loaded, "forward_dynamics", backend="numpy", singular="nearest")(q, qd[0], tau[0])
    assert error(heavy(q, qd[0], tau[0]), right) < rounding
    assert error(right, exact) > 1e-2
    out = np.empty((40, 2), dtype=precision)
    assert forward(states, qd, tau, out=out, errors="nan") is out and np.array_equal(out, qdd, equal_nan=True)


def test_batches_with_different_numbers_of_directions():
    name = "five-bar with its rods in line"
    robot, _, q = case_of(name)
    states = np.stack([dn.first_closed(robot, [1.9, 0.0, 1.2, 0.0]), q])[:, None]
    result = built(name, "forward").nearest(states, np.zeros(2), np.ones((3, 2)))
    assert result.qdd.shape == (2, 3, 2) and result.self_motions.shape == (2, 3, 1, 4)
    assert not result.self_motions[0].any() and result.self_motions[1].any(axis=-1).all()
    assert "self_motions" in repr(result)


@pytest.mark.parametrize("solver", ["cluster", "factor_graph"])
@pytest.mark.parametrize("backend", ["c", "numpy"])
def test_every_solver(solver, backend):
    name = "flat parallelogram"
    _, _, q = case_of(name)
    function = built(name, "forward", backend, solver=solver)
    assert error(function(q, [0.0], [1.0]), built(name, "forward").nearest(q, [0.0], [1.0]).qdd) < 1e-12


def test_massless_motions_are_errors():
    """Torques on a crank that moves nothing determine no acceleration."""
    robot = dn.parse_robot(mechanism(*massless_four_bar()))
    q = np.zeros(3)
    for joint, at in turned_back().items():
        q[robot.q_names.index(joint)] = at
    forward = dn.build(robot, "forward_dynamics", backend="numpy", singular="nearest")
    with pytest.raises(dn.SolutionError, match="'crank_j'.*move"):
        forward(dn.close_loops(robot, q), [0.0], [1.0])


def test_basis_depends_on_the_space_alone():
    random = np.random.default_rng(2)
    basis = np.linalg.qr(random.normal(size=(6, 3)))[0]
    turn = np.linalg.qr(random.normal(size=(3, 3)))[0]
    plain = plain_basis(basis)
    assert error(plain_basis(basis @ turn), plain, tail=2) < 1e-12
    assert np.abs(plain @ plain.T - np.eye(3)).max() < 1e-12
    assert np.abs(plain - plain @ basis @ basis.T).max() < 1e-12
    assert np.array_equal(plain_basis(np.eye(4)[:, [2, 0]]), np.eye(4)[[0, 2]])


def test_choices():
    robot = case_of("flat parallelogram").robot
    with pytest.raises(dn.ChoiceError, match="mass_matrix.*singular"):
        dn.build(robot, "mass_matrix", singular="nearest")
    with pytest.raises(ValueError, match="'closest'.*nearest"):
        dn.build(robot, "forward_dynamics", singular="closest")
    forward = built("flat parallelogram", "forward")
    with pytest.raises(TypeError, match="q, qd, tau"):
        forward.nearest(np.zeros(3), [0.0])
    with pytest.raises(dn.InputError, match="rates.*coupler_j"):
        forward.nearest(np.zeros(3), [0.0], [1.0], rates=[0.0])
    with pytest.raises(dn.InputError, match="no states"):
        forward.nearest(np.zeros((0, 3)), [0.0], [1.0])
    with pytest.raises(dn.InputError, match=r"tau\[0\]"):
        forward.nearest(np.zeros(3), [0.0], [np.nan])


def test_unknown_entries_have_no_effect():
    name = "five-bar with its rods in line"
    _, _, q = case_of(name)
    hybrid = built(name, "hybrid")
    one, other = (hybrid.nearest(q, np.zeros(2), [x, 1.0], [2.0, x]) for x in (np.nan, 5.0))
    assert np.array_equal(one.accelerations, other.accelerations) and np.array_equal(one.tau, other.tau)
