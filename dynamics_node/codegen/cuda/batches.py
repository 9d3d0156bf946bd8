"""Batches of NumPy's arrays: what a kernel is given of them, and which states it leaves without a result."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np

GRAVITY = "gravity"  # an input that mostly is the same in all states
PRECISIONS: dict[np.dtype, Literal["float", "double"]] = {
    np.dtype(np.float32): "float",
    np.dtype(np.float64): "double",
}


class Batch(NamedTuple):
    """Arrays of NumPy for a call. arrays: {name: (states, *shape)}; same: {name: (*shape)} of what is the
    same in all states, parameters among them."""

    states: int
    dtype: np.dtype
    arrays: dict[str, np.ndarray]
    same: dict[str, np.ndarray]


def placed(program, quaternions) -> dict[str, list[int]]:
    """{input: where quaternions begin in it}, which begin at some places among all entries. A kernel looks at
    those that differ from state to state."""
    found: dict[str, list[int]] = {}
    start = 0
    for name, shape in program.inputs.items():
        end = start + int(np.prod(shape, dtype=int))
        if places := [place - start for place in quaternions if start <= place < end]:
            found[name] = places
        start = end
    return found


def example(
    inputs: Mapping[str, tuple[int, ...]],
    parameters: Mapping[str, np.ndarray],
    turning: Mapping[str, list[int]],
    count: int,
    dtype: np.dtype,
) -> Batch:
    """Some states for a trial. inputs: shapes; turning: where quaternions begin."""
    random, arrays, same = np.random.default_rng(0), {}, dict(parameters)
    for name, shape in inputs.items():
        if name == GRAVITY:
            same[name] = random.uniform(-1.0, 1.0, shape).astype(dtype)
        else:
            arrays[name] = random.uniform(-1.0, 1.0, (count, *shape)).astype(dtype)
    for name, places in turning.items():
        for place in places:
            arrays[name].reshape(count, -1)[:, place : place + 4] = (0, 0, 0, 1)
    return Batch(count, dtype, arrays, same)


def bad_states(outputs) -> np.ndarray:
    """Which states (count,) have no result: all outputs of such a state are NaN, so one entry tells."""
    array = next((array for array in outputs if array[0].size), outputs[0])
    return np.isnan(array.reshape(len(array), -1)[:, :1]).any(axis=1)
