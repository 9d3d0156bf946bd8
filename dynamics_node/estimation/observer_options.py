"""Options of the observer: bandwidth, noise, location of the wrench, and thresholds from a false alarm
rate."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dynamics_node.errors import InputError
from dynamics_node.functions.checks import numbers
from dynamics_node.robot.wrong_calls import explains_wrong_calls

COMPONENTS = tuple(f"{part}.{axis}" for part in ("moment", "force") for axis in "xyz")
WINDOWS = (0.002, 0.008, 0.03, 0.12)

_LISTS = ("velocity_std", "torque_std", "model_std", "bandwidth", "components", "windows")

PerJoint = float | tuple[float, ...]


@explains_wrong_calls
@dataclass(frozen=True, kw_only=True)
class ObserverOptions:
    """Noise, bandwidth and contacts that a MomentumObserver assumes.

    Numbers of velocity coordinates are one for all, or (nv,).

    Parameters
    ----------
    velocity_std : float or (nv,)
        Standard deviation of the velocity in one sample, rad/s or m/s; white.
    torque_std : float or (nv,)
        Standard deviation of the torque in one sample, N m or N; white. For unactuated coordinates (floating
        base) it is the model error.
    model_std : float or (nv,)
        Standard deviation of a constant error of the model or of a torque sensor, N m or N.
    velocity_correlation_time : float
        Correlation time of the velocity error, s; 0 if it is white. See JointFilter.
    bandwidth : float or (nv,)
        Bandwidth of the estimate, rad/s.
    link : str, optional
        The link of the external wrench. Without it, only torques are estimated.
    components : tuple of str
        Components that the wrench may have: 'moment.x', ..., 'force.z', in link axes at the link's origin.
    false_alarms : float
        Expected false alarms of `contact`, per hour.
    windows : tuple of float
        Averaging times of contact detection, s.
    longest_gap : float
        Longest time between two samples, s. A longer gap restarts the observer.

    Raises
    ------
    InputError
        For invalid numbers and components.

    Examples
    --------
    >>> options = dn.ObserverOptions(velocity_std=0.01, torque_std=0.3)
    >>> options.bandwidth, options.windows
    (30.0, (0.002, 0.008, 0.03, 0.12))
    >>> dn.ObserverOptions(velocity_std=0.01, torque_std=0.0)
    Traceback (most recent call last):
        ...
    dynamics_node.errors.InputError: torque_std must be positive and finite, not 0.0
    """

    velocity_std: PerJoint
    torque_std: PerJoint
    model_std: PerJoint = 0.0
    velocity_correlation_time: float = 0.0
    bandwidth: PerJoint = 30.0
    link: str | None = None
    components: tuple[str, ...] = COMPONENTS
    false_alarms: float = 1.0
    windows: tuple[float, ...] = WINDOWS
    longest_gap: float = 0.2

    def __post_init__(self):
        for name in _LISTS:
            value = getattr(self, name)
            value = value.tolist() if isinstance(value, np.ndarray) else value
            object.__setattr__(self, name, tuple(value) if isinstance(value, list) else value)
        for name in ("velocity_std", "torque_std", "bandwidth"):
            _require(name, getattr(self, name), "positive", lambda x: x > 0)
        for name in ("model_std", "velocity_correlation_time"):
            _require(name, getattr(self, name), "zero or more", lambda x: x >= 0)
        for name in ("false_alarms", "windows", "longest_gap"):
            _require(name, getattr(self, name), "positive", lambda x: x > 0)
        chosen = self.components if isinstance(self.components, tuple) else ()
        if not chosen or any(name not in COMPONENTS or chosen.count(name) > 1 for name in chosen):
            known = ", ".join(COMPONENTS)
            raise InputError(f"components {self.components!r} must be some of {known}, each once")
        if not self.windows:
            raise InputError("windows: at least one")

    def each(self, name: str, coordinates: Sequence[str]) -> np.ndarray:
        """Return an option for every coordinate.

        Parameters
        ----------
        name : str
            Name of the option.
        coordinates : sequence of str
            Names of the velocity coordinates: `Robot.v_names`.

        Returns
        -------
        ndarray (nv,)

        Raises
        ------
        ValueError
            For another number of values.
        """
        value = np.asarray(getattr(self, name), dtype=float)
        if value.shape not in ((), (len(coordinates),)):
            listed = ", ".join(coordinates)
            raise InputError(f"{name} has {value.size} numbers, the robot {len(coordinates)} rates: {listed}")
        return np.broadcast_to(value, (len(coordinates),)).copy()


def _require(name, value, requirement, holds):
    array = numbers(name, value)
    if array.ndim > 1 or not array.size or not (np.isfinite(array).all() and holds(array).all()):
        raise InputError(f"{name} must be {requirement} and finite, not {value}")


BISECTIONS = 60


def levels(freedom, step, windows, rate):
    """Levels (windows,) of sums of squares, one per window, that together are exceeded `rate` times a second.

    freedom: independent standard normal sequences, each averaged exponentially over the same window; step: s
    between samples; windows (windows,): time constants, s. Every window has an equal part of the rate: at
    high levels, simultaneous excursions in several windows are rare enough for the sum to hold.
    """
    return np.array([_level(freedom, step, window, rate / len(windows)) for window in windows])


def _level(freedom, step, window, rate):
    """Least, if the requested rate exceeds that of separate excursions. Closed forms and bisection: the first
    step computes it, and SciPy takes a second to import."""
    least, width = freedom + 2.0, 1.0
    while _exceeded(least + width, freedom, step, window) > rate:
        width *= 2.0
    for _ in range(BISECTIONS):
        width *= 0.5
        if _exceeded(least + width, freedom, step, window) > rate:
            least += width
    return least


def _exceeded(level, freedom, step, window):
    """Rate per second at which excursions above a level begin.

    The square root of the statistic is the radius b of an Ornstein-Uhlenbeck process in `freedom` dimensions.
    Excursions above a high level come in clumps, at a rate of f(b) (b - (n - 1) / b) per time constant
    (Aldous 1989, Probability approximations via the Poisson clumping heuristic, ch. D). The rate is lower
    because the statistic is sampled once per step (Siegmund 1985, Sequential analysis, ch. X).
    """
    b = math.sqrt(level)
    inward = b - (freedom - 1) / b
    steps = step / window
    density = 2.0 * b * _density(level, freedom)  # of the radius
    clumps = density * inward / window * _seen(inward * math.sqrt(2.0 * steps))
    return min(clumps, _tail(level, freedom) / step)


def _density(x, freedom):
    """Of the chi-square distribution."""
    half = 0.5 * freedom
    return 0.5 * math.exp((half - 1.0) * math.log(0.5 * x) - 0.5 * x - math.lgamma(half))


def _tail(x, freedom):
    """Probability that chi-square exceeds x: Q(n + 2) = Q(n) + 2 p(n + 2), from one or two degrees on."""
    odd = freedom % 2
    first = math.erfc(math.sqrt(0.5 * x)) if odd else math.exp(-0.5 * x)
    return first + sum(2.0 * _density(x, n + 2) for n in range(2 - odd, freedom, 2))


def _seen(x):
    """The detected share of clumps: nu(x) of Siegmund and Yakir (2007), The statistics of gene mapping."""
    half = 0.5 * x
    above = 0.5 * math.erf(half / math.sqrt(2.0))  # of the normal distribution, between 0 and half
    density = math.exp(-0.5 * half * half) / math.sqrt(2.0 * math.pi)
    return (2.0 / x) * above / (half * (0.5 + above) + density)
