"""Rollouts of forward dynamics: many states along many steps, for planners that sample."""

from math import prod

import numpy as np

from dynamics_node.algorithms import cheapest, dynamics_programs
from dynamics_node.algorithms.integrators import INTEGRATORS, integrator_of
from dynamics_node.algorithms.results import Rollout
from dynamics_node.chains import SOLVERS as PARALLEL
from dynamics_node.codegen import ArrayError, Rollouts, new_array, on_device
from dynamics_node.errors import ChoiceError, InputError
from dynamics_node.functions.checks import (
    positive,
    require_finite,
    require_unit_quaternions,
    same_batch,
    shaped,
)
from dynamics_node.functions.choices import require_known
from dynamics_node.symbolic import LaneProgram, Program


def roll_out(function, q0, qd0, tau, dt, integrator) -> Rollout:
    """See RobotFunction.rollout."""
    rollouts = _rollouts(function, integrator)
    dt = positive("dt", dt, "seconds")
    robot = function.robot
    same = {"dt": np.array(dt), **function.defaults, **function.spec.inputs(robot)}
    if any(map(on_device, (q0, qd0, tau))):
        try:
            return Rollout(*rollouts.on_device(q0, qd0, tau, same))
        except ArrayError as error:
            raise InputError(str(error)) from None
    given, batch = _checked(function, {"q0": q0, "qd0": qd0, "tau": tau})
    steps, count = given["tau"].shape[-2], prod(batch)
    controls = np.broadcast_to(given["tau"], (*batch, steps, robot.nv)).reshape(count, steps, robot.nv)
    states = []
    for name, size in (("q0", robot.nq), ("qd0", robot.nv)):
        states.append(new_array((count, steps + 1, size), function.dtype))
        states[-1][:, 0] = np.broadcast_to(given[name], (*batch, size)).reshape(count, size)
    rollouts(np.ascontiguousarray(controls), same, *states)
    if not np.isfinite(states[1][:, -1]).all():  # else all torques are finite
        require_finite("tau", given["tau"], function.signature.inputs["tau"], steps=True)
    return Rollout(*(array.reshape(*batch, *array.shape[1:]) for array in states))


def _checked(function, values):
    """The arrays, and the leading axes of the batch; torques may still be not finite. Raises InputError."""
    axes = {"q0": function.signature.inputs["q"], "qd0": function.signature.inputs["qd"]}
    axes["tau"] = function.signature.inputs["tau"]
    arrays = {name: shaped(name, value, axes[name], function.dtype) for name, value in values.items()}
    if arrays["tau"].ndim < 2:
        rows = f"(..., steps, {function.robot.nv}), a row for every step"
        raise InputError(f"tau must have shape {rows}, not {arrays['tau'].shape}")
    for name in ("q0", "qd0"):
        require_finite(name, arrays[name], axes[name])
    for _, start, joint in function.signature.quaternions:
        require_unit_quaternions(joint, arrays["q0"][..., start : start + 4])
    return arrays, same_batch({name: (array, 1 + (name == "tau")) for name, array in arrays.items()})


def _rollouts(function, integrator) -> Rollouts:
    """Made on first use, and shared with the results of `with_inertias`. Raises ChoiceError, DeviceError."""
    require_known("integrator", integrator, INTEGRATORS)
    if integrator not in function._rollouts:
        program, stages = integrator_of(function.robot, _forward_program(function), integrator)
        backend = "cuda" if function.spec.choice.backend == "cuda" else function.runner.backend
        places = function.robot.quaternion_places
        function._rollouts[integrator] = Rollouts(program, stages, backend, places)
    return function._rollouts[integrator]


def _forward_program(function):
    """The Program of a function; where it runs none, that of the cheapest recursion."""
    if function.choice.solver in PARALLEL:
        raise ChoiceError(f"solver {function.choice.solver!r} has no rollouts: leave solver at 'best'")
    if isinstance(function.program, Program | LaneProgram):
        return function.program
    return cheapest(dynamics_programs(function.robot, function.problem, parameters=function.spec.parameters))[
        1
    ]
