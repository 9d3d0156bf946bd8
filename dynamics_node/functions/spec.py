"""The specification of a robot's Function: how to make its Runners, also for other inertias."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from dynamics_node.algorithms import isomorphic_inputs, parameter_values, reordered
from dynamics_node.algorithms.pivots import require_watched, weak_coordinates
from dynamics_node.codegen import Runner, WithFallback, make_runner
from dynamics_node.errors import InputError
from dynamics_node.functions.choices import Choice
from dynamics_node.robot import Problem, Robot, SensorProblem
from dynamics_node.robot.inertial_parameters import changed_parameters, same_geometry
from dynamics_node.robot.reframe import reframe
from dynamics_node.robot.robot import cached_on_robot


@dataclass(frozen=True, eq=False, kw_only=True)
class Spec:
    """name: of QUANTITIES, with its options; problem: the solved one, or None; choice: solver, ordering and
    backend as chosen. Picklable: Runners with external wrenches can be made later, also in another process.

    write(wrenches): the Program; None for an algorithm at call time. numeric(wrenches): the Runner at call
    time, None if there is none. It computes without a Program and, if it `refines`, at states that the
    Program cannot solve. parameters: inputs of the Program that may change; forward (nv,): coordinates whose
    accelerations depend on the inverse of the mass matrix. view(robot): the robot whose inertias count, if
    not the whole one; regrouped: as in the Program: see algorithms.quantities. nearest: whether calls
    compute states without a result by Gauss' principle.
    """

    robot: Robot
    name: str
    choice: Choice
    forward: tuple[bool, ...]
    options: dict = field(default_factory=dict)
    problem: Problem | SensorProblem | None = None
    write: Callable | None = None
    numeric: Callable | None = None
    parameters: tuple[str, ...] = ()
    refines: bool = False
    view: Callable | None = None
    regrouped: bool = True
    nearest: bool = False

    def runner(self, wrenches=False, program=None) -> Runner:
        """program: that of `write`, if available. Raises CompileError."""
        numeric: Runner | None = None if self.numeric is None else self.numeric(wrenches=wrenches)
        if self.write is None:
            assert numeric is not None
            return numeric
        program = self.write(wrenches=wrenches) if program is None else program
        backend = self.choice.backend
        runner = make_runner(
            program,
            backend,
            {name: values for name, values in self.values(self.robot).items() if name in self.parameters},
            self.robot.quaternion_places,
            reordered(self.robot, program) if backend != "numpy" else None,
            isomorphic_inputs(self.robot, program),
        )
        return WithFallback(runner, numeric) if self.refines else runner

    def values(self, robot):
        """{name: array} of the parameters, and the robot itself for algorithms at call time."""
        seen = robot if self.view is None else self.view(robot)
        if not self.parameters:
            return {"robot": seen}
        return {"robot": seen, **self.inputs(robot)}

    def inputs(self, robot):
        """{name: array} of the parameters as the Program reads them."""
        robot = robot if self.view is None else self.view(robot)
        return _parameter_values(robot, self.parameters, self.robot, self.regrouped)

    def require_changeable(self, robot):
        """Raise ValueError if a robot differs in its geometry or in other parameters, and ModelError if its
        mass matrix may become singular in a way that the Program does not check."""
        own, other = self.robot.tree, robot.tree
        if not same_geometry(other, own) or not robot.constraints == self.robot.constraints:
            raise InputError("the Robot differs in more than inertias, rotor inertias and gravity")
        if constant := changed_parameters(other, own) - set(self.parameters):
            listed = ", ".join(sorted(constant))
            raise InputError(
                f"this function was built with constant {listed}: see `runtime_parameters` of build"
            )
        if self.write is not None and np.any(self.forward):
            require_watched(robot, weak_coordinates(robot, self.forward) & ~self._watched)

    @cached_property
    def _watched(self):
        return weak_coordinates(self.robot, self.forward)


def _reordered(robot, rivals, wrenches):
    """See backends.make_runner."""
    written = rivals(wrenches=wrenches)
    return {name: (program, reordered(robot, program)) for name, program in written.items()}


@cached_on_robot
def _parameter_values(robot, parameters, geometry, regrouped):
    return parameter_values(robot, parameters, _frames(geometry), regrouped)


@cached_on_robot
def _frames(robot):
    """The geometry in the frames of Programs, with the transforms to them: see `reframe`."""
    return reframe(robot.tree)
