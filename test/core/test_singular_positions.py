"""Trees and linkages with singular positions: at and near these, accelerations are accurate or an error names the
joint."""

from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

pytest.importorskip("pinocchio", reason="the oracle: pip install pin")

from loop_oracle import LoopOracle
from mechanisms import joint, link, loop, robot
from oracle import Reference
from robots import LOOPS, robot_of
from robots import ROBOTS as REAL
from tolerances import EPS, error, solved

import dynamics_node as dn
from dynamics_node.algorithms import dynamics_programs
from dynamics_node.algorithms.pivots import weak_coordinates
from dynamics_node.robot.state_arrays import sample_positions
from dynamics_node.symbolic import interpret

DISTANCES = (0.0, 1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.3)  # rad or m
REGULAR = 1e9  # largest condition at which a solution is required
BASE = link("base", 0, 1.0)
POINT = (
    '<link name="{}"><inertial><origin xyz="{}"/><mass value="{}"/>'
    '<inertia ixx="{i}" ixy="0" ixz="0" iyy="{i}" iyz="0" izz="{i}"/></inertial></link>'
)


def point(name, xyz, mass=1.0, moment=0.0):
    return POINT.format(name, xyz, mass, i=moment)


def gimbal(parent="base", between=link, camera=None):
    """Pan, tilt and roll joints; pan and roll are collinear at zero tilt."""
    return (
        between("p"),
        between("t"),
        camera or link("camera", 3, 0.7, solid=True),
        joint("pan", parent, "p", "0.1 0 0.2"),
        joint("tilt", "p", "t", "0 0 0.05", "0 1 0"),
        joint("roll", "t", "camera", "0 0 0.04"),
    )


def mimicking(name, parent, master):
    text = joint(name, parent, f"{name}_link", "0.1 0.1 0")
    text = text.replace("<limit", f'<mimic joint="{master}" multiplier="0.5"/><limit')
    return link(f"{name}_link", 9, 0.2, solid=True), text


def four_bar(*more):
    """A four-bar with massless crank and coupler: if these are collinear, the rocker is at a dead center."""
    return (
        link("ground"), link("crank"), link("coupler"), link("rocker", 1, 1.5, solid=True),
        joint("crank_j", "ground", "crank", independent=True),
        joint("coupler_j", "crank", "coupler", "0.3 0 0", independent=False),
        joint("rocker_j", "coupler", "rocker", "0.8 0 0", independent=False),
        loop("pin", "revolute", "rocker", "0.6 0 0", "ground", "0.7 0 0"), *more,
    )  # fmt: skip


def turned_back():
    """Positions of crank and rocker with collinear crank and coupler."""
    x = (1.1**2 + 0.7**2 - 0.6**2) / (2 * 0.7)
    y = np.sqrt(1.1**2 - x * x)
    return {"crank_j": np.arctan2(y, x), "rocker_j": np.arctan2(-y, 0.7 - x) - np.arctan2(y, x)}


SLIDER = (
    link("ground"), link("crank"), link("rod"), link("piston", 2, 0.8, solid=True),
    joint("crank_j", "ground", "crank", independent=True),
    joint("rod_j", "crank", "rod", "0.1 0 0", independent=False),
    joint("piston_j", "rod", "piston", "0.3 0 0", independent=False),
    loop("guide", "prismatic", "ground", "0.4 0 0", "piston", "0 0 0", "1 0 0"),
)  # fmt: skip
GIMBAL = (
    link("p"), link("t"), link("camera", 3, 0.7, solid=True), joint("pan", "rocker", "p", "0.1 0 0.2"),
    joint("tilt", "p", "t", "0 0 0.05", "0 1 0"), joint("roll", "t", "camera", "0 0 0.04"),
)  # fmt: skip


class Place(NamedTuple):
    """A robot at a singular position home, which the coordinate moved leaves; named: the joint in the message."""

    parts: tuple
    moved: str = "tilt"
    named: str = "pan"
    home: dict = {}
    choices: dict = {}


HINGES = (BASE, link("a"), joint("j1", "base", "a"), joint("j2", "a", "b", "0.5 0 0"))
SLIDES = (
    BASE, link("a"), link("b"), link("c", 4, 1.0, solid=True),
    joint("s1", "base", "a", axis="1 0 0", kind="prismatic"), joint("turn", "a", "b"),
    joint("s2", "b", "c", "0.2 0 0", "1 0 0", kind="prismatic"),
)  # fmt: skip
ROBOTS = {
    "gimbal": Place((BASE, *gimbal())),
    "gimbal of nearly massless links": Place(
        (BASE, *gimbal(between=lambda name: point(name, "0 0 0", 1e-17, 1e-18)))
    ),
    "gimbal on a floating base": Place(
        (link("base", 2, 5.0, solid=True), *gimbal()), choices={"floating_base": True}
    ),
    "gimbal and a joint that mimics": Place((BASE, *gimbal(), *mimicking("m", "base", "tilt"))),
    "gimbal with a tiny rotor": Place((BASE, *gimbal()), choices={"armature": {"pan": 1e-18}}),
    "stretched, two links and one point": Place((*HINGES, point("b", "0.3 0 0")), "j2", "j1"),
    "folded, so that the point is on the first axis": Place(
        (*HINGES, point("b", "0.5 0 0")), "j2", "j1", {"j2": np.pi}
    ),
    "slides that line up": Place(SLIDES, "turn", "s1", {"s2": 0.4}),
}
LINKAGES = {
    "four_bar at a turning point": Place(four_bar(), "crank_j", "crank_j", turned_back()),
    "slider_crank at its dead point": Place(SLIDER, "crank_j", "crank_j"),
    "gimbal on a rocker": Place(four_bar(*GIMBAL), home={"crank_j": 0.4, "rocker_j": -2.0}),
}


class SingularCase:
    """A robot of ROBOTS or LINKAGES, with states at DISTANCES from its singular position, and the reference results.

    condition: of the mass matrix; for a linkage the size of the terms of the mass matrix relative to its least
    eigenvalue."""

    def __init__(self, name):
        parts, self.moved, self.named, self.home, choices = (ROBOTS | LINKAGES)[name]
        self.text = robot(*parts)
        self.model = model = dn.parse_robot(self.text, **choices)
        random, names = np.random.default_rng(5), list(model.q_names)
        looped = model.constrained
        mimics = {"m": ("tilt", 0.5, 0.0)} if model.explicit_joints else {}
        if looped:
            self.reference = LoopOracle(self.text, model)
            q = np.zeros((len(DISTANCES), model.nq))
        else:
            self.reference = Reference(self.text, model, mimics, choices.get("armature"))
            q = sample_positions(model, len(DISTANCES), random)
        for coordinate, at in self.home.items():
            q[:, names.index(coordinate)] = at
        beside = -np.array(DISTANCES) if looped else np.array(DISTANCES)
        q[:, names.index(self.moved)] = self.home.get(self.moved, 0.0) + beside
        self.q = dn.close_loops(model, q)
        self.qd, self.qdd = random.uniform(-1, 1, (2, len(DISTANCES), model.nv))
        self.f_ext = random.uniform(-1, 1, (len(DISTANCES), model.nbodies, 6))
        self.M = np.array([self.reference.mass_matrix(q) for q in self.q])
        self.condition = np.array([self._left_over(q) for q in self.q]) if looped else np.linalg.cond(self.M)
        self.tolerance = np.maximum(1e-9, 100 * EPS * self.condition)

    def _left_over(self, q):
        M, G = self.reference.mass_matrix_of_all(q), self.reference.spread(q, np.zeros(self.model.nv)).G
        least = np.abs(np.linalg.eigvalsh(G.T @ M @ G)).min()
        return np.linalg.norm(M) * np.linalg.norm(G) ** 2 / max(least, 1e-300)

    def torques(self, f_ext=None):
        f_ext = [None] * len(DISTANCES) if f_ext is None else f_ext
        return np.array(
            [self.reference.inverse(*s) for s in zip(self.q, self.qd, self.qdd, f_ext, strict=True)]
        )

    def judge(self, result, right=None):
        """Require accurate results, or NaN where allowed; qdd by default. result, right: (states, ...)."""
        right = self.qdd if right is None else right
        refused = ~np.isfinite(result).all(axis=tuple(range(1, result.ndim)))
        assert refused[:2].all(), "an answer at a singular position"
        assert not refused[self.condition < REGULAR].any()
        wrong = error(result[~refused], right[~refused], tail=right.ndim - 1)
        assert (wrong <= self.tolerance[~refused]).all(), (wrong, self.tolerance[~refused])


def built(**choice):
    return lambda model: dn.build(model, dn.forward_dynamics(model), f_ext=True, **choice)


COMMON_WAYS = {  # for every robot
    "c": built(backend="c", runtime_parameters=("inertia", "armature")),
    "numpy": built(backend="numpy"),
}
WAYS = COMMON_WAYS | {
    "c, constant": built(backend="c"),
    "factor graph": built(solver="factor_graph", backend="numpy"),
    "factor graph, colamd": built(solver="factor_graph", ordering="colamd", backend="numpy"),
    "factor graph, aba": built(solver="factor_graph", ordering="aba"),
    "factor graph, auto": built(solver="factor_graph"),
}
FULLY_TESTED = ("gimbal and a joint that mimics",)
COMBINATIONS = [(name, way) for name in ROBOTS for way in (WAYS if name in FULLY_TESTED else COMMON_WAYS)]
COMBINATIONS += [(name, way) for name in LINKAGES for way in (*COMMON_WAYS, "factor graph, aba")]
TWO = [*((name, "numpy") for name in (*ROBOTS, *LINKAGES)), *((name, "c") for name in FULLY_TESTED)]
MANY = 12  # repetitions of the states, enough for vector code
case_of = cache(SingularCase)


@pytest.mark.parametrize("name, way", COMBINATIONS)
def test_forward_dynamics_near_singular_positions(name, way):
    case = case_of(name)
    solver, tau = WAYS[way](case.model), case.torques()
    case.judge(solver(case.q, case.qd, tau, errors="nan"))
    case.judge(solver(case.q, case.qd, case.torques(case.f_ext), case.f_ext, errors="nan"))
    case.judge(np.array([solver(*state, errors="nan") for state in zip(case.q, case.qd, tau, strict=True)]))
    many = [np.tile(x, (MANY, 1)) for x in (case.q, case.qd, tau)]
    many[1][len(DISTANCES) - 1, 0] = np.nan
    qdd = solver(*many, errors="nan").reshape(MANY, *case.qd.shape)
    assert np.isnan(qdd[0, -1]).all()
    case.judge(qdd[1])
    case.judge(qdd[-1])
    right = case.condition < REGULAR
    states = [np.tile(x[right], (MANY, 1)) for x in (case.q, case.qd, tau)]
    assert np.isfinite(solver(*states)).all()
    for which in (0, slice(None), np.zeros(100, dtype=int)):
        with pytest.raises(dn.SolutionError, match=f"'{case.named}'.*move"):
            solver(case.q[which], case.qd[which], tau[which])


@pytest.mark.parametrize("name", [*ROBOTS, *LINKAGES])
def test_every_algorithm_near_singular_positions(name):
    """All algorithms: the factored mass matrix and articulated bodies."""
    case = case_of(name)
    given = {"q": case.q, "qd": case.qd, "tau": case.torques(), "gravity": case.model.gravity}
    programs = dynamics_programs(case.model, dn.forward_dynamics(case.model))
    assert set(programs) >= {"crba + solve", "aba"}
    for program in programs.values():
        with np.errstate(all="ignore"):
            results = interpret(program, **given)
        bad = ~(results["health"] <= program.limits).all(axis=-1, keepdims=True)
        case.judge(np.where(bad, np.nan, results["qdd"]))


@pytest.mark.parametrize("name", FULLY_TESTED)
def test_single_precision_near_singular_positions(name):
    """States beyond single precision are solved in double precision."""
    case = case_of(name)
    solver = dn.build(case.model, dn.forward_dynamics(case.model), backend="c", precision="float32")
    many = [np.tile(x, (MANY, 1)) for x in (case.q, case.qd, case.torques())]
    qdd = solver(*many, errors="nan").reshape(MANY, *case.qd.shape)
    assert qdd.dtype == np.float32 and np.isnan(qdd[:, :2]).all()
    limit = 100 * np.finfo(np.float32).eps * case.condition
    served = np.isfinite(qdd[0]).all(axis=-1)
    assert served[case.condition < REGULAR].all()
    assert (error(qdd[-1], case.qdd)[served] <= limit[served]).all()


@pytest.mark.parametrize("name, backend", TWO)
def test_hybrid_dynamics_near_singular_positions(name, backend):
    """The position is singular with a known acceleration of the moved joint, but regular with that of the named one."""
    case = case_of(name)
    model, tau = case.model, case.torques()
    joints = [j.name for j in model.independent_joints]
    for driven, singular in ((case.moved, True), (case.named, False)):
        others = [name for name in joints if name not in (driven, "crank_j")]
        problem = dn.hybrid_dynamics(model, others)
        if case.moved in ("j2", "crank_j") and singular:
            continue  # the one remaining joint moves the point
        solver = dn.build(model, problem, backend=backend)
        qdd, torques = solver(case.q, case.qd, case.qdd, tau, errors="nan")
        if singular:
            case.judge(qdd)
        else:
            assert (error(qdd, case.qdd) < 1e-9).all() and (error(torques, tau) < 1e-9).all()


@pytest.mark.parametrize("name, backend", TWO)
def test_derivatives_and_operational_space_inertia_near_singular_positions(name, backend):
    case = case_of(name)
    model, tau = case.model, case.torques()
    derivatives = dn.build(model, "forward_dynamics_derivatives", backend=backend)
    Mi = np.array([np.linalg.pinv(M) for M in case.M])
    case.judge(derivatives(case.q, case.qd, tau, errors="nan")[2], Mi)
    ends = {"links": [model.bodies[-1].name], "backend": backend}
    osi = dn.build(model, "operational_space_inertia_inverse", **ends)
    J = dn.evaluate(model, "frame_jacobian", case.q, link=model.bodies[-1].name, backend="numpy")
    case.judge(osi(case.q, errors="nan")[0], J @ Mi @ np.swapaxes(J, -1, -2))
    many = [np.tile(x[0], (70, 1)) for x in (case.q, case.qd, tau)]
    for call in (
        lambda: derivatives(case.q[0], case.qd[0], tau[0]),
        lambda: derivatives(*many),
        lambda: osi(case.q[0]),
        lambda: osi(many[0]),
        lambda: dn.evaluate(model, "operational_space_inertia_inverse", case.q[0], **ends),
    ):
        with pytest.raises(dn.SolutionError, match=f"'{case.named}'.*move"):
            call()


def test_payload_makes_a_gimbal_regular():
    """A payload on the pan makes the robot regular; without it the check applies again."""
    model = case_of("gimbal").model
    q, qd, tau = (x[0] for x in (case_of("gimbal").q, case_of("gimbal").qd, case_of("gimbal").qdd))
    loaded = dn.with_payload(model, "p", 1.0, (0, 0, 0), 0.1 * np.eye(3))
    loaded = dn.with_payload(loaded, "t", 1.0, (0, 0, 0), 0.1 * np.eye(3))
    assert weak_coordinates(model).tolist() == [True, True, False] and not weak_coordinates(loaded).any()
    for backend in ("c", "numpy"):
        solver = dn.build(model, dn.forward_dynamics(model), backend=backend, runtime_parameters=("inertia",))
        regular = solver.with_inertias(loaded)
        right = np.linalg.solve(
            dn.evaluate(loaded, "mass_matrix", q, backend="numpy"),
            tau - dn.evaluate(loaded, "nonlinear_effects", q, qd, backend="numpy"),
        )
        assert error(regular(q, qd, tau), right) < 1e-9
        with pytest.raises(dn.SolutionError, match="'pan'.*move"):
            regular.with_inertias(model)(q, qd, tau)
        solver = dn.build(
            loaded, dn.forward_dynamics(model), backend=backend, runtime_parameters=("inertia",)
        )
        assert "health" not in solver.program.outputs
        with pytest.raises(dn.ModelError, match="'pan', 'tilt'.*build"):
            solver.with_inertias(model)


def test_runtime_inertias_of_a_singular_robot():
    """With runtime inertias a robot that is singular everywhere can be built; every state raises an error."""
    parts = (BASE, link("a"), link("b", 1, 1.0), joint("j1", "base", "a"), joint("j2", "a", "b", "0 0 1"))
    model = dn.parse_robot(robot(*parts))
    for backend in ("c", "numpy"):
        solver = dn.build(model, dn.forward_dynamics(model), backend=backend, runtime_parameters=("inertia",))
        with pytest.raises(dn.SolutionError, match="'j1'.*move"):
            solver([0.1, 0.2], [0, 0], [1, 1])
        loaded = solver.with_inertias(dn.with_payload(model, "a", 1.0, (0, 0, 0), np.eye(3)))
        assert np.isfinite(loaded([0.1, 0.2], [0, 0], [1, 1])).all()


def test_payload_makes_a_crank_regular():
    """A payload on the crank makes the linkage regular; code with pivot checks still checks it."""
    case = case_of("four_bar at a turning point")
    loaded = dn.with_payload(case.model, "crank", 1.0, (0.1, 0, 0), 0.1 * np.eye(3))
    forward = dn.forward_dynamics(case.model)
    for backend in ("c", "numpy"):
        solver = dn.build(case.model, forward, backend=backend, runtime_parameters=("inertia",))
        state = case.q[0], case.qd[0], case.torques()[0]
        assert np.isfinite(solver.with_inertias(loaded)(*state)).all()
        with pytest.raises(dn.SolutionError, match="'crank_j'.*move"):
            solver.with_inertias(loaded).with_inertias(case.model)(*state)
        unwatched = dn.build(loaded, forward, backend=backend, runtime_parameters=("inertia",))
        with pytest.raises(dn.ModelError, match="'crank_j'.*build"):
            unwatched.with_inertias(case.model)


@pytest.mark.parametrize("name", [*sorted(REAL), *LOOPS, "quadruped", "humanoid"])
def test_robots_with_inertia_have_no_pivot_checks(name):
    """The iCub is the exception: links between its hip and wrist axes have almost no inertia."""
    model = robot_of(name)
    watched = {model.v_names[v] for v in np.flatnonzero(weak_coordinates(model))}
    assert watched == ({"r_hip_pitch", "l_wrist_pitch", "r_wrist_pitch"} if name == "icub" else set())


def test_forward_dynamics_of_the_icub_with_spread_legs():
    """At a right angle of a hip's roll its pitch and yaw axes are collinear, and only tiny inertias remain."""
    model = REAL["icub"].model()
    q = model.neutral()
    q[list(model.q_names).index("r_hip_roll")] = np.pi / 2
    qd, qdd = np.random.default_rng(0).uniform(-1, 1, (2, model.nv))
    tau = dn.build(model, dn.inverse_dynamics(model), backend="numpy")(q, qd, qdd)
    accelerations = dn.build(model, dn.forward_dynamics(model), backend="numpy")(q, qd, tau)
    M = dn.evaluate(model, "mass_matrix", q, backend="numpy")
    assert np.linalg.cond(M) > 1e9
    assert error(accelerations, qdd) <= solved(M)
