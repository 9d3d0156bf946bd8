"""Closed loops and geared robots: cluster recursions against projection, multipliers and Pinocchio.

Our algorithms are Programs of the same compiler, timed as kernels in a loop over states. The figures of the
article's C++ (paper 3, Tables II to IV) are listed, also scaled to this machine. Calls of Pinocchio and of
this library, with checks, are from Python on closed positions. --robots FOLDER with mini_cheetah.urdf, ...
adds the article's robots.
"""

import os
from pathlib import Path

import cluster_peers
import harness
import numpy as np
from cluster_alternatives import alternative_programs, independent_tree, spanning_tree
from dynamics import microseconds, pinocchio_model
from robots import random_states

import dynamics_node as dn
from dynamics_demo.robots import belt_chain, five_bar, four_bar, four_bars, geared_chain, humanoid, quadruped
from dynamics_node.algorithms import (
    dynamics_programs,
    quantity_program,
    quantity_programs,
)
from dynamics_node.codegen.c import Kernel

STATES = cluster_peers.STATES
LENGTHS = (2, 4, 8, 12, 16, 24)
CHAINS = {"GT": lambda n: geared_chain(n), "PBT": lambda n: belt_chain(n // 2)}
ARTICLE = ("mini_cheetah", "mit_humanoid", "jvrc1_humanoid")
# Percent by which each is slower (+) or faster (-) than the cluster algorithm. Tables II to IV lack most
# column heads; the text about Table IV identifies PBT (6.3) and Tello (7.8).
COLUMNS = ("approximate RNEA", "projected RNEA", "approximate ABA", "projection", "Lagrange",
           "approximate EFPA", "projected OSIM")  # fmt: skip
PAPER = {
    "GT of 12": (-40.3, 38.0, -34.1, 86.8, 133.1, -35.7, 51.8),
    "PBT of 12": (-36.2, 37.8, -34.6, 73.5, 119.8, -52.1, 6.3),
    "mini_cheetah": (-41.0, 36.7, -35.3, 21.0, 76.3, -28.6, 19.0),
    "mit_humanoid": (-42.0, 35.9, -38.6, 32.5, 106.2, -37.4, 23.2),
    "jvrc1_humanoid": (-37.7, 36.6, -38.4, 87.3, 212.8, -22.54, 107.4),
}
REFERENCE = {  # us of the article's C++ on a machine where pin.aba of Talos takes 10.38 us from Python
    "mini_cheetah": {"C-ABA": 28.4, "C-RNEA": 7.7, "C-EFPA": 40.9},
    "mit_humanoid": {"C-ABA": 45.4, "C-RNEA": 12.1, "C-EFPA": 69.5},
    "jvrc1_humanoid": {"C-ABA": 72.0, "C-RNEA": 20.1, "C-EFPA": 104.8},
    "16 four-bars": {"C-ABA": 426.0, "C-RNEA": 382.0},
}
TALOS_THERE = 10.38
IMPLICIT = ("16 four-bars",)  # rows without a target
ROUNDS = 3


def states(mechanism, count=STATES, reach=0.1):
    """Closed positions, rates and torques."""
    random = np.random.default_rng(3)
    start = mechanism.neutral()
    movable = [joint.q.start for joint in mechanism.tree.independent_joints if joint.kind != "floating"]
    start[movable] += 0.1
    q = dn.close_loops(mechanism, start) + np.zeros((count, 1))
    own = [joint.q.start for joint in mechanism.independent_joints if joint.kind != "floating"]
    q[:, own] += random.uniform(-reach, reach, (count, len(own)))
    return dn.close_loops(mechanism, q), *random.uniform(-1, 1, (2, count, mechanism.nv))


def kernel_times(programs, robot, q, *rates):
    """{name: us per state in a loop over states}: the least of the medians of ROUNDS rounds of alternating
    Programs.

    The minimum counts, since other processes only add time.
    """
    calls = {name: _call(program, robot, q, *rates) for name, program in programs.items()}
    rounds = [{name: microseconds(call, 20) / STATES for name, call in calls.items()} for _ in range(ROUNDS)]
    return {name: min(times[name] for times in rounds) for name in programs}


def _call(program, robot, q, *rates):
    """A function that runs a Program over all states."""
    kernel = Kernel(program, quaternions=robot.quaternion_places)
    inputs = [q, *rates][: sum(name in ("q", "qd", "qdd", "tau") for name in program.inputs)]
    gravity = [np.tile(robot.gravity, (STATES, 1))] if "gravity" in program.inputs else []
    x = np.hstack([*inputs, *gravity])
    y = np.empty((STATES, sum(numbers.size for numbers in program.outputs.values())))
    return lambda _: kernel.run(x, y)


def tips(mechanism):
    """Links at the ends of the robot, without rotors."""
    tree = mechanism.tree
    independent = {
        i
        for i, body in enumerate(tree.bodies)
        if body.joint.masters is None and body.joint.v.start in mechanism.independent
    }
    parents = {tree.parents[i] for i in independent}
    return [tree.bodies[i].name for i in sorted(independent - parents)]


def exact_programs(mechanism, tree):
    """{algorithm: Program}. tree: of a geared robot, with coordinates of the explicit joints."""
    forward = dynamics_programs(mechanism, dn.forward_dynamics(mechanism))
    inverse = dynamics_programs(mechanism, dn.inverse_dynamics(mechanism))
    inertia = quantity_programs(mechanism, "operational_space_inertia_inverse", links=tips(mechanism))
    return {
        "C-RNEA": inverse["rnea"],
        "C-ABA": forward["aba"],
        "projection": forward["crba + solve"],
        **alternative_programs(mechanism, tree),
        "C-EFPA": inertia["by clusters"],
        "projected OSIM": inertia["by the tree"],
    }


def approximate_programs(model, links):
    """{algorithm: Program} of the independent tree, the cheapest of each kind."""

    def cheapest(problem):
        return min(dynamics_programs(model, problem).values(), key=lambda program: len(program.ops))

    return {
        "approximate RNEA": cheapest(dn.inverse_dynamics(model)),
        "approximate ABA": cheapest(dn.forward_dynamics(model)),
        "approximate EFPA": quantity_program(model, "operational_space_inertia_inverse", links=links),
    }


ALTERNATIVES = {  # to each cluster algorithm; the article's projected RNEA is the same Program as C-RNEA
    "C-RNEA": ("projected M and h", "approximate RNEA"),
    "C-ABA": ("projection", "Lagrange", "approximate ABA"),
    "C-EFPA": ("projected OSIM", "approximate EFPA"),
}


def measure(mechanism, text=None, **choices):
    """{algorithm: (us, operations)}, with the text of a geared robot also of the approximations."""
    programs = exact_programs(mechanism, text and spanning_tree(text, **choices))
    times = kernel_times(programs, mechanism, *states(mechanism))
    if text is not None:
        model = independent_tree(text, **choices)
        approximate = approximate_programs(model, tips(mechanism))
        times |= kernel_times(approximate, model, *random_states(model, STATES))
        programs |= approximate
    return {name: (time, len(programs[name].ops)) for name, time in times.items()}


def rows_of(name, figures):
    """Rows of each cluster algorithm against its alternatives, with the article's figures."""
    for algorithm, others in ALTERNATIVES.items():
        time, operations = figures[algorithm]
        for other in (other for other in others if other in figures):
            theirs, more = figures[other]
            note = f"{operations} / {more} operations; {other} {100 * (theirs / time - 1):+.0f} %"
            if name in PAPER and other in COLUMNS:
                note += f", article {dict(zip(COLUMNS, PAPER[name], strict=True))[other]:+.0f} %"
            yield harness.Row(f"{name}, {algorithm}", time, "us", "lower", other, theirs, reason=note)


def reference_rows(name, figures, scale):
    """Rows of our kernels against the article's C++, scaled to this machine."""
    for algorithm, theirs in REFERENCE.get(name, {}).items():
        target = None if name in IMPLICIT else 0.1
        peer = ("article's C++, scaled", theirs * scale)
        yield harness.Row(f"{name}, {algorithm}", figures[algorithm][0], "us", "lower", *peer, target=target)


def talos_scale():
    """The time of pin.aba of Talos on this machine relative to that of REFERENCE."""
    import pinocchio as pin

    model = pinocchio_model("talos")
    data, random = model.createData(), np.random.default_rng(0)
    q = [pin.randomConfiguration(model, -np.ones(model.nq), np.ones(model.nq)) for _ in range(STATES)]
    v, tau = random.uniform(-1, 1, (2, STATES, model.nv))
    return microseconds(lambda k: pin.aba(model, data, q[k], v[k], tau[k]), STATES) / TALOS_THERE


def call_time(mechanism):
    """us of the public call of forward dynamics."""
    solver = dn.build(mechanism, "forward_dynamics", backend="c")
    q, yd, tau = (list(a) for a in states(mechanism))
    out = np.empty(mechanism.nv)
    return microseconds(lambda k: solver(q[k], yd[k], tau[k], out=out), STATES)


def against_pinocchio():
    for count in (1, 4, 16):
        ours = call_time(dn.parse_robot(four_bars(count)))
        times = cluster_peers.loop_times(count, states)
        fastest = min(times, key=lambda name: times[name])
        note = ", ".join(f"{name} {time:.2f}" for name, time in times.items())
        row = f"{count} four-bar(s), forward, call"
        yield harness.Row(row, ours, "us", "lower", fastest, times[fastest], target=0.4, reason=note)
    for n in (6, 12):
        ours = call_time(dn.parse_robot(geared_chain(n)))
        peer = ("pin.crba, mimic, dposv", cluster_peers.mimic_time(geared_chain(n)))
        yield harness.Row(f"GT of {n}, forward, call", ours, "us", "lower", *peer, target=0.3)


def growth(times):
    """Rows of the growth of time with length; times: {(chain, n): {algorithm: (us, operations)}}."""
    for chain in CHAINS:
        for algorithm in ("C-ABA", "C-EFPA", "projection", "Lagrange", "projected OSIM"):
            measured = [times[chain, n][algorithm] for n in LENGTHS]
            n, t = np.array(LENGTHS[1:]), np.array([time for time, _ in measured[1:]])
            slope, offset = np.polyfit(n, t, 1)
            worst = np.abs(offset + slope * n - t).max() / t.max()
            listed = ", ".join(f"{k}: {time:.2f}" for k, (time, _) in zip(LENGTHS, measured, strict=True))
            note = f"{offset:.2f} us + {slope:.3f} us n; us: {listed}"
            target = 0.15 if algorithm.startswith("C-") else None
            row = f"{chain}, {algorithm}: off a line by, of the longest"
            yield harness.Row(row, worst, "", "lower", target=target, reason=note)


def main():
    parser = harness.arguments("clusters")
    parser.add_argument("--robots", type=Path, help="folder with the URDF+ files of the article's robots")
    options = parser.parse_args()
    os.sched_setaffinity(0, {0})
    figures = {}
    for name, text in (("four-bar", four_bar()), ("five-bar", five_bar()), ("16 four-bars", four_bars(16))):
        figures[name] = measure(dn.parse_robot(text))
    geared = {"quadruped": quadruped(), "humanoid": humanoid()}
    if options.robots:
        geared |= {name: (options.robots / f"{name}.urdf").read_text() for name in ARTICLE}
    for name, text in geared.items():
        mechanism = dn.parse_robot(text, floating_base=True)
        figures[name] = measure(mechanism, text, floating_base=True)
    times = {(chain, n): None for chain in CHAINS for n in LENGTHS}
    for chain, n in times:
        text = CHAINS[chain](n)
        times[chain, n] = figures[f"{chain} of {n}"] = measure(dn.parse_robot(text), text)
    scale = talos_scale()
    print(f"pin.aba of Talos: {scale * TALOS_THERE:.2f} us, {scale:.2f} times {TALOS_THERE}")
    rows = [row for item in figures.items() for row in (*rows_of(*item), *reference_rows(*item, scale))]
    rows += [*growth(times), *against_pinocchio()]
    harness.finish("clusters", rows, harness.versions("pin", "numpy"), options.save)


if __name__ == "__main__":
    main()
