"""Joint rates and accelerations from encoders by a Kalman filter with white-noise jerk.

The state of every joint is x = (q, qd, qdd) with q''' white noise of density j: Bar-Shalom, Li and
Kirubarajan 2001, Estimation with applications to tracking and navigation, sec. 6.2.3. The update has Joseph's
form, so that the covariance stays positive despite rounding.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.codegen import make_runner
from dynamics_node.display import titled
from dynamics_node.errors import InputError
from dynamics_node.functions.checks import finite, numbers, positive
from dynamics_node.robot import Joint, Robot
from dynamics_node.robot.wrong_calls import explains_wrong_calls
from dynamics_node.symbolic import trace
from dynamics_node.text import listed

_PLACES = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))  # stored entries of the covariance
_NUMBER = {place: k for k, place in enumerate(_PLACES)} | {place[::-1]: k for k, place in enumerate(_PLACES)}


@explains_wrong_calls
class JointFilter:
    """Velocities and accelerations of joints from encoder readings, by a Kalman filter.

    Attributes are valid from the first `step` on; the next step overwrites the arrays.

    Parameters
    ----------
    joints : Robot or sequence of Joint
        A robot, whose independent joints with one coordinate are filtered, or some of its joints. Readings of
        continuous ones may jump by a turn.
    position_std : float or array_like (count,)
        Standard deviation of one reading, rad or m. An encoder of N lines per turn has 2 pi / N / sqrt(12).
    jerk_density : float or array_like (count,)
        Density j of white-noise jerk, rad^2/s^5 or m^2/s^5: accelerations change by sqrt(j t) in a time t.
    first_std : array_like (2,)
        Standard deviations of velocity and acceleration before the first reading, rad/s and rad/s^2.
    longest_gap : float
        Longest time between two readings, s. A longer gap restarts the filter.
    backend : str
        'c', 'numpy', or 'auto': 'c' if it works.

    Raises
    ------
    InputError
        For joints that are none, and invalid numbers.
    CompileError
        For backend c without a compiler.

    Examples
    --------
    >>> wrists = robot.independent_joints[5:]
    >>> rates = dn.JointFilter(wrists, position_std=1e-5, jerk_density=1e4, backend="numpy")
    >>> for t in np.arange(0.0, 0.1, 0.001):  # one joint turns at 0.5 rad/s, the other at 0.2 rad/s
    ...     available = rates.step(t, [0.5 * t, 0.2 * t])
    >>> rates.velocity.round(3)
    array([0.5, 0.2])

    References
    ----------
    Bar-Shalom, Li and Kirubarajan, Estimation with applications to tracking and navigation, 2001, section
    6.2.3: the Wiener process acceleration model.
    """

    def __init__(
        self,
        joints: Robot | Sequence[Joint],
        position_std: ArrayLike,
        jerk_density: ArrayLike,
        first_std: ArrayLike = (10.0, 100.0),
        longest_gap: float = 0.1,
        backend: str = "auto",
    ):
        self._wraps = _wrapping(joints)
        count = len(self._wraps)
        variances = [
            _positive("position_std", position_std, count),
            _positive("jerk_density", jerk_density, count),
        ]
        self._first = _positive("first_std", first_std, 2)
        self._settings = np.concatenate([variances[0] ** 2, variances[1]])
        self._longest_gap = float(_positive("longest_gap", longest_gap, 1)[0])
        self._any_wraps = bool(self._wraps.any())
        self._noise = (variances[0] ** 2, variances[1])
        self._runner = make_runner(filter_program(count), backend)
        self._state, self._next = np.full((9, count), np.nan), np.full((9, count), np.nan)
        self._dt = np.zeros(1)
        self.reset()

    def __repr__(self):
        return titled(
            f"JointFilter: {self._state.shape[1]} joints",
            time="no reading" if self._time is None else f"{self._time:.6g} s",
            velocity=None if self._time is None else self.velocity,
            acceleration=None if self._time is None else self.acceleration,
            backend=self._runner.backend,
        )

    def reset(self) -> None:
        """Discard all readings.

        Returns
        -------
        None
        """
        self._time: float | None = None

    def resume(self, before: "JointFilter") -> None:
        """Continue from the state of another filter, if it has the same number of joints.

        Parameters
        ----------
        before : JointFilter
            The other filter.

        Returns
        -------
        None
        """
        if before._state.shape == self._state.shape:
            self._time, self._state[:] = before._time, before._state

    @property
    def position(self) -> np.ndarray:
        """Positions (count,), rad or m."""
        return self._state[0]

    @property
    def velocity(self) -> np.ndarray:
        """Velocities (count,), rad/s or m/s."""
        return self._state[1]

    @property
    def acceleration(self) -> np.ndarray:
        """Accelerations (count,), rad/s^2 or m/s^2."""
        return self._state[2]

    @property
    def velocity_variance(self) -> np.ndarray:
        """Variances (count,) of the velocities, the input of `MomentumObserver.step`."""
        return self._state[3 + _NUMBER[1, 1]]

    @property
    def covariance(self) -> np.ndarray:
        """Covariance (count, 3, 3) of position, velocity and acceleration."""
        places = [[3 + _NUMBER[i, j] for j in range(3)] for i in range(3)]
        return np.moveaxis(self._state[places], -1, 0)

    def velocity_correlation_time(self, step: float) -> float:
        """Return the correlation time of the velocity error, the input of ObserverOptions.

        It is the inverse natural frequency of the steady-state filter, the longest of all joints.

        Parameters
        ----------
        step : float
            Time between readings, s.

        Returns
        -------
        float
            In s.
        """
        (variance, density), step = self._noise, positive("step", step, "seconds")
        return float(((variance * step / density) ** (1 / 6)).max())

    def step(self, time: float, position: ArrayLike) -> bool:
        """Process one reading of all joints.

        Parameters
        ----------
        time : float
            Time of any clock, s. A repeated time is skipped. An earlier one, or one after a long gap,
            restarts the filter.
        position : array_like (count,)
            Readings, rad or m.

        Returns
        -------
        bool
            Whether rates are available: from the second reading on.

        Raises
        ------
        InputError
            For a wrong shape or numbers that are not finite; the state does not change.
        """
        if self._time is None:
            return self._begin(time, position)
        try:
            dt = time - self._time
            restarts = not 0.0 < dt <= self._longest_gap
        except (TypeError, ValueError):
            raise InputError(f"time must be a finite number, not {time!r}") from None
        if restarts:
            return False if dt == 0.0 else self._begin(time, position)
        self._dt[0] = dt
        if self._any_wraps:
            position = self._unwrapped(position)
        arrays = (position, self._dt, self._settings, self._state, self._next)
        if self._runner.call_one(*arrays) is not None:
            self._run_checked(*arrays)
        self._state, self._next, self._time = self._next, self._state, time
        return True

    def _begin(self, time, position):
        position = self._checked(position)
        time = float(finite("time", time, ()))
        self._state[:] = 0.0
        self._state[0] = position
        self._state[3 + _NUMBER[0, 0]] = self._settings[: len(position)]
        for k, std in enumerate(self._first, start=1):
            self._state[3 + _NUMBER[k, k]] = std**2
        self._time = time
        return False

    def _unwrapped(self, position):
        """The angle reading within half a turn of the estimate."""
        position = self._checked(position)
        turns = np.round((self._state[0] - position) / (2 * np.pi))
        return np.where(self._wraps, position + 2 * np.pi * turns, position)

    def _run_checked(self, position, dt, settings, state, out):
        position = self._checked(position)
        (result,), _ = self._runner.run_checked(1, [array[None] for array in (position, dt, settings, state)])
        out[...] = result[0]

    def _checked(self, position):
        array = np.ascontiguousarray(numbers("position", position))
        if array.shape != self._wraps.shape or not np.isfinite(array).all():
            raise InputError(f"position must be {len(self._wraps)} finite numbers, not {position}")
        return array


def filter_program(count):
    """position (count,), dt (1,), settings (2 count,): variance of a reading and density of the jerk, state
    (9, count): x, then the covariance -> state."""

    def function(position, dt, settings, state):
        joints = zip(position, settings[:count], settings[count:], state.T, strict=True)
        return {"state": np.stack([_filtered(*joint, dt[0]) for joint in joints], axis=1)}

    shapes = {"position": (count,), "dt": (1,), "settings": (2 * count,), "state": (9, count)}
    return trace(function, shapes)


def _filtered(position, variance, density, state, dt):
    """State (9,) of one joint after a step and a reading."""
    dt2 = dt * dt
    F = np.array([[1.0, dt, 0.5 * dt2], [0.0, 1.0, dt], [0.0, 0.0, 1.0]])
    noise = np.array([dt2 * dt2 * dt / 20, dt2 * dt2 / 8, dt2 * dt / 6, dt2 * dt / 3, dt2 / 2, dt])
    x, P = F @ state[:3], _matrix(_entries(F @ _matrix(state[3:]) @ F.T) + density * noise)
    gain = P[:, 0] / (P[0, 0] + variance)
    keep = np.eye(3) - np.outer(gain, (1.0, 0.0, 0.0))  # I - K H
    x = x + gain * (position - x[0])
    return np.append(x, _entries(keep @ P @ keep.T + variance * np.outer(gain, gain)))


def _matrix(entries):
    return np.array([[entries[_NUMBER[i, j]] for j in range(3)] for i in range(3)])


def _entries(P):
    return np.array([P[place] for place in _PLACES])


def _wrapping(joints):
    """Which readings (count,) may jump by a turn. Raises InputError."""
    if isinstance(joints, Robot):
        joints = [joint for joint in joints.independent_joints if joint.type.is_scalar]
    if (
        not isinstance(joints, Sequence)
        or not all(isinstance(joint, Joint) for joint in joints)
        or not joints
    ):
        raise InputError(f"joints must be a robot, or some of its joints, not {joints!r}")
    if several := [joint.name for joint in joints if not joint.type.is_scalar]:
        raise InputError(f"joint {listed(several)} has several coordinates: leave it out")
    return np.array([joint.type.wraps for joint in joints], dtype=bool)


def _positive(name, value, count):
    array = numbers(name, value)
    if array.shape not in ((), (count,)) or not (np.isfinite(array).all() and (array > 0).all()):
        raise InputError(f"{name} must be {count} positive numbers or one for all, not {value}")
    return np.broadcast_to(array, (count,)).copy()
