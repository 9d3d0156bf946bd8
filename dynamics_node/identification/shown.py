"""Some states of the recordings, with what the description and the result say of them."""

from typing import NamedTuple

import numpy as np

from dynamics_node.identification.linear import LinearModel
from dynamics_node.io import Thinned

MOST = 1200  # states: more than a plot has points
BLOCK = 100  # states whose regressors are in memory


class Shown(NamedTuple):
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


class Showing:
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

    def shown(self, linear: LinearModel, parameters) -> Shown:
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
        return Shown(time[:, 0], tau, both[0], both[1], self._states.every, self._timed)
