"""Quality of an identification: residuals at some states, joints that got worse, and a summary by stage."""

from typing import NamedTuple

import numpy as np

from dynamics_node.identification.regressor_model import RegressorModel
from dynamics_node.io import Thinned

MOST = 1200  # states: more than the pixels of a plot
BLOCK = 100  # states per regressor evaluation


class ResidualSamples(NamedTuple):
    """time (k,): s, or row numbers if there is no time, recordings concatenated; measured, described,
    identified (k, nv): torques.

    every: states per sample; timed: whether all times are in s.
    """

    time: np.ndarray
    measured: np.ndarray
    described: np.ndarray
    identified: np.ndarray
    every: int
    timed: bool


class ResidualSampler:
    """Collects samples from chunks of a recording; `append`: later ones follow it in time."""

    def __init__(self, robot):
        self._widths = (1, robot.nq, robot.nv, robot.nv, robot.nv)
        self._states = Thinned(MOST)
        self._rows, self._begin, self._end, self._timed = 0, None, 0.0, True

    def add(self, chunk):
        """Add {kind: (rows, ...)} with q, qd, qdd, tau and optionally time."""
        count = len(chunk["q"])
        self._timed &= "time" in chunk
        rows = np.arange(self._rows, self._rows + count, dtype=float)
        time = np.asarray(chunk.get("time", rows), dtype=float)
        self._rows += count
        finite = time[np.isfinite(time)]
        if not len(finite):
            return
        if self._begin is None:
            self._begin = finite[0]
        time = time - self._begin
        self._end = float(finite[-1] - self._begin)
        self._states.add(np.column_stack([time, *(chunk[kind] for kind in ("q", "qd", "qdd", "tau"))]))

    def append(self, other: "ResidualSampler"):
        """Add the samples of another recording, whose time continues at the end of the last one."""
        self._states.append(other._states, shift=np.eye(1, sum(self._widths))[0] * self._end)
        self._end, self._timed = self._end + other._end, self._timed and other._timed

    def samples(self, linear: RegressorModel, parameters) -> ResidualSamples:
        """parameters (p,): the identified ones."""
        rows = self._states.rows(sum(self._widths))
        time, q, qd, qdd, tau = np.split(rows, np.cumsum(self._widths)[:-1], axis=1)
        both = np.full((2, *tau.shape), np.nan)
        good = np.flatnonzero(np.isfinite(rows[:, : -linear.robot.nv]).all(axis=1))
        for at in np.array_split(good, 1 + len(good) // BLOCK):
            if len(at):
                state = [np.ascontiguousarray(array[at]) for array in (q, qd, qdd)]
                W, known = linear.matrix(*state), linear.known(*state)
                both[:, at] = known + W @ linear.described, known + W @ parameters
        return ResidualSamples(time[:, 0], tau, both[0], both[1], self._states.every, self._timed)


PARTS = 10  # the recordings are divided into these
LEAST_STATES = 20  # states per part
WORSE = 1.2  # times the residual of the description
LEAST_SHARE = 0.5  # fraction of the overall residual: parts with a smaller residual are ignored


def worse_joints(identified):
    """{joint: sentence} of an Identified: joints whose cross-validated or fitted torque error exceeds the
    description's, over all states or in some tenths of the samples."""
    result = np.maximum(identified.rmse_cross_validated, identified.rmse_fitted)
    sentences = {}
    for name, unit, k in identified.joints:
        if result[k] > identified.rmse_nominal[k]:
            sentences[name] = (
                f"the error is {result[k]:.3g} {unit}, "
                f"the description's {identified.rmse_nominal[k]:.3g} {unit}"
            )
        elif part := _in_parts(identified.samples, k):
            count, result_error, described = part
            sentences[name] = (
                f"in {count} of {PARTS} parts of the recordings the error is larger than the description's, "
                f"{result_error:.3g} {unit} instead of {described:.3g} {unit}"
            )
    return sentences


def _in_parts(samples, k):
    """Number of worse parts, and their errors of the result and of the description; None if there are
    none."""
    left = np.stack(
        [samples.measured[:, k] - samples.identified[:, k], samples.measured[:, k] - samples.described[:, k]]
    )
    left = left[:, np.isfinite(left).all(axis=0)] ** 2
    if left.shape[1] < PARTS * LEAST_STATES:
        return None
    parts = [part.mean(axis=1) for part in np.array_split(left, PARTS, axis=1)]
    least = LEAST_SHARE**2 * left[0].mean()
    worse = [part for part in parts if part[0] > max(WORSE**2 * part[1], least)]
    return (len(worse), *np.sqrt(np.mean(worse, axis=0)).tolist()) if worse else None


class StageSummary(NamedTuple):
    """stage: check, solve, bodies or judge; good: no action is needed."""

    stage: str
    text: str
    good: bool = True


def summary(identified):
    """Summaries of an Identified, stage by stage."""
    base = identified.base
    yield from (StageSummary("check", text, False) for text in identified.warnings)
    yield StageSummary(
        "check",
        f"{identified.rows} states, {base.count} base parameters of {len(base.names)}, condition "
        f"{identified.excitation.condition:.3g}; {len(base.unidentifiable)} parameters are unidentifiable",
    )
    excitation, selection = identified.excitation, identified.selection
    for text in excitation.undetermined:
        yield StageSummary("check", f"not determined, stays near the description: {text}", False)
    yield from (StageSummary("check", f"poorly excited: {text}", False) for text in excitation.weak)
    if selection.added:
        used = identified.linear.terms == selection.terms
        effect = "is identified as well" if used else f"is missing: --terms {','.join(selection.terms)}"
        yield StageSummary("check", f"{selection.text}; it {effect}", used)
    yield StageSummary("solve", _solved(identified))
    yield StageSummary("bodies", _bodies(identified))
    for name, text in worse_joints(identified).items():
        yield StageSummary("judge", f"NOT better at {name}: {text}", False)
    yield StageSummary(
        "judge", f"{'' if identified.better else 'NOT '}better than the description", identified.better
    )


def _solved(identified):
    precise = identified.solution.std < 0.1 * np.abs(identified.solution.x)
    count = f"{int(precise.sum())} of {identified.base.count}"
    below = f" below {identified.cutoff:g} Hz" if identified.cutoff else ""
    known = f"{count} base parameters have a standard deviation below 10 %"
    return f"{identified.method} least squares{below}: {known}"


def _bodies(identified):
    counts = identified.linear.counts
    more = float(
        (identified.rmse_fitted[counts] / np.maximum(identified.rmse_base[counts], 1e-300)).max(initial=1.0)
    )
    effect = (
        "did not increase the torque errors"
        if more < 1.005
        else f"increased the torque errors, at most {more:.3g} times"
    )
    return f"masses and inertias are physically possible; this condition {effect}{_mass(identified)}"


def _mass(identified):
    """Text about the total mass."""
    linear, base = identified.linear, identified.base
    if "inertia" not in linear.terms:
        return ""
    masses = np.array([name.endswith(".m") for name in linear.names], dtype=float)
    share = np.linalg.lstsq(base.combinations.T, masses, rcond=None)[0]
    determined = np.allclose(share @ base.combinations, masses, atol=1e-6)
    before, after = masses @ linear.described, masses @ identified.parameters
    weighs = f"; total mass {after:.3g} kg, described {before:.3g} kg"
    if not determined:
        return f"{weighs}; the torques determine it only in combination with other parameters"
    return f"{weighs}, standard deviation {np.sqrt(share @ identified.solution.covariance @ share):.2g} kg"
