"""Forward dynamics of chains by ABIA, JSIIA and CFA: figures 2 and 3 of Yang, Wu and Pan, on this processor.

Time as a function of the number of links (one state), and of the number of states ("groups") with 10 and 200
links. Calls are from Python through `build`, with checks and the outer correction, on one core, by NumPy and
by our recursion in C. The article shows curves for a Tesla K40c; rows compare its rankings of the solvers.

    ./dev bench parallel [--save]; --table: errors in float64 and float32, for docs/explanation/parallel.md
"""

import os
import sys
import time
from pathlib import Path

import harness
import numpy as np
from dynamics import attempt

sys.path.append(str(Path(__file__).resolve().parents[1] / "test" / "support"))

from parallel_robots import chain, states

import dynamics_node as dn
from dynamics_node.algorithms import aba, rnea
from dynamics_node.chains import CFA_ORDERINGS, SOLVERS, forward_dynamics

LINKS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
GROUPS = {10: (1, 10, 100, 1000, 10_000), 200: (1, 10, 100, 1000)}
WAYS_TO_RUN = {  # solver, backend, longest chain
    **{solver: (solver, "numpy", max(LINKS)) for solver in SOLVERS},
    "recursion in C": ("cluster", "c", 256),
}
LEAST_TIME, LEAST_REPEATS, LEAST_SAMPLE = 0.3, 2, 0.005  # s of the measurements of a point, and of one


def least_time(run):
    """The least CPU time of a call in s; short calls are timed in groups."""
    run()
    begin = time.process_time()
    run()
    calls = 1 + int(LEAST_SAMPLE / max(time.process_time() - begin, 1e-6))
    times, spent = [], 0.0
    while spent < LEAST_TIME or len(times) < LEAST_REPEATS:
        begin = time.process_time()
        for _ in range(calls):
            run()
        times.append((time.process_time() - begin) / calls)
        spent += times[-1] * calls
        if spent > 20 * LEAST_TIME:
            break
    return min(times)


def point(solver, q, qd, tau):
    return least_time(lambda: solver(q, qd, tau))


def measured():
    """{(solver, links, groups): s}, and {solver: reason} of absent ones."""
    times, absent = {}, {}
    for way, (solver, backend, longest) in WAYS_TO_RUN.items():
        for n in sorted({*LINKS, *GROUPS}):
            if n > longest or way in absent:
                continue
            model = chain(n)
            built, reason = attempt(
                lambda m=model, s=solver, b=backend: dn.build(m, "forward_dynamics", solver=s, backend=b)
            )
            if built is None:
                absent[way] = reason
                continue
            counts = sorted({*GROUPS.get(n, ()), *([1] if n in LINKS else [])})
            for count in counts:
                q, qd, tau, _ = states(model, count)
                times[way, n, count] = point(built, q, qd, tau)
                print(
                    f"{way}, {n} links, {count} states: {1e3 * times[way, n, count]:.4g} ms",
                    file=sys.stderr,
                )
    return times, absent


def rows(times, absent):
    for (way, n, count), seconds in times.items():
        yield harness.Row(f"{way}, {n} links, {count} states", 1e3 * seconds, "ms", "lower")
    for way, reason in absent.items():
        yield harness.Row(way, None, "ms", "lower", reason=reason)
    yield from orderings(times)
    for solver, error in worst_errors().items():
        name = f"{solver}, 256 links, 30 % prismatic: error against ABA"
        yield harness.Row(name, error, "", "lower", target=1e-10)


def orderings(times):
    """Rows of the article's rankings on a GPU, and whether they hold here."""

    def of(way, n, count=1):
        return 1e3 * times[way, n, count]

    def row(name, value, peer, peer_value, better, unit="ms"):
        holds = value <= peer_value if better == "lower" else value >= peer_value
        verdict = "also here" if holds else "not here"
        return harness.Row(f"said of a GPU: {name}", value, unit, better, peer, peer_value, reason=verdict)

    few, many = LINKS[0], LINKS[-1]
    slowest = max(("jsiia", "abia"), key=lambda way: of(way, few))
    yield row(f"{few} links: CFA is the slowest", of("cfa", few), slowest, of(slowest, few), "higher")
    fastest = min(("jsiia", "abia"), key=lambda way: of(way, many))
    yield row(f"{many} links: CFA is the fastest", of("cfa", many), fastest, of(fastest, many), "lower")
    growth = {way: of(way, many) / of(way, few) for way in SOLVERS}
    least = min(("jsiia", "abia"), key=growth.__getitem__)
    name = f"{few} to {many} links: CFA grows least"
    yield row(name, growth["cfa"], least, growth[least], "lower", "times")
    yield row(
        "10 links, 10000: CFA before ABIA", of("cfa", 10, 10_000), "abia", of("abia", 10, 10_000), "lower"
    )
    yield row(
        "10 links, 10000: JSIIA before ABIA", of("jsiia", 10, 10_000), "abia", of("abia", 10, 10_000), "lower"
    )
    for count in (1, 1000):
        other = min(("jsiia", "abia"), key=lambda way, count=count: of(way, 200, count))
        name = f"200 links, {count}: CFA is the fastest"
        yield row(name, of("cfa", 200, count), other, of(other, 200, count), "lower")
        other = max(("cfa", "abia"), key=lambda way, count=count: of(way, 200, count))
        name = f"200 links, {count}: JSIIA is the slowest"
        yield row(name, of("jsiia", 200, count), other, of(other, 200, count), "higher")


# --- errors -------------------------------------------------------------------------------------------------

TABLE = (*((n, np.float64) for n in (4, 32, 256)), *((n, np.float32) for n in (4, 16, 64)))
SAMPLE = 64  # states; smaller batches have no compiled float32


def worst_errors():
    """{solver: largest relative error} of Functions from `build`, for a few states of a long chain."""
    model = chain(256, 0.3)
    q, qd, tau, _ = states(model, 8)
    exact, relative_errors = aba(model, q, qd, tau)[0], {}
    for solver in SOLVERS:
        qdd = dn.build(model, "forward_dynamics", solver=solver)(q, qd, tau)
        relative_errors[solver] = float((np.abs(qdd - exact).max(axis=1) / np.abs(exact).max(axis=1)).max())
    return relative_errors


def reference(model, q, qd, tau):
    """qdd in extended precision: ABA in float64 with six corrections by the residual of RNEA in 80 bits."""
    q, qd, tau = (array.astype(np.longdouble) for array in (q, qd, tau))
    exact = aba(model, *(array.astype(float) for array in (q, qd, tau)))[0].astype(np.longdouble)
    for _ in range(6):
        rest = tau - rnea(model, q, qd, exact)
        exact += aba(model, q.astype(float), np.zeros(q.shape), rest.astype(float), gravity=np.zeros(3))[0]
    return exact


def errors(n, dtype, sliding):
    """{way: median of the relative errors of SAMPLE states}."""
    model = chain(n, sliding)
    q, qd, tau = (array.astype(dtype) for array in states(model, SAMPLE)[:3])
    exact = reference(model, q, qd, tau)
    relative_errors = {"recursion": by_recursion(model, q, qd, tau)}
    for solver in ("abia", "jsiia"):
        relative_errors[solver.upper()] = forward_dynamics(
            np, model, q, qd, tau, solver=solver, corrections=0
        )
    for corrections in (0, 1):
        for way in CFA_ORDERINGS:
            name = f"CFA {way}" + " corrected" * corrections
            with np.errstate(invalid="ignore"):
                relative_errors[name] = forward_dynamics(
                    np, model, q, qd, tau, corrections=corrections, ordering=way
                )
    return {name: median_error(x, exact) for name, x in relative_errors.items()}


def by_recursion(model, q, qd, tau):
    """qdd in the precision of the arguments: compiled for float32."""
    if q.dtype == np.float64:
        return aba(model, q, qd, tau)[0]
    return dn.build(model, "forward_dynamics", solver="cluster", backend="c", precision="float32")(q, qd, tau)


def median_error(x, exact):
    if x is None:
        return None
    relative_errors = np.abs(x - exact).max(axis=1) / np.maximum(1e-6, np.abs(exact).max(axis=1))
    return float(np.median(relative_errors)) if np.isfinite(relative_errors).all() else np.inf


def print_errors():
    for sliding in (0.0, 0.3):
        columns = None
        for n, dtype in TABLE:
            medians = errors(n, dtype, sliding)
            if columns is None:
                columns = list(medians)
                print(f"\n| links, {100 * sliding:.0f} % prismatic | type | {' | '.join(columns)} |")
                print("|---|---|" + "---|" * len(columns))
            entries = " | ".join("" if x is None else f"{x:.0e}" for x in medians.values())
            print(f"| {n} | {np.dtype(dtype).name} | {entries} |")


def main():
    parser = harness.arguments("parallel")
    parser.add_argument("--table", action="store_true", help="print the table of errors only")
    options = parser.parse_args()
    os.sched_setaffinity(0, {0})
    if options.table:
        print_errors()
        return
    harness.finish("parallel", list(rows(*measured())), harness.versions("numpy"), options.save)


if __name__ == "__main__":
    main()
