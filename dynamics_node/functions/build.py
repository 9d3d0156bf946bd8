"""`build`: robot and quantity -> Function."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from dynamics_node.algorithms import (
    QUANTITIES,
    QuantityOptions,
    results,
    step_program,
)
from dynamics_node.algorithms.rates import spanning_program
from dynamics_node.codegen import make_runner
from dynamics_node.errors import ChoiceError, InputError
from dynamics_node.functions.arguments import robot_signature
from dynamics_node.functions.choices import (
    PRECISIONS,
    SINGULAR,
    Backend,
    Choice,
    Precision,
    Singular,
    Solver,
    resolve,
)
from dynamics_node.functions.estimator import Estimator, build_estimator
from dynamics_node.functions.function import Function
from dynamics_node.functions.loop_solver import LoopSolver
from dynamics_node.functions.robot_function import RobotFunction, robot_function
from dynamics_node.functions.spec import FunctionSpec
from dynamics_node.names import ArrayQuantity, QuantityName, no_argument, quantity_of
from dynamics_node.robot import Problem, Robot, SensorProblem
from dynamics_node.robot.contacts import Contact, valid_contacts
from dynamics_node.robot.inertial_parameters import PARAMETERS
from dynamics_node.robot.wrong_calls import explains_wrong_calls, require_robot
from dynamics_node.text import similar

if TYPE_CHECKING:
    from typing_extensions import Unpack


class BuildChoices(QuantityOptions, total=False):
    """Keywords of `build`."""

    solver: Solver
    ordering: str | Iterable[str]
    backend: Backend
    runtime_parameters: Iterable[str]
    precision: Precision
    singular: Singular
    f_ext: bool


ContactDerivatives = Literal[
    "inverse_dynamics_derivatives", "forward_dynamics_derivatives", "hybrid_dynamics_derivatives"
]


class ContactBuild(BuildChoices):
    """Keywords of `build` with contacts."""

    contacts: Contact | Iterable[Contact]


@overload
def build(
    robot: Robot, what: ArrayQuantity, **choices: "Unpack[BuildChoices]"
) -> RobotFunction[np.ndarray]: ...
@overload
def build(
    robot: Robot, what: Literal["hybrid_dynamics"], **choices: "Unpack[BuildChoices]"
) -> RobotFunction[results.HybridDynamics]: ...
@overload
def build(
    robot: Robot, what: Literal["inverse_dynamics_derivatives"], **choices: "Unpack[BuildChoices]"
) -> RobotFunction[results.InverseDynamicsDerivatives]: ...
@overload
def build(
    robot: Robot, what: Literal["forward_dynamics_derivatives"], **choices: "Unpack[BuildChoices]"
) -> RobotFunction[results.ForwardDynamicsDerivatives]: ...
@overload
def build(
    robot: Robot, what: Literal["hybrid_dynamics_derivatives"], **choices: "Unpack[BuildChoices]"
) -> RobotFunction[results.HybridDynamicsDerivatives]: ...
@overload
def build(
    robot: Robot, what: Literal["inverse_dynamics_second_derivatives"], **choices: "Unpack[BuildChoices]"
) -> RobotFunction[results.InverseDynamicsSecondDerivatives]: ...
@overload
def build(
    robot: Robot, what: Literal["generalized_momentum"], **choices: "Unpack[BuildChoices]"
) -> RobotFunction[results.GeneralizedMomentum]: ...
@overload
def build(
    robot: Robot, what: Literal["center_of_mass"], **choices: "Unpack[BuildChoices]"
) -> RobotFunction[results.CenterOfMass]: ...
@overload
def build(
    robot: Robot, what: Literal["center_of_mass_motion"], **choices: "Unpack[BuildChoices]"
) -> RobotFunction[results.CenterOfMassMotion]: ...
@overload
def build(
    robot: Robot, what: Literal["frame_pose"], **choices: "Unpack[BuildChoices]"
) -> RobotFunction[results.FramePose]: ...
@overload
def build(
    robot: Robot, what: Literal["frame_poses"], **choices: "Unpack[BuildChoices]"
) -> RobotFunction[results.FramePoses]: ...
@overload
def build(
    robot: Robot, what: Literal["frame_kinematics"], **choices: "Unpack[BuildChoices]"
) -> RobotFunction[results.FrameKinematics]: ...
@overload
def build(
    robot: Robot, what: Literal["operational_space_inertia"], **choices: "Unpack[BuildChoices]"
) -> RobotFunction[results.OperationalSpaceInertia]: ...
@overload
def build(
    robot: Robot, what: Literal["operational_space_inertia_inverse"], **choices: "Unpack[BuildChoices]"
) -> RobotFunction[results.OperationalSpaceInertiaInverse]: ...
@overload
def build(
    robot: Robot, what: Literal["momentum_regressor"], **choices: "Unpack[BuildChoices]"
) -> RobotFunction[results.MomentumRegressor]: ...
@overload
def build(
    robot: Robot, what: Literal["energy_regressor"], **choices: "Unpack[BuildChoices]"
) -> RobotFunction[results.EnergyRegressor]: ...
@overload
def build(
    robot: Robot, what: Literal["joint_regressor"], **choices: "Unpack[BuildChoices]"
) -> RobotFunction[results.JointRegressor]: ...
@overload
def build(
    robot: Robot, what: Literal["inverse_dynamics"], **choices: "Unpack[ContactBuild]"
) -> RobotFunction[results.ContactInverseDynamics]: ...
@overload
def build(
    robot: Robot, what: Literal["forward_dynamics"], **choices: "Unpack[ContactBuild]"
) -> RobotFunction[results.ContactForwardDynamics]: ...
@overload
def build(
    robot: Robot, what: Literal["hybrid_dynamics"], **choices: "Unpack[ContactBuild]"
) -> RobotFunction[results.ContactHybridDynamics]: ...
@overload
def build(
    robot: Robot, what: Literal["delassus_matrix"], **choices: "Unpack[ContactBuild]"
) -> RobotFunction[results.DelassusMatrix]: ...
@overload
def build(
    robot: Robot, what: Literal["delassus_inverse"], **choices: "Unpack[ContactBuild]"
) -> RobotFunction[results.DelassusInverse]: ...
@overload
def build(
    robot: Robot, what: Literal["impact_dynamics"], **choices: "Unpack[ContactBuild]"
) -> RobotFunction[results.ImpactDynamics]: ...
@overload
def build(
    robot: Robot, what: ContactDerivatives, **choices: "Unpack[ContactBuild]"
) -> RobotFunction[Any]: ...
@overload
def build(robot: Robot, what: Problem, **choices: "Unpack[BuildChoices]") -> RobotFunction[Any]: ...
@overload
def build(robot: Robot, what: SensorProblem, **choices: "Unpack[BuildChoices]") -> Estimator: ...
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
    f_ext: bool = False,
    contacts: Contact | Iterable[Contact] | None = None,
    **options: "Unpack[QuantityOptions]",
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
        For 'factor_graph': rnea, crba, aba, constrained_aba, constrained_crba, colamd, metis (nested
        dissection), minimum_degree, best, or variable names; for 'cfa': cr, oee, thomas.
    backend : str
        'c' (compiled for this robot and cached), 'numpy', 'gtsam' ('factor_graph' only), or 'cuda' (batches
        on a GPU, the rest by 'c', see docs/how-to/gpu.md). 'auto' is 'c' if it works, else 'numpy'.
    runtime_parameters : str or iterable of str
        Parameters that `with_inertias` may change without another build: 'inertia', 'armature'.
    precision : str
        'float64' or 'float32', see Function.
    singular : str
        'error', or 'nearest' for a Problem: at singular positions of closed loops calls then return the
        results of the Function's `nearest` (docs/explanation/loops.md). Rollouts, derivatives, exported code
        and arrays on a GPU have no results there.
    f_ext : bool
        Whether wrenches of the environment on the bodies are an argument.
    contacts : Contact or iterable of Contact, optional
        Contacts, for quantities that may have or need them; a Problem has its own.
    **options
        forward_joints, link, links, joint, reference, xyz, rpy, redundant: options of quantities, see
        docs/reference/quantities.md. xyz is in m, rpy in rad.

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
    require_robot(robot, "build", (what,))
    keywords: dict[str, Any] = dict(options) if contacts is None else {**options, "contacts": contacts}
    parameters = _known_parameters(runtime_parameters)
    if precision not in PRECISIONS:
        raise InputError(f"unknown precision {precision!r}; there are {', '.join(PRECISIONS)}")
    if singular not in SINGULAR:
        raise InputError(f"unknown singular {singular!r}; there are {', '.join(SINGULAR)}")
    if isinstance(what, SensorProblem):
        if keywords or (solver, ordering, precision, singular, f_ext) != _OF_SENSORS:
            raise ChoiceError("sensor problems have a backend and runtime_parameters, and no other option")
        return build_estimator(robot, what, backend, parameters)
    name, problem, given = _requested(robot, what, keywords)
    row = QUANTITIES[name]
    choice = resolve(solver, ordering, backend) if row.is_problem else Choice("best", None, backend)
    if singular == "nearest" and problem is not None and problem.contacts:
        raise ChoiceError("a problem with contacts has no nearest solution: leave singular at 'error'")
    if not row.is_problem and singular == "nearest":
        raise ChoiceError(f"{name} has no result at singular positions: leave singular at 'error'")
    if not row.is_problem and (solver, ordering) != ("best", "best"):
        raise ChoiceError(f"{name} has one solver: leave solver and ordering at 'best'")
    spec = FunctionSpec(
        robot=robot,
        name=name,
        options=given,
        problem=problem,
        choice=choice,
        forward=(row.inverts,) * robot.nv if problem is None else problem.forward,
        parameters=parameters,
        f_ext=f_ext,
        regrouped=row.regrouped,
        nearest=singular == "nearest",
    )
    return robot_function(spec, precision)


_FOR_EVERY_QUANTITY = tuple(
    name for name in BuildChoices.__annotations__ if name not in QuantityOptions.__annotations__
)
_OF_SENSORS = ("best", "best", "float64", "error", False)


def _requested(robot, what, options):
    """(name of the quantity, Problem or None, its options)."""
    if isinstance(what, Problem):
        if options:
            raise TypeError(f"a Problem has no option {', '.join(options)}; it has no options")
        return f"{what.kind}_dynamics", what, {}
    if not isinstance(what, str):
        name = getattr(what, "__name__", type(what).__name__)
        raise TypeError(f"what must be the name of a quantity, a Problem or a SensorProblem, not {name}")
    if what not in QUANTITIES:
        here = quantity_of(what)
        hint = f"here it is {here!r}" if here else similar(what, QUANTITIES)
        raise InputError(f"unknown quantity {what!r}; {hint}")
    row = QUANTITIES[what]
    if foreign := [option for option in options if option not in row.options]:
        raise no_argument(what, foreign[0], [*row.options, *_FOR_EVERY_QUANTITY])
    given = row.checked(what, options)
    if "contacts" in given:
        given["contacts"] = valid_contacts(robot, given["contacts"])
    return what, None if row.problem is None else row.problem(robot, **given), given


def _known_parameters(parameters):
    parameters = (parameters,) if isinstance(parameters, str) else tuple(parameters)
    if unknown := set(parameters) - set(PARAMETERS):
        raise InputError(f"unknown runtime_parameters {sorted(unknown)}; there are {', '.join(PARAMETERS)}")
    return parameters


def build_for_service(robot: Robot, what: Any, batches: bool = False, **choices: Any) -> Any:
    """A Function for the node: inertias, and rotors if there are any, can change; everything is compiled at
    once, with `batches` also the code for many states. Arguments and errors as in `build`."""
    function = build(robot, what, runtime_parameters=changeable(robot), **choices)
    function.compile(batches)
    return function


def changeable(robot: Robot) -> tuple[str, ...]:
    """Parameters that change with the payload of a robot."""
    return PARAMETERS if robot.tree.armature.any() else ("inertia",)


@explains_wrong_calls
def build_loop_solver(robot: Robot, backend: Backend = "auto") -> LoopSolver:
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
    functions: list[Function[Any]] = [
        Function(signature=signature.named(name), runner=make_runner(program, backend, quaternions=places))
        for name, program in (("loop_step", step_program(robot)), ("rates", spanning_program(robot)))
    ]
    return LoopSolver(robot, *functions)
