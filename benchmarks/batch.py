"""A batch of 4096 states against Pinocchio's rneaInParallel and abaInParallel on the same number of cores.

Wall time of whole calls, checks included; medians. The kernel alone runs without the facade's checks.
"""

import os
import time

import harness
import numpy as np
from dynamics import KINDS, pinocchio_model, problem
from robots import random_states, robot

import dynamics_node as dn

COUNT, REPEATS = 4096, 30
TARGET = {("panda", "inverse"): 1 / 60, ("panda", "forward"): 1 / 50, ("talos", "forward"): 1 / 15}


def nanoseconds(call):
    """Median wall ns per state of call() over COUNT states."""
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter_ns()
        call()
        times.append((time.perf_counter_ns() - begin) / COUNT)
    return float(np.median(times[3:]))


def rows(name, cores):
    import pinocchio as pin

    model, theirs = robot(name), pinocchio_model(name)
    pool = pin.ModelPool(theirs, cores)
    q, qd, u = random_states(model, COUNT)
    pq = np.array(
        [pin.randomConfiguration(theirs, -np.ones(theirs.nq), np.ones(theirs.nq)) for _ in q]
    ).T.copy("F")
    pv, pu = np.asfortranarray(qd.T), np.asfortranarray(u.T)
    gravity = np.tile(model.gravity, (COUNT, 1))
    for kind, algorithm in KINDS:
        function = getattr(pin, f"{algorithm}InParallel")
        peer = nanoseconds(lambda f=function: f(cores, pool, pq, pv, pu))
        solver = dn.build(model, problem(model, kind), backend="c")
        solver(q, qd, u)
        batch = solver.engine.batch
        for what, call in (
            ("facade", lambda f=solver: f(q, qd, u)),
            ("kernel", lambda f=batch: f(COUNT, q, qd, u, gravity)),
        ):
            target = TARGET.get((name, kind)) if what == "kernel" and cores == 1 else None
            yield harness.Row(
                f"{name} {kind}, {cores} core(s), {what}", nanoseconds(call), "ns", "lower",
                f"pin.{algorithm}InParallel", peer, target=target,
            )  # fmt: skip


def main():
    options = harness.arguments("batch").parse_args()
    found = []
    for cores in range(1, (os.cpu_count() or 1) + 1):
        os.sched_setaffinity(0, range(cores))
        found += [row for name in ("panda", "talos") for row in rows(name, cores)]
    harness.finish("batch", found, harness.versions("pin", "numpy"), options.save)


if __name__ == "__main__":
    main()
