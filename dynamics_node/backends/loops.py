"""Mechanisms: the cheapest of the cluster algorithms as compiled C, or interpreted by NumPy."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dynamics_node.backends.c import BATCH, BatchKernel, Kernel
from dynamics_node.loops.mechanism import Mechanism
from dynamics_node.problem import Problem
from dynamics_node.program import Program, interpret
from dynamics_node.programs import cheapest, dynamics_programs, parameter_values


@dataclass(frozen=True, eq=False)
class MechanismEngine:
    """program: that of `kernel`, which is None for NumPy; parameters: its inputs beside the state."""

    model: Mechanism
    problem: Problem
    description: str
    parameters: tuple[str, ...]
    program: Program
    kernel: Kernel | None

    def prepare(self, batches):
        """Do now what `with_model`, external wrenches and, on demand, many states need."""
        if self.kernel is not None:
            _ = self.kernel_with_wrenches
            if batches:
                _ = self._batch

    def with_model(self, model):
        """The same code for a Mechanism with other values of its parameters."""
        other = replace(self, model=model)
        kept = ("program_with_wrenches", "_batch")
        other.__dict__.update({name: self.__dict__[name] for name in kept if name in self.__dict__})
        if self.kernel is not None:
            values = parameter_values(model)
            object.__setattr__(other, "kernel", self.kernel.with_parameters(values))
            if "kernel_with_wrenches" in self.__dict__:
                own = self.kernel_with_wrenches.with_parameters(values)
                other.__dict__["kernel_with_wrenches"] = own
        return other

    @cached_property
    def program_with_wrenches(self):
        """The Program that reads f_ext as well."""
        programs = dynamics_programs(self.model, self.problem, True, self.parameters)
        return programs[self.description]

    @cached_property
    def kernel_with_wrenches(self):
        if self.kernel is None:
            return None
        return _kernel(self.program_with_wrenches, self.model, self.parameters)

    @cached_property
    def _batch(self):
        return BatchKernel(self.program, quaternions=self.model.quaternion_places)

    def __call__(self, q, qd, qdd, tau, f_ext, gravity):
        """NaN where the loops are open or singular."""
        given = {"q": q, "qd": qd, "qdd": qdd, "tau": tau, "f_ext": f_ext}
        given["gravity"] = self.model.gravity if gravity is None else gravity
        names = self.problem.reads(self.model, f_ext is not None)
        found = self._run({name: given[name] for name in names}, q.shape[:-1])
        healthy = (found["health"] <= self.program.limits).all(axis=-1, keepdims=True)
        results = {name: np.where(healthy, found[name], np.nan) for name in self.problem.returns(self.model)}
        complete = {"qdd": qdd, "tau": tau} | results
        return complete["qdd"], complete["tau"]

    def _run(self, arrays: dict[str, Any], batch):
        program, kernel = self.program, self.kernel
        if "f_ext" in arrays:
            program, kernel = self.program_with_wrenches, self.kernel_with_wrenches
        if kernel is None:
            return interpret(program, **arrays, **parameter_values(self.model, self.parameters))
        count = int(np.prod(batch, dtype=int))
        rows = [
            np.broadcast_to(arrays[name], (*batch, *shape)).reshape(count, int(np.prod(shape)))
            for name, shape in program.inputs.items()
            if name not in self.parameters
        ]
        if count >= BATCH and "f_ext" not in arrays:
            found, _ = self._batch(count, *rows, *kernel.parameters)
        else:
            found = kernel.separate(count, *rows)
        return {
            name: part.reshape(*batch, *numbers.shape)
            for (name, numbers), part in zip(program.outputs.items(), found, strict=True)
        }


def _kernel(program, mechanism, parameters):
    return Kernel(program, parameter_values(mechanism, parameters), mechanism.quaternion_places)


def mechanism_engine(mechanism, problem, compile_it, parameters=()) -> MechanismEngine:
    """The cheapest way to solve the problem. Raises CompileError."""
    name, program = cheapest(dynamics_programs(mechanism, problem, parameters=parameters))
    assert isinstance(program, Program)
    kernel = _kernel(program, mechanism, parameters) if compile_it else None
    return MechanismEngine(mechanism, problem, name, tuple(parameters), program, kernel)
