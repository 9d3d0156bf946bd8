"""Whether sensors contradict each other, and which of them is to blame.

The sum of squares that is left, in standard deviations, has a chi-square distribution if every sensor is as
good as it says. What it falls by without one sensor follows from the residuals alone (deletion of
observations: Belsley, Kuh, Welsch 1980, sec. 2.1); a sensor that others hardly check has leverage, and its
residual is small even if it is wrong.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.graph.sensor_fusion import solved
from dynamics_node.robot import SensorProblem

FALSE_ALARMS = 0.001  # of states at which sensors are as good as they say
UNCHECKED = 1e-9  # variance of a residual, beside that of its reading
PER_ROW = 2.0  # by how much chi-square must fall for each row that is left out (Akaike 1974)
AS_GOOD = 1e-6  # part of chi-square within which two explanations are one


class Suspect(NamedTuple):
    """sensor: its name; explains: by how much chi-square falls without it; checked: how many of its rows the
    others check."""

    sensor: str
    explains: float
    checked: int


class Judgement(NamedTuple):
    """Of one state. limit: chi-square is beyond it at one of 1000 states by chance; suspects: sensors that
    others check, the most suspicious first."""

    chi_square: float
    degrees_of_freedom: int
    limit: float
    suspects: tuple[Suspect, ...]

    @property
    def consistent(self) -> bool:
        return self.chi_square <= self.limit

    @property
    def culprits(self) -> tuple[str, ...]:
        """The sensor that explains a contradiction best, and those that explain it as well; none where there
        is no contradiction."""
        if self.consistent or not self.suspects:
            return ()
        best = _merit(self.suspects[0]) - AS_GOOD * self.chi_square
        return tuple(suspect.sensor for suspect in self.suspects if _merit(suspect) >= best)

    def __str__(self):
        size = f"chi-square {self.chi_square:.4g} of {self.degrees_of_freedom} degrees of freedom"
        if self.consistent:
            return f"sensors agree: {size}, limit {self.limit:.4g}"
        first, *others = self.culprits
        left = max(0.0, self.chi_square - self.suspects[0].explains)
        also = f"; {', '.join(map(repr, others))} would explain it as well" if others else ""
        return (
            f"sensors contradict each other: {size}, limit {self.limit:.4g}; most likely {first!r} is wrong, "
            f"without which {left:.4g} is left{also}"
        )


def chi_square_limit(degrees_of_freedom: int, false_alarms=FALSE_ALARMS) -> float:
    """What chi-square exceeds with this probability; 0 where nothing is checked."""
    from scipy.special import chdtri

    return float(chdtri(degrees_of_freedom, false_alarms)) if degrees_of_freedom else 0.0


def judge(robot, problem: SensorProblem, q, qd, readings, gravity=None) -> Judgement | None:
    """Of one state q (nq,), qd (nv,), readings (m,); None where it is not determined."""
    (state,) = solved(robot, problem, q[None], qd[None], readings[None], gravity)
    if state.fit is None:
        return None
    residual, hat = state.fit.residual, state.fit.hat
    suspects, top = [], 0
    for labels, sensor in zip(state.labels, state.sensors, strict=True):
        at = slice(top, top + len(labels))
        suspects.append(_suspect(sensor, residual[at], hat[at]))
        top += len(labels)
    degrees = len(residual) - hat.shape[1]
    checked = sorted((s for s in suspects if s.checked), key=_merit, reverse=True)
    chi_square = float(residual @ residual) if degrees else 0.0
    return Judgement(chi_square, degrees, chi_square_limit(degrees), tuple(checked))


def _suspect(sensor, residual, hat) -> Suspect:
    """Without its rows chi-square is less by r^T (1 - H)^+ r, with r and H theirs."""
    sizes, directions = np.linalg.eigh(np.eye(len(residual)) - hat @ hat.T)
    checked = sizes > UNCHECKED
    explains = ((directions[:, checked].T @ residual) ** 2 / sizes[checked]).sum()
    return Suspect(sensor, float(explains), int(checked.sum()))


def _merit(suspect) -> float:
    return suspect.explains - PER_ROW * suspect.checked
