"""Functions -> files for other systems: `Function.export`, `dynamics export`."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from dynamics_node.algorithms.first_positions import first_closed
from dynamics_node.algorithms.quantities import QUANTITIES, quantity_program
from dynamics_node.algorithms.rates import tangent
from dynamics_node.algorithms.regressors import inertial_parameters, inertias_of_parameters
from dynamics_node.codegen.export import (
    DOUBLE,
    DTYPES,
    MANY,
    TARGETS,
    WITH_CASADI,
    Argument,
    Entry,
    RobotFacts,
    Target,
    identifier,
    identifiers,
    plain,
    write,
)
from dynamics_node.codegen.runner import healthy, limits_in
from dynamics_node.errors import ChoiceError
from dynamics_node.functions.configuration import random_configuration
from dynamics_node.robot.inertial_parameters import PARAMETERS, with_parameters
from dynamics_node.symbolic import (
    LaneProgram,
    Program,
    derivative_name,
    flattened,
    interpret,
    jacobian,
    trace,
)
from dynamics_node.symbolic.program import HEALTH
from dynamics_node.text import similar
from dynamics_node.version import __version__

STATES = 100  # of the test program
DRAWN = 4 * STATES  # some of which may be singular
SEED = 5
ORDERS = (0, 1, 2)  # of derivatives
_TEXTS = {
    "qd": "velocities",
    "qdd": "accelerations",
    "tau": "torques and forces of the joints",
    "active": "1 where a contact is active, else 0",
    "contact_accelerations": "accelerations of active contacts along their rows",
    "restitution": "part of the velocity along the normal at which a contact moves back",
    "contact_forces": "forces of contacts on the links, in the axes of the contacts, N m and N",
    "contact_impulses": "impulses of contacts on the links, in the axes of the contacts, N m s and N s",
    "gravity": "acceleration of free fall in root axes, m/s^2",
    "inertia": "row by row m, mx, my, mz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz of a body: kg, kg m, and kg m^2 about "
    "the origin of its link, in the axes of the link",
    "armature": "rotor inertias, kg m^2 or kg",
}
_UNITS = {
    "qd": ("rad/s", "m/s"),
    "qdd": ("rad/s^2", "m/s^2"),
    "tau": ("N m", "N"),
}


@dataclass(frozen=True)
class Options:
    """precision: float64 or float32, None as the Function; order: of derivatives; libm: whether sine, cosine
    come from <math.h>."""

    precision: str | None
    order: int
    libm: bool


def export_functions(
    functions: Sequence,
    folder: str | Path,
    target: Target = "c",
    *,
    name: str | None = None,
    precision: str | None = None,
    derivatives: bool = False,
    second_derivatives: bool = False,
    libm: bool = True,
    undifferentiated: Sequence = (),
) -> list[Path]:
    """Write the files of some Functions of one robot into one folder; see Function.export. undifferentiated:
    Functions whose derivatives nobody wants."""
    if target not in TARGETS:
        raise ChoiceError(f"unknown target {target!r}; {similar(target, TARGETS)}")
    if precision not in (None, *DTYPES):
        raise ChoiceError(f"unknown precision {precision!r}; there are {', '.join(DTYPES)}")
    order = 2 if second_derivatives else int(derivatives)
    options = Options(precision, order, libm)
    exported = (*functions, *undifferentiated)
    if target in DOUBLE and any(_precision(f, options) != "float64" for f in exported):
        raise ChoiceError(f"the interface of target {target!r} is double: leave precision at 'float64'")
    robots = [robot for robot in (getattr(f, "robot", None) for f in functions) if robot is not None]
    prefix = identifier(name or (robots[0].name if robots else "dynamics"))
    differentiated = [derived for f in functions for derived in _with_derivatives(f, options, target)]
    entries = [_entry(f, prefix, options, target) for f in differentiated]
    entries += [_entry(f, prefix, replace(options, order=0), target) for f in undifferentiated]
    twice = [e.name for k, e in enumerate(entries) if e.name in [other.name for other in entries[:k]]]
    if twice:
        raise ChoiceError(f"{twice[0]} is there twice: export to another folder, by another name")
    return write(Path(folder), prefix, entries, target)


def exported_entry(function, order: int = 0, precision: str = "float64") -> Entry:
    """The Entry of a Function, with the derivatives up to an order as for CasADi. Raises ChoiceError."""
    if not isinstance(order, int) or order not in ORDERS:
        raise ChoiceError(f"order must be 0, 1 or 2, not {order!r}")
    robot, _ = _origin(function)
    prefix = identifier("dynamics" if robot is None else robot.name)
    return _entry(function, prefix, Options(precision, order, libm=True), "casadi")


def _precision(function, options):
    return options.precision or function.precision


def _with_derivatives(function, options, target):
    """The Function and those of its derivatives, which targets with CasADi's interface have by CasADi's
    names."""
    derived = [function]
    for _ in range(0 if target in WITH_CASADI else options.order):
        row = QUANTITIES.get(derived[-1].spec.name) if hasattr(derived[-1], "spec") else None
        if row is None or row.derivatives is None:
            known = ", ".join(name for name, other in QUANTITIES.items() if other.derivatives)
            raise ChoiceError(
                f"{derived[-1].signature.name} has no derivatives for target {target!r}; those of {known} "
                f"exist; targets {' and '.join(WITH_CASADI)} differentiate every function"
            )
        derived.append(derived[-1].derivatives("numpy"))
    return derived


# --- an Entry -----------------------------------------------------------------------------------------------


def _entry(function, prefix, options, target) -> Entry:
    robot, _ = _origin(function)
    precision, order = _precision(function, options), options.order if target in WITH_CASADI else 0
    written, given = _traced(function), _parameters(function)
    inputs, outputs = _arguments(function, written)
    program = _renamed(written, inputs, outputs)
    states, results = _reference(robot, program, given, precision)
    return Entry(
        name=f"{prefix}_{identifier(function.signature.name, 'function')}",
        title=_title(function),
        program=program,
        inputs=inputs,
        outputs=outputs,
        robot=_facts(robot),
        digest=_digest(function, written, precision, options),
        version=__version__,
        precision=precision,
        libm=options.libm,
        states=states,
        results=results,
        start={a.name: _at_rest(robot, a, given) for a in inputs},
        parameters=given,
        order=order,
        lanes=_lanes(function, program),
        fixed=_fixed(function),
        derivatives=_cheap_jacobians(function, inputs, outputs) if order else None,
    )


def _origin(function) -> tuple[Any, Any]:
    """The Robot and the FunctionSpec; None for a Function that is compiled from a Program."""
    return getattr(function, "robot", None), getattr(function, "spec", None)


def _lanes(function, program) -> LaneProgram | None:
    """The LaneProgram of a Function whose straight lines, the Program, are long."""
    _, spec = _origin(function)
    staged = _alone(function)
    if not isinstance(staged, LaneProgram) or spec.parameters or len(program.ops) < MANY:
        return None
    return staged


def _program(function) -> Program:
    """The straight-line Program of a Function."""
    robot, spec = _origin(function)
    program = _alone(function)
    if program is None and spec is not None:
        program = _written(robot, spec)
    if isinstance(program, LaneProgram):
        program = flattened(program)
    if not isinstance(program, Program):
        raise ChoiceError(
            f"{function.signature.name} runs no Program that could be exported: build it with "
            "backend 'c', or leave solver at 'best'"
        )
    return program


def _alone(function):
    """The Program that runs without another one for some states: of recursions with contacts, and of their
    derivatives, the one that also has results at stretched legs."""
    surer = getattr(function.runner, "second", None)
    if surer is None or surer.program is None or function.spec.choice.solver == "factor_graph":
        return function.program
    return surer.program


def _written(robot, spec) -> Program | None:
    """The Program of second derivatives, which NumPy computes without one; None for algorithms that users
    choose."""
    if spec.name not in QUANTITIES or QUANTITIES[spec.name].is_problem:
        return None
    return quantity_program(robot, spec.name, spec.parameters, spec.f_ext, **spec.options)


def _fixed(function) -> dict[str, np.ndarray]:
    """{name: value} of inputs of the Program that are constants of the code."""
    robot, _ = _origin(function)
    return {} if robot is None or "gravity" not in function.runner.inputs else {"gravity": robot.gravity}


def _arguments(function, program) -> tuple[tuple[Argument, ...], tuple[Argument, ...]]:
    """The inputs and the results of a Program. A result with the name of an input is called `<name>_out`."""
    robot, _ = _origin(function)
    shapes = [n.shape for name, n in program.outputs.items() if not (program.limits and name == HEALTH)]
    returned = getattr(getattr(function, "result", None), "_fields", [*program.outputs][: len(shapes)])
    results = [f"{name}_out" if name in program.inputs else name for name in returned]
    named = [*program.inputs.items(), *zip(returned, shapes, strict=True)]
    names = identifiers([*program.inputs, *results])
    made = [
        Argument(n, shape, _text(robot, name, shape)) for n, (name, shape) in zip(names, named, strict=True)
    ]
    return tuple(made[: len(program.inputs)]), tuple(made[len(program.inputs) :])


def _renamed(program, inputs, outputs) -> Program:
    """The Program with the names of arguments and results."""
    names = [a.name for a in outputs] + [HEALTH] * bool(program.limits)
    renamed = dict(zip(names, program.outputs.values(), strict=True))
    return replace(program, inputs={a.name: a.shape for a in inputs}, outputs=renamed)


def _facts(robot) -> RobotFacts:
    if robot is None:
        return RobotFacts()
    return RobotFacts(
        joints=robot.v_names,
        bodies=tuple(body.name for body in robot.bodies),
        positions=robot.q_names if robot.constrained else (),
        sizes={"NQ": robot.nq, "NV": robot.nv, "N_BODIES": robot.nbodies},
        urdf_digest=robot.urdf_digest,
        notes=_notes(robot),
    )


def _digest(function, program, precision, options):
    """Hash of all that the exported code depends on."""
    robot, spec = _origin(function)
    said = {
        "urdf": "" if robot is None else robot.urdf_digest,
        "function": function.signature.name,
        "options": {} if spec is None else {key: str(value) for key, value in spec.options.items()},
        "parameters": [] if spec is None else list(spec.parameters),
        "program": program.digest(),
        "precision": precision,
        "libm": options.libm,
        "derivatives": options.order,
        "version": __version__,
    }
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


# --- inertial parameters ------------------------------------------------------------------------------------


def _parameters(function) -> dict[str, np.ndarray]:
    """{name: values} of the parameters that are arguments, as the user has them."""
    robot, spec = _origin(function)
    if spec is None or not spec.parameters:
        return {}
    values = {"inertia": inertial_parameters(robot.tree.inertias), "armature": robot.tree.armature}
    return {name: values[name] for name in PARAMETERS if name in spec.parameters}


def _traced(function) -> Program:
    """The Program of a Function with constant gravity, and with inertial parameters as the user has them."""
    robot, spec = _origin(function)
    program, fixed, given = _program(function), _fixed(function), _parameters(function)

    def traced(inertia=None, armature=None, **state):
        if not given:
            return interpret(program, **state, **fixed)
        tree = robot.tree
        inertias = tree.inertias if inertia is None else inertias_of_parameters(inertia)
        tree = with_parameters(tree, inertias, tree.armature if armature is None else armature)
        return interpret(program, **state, **fixed, **spec.inputs(robot.with_tree(tree)))

    shapes = program.inputs | {name: array.shape for name, array in given.items()}
    return trace(traced, {n: shape for n, shape in shapes.items() if n not in fixed}, program.limits)


# --- derivatives --------------------------------------------------------------------------------------------


def _cheap_jacobians(function, inputs, outputs):
    """A function that computes the Program of the derivatives of a quantity and {(result, argument): its
    output}; None where they are not by the numbers of q, as of loops."""
    robot, spec = _origin(function)
    if spec is None or spec.name not in ("inverse_dynamics", "forward_dynamics"):
        return None
    if spec.parameters or robot.constrained:
        return None
    if spec.contacts:
        return None if spec.f_ext else cache(partial(_contact_jacobians, function, outputs))
    return None if robot.quaternions else cache(partial(_tree_jacobians, function, inputs, outputs))


def _tree_jacobians(function, inputs, outputs):
    names, derived = {"q": "dq", "qd": "dqd"}, _traced(function.derivatives("numpy"))
    return derived, {(outputs[0].name, a.name): names.get(a.name, "dknown") for a in inputs}


def _contact_jacobians(function, outputs):
    """The same with contacts; those along quaternions are zero, as are those by flags. The stages of
    `derivatives` have less than half of the operations of a differentiated solver."""
    robot, known = function.robot, [*function.runner.inputs][2]
    derived, program = _traced(function.derivatives("numpy")), _traced(function)
    own, unit = [*program.outputs][:2], np.ones(robot.nv)
    moved = jacobian(program, own, ["contact_accelerations"])
    places = {"q": "dq", "qd": "dqd", known: "dknown"}
    for _, at in robot.quaternions:  # |dq/dt| is half of the rate
        unit[(tangent(robot, robot.neutral())[at] != 0.0).any(axis=0)] = 4.0

    def traced(**state):
        D, A = interpret(derived, **state), interpret(moved, **state)
        back = unit[:, None] * tangent(robot, state["q"]).T
        results = {}
        for result, name, prefix in zip(outputs, own, ("", "forces_"), strict=True):
            for argument, place in places.items():
                block = D[prefix + place]
                results[result.name, argument] = block @ back if argument == "q" else block
            results[result.name, "active"] = np.zeros((*result.shape, *program.inputs["active"]))
            by_accelerations = A[derivative_name(name, "contact_accelerations")]
            results[result.name, "contact_accelerations"] = by_accelerations
        named = {derivative_name(*pair): block for pair, block in results.items()}
        return named | {HEALTH: D[HEALTH]}

    pairs = [(o.name, argument) for o in outputs for argument in program.inputs]
    return trace(traced, program.inputs, derived.limits), {pair: derivative_name(*pair) for pair in pairs}


# --- reference states ---------------------------------------------------------------------------------------


def _reference(robot, program, parameters, precision):
    """{input: array (STATES, *shape)}, rounded to the precision, and {result: array} there."""
    random = np.random.default_rng(SEED)
    states: dict[str, np.ndarray] = {
        name: random.uniform(-1, 1, (DRAWN, *shape)) for name, shape in program.inputs.items()
    }
    if robot is not None and "q" in states:
        states["q"] = random_configuration(robot, DRAWN, random=random)
    if robot is not None and "active" in states:
        states["active"] = (states["active"] > 0.0).astype(float)
    for name, values in parameters.items():
        states[name] = values * random.uniform(0.9, 1.1, (DRAWN, *([1] * values.ndim)))
    dtype: np.dtype = DTYPES[precision]
    states = {name: array.astype(dtype).astype(np.float64) for name, array in states.items()}
    with np.errstate(all="ignore"):
        results = interpret(program, **states)
    results = {n: np.broadcast_to(a, (DRAWN, *program.outputs[n].shape)) for n, a in results.items()}
    good = np.ones(DRAWN, dtype=bool)
    if program.limits:
        good = healthy(results.pop(HEALTH), limits_in(program, dtype))
    for array in results.values():
        good &= np.isfinite(array).all(axis=tuple(range(1, array.ndim)))
    chosen = np.flatnonzero(good)[:STATES]
    return tuple({name: array[chosen] for name, array in side.items()} for side in (states, results))


def _at_rest(robot, argument, parameters) -> np.ndarray:
    """Value of an input that nobody sets: closed near the neutral position, without motion, of the robot."""
    if argument.name in parameters:
        return parameters[argument.name]
    if robot is not None and argument.name == "q" and argument.shape == (robot.nq,):
        return first_closed(robot, robot.neutral()) if robot.constrained else robot.neutral()
    return np.zeros(argument.shape)


# --- texts --------------------------------------------------------------------------------------------------


def _title(function):
    robot, spec = _origin(function)
    if spec is None:
        return function.signature.name
    options = "".join(
        f", {key} {plain(value if isinstance(value, str) else ' '.join(map(str, value)))}"
        for key, value in spec.options.items()
    )
    return f"{spec.name.replace('_', ' ')} of {plain(robot.name)}{options}"


def _notes(robot):
    notes = [f"Gravity is constant: {', '.join(f'{x:g}' for x in robot.gravity)} m/s^2 in root axes."]
    if robot.quaternions:
        notes.append("Quaternions (x y z w) have unit length; this is not checked.")
    if robot.floating_base:
        notes.append(
            "The first six velocities are the angular and linear velocity of the root link, in its axes."
        )
    if robot.constrained:
        notes.append("q is closed: the loops hold at q. Velocities are those of independent joints.")
    return tuple(notes)


def _text(robot, name, shape):
    """Lines about an argument."""
    if robot is None:
        return ()
    if name == "q" and shape == (robot.nq,):
        units = [unit for joint in robot.tree.independent_joints for unit in _position_units(joint.type)]
        return ("positions", *_entries(robot.q_names, units))
    if name in _UNITS and shape == (robot.nv,):
        units = [_UNITS[name][0 if unit == "N m" else 1] for unit in robot.torque_units]
        return (_TEXTS[name], *_entries(robot.v_names, units))
    return (_TEXTS[name],) if name in _TEXTS else ()


def _position_units(kind):
    """Units of the positions of a kind of joint."""
    units = ["m" if k in kind.lengths else "rad" for k in range(kind.nq)]
    if kind.quaternion is not None:
        units[kind.quaternion : kind.quaternion + 4] = [""] * 4
    return units


def _entries(names, units):
    return [
        f"[{k}] {plain(name)} {unit}".rstrip()
        for k, (name, unit) in enumerate(zip(names, units, strict=True))
    ]
