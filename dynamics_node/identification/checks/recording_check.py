"""What is wrong with a recording, said by name before anything is fitted to it."""

from dataclasses import replace

import numpy as np

from dynamics_node.identification.base_parameters import BaseParameters, base_parameters
from dynamics_node.identification.checks.fit import KINDS, Sample, fit_of
from dynamics_node.identification.checks.timing import about_delay, about_positions, about_rates, delay
from dynamics_node.identification.checks.torque_checks import about_load
from dynamics_node.identification.regressor_model import USUAL, RegressorModel
from dynamics_node.text import listed

STILL = 1e-3  # rad/s or m/s that a joint has to reach
UNKNOWN = 0.1  # of the rows that may lack derivatives: beside ends and gaps there are none
GAP = 5.0  # usual steps of time
LOST = 0.05  # of the samples, here and there
AT_MOST = 0.02  # of the rows at which a torque may have its largest value while the robot moves
LEVELS = 20  # of a torque: with fewer it is coarse, not saturated
ALONE = 0.2  # of these, at the next smaller value, of what is merely quantised


def checked(linear: RegressorModel, base: BaseParameters):
    """The model whose fit recordings are checked with, and its base parameters: usual friction is among its
    terms."""
    lacking = [term for term in USUAL if term not in linear.terms]
    if not lacking:
        return linear, base
    linear = replace(linear, terms=(*linear.terms, *lacking))
    return linear, base_parameters(linear)


class RecordingCheck:
    """At the rows of a recording, chunk by chunk."""

    def __init__(self, linear: RegressorModel, base: BaseParameters):
        """linear: of all terms that usual robots need (`checked`), whatever is identified: friction that no
        term explains looks like a load."""
        self._linear, self._base, self._names = linear, base, linear.robot.v_names
        self.sample = Sample(len(self._names) * len(linear.names))
        self._low = np.full(len(self._names), np.inf)
        self._high = -self._low
        self._travelled = np.zeros(len(self._names))
        self.rows, self.late = 0, 0.0  # s that torques are behind the positions, after `warnings`
        self._bad = {kind: 0 for kind in KINDS}
        self._unknown = np.zeros(len(self._names), dtype=int)
        self._steps: list[np.ndarray] = []
        self._last: float | None = None

    def add(self, chunk):
        """chunk: {kind: (k, ...)} with q, qd, qdd, tau, and time where it is known."""
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
        """Sentences."""
        found = []
        if not self.rows:
            return ["there are no rows"]
        for kind, count in self._bad.items():
            if count > (UNKNOWN * self.rows if kind in ("qd", "qdd") else 0):
                told = (
                    f"{kind} is not finite, or unknown beside ends and gaps, in {count} of {self.rows} rows"
                )
                of = self._named(self._unknown > 0) if kind == "tau" else self._names
                found.append(told + (f": {listed(of)}" if len(of) < len(self._names) else ""))
        still = self._named(self._travelled < STILL)
        if len(still) == np.count_nonzero(self._linear.counts):
            found.append("nothing moves")
        elif still:
            found.append(f"{listed(still)} {'does' if len(still) == 1 else 'do'} not move")
        flat = self._high - self._low <= 1e-9 * np.maximum(1.0, np.abs(self._high))
        silent = self._named(flat & (self._unknown < self.rows))
        if silent:
            found.append(f"the torque of {listed(silent)} never changes")
        return found + self._about_time() + self._about_rows()

    def _about_time(self):
        steps = np.concatenate(self._steps) if self._steps else np.zeros(0)
        steps = steps[np.isfinite(steps)]
        if not len(steps):
            return []
        usual, found = float(np.median(steps)), []
        if back := int(np.count_nonzero(steps < 0)):
            found.append(f"the clock jumps back {back} time{'s' if back > 1 else ''}")
        if twice := int(np.count_nonzero(steps == 0)):
            found.append(f"{twice} stamp{'s are' if twice > 1 else ' is'} there twice")
        if gaps := int(np.count_nonzero(steps > GAP * usual)):
            most = f"steps up to {steps.max():.3g} s instead of {usual:.3g} s"
            found.append(f"samples are missing at {gaps} place{'s' if gaps > 1 else ''}: {most}")
        short = steps[(steps > 0) & (steps <= GAP * usual)] / max(usual, 1e-300)
        lost = float(np.sum(np.maximum(np.round(short) - 1, 0)))
        if lost > LOST * len(steps):
            found.append(f"about {100 * lost / (lost + len(steps)):.0f} % of the samples are missing")
        return found

    def _about_rows(self):
        """What a sample of rows tells."""
        stretches = self.sample.stretches
        if not stretches:
            return []
        rows = self.sample.rows
        found = about_saturation(rows, self._names)
        if odd := about_positions(self._linear, rows) + about_rates(self._linear, stretches):
            return found + odd
        fit = fit_of(self._linear, self._base, rows)
        if all("time" in own for own in stretches):
            self.late = delay(fit, [own["time"] for own in stretches])
        if self.late:
            return found + about_delay(self.late)
        return found + about_load(self._linear, fit, stretches, rows)

    def _named(self, which):
        """Of the joints whose torques count."""
        which = np.logical_and(which, self._linear.counts)
        return [name for name, own in zip(self._names, which, strict=True) if own]


def about_saturation(rows, names):
    """Sentences about rows {kind: (n, ...)}: torques that stay at their largest value."""
    found = []
    moving = np.abs(rows["qd"]).max(axis=1) > 0.01 * np.abs(rows["qd"]).max(initial=0.0)
    for name, tau in zip(names, rows["tau"][moving].T, strict=True):
        for side in (tau, -tau):
            values, counts = np.unique(side, return_counts=True)
            often = len(values) > LEVELS and counts[-1] > max(3, AT_MOST * len(tau))
            if often and counts[-2] < ALONE * counts[-1]:
                told = f"the torque of {name} has its largest value in {100 * counts[-1] / len(tau):.0f} % of"
                found.append(f"{told} the rows in motion: saturated?")
                break
    return found
