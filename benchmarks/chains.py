"""Forward and inverse dynamics of long chains from Python, with checks: time grows linearly with the number
of joints.

Chains have revolute joints of generic geometry. The peer is Pinocchio's C++ ABA of 512 joints, scaled: from
Python it cannot allocate 1024. Least squares of relative errors fit a line to the times.
"""

import os
import time

import harness
import numpy as np
import peers
from dynamics import attempt, microseconds, problem

import dynamics_node as dn
from dynamics_node.robot.description import Description, JointDescription, Link
from dynamics_node.robot.from_description import tree_from_description
from dynamics_node.symbolic import rpy_rotation

LENGTHS = (60, 100, 200, 400)
PEER_LENGTH = 512


def geometry(n):
    """Rotations (rpy) and origins of n joints (n, 3), masses (n,) and inertias (n, 3, 3) of their links; z is
    the axis."""
    random = np.random.default_rng(0)
    A = random.normal(size=(n, 3, 3))
    inertias = A @ np.swapaxes(A, 1, 2) + np.eye(3)
    return (
        random.uniform(-3, 3, (n, 3)),
        0.2 * random.normal(size=(n, 3)),
        random.uniform(0.5, 2, n),
        inertias,
    )


def chain(n):
    turns, places, masses, inertias = geometry(n)
    links = [Link("l0"), *(Link(f"l{k + 1}", masses[k], np.zeros(3), inertias[k]) for k in range(n))]
    joints = [
        JointDescription(
            f"j{k}", "revolute", f"l{k}", f"l{k + 1}", rpy_rotation(turns[k]), places[k], np.eye(3)[2]
        )
        for k in range(n)
    ]
    return tree_from_description(Description("chain", tuple(links), tuple(joints)))


def pinocchio_chain(n):
    import pinocchio as pin

    model, parent = pin.Model(), 0
    for k, (turn, place, mass, inertia) in enumerate(zip(*geometry(n), strict=True)):
        placement = pin.SE3(rpy_rotation(turn), place)
        parent = model.addJoint(parent, pin.JointModelRZ(), placement, f"j{k}")
        model.appendBodyToJoint(parent, pin.Inertia(mass, np.zeros(3), inertia), pin.SE3.Identity())
    return model


def call_time(model, kind):
    """us of a call of the compiled solver, and s to build it."""
    q, qd, u = np.random.default_rng(1).uniform(-1, 1, (3, 16, model.nv))
    begin = time.perf_counter()
    solver = dn.build(model, problem(model, kind), backend="c")
    building = time.perf_counter() - begin
    out = np.empty(model.nv)
    return microseconds(lambda k: solver(q[k], qd[k], u[k], out=out), 16), building


def rows():
    core, reason = attempt(lambda: peers.pinocchio_core(pinocchio_chain(PEER_LENGTH)))
    for kind, algorithm in (("forward", "aba"), ("inverse", "rnea")):
        times = []
        for n in LENGTHS:
            elapsed, building = call_time(chain(n), kind)
            times.append(elapsed)
            peer = core and core[algorithm] * n / PEER_LENGTH
            note = f"{1e3 * elapsed / n:.1f} ns a joint, built in {building:.1f} s"
            target = 1.0 if (kind, n) == ("forward", 400) else None
            yield harness.Row(
                f"chain of {n}, {kind}", elapsed, "us", "lower", f"C++ {algorithm} of 512, scaled", peer,
                target=target, reason=reason or note,
            )  # fmt: skip
        yield fit(kind, times)


def fit(kind, times):
    """A row of the largest relative distance from the line offset + slope n."""
    A = np.column_stack([np.ones(len(LENGTHS)), LENGTHS])
    weights = 1 / np.array(times)
    (offset, slope), *_ = np.linalg.lstsq(A * weights[:, None], np.ones(len(LENGTHS)), rcond=None)
    worst = np.abs((A @ [offset, slope]) * weights - 1).max()
    note = f"time = {offset:.2f} us + {1e3 * slope:.1f} ns n; exponent {exponent(times):.3f}"
    return harness.Row(f"{kind}: largest distance from a line", worst, "", "lower", target=0.15, reason=note)


def exponent(times):
    """The exponent of a power law fitted to the times."""
    return np.polyfit(np.log(LENGTHS), np.log(times), 1)[0]


def main():
    options = harness.arguments("chains").parse_args()
    os.sched_setaffinity(0, {0})
    all_rows = [*rows()]
    harness.finish("chains", all_rows, harness.versions("pin", "numpy"), options.save)


if __name__ == "__main__":
    main()
