"""Every way to solve every problem, against Pinocchio: robots x problems x algorithms x backends.

By the default algorithm every robot has every problem. It is compiled for every problem of robots of up to 7 joints,
and for one problem of each larger one, whose other problems NumPy solves. Robots of up to 7 joints have every problem
in every ordering by NumPy; for two of them each ordering is compiled for one problem, another one for each
(test_orderings.py interprets those of eleven robots). `--all` leaves nothing out.
"""

import numpy as np
import pytest
from robots import ROBOTS, random_states
from tolerances import EXACT, error, solved

import dynamics_node as dn
from dynamics_node.graph import ORDERINGS, SingularPivotError

COMPILED = ("double_pendulum", "ur5")  # in every ordering
SEARCHED = (*COMPILED, "kinova")  # for the best one, which takes seconds: of the last one for one problem
FLAGS_OF_USERS = (
    "solo12",
    "panda_floating",
)  # of larger robots; the others are compiled without optimization
SMALL = ("double_pendulum", "ur5", "so101", "panda7", "xarm7", "kinova")
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
            sum(map(len, row)) % 2 == 0,  # with wrenches and without in turn
            marks=[pytest.mark.optimised] * has_flags_of_users(*row),
        )
        for row in rows
    ]
    metafunc.parametrize("robot, problem, algorithm, backend, pushed", rows, indirect=["robot"])


def is_sampled(robot, problem, algorithm, backend):
    """Every robot with every problem; every ordering with every problem and with both backends."""
    if algorithm == "default":
        return robot in SMALL or (backend == "c") == (problem == compiled_problem(robot))
    if algorithm == "best":
        return robot in COMPILED or (robot in SEARCHED and problem == "forward")
    if backend == "numpy":
        return robot in SMALL
    return robot in COMPILED and problem == turn(list(ORDERINGS).index(algorithm) + COMPILED.index(robot))


def compiled_problem(robot):
    """Of a larger robot."""
    return turn(sum(map(ord, robot)))


def turn(number):
    return PROBLEMS[number % len(PROBLEMS)]


def has_flags_of_users(robot, problem, algorithm, backend):
    """What is compiled by the default algorithm for small robots, for every problem, and for some larger ones."""
    return (algorithm, backend) == ("default", "c") and robot in (*SMALL, *FLAGS_OF_USERS)


@pytest.mark.timeout(600)
def test_every_way_agrees_with_pinocchio(model, oracle, problem, algorithm, backend, pushed):
    q, qd, qdd, f_ext = random_states(model, COUNT, seed=61)
    f_ext = f_ext if pushed else np.zeros_like(f_ext)
    push = (f_ext,) if pushed else ()
    tau = np.array([oracle.inverse(*state) for state in zip(q, qd, qdd, f_ext, strict=True)])
    solver = built(model, problem, algorithm, backend)
    tolerance = solved(np.array([oracle.mass_matrix(x) for x in q]))
    if problem == "inverse":
        found = solver(q, qd, qdd, *push)
        assert error(found, tau).max() <= EXACT
    elif problem == "forward":
        assert np.all(error(solver(q, qd, tau, *push), qdd) <= tolerance)
    else:
        known = np.array(solver.problem.forward)
        found_qdd, found_tau = solver(
            q, qd, np.where(known, np.nan, qdd), np.where(known, tau, np.nan), *push
        )
        assert np.all(error(found_qdd, qdd) <= tolerance) and np.all(error(found_tau, tau) <= tolerance)
    if backend == "c" and problem != "hybrid" and solver.choice.backend == "c":
        known = qdd if problem == "inverse" else tau
        whole = solver(q, qd, known, *push)
        for k in range(COUNT):
            assert error(solver(q[k], qd[k], known[k], *(f_ext[k] for _ in push)), whole[k]) <= EXACT


def built(model, problem, algorithm, backend):
    """The solver; what is skipped is an ordering that the robot does not allow."""
    chosen = {
        "inverse": lambda: dn.inverse_dynamics(model),
        "forward": lambda: dn.forward_dynamics(model),
        "hybrid": lambda: dn.hybrid_dynamics(model, [j.name for j in model.independent_joints[::2]]),
    }[problem]()
    try:
        return dn.build(model, chosen, **ALGORITHMS[algorithm], backend=backend)
    except SingularPivotError:
        pytest.skip(f"{algorithm} cannot be followed for this robot")
