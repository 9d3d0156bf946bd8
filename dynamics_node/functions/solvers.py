"""Solvers: the Program or the algorithm at call time of a FunctionSpec, and its Runner."""

import contextlib

import numpy as np

from dynamics_node.algorithms import QUANTITIES, cheapest, dynamics_programs, quantity_program
from dynamics_node.algorithms.contact_derivatives_by_limbs import contact_derivatives_by_limbs
from dynamics_node.algorithms.contact_dynamics import FORCES_LAST
from dynamics_node.algorithms.first_positions import generic_positions
from dynamics_node.algorithms.pivots import require_determined
from dynamics_node.algorithms.quantity_methods import MAX_CONDITION
from dynamics_node.algorithms.reduced_frames import parameter_values
from dynamics_node.codegen import DEVICES, Runner
from dynamics_node.codegen.cache import read_entry, write_entry
from dynamics_node.errors import ChoiceError, CompileError, InputError, SingularPivotError
from dynamics_node.functions.chain_functions import chain_runner
from dynamics_node.functions.second_derivatives import second_derivatives_runner
from dynamics_node.functions.spec import FunctionSpec
from dynamics_node.graph import (
    ContactLeastSquares,
    Memory,
    best_ordering,
    chosen_ordering,
    dynamics_runner,
    elimination,
    elimination_program,
    generic_graph,
    gtsam_elimination,
)
from dynamics_node.graph.contact_factors import require_no_minimum
from dynamics_node.robot.inertial_parameters import generic_parameters
from dynamics_node.symbolic import interpret


def solver_of(spec: FunctionSpec, precision: str) -> tuple[str, Runner]:
    """(readable name of the algorithm, its Runner). Raises as `build`."""
    if spec.f_ext and not QUANTITIES[spec.name].wrenches:
        raise ChoiceError(f"{spec.name} reads no external wrenches: leave f_ext at False")
    if any(spec.forward):
        robot = spec.robot  # with generic parameters, none of which is zero by chance
        if spec.parameters:
            robot = robot.with_tree(generic_parameters(robot.tree, spec.parameters))
        require_determined(robot, np.array(spec.forward))
    if not QUANTITIES[spec.name].is_problem:
        return spec.name, _quantity(spec)
    _require_whole_joints(spec)
    if spec.choice.solver == "cluster":
        return _recursion(spec)
    if spec.choice.solver != "factor_graph":
        if spec.problem.contacts:
            raise ChoiceError(f"solver {spec.choice.solver!r} has no contacts: leave solver at 'best'")
        return chain_runner(spec, precision)
    require_no_minimum(spec.problem)
    if spec.choice.backend in ("gtsam", "numpy"):
        return _at_call_time(spec)
    return _elimination(spec)


def _recursion(spec):
    """(name, Runner) of the cheapest recursion. States at which forces of contacts are weak in their limb are
    those of forces last, which are alone on a device; states at which they are neither redundant nor regular
    are solved by least squares."""
    programs = dynamics_programs(spec.robot, spec.problem, spec.f_ext, spec.parameters)
    name, program = cheapest(programs)
    if not spec.problem.contacts:
        return name, spec.runner(program)
    surest = ContactLeastSquares(spec.robot, spec.problem)
    runner = spec.runner(programs[FORCES_LAST], dynamics_runner(surest, spec.problem, spec.f_ext))
    if name == FORCES_LAST or spec.choice.backend in DEVICES:
        return FORCES_LAST, runner
    return name, spec.runner(program, runner)


def _require_whole_joints(spec):
    """Raise InputError for a joint with both forward and inverse coordinates."""
    for joint in spec.robot.independent_joints:
        if len(set(spec.forward[joint.v])) > 1:
            raise InputError(f"joint {joint.name!r} must be forward or inverse as a whole")


# --- other quantities ---------------------------------------------------------------------------------------


def _quantity(spec):
    robot, row = spec.robot, QUANTITIES[spec.name]
    if spec.name == "inverse_dynamics_second_derivatives" and spec.choice.backend == "numpy":
        return second_derivatives_runner(robot, spec.inputs(robot))
    if row.write is not None:
        return _written(spec, row.write)
    try:
        program = quantity_program(robot, spec.name, spec.parameters, spec.f_ext, **spec.options)
    except ZeroDivisionError:  # a pivot is zero at every position
        if not row.limits:
            raise
        raise _dependent(spec) from None
    wheels = spec.contacts and any(contact.kind == "wheel" for contact in spec.contacts.contacts)
    if row.limits == (MAX_CONDITION**2,) and not wheels:
        state = {"q": generic_positions(robot)[0], **parameter_values(robot)}
        health = interpret(program, **{name: state[name] for name in program.inputs})["health"]
        if not health[-1] <= program.limits[-1]:
            raise _dependent(spec)
    return spec.runner(program)


def _written(spec, write):
    """The Runner of a Program of derivatives. With contacts, as in `_recursion`, states at which forces are
    weak in their limb are those of the surer Program."""
    given = spec.robot, spec.problem, spec.f_ext, spec.parameters
    runner = spec.runner(write(*given))
    if not spec.contacts or spec.choice.backend in DEVICES:
        return runner
    by_limbs = contact_derivatives_by_limbs(*given)
    return runner if by_limbs is None else spec.runner(by_limbs, runner)


def _dependent(spec):
    """The error of a Lambda that is singular at a position that is not special, hence at all."""
    moved, other = spec.options.get("links"), f"{spec.name}_inverse"
    if spec.contacts:
        moved, other = [contact.name for contact in spec.contacts.contacts], "delassus_matrix"
    return InputError(
        f"the joints of {spec.robot.name} do not move {', '.join(moved)} independently in "
        f"all directions: build {other} instead"
    )


# --- the factor graph ---------------------------------------------------------------------------------------


def _at_call_time(spec):
    """By numbers, refined at every state: an interpreted Program errs by 1e-8 where a pivot is small."""
    backend, ordering = spec.choice.backend, spec.choice.ordering
    if backend == "gtsam":
        algorithm = gtsam_elimination(spec.robot, spec.problem, ordering)
    else:
        algorithm = elimination(spec.robot, spec.problem, ordering, spec.parameters)
    return algorithm.description, dynamics_runner(algorithm, spec.problem, spec.f_ext, backend)


def _elimination(spec):
    """By an ordering. States at which a pivot of the Program is near zero are refined at call time; with
    contacts they are those of the recursion."""
    ordering, program = _ordered(spec)
    fallback = None
    if spec.problem.contacts:  # redundant at a state: the recursion finds the shortest forces
        fallback = _recursion(spec)[1]
    elif program.limits:
        with contextlib.suppress(SingularPivotError):  # impossible in the robot's own frames
            algorithm = elimination(spec.robot, spec.problem, ordering, spec.parameters)
            fallback = dynamics_runner(algorithm, spec.problem, spec.f_ext)
    return ordering.name, spec.runner(program, fallback)


def _ordered(spec):
    """The Ordering, and its Program."""
    robot, problem, parameters = spec.robot, spec.problem, spec.parameters
    ordering = spec.choice.ordering
    if ordering != "best":
        chosen = chosen_ordering(ordering, robot, problem, generic_graph(robot, problem))
    else:
        chosen = best_ordering(robot, problem, parameters, Memory(_read, _write)).ordering
    return chosen, elimination_program(robot, problem, chosen, spec.f_ext, parameters)


def _read(name):
    """A note of the cache; None if there is no valid one."""
    with contextlib.suppress(CompileError):
        return read_entry(name)
    return None


def _write(name, content):
    """Store a note in the cache, if there is one."""
    with contextlib.suppress(CompileError):
        write_entry(name, content)
