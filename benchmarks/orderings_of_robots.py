"""Every named ordering of forward dynamics of eleven robots, compiled: how far it is from ABA.

Beyond the limits of its health compiled code hands a state to NumPy, which refines; where that does not
converge either, there is an error that names the pivot. A row has the worst of all states that are answered,
in a batch and a few at a time.
"""

import runpy
import sys

import harness
import numpy as np

import dynamics_node as dn
from dynamics_node.codegen.c import kernel
from dynamics_node.codegen.runner import finite_states
from dynamics_node.graph import ORDERINGS, Recursion, SingularPivotError

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
    """One of every robot and ordering."""
    for name in ROBOTS:
        model = TESTED["ROBOTS"][name].model()
        q, qd, tau, _ = TESTED["random_states"](model, STATES, seed=61)
        right = Recursion(model, dn.forward_dynamics(model))(q, qd, tau=tau)["qdd"]
        for ordering in ORDERINGS:
            yield _row(name, model, ordering, (q, qd, tau), right)


def _row(name, model, ordering, states, right):
    title = f"{name}, {ordering}"
    options = {"solver": "factor_graph", "ordering": ordering, "backend": "c"}
    try:
        solver = dn.build(model, "forward_dynamics", **options)
    except SingularPivotError as error:
        return harness.Row(title, None, "", "lower", reason=f"declined: {error}")
    answered, error = _judged(solver, states, right)
    few = _judged(solver, [array[:FEW] for array in states], right[:FEW])
    compiled = getattr(solver.runner, "first", solver.runner)  # without what refines
    served = finite_states(compiled.run_checked(STATES, [*states, model.gravity])[0])
    told = f"{STATES} states: {served.sum()} compiled, {(answered & ~served).sum()} refined"
    if not answered.all():
        told += f", {(~answered).sum()} declined: {_why(solver, states, int(np.argmin(answered)))}"
    return harness.Row(title, max(error, few[1]), "", "lower", target=TARGET, reason=told)


def _judged(solver, states, right):
    """Which states are answered, and the largest error of these."""
    found = solver(*states, errors="nan")
    answered = np.isfinite(found).all(axis=1)
    error = np.abs(found - right).max(axis=1) / np.maximum(1e-6, np.abs(right).max(axis=1))
    return answered, float(error[answered].max(initial=0.0))


def _why(solver, states, k):
    """Why a state has no result, in the words of its error."""
    try:
        solver(*(array[k] for array in states))
    except dn.SolutionError as error:
        return str(error)
    raise RuntimeError("a state has a result alone, but none among others")


def main():
    options = harness.arguments("orderings_of_robots").parse_args()
    kernel.QUICK = 0  # one way to compile is enough: nothing is timed
    harness.finish("orderings_of_robots", list(rows()), harness.versions("numpy"), options.save)


if __name__ == "__main__":
    main()
