"""The Runner of a robot, with loops or without, at call time."""

from dynamics_node.algorithms.quantities import QUANTITIES
from dynamics_node.graph.gtsam import gtsam_elimination
from dynamics_node.graph.gtsam_sensors import GtsamLeastSquares
from dynamics_node.graph.numeric_elimination import elimination
from dynamics_node.graph.numeric_quantities import NumericQuantity, Recursion
from dynamics_node.graph.numeric_runner import NumericRunner
from dynamics_node.graph.sensor_fusion import SensorLeastSquares
from dynamics_node.graph.watched import Watched
from dynamics_node.robot import Problem, Robot, SensorProblem, state_shapes


def recursion_runner(robot: Robot, problem: Problem, wrenches=False) -> NumericRunner:
    """Of the recursion."""
    return dynamics_runner(Recursion(robot, problem), problem, wrenches)


def elimination_algorithm(robot: Robot, problem: Problem, ordering, backend, parameters=()):
    """Of the factor graph in an ordering; backend numpy or gtsam. Raises as `elimination`."""
    if backend == "gtsam":
        return gtsam_elimination(robot, problem, ordering)
    return elimination(robot, problem, ordering, parameters)


def dynamics_runner(algorithm, problem: Problem, wrenches=False, backend="numpy") -> NumericRunner:
    """Of an algorithm that solves a Problem; its results are NaN where there are none."""
    robot = algorithm.model
    returns = problem.returns(robot)
    own = Watched(algorithm, tuple(problem.forward), returns)
    return NumericRunner(own, problem.reads(robot, wrenches), returns, backend)


def sensor_runner(robot: Robot, problem: SensorProblem, backend, wrenches=False) -> NumericRunner:
    """Of a sensor problem, by numpy or gtsam; its results are NaN where something is not determined."""
    solve = GtsamLeastSquares if backend == "gtsam" else SensorLeastSquares
    returns = problem.returns(robot)
    algorithm = Watched(solve(robot, problem), (False,) * robot.nv, returns)
    return NumericRunner(algorithm, problem.reads(robot), returns, backend)


def quantity_runner(robot: Robot, name, forward, options, wrenches=False) -> NumericRunner:
    """Of a quantity; forward (nv,): as of Watched. Raises as the quantity does."""
    algorithm = NumericQuantity(robot, name, options)
    returns = algorithm.returns
    reads = state_shapes(robot, QUANTITIES[name].reads + ("f_ext",) * wrenches)
    return NumericRunner(Watched(algorithm, tuple(forward), returns), reads, returns)
