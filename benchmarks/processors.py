"""Figures of this processor, for the table of processors in docs/explanation/measurements.md.

`./dev bench --save` writes them to benchmarks/results/processors, a file for each processor, and the table
from all of these files. Without `--save` (`./dev bench processors`) the page stays as it is.

Thread CPU time on one pinned core: the least of rounds of random states, in passes over all robots, since
neighbors slow down a shared machine for minutes. Builds run in other processes.
"""

import os
import time

import harness
import numpy as np
from dynamics import KINDS, ROBOTS, building, pinocchio_model, problem
from processor_table import description, save
from robots import random_states, robot

import dynamics_node as dn

STATES, MANY, SECONDS, PASSES = 256, 4096, 0.4, 3
ALGORITHMS = {"inverse": "rnea", "forward": "aba"}
DERIVATIVES = {"inverse": "computeRNEADerivatives", "forward": "computeABADerivatives"}


def least(call, count):
    """The least thread CPU time of call(), us per state of `count`."""
    call()
    best, stop = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < stop:
        begin = time.thread_time_ns()
        call()
        best = min(best, time.thread_time_ns() - begin)
    return best / count / 1e3


def one_by_one(function, *states, out):
    """A call that evaluates our function at one state after the other, as a control loop writes it."""
    listed = list(zip(*map(list, states), strict=True))

    def call():
        for q, qd, u in listed:
            function(q, qd, u, out=out)

    return call


def pinocchio_one_by_one(algorithm, model, data, *states):
    """The same of a function of Pinocchio."""
    listed = list(zip(*map(list, states), strict=True))

    def call():
        for q, qd, u in listed:
            algorithm(model, data, q, qd, u)

    return call


def figures(name):
    """Rows of a robot."""
    import pinocchio as pin

    model, theirs = robot(name), pinocchio_model(name)
    data = theirs.createData()
    few, many = random_states(model, STATES), random_states(model, MANY)
    _, qd, u = few
    pq = [pin.randomConfiguration(theirs, -np.ones(theirs.nq), np.ones(theirs.nq)) for _ in range(STATES)]

    def peer(function):
        return least(pinocchio_one_by_one(getattr(pin, function), theirs, data, pq, qd, u), STATES)

    for kind, _ in KINDS:
        function = dn.build(model, problem(model, kind), backend="c")
        x = np.hstack((*few, np.tile(model.gravity, (STATES, 1))))
        y, out, places = np.empty((STATES, model.nv)), np.empty(model.nv), np.empty((MANY, model.nv))
        kernel = function.runner.kernel
        value = least(lambda kernel=kernel, x=x, y=y: kernel.run(x, y), STATES)
        yield harness.Row(f"{name} {kind}, Program", value, "us", "lower")
        value, rival = least(one_by_one(function, *few, out=out), STATES), peer(ALGORITHMS[kind])
        yield harness.Row(f"{name} {kind}, call", value, "us", "lower", f"pin.{ALGORITHMS[kind]}", rival)
        value = least(lambda f=function, out=places: f(*many, out=out), MANY)
        yield harness.Row(
            f"{name} {kind}, of a batch", value, "us", "lower", f"pin.{ALGORITHMS[kind]}", rival
        )
    for kind, _ in KINDS:
        function = dn.build(model, f"{kind}_dynamics_derivatives", backend="c")
        out, places = function(*(a[0] for a in few)), function(*many)
        value, rival = least(one_by_one(function, *few, out=out), STATES), peer(DERIVATIVES[kind])
        row, algorithm = f"{name} {kind} derivatives", f"pin.{DERIVATIVES[kind]}"
        yield harness.Row(f"{row}, call", value, "us", "lower", algorithm, rival, target=0.25)
        batch = least(lambda f=function, out=places: f(*many, out=out), MANY)
        yield harness.Row(f"{row}, of a batch", batch, "us", "lower", "one by one", value, target=0.6)
        batch = least(lambda f=function: f(*many), MANY)
        yield harness.Row(
            f"{row}, of a batch, new arrays", batch, "us", "lower", "one by one", value, target=0.6
        )
    yield from building(name)


def least_of(rows):
    """One row with the least values of several passes."""
    row = rows[0]
    peer = None if row.peer_value is None else min(row.peer_value for row in rows)
    value = min(row.value for row in rows)
    return harness.Row(row.name, value, row.unit, row.better, row.peer, peer, target=row.target)


def main():
    options = harness.arguments("processors").parse_args()
    os.sched_setaffinity(0, {(os.cpu_count() or 1) - 1})
    passes = [[row for name in ROBOTS for row in figures(name)] for _ in range(PASSES)]
    rows = list(map(least_of, zip(*passes, strict=True)))
    versions = harness.versions("pin", "numpy")
    if options.save:
        harness.print_table(rows)
        save(harness.content(rows, versions) | {"description": description()})
    else:
        harness.finish("processors", rows, versions, save=False)


if __name__ == "__main__":
    main()
