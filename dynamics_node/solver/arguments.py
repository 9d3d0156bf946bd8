"""The arguments of a call: arrays over one batch, what is wrong with them, and the good states alone."""

import contextlib
from functools import lru_cache, partial

import numpy as np

from dynamics_node.solver.checks import (
    SolutionError,
    finite_states,
    refuse_not_finite,
    refuse_not_unit,
    same_batch,
    shaped,
    unit_states,
)

ERRORS = ("raise", "nan")


@lru_cache(maxsize=16)  # of the robots at hand
def coordinates(model):
    """{argument: (its axes beside those of the batch, names along the first of them)}"""
    rates = ((model.nv,), model.v_names)
    bodies = [body.name for body in model.bodies]
    return {
        "q": ((model.nq,), model.q_names),
        **dict.fromkeys(("qd", "qdd", "tau"), rates),
        "f_ext": ((model.nbodies, 6), bodies),
        "gravity": ((3,), "xyz"),
    }


class Arguments:
    """values: {name of `coordinates`: whatever was given}. Raises InputError for wrong shapes."""

    def __init__(self, model, values, dtype=np.float64):
        self._model, self._known = model, coordinates(model)
        self.arrays = {name: shaped(name, value, self._known[name], dtype) for name, value in values.items()}
        self.batch = same_batch({name: (a, self._axes(name)) for name, a in self.arrays.items()})

    def _axes(self, name):
        return len(self._known[name][0])

    def refuse_bad(self):
        """Raise InputError, argument and coordinate by name, unless all is finite and of unit length."""
        for name, array in self.arrays.items():
            refuse_not_finite(name, array, self._known[name])
        if "q" in self.arrays:
            refuse_not_unit(self._model, self.arrays["q"])

    def good(self):
        """Which states are finite with quaternions of unit length: bool over the batch."""
        good = np.broadcast_to(unit_states(self._model, self.arrays["q"]), self.batch)
        for name, array in self.arrays.items():
            good = good & finite_states(array, self._axes(name))
        return good

    def spread(self):
        """The arrays over the whole batch; f_ext and gravity may stay the same for all states."""
        return {name: self._spread(name, array) for name, array in self.arrays.items()}

    def _spread(self, name, array):
        shape = (*self.batch, *array.shape[array.ndim - self._axes(name) :])
        fits = self._is_same(name, array) or array.shape == shape
        return array if fits else np.broadcast_to(array, shape)

    def chosen(self, good):
        """The arrays where good, bool over the batch, is true: one axis in place of the batch."""
        spread = self.spread().items()
        return {name: a if self._is_same(name, a) else a[good] for name, a in spread}

    def states(self, chosen, which):
        """Of what `chosen` returned, the states `which`, a slice."""
        return {name: a if self._is_same(name, a) else a[which] for name, a in chosen.items()}

    def _is_same(self, name, array):
        """True of what may stay the same for all states, and does."""
        return array.ndim == self._axes(name) and name in ("f_ext", "gravity")


def solve_states(function, arguments: Arguments, errors="raise", vouched=None, why=None):
    """The arrays that function(batch, **arrays) returns, over the batch.

    errors: 'raise' InputError or SolutionError when a state is not good or has no finite solution, or put
    'nan' into all its results; the function sees good states only. vouched: a function that sees the
    states unchecked and returns the results if all are good, else None; why(**arrays) tells why there is no
    solution at a state. Raises ValueError for other errors.
    """
    if errors not in ERRORS:
        raise ValueError(f"errors must be {' or '.join(map(repr, ERRORS))}, not {errors!r}")
    if vouched is not None:
        results = vouched(arguments.batch, **arguments.spread())
        if results is not None:
            return results
    if errors == "nan":
        return _with_nan(function, arguments)
    arguments.refuse_bad()
    try:
        with np.errstate(all="ignore"):  # what is not finite is told below
            results = function(arguments.batch, **arguments.spread())
    except np.linalg.LinAlgError as error:
        reason = _reason(why, arguments)
        raise SolutionError(reason or f"no solution at this state: {error}") from None
    if not all(finite_states(array, array.ndim) for array in results):
        reason = _reason(why, arguments)
        raise SolutionError(reason or "the equations have no finite solution at this state")
    return results


def _reason(why, arguments):
    return None if why is None else why(**arguments.spread())


def _with_nan(function, arguments):
    good = arguments.good()
    batch, chosen = (np.count_nonzero(good),), arguments.chosen(good)
    with np.errstate(all="ignore"):
        try:
            solved = function(batch, **chosen)
        except np.linalg.LinAlgError:
            solved = _one_by_one(function, *batch, partial(arguments.states, chosen))
    finite = np.ones(batch, dtype=bool)
    for array in solved:
        finite &= finite_states(array, array.ndim - 1)
    results = [np.full((*arguments.batch, *array.shape[1:]), np.nan, array.dtype) for array in solved]
    for result, array in zip(results, solved, strict=True):
        array[~finite] = np.nan
        result[good] = array
    return results


def _one_by_one(function, count, states):
    """The results of `count` states, NaN where there is no solution; states(slice): the arrays of some."""
    results = [np.full((count, *r.shape[1:]), np.nan, r.dtype) for r in function((0,), **states(slice(0)))]
    for k in range(count):
        with contextlib.suppress(np.linalg.LinAlgError):
            solved = function((1,), **states(slice(k, k + 1)))
            for result, array in zip(results, solved, strict=True):
                result[k] = array[0]
    return results
