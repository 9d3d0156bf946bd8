"""Mechanisms: the cheapest of the cluster algorithms as compiled C, or interpreted by NumPy."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dynamics_node.algorithms.pivots import refuse_unwatched
from dynamics_node.backends.c import BATCH, BatchKernel, Kernel
from dynamics_node.backends.compiled import cost
from dynamics_node.backends.traced import quaternion_places
from dynamics_node.loops.close import TURNED
from dynamics_node.loops.constraints import position_program
from dynamics_node.loops.mechanism import Mechanism
from dynamics_node.loops.pivots import weak_coordinates, why_singular
from dynamics_node.loops.programs import HEALTHY, OPEN, mechanism_programs
from dynamics_node.model.inputs import inertial_values
from dynamics_node.problem import Problem
from dynamics_node.program import Program, interpret


@dataclass(frozen=True, eq=False)
class MechanismEngine:
    """program: that of `kernel`, which is None for NumPy; parameters: its inputs beside the state; watched
    (nv,): coordinates whose pivots count in its health, see loops/pivots.py."""

    model: Mechanism
    problem: Problem
    description: str
    parameters: tuple[str, ...]
    program: Program
    kernel: Kernel | None
    watched: np.ndarray

    def prepare(self, batches):
        """Do now what `with_model`, external wrenches and, on demand, many states need."""
        if self.kernel is not None:
            _ = self.kernel_with_wrenches
            if batches:
                _ = self._batch

    def with_model(self, model):
        """The same code for a Mechanism with other values of its parameters. Raises ModelError where its mass
        matrix may become singular in a way that the code does not watch."""
        refuse_unwatched(model, weak_coordinates(model, self.problem.forward) & ~self.watched)
        other = replace(self, model=model)
        kept = ("program_with_wrenches", "_batch")
        other.__dict__.update({name: self.__dict__[name] for name in kept if name in self.__dict__})
        if self.kernel is not None:
            values = inertial_values(model.tree, True)
            object.__setattr__(other, "kernel", self.kernel.with_parameters(values))
            if "kernel_with_wrenches" in self.__dict__:
                own = self.kernel_with_wrenches.with_parameters(values)
                other.__dict__["kernel_with_wrenches"] = own
        return other

    @cached_property
    def program_with_wrenches(self):
        """The Program that reads f_ext as well."""
        programs = mechanism_programs(self.model, self.problem, True, self.parameters)
        return programs[self.description]

    @cached_property
    def kernel_with_wrenches(self):
        if self.kernel is None:
            return None
        return _kernel(self.program_with_wrenches, self.model, self.parameters)

    @cached_property
    def _batch(self):
        return BatchKernel(self.program, quaternions=quaternion_places(self.model))

    def __call__(self, q, qd, qdd, tau, f_ext, gravity):
        """NaN where the loops are open or singular."""
        forward = np.array(self.problem.forward, dtype=bool)
        arrays = {"q": q, "qd": qd, "known": np.where(forward, tau, qdd)}
        arrays["gravity"] = self.model.gravity if gravity is None else gravity
        if f_ext is not None:
            arrays["f_ext"] = f_ext
        asked, health = self._run(arrays, q.shape[:-1])
        asked = np.where((health <= HEALTHY).all(axis=-1, keepdims=True), asked, np.nan)
        return np.where(forward, asked, qdd), np.where(forward, tau, asked)

    def _run(self, arrays: dict[str, Any], batch):
        program, kernel = self.program, self.kernel
        if "f_ext" in arrays:
            program, kernel = self.program_with_wrenches, self.kernel_with_wrenches
        if kernel is None:
            values = inertial_values(self.model.tree, True)
            found = interpret(program, **arrays, **{name: values[name] for name in self.parameters})
            return found["asked"], found["health"]
        count = int(np.prod(batch, dtype=int))
        rows = [
            np.broadcast_to(arrays[name], (*batch, *shape)).reshape(count, int(np.prod(shape)))
            for name, shape in program.inputs.items()
            if name not in self.parameters
        ]
        if count >= BATCH and "f_ext" not in arrays:
            (asked, health), _ = self._batch(count, *rows, *kernel.parameters)
        else:
            asked, health = kernel.separate(count, *rows)
        return asked.reshape(*batch, self.model.nv), health.reshape(*batch, len(HEALTHY))


def _kernel(program, mechanism, parameters):
    values = inertial_values(mechanism.tree, True) if parameters else {}
    own = {name: values[name] for name in parameters}
    return Kernel(program, own, quaternions=quaternion_places(mechanism), limits=HEALTHY)


def why_not(mechanism, q, forward=None):
    """Why there is no solution at one of the positions q (..., nq): a loop is open, or singular, or where
    `forward` (nv,) is true torques determine no acceleration."""
    for constraint in mechanism.constraints:
        program = position_program(mechanism.tree, (constraint,))
        found = interpret(program, q=q)
        gap = np.abs(found["gaps"]).max(initial=0.0)
        if gap > OPEN:
            return f"{constraint.name!r} is open by {gap:.3g}: q must be closed, see close_loops"
        if found["turned"].max(initial=0.0) > TURNED:
            return f"{constraint.name!r} is open: its ends are turned away from each other, see close_loops"
    if forward is not None and (reason := why_singular(mechanism, forward, q)):
        return reason
    names = ", ".join(sorted(constraint.name for constraint in mechanism.constraints))
    return f"a loop is at a singular position, or too near: {names}"


def mechanism_engine(mechanism, problem, compile_it, parameters=()) -> MechanismEngine:
    """The cheapest way to solve the problem. Raises CompileError."""
    programs = mechanism_programs(mechanism, problem, parameters=parameters)
    name = min(programs, key=lambda n: cost(programs[n]))
    kernel = _kernel(programs[name], mechanism, parameters) if compile_it else None
    watched = weak_coordinates(mechanism, problem.forward)
    return MechanismEngine(mechanism, problem, name, tuple(parameters), programs[name], kernel, watched)
