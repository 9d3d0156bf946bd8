"""Quantities of a robot as compiled functions: mass matrix, bias, Jacobian, operational-space inertia."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from dynamics_node.algorithms import bias, crba, link_jacobian, operational_space_inertia
from dynamics_node.backends.c import CompileError, Kernel
from dynamics_node.backends.traced import quantity_program, quaternion_places
from dynamics_node.model import Model
from dynamics_node.solver.checks import checked, checked_position, delivered, finite_solution

log = logging.getLogger("dynamics_node")


def _mass_matrix(model, q):
    return (crba(model, q),)


def _bias(model, q, qd):
    return (bias(model, q, qd),)


def _jacobian(model, q, link, reference="world_aligned"):
    return (link_jacobian(model, q, link, reference),)


# name: function of (model, arrays, options) -> arrays; which arrays it reads
QUANTITIES: dict[str, tuple[Callable, tuple[str, ...]]] = {
    "mass_matrix": (_mass_matrix, ("q",)),
    "bias": (_bias, ("q", "qd")),
    "link_jacobian": (_jacobian, ("q",)),
    "operational_space_inertia": (operational_space_inertia, ("q",)),
}


@dataclass(frozen=True, eq=False)
class Quantity:
    """A function of q (..., nq), or of q and qd (..., nv), for one robot. Picklable.

    It returns what the function of its name in `dynamics_node` returns, an array or a tuple of arrays; raises
    InputError and SolutionError as a Solver does. One state goes to compiled code, a batch to numpy.
    """

    model: Model
    name: str
    options: dict[str, Any]
    kernel: Kernel | None
    _one_state: Callable = field(init=False, repr=False)

    def __call__(self, *arrays, out=None):
        """out: an array for every result (a tuple if there are several), for one state."""
        if out is not None and type(out) is not tuple:
            if self._one_state(*arrays, out) is None:
                return out
            return delivered(self._by_numpy(*arrays)[0], out)
        results: tuple = self._fresh() if out is None else out
        if self._one_state(*arrays, *results) is not None:
            places = out if out is not None else (None,) * len(results)
            pairs = zip(self._by_numpy(*arrays), places, strict=True)
            results = tuple(delivered(result, place) for result, place in pairs)
        return results[0] if len(results) == 1 else results

    def __post_init__(self):
        solve = self.kernel.solve if self.kernel is not None else lambda *arrays: False
        object.__setattr__(self, "_one_state", solve)  # an attribute of the object is found fastest

    @cached_property
    def _shapes(self):
        state = {"q": self.model.neutral(), "qd": np.zeros(self.model.nv)}
        function, reads = QUANTITIES[self.name]
        return [r.shape for r in function(self.model, *(state[n] for n in reads), **self.options)]

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name != "_one_state"}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.__post_init__()

    def _fresh(self):
        return tuple(np.empty(shape) for shape in self._shapes)

    def _by_numpy(self, q, *rates):
        q = checked_position(self.model, q)
        speeds = [checked("qd", qd, (self.model.nv,), self.model.v_names) for qd in rates]
        results = QUANTITIES[self.name][0](self.model, q, *speeds, **self.options)
        finite_solution(*results)
        return tuple(results)


def build_quantity(model: Model, name: str, backend="auto", **options) -> Quantity:
    """A Quantity: 'mass_matrix', 'bias', 'link_jacobian' (options link, reference) or
    'operational_space_inertia' (options links, reference).

    backend: c, numpy, or auto: c where it works. Raises ValueError for an unknown name, KeyError for an
    unknown link, CompileError for backend c without a compiler.
    """
    if name not in QUANTITIES:
        raise ValueError(f"unknown quantity {name!r}; there are {', '.join(QUANTITIES)}")
    function, reads = QUANTITIES[name]
    kernel = None
    if backend != "numpy":
        program = quantity_program(model, partial(function, **options), reads)
        try:
            kernel = Kernel(program, quaternions=quaternion_places(model))
        except CompileError as error:
            if backend == "c":
                raise
            log.warning("%s; numpy serves instead", error)
    quantity = Quantity(model, name, options, kernel)
    _ = quantity._shapes  # an unknown link is told here, not at the first call
    return quantity
