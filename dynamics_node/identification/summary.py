"""What an identification is worth: residuals at some states, joints that got worse, sentences by stage."""

from typing import NamedTuple

import numpy as np

from dynamics_node.identification.regressor_model import RegressorModel
from dynamics_node.io import Thinned

MOST = 1200  # states: more than a plot has points
BLOCK = 100  # states whose regressors are in memory


class ResidualSamples(NamedTuple):
    """time (k,), s, or rows of recordings without time, recording after recording; measured,
    described, identified (k, nv): torques.

    every: how many states one of them stands for; timed: whether all of time is in s.
    """

    time: np.ndarray
    measured: np.ndarray
    described: np.ndarray
    identified: np.ndarray
    every: int
    timed: bool


class ResidualSampler:
    """Takes in the chunks of recordings."""

    def __init__(self, robot):
        self._widths = (1, robot.nq, robot.nv, robot.nv, robot.nv)
        self._states = Thinned(MOST)
        self._rows, self._begin, self._end, self._timed = 0, None, 0.0, True

    def begin(self):
        """Another recording: its time goes on where the last one ended."""
        self._begin, self._rows = None, 0

    def add(self, chunk):
        """{kind: (rows, ...)} with q, qd, qdd, tau and maybe time."""
        count = len(chunk["q"])
        self._timed &= "time" in chunk
        rows = np.arange(self._rows, self._rows + count, dtype=float)
        time = np.asarray(chunk.get("time", rows), dtype=float)
        self._rows += count
        finite = time[np.isfinite(time)]
        if not len(finite):
            return
        if self._begin is None:
            self._begin = finite[0] - self._end
        time = time - self._begin
        self._end = float(finite[-1] - self._begin)
        self._states.add(np.column_stack([time, *(chunk[kind] for kind in ("q", "qd", "qdd", "tau"))]))

    def samples(self, linear: RegressorModel, parameters) -> ResidualSamples:
        """parameters (p,): of the result."""
        rows = self._states.rows(sum(self._widths))
        time, q, qd, qdd, tau = np.split(rows, np.cumsum(self._widths)[:-1], axis=1)
        both = np.full((2, *tau.shape), np.nan)
        good = np.flatnonzero(np.isfinite(rows[:, : -linear.robot.nv]).all(axis=1))
        for at in np.array_split(good, 1 + len(good) // BLOCK):
            if len(at):
                state = [np.ascontiguousarray(own[at]) for own in (q, qd, qdd)]
                W, known = linear.matrix(*state), linear.known(*state)
                both[:, at] = known + W @ linear.described, known + W @ parameters
        return ResidualSamples(time[:, 0], tau, both[0], both[1], self._states.every, self._timed)


PARTS = 10  # of the recordings
ENOUGH = 20  # states a part
CLEARLY = 1.2  # times what the description leaves
COUNTS = 0.5  # of what the result leaves in all: parts of which less is left are quiet


def worse_joints(found):
    """{joint: sentence} of an Identified: where cross-validated or fitted torques are farther from measured
    ones than the description's, over all states or in some tenths of those that are samples."""
    result = np.maximum(found.rmse_cross_validated, found.rmse_fitted)
    told = {}
    for name, unit, k in found.joints:
        if result[k] > found.rmse_nominal[k]:
            told[name] = (
                f"{result[k]:.3g} {unit} are left, of the description {found.rmse_nominal[k]:.3g} {unit}"
            )
        elif part := _in_parts(found.samples, k):
            count, own, described = part
            told[name] = (
                f"in {count} of {PARTS} parts of the recordings more is left than of the description, "
                f"{own:.3g} {unit} instead of {described:.3g} {unit}"
            )
    return told


def _in_parts(samples, k):
    """How many parts are worse, and what is left in those of the result and of the description; None where
    no part is."""
    left = np.stack(
        [samples.measured[:, k] - samples.identified[:, k], samples.measured[:, k] - samples.described[:, k]]
    )
    left = left[:, np.isfinite(left).all(axis=0)] ** 2
    if left.shape[1] < PARTS * ENOUGH:
        return None
    parts = [part.mean(axis=1) for part in np.array_split(left, PARTS, axis=1)]
    least = COUNTS**2 * left[0].mean()
    worse = [part for part in parts if part[0] > max(CLEARLY**2 * part[1], least)]
    return (len(worse), *np.sqrt(np.mean(worse, axis=0)).tolist()) if worse else None


class StageSummary(NamedTuple):
    """stage: check, solve, bodies or judge; good: nothing has to be done about it."""

    stage: str
    told: str
    good: bool = True


def summary(found):
    """Of an Identified."""
    base = found.base
    yield from (StageSummary("check", told, False) for told in found.warnings)
    yield StageSummary(
        "check",
        f"{found.rows} states, {base.count} base parameters of {len(base.names)}, condition "
        f"{found.excitation.condition:.3g}; {len(base.unidentifiable)} parameters cannot be known so at all",
    )
    yield from (StageSummary("check", f"not excited: {told}", False) for told in found.excitation.weak)
    yield StageSummary("solve", _solved(found))
    yield StageSummary("bodies", _bodies(found))
    for name, told in worse_joints(found).items():
        yield StageSummary("judge", f"NOT better at {name}: {told}", False)
    yield StageSummary("judge", f"{'' if found.better else 'NOT '}better than the description", found.better)


def _solved(found):
    known = found.solution.std < 0.1 * np.abs(found.solution.x)
    count = f"{int(known.sum())} of {found.base.count}"
    below = f" of what is below {found.cutoff:g} Hz" if found.cutoff else ""
    return f"{found.method} least squares{below}: {count} base parameters are known to a tenth"


def _bodies(found):
    own = found.linear.counts
    more = float((found.rmse_fitted[own] / np.maximum(found.rmse_base[own], 1e-300)).max(initial=1.0))
    return (
        "masses are positive and inertias those of bodies; what remains of the torques is at most "
        f"{more:.3g} times what the best base parameters leave{_mass(found)}"
    )


def _mass(found):
    """What is said of the mass of all bodies."""
    linear, base = found.linear, found.base
    if "inertia" not in linear.terms:
        return ""
    masses = np.array([name.endswith(".m") for name in linear.names], dtype=float)
    share = np.linalg.lstsq(base.combinations.T, masses, rcond=None)[0]
    told = np.allclose(share @ base.combinations, masses, atol=1e-6)
    before, after = masses @ linear.described, masses @ found.parameters
    weighs = f"; the bodies weigh {after:.3g} kg, described {before:.3g} kg"
    if not told:
        return f"{weighs}, which torques do not tell: only combinations with other parameters"
    return (
        f"{weighs}, with a standard deviation of {np.sqrt(share @ found.solution.covariance @ share):.2g} kg"
    )
