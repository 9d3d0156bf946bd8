"""Runners of a robot at call time: an algorithm of `by_numpy` or `by_gtsam` behind the members of a
Runner."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dynamics_node.algorithms.health import HEALTHY, health_program
from dynamics_node.algorithms.pivots import singular, weak_coordinates
from dynamics_node.codegen import NoFastPath
from dynamics_node.graph.by_gtsam import GtsamLeastSquares
from dynamics_node.graph.sensor_fusion import SensorLeastSquares
from dynamics_node.robot import Problem, Robot, SensorProblem, Shapes
from dynamics_node.symbolic import interpret

SAME = ("f_ext", "gravity")  # inputs shared by all states


@dataclass(frozen=True, eq=False)
class NumericRunner(NoFastPath):
    """A Runner, see codegen. Results are NaN at positions at which loops are open or singular, or at which a
    pivot of the mass matrix vanishes, for the coordinates where `forward` is true.

    algorithm: of by_numpy or by_gtsam, is called at good positions only; forward (nv,): where torques are
    known and accelerations unknown; inputs, outputs: names and shapes of its arrays. Its one parameter is
    'robot'."""

    algorithm: Any
    forward: tuple[bool, ...]
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
        return replace(self, algorithm=replace(self.algorithm, robot=values["robot"]))

    def run_checked(self, count, inputs, dtype=np.float64):
        """See Runner. All states have to be good: raises LinAlgError if one has no solution."""
        arrays = {
            name: array if name in SAME else np.broadcast_to(array, (count, *shape))
            for (name, shape), array in zip(self.inputs.items(), inputs, strict=True)
        }
        with np.errstate(all="ignore"):  # the result shows non-finite values
            good = self._is_good(arrays["q"])
            if not good.all():
                arrays = {
                    name: np.broadcast_to(array, (count, *self.inputs[name]))[good]
                    for name, array in arrays.items()
                }
            results = self.algorithm(**arrays) if good.any() else {}
        outputs = [np.full((count, *shape), np.nan) for shape in self.outputs.values()]
        for name, output in zip(self.outputs, outputs, strict=True):
            output[good] = results.get(name, np.nan)
        return outputs, all(np.isfinite(array).all() for array in outputs)

    def _is_good(self, q):
        """Mask (count,) of the positions q (count, nq)."""
        robot, good = self.algorithm.robot, np.ones(len(q), dtype=bool)
        if robot.constrained:
            good &= (interpret(health_program(robot), q=q)["health"] <= HEALTHY).all(axis=-1)
        if self._near_singular.any():
            forward = np.array(self.forward, dtype=bool)
            good &= ~singular(robot, q, forward, self._near_singular).any(axis=-1)
        return good

    @cached_property
    def _near_singular(self):
        return weak_coordinates(self.algorithm.robot, self.forward)


def dynamics_runner(algorithm, problem: Problem, wrenches=False, backend="numpy") -> NumericRunner:
    """The Runner of an algorithm for a Problem; NaN for states without a result."""
    robot = algorithm.robot
    reads, returns = problem.reads(robot, wrenches), problem.returns(robot)
    return NumericRunner(algorithm, tuple(problem.forward), reads, returns, backend)


def sensor_runner(robot: Robot, problem: SensorProblem, backend) -> NumericRunner:
    """The Runner of a sensor problem, by numpy or gtsam; NaN if the sensors do not determine a state."""
    solve = GtsamLeastSquares if backend == "gtsam" else SensorLeastSquares
    reads, returns = problem.reads(robot), problem.returns(robot)
    return NumericRunner(solve(robot, problem), (False,) * robot.nv, reads, returns, backend)
