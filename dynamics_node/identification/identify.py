"""From recordings to parameters, stage by stage, each with a verdict."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from dynamics_node.identification.base_parameters import (
    BaseParameters,
    Excitation,
    base_parameters,
    excitation,
)
from dynamics_node.identification.checks.fit import together
from dynamics_node.identification.checks.recording_check import RecordingCheck, checked
from dynamics_node.identification.checks.torque_checks import about_torques
from dynamics_node.identification.consistent import PRIOR_STD, consistent_parameters, joint_prior, refitted
from dynamics_node.identification.filtering import RecordedSums
from dynamics_node.identification.identified_robot import (
    identified_numbers,
    identified_robot,
    identified_text,
)
from dynamics_node.identification.regressor_model import USUAL, RegressorModel
from dynamics_node.identification.summary import ResidualSampler, ResidualSamples
from dynamics_node.identification.sums import Solution, folds, ordinary, residuals, weighted
from dynamics_node.robot.urdf_numbers import FIGURES

ROBUST = 3  # times that weights follow from residuals
OPTIONAL = ("rotor", "spring", "creep", "offset")  # terms that a robot can be identified without
METHODS = ("ordinary", "weighted", "robust")
Chunks = Callable[[], Iterator[dict[str, np.ndarray]]]  # {kind: (k, ...)} with q, qd, qdd, tau and maybe time
Stages = Callable[[str, int | None], contextlib.AbstractContextManager[Callable[[int], object]]]


class IdentificationError(ValueError):
    """Data that tell too little, in sentences."""


@dataclass(frozen=True, eq=False)
class Identified:
    """parameters (p,): those that bodies can have; solution: of the base parameters, without that condition.

    Root mean squares (nv,) of measured less computed torques, N m or N: rmse_nominal of the description
    (without friction, unless it has some), rmse_fitted of the parameters, rmse_cross_validated of parameters
    that are fitted likewise to other parts of the data, rmse_base of the base parameters of `solution`.
    samples: some of the states. warnings: what is odd about the data.
    """

    linear: RegressorModel
    base: BaseParameters
    excitation: Excitation
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

    @property
    def robot(self):
        """The Robot with these parameters."""
        return identified_robot(self.linear, self.parameters)

    @property
    def numbers(self):
        """What links and joints have, as files of parameters hold it: see `identified_numbers`."""
        return identified_numbers(self.linear, self.parameters)

    def text(self, description: str, figures=FIGURES) -> str:
        """The URDF with other numbers: see `identified_text`."""
        return identified_text(description, self.linear, self.parameters, figures)

    @property
    def joints(self):
        """(name, unit, number) of every torque that counts."""
        joints = self.linear.robot.independent_joints
        units = [unit for joint in joints for unit in joint.torque_units]
        every = zip(self.base.joints, units, range(len(units)), strict=True)
        return [one for one in every if self.linear.counts[one[2]]]

    @property
    def better(self):
        """Whether torques are nearer to the measured ones than the description's, taken together."""
        own = self.linear.counts
        size = np.maximum(self.rmse_nominal[own], 1e-300)
        return bool(np.mean((np.maximum(self.rmse_cross_validated, self.rmse_fitted)[own] / size) ** 2) < 1.0)


def identify(
    robot,
    recordings: Iterable[Chunks],
    terms=USUAL,
    method="weighted",
    prior_std=PRIOR_STD,
    force=False,
    cutoff: float | None = None,
    stages: Stages | None = None,
    backend="auto",
    measured: Sequence[str] | None = None,
) -> Identified:
    """Parameters of a robot, with loops or without, from recordings, each read twice, or five times if
    robust.

    terms: of `RegressorModel`; method: of METHODS; prior_std: of `consistent_parameters`; force: go on
    although a motion does not tell everything: what it leaves open stays near the description. cutoff: Hz, of
    a low-pass through which torques and regressors go before they are compared, see `filtering`.
    stages(name, total): called for what takes long, a context with a function that is told how much more is
    done. backend: of `RegressorModel`. measured: names of the coordinates whose torques count, all by
    default. Raises IdentificationError for data that tell too little, all reasons together.
    """
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}; there are {', '.join(METHODS)}")
    linear = RegressorModel(robot, tuple(terms), backend, None if measured is None else tuple(measured))
    recordings, stages = [partial(_chunks, linear, one) for one in recordings], stages or _silently
    with stages("base parameters", None):
        base = base_parameters(linear)
    warnings, sample, rows = _looked_at(linear, base, recordings, stages)
    sampler, summed = ResidualSampler(robot), partial(_summed, linear, base, recordings, cutoff, stages, rows)
    sums, start = summed("sums of squares", sampler=sampler), base.values(linear.described)
    S, count = sums.total()
    warnings += about_torques(linear, base, sums, sample) if sample else []
    solution = ordinary(sums, start) if method == "ordinary" else weighted(sums, start)
    last = sums
    for k in range(ROBUST if method == "robust" else 0):
        fit = solution.x, solution.spread
        last = summed(f"robust, {k + 1} of {ROBUST}", fit)
        solution = weighted(last, start)
    _require_rows(count, warnings)
    with stages("bodies", None):
        prior = joint_prior(linear, base, S, count)
        believed = consistent_parameters(linear, base, solution, prior_std, prior)
        parameters = believed.parameters
    found = excitation(base, solution.information, _sizes(linear, parameters))
    _require_enough(found, warnings, force, lambda: _without_terms(linear, base, solution, parameters))
    with stages("judge", None):
        least = ordinary if method == "ordinary" else weighted
        solve = partial(_bodies, linear, base, start, least, believed, prior_std, prior)
        unseen, samples = _cross_validated(base, sums, last, solve), sampler.samples(linear, parameters)
    return Identified(
        linear=linear,
        base=base,
        excitation=found,
        solution=solution,
        parameters=parameters,
        rmse_nominal=residuals(S, count, start),
        rmse_fitted=residuals(S, count, base.values(parameters)),
        rmse_base=residuals(S, count, solution.x),
        rmse_cross_validated=unseen,
        rows=int(sums.rows - sums.skipped),
        samples=samples,
        method=method,
        cutoff=cutoff,
        warnings=tuple(warnings),
    )


def _chunks(linear, chunks):
    """Of a recording, without torques that do not count."""
    return (chunk | {"tau": linear.torques(chunk["tau"])} for chunk in chunks())


@contextlib.contextmanager
def _silently(name, total):
    yield lambda done: None


def _looked_at(linear, base, recordings, stages):
    """Complaints, a sample of rows of all recordings, none where torques come late, and the number of their
    rows."""
    warnings: list[str] = []
    checks, (linear, base) = [], checked(linear, base)
    with stages("read and check", None) as advance:
        for number, chunks in enumerate(recordings, 1):
            checks.append(check := RecordingCheck(linear, base))
            for chunk in chunks():
                check.add(chunk)
                advance(len(chunk["qd"]))
            which = f"recording {number}: " if len(recordings) > 1 else ""
            warnings += [which + told for told in check.warnings()]
    rows = sum(check.rows for check in checks)
    if any(check.late for check in checks):  # torques that come late do not fit bodies, for no other reason
        return warnings, {}, rows
    return warnings, together([check.sample for check in checks]), rows


def _summed(linear, base, recordings, cutoff, stages, rows, name, fit=None, sampler=None):
    sums = RecordedSums(linear, base, cutoff, rows)
    with stages(name, rows) as advance:
        for chunks in recordings:
            sums.begin()
            if sampler:
                sampler.begin()
            for chunk in chunks():
                sums.add_chunk(chunk, fit)
                if sampler:
                    sampler.add(chunk)
                advance(len(chunk["qd"]))
    return sums


def _bodies(linear, base, start, solve, believed, prior_std, prior, sums, stretches):
    """Base values (r,) of consistent parameters that fit some stretches."""
    solution = solve(sums, start, stretches)
    return base.values(refitted(believed, linear, base, solution, prior_std, prior))


def _cross_validated(base, sums, weighed, solve):
    """(nv,): root mean squares of torques over all folds, each of them unknown to the parameters it is held
    against. weighed: the sums that are fitted, robust or not; solve(sums, stretches): base values (r,)."""
    squares = np.zeros(sums.count.shape[1])
    for held, others in folds():
        S, count = sums.total(held)
        if count.any() and sums.count[others].any():
            squares += residuals(S, count, solve(weighed, others)) ** 2 * count
    return np.sqrt(squares / np.maximum(sums.count.sum(axis=0), 1.0))


def _sizes(linear, parameters):
    """Of the bodies found. Torques may tell little but their masses: links reach to the next joint."""
    own = linear.described_inertias if "inertia" not in linear.terms else parameters[linear.places("inertia")]
    return linear.sizes_of(own, linear.ways)


def _require_rows(count, warnings):
    if not count.any():
        raise IdentificationError("; ".join(["no row can be used", *warnings]))


def _require_enough(found, warnings, force, otherwise):
    """otherwise(): what would be told by other terms, in sentences."""
    if force or not (weak := found.lost):
        return
    more = f"; {len(weak) - 6} more" if len(weak) > 6 else ""
    reason = f"the motion does not tell {len(weak)} of {len(found.singular)} combinations of parameters: "
    remedy = "Move more joints, further and faster; or force it"
    told = [reason + "; ".join(weak[:6]) + more, *warnings, *otherwise(), remedy]
    raise IdentificationError(". ".join(told))


def _without_terms(linear, base, solution, parameters):
    """Sentences: how many combinations less would be open without one of the terms of joints."""
    sizes, kinds = _sizes(linear, parameters), np.array([name.rpartition(".")[2] for name in base.names])
    open_now = len(excitation(base, solution.information, sizes).lost)
    for term in (term for term in OPTIONAL if term in linear.terms):
        rest = kinds[base.chosen] != term
        fewer = replace(base, chosen=base.chosen[rest], combinations=base.combinations[rest])
        left = len(excitation(fewer, solution.information[np.ix_(rest, rest)], sizes).lost)
        if left < open_now:
            terms = ",".join(own for own in linear.terms if own != term)
            yield f"Without {term} (--terms {terms}) {left} of them would be open"
