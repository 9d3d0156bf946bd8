"""Errors of every named ordering of forward dynamics, compiled, against ABA, for eleven robots.

If the health of a state exceeds its limit, the library refines it by NumPy; if that does not converge, it
raises an error that names the pivot. A row has the largest error of all solved states, in a batch and in
small batches.
"""

import runpy
import sys

import harness
import numpy as np

import dynamics_node as dn
from dynamics_node.codegen.c import kernel
from dynamics_node.codegen.runner import finite_states
from dynamics_node.errors import SingularPivotError
from dynamics_node.graph import ORDERINGS

SUPPORT = harness.HERE.parent / "test" / "support"
sys.path.append(str(SUPPORT))
TESTED = runpy.run_path(str(SUPPORT / "robots.py"))
ROBOTS = (
    *("double_pendulum", "ur5", "so101", "kinova", "panda7", "xarm7", "panda"),
    *("panda_floating", "allegro_hand", "solo12", "baxter"),
)
STATES, FEW = 500, 60
TARGET = 1e-9  # of the largest acceleration of a state


def rows():
    """A row for every robot and ordering."""
    for name in ROBOTS:
        model = TESTED["ROBOTS"][name].model()
        q, qd, tau, _ = TESTED["random_states"](model, STATES, seed=61)
        right = dn.evaluate(model, "forward_dynamics", q, qd, tau, backend="numpy")
        for ordering in ORDERINGS:
            yield _row(name, model, ordering, (q, qd, tau), right)


def _row(name, model, ordering, states, right):
    title = f"{name}, {ordering}"
    options = {"solver": "factor_graph", "ordering": ordering, "backend": "c"}
    try:
        solver = dn.build(model, "forward_dynamics", **options)
    except SingularPivotError as error:
        return harness.Row(title, None, "", "lower", reason=f"singular: {error}")
    solved, error = _judged(solver, states, right)
    few = _judged(solver, [array[:FEW] for array in states], right[:FEW])
    compiled = getattr(solver.runner, "first", solver.runner)  # without refinement
    compiled_states = finite_states(compiled.run_checked(STATES, [*states, model.gravity])[0])
    summary = (
        f"{STATES} states: {compiled_states.sum()} compiled, {(solved & ~compiled_states).sum()} refined"
    )
    if not solved.all():
        summary += f", {(~solved).sum()} unsolved: {_error_message(solver, states, int(np.argmin(solved)))}"
    return harness.Row(title, max(error, few[1]), "", "lower", target=TARGET, reason=summary)


def _judged(solver, states, right):
    """A mask of the solved states, and their largest error."""
    qdd = solver(*states, errors="nan")
    solved = np.isfinite(qdd).all(axis=1)
    error = np.abs(qdd - right).max(axis=1) / np.maximum(1e-6, np.abs(right).max(axis=1))
    return solved, float(error[solved].max(initial=0.0))


def _error_message(solver, states, k):
    """The error message of a state without a result."""
    try:
        solver(*(array[k] for array in states))
    except dn.SolutionError as error:
        return str(error)
    raise RuntimeError("a state has a result alone, but none in a batch")


def main():
    options = harness.arguments("orderings_of_robots").parse_args()
    kernel.QUICK = 0  # nothing is timed, so one way to compile is enough
    harness.finish("orderings_of_robots", list(rows()), harness.versions("numpy"), options.save)


if __name__ == "__main__":
    main()
