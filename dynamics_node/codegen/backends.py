"""Backends: `make_runner` turns a Program into a Runner.

c: compiled by the system's compiler (folder c); numpy: interpreted; DEVICES: batches on another processor
(folder cuda). A new backend is a class with the members of Runner and its name in `make_runner`.
"""

import logging
from dataclasses import dataclass, field, replace

import numpy as np

from dynamics_node.codegen.c import CRunner
from dynamics_node.codegen.cuda import CudaRunner
from dynamics_node.codegen.runner import NoFastPath, Runner, healthy, returned, taken, without_bad
from dynamics_node.errors import CompileError, InputError
from dynamics_node.symbolic import LaneProgram, Program, flattened, interpret

log = logging.getLogger("dynamics_node")

DEVICES = ("cuda",)  # backends that compute batches elsewhere
BACKENDS = ("auto", "c", "numpy", *DEVICES)


def make_runner(
    program: Program | LaneProgram,
    backend="auto",
    parameters=None,
    quaternions=(),
    reordered=None,
    isomorphic_inputs=(),
) -> Runner:
    """The Runner of a Program.

    backend: c, numpy, one of DEVICES, beside which c serves where it works, or auto: c where it works, else
    numpy. parameters: {name: array} of its last inputs, which a call does not take; quaternions: where among
    all entries of the inputs those of unit length begin. reordered: the same operations in another order, one
    of which is faster; isomorphic_inputs: those that go together on lanes, see `vectorize`.
    Raises CompileError for backend c without a compiler, DeviceError for one of DEVICES, InputError for
    another backend.
    """
    if not isinstance(backend, str) or backend not in BACKENDS:
        raise InputError(f"unknown backend {backend!r}; there are {', '.join(BACKENDS)}")
    runner = _on_cpu(program, backend, parameters, quaternions, reordered, isomorphic_inputs)
    if backend in DEVICES:
        straight = flattened(program) if isinstance(program, LaneProgram) else program
        return CudaRunner(straight, runner, parameters, quaternions)
    return runner


def _on_cpu(program, backend, parameters, quaternions, reordered, isomorphic_inputs) -> Runner:
    if backend != "numpy":
        try:
            return CRunner(program, parameters, quaternions, reordered, isomorphic_inputs)
        except CompileError as error:
            if backend == "c":
                raise
            log.warning("%s; numpy serves instead", error)
    return Interpreter(program, dict(parameters or {}))


@dataclass(frozen=True, eq=False)
class Interpreter(NoFastPath):
    """A Runner. parameters: {name: array} of the Program's last inputs."""

    program: Program | LaneProgram
    parameters: dict = field(default_factory=dict)
    backend = "numpy"

    @property
    def inputs(self):
        """{name: shape} of what a call takes."""
        return taken(self.program, self.parameters)

    @property
    def outputs(self):
        """{name: shape} of what a call gives."""
        return returned(self.program)

    def with_parameters(self, values):
        """A Runner with other values {name: array} of the parameters; names it does not have are ignored."""
        return replace(self, parameters={name: values[name] for name in self.parameters})

    def run_checked(self, count, inputs, dtype=np.float64):
        """See Runner; computed with float64."""
        given = dict(zip(self.inputs, inputs, strict=True))
        with np.errstate(all="ignore"):
            results = interpret(self.program, **given, **self.parameters)
        shapes = [numbers.shape for numbers in self.program.outputs.values()]
        outputs = [
            np.array(np.broadcast_to(array, (count, *shape)))
            for array, shape in zip(results.values(), shapes, strict=True)
        ]
        limits = self.program.limits
        good = healthy(outputs.pop(), limits) if limits else np.ones(count, dtype=bool)
        without_bad(outputs, good)
        return outputs, all(np.isfinite(array).all() for array in outputs)
