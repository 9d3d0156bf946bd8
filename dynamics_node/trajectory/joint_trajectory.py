"""Points of a trajectory_msgs/JointTrajectory, and the splines that joint_trajectory_controller executes.

Between two points a joint moves along a line, with velocities at both points along a cubic, with
accelerations as well along a polynomial of fifth degree. The controller chooses by the fields of both points.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.errors import InputError
from dynamics_node.functions.checks import numbers, positive
from dynamics_node.robot.wrong_calls import explains_wrong_calls
from dynamics_node.trajectory.segments import (
    CUBIC,
    LINE,
    QUINTIC,
    Samples,
    Sampling,
    differs_from_next,
    parts_of,
    segments_of,
)

FIELDS = ("positions", "velocities", "accelerations")


@explains_wrong_calls
@dataclass(frozen=True, eq=False)
class JointTrajectory:
    """The points of a trajectory, as arrays.

    Attributes
    ----------
    names : tuple of str
        Names of the joints (n).
    time : ndarray (points,)
        Increasing times, s.
    q : ndarray (points, n)
        Positions, rad or m.
    qd, qdd : ndarray (points, n)
        Velocities and accelerations; NaN in rows of points without them.

    Raises
    ------
    InputError
        For wrong shapes, times that do not increase, numbers that are not finite, and accelerations without
        velocities.

    Examples
    --------
    >>> time, q = np.array([0.0, 1.0]), np.array([[0.0], [0.5]])
    >>> still = np.zeros((2, 1))
    >>> dn.JointTrajectory(("joint1",), time, q, still, still).degrees()
    array([5])
    """

    names: tuple[str, ...]
    time: np.ndarray
    q: np.ndarray
    qd: np.ndarray
    qdd: np.ndarray

    def __post_init__(self):
        self._convert()
        shape = (len(self.time), len(self.names))
        if len(set(self.names)) < len(self.names):
            raise InputError("the trajectory names a joint twice")
        if not all(shape):
            raise InputError(f"the trajectory has {shape[0]} points of {shape[1]} joints")
        for name, field in zip(("q", "qd", "qdd"), FIELDS, strict=True):
            array = getattr(self, name)
            if array.shape != shape:
                raise InputError(f"{name} of the trajectory has shape {array.shape}, not {shape}")
            wrong = ~np.isfinite(array)
            if field != "positions":
                wrong &= ~np.isnan(array).all(axis=1)[:, None]
            if wrong.any():
                point, joint = np.argwhere(wrong)[0]
                raise InputError(
                    f"point {point}: {field} of {self.names[joint]!r} is {array[point, joint]}; "
                    "joint_trajectory_controller needs a number"
                )
        if not np.isfinite(self.time).all() or (np.diff(self.time) <= 0).any():
            point = int(np.argmin(np.diff(self.time, prepend=-np.inf) > 0))
            raise InputError(f"time_from_start of point {point} is not after the previous point")
        if (self._has(self.qdd) & ~self._has(self.qd)).any():
            point = int(np.argmax(self._has(self.qdd) & ~self._has(self.qd)))
            raise InputError(
                f"point {point} has accelerations without velocities: joint_trajectory_controller cannot "
                "interpolate them; add velocities"
            )

    def _convert(self):
        """Names as a tuple, numbers as arrays."""
        names = list(self.names) if isinstance(self.names, Sequence) else [None]
        if isinstance(self.names, str) or not all(isinstance(name, str) for name in names):
            raise InputError(f"names of the trajectory must be those of joints, not {self.names!r}")
        object.__setattr__(self, "names", tuple(names))
        for field in ("time", "q", "qd", "qdd"):
            object.__setattr__(self, field, numbers(f"{field} of the trajectory", getattr(self, field)))
        if self.time.ndim != 1:
            raise InputError(f"time of the trajectory has shape {self.time.shape}, not (points,)")

    def __len__(self):
        return len(self.time)

    @staticmethod
    def _has(rates):
        return ~np.isnan(rates[:, 0])

    def degrees(self) -> np.ndarray:
        """Degrees of the polynomials between points.

        Returns
        -------
        ndarray (points - 1,)
            1, 3 or 5.
        """
        velocity, acceleration = (
            there[1:] & there[:-1] for there in (self._has(self.qd), self._has(self.qdd))
        )
        return np.where(velocity, np.where(acceleration, QUINTIC, CUBIC), LINE)

    def slowed(self, factor: float) -> "JointTrajectory":
        """The same path with all times multiplied by a factor.

        Parameters
        ----------
        factor : float
            Above 1 for a slower motion.

        Returns
        -------
        JointTrajectory
            The slower motion.
        """
        factor = positive("factor", factor)
        return replace(self, time=self.time * factor, qd=self.qd / factor, qdd=self.qdd / factor**2)

    def rounded(self) -> "JointTrajectory":
        """The same points at times of whole nanoseconds, as messages have them.

        Returns
        -------
        JointTrajectory
            Accelerations between close points differ slightly.
        """
        return replace(self, time=np.round(self.time, 9))

    def at(self, time: ArrayLike) -> Samples:
        """Positions, velocities, accelerations and jerks at some times.

        Parameters
        ----------
        time : ndarray (count,)
            Times between the first and the last point, s; at a point those of the later segment.

        Returns
        -------
        Samples
            Arrays (count, n).
        """
        time = np.atleast_1d(numbers("time", time))
        segment = np.clip(np.searchsorted(self.time, time, side="right") - 1, 0, len(self) - 2)
        u = (time - self.time[segment]) / np.diff(self.time)[segment]
        return Samples(time, *segments_of(self, self.degrees(), 0).at(segment, u))

    def sampling(self, rate: float, jerk: bool = False) -> Sampling:
        """Samples between two points or more.

        Parameters
        ----------
        rate : float
            Samples are at most 1 / rate apart, Hz.
        jerk : bool
            Whether to compute it.

        Returns
        -------
        Sampling
            Its `samples()` have the extremes inside of segments. They have both ends of a segment where
            accelerations jump, or jerks if they are computed.
        """
        return Sampling(self, positive("rate", rate, "hertz"), jerk)

    def count(self, rate: float, jerk: bool = False) -> int:
        """Least number of samples.

        Parameters
        ----------
        rate : float
            Samples are at most 1 / rate apart, Hz.
        jerk : bool
            Whether it is computed.

        Returns
        -------
        int
            Of all segments.
        """
        if len(self) == 1:
            return 1
        return int(
            parts_of(self, positive("rate", rate, "hertz")).sum() + differs_from_next(self, jerk).sum()
        )
