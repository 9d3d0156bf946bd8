"""Estimators: Functions of what sensors read."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.health import why_not
from dynamics_node.functions.arguments import Signature, robot_signature
from dynamics_node.functions.checks import InputError, SolutionError
from dynamics_node.functions.choices import COMPILED, Choice, ChoiceError
from dynamics_node.functions.robot_functions import RobotFunction
from dynamics_node.functions.spec import Spec
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
_DESCRIPTIONS = dict.fromkeys(COMPILED, "permuted LU") | {"gtsam": "least squares (gtsam)"}
LONGEST = 150_000  # operations of a Program that `auto` compiles


class UnobservableError(ValueError):
    """Sensors that do not determine the motion; names what is open and which sensor would help.

    observability: the same as data.
    """

    def __init__(self, found: Observability):
        super().__init__(str(found))
        self.observability = found

    def __reduce__(self):
        return type(self), (self.observability,)


class Estimate(NamedTuple):
    """qdd, tau (..., nv), f_ext (..., nbodies, 6) ON the bodies in their axes, moment first; residuals (...,
    m): readings minus what they should have been; chi_square (...): the sum of their squares and those of
    priors, in standard deviations. Covariances that the problem asks for: of qdd and tau (..., nv, nv), of
    the wrench on every body (..., nbodies, 6, 6)."""

    qdd: np.ndarray
    tau: np.ndarray
    f_ext: np.ndarray
    residuals: np.ndarray
    chi_square: np.ndarray
    qdd_covariance: np.ndarray | None = None
    tau_covariance: np.ndarray | None = None
    f_ext_covariance: np.ndarray | None = None


class ExternalWrenchEstimate(NamedTuple):
    """The wrench (..., 6) that the environment exerts ON a link, moment first (N m, N), in the link's axes at
    its origin, and its covariance (..., 6, 6), None where it is not computed. See
    docs/how-to/external_wrenches.md for what estimates it."""

    link: str
    wrench: np.ndarray
    covariance: np.ndarray | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Estimator(RobotFunction):
    """estimate = estimator(q, qd, readings): what sensors say about a motion, see `sensor_problem`.

    observability: of the problem at generic states.
    """

    observability: Observability

    def __post_init__(self):
        super().__post_init__()
        self._keep(why=partial(_why_not, self.robot, self.spec.problem))

    @property
    def degrees_of_freedom(self) -> int:
        """Of chi_square."""
        return self.observability.degrees_of_freedom

    @cached_property
    def limit(self) -> float:
        """What chi_square exceeds at one state of 1000 if every sensor is as good as it says."""
        return chi_square_limit(self.degrees_of_freedom)

    def consistent(self, estimate: Estimate) -> np.ndarray:
        """(...): whether sensors do not contradict each other; False where there is no result."""
        checked = self.limit if self.degrees_of_freedom else np.inf
        return np.isfinite(estimate.chi_square) & (np.asarray(estimate.chi_square) <= checked)

    def external_wrenches(self, estimate: Estimate) -> tuple[ExternalWrenchEstimate, ...]:
        """The wrench on every link that the problem's sensors let the environment touch; of links on one body
        the first, whose wrenches cannot be told apart. The covariance is there if the problem asks for that
        of f_ext."""
        found, covariance = [], estimate.f_ext_covariance
        for link, (body, X) in self._contact_links.items():
            wrench = estimate.f_ext[..., body, :] @ X.T
            of_it = None if covariance is None else X @ covariance[..., body, :, :] @ X.T
            found.append(ExternalWrenchEstimate(link, wrench, of_it))
        return tuple(found)

    @cached_property
    def _contact_links(self):
        """{link: (its body, wrench transform (6, 6) from the body to the link)}."""
        found: dict = {}
        for contact in self.problem.contacts:
            frame = self.robot.frame(contact.link)
            if frame.body not in (body for body, _ in found.values()):
                found[contact.link] = frame.body, inverse_motion_transform(frame.X).T
        return found

    def judge(self, q, qd, readings, *, gravity=None) -> Judgement:
        """Whether sensors contradict each other at one state, and which of them is to blame. Raises as the
        estimator itself."""
        arrays = self._arrays(q, qd, readings, gravity)
        self(*arrays[:3], gravity=arrays[3])  # refuses what is no state
        q, qd, readings, g = (np.asarray(array, dtype=float) for array in arrays)
        if any(array.ndim > 1 for array in (q, qd, readings, g)):
            raise InputError("judge takes one state: q (nq,), qd (nv,), readings (m,), gravity (3,)")
        found = judge(self.robot, self.problem, q, qd, readings, g)
        if found is None:
            raise SolutionError(_why_not(self.robot, self.problem, q, qd, readings, g))
        return found

    def __call__(self, q, qd, readings, *, gravity=None, errors="raise") -> Estimate:
        """The Estimate at states q (..., nq), qd (..., nv), readings (..., m) in the order of
        `problem.readings`, or {name of a sensor: (..., rows) or (...)}; gravity (..., 3) in place of the
        robot's."""
        arrays = self._arrays(q, qd, readings, gravity)
        results = self._new(tuple, *arrays)
        if results is None:
            results = self._states(self.runner, arrays, None, errors)
        return Estimate(**dict(zip(self.runner.outputs, results, strict=True)))

    def _arrays(self, q, qd, readings, gravity):
        if isinstance(readings, Mapping):
            readings = self.problem.gathered(readings)
        return q, qd, readings, self.robot.gravity if gravity is None else gravity


def build_estimator(robot: Robot, problem: SensorProblem, backend="auto", parameters=()) -> Estimator:
    """The Estimator of a sensor problem.

    backend: c, numpy (least squares at call time), gtsam (the same by GTSAM, without covariances), or auto: c
    where it works and the Program is not too long. Where compiled code would lose digits, and where rank
    drops, least squares is asked. Raises UnobservableError for sensors that do not determine the motion at
    generic states, or say something exactly twice; ChoiceError, CompileError, ImportError as `build`.
    """
    if backend not in BACKENDS:
        raise ChoiceError(f"sensor problems have backends {', '.join(BACKENDS)}, not {backend!r}")
    found = observability(robot, problem)
    if not found.observable:
        raise UnobservableError(found)
    numeric = partial(sensor_runner, robot, problem, "gtsam" if backend == "gtsam" else "numpy")
    write = partial(sensor_program, robot, problem, parameters)
    program = _program(write, backend)
    spec = Spec(
        robot=robot,
        name="estimator",
        problem=problem,
        choice=Choice("best", None, "numpy" if program is None and backend == "auto" else backend),
        forward=(False,) * robot.nv,
        write=None if program is None else write,
        numeric=numeric,
        parameters=parameters,
        refines=program is not None and bool(program.limits),
        regrouped=regroups(problem),
    )
    runner = spec.runner(program=program)
    return Estimator(
        signature=_signature(robot, problem),
        runner=runner,
        robot=robot,
        spec=spec,
        description=_DESCRIPTIONS.get(runner.backend, "least squares"),
        observability=found,
    )


def _program(write, backend):
    """The Program of a backend that runs one, None where none is to be compiled."""
    if backend not in COMPILED:
        return None
    try:
        program = write()
    except NoPivotError as error:
        if backend != "auto":
            raise
        log.warning("no order of pivots (%s); numpy serves instead", error)
        return None
    if backend == "auto" and len(program.ops) > LONGEST:
        log.warning("%d operations would take minutes to compile; numpy serves instead", len(program.ops))
        return None
    return program


def _signature(robot, problem) -> Signature:
    own = robot_signature(robot)
    readings = {"readings": ((len(problem.readings),), problem.readings)}
    return Signature(f"estimator of {own.name}", own.inputs | readings, own.quaternions)


def _why_not(robot, problem, q, qd=None, readings=None, gravity=None):
    """Why there is no result at one of the positions q (..., nq), in words; None if that is not known."""
    if reason := why_not(robot, None, q):
        return reason
    for position in np.reshape(q, (-1, robot.nq)):
        found = observability(robot, problem, position)
        if not found.observable:
            return f"sensors do not determine the motion at this position: {found}"
    return None
