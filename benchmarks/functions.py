"""The overhead of a Function over its compiled Program: one state, a few and many, with loops and without.

Thread CPU time on one core. The calls of a row alternate, and the least of the medians of several rounds
counts, so that ratios are valid on a busy machine. The kernel alone is the same builtin without argument
checks.
"""

import os
import time
from functools import partial

import harness
import numpy as np
from clusters import states as closed_states
from robots import PANDA, random_states, robot

import dynamics_node as dn
from dynamics_demo.robots import five_bar, quadruped
from dynamics_node.codegen.c import BatchKernel
from dynamics_node.robot import named
from dynamics_node.symbolic import trace

ROUNDS, CALLS = 9, 60
FEW = (2, 3, 8, 63)
MANY = (256, 1024, 4096)
TIP = "panda_link7"


def together(*calls, repeat=1):
    """us of each of the alternating calls: the least of the medians of CALLS turns over ROUNDS rounds."""
    rounds = []
    for _ in range(ROUNDS):
        turns = [[_elapsed(call, repeat) for call in calls] for _ in range(CALLS)]
        rounds.append(np.median(turns, axis=0))
    return (1e-3 * np.min(rounds, axis=0) / repeat).tolist()


def _elapsed(call, repeat):
    begin = time.thread_time_ns()
    for _ in range(repeat):
        call()
    return time.thread_time_ns() - begin


def row(name, ours, peer, theirs, target=None, reason=""):
    return harness.Row(name, ours, "us", "lower", peer, theirs, target=target, reason=reason)


# --- one state ----------------------------------------------------------------------------------------------


def one_state():
    """Rows of the call against its builtin, and of hybrid dynamics against inverse dynamics."""
    model = robot("panda")
    q, qd, u, f_ext = (*(a[0] for a in random_states(model, 1)), np.ones((model.nbodies, 6)))
    inverse, pushed = (dn.build(model, "inverse_dynamics", backend="c", f_ext=f) for f in (False, True))
    out, g = np.empty(7), model.gravity
    solve = inverse.runner.call_one
    ours, alone = together(lambda: inverse(q, qd, u, out=out), lambda: solve(q, qd, u, g, out), repeat=200)
    yield row("panda inverse, call", ours, "builtin", alone)
    both = out, np.empty(7)
    for free, target in ((1, 1.3), (4, None)):
        problem = dn.hybrid_dynamics(model, PANDA[:free])
        for push, other, what in (((), inverse, ""), ((f_ext,), pushed, ", f_ext")):
            hybrid = dn.build(model, problem, backend="c", f_ext=bool(push))
            ours, theirs = together(
                lambda p=push, h=hybrid: h(q, qd, u, u, *p, out=both),
                lambda p=push, o=other: o(q, qd, u, *p, out=out),
                repeat=200,
            )
            note = f"{len(hybrid.program.ops)} / {len(other.program.ops)} operations"
            name = f"panda hybrid, {free} of 7 joints forward{what}"
            yield row(name, ours, "inverse, call", theirs, target, note)


def own_program():
    """Rows of a user's Program."""
    program = trace(lambda x, m: {"y": np.sin(x) @ m}, {"x": (3,), "m": (3, 3)})
    function = dn.compile(program)
    x, m, y = np.ones(3), np.eye(3), np.empty(3)
    solve = function.runner.call_one
    ours, alone = together(lambda: function(x, m, out=y), lambda: solve(x, m, y), repeat=200)
    yield row("a user's Program, call", ours, "builtin", alone)
    xs, ms = np.ones((1024, 3)), np.tile(m, (1024, 1, 1))
    kernel = BatchKernel(program)
    ours, alone = together(lambda: function(xs, ms), lambda: kernel.quick(1024, xs, ms))
    yield row("a user's Program, 1024 states", ours, "kernel", alone, 1.3)


# --- a few states -------------------------------------------------------------------------------------------


def few_states():
    """Rows of a few states in one call against one call per state."""
    cases = {"panda": ("inverse", "forward", "hybrid"), "solo12": ("inverse",)}
    for name, kind in ((name, kind) for name, kinds in cases.items() for kind in kinds):
        model = robot(name)
        solver = dn.build(model, named(kind, model, PANDA[::2]), backend="c")
        for count in FEW:
            q, qd, u = random_states(model, count)
            arrays = (q, qd, u, u) if kind == "hybrid" else (q, qd, u)
            rows = list(zip(*map(list, arrays), strict=True))

            def one_by_one(rows=rows, solver=solver):
                for state in rows:
                    solver(*state)

            ours, theirs = together(lambda a=arrays, s=solver: s(*a), one_by_one, repeat=max(1, 200 // count))
            yield row(f"{name} {kind}, {count} states", ours, f"{count} calls", theirs, 1.0)


# --- many states --------------------------------------------------------------------------------------------


def mechanisms():
    """Rows of batches of robots with loops, also in float32 and with wrenches, against the kernel alone."""
    for name, mechanism in (
        ("five-bar", dn.parse_robot(five_bar())),
        ("quadruped", dn.parse_robot(quadruped(), floating_base=True)),
    ):
        for kind in ("inverse", "forward"):
            problem = getattr(dn, f"{kind}_dynamics")(mechanism)
            for precision in ("float64", "float32"):
                yield from _batches(f"{name} {kind}", mechanism, problem, precision)


def trees():
    """The same rows for robots without loops."""
    model = robot("panda")
    yield from _batches("panda inverse", model, dn.inverse_dynamics(model), "float64")


def _batches(name, robot, problem, precision):
    solver = dn.build(robot, problem, backend="c", precision=precision)
    dtype = solver.dtype
    with_f_ext = dn.build(robot, problem, backend="c", precision=precision, f_ext=True)
    q, qd, u = _states(robot, max(MANY))
    f_ext = np.random.default_rng(4).uniform(-1, 1, (max(MANY), robot.nbodies, 6))
    for push in (False, True):
        function = with_f_ext if push else solver
        kernel = BatchKernel(function.program, dtype, robot.quaternion_places)
        for count in MANY:
            arrays = [a[:count].astype(dtype) for a in (q, qd, u)]
            pushed = [f_ext[:count].astype(dtype)] if push else []
            inputs = [*arrays, *pushed, robot.gravity.astype(dtype)]
            ours, alone = together(
                lambda a=arrays, p=pushed, f=function: f(*a, *p),
                lambda i=inputs, k=kernel, n=count: k.quick(n, *i),
            )
            suffix = ", f_ext" * push + ", float32" * (precision == "float32")
            yield row(f"{name}, {count}{suffix}", ours, "kernel", alone, 1.3)
    if precision == "float32":
        double = dn.build(robot, problem, backend="c")
        a, b = [[x[:1024].astype(t) for x in (q, qd, u)] for t in (np.float32, np.float64)]
        ours, theirs = together(lambda: solver(*a), lambda: double(*b))
        yield row(f"{name}, 1024, float32", ours, "float64", theirs, 0.75)


def _states(robot, count):
    if robot.constrained:
        return closed_states(robot, count)
    return random_states(robot, count)


# --- quantities ---------------------------------------------------------------------------------------------


def quantities():
    """Rows of the quantities of the services, compiled and with a payload, against NumPy."""
    model = robot("panda")
    loaded = dn.with_payload(model, TIP, 2.0, (0.0, 0.0, 0.1), 0.01 * np.eye(3))
    q, qd, _ = (a[0] for a in random_states(model, 1))
    cases = {
        "mass_matrix": ({}, (q,)),
        "nonlinear_effects": ({}, (q, qd)),
        "operational_space_inertia_inverse": ({"links": [TIP]}, (q,)),
    }
    for name, (options, state) in cases.items():
        plain = partial(dn.evaluate, loaded, name, *state, backend="numpy", **options)
        function = dn.build(model, name, backend="c", runtime_parameters=("inertia",), **options)
        function = function.with_inertias(loaded)
        ours, theirs = together(lambda f=function, s=state: f(*s), plain, repeat=5)
        yield row(f"panda with payload, {name}", ours, "NumPy", theirs, 0.05)


def main():
    options = harness.arguments("functions").parse_args()
    os.sched_setaffinity(0, {os.cpu_count() - 1})
    parts = (one_state, own_program, few_states, mechanisms, trees, quantities)
    rows = [row for part in parts for row in part()]
    harness.finish("functions", rows, harness.versions("numpy"), options.save)


if __name__ == "__main__":
    main()
