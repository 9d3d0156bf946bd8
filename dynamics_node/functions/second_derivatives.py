"""Second derivatives of inverse dynamics by imaginary steps of the first ones, interpreted."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dynamics_node.algorithms.derivative_programs import PAIRS, SECOND, derivative_program, tangent_program
from dynamics_node.codegen import NoFastPath
from dynamics_node.codegen.runner import healthy, taken, without_bad
from dynamics_node.robot import Robot, inverse_dynamics
from dynamics_node.symbolic import interpret

STEP = 1e-30  # imaginary; its square is negligible


@dataclass(frozen=True, eq=False)
class SecondDerivatives(NoFastPath):
    """A Runner of SECOND: imaginary steps in every direction, which lose no digit (Squire and Trapp 1998).

    Differentiating the Program of a robot with 38 joints twice would take 20 s and 1 GB. first: the Program
    of first derivatives; parameters: {name: array} of its last inputs.
    """

    robot: Robot
    first: Any
    parameters: dict
    backend = "numpy"
    program = None

    @property
    def inputs(self):
        """{name: shape} of what a call takes."""
        return taken(self.first, self.parameters)

    @property
    def outputs(self):
        """{name: shape} of what a call gives."""
        return dict.fromkeys(SECOND, (self.robot.nv,) * 3)

    def with_parameters(self, values):
        """A Runner with other values {name: array} of the parameters; others are ignored."""
        return replace(self, parameters={name: values[name] for name in self.parameters})

    def run_checked(self, count, inputs, dtype=np.float64):
        """See Runner."""
        shapes = self.first.inputs
        given = dict(zip(self.inputs, inputs, strict=True)) | self.parameters
        # an axis of directions before those of the state
        given = {name: np.expand_dims(a, -1 - len(shapes[name])) for name, a in given.items()}
        T = interpret(tangent_program(self.robot), q=given["q"][..., 0, :])["tangent"]
        steps = {"q": np.swapaxes(T, -1, -2), "qd": np.eye(self.robot.nv)}
        moved = {
            name: interpret(self.first, **given | {name: given[name] + 1j * STEP * step})
            for name, step in steps.items()
        }
        shape = (count, *self.outputs[SECOND[0]])
        outputs = [
            np.array(np.broadcast_to(np.moveaxis(moved[by][of].imag, -3, -1) / STEP, shape))
            for of, by in PAIRS.values()
        ]
        good = np.ones(count, dtype=bool)
        if limits := self.first.limits:
            good &= healthy(moved["q"]["health"].real[..., 0, :], limits)
        without_bad(outputs, good)
        return outputs, all(np.isfinite(array).all() for array in outputs)


def second_derivatives_runner(robot: Robot, values) -> SecondDerivatives:
    """The Runner of a robot; values: {name: array} of the parameters that may change."""
    first = derivative_program(robot, inverse_dynamics(robot), parameters=tuple(values))
    return SecondDerivatives(robot, first, values)
