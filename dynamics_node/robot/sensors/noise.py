"""How well a sensor knows: standard deviations, or a covariance."""

import math

import numpy as np

from dynamics_node.robot.errors import SensorError

DEVIATIONS = 1e-12, 1e12  # in the unit of the reading: no sensor is better, or worse
ASYMMETRY = 1e-9  # of a covariance beside its entries: what rounding in a file leaves


def deviations(name, std):
    """std as a float or a tuple of floats; refuses what is none, naming the sensor."""
    values = numbers(name, "std", std, scalar=True)
    if not all(value >= 0 for value in np.ravel(values)):
        raise SensorError(f"sensor {name!r}: a standard deviation is not negative, but std is {std}")
    _require_within(name, np.ravel(values))
    return values


def _require_within(name, deviations):
    """Their squares are divided by."""
    low, high = DEVIATIONS
    for value in deviations:
        if value and not low <= value <= high:
            raise SensorError(
                f"sensor {name!r}: a standard deviation of {value:g} is not between {low:g} and {high:g}, "
                "nor 0, which is exact"
            )


def covariance_of(name, covariance):
    """A covariance as a tuple of rows; refuses one that is not symmetric positive definite."""
    try:
        matrix = np.array(covariance, dtype=float)
    except (TypeError, ValueError):
        raise SensorError(f"sensor {name!r}: covariance must be a square matrix of numbers") from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not len(matrix):
        raise SensorError(f"sensor {name!r}: covariance must be a square matrix, not {matrix.shape}")
    if not np.all(np.isfinite(matrix)):
        raise SensorError(f"sensor {name!r}: covariance has entries that are not finite")
    _require_within(name, np.sqrt(np.maximum(np.diag(matrix), 0.0)))
    size = np.sqrt(np.outer(*2 * [np.abs(np.diag(matrix))]))
    if np.any(np.abs(matrix - matrix.T) > ASYMMETRY * size):
        raise SensorError(f"sensor {name!r}: its covariance is not symmetric")
    if not _definite(matrix):
        raise SensorError(
            f"sensor {name!r}: its covariance is not positive definite; rows that are exact are told by std"
        )
    return tuple(map(tuple, ((matrix + matrix.T) / 2).tolist()))


def _definite(matrix):
    """Judged in units in which every variance is one."""
    variances = np.diag(matrix)
    if not np.all(variances > 0):
        return False
    scale = np.sqrt(variances)
    return bool(np.linalg.eigvalsh(matrix / np.outer(scale, scale)).min() > len(matrix) * np.finfo(float).eps)


def numbers(name, field, given, length=None, scalar=False):
    """A number (if `scalar`) or a sequence of them as float or tuple; refuses others, naming the sensor."""
    try:
        array = np.array(given, dtype=float)
    except (TypeError, ValueError):
        array = np.array([])
    if array.ndim == 0 and scalar and math.isfinite(float(array)):
        return float(array)
    if array.ndim != 1 or not array.size or not np.all(np.isfinite(array)):
        what = "a finite number or a sequence of them" if scalar else "a sequence of finite numbers"
        raise SensorError(f"sensor {name!r}: {field} must be {what}, not {given!r}")
    if length is not None and len(array) != length:
        raise SensorError(f"sensor {name!r}: {field} must be {length} numbers, not {len(array)}")
    return tuple(array.tolist())
