"""Elimination orderings of the PUMA 560, as in Tables I and II of Xie and Dellaert.

GTSAM eliminates and back-substitutes numerically on every call; the graph is built beforehand, as in the
article. Our Programs are eliminated once. Only the ratios between orderings are comparable with the article.
"""

import os

import gtsam
import harness
import numpy as np
from dynamics import microseconds
from robots import random_states

import dynamics_node as dn
from dynamics_node.algorithms import cheapest, dynamics_programs
from dynamics_node.codegen.c import Kernel
from dynamics_node.errors import SingularPivotError
from dynamics_node.graph import (
    ORDERINGS,
    best_ordering,
    build_graph,
    elimination_program,
    generic_graph,
    named_ordering,
)
from dynamics_node.graph.by_gtsam import constrained, gaussian_graph

STATES = 32
TABLES = {  # microseconds in the article
    "inverse": {"rnea": 26.6, "colamd": 11.0, "metis": 11.7},
    "forward": {"crba": 51.8, "aba": 25.5, "colamd": 11.2, "metis": 12.1},
}
BASE = {"inverse": "rnea", "forward": "aba"}  # denominators of the ratios
NAME = {"inverse": "Table I", "forward": "Table II"}
OF_GTSAM = {  # its own heuristics
    "colamd": gtsam.Ordering.ColamdGaussianFactorGraph,
    "metis": gtsam.Ordering.MetisGaussianFactorGraph,
}


def gtsam_time(model, problem, name):
    """us of elimination and back-substitution, with the ordering as a list of keys."""
    graphs = []
    q, qd, u = random_states(model, STATES)
    ordering = named_ordering(name, model, problem, generic_graph(model, problem))
    for k in range(STATES):
        graph = build_graph(model, problem, q[k], qd[k], u[k], u[k])
        gaussian, order, _ = gaussian_graph(constrained(graph), ordering.variables)
        graphs.append((gaussian, OF_GTSAM[name](gaussian) if name in OF_GTSAM else order))
    return microseconds(lambda k: graphs[k][0].eliminateSequential(graphs[k][1]).optimize(), STATES)


def program_time(model, problem, name):
    """(us per state, operations, name of the ordering) of the Program of an ordering; (None, None, reason) if
    the robot does not allow it."""
    try:
        if name == "best":
            best = best_ordering(model, problem)
            return *kernel_time(model, best.program), best.ordering.name
        return *kernel_time(model, elimination_program(model, problem, name)), name
    except SingularPivotError as error:
        return None, None, str(error)


def kernel_time(model, program):
    """us per state in a loop over states, and operations, including those of the health of weak pivots."""
    kernel = Kernel(program)
    x = np.hstack((*random_states(model, STATES), np.tile(model.gravity, (STATES, 1))))
    y = np.empty((STATES, sum(numbers.size for numbers in program.outputs.values())))
    counts = program.op_count()
    time = microseconds(lambda _: kernel.run(x, y), 200) / STATES
    return time, counts["mul"] + counts["add"] + counts["div"]


def rows(model, kind):
    problem = dn.inverse_dynamics(model) if kind == "inverse" else dn.forward_dynamics(model)
    theirs = {name: gtsam_time(model, problem, name) for name in ORDERINGS}
    base = BASE[kind]
    for name in ORDERINGS:
        article = TABLES[kind].get(name)
        yield harness.Row(
            f"{kind}, {name} over {base}, GTSAM", theirs[name] / theirs[base], "x", "lower",
            NAME[kind] if article else "", article / TABLES[kind][base] if article else None,
        )  # fmt: skip
    ours = {name: program_time(model, problem, name) for name in (*ORDERINGS, "best")}
    for name, (time, operations, what) in ours.items():
        ordering = name if name in theirs else min(theirs, key=theirs.__getitem__)
        yield harness.Row(
            f"{kind}, {name}, Program", time, "us", "lower", f"GTSAM, {ordering}", theirs[ordering],
            target=0.1, reason=f"{what}: {operations} operations" if operations else what,
        )  # fmt: skip
    recursion, program = cheapest(dynamics_programs(model, problem))
    time, operations = kernel_time(model, program)
    fastest = min(theirs, key=theirs.__getitem__)
    yield harness.Row(
        f"{kind}, recursion ({recursion}), Program", time, "us", "lower",
        f"GTSAM, {fastest}", theirs[fastest], reason=f"{operations} operations",
    )  # fmt: skip


def main():
    options = harness.arguments("orderings").parse_args()
    os.sched_setaffinity(0, {os.cpu_count() - 1})
    model = dn.load_robot(harness.HERE / "puma560.urdf")
    all_rows = [row for kind in TABLES for row in rows(model, kind)]
    harness.finish("orderings", all_rows, harness.versions("gtsam", "numpy"), options.save)


if __name__ == "__main__":
    main()
