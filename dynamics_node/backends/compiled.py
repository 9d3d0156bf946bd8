"""A traced engine, run as compiled C."""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from dynamics_node.algorithms.pivots import HEALTHY, healthy_up_to, refuse_unwatched, weak_coordinates
from dynamics_node.backends.c import BATCH, BatchKernel, Kernel
from dynamics_node.backends.rolled import can_roll, rolled_program
from dynamics_node.backends.traced import parameter_values, problem_program, quaternion_places
from dynamics_node.model import Model
from dynamics_node.model.reframe import reframe
from dynamics_node.problem import Problem
from dynamics_node.program import Program, Rolled


@dataclass(frozen=True, eq=False)
class CompiledEngine:
    """source: the engine whose Program runs; parameters: of inertia and armature, those that are inputs of
    it; watched (nv,): coordinates whose pivots it watches, see algorithms/pivots.py.
    External wrenches are another Program, compiled when the first one comes."""

    model: Model
    problem: Problem
    source: Any
    parameters: tuple[str, ...]
    watched: np.ndarray
    kernel: Kernel
    batches: dict[Any, BatchKernel] = field(default_factory=dict)  # shared by all that with_model returns

    @property
    def description(self):
        return self.source.description

    @cached_property
    def kernel_with_wrenches(self):
        """The Program that reads f_ext as well. Raises CompileError."""
        program = _program(self.source, self.parameters, self.watched, wrenches=True)
        return _kernel(program, self.source, self.parameters)

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
        source = replace(self.source, model=model)
        new = parameter_values(source, self.frames)
        other = replace(self, model=model, source=source, kernel=self.kernel.with_parameters(new))
        other.__dict__["frames"] = self.frames
        if "kernel_with_wrenches" in self.__dict__:
            other.__dict__["kernel_with_wrenches"] = self.kernel_with_wrenches.with_parameters(new)
        return other

    @cached_property
    def _forward(self):
        return np.array(self.problem.forward, dtype=bool)

    def __call__(self, q, qd, qdd, tau, f_ext, gravity):
        kernel, count, inputs = self._packed(q, qd, qdd, tau, f_ext, gravity)
        watches = self.watched.any()
        if count < BATCH or not self._takes_vectors or (watches and q.dtype != np.float64):
            found = kernel(count, *inputs)
            asked, health = found[:, : self.model.nv], found[:, self.model.nv :]
        else:
            (asked, *health), _ = self._batch(kernel, q.dtype)(count, *inputs, *kernel.parameters)
        if watches:
            asked = np.where(np.reshape(health, (count, 1)) <= HEALTHY, asked, np.nan)
        return self._complete(qdd, tau, asked.reshape(qd.shape))

    def vouched(self, q, qd, qdd, tau, f_ext, gravity):
        """The same of unchecked arguments, or None: when a state is not good, or it runs them one by one."""
        kernel, count, inputs = self._packed(q, qd, qdd, tau, f_ext, gravity)
        if count < BATCH or not self._takes_vectors:
            return None
        (asked, *health), good = self._batch(kernel, q.dtype)(count, *inputs, *kernel.parameters)
        good = good and all((part <= healthy_up_to(q.dtype)).all() for part in health)
        return self._complete(qdd, tau, asked.reshape(qd.shape)) if good else None

    def _packed(self, q, qd, qdd, tau, f_ext, gravity):
        """The kernel, the number of states, and their rows."""
        batch = q.shape[:-1]
        count = math.prod(batch)
        gravity = self.model.gravity if gravity is None else gravity
        inputs = [_rows(a, batch, count) for a in (q, qd, self._known(qdd, tau), gravity)]
        if f_ext is None:
            return self.kernel, count, inputs
        wrenches = f_ext.reshape(*f_ext.shape[:-2], 6 * self.model.nbodies)
        return self.kernel_with_wrenches, count, [*inputs, _rows(wrenches, batch, count)]

    def _batch(self, kernel, dtype):
        """The kernel's Program for many states, compiled when they come for the first time."""
        key = (kernel is self.kernel, dtype)
        if key not in self.batches:
            self.batches[key] = BatchKernel(kernel.program, dtype, quaternion_places(self.model))
        return self.batches[key]

    def _known(self, qdd, tau):
        if self.problem.kind == "hybrid":
            return np.where(self._forward, tau, qdd)
        return qdd if self.problem.kind == "inverse" else tau

    def _complete(self, qdd, tau, asked):
        if self.problem.kind == "hybrid":
            return np.where(self._forward, asked, qdd), np.where(self._forward, tau, asked)
        return (qdd, asked) if self.problem.kind == "inverse" else (asked, tau)


def _rows(array, batch, count):
    """(count, size) of an array over the batch; what is the same for all states may stay (size,)."""
    if array.ndim == 1:
        return array
    size = array.shape[-1]
    if array.shape[:-1] != batch:
        array = np.broadcast_to(array, (*batch, size))
    return array.reshape(count, size)


STEP = 4  # what one more step of the longest chain costs, in operations (measured: 3 to 5)


def compiled(sources, parameters=()) -> CompiledEngine:
    """The engine that runs the cheapest Program of several engines, the one with loops of a robot with many
    bodies. Raises CompileError."""
    model, problem = sources[0].model, sources[0].problem
    watched = weak_coordinates(model, problem.forward)
    rolled = [source for source in sources if can_roll(source)]
    programs = [(_program(source, parameters, watched), source) for source in rolled[:1] or sources]
    program, source = programs[0] if rolled else min(programs, key=lambda pair: cost(pair[0]))
    kernel = _kernel(program, source, parameters)
    return CompiledEngine(model, problem, source, parameters, watched, kernel)


def _program(source, parameters, watched, wrenches=False) -> Program | Rolled:
    make = rolled_program if can_roll(source) else problem_program
    return make(source, wrenches, parameters, watched)


def cost(program):
    """What a Program takes, in operations: all of them, and the wait for the longest chain."""
    return len(program.ops) + STEP * program.depth()


def _kernel(program, source, parameters):
    values = parameter_values(source) if parameters else {}
    own = {name: values[name] for name in parameters}
    limits = HEALTHY if "health" in program.outputs else ()
    return Kernel(program, own, quaternion_places(source.model), limits)
