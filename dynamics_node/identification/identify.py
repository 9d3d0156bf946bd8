"""Identify parameters from recordings in stages, each with a verdict."""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, get_args

import numpy as np

from dynamics_node.display import html_table, titled
from dynamics_node.errors import IdentificationError, InputError
from dynamics_node.functions import Backend
from dynamics_node.identification.base_parameters import (
    BaseParameters,
    Excitation,
    base_parameters,
    excitation,
)
from dynamics_node.identification.checks.recording_check import checked
from dynamics_node.identification.checks.sample import together
from dynamics_node.identification.checks.torque_checks import about_torques
from dynamics_node.identification.consistent import PRIOR_STD, ConsistentFit, joint_prior
from dynamics_node.identification.identified_robot import (
    identified_numbers,
    identified_robot,
    identified_text,
)
from dynamics_node.identification.passes import (
    Chunks,
    Passes,
    Progress,
    check_recording,
    sum_recording,
)
from dynamics_node.identification.regressor_model import USUAL, RegressorModel
from dynamics_node.identification.summary import ResidualSampler, ResidualSamples
from dynamics_node.identification.sums import Solution, Sums, folds, ordinary, residuals, weighted
from dynamics_node.identification.term_selection import TermSelection, select_terms
from dynamics_node.io import Tasks
from dynamics_node.robot import Robot
from dynamics_node.robot.overrides import Overrides
from dynamics_node.robot.urdf_numbers import FIGURES
from dynamics_node.robot.wrong_calls import explains_wrong_calls

ROBUST = 3  # reweighting iterations
Method = Literal["ordinary", "weighted", "robust"]
METHODS: tuple[str, ...] = get_args(Method)


@dataclass(frozen=True, eq=False, repr=False)
class Identified:
    """Identified inertias and friction of a robot, and their errors: the result of `identify`.

    Root mean squares of measured minus computed torques judge the result, N m or N. Compare
    `rmse_cross_validated`, of unseen data, with `rmse_nominal`, of the description.

    Attributes
    ----------
    linear : RegressorModel
        The torques as a linear function of p parameters.
    base : BaseParameters
        The r combinations of parameters that the torques determine.
    excitation : Excitation
        Combinations that the motion excites well or badly; `undetermined` ones stay near the description.
    selection : TermSelection
        Terms that reduce the errors of unseen torques.
    solution : Solution
        Unconstrained estimate of the base parameters, with its covariance (r, r).
    parameters : ndarray (p,)
        Physically consistent estimate; `linear.names` are its names.
    rmse_nominal : ndarray (nv,)
        Error of the description, without friction unless it describes some.
    rmse_fitted : ndarray (nv,)
        Error of `parameters`.
    rmse_cross_validated : ndarray (nv,)
        Error of parameters fitted to the other parts of the data.
    rmse_base : ndarray (nv,)
        Error of `solution`.
    rows : int
        Number of states.
    samples : ResidualSamples
        A subset of the states: measured and computed torques.
    method : str
        'ordinary', 'weighted' or 'robust'.
    cutoff : float or None
        Cut-off of the low-pass filter, Hz.
    warnings : tuple of str
        Problems in the data.

    Examples
    --------
    >>> from dynamics_demo.robots import geared_chain
    >>> arm = dn.parse_robot(geared_chain(1))  # a link on a geared motor
    >>> t = np.linspace(0.0, 10.0, 501)[:, None]
    >>> q, qd, qdd = np.sin(t), np.cos(t), -np.sin(t)
    >>> tau = dn.evaluate(arm, "inverse_dynamics", q, qd, qdd, backend="numpy") + 0.1 * qd
    >>> tau = tau + 0.02 * np.sin(50.0 * t)  # an error of the sensor
    >>> recording = {"time": t[:, 0], "q": q, "qd": qd, "qdd": qdd, "tau": tau}
    >>> dn.identify(arm, [lambda: iter([recording])], ["inertia", "viscous"], backend="numpy")
    Identified 'geared_chain': better than the description
      states          501
      method          weighted least squares
      parameters      6 base parameters of 21
      joints          j1
      rms described   [0.0737]
      rms identified  [0.0141]
      rms unseen      [0.0141]
    """

    linear: RegressorModel
    base: BaseParameters
    excitation: Excitation
    selection: TermSelection
    solution: Solution
    parameters: np.ndarray
    rmse_nominal: np.ndarray
    rmse_fitted: np.ndarray
    rmse_cross_validated: np.ndarray
    rmse_base: np.ndarray
    rows: int
    samples: ResidualSamples
    method: str
    cutoff: float | None
    warnings: tuple[str, ...] = field(default=())

    def __repr__(self):
        counts = self.linear.counts
        rms = {f"rms {name}": rms[counts] for name, rms in self._rms().items()}
        verdict = "better" if self.better else "not better"
        return titled(
            f"Identified {self.linear.robot.name!r}: {verdict} than the description",
            states=self.rows,
            method=f"{self.method} least squares" + (f" below {self.cutoff:g} Hz" if self.cutoff else ""),
            parameters=f"{self.base.count} base parameters of {len(self.base.names)}",
            joints=[name for name, *_ in self.joints],
            **rms,
            warnings=self.warnings or None,
        )

    def _repr_html_(self):
        """A table of joints with root mean squares of torque errors, for notebooks."""
        rms = self._rms()
        rows = [
            (name, unit, *(f"{errors[k]:.4g}" for errors in rms.values())) for name, unit, k in self.joints
        ]
        return html_table(
            ("joint", "unit", *(f"rms {name}" for name in rms)), rows, repr(self).partition("\n")[0]
        )

    def _rms(self):
        """Root mean squares (nv,) of torque errors."""
        return {
            "described": self.rmse_nominal,
            "identified": self.rmse_fitted,
            "unseen": self.rmse_cross_validated,
        }

    @property
    def robot(self) -> Robot:
        """The Robot with these parameters."""
        return identified_robot(self.linear, self.parameters)

    @property
    def numbers(self) -> Overrides:
        """Numbers of links and joints, as in parameter files."""
        return identified_numbers(self.linear, self.parameters)

    def text(self, description: str, figures: int = FIGURES) -> str:
        """Write the identified numbers into a URDF.

        Only numbers change. A URDF has no field for offsets, springs and rotor inertias.

        Parameters
        ----------
        description : str
            Text of the robot's URDF.
        figures : int
            Significant digits.

        Returns
        -------
        str
            The URDF with identified inertias, damping and friction.

        Raises
        ------
        ModelError
            If the URDF lacks a joint or the inertial of a link, or is not well-formed.
        """
        return identified_text(description, self.linear, self.parameters, figures)

    @property
    def joints(self) -> list[tuple[str, str, int]]:
        """Name, unit and index of every torque that is used."""
        joints = self.linear.robot.independent_joints
        units = [unit for joint in joints for unit in joint.torque_units]
        every = zip(self.base.joints, units, range(len(units)), strict=True)
        return [one for one in every if self.linear.counts[one[2]]]

    @property
    def better(self) -> bool:
        """Whether the computed torques are closer to the measured ones than the description's, on average."""
        counts = self.linear.counts
        size = np.maximum(self.rmse_nominal[counts], 1e-300)
        return bool(
            np.mean((np.maximum(self.rmse_cross_validated, self.rmse_fitted)[counts] / size) ** 2) < 1.0
        )


@explains_wrong_calls
def identify(
    robot: Robot,
    recordings: Iterable[Chunks],
    terms: Sequence[str] | None = None,
    method: Method = "weighted",
    prior_std: float = PRIOR_STD,
    cutoff: float | None = None,
    progress: Progress | None = None,
    backend: Backend = "auto",
    measured: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    client: Any = None,
) -> Identified:
    """Identify inertias and friction of a robot from recordings.

    Every recording is read twice, five times by the robust method. Parameters that the motion does not
    determine stay near the description: see `Identified.excitation`.

    Parameters
    ----------
    robot : Robot
        The described robot, with or without closed loops.
    recordings : iterable of callable
        Each call of a recording returns an iterator over its chunks. A chunk is a mapping: 'q' (k, nq), 'qd',
        'qdd' and 'tau' (k, nv), and optionally 'time' (k,), in rad, m, s, N m and N.
    terms : sequence of str, optional
        Kinds of parameters, of `RegressorModel`: by default inertia, viscous, coulomb, offset, and those of
        rotor, creep and spring that reduce the errors of unseen torques.
    method : str
        Least squares: 'ordinary', 'weighted' (each torque by its residuals) or 'robust' (Huber).
    prior_std : float
        Relative standard deviation of the described bodies. A smaller one pulls poorly excited parameters
        more strongly toward the description.
    cutoff : float, optional
        Cut-off of the low-pass filter for torques and regressors, Hz; default no filter.
    progress : callable, optional
        Progress: ``progress(name, total)`` returns a context manager for a long stage. Its function is called
        with the number of further rows.
    backend : str
        As in `build`, for the regressors.
    measured : sequence of str, optional
        Names of the coordinates whose torques are used; default all.
    names : sequence of str, optional
        Names of the recordings in warnings, by default 'recording 1' and so on.
    client : distributed.Client, optional
        A dask cluster: every recording is a task, which cloudpickle sends. See docs/how-to/cluster.md.

    Returns
    -------
    Identified

    Raises
    ------
    IdentificationError
        If no row is usable or nothing moves, with all reasons.
    ValueError
        For an unknown method, term or coordinate.
    TypeError
        For a recording that is no function.

    See Also
    --------
    design_excitation : a motion that determines the parameters.

    Examples
    --------
    >>> from dynamics_demo.robots import geared_chain
    >>> arm = dn.parse_robot(geared_chain(1))  # a link on a geared motor
    >>> t = np.linspace(0.0, 10.0, 501)[:, None]
    >>> q, qd, qdd = np.sin(t), np.cos(t), -np.sin(t)
    >>> tau = dn.evaluate(arm, "inverse_dynamics", q, qd, qdd, backend="numpy") + 0.1 * qd
    >>> recording = {"time": t[:, 0], "q": q, "qd": qd, "qdd": qdd, "tau": tau}
    >>> fit = dn.identify(arm, [lambda: iter([recording])], ["inertia", "viscous"], backend="numpy")
    >>> fit.robot.damping.round(3)  # N m s/rad
    array([0.1])

    References
    ----------
    Gautier, Dynamic identification of robots with power model, 1997: filtering.

    Wensing, Kim and Slotine, Linear matrix inequalities for physically consistent inertial parameter
    identification, 2018.

    Lee, Wensing and Park, Geometric robot dynamic identification, 2019: the prior of bodies.
    """
    if method not in METHODS:
        raise InputError(f"unknown method {method!r}; there are {', '.join(METHODS)}")
    recordings = required_recordings(recordings)
    torques = None if measured is None else tuple(measured)
    linear = RegressorModel(robot, USUAL if terms is None else tuple(terms), backend, torques)
    progress = progress or _no_progress
    names = [f"recording {k}" for k in range(1, len(recordings) + 1)] if names is None else list(names)
    passes = Passes(recordings, names, progress, None if client is None else Tasks(client))
    with progress("base parameters", None):
        base = base_parameters(linear)
    warnings, sample, rows, late = _check_recordings(linear, base, passes)
    selection = select_terms(linear, base, {} if late else sample)
    if selection.added and terms is None:
        linear = replace(linear, terms=selection.terms)
        base = base_parameters(linear)
    summed = partial(_summed, linear, base, cutoff, passes, rows)
    start = base.values(linear.described)
    sums, sampler = summed("sums of squares")
    S, count = sums.total()
    warnings += about_torques(linear, base, sums, sample, late) if sample else []
    solve = _solver(summed, sums, start, method)
    solution = solve()
    _require_rows(count, warnings)
    with progress("bodies", None):
        prior = joint_prior(linear, base, S, count)
        bodies = ConsistentFit(linear, base, prior_std, prior)
        consistent = bodies.parameters(solution)
        parameters = consistent.parameters
    motion = excitation(base, solution.information, _sizes(linear, parameters, prior))
    _require_motion(motion, count, warnings)
    with progress("judge", None):
        rmse_unseen = _cross_validated(sums, lambda train: bodies.refitted(consistent, solve(train)))
        samples = sampler.samples(linear, parameters)
    return Identified(
        linear=linear,
        base=base,
        excitation=motion,
        selection=selection,
        solution=solution,
        parameters=parameters,
        rmse_nominal=residuals(S, count, start),
        rmse_fitted=residuals(S, count, base.values(parameters)),
        rmse_base=residuals(S, count, solution.x),
        rmse_cross_validated=rmse_unseen,
        rows=int(sums.rows - sums.skipped),
        samples=samples,
        method=method,
        cutoff=cutoff,
        warnings=tuple(warnings),
    )


def required_recordings(recordings: Iterable[Chunks]) -> list[Chunks]:
    """The recordings in a list. Raises TypeError for one that is no function."""
    recordings = list(recordings)
    for one in recordings:
        if not callable(one):
            reason = f"not {type(one).__name__}: lambda: iter([{{'q': q, 'qd': qd, 'qdd': qdd, 'tau': tau}}])"
            raise TypeError(f"a recording must be a function that returns its chunks, {reason}")
    return recordings


@contextlib.contextmanager
def _no_progress(name, total):
    yield lambda done: None


def _check_recordings(linear, base, passes):
    """Warnings, a sample of rows of all recordings, the number of rows, and whether torques are delayed."""
    warnings: list[str] = []
    linear, base = checked(linear, base)
    checks = list(passes("read and check", None, check_recording, linear=linear, base=base))
    for name, check in zip(passes.names, checks, strict=True):
        which = f"{name}: " if len(checks) > 1 else ""
        warnings += [which + warning for warning in check.warnings]
    sample = together([check.sample for check in checks])
    return warnings, sample, sum(check.rows for check in checks), any(check.late for check in checks)


def _summed(linear, base, cutoff, passes, rows, stage, fit=None):
    """Sums and a ResidualSampler of all recordings."""
    sums, sampler = Sums(linear, base, cutoff), ResidualSampler(linear.robot)
    for part in passes(stage, rows, sum_recording, linear=linear, base=base, cutoff=cutoff, fit=fit):
        sums.append(part.sums)
        sampler.append(part.sampler)
    return sums, sampler


def _solver(
    summed: Callable[..., tuple[Sums, ResidualSampler]], sums: Sums, start, method: Method
) -> Callable[..., Solution]:
    """Least squares by a method: a function of the numbers of stretches, by default all."""
    least_squares = ordinary if method == "ordinary" else weighted
    for k in range(ROBUST if method == "robust" else 0):
        fit = least_squares(sums, start)
        sums, _ = summed(f"robust, {k + 1} of {ROBUST}", (fit.x, fit.spread))
    return partial(least_squares, sums, start)


def _cross_validated(sums, solve):
    """Root mean squares (nv,) of torques over all folds, each tested on parameters fitted to the others.
    solve(stretches): base values (r,)."""
    squares = np.zeros(sums.count.shape[1])
    for test, train in folds():
        S, count = sums.total(test)
        if count.any() and sums.count[train].any():
            squares += residuals(S, count, solve(train)) ** 2 * count
    return np.sqrt(squares / np.maximum(sums.count.sum(axis=0), 1.0))


def _sizes(linear, parameters, prior):
    """Sizes (p,) that a parameter of the robot may have: of the identified bodies, and the prior's standard
    deviations of joint parameters. Torques may determine little of a body except its mass, so a link is
    assumed to reach to the next joint."""
    inertias = (
        linear.described_inertias if "inertia" not in linear.terms else parameters[linear.places("inertia")]
    )
    sizes, bodies = prior.copy(), linear.places("inertia")
    sizes[bodies] = linear.sizes_of(inertias, linear.reaches)[bodies]
    return sizes


def _require_rows(count, warnings):
    if not count.any():
        raise IdentificationError("; ".join(["no row is usable", *warnings]))


def _require_motion(motion, count, warnings):
    """A single posture determines one combination per torque at most."""
    determined = len(motion.singular) - len(motion.undetermined)
    if determined <= np.count_nonzero(count):
        reason = f"the motion determines {determined} of {len(motion.singular)} combinations of parameters"
        raise IdentificationError(". ".join([reason, *warnings, "Move more joints, farther and faster"]))
