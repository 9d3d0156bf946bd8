"""Runners of a robot at call time: an algorithm of `by_numpy` or `by_gtsam` behind the members of a
Runner."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dynamics_node.algorithms.quantities import QUANTITIES
from dynamics_node.codegen import NoFastPath
from dynamics_node.graph.by_gtsam import GtsamLeastSquares, gtsam_elimination
from dynamics_node.graph.by_numpy import NumericQuantity, Recursion, Watched, elimination
from dynamics_node.graph.sensor_fusion import SensorLeastSquares
from dynamics_node.robot import Problem, Robot, SensorProblem, Shapes, state_shapes

SAME = ("f_ext", "gravity")  # what algorithms take as the same for all states


@dataclass(frozen=True, eq=False)
class NumericRunner(NoFastPath):
    """A Runner, see codegen. algorithm: of by_numpy or by_gtsam; inputs, outputs: what it reads and returns.
    Its one parameter is 'robot'."""

    algorithm: Any
    inputs: Shapes
    outputs: Shapes
    backend: str = "numpy"
    program = None

    @property
    def description(self):
        """What runs, for people."""
        return self.algorithm.description

    def with_parameters(self, values):
        """A Runner for values['robot'], a robot that differs in inertias or rotor inertias only."""
        return replace(self, algorithm=self.algorithm.with_inertias(values["robot"]))

    def run_checked(self, count, inputs, dtype=np.float64):
        """See Runner; but the states have to be good, and LinAlgError is raised when one has no
        solution."""
        arrays = {
            name: array if name in SAME else np.broadcast_to(array, (count, *shape))
            for (name, shape), array in zip(self.inputs.items(), inputs, strict=True)
        }
        with np.errstate(all="ignore"):  # what is not finite is told by the result
            found = self.algorithm(**arrays)
        outputs = [np.array(found[name]) for name in self.outputs]
        return outputs, all(np.isfinite(array).all() for array in outputs)


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
