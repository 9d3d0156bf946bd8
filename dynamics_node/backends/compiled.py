"""A traced engine, run as compiled C."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dynamics_node.backends.c import Kernel
from dynamics_node.backends.traced import problem_program
from dynamics_node.model import Model
from dynamics_node.problem import Problem


@dataclass(frozen=True, eq=False)
class CompiledEngine:
    """source: the engine whose Program runs. External wrenches are another Program, compiled when the
    first one comes."""

    model: Model
    problem: Problem
    source: Any
    kernel: Kernel

    @property
    def description(self):
        return self.source.description

    @cached_property
    def _forward(self):
        return np.array(self.problem.forward, dtype=bool)

    @cached_property
    def _kernel_with_wrenches(self):
        return Kernel(problem_program(self.source, wrenches=True))

    def __call__(self, q, qd, qdd, tau, f_ext, gravity):
        batch = q.shape[:-1]
        known = np.where(self._forward, tau, qdd)
        gravity = self.model.gravity if gravity is None else gravity
        inputs = [_rows(a, batch, a.shape[-1]) for a in (q, qd, known, gravity)]
        count = math.prod(batch)
        if f_ext is None:
            asked = self.kernel(count, *inputs)
        else:
            flat = f_ext.reshape(*f_ext.shape[:-2], -1)
            asked = self._kernel_with_wrenches(count, *inputs, _rows(flat, batch, flat.shape[-1]))
        asked = asked.reshape(known.shape)
        return np.where(self._forward, asked, qdd), np.where(self._forward, tau, asked)


def _rows(array, batch, size):
    """(count, size) of an array over the batch; what is the same for all states may stay (size,)."""
    if array.shape != (*batch, size) and array.ndim > 1:
        array = np.broadcast_to(array, (*batch, size))
    return array.reshape(-1, size) if array.ndim > 1 else array


def compiled(source) -> CompiledEngine:
    """The engine that runs the Program of another one. Raises CompileError."""
    return CompiledEngine(source.model, source.problem, source, Kernel(problem_program(source)))
