"""The border: shapes and finiteness, told with the names of the coordinates."""

from math import isfinite

import numpy as np

QUATERNION_TOLERANCE = 1e-6


class InputError(ValueError):
    """An argument of wrong shape or with a value that cannot be used; names argument and coordinate."""


class SolutionError(ArithmeticError):
    """No finite solution at this state: the equations are singular there."""


def checked(name, value, tail, coordinates):
    """value as float64 array (..., *tail), finite. coordinates: names along the first axis of the tail."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} is not an array of numbers") from None
    if array.shape[array.ndim - len(tail) :] != tail or array.ndim < len(tail):
        listed = ", ".join(coordinates[:12]) + (", ..." if len(coordinates) > 12 else "")
        shape = ", ".join(map(str, ("...", *tail)))
        raise InputError(f"{name} must have shape ({shape}), not {array.shape}; its entries: {listed}")
    if not _all_finite(array):
        place = np.argwhere(~np.isfinite(array))[0]
        index = place[array.ndim - len(tail)]
        raise InputError(f"{name}[{index}] ({coordinates[index]}) is not finite: {array[tuple(place)]}")
    return array


def _all_finite(array):
    """True when no entry is infinite or NaN: one product tells, unless it overflows."""
    flat = array.ravel()
    return isfinite(flat @ flat) or bool(np.isfinite(flat).all())


def checked_position(model, q):
    """q (..., nq) checked. Quaternions within 1e-6 of unit length count as their direction (as
    `quaternion_rotation` takes them); beyond they are refused."""
    q = checked("q", q, (model.nq,), model.q_names)
    for joint in model.independent_joints:
        if joint.kind == "floating":
            _check_unit(q[..., joint.q.start + 3 : joint.q.stop], joint.name)
    return q


def _check_unit(quaternions, joint):
    off = np.abs(np.einsum("...k,...k->...", quaternions, quaternions) - 1)
    if np.any(off > 2 * QUATERNION_TOLERANCE):
        worst = np.linalg.norm(quaternions, axis=-1).flat[np.argmax(off)]
        raise InputError(f"quaternion of {joint!r} has norm {worst:.9g}, not 1: normalise it")


def same_batch(arrays):
    """Raise InputError unless the leading axes broadcast. arrays: {name: (array, tail length)}."""
    shapes = {a.shape[: a.ndim - tail] for a, tail in arrays.values() if a is not None}
    if len(shapes) == 1:
        return shapes.pop()
    leading = {name: a.shape[: a.ndim - tail] for name, (a, tail) in arrays.items() if a is not None}
    try:
        return np.broadcast_shapes(*leading.values())
    except ValueError:
        listed = ", ".join(f"{name} {shape}" for name, shape in leading.items())
        raise InputError(f"leading axes do not fit together: {listed}") from None


def finite_solution(*arrays):
    """Raise SolutionError unless everything is finite."""
    if not all(map(_all_finite, arrays)):
        raise SolutionError("the equations have no finite solution at this state")


def delivered(result, out):
    """The result, in `out` if there is one. Raises InputError when it does not fit there."""
    if out is None:
        return result
    if np.shape(out) != result.shape:
        raise InputError(f"out must have shape {result.shape}, not {np.shape(out)}")
    out[...] = result
    return out
