"""Derivatives of inverse and forward dynamics against Pinocchio's analytical ones, both from Python.

Medians of thread CPU time over random states, on one pinned core, both in one run. Calls with `out=` are
comparable with Pinocchio, which writes into its Data; `f(...)` allocates new arrays.
"""

import os
import time

import harness
import numpy as np
from dynamics import STATES, microseconds, pinocchio_model
from robots import random_states, robot

import dynamics_node as dn

PEERS = {"inverse": "computeRNEADerivatives", "forward": "computeABADerivatives"}


def rows(name):
    import pinocchio as pin

    model, theirs = robot(name), pinocchio_model(name)
    data = theirs.createData()
    q, qd, u = (list(a) for a in random_states(model, STATES))
    pq = [pin.randomConfiguration(theirs, -np.ones(theirs.nq), np.ones(theirs.nq)) for _ in range(STATES)]
    for kind, function in PEERS.items():
        peer = getattr(pin, function)
        theirs_time = microseconds(lambda k, f=peer: f(theirs, data, pq[k], qd[k], u[k]))
        begin = time.perf_counter()
        ours = dn.build(model, f"{kind}_dynamics_derivatives", backend="c")
        building = time.perf_counter() - begin
        out = ours(q[0], qd[0], u[0])
        call = microseconds(lambda k, f=ours, o=out: f(q[k], qd[k], u[k], out=o))
        note = f"{sum(ours.program.op_count().values())} operations, {ours.program.length} written down"
        yield harness.Row(
            f"{name} {kind}, f(..., out=out)", call, "us", "lower", f"pin.{function}", theirs_time,
            target=0.5, reason=note,
        )  # fmt: skip
        yield harness.Row(f"{name} {kind}, built in", building, "s", "lower", target=15.0)
        fresh = microseconds(lambda k, f=ours: f(q[k], qd[k], u[k]))
        yield harness.Row(f"{name} {kind}, f(...)", fresh, "us", "lower", f"pin.{function}", theirs_time)
        states = random_states(model, 4096)
        places = ours(*states)
        many = microseconds(lambda _, f=ours, s=states: f(*s), 2) / 4096
        yield harness.Row(f"{name} {kind}, of 4096", many, "us", "lower", f"pin.{function}", theirs_time)
        many = microseconds(lambda _, f=ours, s=states, o=places: f(*s, out=o), 2) / 4096
        yield harness.Row(f"{name} {kind}, of 4096, out", many, "us", "lower", f"pin.{function}", theirs_time)


def main():
    options = harness.arguments("derivatives").parse_args()
    os.sched_setaffinity(0, {0})
    all_rows = [row for name in ("panda", "solo12", "talos") for row in rows(name)]
    harness.finish("derivatives", all_rows, harness.versions("pin", "numpy"), options.save)


if __name__ == "__main__":
    main()
