"""Runners of a robot at call time: an algorithm of `by_numpy` or `by_gtsam` behind the members of a
Runner."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dynamics_node.codegen import NoFastPath
from dynamics_node.graph.by_gtsam import GtsamLeastSquares
from dynamics_node.graph.by_numpy import Checked
from dynamics_node.graph.sensor_fusion import SensorLeastSquares
from dynamics_node.robot import Problem, Robot, SensorProblem, Shapes

SAME = ("f_ext", "gravity")  # inputs shared by all states


@dataclass(frozen=True, eq=False)
class NumericRunner(NoFastPath):
    """A Runner, see codegen. algorithm: of by_numpy or by_gtsam; inputs, outputs: names and shapes of its
    arrays. Its one parameter is 'robot'."""

    algorithm: Any
    inputs: Shapes
    outputs: Shapes
    backend: str = "numpy"
    program = None

    @property
    def description(self):
        """A readable name of the algorithm."""
        return self.algorithm.description

    def with_parameters(self, values):
        """A Runner for values['robot'], a robot that differs in inertias or rotor inertias only."""
        return replace(self, algorithm=self.algorithm.with_inertias(values["robot"]))

    def run_checked(self, count, inputs, dtype=np.float64):
        """See Runner. All states have to be good: raises LinAlgError if one has no solution."""
        arrays = {
            name: array if name in SAME else np.broadcast_to(array, (count, *shape))
            for (name, shape), array in zip(self.inputs.items(), inputs, strict=True)
        }
        with np.errstate(all="ignore"):  # the result shows non-finite values
            results = self.algorithm(**arrays)
        outputs = [np.array(results[name]) for name in self.outputs]
        return outputs, all(np.isfinite(array).all() for array in outputs)


def dynamics_runner(algorithm, problem: Problem, wrenches=False, backend="numpy") -> NumericRunner:
    """The Runner of an algorithm for a Problem; NaN for states without a result."""
    robot = algorithm.robot
    returns = problem.returns(robot)
    own = Checked(algorithm, tuple(problem.forward), returns)
    return NumericRunner(own, problem.reads(robot, wrenches), returns, backend)


def sensor_runner(robot: Robot, problem: SensorProblem, backend) -> NumericRunner:
    """The Runner of a sensor problem, by numpy or gtsam; NaN if the sensors do not determine a state."""
    solve = GtsamLeastSquares if backend == "gtsam" else SensorLeastSquares
    returns = problem.returns(robot)
    algorithm = Checked(solve(robot, problem), (False,) * robot.nv, returns)
    return NumericRunner(algorithm, problem.reads(robot), returns, backend)
