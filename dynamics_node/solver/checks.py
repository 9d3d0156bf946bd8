"""The border: shapes and finiteness, told with the names of the coordinates."""

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
    if not np.isfinite(array).all():
        place = np.argwhere(~np.isfinite(array))[0]
        index = place[array.ndim - len(tail)]
        raise InputError(f"{name}[{index}] ({coordinates[index]}) is not finite: {array[tuple(place)]}")
    return array


def checked_position(model, q):
    """q (..., nq) checked; unit quaternions renormalised within 1e-6, refused beyond."""
    q = checked("q", q, (model.nq,), model.q_names)
    for joint in model.independent_joints:
        if joint.kind == "floating":
            q = _normalised(q, slice(joint.q.start + 3, joint.q.stop), joint.name)
    return q


def _normalised(q, at, joint):
    norm = np.linalg.norm(q[..., at], axis=-1, keepdims=True)
    if np.any(np.abs(norm - 1) > QUATERNION_TOLERANCE):
        worst = norm.flat[np.argmax(np.abs(norm - 1))]
        raise InputError(f"quaternion of {joint!r} has norm {worst:.9g}, not 1: normalise it")
    q = q.copy()
    q[..., at] /= norm
    return q


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
    if not all(np.isfinite(array).all() for array in arrays):
        raise SolutionError("the equations have no finite solution at this state")
