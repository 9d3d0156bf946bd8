"""Rollouts of forward dynamics: many states along many steps, for planners that sample."""

from collections.abc import Iterable
from math import prod

import numpy as np

from dynamics_node.algorithms import cheapest, dynamics_programs
from dynamics_node.algorithms.contact_step import contact_step
from dynamics_node.algorithms.ground import height_of
from dynamics_node.algorithms.integrators import INTEGRATORS, integrator_of
from dynamics_node.algorithms.results import ContactRollout, Rollout
from dynamics_node.chains import SOLVERS as PARALLEL
from dynamics_node.codegen import ArrayError, ContactRollouts, LoopPlaces, Rollouts, new_array, on_device
from dynamics_node.errors import ChoiceError, InputError
from dynamics_node.functions.checks import (
    positive,
    require_finite,
    require_unit_quaternions,
    same_batch,
    shaped,
)
from dynamics_node.functions.choices import require_known
from dynamics_node.functions.pd_gains import gains_of, loops_of
from dynamics_node.robot.contacts import Ground, Plane, Terrain, valid_contacts
from dynamics_node.symbolic import LaneProgram, Program
from dynamics_node.text import one_line

CONTROLS = ("controls", "feedforward")
NO_LOOPS = LoopPlaces((), ())


def roll_out(function, q0, qd0, controls, dt, integrator) -> Rollout:
    """See RobotFunction.rollout."""
    rollouts = _rollouts(function, integrator)
    dt = positive("dt", dt, "seconds")
    same = {"dt": np.array(dt), **function.defaults, **function.spec.inputs(function.robot)}
    if any(map(on_device, (q0, qd0, controls))):
        try:
            return Rollout(*rollouts.on_device(q0, qd0, controls, same))
        except ArrayError as error:
            raise InputError(str(error)) from None
    axes = _axes(function)
    given, batch = _checked(function, {"q0": q0, "qd0": qd0, "controls": controls}, axes)
    torques, states = _laid_out(function, given, batch)
    rollouts(torques, same, *states)
    _require_controls(axes, given, states)
    return Rollout(*(array.reshape(*batch, *array.shape[1:]) for array in states))


def roll_out_with_contacts(
    function, q0, qd0, controls, dt, contacts, ground, friction, limits, sweeps, pd=None, feedforward=None
):
    """See RobotFunction.rollout: a ContactRollout."""
    dt, sweeps = positive("dt", dt, "seconds"), _whole("sweeps", sweeps)
    for name, value in (("friction", friction), ("limits", limits)):
        if not isinstance(value, bool | np.bool_):
            raise InputError(f"{name} must be True or False, not {value!r}")
    gains = () if pd is None else gains_of(function.robot, pd, dt)
    loops = NO_LOOPS if pd is None else loops_of(function.robot)
    rollouts = _contact_rollouts(function, contacts, ground, bool(friction), bool(limits), loops)
    same = {"dt": np.array(dt), "gravity": function.defaults["gravity"]}
    values = {"q0": q0, "qd0": qd0, "controls": controls}
    if any(map(on_device, (q0, qd0, controls, feedforward))):
        every = [controls] if feedforward is None else [controls, feedforward]
        try:
            return ContactRollout(*rollouts.on_device(q0, qd0, every, gains, same, sweeps))
        except ArrayError as error:
            raise InputError(str(error)) from None
    if feedforward is not None:
        values["feedforward"] = feedforward
    axes = _axes(function, targets=pd is not None)
    given, batch = _checked(function, values, axes)
    laid_out, states = _laid_out(function, given, batch)
    count, steps = laid_out.shape[:2]
    force = new_array((count, steps, 3 * rollouts.touches), function.dtype)
    residual = new_array((count, steps), function.dtype)
    rollouts(laid_out, gains, same, sweeps, states[0], states[1], force, residual)
    _require_controls(axes, given, states)
    arrays = (*states, force, residual)
    return ContactRollout(*(array.reshape(*batch, *array.shape[1:]) for array in arrays))


def _laid_out(function, given, batch):
    """Controls (count, steps, width), and arrays of the states, whose first step is the start."""
    robot, count = function.robot, prod(batch)
    parts = []
    for array in (given[name] for name in CONTROLS if name in given):
        tail = array.shape[-2:]
        parts.append(np.broadcast_to(array, (*batch, *tail)).reshape(count, *tail))
    controls, steps = np.concatenate(parts, axis=2) if len(parts) > 1 else parts[0], parts[0].shape[1]
    states = []
    for name, size in (("q0", robot.nq), ("qd0", robot.nv)):
        states.append(new_array((count, steps + 1, size), function.dtype))
        states[-1][:, 0] = np.broadcast_to(given[name], (*batch, size)).reshape(count, size)
    return np.ascontiguousarray(controls), states


def _require_controls(axes, given, states):
    """Raise InputError if a control is not finite."""
    if not np.isfinite(states[1][:, -1]).all():  # else all controls are finite
        for name in CONTROLS:
            if name in given:
                require_finite(name, given[name], axes[name], steps=True)


def _whole(name, value):
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError(f"{name} must be a whole number of at least 1, not {value!r}")
    return int(value)


def _contact_rollouts(function, contacts, ground, friction, limits, loops) -> ContactRollouts:
    """Made on first use. Raises ChoiceError, ContactError."""
    if function.spec.parameters or function.spec.f_ext:
        raise ChoiceError(
            "rollouts with contacts or PD loops have no runtime parameters and no external wrenches"
        )
    contacts, surfaces = valid_contacts(function.robot, contacts, balls=True), _surfaces(ground)
    if others := [contact.name for contact in contacts if contact.kind != "point" or contact.other]:
        raise ChoiceError(f"rollouts have points against the ground alone, not {', '.join(others)}")
    # two functions of the same height share a step: a caller may make its function anew in every call
    shapes = tuple(
        height_of(surface).value.digest() if isinstance(surface, Terrain) else None for surface in surfaces
    )
    numbers = tuple(
        (surface.friction, surface.restitution) if isinstance(surface, Terrain) else surface
        for surface in surfaces
    )
    key = (contacts, shapes, numbers, friction, limits, loops)
    if key not in function._rollouts:
        step = contact_step(function.robot, contacts, surfaces, friction, limits, loops.v)
        backend = "cuda" if function.spec.choice.backend == "cuda" else function.runner.backend
        function._rollouts[key] = ContactRollouts(step.parts, step.rows, loops, backend)
    return function._rollouts[key]


def _surfaces(ground: Ground | Iterable[Ground]) -> tuple[Plane | Terrain, ...]:
    """Raises TypeError for what is no ground."""
    surfaces = []
    for given in ground if isinstance(ground, Iterable) else (ground,):
        surface = Terrain(given) if callable(given) else given
        if not isinstance(surface, Plane | Terrain):
            kinds = "a Plane, a Terrain, a function of x and y, or a sequence of them"
            raise TypeError(f"ground must be {kinds}, not {one_line(surface, 60)}")
        surfaces.append(surface)
    return tuple(surfaces)


def _axes(function, targets=False):
    """The axes of every array, see `shaped`; targets: whether controls are those of PD loops."""
    read, joints = function.signature.inputs, function.robot.joint_names
    controls = ((len(joints),), joints) if targets else read["tau"]
    return {"q0": read["q"], "qd0": read["qd"], "controls": controls, "feedforward": read["tau"]}


def _checked(function, values, axes):
    """The arrays, and the leading axes of the batch; controls may still be not finite. Raises InputError."""
    arrays = {name: shaped(name, value, axes[name], function.dtype) for name, value in values.items()}
    lengths = {}
    for name in CONTROLS:
        if name in arrays:
            if arrays[name].ndim < 2:
                rows = f"(..., steps, {axes[name][0][0]}), a row for every step"
                raise InputError(f"{name} must have shape {rows}, not {arrays[name].shape}")
            lengths[name] = arrays[name].shape[-2]
    if len(set(lengths.values())) > 1:
        raise InputError(f"controls and feedforward must have equally many steps, not {lengths}")
    for name in ("q0", "qd0"):
        require_finite(name, arrays[name], axes[name])
    for _, start, joint in function.signature.quaternions:
        require_unit_quaternions(joint, arrays["q0"][..., start : start + 4])
    return arrays, same_batch({name: (array, 1 + (name in CONTROLS)) for name, array in arrays.items()})


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
