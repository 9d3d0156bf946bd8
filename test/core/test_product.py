"""Every combination of robot, problem, algorithm and backend against Pinocchio.

The default sample has every problem of every robot by the default algorithm: compiled for robots of up to 7 joints, and
for one problem of each larger robot; NumPy solves its other problems. Robots of up to 7 joints have every ordering by
NumPy, two of them every ordering compiled for one problem, and one the best ordering. test_orderings.py interprets
more. `--all` has the whole product.
"""

import numpy as np
import pytest
from robots import ROBOTS, random_states
from tolerances import EXACT, error, solved

import dynamics_node as dn
from dynamics_node.errors import SingularPivotError
from dynamics_node.graph import ORDERINGS

COMPILED = ("double_pendulum", "ur5")  # in every ordering
SEARCHED = "double_pendulum"  # for the best ordering, which takes seconds
OPTIMIZED = ("ur5", "panda7", "solo12", "panda_floating")  # the others are compiled without optimization
SMALL = ("double_pendulum", "ur5", "so101", "panda7", "xarm7", "kinova")
PROBLEMS = ("inverse", "forward", "hybrid")
ALGORITHMS = {
    "default": {},
    **{name: {"solver": "factor_graph", "ordering": name} for name in (*ORDERINGS, "best")},
}
COUNT = 5


@pytest.fixture
def robot(request):
    """The robot of a row below; it replaces the parameters of the common fixture for pytest 7."""
    return request.param


def pytest_generate_tests(metafunc):
    everything = metafunc.config.getoption("--all")
    rows = [
        (robot, problem, algorithm, backend)
        for robot in ROBOTS
        for problem in PROBLEMS
        for algorithm in ALGORITHMS
        for backend in ("numpy", "c")
        if everything or is_sampled(robot, problem, algorithm, backend)
    ]
    rows = [
        pytest.param(
            *row,
            sum(map(len, row)) % 2 == 0,  # alternately with and without wrenches
            marks=[pytest.mark.optimized] * is_optimized(*row),
        )
        for row in rows
    ]
    metafunc.parametrize("robot, problem, algorithm, backend, pushed", rows, indirect=["robot"])


def is_sampled(robot, problem, algorithm, backend):
    """True for rows of the default sample."""
    if algorithm == "default":
        return robot in SMALL or (backend == "c") == (problem == compiled_problem(robot))
    if algorithm == "best":
        return robot == SEARCHED
    if backend == "numpy":
        return robot in SMALL
    return robot in COMPILED and problem == rotating_problem(
        list(ORDERINGS).index(algorithm) + COMPILED.index(robot)
    )


def compiled_problem(robot):
    """The compiled problem of a larger robot."""
    return rotating_problem(sum(map(ord, robot)))


def rotating_problem(number):
    return PROBLEMS[number % len(PROBLEMS)]


def is_optimized(robot, problem, algorithm, backend):
    """True for compiled rows of the default algorithm of some robots."""
    return (algorithm, backend) == ("default", "c") and robot in OPTIMIZED


@pytest.mark.timeout(600)
def test_solver_agrees_with_pinocchio(model, oracle, problem, algorithm, backend, pushed):
    q, qd, qdd, f_ext = random_states(model, COUNT, seed=61)
    f_ext = f_ext if pushed else np.zeros_like(f_ext)
    push = (f_ext,) if pushed else ()
    tau = np.array([oracle.inverse(*state) for state in zip(q, qd, qdd, f_ext, strict=True)])
    solver = built(model, problem, algorithm, backend)
    tolerance = solved(np.array([oracle.mass_matrix(x) for x in q]))
    if problem == "inverse":
        tau_by_solver = solver(q, qd, qdd, *push)
        assert error(tau_by_solver, tau).max() <= EXACT
    elif problem == "forward":
        assert np.all(error(solver(q, qd, tau, *push), qdd) <= tolerance)
    else:
        known = np.array(solver.problem.forward)
        qdd_by_solver, tau_by_solver = solver(
            q, qd, np.where(known, np.nan, qdd), np.where(known, tau, np.nan), *push
        )
        assert np.all(error(qdd_by_solver, qdd) <= tolerance)
        assert np.all(error(tau_by_solver, tau) <= tolerance)
    if backend == "c" and problem != "hybrid" and solver.choice.backend == "c":
        known = qdd if problem == "inverse" else tau
        whole = solver(q, qd, known, *push)
        for k in range(COUNT):
            assert error(solver(q[k], qd[k], known[k], *(f_ext[k] for _ in push)), whole[k]) <= EXACT


def built(model, problem, algorithm, backend):
    """The solver, or a skip if the ordering is infeasible for the robot."""
    chosen = {
        "inverse": lambda: dn.inverse_dynamics(model),
        "forward": lambda: dn.forward_dynamics(model),
        "hybrid": lambda: dn.hybrid_dynamics(model, [j.name for j in model.independent_joints[::2]]),
    }[problem]()
    try:
        return dn.build(model, chosen, **ALGORITHMS[algorithm], backend=backend, f_ext=True)
    except SingularPivotError:
        pytest.skip(f"{algorithm} is infeasible for this robot")
