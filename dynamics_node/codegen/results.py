"""What a Program gives to those who call it, and whether it counts: health within its limits, in the
precision of the arithmetic."""

from itertools import combinations

import numpy as np

from dynamics_node.symbolic import UNIT

UNIT_TOLERANCE = 2 * UNIT  # of the square of a quaternion's length
KEPT = 2.0**-12  # of a result, in any precision: what rounding may come to when health is at its limit


def taken(program, parameters=()) -> dict[str, tuple[int, ...]]:
    """{name: shape} of the inputs that a call takes: all but the parameters."""
    return {name: shape for name, shape in program.inputs.items() if name not in parameters}


def returned(program) -> dict[str, tuple[int, ...]]:
    """{name: shape} of the outputs that a call gives: all but health, the last one where there are limits."""
    shapes = [(name, numbers.shape) for name, numbers in program.outputs.items()]
    return dict(shapes[:-1] if program.limits else shapes)


def usable(out, inputs) -> list[np.ndarray]:
    """The arrays of `out` for results that are written while inputs are read: none of them where some may lie
    over others."""
    if out is None or not all(type(array) is np.ndarray for array in (*out, *inputs)):
        return []
    over = any(np.may_share_memory(array, other) for array in out for other in inputs)
    over = over or any(np.may_share_memory(array, other) for array, other in combinations(out, 2))
    return [] if over else list(out)


def limits_in(program, dtype=np.float64) -> tuple[float, ...]:
    """The limits of a Program's health in arithmetic of a type.

    They are those of float64; an entry of health is the square of what multiplies rounding, which in
    float32 may be less (one whose limit is below is something else: it stays).
    """
    most = (KEPT / np.finfo(dtype).eps) ** 2
    return tuple(min(limit, most) if dtype != np.float64 else limit for limit in program.limits)


def healthy(health, limits):
    """Which states (count,) are within the limits; NaN is not. health (count, len(limits))."""
    return (health <= np.asarray(limits)).all(axis=-1)


def finite_states(outputs):
    """Which states (count,) are finite in all outputs (count, ...)."""
    return np.logical_and.reduce([np.isfinite(a).all(axis=tuple(range(1, a.ndim))) for a in outputs])


def without_bad(outputs, good):
    """The outputs (count, ...) with NaN, in place, at states that are not finite or not good, (count,)
    bool."""
    bad = ~(good & finite_states(outputs))
    for array in outputs:
        array[bad] = np.nan
    return outputs
