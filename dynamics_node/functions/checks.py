"""Checks of shapes and finite values at the public border, with the names of coordinates in messages."""

from collections.abc import Mapping
from math import isfinite

import numpy as np

from dynamics_node.errors import InputError
from dynamics_node.robot import Robot
from dynamics_node.symbolic import UNIT
from dynamics_node.text import listed

_REAL = int | float | np.integer | np.floating
ONE_THREAD = 10_000  # numbers; OpenBLAS multiplies more with threads, which then wait on the other cores


def shaped(name, value, axes, dtype=np.float64):
    """The value as array (..., *tail). axes: the tail, and names along its first axis."""
    tail, coordinates = axes
    array = numbers(name, value, dtype)
    if array.shape[array.ndim - len(tail) :] != tail or array.ndim < len(tail):
        shape = ", ".join(map(str, ("...", *tail)))
        entries = listed(coordinates, 12)
        raise InputError(f"{name} must have shape ({shape}), not {array.shape}; its entries: {entries}")
    return array


def numbers(name, value, dtype=np.float64):
    """The value as an array of real numbers. Raises InputError."""
    if value is None:
        raise InputError(f"{name} is missing")
    if isinstance(value, Robot):
        raise InputError(f"{name} is a Robot: a Function knows its robot, leave it out")
    try:
        array = np.asarray(value)
        if array.dtype.kind == "c":
            raise InputError(f"{name} is complex")
        if array.dtype.kind in "mM":  # NumPy converts dates to counts of nanoseconds
            raise TypeError
        return np.asarray(array, dtype=dtype)
    except InputError:
        raise
    except (TypeError, ValueError):
        remedy = ": use dn.external_wrenches(robot, {link: wrench})" if isinstance(value, Mapping) else ""
        raise InputError(f"{name} is not an array of numbers{remedy if name == 'f_ext' else ''}") from None


def finite(name, value, shape):
    """The value as a finite array of a shape. Raises InputError."""
    array = numbers(name, value)
    if array.shape != shape or not np.isfinite(array).all():
        size = " x ".join(map(str, shape)) + " finite numbers" if shape else "a finite number"
        raise InputError(f"{name} must be {size}, not {value}")
    return array


def positive(name, value, unit="") -> float:
    """A finite number above zero. Raises InputError."""
    number = value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value
    if not (isinstance(number, _REAL) and isfinite(number) and number > 0):
        unit = f" of {unit}" if unit else ""
        raise InputError(f"{name} must be a positive number{unit}, not {value!r}")
    return float(number)


def require_finite(name, array, axes, steps=False):
    """Raise InputError for the first entry that is not finite, by its name; axes as above. steps: the last
    leading axis counts steps of a rollout."""
    if not _all_finite(array):
        place = np.argwhere(~np.isfinite(array))[0]
        entry = _entry(name, place, axes, array.ndim, steps)
        raise InputError(f"{entry} is not finite: {array[tuple(place)]}")


def require_flags(name, array, axes):
    """Raise InputError for the first entry that is neither 0 nor 1, by its name; axes as above."""
    if not (good := (array == 0.0) | (array == 1.0)).all():
        place = np.argwhere(~good)[0]
        entry = _entry(name, place, axes, array.ndim)
        raise InputError(f"{entry} is {array[tuple(place)]:g}: it must be 1 if it touches, else 0")


def _entry(name, place, axes, ndim, steps=False):
    """Words for the place of an entry of an array with `ndim` axes."""
    tail, coordinates = axes
    leading = ndim - len(tail)
    index, states = place[leading], place[:leading].tolist()
    step = f" at step {states.pop()}" if steps else ""
    state = f" of state {', '.join(map(str, states))}" if states else ""
    return f"{name}[{index}] ({coordinates[index]}){step}{state}"


def finite_states(array, axes=1):
    """Which states are finite: True if all are, or bool (...). axes: number of axes outside the batch."""
    return _all_finite(array) or np.isfinite(array).all(axis=tuple(range(-axes, 0)))


def _all_finite(array):
    """True if no entry is infinite or NaN: a single product shows it, unless it overflows."""
    flat = array.ravel()
    if flat.size <= ONE_THREAD:
        with np.errstate(over="ignore", invalid="ignore"):
            if isfinite(flat @ flat):
                return True
    return bool(np.isfinite(flat).all())


def require_unit_quaternions(name, quaternions):
    """Raise InputError for a quaternion (..., 4) whose length differs from 1 by more than 1e-6. Closer ones
    are normalized in `quaternion_rotation`."""
    unit = unit_states(quaternions)
    if not unit.all():
        worst = np.linalg.norm(quaternions[~unit][0])
        raise InputError(f"quaternion of {name!r} has norm {worst:.9g}, not 1: normalize it")


def unit_states(quaternions):
    """Which quaternions (..., 4) are of unit length: bool (...)."""
    squares = np.einsum("...k,...k->...", quaternions, quaternions)
    return np.abs(squares - 1) <= 2 * UNIT


def same_batch(arrays):
    """The common leading axes. arrays: {name: (array, tail length)}. Raises InputError if they do not
    broadcast."""
    shapes = {a.shape[: a.ndim - tail] for a, tail in arrays.values()}
    if len(shapes) == 1:
        return shapes.pop()
    leading = {name: a.shape[: a.ndim - tail] for name, (a, tail) in arrays.items()}
    try:
        return np.broadcast_shapes(*leading.values())
    except ValueError:
        listed = ", ".join(f"{name} {shape}" for name, shape in leading.items())
        raise InputError(f"leading axes do not broadcast: {listed}") from None


def written_to(result, out):
    """The result, in `out` if given. Raises InputError for an `out` of another type or shape."""
    if out is None:
        return result
    if not isinstance(out, np.ndarray) or out.dtype.kind != "f":
        raise InputError(f"out must be an array of floats, not {getattr(out, 'dtype', type(out).__name__)}")
    if np.shape(out) != result.shape:
        raise InputError(f"out must have shape {result.shape}, not {np.shape(out)}")
    if out is not result:
        out[...] = result
    return out
