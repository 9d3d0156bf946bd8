"""The Runner of a robot, with loops or without, at call time."""

from typing import Any

from dynamics_node.loops.mechanism import Mechanism
from dynamics_node.model import Model
from dynamics_node.numeric.elimination import elimination
from dynamics_node.numeric.gtsam import gtsam_elimination
from dynamics_node.numeric.gtsam_measured import GtsamLeastSquares
from dynamics_node.numeric.measured import MeasuredLeastSquares
from dynamics_node.numeric.quantities import NumericQuantity
from dynamics_node.numeric.recursions import Recursion
from dynamics_node.numeric.runner import NumericRunner
from dynamics_node.numeric.watched import ClosedOnly, Watched
from dynamics_node.problem import Measured, Problem, Shapes


def recursion_runner(robot: Model | Mechanism, problem: Problem, wrenches=False) -> NumericRunner | None:
    """Of the recursion; None for a Mechanism, whose recursions are there as Programs only."""
    if isinstance(robot, Mechanism):
        return None
    return dynamics_runner(Recursion(robot, problem), problem, wrenches)


def elimination_algorithm(robot: Model | Mechanism, problem: Problem, ordering, backend, parameters=()):
    """Of the factor graph in an ordering; backend numpy or gtsam. Raises as `elimination`."""
    if backend == "gtsam":
        return gtsam_elimination(robot, problem, ordering)
    return elimination(robot, problem, ordering, () if isinstance(robot, Mechanism) else parameters)


def dynamics_runner(algorithm, problem: Problem, wrenches=False, backend="numpy") -> NumericRunner:
    """Of an algorithm that solves a Problem; its results are NaN where there are none."""
    robot = algorithm.model
    returns = problem.returns(robot)
    own = judged(algorithm, problem.forward, returns)
    return NumericRunner(own, problem.reads(robot, wrenches), returns, backend)


def measured_runner(robot: Model | Mechanism, problem: Measured, backend, wrenches=False) -> NumericRunner:
    """Of a measured problem, by numpy or gtsam; its results are NaN where something is not determined."""
    solve = GtsamLeastSquares if backend == "gtsam" else MeasuredLeastSquares
    algorithm: Any = solve(robot, problem)
    returns = problem.returns(robot)
    if isinstance(robot, Mechanism):
        algorithm = ClosedOnly(algorithm, (False,) * robot.nv, returns)
    return NumericRunner(algorithm, problem.reads(robot), returns, backend)


def quantity_runner(
    robot: Model | Mechanism, name, reads: Shapes, forward, options, wrenches=False
) -> NumericRunner:
    """Of a quantity; reads: {name: shape}; forward (nv,): as of `judged`. Raises as the quantity does."""
    algorithm = NumericQuantity(robot, name, options)
    returns = algorithm.returns
    return NumericRunner(judged(algorithm, forward, returns), reads, returns)


def judged(algorithm, forward, returns):
    """The algorithm where it has results: see watched.py."""
    if isinstance(algorithm.model, Mechanism):
        return ClosedOnly(algorithm, tuple(forward), returns)
    return Watched(algorithm, tuple(forward))
