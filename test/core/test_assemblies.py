"""Linkages with several assemblies, and overconstrained linkages, wherever they are regular: against Pinocchio's tree
with constraint multipliers, and against MuJoCo."""

import re
from functools import partial

import numpy as np
import pytest
from linkages import (
    Drawing,
    bennett,
    chain,
    door,
    five_bar,
    grid,
    palletizer,
    parallelograms,
    sarrus,
    three_cranks,
)
from loop_oracle import LoopOracle
from mechanisms import joint, link, robot
from tolerances import EPS, EXACT, error
from trials import tried

import dynamics_node as dn
from dynamics_demo.robots import four_bar
from dynamics_node.algorithms import first_closed
from dynamics_node.robot.constraints import FunctionConstraint

SIXTY, RIGHT = np.pi / 3, np.pi / 2
FOUR_BAR = next(k for k in range(99) if len(grid(np.random.default_rng(k)).ties) == 1)
LINKAGES = {
    "four-bar": lambda: grid(np.random.default_rng(FOUR_BAR)),
    "five-bar": five_bar,
    "palletizer": lambda: palletizer(np.random.default_rng(3)),
    "parallelogram": lambda: parallelograms(np.random.default_rng(5)),
    "three cranks": three_cranks,
    "door": door,
    "bennett": lambda: bennett(0.5, SIXTY, np.pi / 4),
    "bennett, equilateral": lambda: bennett(0.5, SIXTY, 2 * SIXTY),
    "bricard, trihedral": lambda: chain(
        *((a, way * RIGHT, 0) for a, way in zip((0.3, 0.5, 0.4, 0.3, 0.5, 0.4), (1, -1) * 3, strict=True))
    ),
    "bricard, threefold": lambda: chain(*((0.4, RIGHT, 0), (0.4, -RIGHT, 0)) * 3),
    "bricard, threefold, 60 degrees": lambda: chain(*((0.4, SIXTY, 0), (0.4, -SIXTY, 0)) * 3),
    "spherical": lambda: chain((0, 0.7, 0), (0, 1.1, 0), (0, 0.9, 0), (0, 1.2, 0)),
    "sarrus": lambda: sarrus(np.random.default_rng(0)),
}
FOLDED = ("upper_a", "upper_b", "table")  # dependent links if both pairs of plates are folded


# Near zero, the last one has folded positions only
@pytest.mark.parametrize("seed", [*range(6), (7, 2, 125)])
def test_sarrus(seed):
    """At zero and near it. campaigns/assemblies.py tries 200 others."""
    linkage = sarrus(np.random.default_rng(seed))
    trial = tried(linkage, compiled=seed == 0)
    assert not trial.wrong and not trial.refused and trial.conditions
    mechanism = dn.parse_robot(linkage.text, floating_base=linkage.floating_base)
    assert mechanism.nv == 1 + 6 * linkage.floating_base
    q = first_closed(mechanism, mechanism.neutral())
    assert dn.build_loop_solver(mechanism, "numpy").is_regular(q)


def regular_positions(mechanism):
    """Closed positions (count, nq) on all branches of a linkage, away from singularities. It has one cluster and a
    fixed base."""
    (cluster,) = (own for own in mechanism.clusters if own.constraints)
    return cluster.samples[:12]


@pytest.mark.parametrize("name", LINKAGES)
def test_every_assembly_matches_the_oracle(name):
    linkage = LINKAGES[name]()
    mechanism = dn.parse_robot(linkage.text)
    reference, random = LoopOracle(linkage.text, mechanism), np.random.default_rng(1)
    inverse, forward, graph = (
        dn.build(mechanism, problem, **options)
        for problem, options in (
            (dn.inverse_dynamics(mechanism), {"backend": "numpy"}),
            (dn.forward_dynamics(mechanism), {"backend": "numpy"}),
            (dn.inverse_dynamics(mechanism), {"solver": "factor_graph", "backend": "numpy"}),
        )
    )
    mass_matrix = dn.build(mechanism, "mass_matrix", backend="numpy")
    compared = 0
    for q in regular_positions(mechanism):
        yd, ydd = random.uniform(-1, 1, (2, mechanism.nv))
        spread, tau = reference.spread(q, yd), reference.inverse(q, yd, ydd)
        assert reference.gap(q) <= 1e-9
        if spread.condition < 1e3:
            compared += 1
            tolerance = max(EXACT, EPS * spread.condition**2)
            assert error(inverse(q, yd, ydd), tau) <= tolerance
            assert error(graph(q, yd, ydd), tau) <= 100 * tolerance
            assert error(forward(q, yd, tau), ydd) <= 10 * tolerance
            assert error(reference.forward(q, yd, tau), ydd) <= 1e-8
            assert error(mass_matrix(q), reference.mass_matrix(q), tail=2) <= EXACT
    assert compared >= 4


@pytest.mark.parametrize(
    "name", ["four-bar", "five-bar", "three cranks", "bennett", "bricard, threefold", "sarrus"]
)
def test_against_mujoco(name):
    from mujoco_oracle import Connected  # skips without MuJoCo

    linkage = LINKAGES[name]()
    mechanism = dn.parse_robot(linkage.text)
    mujoco, random = Connected(linkage, mechanism), np.random.default_rng(2)
    inverse = dn.build(mechanism, dn.inverse_dynamics(mechanism), backend="numpy")
    for q in regular_positions(mechanism)[:4]:
        yd, ydd = random.uniform(-1, 1, (2, mechanism.nv))
        assert error(inverse(q, 0 * yd, ydd), mujoco.torques(q, 0 * yd, ydd)) <= 1e-9
        assert error(inverse(q, yd, ydd), mujoco.torques(q, yd, ydd)) <= 1e-6


# --- rejected positions and robots -----------------------------------------------------------------------------


def parse_marked(linkage, *dependent):
    """The linkage with the joints of these links marked as dependent, and no others."""
    unmarked = re.sub(' independent="(true|false)"', "", linkage.text)
    flag = ' independent="false"'
    return dn.parse_robot(
        re.sub(r'<joint name="j_(\w+)"', lambda match: match[0] + flag * (match[1] in dependent), unmarked)
    )


def test_other_assembly_needs_other_marks():
    """The solver needs as many marked joints as the assembly has; otherwise the error has both numbers."""
    linkage = sarrus(np.random.default_rng(0))
    lifted, swung = parse_marked(linkage), parse_marked(linkage, *FOLDED)
    assert (lifted.nv, swung.nv) == (1, 2)
    lifts, swings = (dn.build(each, dn.inverse_dynamics(each), backend="numpy") for each in (lifted, swung))
    q, one = regular_positions(swung)[0], np.ones(2)
    assert error(swings(q, one, one), LoopOracle(linkage.text, swung).inverse(q, one, one)) <= EXACT
    other = "assembly.* {} equations.* {} joints.* {} .* {} "
    with pytest.raises(dn.SolutionError, match=other.format(3, 2, 4, 1)):
        lifts(q, one[:1], one[:1])
    with pytest.raises(dn.SolutionError, match=other.format(4, 1, 3, 2)):
        swings(regular_positions(lifted)[0], one, one)
    with pytest.raises(dn.ModelError, match="3 or 4 joints.*marks 2"):
        parse_marked(linkage, "upper_a", "table")


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize("cranks, length, width", [(3, 0.68, 0.614), (4, 0.5808, 1.1707), (4, 0.402, 0.843)])
def test_equal_cranks_are_loaded_away_from_the_flat_position(cranks, length, width, marked):
    """At zero all cranks lie in one line, where the equations are singular."""
    d, axis = Drawing("cranks", np.random.default_rng(1)), (0, 0, 1)
    for k in range(cranks):
        d.add(f"crank{k}", "ground", (width * k, 0, 0), axis, independent=k == 0 if marked else None)
    d.add("plate", "crank0", (length, 0, 0), axis, independent=False if marked else None)
    for k in range(1, cranks):
        d.tie("revolute", "plate", f"crank{k}", np.array([length + width * k, 0, 0]), axis)
    mechanism = dn.parse_robot(d.done().text)
    assert mechanism.nv == 1
    sizes = [abs(np.sin(q[mechanism.q_names.index("j_crank0")])) for q in regular_positions(mechanism)]
    assert len(sizes) >= 8 and min(sizes) > 1e-4


def four_hinges(function, marks=None):
    """Hinges side by side with a constraint between their angles; marks: which are independent."""
    hinges = [joint(f"j{k}", "a", f"b{k}", independent=marks and marks[k]) for k in range(4)]
    text = robot(link("a"), *(link(f"b{k}", k, 1.0) for k in range(4)), *hinges)
    tie = partial(FunctionConstraint, "tie", function, tuple(range(4)), frozenset(range(4)))
    return dn.parse_robot(text, constraints=[lambda tree: tie()])


def test_joints_are_loaded_for_one_of_many_branches():
    """If a product of angles is zero, one hinge is still, and another on each of four branches."""
    mechanism = four_hinges(lambda q: q[:1] * q[1:2] * q[2:3] * q[3:])
    inverse = dn.build(mechanism, dn.inverse_dynamics(mechanism), backend="numpy")
    still = [k for k, name in enumerate(mechanism.q_names) if name not in mechanism.v_names]
    for q in regular_positions(mechanism):
        assert np.abs(q[still]).max() <= 1e-9 and np.isfinite(inverse(q, np.ones(3), np.ones(3))).all()


def test_proposed_joints_load():
    """The last hinge does not move with the others, so it cannot follow from them."""
    function = lambda q: q[:1] + q[1:2] + q[2:3] + 0.0 * q[3:]  # noqa: E731
    with pytest.raises(dn.ModelError, match="'j0', 'j1', 'j2' cannot be.*they do not determine") as caught:
        four_hinges(function, [True, True, True, False])
    proposed = re.findall("'(j.)'", str(caught.value).rpartition("use ")[2])
    assert four_hinges(function, [f"j{k}" in proposed for k in range(4)]).v_names == tuple(proposed)


def test_turning_point_error_names_the_joint():
    """With crank and coupler in line the rocker turns back: it does not determine the direction of the crank."""
    mechanism = dn.parse_robot(four_bar(independent=(False, False, True)))
    inverse = dn.build(mechanism, dn.inverse_dynamics(mechanism), backend="numpy")
    x = (1.1**2 + 0.7**2 - 0.6**2) / (2 * 0.7)
    y = np.sqrt(1.1**2 - x * x)
    q = np.array([np.arctan2(y, x), 0.0, np.arctan2(y, x - 0.7)])
    with pytest.raises(dn.SolutionError, match=r"singular.*pin.*'rocker_j'"):
        inverse(q, [1.0], [1.0])


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_accuracy_near_a_branch_point(backend):
    """A flat rod on three cranks can also turn against them. Near that position, torques due to velocities are accurate
    to eps times the squared condition number. No method does better: moving a crank by its last digit changes an
    exact torque as much."""
    linkage = three_cranks()
    mechanism = dn.parse_robot(linkage.text)
    reference = LoopOracle(linkage.text, mechanism)
    inverse, forward = (
        dn.build(mechanism, problem, backend=backend)
        for problem in (dn.inverse_dynamics(mechanism), dn.forward_dynamics(mechanism))
    )
    moves = np.array([{"j_rod": -1.0}.get(name, 1.0) for name in mechanism.q_names])
    G, closing, one = moves[:, None], dn.build_loop_solver(mechanism, "numpy"), np.array([1.0])
    for away in (1.0, 1e-2, 1e-3, 1e-4, 1e-5, 5e-6):
        q = away * moves
        condition = closing(q)[1]
        for yd in (0 * one, one):
            tau = G.T @ reference.torques_of_all(q, *map(reference.v, (G @ yd, G @ one)))[reference.order]
            exact = max(EXACT, EPS * condition ** (2 if yd.any() else 1))
            assert error(inverse(q, yd, one), tau) <= exact
            assert error(forward(q, yd, tau), one) <= 10 * exact
    assert condition > 5e5
    for away in (1e-7, 0.0):
        with pytest.raises(dn.SolutionError, match="singular.*tie0, tie1: 2 .* 3 "):
            inverse(away * moves, one, one)


def test_contradicting_equations_raise():
    """The loop is open by less than 1e-6, but each equation gives another rate of the dependent joint."""
    text = robot(link("a"), *(part for k in "bc" for part in (link(k, 1, 1.0), joint(f"j{k}", "a", k))))

    def twice(tree):
        function = lambda q: (q[1] - q[0]) * np.array([1.0, 1.0 + 1e3 * q[0]])  # noqa: E731
        return FunctionConstraint("tie", function, (0, 1), frozenset({0, 1}))

    mechanism = dn.parse_robot(text, constraints=[twice])
    inverse = dn.build(mechanism, dn.inverse_dynamics(mechanism), backend="numpy")
    assert np.isfinite(inverse([0.3, 0.3], [1.0], [1.0])).all()
    with pytest.raises(dn.SolutionError, match="tie.*contradict.*5e-07"):
        inverse([0.0, 5e-7], [1.0], [1.0])
