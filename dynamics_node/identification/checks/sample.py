"""A sample of the rows of a recording."""

import numpy as np

from dynamics_node.io.tables import later

STRETCH_ROWS = 150  # rows per stretch
MOST_STRETCHES = 14  # stretches; fewer for robots with large regressors
SPACING = 0.004  # s between rows: denser ones are redundant
NUMBERS = 2e7  # regressor entries of a sample, at most
KINDS = ("q", "qd", "qdd", "tau")


class RecordingSample:
    """Sample of a recording of any length, collected chunk by chunk. numbers: regressor entries per row.
    Torques that are never measured are zero in it."""

    def __init__(self, numbers=1):
        self._most = int(np.clip(NUMBERS / (STRETCH_ROWS * numbers), 2, MOST_STRETCHES))
        self._every = self._stride = 0
        self._row = self._next = 0
        self._kept: list[dict[str, np.ndarray]] = []

    def add(self, chunk):
        """chunk: {kind: (k, ...)} with q, qd, qdd, tau, and time if known."""
        if not self._every:
            self._every = _every(chunk.get("time"))
            self._stride = STRETCH_ROWS * self._every
        first, self._row = self._row, self._row + len(chunk["qd"])
        self._next = max(self._next, first)
        span = min(STRETCH_ROWS * self._every, self._row - first)
        while span and self._next + span <= self._row:
            start = self._next - first
            self._keep({kind: rows[start : start + span : self._every] for kind, rows in chunk.items()})
            self._next += self._stride

    def _keep(self, stretch):
        stretch["tau"] = np.where(np.isfinite(stretch["tau"]).any(axis=0), stretch["tau"], 0.0)
        good = np.all([np.isfinite(stretch[kind]).all(axis=1) for kind in KINDS], axis=0)
        if "time" in stretch:
            good &= later(stretch["time"])
        if good.sum() < 2:
            return
        self._kept.append({kind: np.ascontiguousarray(rows[good]) for kind, rows in stretch.items()})
        if len(self._kept) > self._most:
            del self._kept[1::2]
            self._stride *= 2

    @property
    def stretches(self):
        """Stretches of finite rows with increasing time."""
        return tuple(self._kept)

    @property
    def rows(self):
        """{kind: (n, ...)} of all stretches."""
        return {kind: np.concatenate([stretch[kind] for stretch in self._kept]) for kind in KINDS}


def _every(time):
    """Stride to the next row that is not redundant."""
    steps = np.diff(time) if time is not None else np.zeros(0)
    usual = float(np.median(steps)) if len(steps) else 0.0
    return max(1, round(SPACING / usual)) if usual > 0 else 1


def together(samples):
    """{kind: (n, ...)} of the rows of several samples; {} if there are none."""
    rows = [one.rows for one in samples if one.stretches]
    return {kind: np.concatenate([stretch[kind] for stretch in rows]) for kind in KINDS} if rows else {}
