"""Every way to solve every problem, against Pinocchio: robots x problems x algorithms x backends.

Robots of up to 7 joints by every algorithm, larger ones by the default, with external wrenches and without in turn.
By NumPy only what no other file has: test_pinocchio solves every problem of every robot, test_graph follows every
ordering for most. The best ordering is one of those named, or found in a small graph: two robots will do. `--all`
leaves nothing out.
"""

from itertools import product

import numpy as np
import pytest
from robots import ROBOTS, random_states
from tolerances import EXACT, error, solved

import dynamics_node as dn
from dynamics_node.graph import ORDERINGS, SingularPivotError
from dynamics_node.solver import ChoiceError

SMALL = ("double_pendulum", "ur5", "so101", "panda7", "xarm7", "kinova")
IN_NO_GRAPH_TEST = ("xarm7", "kinova")
SEARCHED = ("double_pendulum", "panda7")
PROBLEMS = ("inverse", "forward", "hybrid")
ALGORITHMS = {
    "default": {},
    **{name: {"solver": "factor_graph", "ordering": name} for name in (*ORDERINGS, "best")},
}
COUNT = 5


@pytest.fixture
def robot(request):
    """Of the rows below; pytest 7 does not let them stand beside the parameters of the common fixture."""
    return request.param


def pytest_generate_tests(metafunc):
    everything = metafunc.config.getoption("--all")
    rows = []
    for (i, robot), (j, problem), (k, algorithm), backend in product(
        enumerate(ROBOTS), enumerate(PROBLEMS), enumerate(ALGORITHMS), ("numpy", "c")
    ):
        if everything or is_tried(robot, algorithm, backend):
            rows.append((robot, problem, algorithm, backend, (i + j + k) % 2 == 0))
    metafunc.parametrize("robot, problem, algorithm, backend, wrenches", rows, indirect=["robot"])


def is_tried(robot, algorithm, backend):
    if backend == "numpy":
        return robot in IN_NO_GRAPH_TEST and algorithm != "default"
    if algorithm == "best":
        return robot in SEARCHED
    return robot in SMALL or algorithm == "default"


@pytest.mark.timeout(600)
def test_every_way_agrees_with_pinocchio(model, oracle, problem, algorithm, backend, wrenches):
    q, qd, qdd, f_ext = random_states(model, COUNT, seed=61)
    pushes = f_ext if wrenches else [None] * COUNT
    f_ext = f_ext if wrenches else None
    tau = np.array([oracle.inverse(*state) for state in zip(q, qd, qdd, pushes, strict=True)])
    solver = built(model, problem, algorithm, backend)
    tolerance = solved(np.array([oracle.mass_matrix(x) for x in q]))
    if problem == "inverse":
        found = solver(q, qd, qdd, f_ext)
        assert error(found, tau).max() <= EXACT
    elif problem == "forward":
        assert np.all(error(solver(q, qd, tau, f_ext), qdd) <= tolerance)
    else:
        known = np.array(solver.problem.forward)
        found_qdd, found_tau = solver(
            q, qd, np.where(known, np.nan, qdd), np.where(known, tau, np.nan), f_ext
        )
        assert np.all(error(found_qdd, qdd) <= tolerance) and np.all(error(found_tau, tau) <= tolerance)
    if backend == "c" and problem != "hybrid" and solver.choice.backend == "c":
        known = qdd if problem == "inverse" else tau
        whole = solver(q, qd, known, f_ext)
        for k in range(COUNT):
            assert error(solver(q[k], qd[k], known[k], pushes[k]), whole[k]) <= EXACT


def built(model, problem, algorithm, backend):
    """The solver; where the ordering is no straight line, backend c says so and auto takes numpy."""
    chosen = {
        "inverse": lambda: dn.inverse_dynamics(model),
        "forward": lambda: dn.forward_dynamics(model),
        "hybrid": lambda: dn.hybrid_dynamics(model, [j.name for j in model.independent_joints[::2]]),
    }[problem]()
    try:
        return dn.build(model, chosen, **ALGORITHMS[algorithm], backend=backend)
    except ChoiceError as reason:
        assert backend == "c" and "checks pivots of this robot at run time" in str(reason)
        solver = dn.build(model, chosen, **ALGORITHMS[algorithm])
        assert solver.choice.backend == "numpy"
        return solver
    except SingularPivotError:
        pytest.skip(f"{algorithm} cannot be followed for this robot")
