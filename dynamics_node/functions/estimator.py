"""Estimators: Functions of sensor readings."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.algorithms.contact_dynamics import leaning_wheel
from dynamics_node.algorithms.health import why_not
from dynamics_node.display import with_field_repr
from dynamics_node.errors import ChoiceError, InputError, SolutionError
from dynamics_node.functions.arguments import Signature, robot_signature
from dynamics_node.functions.choices import COMPILED, Choice
from dynamics_node.functions.function import require_errors
from dynamics_node.functions.robot_function import RobotFunction
from dynamics_node.functions.spec import FunctionSpec
from dynamics_node.graph import (
    Judgement,
    Observability,
    chi_square_limit,
    judge,
    observability,
    regroups,
    sensor_program,
    sensor_runner,
)
from dynamics_node.graph.pivot_search import NoPivotError
from dynamics_node.robot import Robot, SensorProblem
from dynamics_node.symbolic import inverse_motion_transform

log = logging.getLogger("dynamics_node")
BACKENDS = (*COMPILED, "numpy", "gtsam")
MOST_OPERATIONS = 150_000  # largest number of operations of a Program that `auto` compiles


class UnobservableError(InputError):
    """Sensors that do not determine the motion; names the open directions and the sensors that would help.

    Parameters
    ----------
    observability : Observability
        The same as data, also an attribute of the error.
    """

    def __init__(self, observability: Observability):
        super().__init__(str(observability))
        self.observability = observability

    def __reduce__(self):
        return type(self), (self.observability,)


@with_field_repr
class Estimate(NamedTuple):
    """The result of an Estimator: accelerations, torques and external wrenches of minimum variance.

    Attributes
    ----------
    qdd : ndarray (..., nv)
        Accelerations, rad/s^2 and m/s^2.
    tau : ndarray (..., nv)
        Torques and forces of the joints, N m and N.
    f_ext : ndarray (..., nbodies, 6)
        Wrenches of the environment ON the bodies, in their axes at their origins, moment first, N m and N.
    residuals : ndarray (..., m)
        Readings minus their estimates, in the units of the readings.
    chi_square : ndarray (...)
        The sum of squares of residuals and priors, in standard deviations.
    qdd_covariance, tau_covariance : ndarray (..., nv, nv), optional
        Covariances of qdd and tau, if the problem requests them.
    f_ext_covariance : ndarray (..., nbodies, 6, 6), optional
        Covariance of the wrench on every body, if the problem requests it.

    Examples
    --------
    >>> sensors = [dn.sensors.JointTorque(name, std=0.1) for name in robot.v_names]
    >>> problem = dn.sensor_problem(robot, sensors, covariance=["tau"])
    >>> estimator = dn.build(robot, problem, backend="numpy")
    >>> estimate = estimator(robot.neutral(), np.zeros(7), np.ones(7))
    >>> estimate.tau.round(3)
    array([1., 1., 1., 1., 1., 1., 1.])
    >>> np.sqrt(np.diag(estimate.tau_covariance)).round(3)  # its standard deviations, N m
    array([0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1])
    """

    qdd: np.ndarray
    tau: np.ndarray
    f_ext: np.ndarray
    residuals: np.ndarray
    chi_square: np.ndarray
    qdd_covariance: np.ndarray | None = None
    tau_covariance: np.ndarray | None = None
    f_ext_covariance: np.ndarray | None = None


@with_field_repr
class ExternalWrenchEstimate(NamedTuple):
    """The wrench of the environment ON a link: docs/how-to/external_wrenches.md compares its estimators.

    Attributes
    ----------
    link : str
        Name of the link.
    wrench : ndarray (..., 6)
        In the link's axes at its origin, moment first, N m and N.
    covariance : ndarray (..., 6, 6), optional
        Covariance of the wrench, or None if it is not computed.

    Examples
    --------
    >>> q, rest = np.full(7, 0.5), np.zeros(7)
    >>> f_ext = dn.external_wrenches(robot, {"panda_link7": [0, 0, 0, 1, 2, 3]})  # a push at the flange
    >>> tau = dn.evaluate(robot, "inverse_dynamics", q, rest, rest, f_ext=f_ext, backend="numpy")
    >>> sensors = [dn.sensors.JointTorque(name, std=0.1) for name in robot.v_names]
    >>> sensors += [dn.sensors.JointAcceleration(name, std=0.1) for name in robot.v_names]
    >>> problem = dn.sensor_problem(robot, sensors, contacts=[dn.Contact("panda_link7")])
    >>> estimator = dn.build(robot, problem, backend="numpy")
    >>> (push,) = estimator.external_wrenches(estimator(q, rest, np.concatenate([tau, rest])))
    >>> push.link, push.wrench[3:].round(3)
    ('panda_link7', array([1., 2., 3.]))
    """

    link: str
    wrench: np.ndarray
    covariance: np.ndarray | None = None


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Estimator(RobotFunction[Estimate]):
    """The motion, torques and external wrenches at one instant, estimated from sensors.

    `build` returns it for the result of `sensor_problem`; a call is ``estimator(q, qd, readings)``.

    Attributes
    ----------
    observability : Observability
        Rank of the problem at generic states.

    Examples
    --------
    >>> sensors = [dn.sensors.JointTorque(name, std=0.1) for name in robot.v_names]
    >>> sensors += [dn.sensors.JointAcceleration(name, std=0.5) for name in robot.v_names]
    >>> estimator = dn.build(robot, dn.sensor_problem(robot, sensors), backend="numpy")
    >>> q, rest = robot.neutral(), np.zeros(7)
    >>> torques = dn.evaluate(robot, "gravity_torque", q, backend="numpy")
    >>> torques[3] += 5.0  # a sensor with an offset
    >>> readings = np.concatenate([torques, rest])
    >>> bool(estimator.consistent(estimator(q, rest, readings)))
    False
    >>> estimator.judge(q, rest, readings).culprits
    ('panda_joint4 torque',)

    References
    ----------
    Nori, Dynamic computations with permuted sparse LU, equations 14 and 17 (docs/explanation/papers.md). Rows
    are weighted with their noise: docs/explanation/sensor_fusion.md.
    """

    observability: Observability
    _takes_arrays = False

    def __post_init__(self):
        super().__post_init__()
        self._keep(why=partial(_why_not, self.robot, self.spec.problem))

    @property
    def degrees_of_freedom(self) -> int:
        """Degrees of freedom of chi_square."""
        return self.observability.degrees_of_freedom

    @cached_property
    def limit(self) -> float:
        """The value that chi_square exceeds at one state of 1000 if the sensors have their standard
        deviations."""
        return chi_square_limit(self.degrees_of_freedom)

    def consistent(self, estimate: Estimate) -> np.ndarray:
        """Compare chi-square with its limit.

        Parameters
        ----------
        estimate : Estimate
            The result of a call.

        Returns
        -------
        ndarray (...) of bool
            Whether sensors are consistent; False for states without a result.
        """
        checked = self.limit if self.degrees_of_freedom else np.inf
        return np.isfinite(estimate.chi_square) & (np.asarray(estimate.chi_square) <= checked)

    def external_wrenches(self, estimate: Estimate) -> tuple[ExternalWrenchEstimate, ...]:
        """Return the wrench on every link with a contact.

        For several links on one body only the first counts, since their wrenches are not distinguishable.

        Parameters
        ----------
        estimate : Estimate
            The result of a call.

        Returns
        -------
        tuple of ExternalWrenchEstimate
            One a link, with a covariance if the problem requests that of f_ext.
        """
        estimates, covariance = [], estimate.f_ext_covariance
        for link, (body, X) in self._contact_links.items():
            wrench = estimate.f_ext[..., body, :] @ X.T
            of_it = None if covariance is None else X @ covariance[..., body, :, :] @ X.T
            estimates.append(ExternalWrenchEstimate(link, wrench, of_it))
        return tuple(estimates)

    @cached_property
    def _contact_links(self):
        """{link: (its body, wrench transform (6, 6) from the body to the link)}."""
        transforms: dict = {}
        for link in (link for contact in self.problem.contacts for link in (contact.link, contact.other)):
            body = self.robot.frame(link).body if link else -1
            if body >= 0 and body not in (known for known, _ in transforms.values()):
                transforms[link] = body, inverse_motion_transform(self.robot.frame(link).X).T
        return transforms

    def judge(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        readings: ArrayLike | Mapping[str, ArrayLike],
        *,
        gravity: ArrayLike | None = None,
    ) -> Judgement:
        """Test whether sensors contradict each other at one state, and which one is most likely wrong.

        Parameters
        ----------
        q : array_like (nq,)
            Positions, closed.
        qd : array_like (nv,)
            Velocities, rad/s and m/s.
        readings : array_like (m,) or dict
            As in a call of the estimator.
        gravity : array_like (3,), optional
            In place of the robot's, m/s^2.

        Returns
        -------
        Judgement
            `consistent`, `culprits`, chi-square and its limit. Its text is one sentence.

        Raises
        ------
        InputError
            For an invalid argument, or more than one state.
        SolutionError
            If there is no finite result.
        """
        arrays = self._arrays(q, qd, readings, gravity)
        self(*arrays[:3], gravity=arrays[3])  # raises InputError for an invalid state
        q, qd, readings, g = (np.asarray(array, dtype=float) for array in arrays)
        if any(array.ndim > 1 for array in (q, qd, readings, g)):
            raise InputError("judge takes one state: q (nq,), qd (nv,), readings (m,), gravity (3,)")
        judgement = judge(self.robot, self.problem, q, qd, readings, g)
        if judgement is None:
            raise SolutionError(_why_not(self.robot, self.problem, q, qd, readings, g))
        return judgement

    def __call__(  # type: ignore[override]
        self,
        q: ArrayLike,
        qd: ArrayLike,
        readings: ArrayLike | Mapping[str, ArrayLike],
        *,
        gravity: ArrayLike | None = None,
        errors: Literal["raise", "nan"] = "raise",
    ) -> Estimate:
        """Estimate the motion at one state or a batch.

        Parameters
        ----------
        q : array_like (..., nq)
            Positions, closed.
        qd : array_like (..., nv)
            Velocities, rad/s and m/s.
        readings : array_like (..., m) or dict
            In the order of `problem.readings`, or {name of a sensor: (..., rows) or (...)}.
        gravity : array_like (..., 3), optional
            In place of the robot's, m/s^2.
        errors : str
            'raise', or 'nan': NaN for states without a result.

        Returns
        -------
        Estimate

        Raises
        ------
        InputError
            For an invalid argument, naming argument and entry.
        SensorError
            For a missing or unknown sensor in a dict of readings.
        SolutionError
            If there is no finite result: the rank drops, or loops are open.
        """
        require_errors(errors)
        arrays = self._arrays(q, qd, readings, gravity)
        results = self._new(tuple, *arrays)
        if results is None:
            results = self._states(arrays, None, errors)
        return Estimate(**dict(zip(self.runner.outputs, results, strict=True)))

    def _arrays(self, q, qd, readings, gravity):
        if isinstance(readings, Mapping):
            readings = self.problem.gathered(readings)
        return q, qd, readings, self.robot.gravity if gravity is None else gravity


def build_estimator(robot: Robot, problem: SensorProblem, backend="auto", parameters=()) -> Estimator:
    """The Estimator of a sensor problem.

    backend: c, numpy (least squares at call time), gtsam (the same by GTSAM, without covariances), or auto: c
    if it works and the Program is not too long. If compiled code would lose digits, or if the rank drops,
    least squares computes the result. Raises UnobservableError if sensors do not determine the motion at
    generic states, or if exact sensors are redundant; ChoiceError, CompileError, ImportError as in `build`.
    """
    if backend not in BACKENDS:
        raise ChoiceError(f"sensor problems have backends {', '.join(BACKENDS)}, not {backend!r}")
    observed = observability(robot, problem)
    if not observed.observable:
        raise UnobservableError(observed)
    program = _program(robot, problem, backend, parameters)
    spec = FunctionSpec(
        robot=robot,
        name="estimator",
        problem=problem,
        choice=Choice("best", None, "numpy" if program is None and backend == "auto" else backend),
        forward=(False,) * robot.nv,
        parameters=parameters,
        regrouped=regroups(problem),
    )
    runner: Any = None
    if program is None or program.limits:
        runner = sensor_runner(robot, problem, "gtsam" if backend == "gtsam" else "numpy")
    if program is not None:
        runner = spec.runner(program, runner)
    return Estimator(
        signature=_signature(robot, problem),
        runner=runner,
        robot=robot,
        spec=spec,
        description=_described(runner),
        observability=observed,
    )


def _program(robot, problem, backend, parameters):
    """The Program for a backend that compiles it; None for others."""
    if backend not in COMPILED:
        return None
    try:
        program = sensor_program(robot, problem, parameters)
    except NoPivotError as error:
        if backend != "auto":
            raise
        log.warning("no order of pivots (%s); numpy serves instead", error)
        return None
    if backend == "auto" and len(program.ops) > MOST_OPERATIONS:
        log.warning("%d operations would take minutes to compile; numpy serves instead", len(program.ops))
        return None
    return program


def _described(runner):
    """The name of the algorithm of a Runner."""
    if runner.program is not None:
        return "permuted LU"
    return "least squares" + " (gtsam)" * (runner.backend == "gtsam")


def _signature(robot, problem) -> Signature:
    signature = robot_signature(robot)
    readings = {"readings": ((len(problem.readings),), problem.readings)}
    return Signature(f"estimator of {signature.name}", signature.inputs | readings, signature.quaternions)


def _why_not(robot, problem, q, qd=None, readings=None, gravity=None):
    """Why there is no result at one of the positions q (..., nq), in words; None if the reason is unknown."""
    if reason := why_not(robot, None, q):
        return reason
    for position in np.reshape(q, (-1, robot.nq)):
        if wheel := leaning_wheel(robot.tree, problem.contacts, position, np.ones(len(problem.contacts))):
            return wheel
        observed = observability(robot, problem, position)
        if not observed.observable:
            return f"sensors do not determine the motion at this position: {observed}"
    return None
