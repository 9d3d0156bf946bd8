"""A batch of states against Pinocchio's rneaInParallel and abaInParallel on the same number of cores.

Medians of the wall time of whole calls, including argument checks. Rows "kernel" have no checks.
"""

import os
import time
from functools import partial

import harness
import numpy as np
from dynamics import KINDS, pinocchio_model, problem
from robots import random_states, robot

import dynamics_node as dn
from dynamics_node.algorithms import reordered
from dynamics_node.codegen.c.batch_kernel import BatchKernel

COUNT, MANY = 4096, 65536
SECONDS, ROUNDS = 0.9, 3  # for every figure
ORDER_TARGET = 0.85
PEER_TARGET = {("panda", "inverse"): 1 / 60, ("panda", "forward"): 1 / 50, ("talos", "forward"): 1 / 15}


def nanoseconds(count, *calls):
    """Median wall time per state, ns, of every (cores, call of `count` states), repeated in several
    rounds."""
    times = [[] for _ in calls]
    for _ in range(ROUNDS):
        for (cores, call), samples in zip(calls, times, strict=True):
            os.sched_setaffinity(0, range(cores))
            time.sleep(0.02)  # OpenMP threads keep spinning for a while
            call()
            call()
            samples += _elapsed(call)
    return [float(np.median(samples)) / count for samples in times]


def _elapsed(call):
    times, stop = [], time.perf_counter() + SECONDS / ROUNDS
    while time.perf_counter() < stop:
        begin = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - begin)
    return times


def peer(name, kind, cores, count):
    """A call of Pinocchio's parallel algorithm."""
    import pinocchio as pin

    model = pinocchio_model(name)
    function, pool = getattr(pin, f"{dict(KINDS)[kind]}InParallel"), pin.ModelPool(model, cores)
    q = [pin.randomConfiguration(model, -np.ones(model.nq), np.ones(model.nq)) for _ in range(count)]
    q = np.array(q).T.copy("F")
    v, u = (np.asfortranarray(a.T) for a in np.random.default_rng(0).uniform(-1, 1, (2, count, model.nv)))
    return lambda: function(cores, pool, q, v, u)


def one_core(name, kind):
    model = robot(name)
    states = random_states(model, COUNT)
    singles = [a.astype(np.float32) for a in states]
    solver = dn.build(model, problem(model, kind), backend="c")
    single = dn.build(model, problem(model, kind), backend="c", precision="float32")
    kernel = BatchKernel(solver.program)
    double, alone, half, theirs = nanoseconds(
        COUNT,
        (1, lambda: solver(*states)),
        (1, lambda: kernel(COUNT, *states, model.gravity)),
        (1, lambda: single(*singles)),
        (1, peer(name, kind, 1, COUNT)),
    )
    peer_time = (f"pin.{dict(KINDS)[kind]}InParallel", theirs)
    target = PEER_TARGET.get((name, kind))
    yield harness.Row(f"{name} {kind}, call", double, "ns", "lower", *peer_time, target=target)
    yield harness.Row(f"{name} {kind}, kernel", alone, "ns", "lower", *peer_time)
    yield harness.Row(
        f"{name} {kind}, call in float32", half, "ns", "lower", "call in float64", double, target=1 / 1.7
    )


class Traced(BatchKernel):
    """A kernel with operations in the order of the trace."""

    def _orders(self):
        return {"traced": self.program}


def orders(name, kind):
    """The chosen order of operations compared with that of the trace, with a target for Talos."""
    model = robot(name)
    program = dn.build(model, problem(model, kind), backend="c").program
    other, target = reordered(model, program), ORDER_TARGET if name == "talos" else None
    for dtype in (np.float64, np.float32):
        states = [a.astype(dtype) for a in (*random_states(model, COUNT), model.gravity)]
        kernels = BatchKernel(program, dtype, reordered=other), Traced(program, dtype)
        ours, before = nanoseconds(COUNT, *((1, partial(kernel, COUNT, *states)) for kernel in kernels))
        row = f"{name} {kind}, kernel in {np.dtype(dtype)}"
        yield harness.Row(row, ours, "ns", "lower", "in the trace's order", before, target=target)


def two_cores(name, kind):
    """The same call on one core and on two, and Pinocchio on two cores."""
    model = robot(name)
    solver = dn.build(model, problem(model, kind), backend="c")
    for count in (COUNT, MANY):
        states = random_states(model, count)

        def call(states=states):
            solver(*states)

        both, one, theirs = nanoseconds(count, (2, call), (1, call), (2, peer(name, kind, 2, count)))
        row = f"{name} {kind}, call, 2 cores, {count} states"
        target = 1 / 1.8 if count == MANY else None
        yield harness.Row(row, both, "ns", "lower", "call on 1 core", one, target=target)
        yield harness.Row(row, both, "ns", "lower", f"pin.{dict(KINDS)[kind]}InParallel", theirs)


def main():
    options = harness.arguments("batch").parse_args()
    cases = [(name, kind) for name in ("panda", "talos") for kind, _ in KINDS]
    rows = [row for case in cases for row in one_core(*case)]
    rows += [row for name in ("panda", "solo12", "talos") for kind, _ in KINDS for row in orders(name, kind)]
    if (os.cpu_count() or 1) > 1:
        rows += [row for case in cases for row in two_cores(*case)]
    harness.finish("batch", rows, harness.versions("pin", "numpy"), options.save)


if __name__ == "__main__":
    main()
