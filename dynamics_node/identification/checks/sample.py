"""Some rows of a recording, to be looked at together: stretches of rows in a row, spread evenly."""

import numpy as np

LENGTH = 150  # rows of a stretch
MOST = 14  # stretches; of robots with large regressors fewer
FINE = 0.004  # s between rows: denser ones say the same
NUMBERS = 2e7  # of all regressors of a sample at most
KINDS = ("q", "qd", "qdd", "tau")


class Sample:
    """Of a recording however long, chunk by chunk. numbers: of the regressor of one row. Torques that are
    never known are zero in it."""

    def __init__(self, numbers=1):
        self._most = int(np.clip(NUMBERS / (LENGTH * numbers), 2, MOST))
        self._every = self._stride = 0
        self._row = self._next = 0
        self._kept: list[dict[str, np.ndarray]] = []

    def add(self, chunk):
        """chunk: {kind: (k, ...)} with q, qd, qdd, tau, and time where it is known."""
        if not self._every:
            self._every = _every(chunk.get("time"))
            self._stride = LENGTH * self._every
        first, self._row = self._row, self._row + len(chunk["qd"])
        self._next = max(self._next, first)
        span = min(LENGTH * self._every, self._row - first)
        while span and self._next + span <= self._row:
            start = self._next - first
            self._keep({kind: rows[start : start + span : self._every] for kind, rows in chunk.items()})
            self._next += self._stride

    def _keep(self, stretch):
        stretch["tau"] = np.where(np.isfinite(stretch["tau"]).any(axis=0), stretch["tau"], 0.0)
        good = np.all([np.isfinite(stretch[kind]).all(axis=1) for kind in KINDS], axis=0)
        if "time" in stretch:
            good &= np.diff(stretch["time"], prepend=-np.inf) > 0
        if good.sum() < 2:
            return
        self._kept.append({kind: np.ascontiguousarray(rows[good]) for kind, rows in stretch.items()})
        if len(self._kept) > self._most:
            del self._kept[1::2]
            self._stride *= 2

    @property
    def stretches(self):
        """Finite rows alone, each later than the one before."""
        return tuple(self._kept)

    @property
    def rows(self):
        """{kind: (n, ...)} of all stretches."""
        return {kind: np.concatenate([own[kind] for own in self._kept]) for kind in KINDS}


def _every(time):
    """How many rows later the next one tells more."""
    steps = np.diff(time) if time is not None else np.zeros(0)
    usual = float(np.median(steps)) if len(steps) else 0.0
    return max(1, round(FINE / usual)) if usual > 0 else 1


def together(samples):
    """{kind: (n, ...)} of the rows of several samples; {} without any."""
    rows = [one.rows for one in samples if one.stretches]
    return {kind: np.concatenate([own[kind] for own in rows]) for kind in KINDS} if rows else {}
