"""What is wrong with a recording, said by name before anything is fitted to it."""

import numpy as np

STILL = 1e-3  # rad or m that a joint has to move through
FAR = 0.3, 3.0  # factors between measured and described torques beyond which units are doubted
ALIKE = 0.9  # correlation from which on such a factor is one
UNLIKE = 0.3  # correlation below which torques have nothing to do with the description
UNKNOWN = 0.1  # of the rows that may lack derivatives: beside ends and gaps there are none
GAP = 5.0  # usual steps of time


class Look:
    """At the rows of a recording, chunk by chunk."""

    def __init__(self, robot):
        self._names = robot.v_names
        self._low = np.full(len(self._names), np.inf)
        self._high = -self._low
        self._travelled = np.zeros(len(self._names))
        self.rows = 0
        self._bad = {kind: 0 for kind in ("q", "qd", "qdd", "tau")}
        self._steps: list[np.ndarray] = []
        self._last: float | None = None

    def add(self, chunk):
        """chunk: {kind: (k, ...)} with q, qd, qdd, tau, and time where it is known."""
        self.rows += len(chunk["qd"])
        for kind in self._bad:
            self._bad[kind] += int(np.count_nonzero(~np.isfinite(chunk[kind]).all(axis=1)))
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

    def complaints(self):
        """Sentences."""
        found = []
        if not self.rows:
            return ["there are no rows"]
        for kind, count in self._bad.items():
            if count > (UNKNOWN * self.rows if kind in ("qd", "qdd") else 0):
                found.append(
                    f"{kind} is not finite, or unknown beside ends and gaps, in {count} of {self.rows} rows"
                )
        still = self._named(self._travelled < STILL)
        if len(still) == len(self._names):
            found.append("nothing moves")
        elif still:
            found.append(f"{_listed(still)} {'does' if len(still) == 1 else 'do'} not move")
        silent = self._named(self._high - self._low <= 1e-9 * np.maximum(1.0, np.abs(self._high)))
        if silent:
            found.append(f"the torque of {_listed(silent)} never changes")
        return found + self._about_time()

    def _about_time(self):
        steps = np.concatenate(self._steps) if self._steps else np.zeros(0)
        steps = steps[np.isfinite(steps)]
        if not len(steps):
            return []
        usual, found = float(np.median(steps)), []
        if back := int(np.count_nonzero(steps < 0)):
            found.append(f"the clock jumps back {back} times")
        if gaps := int(np.count_nonzero(steps > GAP * usual)):
            most = f"steps up to {steps.max():.3g} s instead of {usual:.3g} s"
            found.append(f"samples are missing at {gaps} places: {most}")
        return found

    def _named(self, which):
        return [name for name, own in zip(self._names, which, strict=True) if own]


def about_torques(S, x, names):
    """What measured torques have to do with described ones, in sentences. S (nv, r + 1, r + 1): sums of
    squares of a Sums; x (r,): described base parameters."""
    found, unlike = [], []
    for name, own in zip(names, S, strict=True):
        described, both, measured = x @ own[:-1, :-1] @ x, x @ own[:-1, -1], own[-1, -1]
        if described <= 0 or measured <= 0:
            continue
        factor, alike = both / described, both / np.sqrt(described * measured)
        if alike < -ALIKE:
            found.append(f"the torque of {name} has the other sign than the description's")
        elif alike > ALIKE and not FAR[0] < factor < FAR[1]:
            found.append(
                f"the torque of {name} is {factor:.2g} of the description's: amperes, or before a gear?"
            )
        elif alike < UNLIKE:
            unlike.append(name)
    if unlike and len(unlike) > len(names) / 2:
        found.append(f"torques of {_listed(unlike)} have little to do with the description: another robot?")
    return found


def _listed(names):
    return ", ".join(names[:8]) + (" ..." if len(names) > 8 else "")
