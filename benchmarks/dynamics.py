"""Operations of our Programs, and calls from Python against Pinocchio's.

Medians of thread CPU time over many batches of calls, random states, one pinned core, both sides in one
run. Pinocchio's C++ core is not built here: rows that need it say so and are not judged.
"""

import os
import time

import harness
import numpy as np
from robots import random_chain, random_states, robot, robot_file

import dynamics_node as dn
from dynamics_node.backends.recursive import RecursiveEngine
from dynamics_node.backends.traced import problem_program

ROBOTS = ("panda", "solo12", "talos")
STATES, BATCHES = 200, 25
NO_CORE = "Pinocchio's C++ core is not built here"


def microseconds(call, count=STATES):
    """Median us of call(k), k = 0 .. count - 1."""
    times = []
    for _ in range(BATCHES):
        begin = time.thread_time_ns()
        for k in range(count):
            call(k)
        times.append((time.thread_time_ns() - begin) / count / 1e3)
    return float(np.median(times[3:]))


def pinocchio_model(name):
    import pinocchio as pin

    if name != "panda":
        return pin.buildModelFromUrdf(str(robot_file(name)), pin.JointModelFreeFlyer())
    model = pin.buildModelFromUrdf(str(robot_file(name)))
    held = [model.getJointId(joint) for joint in list(model.names)[8:]]
    return pin.buildReducedModel(model, held, pin.neutral(model))


def calls(name):
    """Rows of inverse and forward dynamics of one robot."""
    import pinocchio as pin

    model, theirs = robot(name), pinocchio_model(name)
    data = theirs.createData()
    q, qd, u = random_states(model, STATES)
    pq = [pin.randomConfiguration(theirs, -np.ones(theirs.nq), np.ones(theirs.nq)) for _ in range(STATES)]
    peers = {
        "inverse": ("pin.rnea", microseconds(lambda k: pin.rnea(theirs, data, pq[k], qd[k], u[k])), 0.4),
        "forward": ("pin.aba", microseconds(lambda k: pin.aba(theirs, data, pq[k], qd[k], u[k])), 0.33),
    }
    out = np.empty(model.nv)
    for kind, problem in (("inverse", dn.inverse_dynamics(model)), ("forward", dn.forward_dynamics(model))):
        peer, value, target = peers[kind]
        target = target if name == "panda" else None
        for backend in ("c", "numpy"):
            solver = dn.build(model, problem, backend=backend)
            ours = microseconds(
                lambda k, f=solver: f(q[k], qd[k], u[k], out=out), STATES if backend == "c" else 20
            )
            yield harness.Row(
                f"{name} {kind}, facade, {backend}", ours, "us", "lower", peer, value,
                target=target if backend == "c" else None,
            )  # fmt: skip
        kernel = dn.build(model, problem, backend="c").engine.kernel
        inputs = (q, qd, u, np.tile(model.gravity, (STATES, 1)))
        per_state = microseconds(lambda k, f=kernel, x=inputs: f(STATES, *x), 20) / STATES
        yield harness.Row(f"{name} {kind}, kernel in a loop", per_state, "us", "lower", reason=NO_CORE)


def operations(model, problem):
    """mul + add of the traced recursion; a division counts as a multiplication, sin/cos are free."""
    count = problem_program(RecursiveEngine(model, problem)).op_count()
    return count["mul"] + count["add"] + count["div"]


def operation_rows():
    """Counted operations beside what the literature counts for n revolute joints."""
    panda = robot("panda")
    for kind, problem, target in (
        ("inverse", dn.inverse_dynamics(panda), 680),
        ("forward", dn.forward_dynamics(panda), 1500),
    ):
        yield harness.Row(
            f"panda {kind}, operations", operations(panda, problem), "flop", "lower", target=target
        )
    for n in (2, 7, 20, 50):
        chain = random_chain(n)
        for kind, problem, textbook in (
            ("inverse", dn.inverse_dynamics(chain), 174 * n - 134),
            ("forward", dn.forward_dynamics(chain), 429 * n - 507),
        ):
            yield harness.Row(
                f"chain of {n}, {kind}, operations", operations(chain, problem), "flop", "lower",
                "textbook", textbook, target=1.0,
            )  # fmt: skip


def main():
    options = harness.arguments("dynamics").parse_args()
    os.sched_setaffinity(0, {0})
    rows = [row for name in ROBOTS for row in calls(name)] + list(operation_rows())
    harness.finish("dynamics", rows, harness.versions("pin", "numpy"), options.save)


if __name__ == "__main__":
    main()
