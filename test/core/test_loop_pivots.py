"""Linkages whose projected mass matrix is singular at some closed positions only, at those and beside them: an
acceleration within its tolerance, or a refusal by the joint's name."""

from functools import cache

import numpy as np
import pytest
from closed_loops import ALL, mechanism_of
from mechanisms import joint, link, loop, robot
from tolerances import EPS, error

import dynamics_node as dn
from dynamics_demo.robots import humanoid, quadruped
from dynamics_node.algorithms import dynamics_programs
from dynamics_node.algorithms.pivots import weak_coordinates
from dynamics_node.algorithms.rates import closure_matrix
from dynamics_node.symbolic import interpret

BESIDE = (0.0, 1e-9, 1e-7, 1e-5, 1e-4, 1e-3, 0.3)  # rad or m
REGULAR = (
    1e9  # size of what the projected mass matrix is left over from, beside it, up to which a state is served
)


def four_bar(*more):
    """Crank and coupler without mass: where they are in line the rocker turns back, and the crank moves nothing."""
    return (
        link("ground"), link("crank"), link("coupler"), link("rocker", 1, 1.5, solid=True),
        joint("crank_j", "ground", "crank", independent=True),
        joint("coupler_j", "crank", "coupler", "0.3 0 0", independent=False),
        joint("rocker_j", "coupler", "rocker", "0.8 0 0", independent=False),
        loop("pin", "revolute", "rocker", "0.6 0 0", "ground", "0.7 0 0"), *more,
    )  # fmt: skip


def turned_back():
    """Positions of crank, coupler and rocker where crank and coupler are in line."""
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
# name: (parts, positions where it is singular, the joint that is moved away from there, the joint named)
LINKAGES = {
    "four_bar at a turning point": (four_bar(), turned_back(), "crank_j", "crank_j"),
    "slider_crank at its dead point": (SLIDER, {"crank_j": 0.0}, "crank_j", "crank_j"),
    "gimbal on a rocker": (four_bar(*GIMBAL), {"crank_j": 0.4, "rocker_j": -2.0}, "tilt", "pan"),
}  # fmt: skip


class Case:
    """A linkage of LINKAGES, closed positions at distances BESIDE of where it is singular, and what is right there."""

    def __init__(self, name):
        parts, home, moved, self.named = LINKAGES[name]
        self.mechanism = mechanism = dn.parse_robot(robot(*parts))
        q = np.array([home.get(name, 0.0) for name in mechanism.q_names]) + np.zeros((len(BESIDE), 1))
        q[:, mechanism.q_names.index(moved)] -= BESIDE
        self.q = dn.close_loops(mechanism, q)
        self.yd, self.ydd = np.random.default_rng(2).uniform(-1, 1, (2, len(BESIDE), mechanism.nv))
        self.tau = dn.build(mechanism, dn.inverse_dynamics(mechanism), backend="numpy")(
            self.q, self.yd, self.ydd
        )
        self.M = dn.build(mechanism, "mass_matrix", backend="numpy")(self.q)
        least = np.abs(np.linalg.eigvalsh(self.M)).min(axis=-1)
        G, M = closure_matrix(mechanism, self.q), dn.evaluate(mechanism.tree, "mass_matrix", self.q)
        size = np.linalg.norm(M, axis=(1, 2)) * np.linalg.norm(G, axis=(1, 2)) ** 2
        self.ratio = size / np.maximum(least, 1e-300)

    def judge(self, found, right):
        """found, right (states, ...): an error within the tolerance, or NaN where that may be."""
        refused = ~np.isfinite(found).all(axis=tuple(range(1, found.ndim)))
        assert refused[:2].all(), "an answer at a singular position"
        assert not refused[self.ratio < REGULAR].any() and not refused[-1]
        tolerance = np.maximum(1e-9, 100 * EPS * self.ratio)[~refused]
        assert (error(found[~refused], right[~refused], tail=right.ndim - 1) <= tolerance).all()


case_of = cache(Case)
WAYS = {
    "c": {"backend": "c", "runtime_parameters": ("inertia",)},
    "numpy": {"backend": "numpy"},
    "factor graph": {"solver": "factor_graph", "ordering": "aba"},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", LINKAGES)
def test_forward_dynamics(name, way):
    case = case_of(name)
    solver = dn.build(case.mechanism, dn.forward_dynamics(case.mechanism), **WAYS[way])
    case.judge(solver(case.q, case.yd, case.tau, errors="nan"), case.ydd)
    one_by_one = [
        solver(*state, errors="nan") for state in zip(case.q, case.yd, case.tau, strict=True)
    ]  # compiled code declines
    case.judge(np.array(one_by_one), case.ydd)
    for which in (0, slice(None)):
        with pytest.raises(dn.SolutionError, match=f"'{case.named}'.* can move almost without"):
            solver(case.q[which], case.yd[which], case.tau[which])


@pytest.mark.parametrize("name", LINKAGES)
def test_every_algorithm(name):
    """Projection and C-ABA, whichever is compiled."""
    case = case_of(name)
    given = {"q": case.q, "qd": case.yd, "tau": case.tau, "gravity": case.mechanism.gravity}
    programs = dynamics_programs(case.mechanism, dn.forward_dynamics(case.mechanism))
    assert set(programs) == {"crba + solve", "aba"}
    for program in programs.values():
        with np.errstate(all="ignore"):
            found = interpret(program, **given)
        bad = ~(found["health"] <= program.limits).all(axis=-1, keepdims=True)
        case.judge(np.where(bad, np.nan, found["qdd"]), case.ydd)


@pytest.mark.parametrize("name", LINKAGES)
def test_derivatives_and_operational_space_inertia(name):
    case = case_of(name)
    mechanism, link = case.mechanism, case.mechanism.bodies[-1].name
    inverse = np.array([np.linalg.pinv(M) for M in case.M])
    derivatives = dn.build(mechanism, "forward_dynamics_derivatives", backend="numpy")
    case.judge(derivatives(case.q, case.yd, case.tau, errors="nan")[2], inverse)
    osi = dn.build(mechanism, "operational_space_inertia_inverse", backend="numpy", links=[link])
    J = dn.build(mechanism, "frame_jacobian", backend="numpy", link=link)(case.q)
    case.judge(osi(case.q, errors="nan")[0], J @ inverse @ np.swapaxes(J, -1, -2))
    for call in (
        lambda: osi(case.q[0]),
        lambda: derivatives(case.q[0], case.yd[0], case.tau[0]),
    ):
        with pytest.raises(dn.SolutionError, match=f"'{case.named}'.* can move almost without"):
            call()
    assert np.isfinite(case.M).all(), "the mass matrix itself is what it is"


def test_a_joint_that_is_held_is_not_watched():
    """With the tilt driven pan and roll still line up; with the pan driven nothing is singular."""
    case = case_of("gimbal on a rocker")
    joints = case.mechanism.joint_names
    for driven, singular in (("tilt", True), ("pan", False)):
        free = [name for name in joints if name not in (driven, "crank_j")]
        solver = dn.build(case.mechanism, dn.hybrid_dynamics(case.mechanism, free), backend="numpy")
        qdd, tau = solver(case.q, case.yd, case.ydd, case.tau, errors="nan")
        if singular:
            case.judge(qdd, case.ydd)
        else:
            assert (error(qdd, case.ydd) < 1e-9).all() and (error(tau, case.tau) < 1e-9).all()


def test_inertias_that_are_given_later():
    """A payload on the crank makes it regular, and is watched as long as its code does."""
    case = case_of("four_bar at a turning point")
    loaded = dn.with_payload(case.mechanism, "crank", 1.0, (0.1, 0, 0), 0.1 * np.eye(3))
    forward = dn.forward_dynamics(case.mechanism)
    for backend in ("c", "numpy"):
        solver = dn.build(case.mechanism, forward, backend=backend, runtime_parameters=("inertia",))
        state = case.q[0], case.yd[0], case.tau[0]
        assert np.isfinite(solver.with_inertias(loaded)(*state)).all()
        with pytest.raises(dn.SolutionError, match="'crank_j' can move"):
            solver.with_inertias(loaded).with_inertias(case.mechanism)(*state)
        unwatched = dn.build(loaded, forward, backend=backend, runtime_parameters=("inertia",))
        with pytest.raises(dn.ModelError, match="'crank_j' .* build one for this Robot"):
            unwatched.with_inertias(case.mechanism)


@pytest.mark.parametrize("name", [*ALL, "quadruped", "humanoid"])
def test_nothing_is_watched_where_all_links_have_mass(name):
    texts = {"quadruped": quadruped, "humanoid": humanoid}
    if name in texts:
        text = texts[name]()
        mechanism = dn.parse_robot(text, floating_base='type="floating"' not in text)
    else:
        mechanism = mechanism_of(name)
    assert not weak_coordinates(mechanism).any()
