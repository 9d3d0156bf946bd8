"""A Program of a Model, run as compiled C."""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from dynamics_node.algorithms.pivots import healthy_up_to, refuse_unwatched, weak_coordinates
from dynamics_node.backends.c import BATCH, BatchKernel, Kernel
from dynamics_node.model import Model
from dynamics_node.model.reframe import reframe
from dynamics_node.problem import Problem
from dynamics_node.program import Program, Rolled
from dynamics_node.programs import cheapest, dynamics_programs, elimination_program, parameter_values


@dataclass(frozen=True, eq=False)
class CompiledEngine:
    """write(wrenches=...): makes its Program; parameters: of inertia and armature, those that are inputs of
    it; regroups: whether it has base parameters; watched (nv,): coordinates whose pivots it watches, see
    algorithms/pivots.py.
    External wrenches are another Program, compiled when the first one comes."""

    model: Model
    problem: Problem
    description: str
    write: Any
    parameters: tuple[str, ...]
    regroups: bool
    watched: np.ndarray
    kernel: Kernel
    batches: dict[Any, BatchKernel] = field(default_factory=dict)  # shared by all that with_model returns

    @cached_property
    def kernel_with_wrenches(self):
        """The Program that reads f_ext as well. Raises CompileError."""
        return _kernel(self.write(wrenches=True), self.model, self.parameters, self.regroups)

    @property
    def _takes_vectors(self):
        return isinstance(self.kernel.program, Program)  # not with loops: their memory would leave the caches

    def prepare(self, batches):
        """Do now what `with_model`, external wrenches and, on demand, many states need."""
        _ = self.kernel_with_wrenches, self.frames
        if batches and self._takes_vectors:
            self._batch(self.kernel, np.dtype(np.float64))

    @cached_property
    def frames(self):
        """The geometry in the frames of the Program, with the transforms to them: see `reframe`."""
        return reframe(self.model)

    def with_model(self, model):
        """The same code for a Model with other values of its parameters. Raises ModelError where its mass
        matrix may become singular in a way that the code does not watch."""
        refuse_unwatched(model, weak_coordinates(model, self.problem.forward) & ~self.watched)
        new = parameter_values(model, regroups=self.regroups, frames=self.frames)
        other = replace(self, model=model, kernel=self.kernel.with_parameters(new))
        other.__dict__["frames"] = self.frames
        if "kernel_with_wrenches" in self.__dict__:
            other.__dict__["kernel_with_wrenches"] = self.kernel_with_wrenches.with_parameters(new)
        return other

    def __call__(self, q, qd, qdd, tau, f_ext, gravity):
        kernel, count, inputs = self._packed(q, qd, qdd, tau, f_ext, gravity)
        health = np.zeros((count, 0))
        if count < BATCH or not self._takes_vectors or (kernel.program.limits and q.dtype != np.float64):
            found = kernel.separate(count, *inputs)
        else:
            found, _ = self._batch(kernel, q.dtype)(count, *inputs, *kernel.parameters)
        if kernel.program.limits:
            *found, health = found
        healthy = (health <= kernel.program.limits).all(axis=-1, keepdims=True)
        return self._complete(qdd, tau, [np.where(healthy, part, np.nan).reshape(qd.shape) for part in found])

    def vouched(self, q, qd, qdd, tau, f_ext, gravity):
        """The same of unchecked arguments, or None: when a state is not good, or it runs them one by one."""
        kernel, count, inputs = self._packed(q, qd, qdd, tau, f_ext, gravity)
        if count < BATCH or not self._takes_vectors:
            return None
        found, good = self._batch(kernel, q.dtype)(count, *inputs, *kernel.parameters)
        if kernel.program.limits:
            *found, health = found
            good = good and (health <= healthy_up_to(q.dtype)).all()
        return self._complete(qdd, tau, [part.reshape(qd.shape) for part in found]) if good else None

    def _packed(self, q, qd, qdd, tau, f_ext, gravity):
        """The kernel, the number of states, and their rows."""
        batch = q.shape[:-1]
        count = math.prod(batch)
        kernel = self.kernel if f_ext is None else self.kernel_with_wrenches
        given = {"q": q, "qd": qd, "qdd": qdd, "tau": tau}
        given["gravity"] = self.model.gravity if gravity is None else gravity
        if f_ext is not None:
            given["f_ext"] = f_ext.reshape(*f_ext.shape[:-2], 6 * self.model.nbodies)
        names = self.problem.reads(self.model, f_ext is not None)
        return kernel, count, [_rows(given[name], batch, count) for name in names]

    def _batch(self, kernel, dtype):
        """The kernel's Program for many states, compiled when they come for the first time."""
        key = (kernel is self.kernel, dtype)
        if key not in self.batches:
            self.batches[key] = BatchKernel(kernel.program, dtype, self.model.quaternion_places)
        return self.batches[key]

    def _complete(self, qdd, tau, found):
        results = {"qdd": qdd, "tau": tau} | dict(zip(self.problem.returns(self.model), found, strict=True))
        return results["qdd"], results["tau"]


def _rows(array, batch, count):
    """(count, size) of an array over the batch; what is the same for all states may stay (size,)."""
    if array.ndim == 1:
        return array
    size = array.shape[-1]
    if array.shape[:-1] != batch:
        array = np.broadcast_to(array, (*batch, size))
    return array.reshape(count, size)


def compiled(model, problem, description, write, parameters=(), regroups=True) -> CompiledEngine:
    """The engine that runs the Program that write(wrenches=...) makes. Raises CompileError."""
    watched = weak_coordinates(model, problem.forward)
    kernel = _kernel(write(wrenches=False), model, parameters, regroups)
    return CompiledEngine(model, problem, description, write, parameters, regroups, watched, kernel)


def recursion(model, problem, name, parameters, wrenches) -> Program | Rolled:
    """One of `dynamics_programs` by its name."""
    return dynamics_programs(model, problem, wrenches, parameters)[name]


def compiled_recursion(model, problem, parameters=()) -> CompiledEngine:
    """The cheapest recursion. Raises CompileError."""
    name, _ = cheapest(dynamics_programs(model, problem, parameters=parameters))
    return compiled(model, problem, name, partial(recursion, model, problem, name, parameters), parameters)


def compiled_elimination(engine, parameters=()) -> CompiledEngine:
    """Of a NumericElimination with safe pivots. Raises CompileError."""
    write = partial(elimination_program, engine.model, engine.problem, engine.plan, parameters=parameters)
    return compiled(engine.model, engine.problem, engine.description, write, parameters, regroups=False)


def _kernel(program, model, parameters, regroups):
    values = parameter_values(model, parameters, regroups)
    return Kernel(program, values, model.quaternion_places)
