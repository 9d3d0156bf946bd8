"""Robot and what is asked -> Function: `build`, `build_quantity`, `build_derivatives`, `build_closing`."""

import contextlib
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dynamics_node.algorithms import (
    QUANTITIES,
    cheapest,
    derivative_program,
    dynamics_program,
    dynamics_programs,
    quantity_program,
    step_program,
)
from dynamics_node.algorithms.determined import require_determined
from dynamics_node.algorithms.spanning import spanning_program
from dynamics_node.codegen import CompileError, make
from dynamics_node.codegen.cache import read_entry, write_entry
from dynamics_node.functions.arguments import robot_signature
from dynamics_node.functions.chain_functions import parallel_solver
from dynamics_node.functions.choices import COMPILED, ChoiceError, resolve
from dynamics_node.functions.estimator import build_estimator
from dynamics_node.functions.function import ProgramFunction
from dynamics_node.functions.loop_solver import Closing
from dynamics_node.functions.recipe import Recipe
from dynamics_node.functions.solvers import ForwardDynamics, HybridDynamics, InverseDynamics, Quantity, Solver
from dynamics_node.graph import (
    Memory,
    Ordering,
    SingularPivotError,
    best_ordering,
    chosen_ordering,
    dynamics_runner,
    elimination_algorithm,
    elimination_program,
    generic_graph,
    quantity_runner,
    recursion_runner,
)
from dynamics_node.robot import Measured, Problem, Robot, state_shapes
from dynamics_node.robot.inertial_parameters import PARAMETERS, generic_parameters

PRECISIONS = ("float64", "float32")
_CALLABLE = {"inverse": InverseDynamics, "forward": ForwardDynamics, "hybrid": HybridDynamics}


def build(
    model: Robot,
    problem: Problem | Measured,
    solver="best",
    ordering="best",
    backend="auto",
    parameters=(),
    precision="float64",
) -> Any:
    """A callable that solves the problem for the robot: a Solver, or an Estimator of a measured problem (of
    which only backend, as of `build_estimator`, and parameters can be chosen).

    solver: 'factor_graph', 'cluster' (the recursions) or 'best', or 'cfa', 'jsiia', 'abia' for parallel
    machines (docs/parallel.md); ordering (factor_graph): rnea, crba, aba, colamd, metis (nested dissection),
    minimum_degree, best, or variable names; of cfa: cr, oee, thomas; backend: c (compiled for this robot and
    cached), numpy, gtsam, cuda (batches on a GPU, the rest by c, see docs/gpu.md), or auto: c where it works,
    and a GPU for batches where it pays. parameters: what `Solver.with_model` may change without
    another build: 'inertia', 'armature'; precision: 'float64' or 'float32', see Function. Raises CompileError
    for backend c without a compiler, DeviceError where no device computes, ChoiceError for a combination that
    does not exist, ModelError (joints by name) where torques do not determine accelerations,
    SingularPivotError for an ordering this robot does not allow, ImportError for an absent extra, ValueError
    besides.
    """
    parameters = _known_parameters(parameters)
    if precision not in PRECISIONS:
        raise ValueError(f"unknown precision {precision!r}; there are {', '.join(PRECISIONS)}")
    if isinstance(problem, Measured):
        _refuse_choice(solver, ordering, precision)
        return build_estimator(model, problem, backend, parameters)
    choice = resolve(solver, ordering, backend)
    if problem.kind != "inverse":
        require_determined(_with_generic(model, parameters), problem.forward)
    in_parallel = partial(parallel_solver, precision=precision)
    make_recipe = {"cluster": _recursion, "factor_graph": _elimination}.get(choice.solver, in_parallel)
    description, recipe, program = make_recipe(model, problem, choice, parameters)
    runner = recipe.runner(program=program)
    return _CALLABLE[problem.kind](
        signature=robot_signature(model).named(f"{problem.kind}_dynamics"),
        runner=runner,
        precision=precision,
        model=model,
        recipe=recipe,
        description=description,
        problem=problem,
        choice=choice._replace(backend=runner.backend),
    )


def _refuse_choice(solver, ordering, precision):
    if (solver, ordering, precision) != ("best", "best", "float64"):
        raise ChoiceError("measured problems leave solver, ordering and precision at their defaults")


def build_for_service(model: Robot, problem: Problem, batches=False, **choice) -> Solver:
    """What the node serves with: inertias, and rotors if there are any, can change; all is compiled at once,
    with `batches` also what many states need.

    choice: solver, ordering, backend of `build`; raises as it does.
    """
    solver = build(model, problem, **choice, parameters=changeable(model))
    solver.prepare(batches)
    return solver


def changeable(model: Robot):
    """Parameters of what serves a robot whose payload changes."""
    return PARAMETERS if model.tree.armature.any() else ("inertia",)


def build_quantity_for_service(model: Robot, name: str, backend="auto", **options) -> Quantity:
    """As `build_for_service`: a quantity of a robot whose payload changes. Raises as `build_quantity`."""
    quantity = build_quantity(model, name, backend, changeable(model), **options)
    quantity.prepare()
    return quantity


def build_quantity(
    model: Robot, name: str, backend="auto", parameters=(), precision="float64", **options
) -> Quantity:
    """A Function of a robot's state, one of QUANTITIES, which says what each reads and returns: mass_matrix,
    bias, gravity_torque, coriolis_torque, coriolis_matrix, momentum, kinetic_energy, potential_energy,
    centre_of_mass, joint_wrenches, joint_torque_regressor, ... see docs/quantities.md. Options, by keyword:
    link and reference of link_jacobian, link_motion, jacobian_drift; links and reference of
    operational_space_inertia; about of spatial_momentum and momentum_matrix; redundant of joint_wrenches;
    joint, xyz and rpy of carried_wrench: what a force/torque sensor at the joint, fixed or not, reads in free
    air, see docs/sensors.md.

    backend: c, numpy, cuda, or auto: c where it works; parameters: what `with_model` may change, and
    precision, as of `build`. Raises ValueError for an unknown name, KeyError for an unknown link or joint,
    ModelError for a joint that a loop bridges, what `build` raises for a backend.
    """
    if precision not in PRECISIONS:
        raise ValueError(f"unknown precision {precision!r}; there are {', '.join(PRECISIONS)}")
    if name not in QUANTITIES:
        raise ValueError(f"unknown quantity {name!r}; there are {', '.join(QUANTITIES)}")
    parameters, quantity = _known_parameters(parameters), QUANTITIES[name]
    forward = (quantity.inverts,) * model.nv
    if quantity.inverts:
        require_determined(_with_generic(model, parameters), np.array(forward))
    shapes = state_shapes(model, quantity.reads)
    numeric = None  # the Program itself is interpreted
    if quantity.write is None and not model.constrained:
        numeric = partial(quantity_runner, quantity.seen(model, options), name, shapes, forward, options)
    recipe = Recipe(
        model,
        forward,
        write=partial(_written_quantity, model, name, parameters, options),
        numeric=numeric,
        backend=backend,
        parameters=parameters,
        view=None if quantity.view is None else partial(quantity.view, **options),
        regrouped=quantity.regrouped,
    )
    if backend == "numpy" and numeric is not None:
        recipe = replace(recipe, write=None)
    return _robot_function(model, name, recipe, precision)


def build_derivatives(
    model: Robot, problem: Problem, backend="auto", wrenches=False, parameters=()
) -> Quantity:
    """The derivatives of a problem's result, as a function of its arguments: for inverse dynamics

        dtau_dq, dtau_dqd, M = derivatives(q, qd, qdd)

    for forward dynamics dqdd_dq, dqdd_dqd, dqdd_dtau of (q, qd, tau), and for hybrid dynamics, of (q, qd,
    qdd, tau), the derivatives of what is asked by what is known, coordinate by coordinate. All are (..., nv,
    nv), exact to rounding. Those by q are along the tangent space: column k belongs to the motion with
    velocity k at rate 1 (a floating base turns and moves in its own axes; loops stay closed). wrenches:
    f_ext is another argument; it stays constant in body axes. backend, parameters and errors as in
    `build_quantity`.
    """
    parameters = _known_parameters(parameters)
    if problem.kind != "inverse":
        require_determined(_with_generic(model, parameters), problem.forward)
    write = partial(_written_derivatives, model, problem, wrenches, parameters)
    recipe = Recipe(model, problem.forward, write, None, backend, parameters)
    return _robot_function(model, f"{problem.kind}_derivatives", recipe)


def build_closing(mechanism: Robot, backend="auto") -> Closing:
    """`close_loops` of one position after the other at the rate of a controller: see Closing. backend: c,
    numpy, or auto: c where it works. Raises CompileError for backend c without a compiler."""
    signature, places = robot_signature(mechanism), mechanism.quaternion_places
    functions = [
        ProgramFunction(signature=signature.named(name), runner=make(program, backend, quaternions=places))
        for name, program in (("step", step_program(mechanism)), ("rates", spanning_program(mechanism)))
    ]
    return Closing(mechanism, *functions)


# --- what is made, and how ----------------------------------------------------------------------------------


def _known_parameters(parameters):
    if unknown := set(parameters) - set(PARAMETERS):
        raise ValueError(f"unknown parameters {sorted(unknown)}; there are {', '.join(PARAMETERS)}")
    return tuple(parameters)


def _with_generic(model, parameters):
    """The robot with values of its parameters that are zero nowhere by chance."""
    if not parameters:
        return model
    return model.with_tree(generic_parameters(model.tree, parameters))


def _recursion(model, problem, choice, parameters):
    """(description, Recipe, Program or None) of the cheapest recursion, over bodies or clusters of them."""
    numeric = partial(recursion_runner, model, problem)
    runner = numeric()
    recipe = partial(Recipe, model, problem.forward, parameters=parameters, backend=choice.backend)
    if choice.backend == "numpy" and runner is not None:
        return runner.description, recipe(numeric=numeric), None
    programs = dynamics_programs(model, problem, parameters=parameters)
    name, program = cheapest(programs)
    write = partial(dynamics_program, model, problem, name, parameters=parameters)
    others = tuple(way for way in programs if way != name)
    rivals = partial(_by_others, model, problem, others, parameters) if others else None
    return name, recipe(write=write, numeric=numeric, rivals=rivals), program


def _by_others(model, problem, ways, parameters, wrenches=False):
    """{way: Program} of other recursions."""
    return {way: dynamics_program(model, problem, way, wrenches, parameters) for way in ways}


def _elimination(model, problem, choice, parameters):
    """(description, Recipe, Program or None) of the factor graph in an ordering."""
    ordering, program, write = choice.ordering, None, None
    if choice.backend in COMPILED:
        ordering, program = _eliminated(model, problem, choice.ordering, parameters)
        write = partial(elimination_program, model, problem, ordering, parameters=parameters)
    numeric = _numeric_elimination(model, problem, ordering, choice, parameters, write is not None)
    recipe = Recipe(
        model,
        problem.forward,
        write,
        numeric,
        choice.backend,
        parameters,
        refines=numeric is not None and program is not None and bool(program.limits),
    )
    description = ordering.name if isinstance(ordering, Ordering) else numeric().description
    return description, recipe, program


def _eliminated(model, problem, ordering, parameters):
    """The Ordering, and its Program."""
    if ordering == "best":
        return best_ordering(model, problem, parameters, Memory(_read, _write))
    chosen = chosen_ordering(ordering, model, problem, generic_graph(model, problem))
    return chosen, elimination_program(model, problem, chosen, parameters=parameters)


def _numeric_elimination(model, problem, ordering, choice, parameters, optional):
    """What makes the Runner at call time, in the robot's own frames. optional: None where the ordering cannot
    be followed there."""
    backend = "gtsam" if choice.backend == "gtsam" else "numpy"
    try:
        algorithm = elimination_algorithm(model, problem, ordering, backend, parameters)
    except SingularPivotError:
        if optional:
            return None
        raise
    return partial(dynamics_runner, algorithm, problem, backend=backend)


def _written_quantity(model, name, parameters, options, wrenches=False):
    return quantity_program(model, name, parameters, **options)


def _written_derivatives(model, problem, with_wrenches, parameters, wrenches=False):
    return derivative_program(model, problem, with_wrenches, parameters)


def _robot_function(model, name, recipe, precision="float64"):
    """A quantity, or derivatives."""
    runner = recipe.runner()
    signature = robot_signature(model).named(name)
    return Quantity(
        signature=signature,
        runner=runner,
        model=model,
        recipe=recipe,
        description=name,
        precision=precision,
    )


def _read(name):
    """A note of the cache, None where there is none to be trusted."""
    with contextlib.suppress(CompileError):
        return read_entry(name)
    return None


def _write(name, content):
    """Keep a note where there is a place for it."""
    with contextlib.suppress(CompileError):
        write_entry(name, content)
