"""`build`: robot and quantity -> Function; `evaluate`: the same in one call."""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Literal

import numpy as np

from dynamics_node.algorithms import (
    QUANTITIES,
    QuantityName,
    cheapest,
    dynamics_program,
    dynamics_programs,
    quantity_program,
    step_program,
)
from dynamics_node.algorithms.first_positions import generic_positions
from dynamics_node.algorithms.pivots import require_determined
from dynamics_node.algorithms.rates import spanning_program
from dynamics_node.algorithms.reduced_frames import parameter_values
from dynamics_node.codegen import make_runner
from dynamics_node.codegen.cache import read_entry, write_entry
from dynamics_node.errors import ChoiceError, CompileError, InputError, SingularPivotError
from dynamics_node.functions.arguments import robot_signature
from dynamics_node.functions.chain_functions import parallel_solver
from dynamics_node.functions.checks import require_robot
from dynamics_node.functions.choices import (
    BACKENDS,
    PRECISIONS,
    SINGULAR,
    Backend,
    Choice,
    Precision,
    Redundant,
    Reference,
    Singular,
    Solver,
    require_known,
    resolve,
)
from dynamics_node.functions.estimator import build_estimator
from dynamics_node.functions.function import ProgramFunction
from dynamics_node.functions.loop_solver import LoopSolver
from dynamics_node.functions.robot_functions import (
    ForwardDynamicsFunction,
    HybridDynamicsFunction,
    InverseDynamicsFunction,
    QuantityFunction,
)
from dynamics_node.functions.second_derivatives import second_derivatives_runner
from dynamics_node.functions.spec import Spec
from dynamics_node.graph import (
    Memory,
    Ordering,
    best_ordering,
    chosen_ordering,
    dynamics_runner,
    economical_graph,
    elimination_algorithm,
    elimination_program,
    generic_graph,
    plan_ordering,
)
from dynamics_node.robot import Problem, Robot, SensorProblem
from dynamics_node.robot.inertial_parameters import PARAMETERS, generic_parameters
from dynamics_node.symbolic import interpret
from dynamics_node.text import similar

_CALLABLE = {
    "inverse": InverseDynamicsFunction,
    "forward": ForwardDynamicsFunction,
    "hybrid": HybridDynamicsFunction,
}


def build(
    robot: Robot,
    what: QuantityName | Problem | SensorProblem,
    *,
    solver: Solver = "best",
    ordering: str | Iterable[str] = "best",
    backend: Backend = "auto",
    runtime_parameters: Iterable[str] = (),
    precision: Precision = "float64",
    singular: Singular = "error",
    forward_joints: Iterable[str] | None = None,
    link: str | None = None,
    links: Iterable[str] | None = None,
    joint: str | None = None,
    reference: Reference | None = None,
    xyz: Sequence[float] | None = None,
    rpy: Sequence[float] | None = None,
    redundant: Redundant | None = None,
) -> Any:
    """Build a Function of a robot's state: code for this robot, compiled and cached.

    Parameters
    ----------
    robot : Robot
        The robot, with or without closed loops.
    what : str, Problem or SensorProblem
        A quantity by name, a row of docs/reference/quantities.md: "inverse_dynamics", "forward_dynamics",
        "mass_matrix", ...; or a Problem, for example from `hybrid_dynamics`; or a SensorProblem, for an
        Estimator.
    solver : str
        For a Problem: 'factor_graph', 'cluster' (the recursions) or 'best'; 'cfa', 'jsiia' or 'abia' for
        parallel machines (docs/explanation/parallel.md).
    ordering : str or iterable of str
        For 'factor_graph': rnea, crba, aba, colamd, metis (nested dissection), minimum_degree, best, or
        variable names; for 'cfa': cr, oee, thomas.
    backend : str
        'c' (compiled for this robot and cached), 'numpy', 'gtsam' ('factor_graph' only), or 'cuda' (batches
        on a GPU, the rest by 'c', see docs/how-to/gpu.md). 'auto' is 'c' if it works, and a GPU for batches
        if it pays.
    runtime_parameters : str or iterable of str
        Parameters that `with_inertias` may change without another build: 'inertia', 'armature'.
    precision : str
        'float64' or 'float32', see Function.
    singular : str
        'error', or 'nearest' for a Problem: at singular positions of closed loops calls then return the
        results of the Function's `nearest` (docs/explanation/loops.md). Rollouts, derivatives, exported code
        and arrays on a GPU have no results there.
    forward_joints, link, links, joint, reference, xyz, rpy, redundant
        Options of quantities, see docs/reference/quantities.md. xyz is in m, rpy in rad.

    Returns
    -------
    Function
        A function of the quantity's arguments that returns its result, a NamedTuple for several. For a
        SensorProblem it is an Estimator.

    Raises
    ------
    ChoiceError
        For an impossible combination of arguments.
    CompileError
        For backend c without a compiler.
    DeviceError
        If there is no usable device.
    ModelError
        If torques do not determine accelerations, naming the joints, or if a loop bridges the joint.
    SingularPivotError
        For an ordering that is impossible for this robot.
    UnobservableError
        For sensors that do not determine the motion.
    KeyError
        For an unknown link or joint.
    ImportError
        For an absent extra.
    ValueError, TypeError
        For an unknown name; for an option that the quantity lacks or needs.

    Examples
    --------
    >>> inverse = dn.build(robot, "inverse_dynamics")
    >>> q, qd, qdd = robot.neutral(), np.zeros(robot.nv), np.ones(robot.nv)
    >>> inverse(q, qd, qdd).round(2)
    array([ 0.2 , -2.46,  0.17, -3.78,  0.09,  2.39, -0.02])
    >>> inverse(np.zeros((1000, robot.nq)), qd, qdd).shape  # leading axes are a batch
    (1000, 7)
    >>> jacobian = dn.build(robot, "frame_jacobian", link="panda_link7")  # a quantity with an option
    >>> jacobian(q).shape
    (6, 7)

    References
    ----------
    Solver 'factor_graph': Xie and Dellaert, A unified method for solving inverse, forward, and hybrid
    manipulator dynamics using factor graphs, equations 4 to 7.

    Solver 'cluster': Chignoli, Adrian, Kim and Wensing, Recursive rigid-body dynamics algorithms for systems
    with kinematic loops.
    """
    require_robot(robot)
    parameters = _known_parameters(runtime_parameters)
    if precision not in PRECISIONS:
        raise InputError(f"unknown precision {precision!r}; there are {', '.join(PRECISIONS)}")
    if singular not in SINGULAR:
        raise InputError(f"unknown singular {singular!r}; there are {', '.join(SINGULAR)}")
    nearest = singular == "nearest"
    given = _options(
        what if isinstance(what, str) else None,
        forward_joints=forward_joints,
        link=link,
        links=links,
        joint=joint,
        reference=reference,
        xyz=xyz,
        rpy=rpy,
        redundant=redundant,
    )
    if isinstance(what, SensorProblem):
        if (solver, ordering, precision, singular) != ("best", "best", "float64", "error"):
            raise ChoiceError(
                "sensor problems leave solver, ordering, precision and singular at their defaults"
            )
        return build_estimator(robot, what, backend, parameters)
    if isinstance(what, Problem):
        choice = resolve(solver, ordering, backend)
        return _build_problem(robot, what, choice, parameters, precision, nearest=nearest)
    if not isinstance(what, str):
        name = getattr(what, "__name__", type(what).__name__)
        raise TypeError(f"what must be the name of a quantity, a Problem or a SensorProblem, not {name}")
    row = QUANTITIES[what]
    problem = None if row.problem is None else row.problem(robot, **given)
    if problem is not None and row.write is None:
        choice = resolve(solver, ordering, backend)
        return _build_problem(robot, problem, choice, parameters, precision, nearest=nearest)
    if nearest:
        raise ChoiceError(f"{what} has no result at singular positions: leave singular at 'error'")
    if (solver, ordering) != ("best", "best"):
        raise ChoiceError(f"{what} has one solver: leave solver and ordering at 'best'")
    return _build_quantity(robot, what, given, problem, backend, parameters, precision)


def evaluate(
    robot: Robot,
    name: QuantityName,
    *arrays,
    f_ext=None,
    gravity=None,
    errors: Literal["raise", "nan"] = "raise",
    backend: Backend = "auto",
    forward_joints: Iterable[str] | None = None,
    link: str | None = None,
    links: Iterable[str] | None = None,
    joint: str | None = None,
    reference: Reference | None = None,
    xyz: Sequence[float] | None = None,
    rpy: Sequence[float] | None = None,
    redundant: Redundant | None = None,
) -> Any:
    """Evaluate a quantity of a robot in one call, by the Function of `build`.

    The first call of a combination of robot, name, backend and options builds the Function. This takes 0.1 to
    5 s if its code is not on disk yet. The last 64 are cached, with their robots: later calls only compute,
    and take about 1 us more than the Function itself.

    Parameters
    ----------
    robot : Robot
        The robot, with or without closed loops.
    name : str
        A quantity of docs/reference/quantities.md: "inverse_dynamics", "mass_matrix", ...
    *arrays : array_like
        The arguments of the quantity, in order: q (..., nq), closed; qd, qdd, tau (..., nv); over one batch.
        Units are SI: rad, m, their rates, N m and N.
    f_ext : array_like (..., nbodies, 6), optional
        Wrenches of the environment ON the bodies, in their axes at their origins, moment first, N m and N.
    gravity : array_like (..., 3), optional
        In place of the robot's, m/s^2.
    errors : str
        'raise', or 'nan': NaN for states without a result.
    backend : str
        As in `build`. 'numpy' compiles nothing: NumPy interprets the Program, 0.1 to 1 ms a call for an arm,
        after a first call that takes 0.01 to 1 s.
    forward_joints, link, links, joint, reference, xyz, rpy, redundant
        Options of quantities, see docs/reference/quantities.md. xyz is in m, rpy in rad.

    Returns
    -------
    ndarray or NamedTuple
        The result of the Function of `build`.

    Raises
    ------
    InputError
        For an invalid argument, naming argument and coordinate.
    SolutionError
        If there is no finite result.
    KeyError, ModelError, ValueError, TypeError
        As in `build`.

    Examples
    --------
    >>> q = robot.neutral()
    >>> dn.evaluate(robot, "mass_matrix", q, backend="numpy").shape
    (7, 7)
    >>> dn.evaluate(robot, "center_of_mass", q, backend="numpy")  # several results: a NamedTuple
    CenterOfMass
      position  [0.0256, 0.0063, 0.627 ]
      jacobian  array (3, 7)
    """
    require_known("backend", backend, BACKENDS)
    function = _evaluated(
        robot, name, backend, _frozen(forward_joints), link, _frozen(links), joint, reference, _frozen(xyz),
        _frozen(rpy), redundant,
    )  # fmt: skip
    if f_ext is None and gravity is None:
        return function(*arrays, errors=errors)
    named = {key: value for key, value in (("f_ext", f_ext), ("gravity", gravity)) if value is not None}
    return function(*arrays, **named, errors=errors)


def _frozen(option):
    """An option as a key of the cache."""
    return option if option is None or isinstance(option, str) else tuple(option)


@lru_cache(maxsize=64)
def _evaluated(robot, name, backend, forward_joints, link, links, joint, reference, xyz, rpy, redundant):
    """The Function of `evaluate`."""
    require_robot(robot)
    given = _options(
        name,
        forward_joints=forward_joints,
        link=link,
        links=links,
        joint=joint,
        reference=reference,
        xyz=xyz,
        rpy=rpy,
        redundant=redundant,
    )
    return build(robot, name, backend=backend, **given)


def build_derivatives(function, backend=None) -> QuantityFunction:
    """See RobotFunction.derivatives."""
    spec = function.spec
    name = QUANTITIES[spec.name].derivatives if spec.name in QUANTITIES else None
    if name is None:
        derived = ", ".join(own for own, row in QUANTITIES.items() if row.derivatives)
        raise ChoiceError(f"{spec.name} has no derivatives; there are those of {derived}")
    backend = spec.choice.backend if backend is None else backend
    return _build_quantity(
        function.robot, name, {}, spec.problem, backend, spec.parameters, function.precision
    )


def build_for_service(
    robot: Robot,
    what,
    batches=False,
    solver="best",
    ordering="best",
    backend="auto",
    links=None,
    joint=None,
    xyz=None,
    rpy=None,
):
    """A Function for the node: inertias, and rotors if there are any, can change; everything is compiled at
    once, with `batches` also the code for many states. Arguments and errors as in `build`."""
    function = build(
        robot,
        what,
        solver=solver,
        ordering=ordering,
        backend=backend,
        runtime_parameters=changeable(robot),
        links=links,
        joint=joint,
        xyz=xyz,
        rpy=rpy,
    )
    function.compile(batches)
    return function


def changeable(robot: Robot):
    """Parameters that change with the payload of a robot."""
    return PARAMETERS if robot.tree.armature.any() else ("inertia",)


def build_loop_solver(robot: Robot, backend: str = "auto") -> LoopSolver:
    """Build the solver that closes loops at the rate of a controller.

    Parameters
    ----------
    robot : Robot
        A robot with closed loops.
    backend : str
        'c' (compiled for this robot and cached), 'numpy', or 'auto': 'c' if it works.

    Returns
    -------
    LoopSolver

    Raises
    ------
    CompileError
        For backend c without a compiler.

    See Also
    --------
    close_loops : the same without a build, also over batches.

    Examples
    --------
    >>> from dynamics_demo.robots import four_bar
    >>> solver = dn.build_loop_solver(dn.parse_robot(four_bar()), backend="numpy")
    >>> q, condition = solver.following([0.3, np.nan, np.nan])  # the crank is at 0.3 rad
    >>> q.round(3)
    array([ 0.3  , -1.337, -1.581])
    """
    signature, places = robot_signature(robot), robot.quaternion_places
    functions = [
        ProgramFunction(
            signature=signature.named(name), runner=make_runner(program, backend, quaternions=places)
        )
        for name, program in (("loop_step", step_program(robot)), ("rates", spanning_program(robot)))
    ]
    return LoopSolver(robot, *functions)


# --- construction -------------------------------------------------------------------------------------------


def _known_parameters(parameters):
    parameters = _names(parameters)
    if unknown := set(parameters) - set(PARAMETERS):
        raise InputError(f"unknown runtime_parameters {sorted(unknown)}; there are {', '.join(PARAMETERS)}")
    return tuple(parameters)


def _names(names):
    """The names in a tuple; a string is one name."""
    return (names,) if isinstance(names, str) else tuple(names)


def _options(name, **options):
    """The given options. Raises ValueError for an unknown quantity, TypeError for an unknown or missing
    option."""
    if name is not None and name not in QUANTITIES:
        raise InputError(f"unknown quantity {name!r}; {similar(name, QUANTITIES)}")
    given = {option: value for option, value in options.items() if value is not None}
    given |= {option: _names(given[option]) for option in ("forward_joints", "links") if option in given}
    own, needs = ((), ()) if name is None else (QUANTITIES[name].options, QUANTITIES[name].needs)
    if foreign := [option for option in given if option not in own]:
        has = f"its options: {', '.join(own)}" if own else "it has no options"
        raise TypeError(f"{name or 'a Problem'} has no option {', '.join(foreign)}; {has}")
    if missing := [option for option in needs if option not in given]:
        raise TypeError(f"{name} needs the option {', '.join(missing)}")
    return given


def _build_problem(robot, problem, choice, parameters, precision, nearest=False):
    """The Function that solves a Problem."""
    if problem.kind != "inverse":
        _require_whole_joints(robot, problem.forward)
        require_determined(_with_generic(robot, parameters), problem.forward)
    ways: dict[str, Callable] = {"cluster": _recursion, "factor_graph": _elimination}
    make_spec = ways.get(choice.solver, partial(parallel_solver, precision=precision))
    description, spec, program = make_spec(robot, problem, choice, parameters)
    return _CALLABLE[problem.kind](
        signature=robot_signature(robot).named(spec.name),
        runner=spec.runner(program=program),
        precision=precision,
        robot=robot,
        spec=replace(spec, nearest=nearest),
        description=description,
    )


def _require_whole_joints(robot, forward):
    """Raise ValueError for a joint with both forward and inverse coordinates."""
    for joint in robot.independent_joints:
        if len(set(forward[joint.v])) > 1:
            raise InputError(f"joint {joint.name!r} must be forward or inverse as a whole")


def _build_quantity(robot, name, options, problem, backend, parameters, precision):
    """The Function of another row of QUANTITIES."""
    row = QUANTITIES[name]
    forward = (row.inverts,) * robot.nv if problem is None else problem.forward
    if any(forward):
        require_determined(_with_generic(robot, parameters), np.array(forward))
    write = numeric = program = None
    if backend == "numpy" and name == "inverse_dynamics_second_derivatives":
        values = parameter_values(robot, parameters)
        numeric = partial(second_derivatives_runner, robot, values)
    else:
        write = partial(_write_quantity, robot, name, problem, options, parameters)
        program = _regular(robot, name, options, write) if row.limits else write()
    spec = Spec(
        robot=robot,
        name=name,
        options=options,
        problem=problem,
        choice=Choice("best", None, backend),
        forward=forward,
        write=write,
        numeric=numeric,
        parameters=parameters,
        view=None if row.view is None else partial(row.view, **options),
        regrouped=row.regrouped,
    )
    return QuantityFunction(
        signature=robot_signature(robot).named(name),
        runner=spec.runner(program=program),
        robot=robot,
        spec=spec,
        description=name,
        precision=precision,
        result=row.result,
    )


def _regular(robot, name, options, write):
    """The Program. Raises ValueError if Lambda is beyond its condition at a position that is not special,
    hence at all."""
    state = {"q": generic_positions(robot)[0], **parameter_values(robot)}
    with contextlib.suppress(ZeroDivisionError):  # Lambda^-1 has a pivot that is zero at every position
        program = write()
        health = interpret(program, **{name: state[name] for name in program.inputs})["health"]
        if health[-1] <= program.limits[-1]:
            return program
    raise InputError(
        f"the joints of {robot.name} do not move {', '.join(options['links'])} independently in all "
        f"directions: build {name}_inverse instead"
    )


def _write_quantity(robot, name, problem, options, parameters, wrenches=False):
    row = QUANTITIES[name]
    if row.write is not None:
        return row.write(robot, problem, wrenches, parameters)
    return quantity_program(robot, name, parameters, wrenches, **options)


def _with_generic(robot, parameters):
    """The robot with generic values of its parameters, without accidental zeros."""
    if not parameters:
        return robot
    return robot.with_tree(generic_parameters(robot.tree, parameters))


def _recursion(robot, problem, choice, parameters):
    """(description, Spec, Program) of the cheapest recursion, over bodies or clusters of them."""
    spec = partial(_problem_spec, robot, problem, choice, parameters)
    name, program = cheapest(dynamics_programs(robot, problem, parameters=parameters))
    write = partial(dynamics_program, robot, problem, name, parameters=parameters)
    return name, spec(write=write), program


def _problem_spec(robot, problem, choice, parameters, **ways):
    """The Spec of a Problem; ways: write, numeric and the like."""
    return Spec(
        robot=robot,
        name=f"{problem.kind}_dynamics",
        problem=problem,
        choice=choice,
        forward=problem.forward,
        parameters=parameters,
        **ways,
    )


def _elimination(robot, problem, choice, parameters):
    """(description, Spec, Program or None) of the factor graph in an ordering."""
    ordering, program, write = choice.ordering, None, None
    if choice.backend != "gtsam":
        ordering, program = _eliminated(robot, problem, choice, parameters)
        write = partial(elimination_program, robot, problem, ordering, parameters=parameters)
    numeric = _numeric_elimination(robot, problem, ordering, choice, parameters, write is not None)
    refines = numeric is not None and program is not None and bool(program.limits)
    spec = _problem_spec(robot, problem, choice, parameters, write=write, numeric=numeric, refines=refines)
    description = ordering.name if isinstance(ordering, Ordering) else numeric().description
    return description, spec, program


def _eliminated(robot, problem, choice, parameters):
    """The Ordering, and its Program. For NumPy 'best' has the fewest numbers in its Bayes net: the search for
    the cheapest Program takes seconds."""
    ordering = choice.ordering
    if ordering == "best" and choice.backend == "numpy":
        ordering, _ = plan_ordering(robot, problem, graph=economical_graph(robot, problem, parameters))
    elif ordering == "best":
        return best_ordering(robot, problem, parameters, Memory(_read, _write))
    chosen = chosen_ordering(ordering, robot, problem, generic_graph(robot, problem))
    return chosen, elimination_program(robot, problem, chosen, parameters=parameters)


def _numeric_elimination(robot, problem, ordering, choice, parameters, optional):
    """A builder of the Runner at call time, in the robot's own frames. optional: None if the ordering is
    impossible there."""
    backend = "gtsam" if choice.backend == "gtsam" else "numpy"
    try:
        algorithm = elimination_algorithm(robot, problem, ordering, backend, parameters)
    except SingularPivotError:
        if optional:
            return None
        raise
    return partial(dynamics_runner, algorithm, problem, backend=backend)


def _read(name):
    """A note of the cache; None if there is no valid one."""
    with contextlib.suppress(CompileError):
        return read_entry(name)
    return None


def _write(name, content):
    """Store a note in the cache, if there is one."""
    with contextlib.suppress(CompileError):
        write_entry(name, content)
