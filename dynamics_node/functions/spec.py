"""The specification of a Function of a robot: what it was built for, and its values for other inertias."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dynamics_node.algorithms import QUANTITIES, isomorphic_inputs, parameter_values, reordered
from dynamics_node.algorithms.pivots import require_watched, weak_coordinates
from dynamics_node.codegen import Runner, WithFallback, make_runner
from dynamics_node.errors import InputError
from dynamics_node.functions.choices import Choice
from dynamics_node.robot import Problem, Robot
from dynamics_node.robot.contacts import ContactRows
from dynamics_node.robot.inertial_parameters import changed_parameters, same_geometry
from dynamics_node.robot.reframe import reframe
from dynamics_node.robot.robot import cached_on_robot
from dynamics_node.symbolic import LaneProgram, Program


@dataclass(frozen=True, eq=False, kw_only=True)
class FunctionSpec:
    """What a Function was built for. Picklable.

    name: of QUANTITIES, with its options; problem: the Problem or SensorProblem, or None; choice: solver,
    ordering and backend as chosen; parameters: inputs of the Program that may change; f_ext: whether external
    wrenches are an input. forward (nv,): coordinates whose accelerations depend on the inverse of the mass
    matrix; regrouped: as in the Program, see algorithms.quantities; nearest: whether calls compute states
    without a result by Gauss' principle.
    """

    robot: Robot
    name: str
    choice: Choice
    forward: tuple[bool, ...]
    options: dict[str, Any] = field(default_factory=dict)
    problem: Any = None
    parameters: tuple[str, ...] = ()
    f_ext: bool = False
    regrouped: bool = True
    nearest: bool = False

    @property
    def contacts(self) -> ContactRows | None:
        """The rows of its contacts, if it has any."""
        own = self.problem.contacts if isinstance(self.problem, Problem) else self.options.get("contacts")
        return ContactRows(own) if own else None

    def runner(self, program: Program | LaneProgram, fallback: Runner | None = None) -> Runner:
        """The Runner of a Program; fallback: for states at which the Program has no result. Raises
        CompileError."""
        runner = make_runner(
            program,
            self.choice.backend,
            parameters=self.inputs(self.robot),
            quaternions=self.robot.quaternion_places,
            reordered=reordered(self.robot, program) if self.choice.backend != "numpy" else None,
            isomorphic_inputs=isomorphic_inputs(self.robot, program),
        )
        return runner if fallback is None else WithFallback(runner, fallback)

    def values(self, robot: Robot) -> dict[str, Any]:
        """{name: array} of the parameters, and the robot itself for algorithms at call time."""
        return {"robot": self._seen(robot), **self.inputs(robot)}

    def inputs(self, robot: Robot) -> dict[str, np.ndarray]:
        """{name: array} of the parameters as the Program reads them."""
        return _parameter_values(self._seen(robot), self.parameters, self.robot, self.regrouped)

    def _seen(self, robot):
        """The robot whose inertias count."""
        row = QUANTITIES.get(self.name)
        return robot if row is None else row.seen(robot, self.options)

    def require_changeable(self, robot: Robot, is_program: bool) -> None:
        """Raise InputError if a robot differs in its geometry or in other parameters, and ModelError if its
        mass matrix may become singular in a way that the Program does not check."""
        built, other = self.robot.tree, robot.tree
        if not same_geometry(other, built) or not robot.constraints == self.robot.constraints:
            raise InputError("the Robot differs in more than inertias, rotor inertias and gravity")
        if constant := changed_parameters(other, built) - set(self.parameters):
            listed = ", ".join(sorted(constant))
            raise InputError(
                f"this function was built with constant {listed}: see `runtime_parameters` of build"
            )
        if is_program and np.any(self.forward):
            checked = weak_coordinates(self.robot, self.forward)
            require_watched(robot, weak_coordinates(robot, self.forward) & ~checked)


@cached_on_robot  # several functions share them
def _parameter_values(robot, parameters, geometry, regrouped):
    return parameter_values(robot, parameters, _frames(geometry), regrouped) if parameters else {}


@cached_on_robot
def _frames(robot):
    """The geometry in the frames of Programs, with the transforms to them: see `reframe`."""
    return reframe(robot.tree)
