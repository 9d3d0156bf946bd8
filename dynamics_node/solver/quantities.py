"""Quantities of a robot as compiled functions: mass matrix, bias, Jacobian, operational-space inertia, and
the derivatives of its dynamics."""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from dynamics_node.algorithms import bias, crba, link_jacobian, operational_space_inertia, pivots
from dynamics_node.algorithms.pivots import weak_coordinates, why_singular
from dynamics_node.backends.c import BATCH, BatchKernel, CompileError, Kernel
from dynamics_node.backends.derivatives import derivative_program
from dynamics_node.backends.loops import why_not
from dynamics_node.backends.traced import quantity_program, quaternion_places
from dynamics_node.loops.determined import require_determined
from dynamics_node.loops.mechanism import Mechanism
from dynamics_node.loops.programs import HEALTHY, mechanism_quantity
from dynamics_node.model import Model
from dynamics_node.problem import Problem
from dynamics_node.program import Program, interpret
from dynamics_node.solver.arguments import Arguments, solve_states
from dynamics_node.solver.checks import delivered

log = logging.getLogger("dynamics_node")


def _mass_matrix(model, q):
    return (crba(model, q),)


def _bias(model, q, qd, gravity):
    return (bias(model, q, qd, gravity=gravity),)


def _jacobian(model, q, link, reference="world_aligned"):
    return (link_jacobian(model, q, link, reference),)


# name: function of (model, arrays, options) -> arrays; which arrays it reads
QUANTITIES: dict[str, tuple[Callable, tuple[str, ...]]] = {
    "mass_matrix": (_mass_matrix, ("q",)),
    "bias": (_bias, ("q", "qd", "gravity")),
    "link_jacobian": (_jacobian, ("q",)),
    "operational_space_inertia": (operational_space_inertia, ("q",)),
}
NEED_INVERSE = ("operational_space_inertia",)  # of the mass matrix


@dataclass(frozen=True, eq=False)
class Quantity:
    """A function of a robot's state. Picklable. limits: of the output health of its Program, empty if there
    is none; why(q): what is wrong at positions beyond them, in words. Its arguments are the inputs of its
    Program in order, over a batch: q (..., nq); qd, qdd, tau (..., nv); f_ext (..., nbodies, 6).

    It returns an array, or a tuple of arrays if there are several, over the batch; raises InputError and
    SolutionError as a Solver does.
    """

    model: Model
    name: str
    program: Program
    kernel: Kernel | None
    limits: np.ndarray
    why: Callable
    _one_state: Callable = field(init=False, repr=False)
    _gravity: tuple = field(init=False, repr=False)
    _shapes: list = field(init=False, repr=False)

    def __call__(self, *arrays, gravity=None, out=None, errors="raise"):
        """gravity (..., 3) m/s^2 in place of the model's, where it is an input; out: an array for every
        result (a tuple if there are several); errors: 'raise', or 'nan' as for a Solver."""
        arrays += self._gravity if gravity is None else (gravity,)
        if out is None:
            results = tuple([np.empty(shape) for shape in self._shapes])
        else:
            results = out if type(out) is tuple else (out,)
        if self._one_state(*arrays, *results) is not None:
            places = (None,) * len(results) if out is None else results
            pairs = zip(self._over_batch(arrays, errors), places, strict=True)
            results = tuple(delivered(result, place) for result, place in pairs)
        return results[0] if len(results) == 1 else results

    def __post_init__(self):
        solve = self.kernel.solve if self.kernel is not None else lambda *arrays: False
        object.__setattr__(self, "_one_state", solve)  # an attribute of the object is found fastest
        gravity = (self.model.gravity,) if "gravity" in self.program.inputs else ()
        object.__setattr__(self, "_gravity", gravity)
        shapes = [n.shape for name, n in self.program.outputs.items() if name != "health"]
        object.__setattr__(self, "_shapes", shapes)

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name != "_one_state"}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.__post_init__()

    @cached_property
    def _batch_kernel(self):
        """The Program for many states, compiled when they come for the first time."""
        return BatchKernel(self.program, quaternions=quaternion_places(self.model))

    def _over_batch(self, arrays, errors):
        names = list(self.program.inputs)
        if len(arrays) != len(names):
            raise TypeError(
                f"{self.name} takes {', '.join(names)}: {len(names)} arguments, not {len(arrays)}"
            )
        arguments = Arguments(self.model, dict(zip(names, arrays, strict=True)))
        many = self.kernel is not None and math.prod(arguments.batch) >= BATCH
        return solve_states(self._plain, arguments, errors, self._vouched if many else None, self._why)

    def _vouched(self, batch, **arrays):
        """By vectors of states; None when one is not good."""
        results, good = self._batch_kernel(math.prod(batch), *self._rows(batch, arrays))
        *found, health = self._shaped(batch, results)
        return found if good and (health <= self.limits).all() else None

    def _plain(self, batch, **arrays):
        """NaN where health is beyond its limits."""
        if self.kernel is None:
            *found, health = self._shaped(batch, interpret(self.program, **arrays).values())
        else:
            rows = self._rows(batch, arrays)
            *found, health = self._shaped(batch, self.kernel.separate(math.prod(batch), *rows))
        found = [np.array(array) for array in found]
        for array in found:
            array[~(health <= self.limits).all(axis=-1)] = np.nan
        return found

    def _why(self, q, **_):
        """Why there is no solution at one of the positions q, if it is known."""
        return self.why(q)

    def _rows(self, batch, arrays):
        return [_rows(arrays[name], shape, math.prod(batch)) for name, shape in self.program.inputs.items()]

    def _shaped(self, batch, results):
        """The results over the batch, and at last health, (..., 0) where there is none."""
        shapes = [numbers.shape for numbers in self.program.outputs.values()]
        found = [array.reshape(*batch, *shape) for array, shape in zip(results, shapes, strict=True)]
        return found if len(self.limits) else [*found, np.empty((*batch, 0))]


def _rows(array, shape, count):
    """(count, size), or (size,) of what has no axes of the batch."""
    return array.ravel() if array.shape == shape else array.reshape(count, math.prod(shape))


def build_quantity(model: Model | Mechanism, name: str, backend="auto", **options) -> Quantity:
    """A Quantity: 'mass_matrix', 'bias', 'link_jacobian' (options link, reference) or
    'operational_space_inertia' (options links, reference).

    backend: c, numpy, or auto: c where it works. Raises ValueError for an unknown name, KeyError for an
    unknown link, CompileError for backend c without a compiler.
    """
    if name not in QUANTITIES:
        raise ValueError(f"unknown quantity {name!r}; there are {', '.join(QUANTITIES)}")
    if name in NEED_INVERSE:
        require_determined(model, np.ones(model.nv, dtype=bool))
    if isinstance(model, Mechanism):
        forward = (True,) * model.nv if name in NEED_INVERSE else None
        return _quantity(model, name, mechanism_quantity(model, name, **options), backend, forward)
    function, reads = QUANTITIES[name]
    watched = weak_coordinates(model) if name in NEED_INVERSE else ()
    program = quantity_program(model, partial(function, **options), reads, watched)
    return _quantity(model, name, program, backend)


def build_derivatives(model: Model | Mechanism, problem: Problem, backend="auto", wrenches=False) -> Quantity:
    """The derivatives of a problem's result, as a function of its arguments: for inverse dynamics

        dtau_dq, dtau_dqd, M = derivatives(q, qd, qdd)

    for forward dynamics dqdd_dq, dqdd_dqd, dqdd_dtau of (q, qd, tau), and for hybrid dynamics, of (q, qd,
    qdd, tau), the derivatives of what is asked by what is known, coordinate by coordinate. All are (..., nv,
    nv), exact to rounding. Those by q are along the tangent space: column k belongs to the motion with
    velocity k at rate 1 (a floating base turns and moves in its own axes; loops stay closed). wrenches:
    f_ext is another argument; it stays constant in body axes. backend and errors as in `build_quantity`.
    """
    if problem.kind != "inverse":
        require_determined(model, problem.forward)
    program = derivative_program(model, problem, wrenches)
    return _quantity(model, f"{problem.kind}_derivatives", program, backend, problem.forward)


def _quantity(model, name, program, backend, forward=None):
    """forward: of its Problem, if it has one."""
    kernel = None
    if isinstance(model, Mechanism):
        healthy, why = HEALTHY, partial(why_not, model, forward=forward)
    else:
        healthy, why = pivots.HEALTHY, partial(why_singular, model, forward or (True,) * model.nv)
    limits = healthy if "health" in program.outputs else np.empty(0)
    if backend != "numpy":
        try:
            kernel = Kernel(program, quaternions=quaternion_places(model), limits=limits)
        except CompileError as error:
            if backend == "c":
                raise
            log.warning("%s; numpy serves instead", error)
    return Quantity(model, name, program, kernel, limits, why)
