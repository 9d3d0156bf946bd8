"""Warnings about a recording, before anything is fitted to it."""

from dataclasses import replace

import numpy as np

from dynamics_node.identification.base_parameters import BaseParameters, base_parameters
from dynamics_node.identification.checks.sample import KINDS, RecordingSample
from dynamics_node.identification.checks.timing import about_delay, about_positions, about_rates, delay
from dynamics_node.identification.checks.torque_checks import about_load
from dynamics_node.identification.regressor_model import USUAL, RegressorModel
from dynamics_node.identification.sums import torque_rows
from dynamics_node.text import listed

STATIONARY = 1e-3  # rad/s or m/s: slower joints do not move
MOST_UNKNOWN = 0.1  # fraction of the rows: ends and gaps have no derivatives
GAP = 5.0  # median time steps
MOST_MISSING = 0.05  # fraction of the samples
AT_MOST = 0.02  # fraction of the moving rows with the largest value of a torque
LEVELS = 20  # distinct values of a torque: with fewer it is coarsely quantized, not saturated
LEAST_NEIGHBOR = 0.2  # share of rows at the next smaller value, if merely quantized


def checked(linear: RegressorModel, base: BaseParameters):
    """The model that recordings are checked with, and its base parameters: it includes the usual friction
    terms."""
    missing = [term for term in USUAL if term not in linear.terms]
    if not missing:
        return linear, base
    linear = replace(linear, terms=(*linear.terms, *missing))
    return linear, base_parameters(linear)


class RecordingCheck:
    """Checks the rows of a recording, chunk by chunk."""

    def __init__(self, linear: RegressorModel, base: BaseParameters):
        """linear: with the usual terms (`checked`), even if not identified: friction that no term explains
        looks like a load."""
        self._linear, self._base, self._names = linear, base, linear.robot.v_names
        self.sample = RecordingSample(len(self._names) * len(linear.names))
        self._low = np.full(len(self._names), np.inf)
        self._high = -self._low
        self._travelled = np.zeros(len(self._names))
        self.rows, self.late = 0, 0.0  # s of delay of the torques, set by `warnings`
        self._bad = {kind: 0 for kind in KINDS}
        self._unknown = np.zeros(len(self._names), dtype=int)
        self._steps: list[np.ndarray] = []
        self._last: float | None = None

    def add(self, chunk):
        """chunk: {kind: (k, ...)} with q, qd, qdd, tau, and time if known."""
        self.sample.add(chunk)
        self.rows += len(chunk["qd"])
        for kind in self._bad:
            needed = chunk[kind] if kind != "tau" else chunk[kind][:, self._linear.counts]
            self._bad[kind] += int(np.count_nonzero(~np.isfinite(needed).all(axis=1)))
        self._unknown += np.count_nonzero(~np.isfinite(chunk["tau"]), axis=0)
        tau = np.where(np.isfinite(chunk["tau"]), chunk["tau"], 0.0)
        self._low, self._high = (
            np.minimum(self._low, tau.min(axis=0)),
            np.maximum(self._high, tau.max(axis=0)),
        )
        self._travelled = np.maximum(self._travelled, np.nan_to_num(np.abs(chunk["qd"])).max(axis=0))
        if "time" in chunk:
            time = chunk["time"] if self._last is None else np.append(self._last, chunk["time"])
            self._steps.append(np.diff(time))
            self._last = float(chunk["time"][-1])

    def warnings(self):
        """Sentences, one per problem."""
        sentences = []
        if not self.rows:
            return ["there are no rows"]
        for kind, count in self._bad.items():
            if count > (MOST_UNKNOWN * self.rows if kind in ("qd", "qdd") else 0):
                problem = f"{kind} is not finite, or unknown away from ends and gaps, "
                problem += f"in {count} of {self.rows} rows"
                affected = self._named(self._unknown > 0) if kind == "tau" else self._names
                sentences.append(
                    problem + (f": {listed(affected)}" if len(affected) < len(self._names) else "")
                )
        still = self._named(self._travelled < STATIONARY)
        if len(still) == np.count_nonzero(self._linear.counts):
            sentences.append("nothing moves")
        elif still:
            sentences.append(f"{listed(still)} {'does' if len(still) == 1 else 'do'} not move")
        flat = self._high - self._low <= 1e-9 * np.maximum(1.0, np.abs(self._high))
        constant = self._named(flat & (self._unknown < self.rows))
        if constant:
            sentences.append(f"the torque of {listed(constant)} never changes")
        return sentences + self._about_time() + self._about_rows()

    def _about_time(self):
        steps = np.concatenate(self._steps) if self._steps else np.zeros(0)
        steps = steps[np.isfinite(steps)]
        if not len(steps):
            return []
        median, sentences = float(np.median(steps)), []
        if backward := int(np.count_nonzero(steps < 0)):
            sentences.append(f"the clock jumps back {backward} time{'s' if backward > 1 else ''}")
        if repeated := int(np.count_nonzero(steps == 0)):
            sentences.append(f"{repeated} time stamp{'s are' if repeated > 1 else ' is'} repeated")
        if gaps := int(np.count_nonzero(steps > GAP * median)):
            most = f"steps up to {steps.max():.3g} s instead of {median:.3g} s"
            sentences.append(f"samples are missing at {gaps} place{'s' if gaps > 1 else ''}: {most}")
        short = steps[(steps > 0) & (steps <= GAP * median)] / max(median, 1e-300)
        missing = float(np.sum(np.maximum(np.round(short) - 1, 0)))
        if missing > MOST_MISSING * len(steps):
            sentences.append(
                f"about {100 * missing / (missing + len(steps)):.0f} % of the samples are missing"
            )
        return sentences

    def _about_rows(self):
        """Warnings from a sample of rows."""
        stretches = self.sample.stretches
        if not stretches:
            return []
        rows = self.sample.rows
        sentences = about_saturation(rows, self._names)
        if inconsistent := about_positions(self._linear, rows) + about_rates(self._linear, stretches):
            return sentences + inconsistent
        if all("time" in stretch for stretch in stretches):
            fitted = torque_rows(self._linear, self._base, rows)
            self.late = delay(fitted, [stretch["time"] for stretch in stretches])
        if self.late:
            return sentences + about_delay(self.late)
        return sentences + about_load(self._linear, self._base, stretches)

    def _named(self, which):
        """Names of the joints whose torques are used."""
        which = np.logical_and(which, self._linear.counts)
        return [name for name, counts in zip(self._names, which, strict=True) if counts]


def about_saturation(rows, names):
    """Warnings about torques that stay at their largest value, from rows {kind: (n, ...)}."""
    sentences = []
    moving = np.abs(rows["qd"]).max(axis=1) > 0.01 * np.abs(rows["qd"]).max(initial=0.0)
    for name, tau in zip(names, rows["tau"][moving].T, strict=True):
        for side in (tau, -tau):
            values, counts = np.unique(side, return_counts=True)
            often = len(values) > LEVELS and counts[-1] > max(3, AT_MOST * len(tau))
            if often and counts[-2] < LEAST_NEIGHBOR * counts[-1]:
                problem = f"the torque of {name} has its largest value in {100 * counts[-1] / len(tau):.0f} %"
                sentences.append(f"{problem} of the rows in motion: saturated?")
                break
    return sentences
