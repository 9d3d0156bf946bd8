"""Runner: a Program that a backend made executable; what every Runner shares."""

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal, Protocol

import numpy as np

from dynamics_node.symbolic import UNIT, LaneProgram, Program

UNIT_TOLERANCE = 2 * UNIT  # of the square of a quaternion's length
PRECISIONS: dict[np.dtype, Literal["float", "double"]] = {
    np.dtype(np.float32): "float",
    np.dtype(np.float64): "double",
}
KEPT = 2.0**-12  # of a result, in any precision: what rounding may come to when health is at its limit


class Runner(Protocol):
    """Runs one Program. Picklable.

    program: what it runs, None for something else; backend: its name; inputs, outputs: {name: shape} of what
    a call takes and gives, parameters and health being kept; checks: whether `run_checked` tells by itself
    that inputs are not finite or not of unit length.
    """

    @property
    def program(self) -> Program | LaneProgram | None: ...

    @property
    def backend(self) -> str: ...

    @property
    def checks(self) -> bool: ...

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]: ...

    @property
    def outputs(self) -> dict[str, tuple[int, ...]]: ...

    def call_one(self, *arrays) -> Literal[False] | None:
        """One state, the quick way: arrays are the inputs, then the outputs. None when it has written them,
        False when it declines: an array is not plain (C-contiguous float64 of the right shape), or anything
        is not finite, of unit length, or within the limits of health."""

    def call_new(self, result: type[tuple] | None, *inputs):
        """One state or a few, the quick way: inputs (*shape), or (count, *shape) and (*shape) for all states.
        The output as a new array (*shape) or (count, *shape); of several a `result`: tuple or a class of
        NamedTuples. None when it declines, as `call_one`, or there are too many."""

    def call_batch(self, count: int, inputs, dtype: np.dtype, out=None) -> list[np.ndarray] | None:
        """Many states, the quick way: outputs [(count, *shape)], None when it declines, as `call_one`, or
        there are too few; arrays of dtype, which is the precision of the arithmetic. out: arrays for the
        outputs, which those that come back may be, or not; when it declines anything may be in them."""

    def run_checked(self, count: int, inputs, dtype=np.float64) -> tuple[list[np.ndarray], bool]:
        """Outputs [(count, *shape)] over many states, and whether all are good: finite, quaternions of unit
        length, health within its limits. Outputs of a state without a finite and healthy result are NaN; no
        state changes another. inputs: each (count, *shape), or (*shape) for all states, contiguous, of dtype,
        which is the precision of the arithmetic where the backend has it."""

    def with_parameters(self, values) -> "Runner":
        """A Runner with other values {name: array} of the parameters; names it does not have are ignored."""

    def prepare(self, batches: bool = False):
        """Do now what many states need later. Raises CompileError."""


class NoFastPath:
    """A Runner without a fast path: every call goes through `run_checked`."""

    checks = False

    def prepare(self, batches=False):
        """Nothing is left to do."""

    def call_one(self, *arrays):
        """Declined: False."""
        return False

    def call_new(self, result, *inputs):
        """Declined: None."""

    def call_batch(self, count, inputs, dtype, out=None):
        """Declined: None."""


@dataclass(frozen=True, eq=False)
class WithFallback:
    """A Runner: `first`, and `second`, slower and surer, for the states of which `first` has no result. On a
    device such states stay NaN."""

    first: Any
    second: Any
    checks = False  # states that are bad by themselves are not for the second one

    def __getattr__(self, name):
        """All that is not below is of the first alone: what it leaves as NaN on a device stays so."""
        if name == "first" or name.startswith("__"):  # while it is unpickled
            raise AttributeError(name)
        return getattr(self.first, name)

    def with_parameters(self, values):
        """Of both."""
        return replace(
            self, first=self.first.with_parameters(values), second=self.second.with_parameters(values)
        )

    def call_again(self, *inputs):
        """One state or a few, by the second: a tuple, see `call_new` of Runner."""
        return self.second.call_new(tuple, *inputs)

    def call_batch(self, count, inputs, dtype, out=None):
        """See Runner; declines where the second has no result either."""
        call = getattr(self.first, "call_marked", None)
        found = call(count, inputs, dtype) if call is not None else None
        if found is None:
            return self.first.call_batch(count, inputs, dtype, out)
        outputs, marked = found
        if marked is None:
            return outputs
        bad = np.flatnonzero(marked)
        try:
            again, good = self.second.run_checked(len(bad), self._of_states(inputs, bad), dtype)
        except np.linalg.LinAlgError:
            return None
        for output, array in zip(outputs, again, strict=True):
            output[bad] = array
        # sums, since BLAS has threads for products
        return outputs if good and all(np.isfinite(output.sum()) for output in outputs) else None

    def _of_states(self, inputs, chosen):
        """The inputs of some states, (k,) numbers or (count,) bool."""
        pairs = zip(inputs, self.inputs.values(), strict=True)
        return [array[chosen] if array.ndim > len(shape) else array for array, shape in pairs]

    def run_checked(self, count, inputs, dtype=np.float64):
        """See Runner; the states have to be good. What the second raises is raised."""
        outputs, good = self.first.run_checked(count, inputs, dtype)
        if good:
            return outputs, good
        bad = ~finite_states(outputs)
        again, good = self.second.run_checked(int(bad.sum()), self._of_states(inputs, bad), dtype)
        for output, array in zip(outputs, again, strict=True):
            output[bad] = array
        return outputs, good


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
    columns = zip(np.moveaxis(health, -1, 0), limits, strict=True)  # NumPy reduces short axes slowly
    return np.logical_and.reduce([column <= limit for column, limit in columns])


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
