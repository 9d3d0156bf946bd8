"""The cut-off below which recordings are differentiated: what is usual, or what their rate allows."""

import math
from typing import Final, Literal

import numpy as np

from dynamics_node.io.names import TableError

Usual = Literal["usual"]
USUAL_CUTOFF: Final = "usual"
CUTOFF = 10.0  # Hz, where the rate allows it
SHARE = 0.25  # of the rate: the largest cut-off
JITTER = 1.05  # how much slower parts of a recording may be than all of it
SLOW = 2.0  # states a second of hardly any recording: 2 kHz in ms
_UNITS = {1e3: "milliseconds", 1e6: "microseconds", 1e9: "nanoseconds"}
_STEP = 0.005  # s, of usual recordings


def usual_cutoff(chunks) -> float:
    """Hz: CUTOFF, or a quarter of the states a second, rounded down to two figures. chunks: with `time` (k,).

    Where the first chunk leaves no doubt, the others are not read. Raises TableError for a time that is not
    in seconds.
    """
    steps = np.zeros(0)
    for chunk in chunks:
        steps = np.append(steps, _steps(chunk["time"]))
        if len(steps) and SHARE / np.median(steps) > 2.0 * CUTOFF:
            break
    if not len(steps):
        return CUTOFF
    check_seconds(rate := 1.0 / float(np.median(steps)))
    return min(CUTOFF, _down(SHARE * rate))


def check_rate(time, cutoff):
    """Raise TableError where time does not advance, or has too few steps a second for a cut-off."""
    steps = _steps(time)
    if not len(steps) and len(time) > 1:
        raise TableError("time does not advance: there is nothing to differentiate by")
    if len(steps) and cutoff * np.median(steps) > SHARE * JITTER:
        check_seconds(rate := 1.0 / float(np.median(steps)))
        raise TableError(
            f"there are {rate:.3g} states a second, which allows a cut-off of a quarter of that: "
            f"--cutoff {_down(SHARE * rate):g}, not {cutoff:g}"
        )


def check_seconds(rate):
    """Raise TableError where hardly anybody records so slowly, which names the unit that time may have."""
    if rate < SLOW:
        per = min(_UNITS, key=lambda per: abs(math.log(per * _STEP * rate)))
        raise TableError(
            f"samples are {1.0 / rate:.3g} s apart: is time in {_UNITS[per]}? It has to be in s: divide it "
            f"by {per:.0e}. If it is, --cutoff {_down(SHARE * rate):g} is possible"
        )


def _steps(time):
    return np.diff(np.unique(time[np.isfinite(time)]))


def _down(value):
    """Two figures of a positive number, never more than it is but by rounding."""
    unit = 10.0 ** (math.floor(math.log10(value * (1 + 1e-9))) - 1)
    return round(math.floor(value / unit * (1 + 1e-9)) * unit, 12)
