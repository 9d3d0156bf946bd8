"""What runs Programs, and knows no robot: `make` turns a Program into a Runner.

c: compiled by the system's compiler (folder c); numpy: interpreted; DEVICES: batches on another processor
(folder cuda). A new backend is a class with the members of Runner and its name in `make`.
"""

import logging
from collections.abc import Callable
from typing import Literal, Protocol

import numpy as np

from dynamics_node.codegen.c import CRunner
from dynamics_node.codegen.cuda import ArrayError, CudaRunner, DeviceArray, driver_is_there, on_device
from dynamics_node.codegen.cuda import lost as lost_device
from dynamics_node.codegen.errors import CompileError, DeviceError
from dynamics_node.codegen.fallback import Backed
from dynamics_node.codegen.interpreter import Interpreter, Unhurried
from dynamics_node.codegen.results import finite_states
from dynamics_node.codegen.scan import Scan
from dynamics_node.symbolic import Program, Rolled, Staged, flattened

log = logging.getLogger("dynamics_node")

__all__ = [
    "DEVICES",
    "ArrayError",
    "Backed",
    "CompileError",
    "DeviceArray",
    "DeviceError",
    "Runner",
    "Scan",
    "Unhurried",
    "finite_states",
    "lost_device",
    "make",
    "on_device",
]

DEVICES = ("cuda",)  # backends that compute batches elsewhere
# {name: (Program, the same operations in another order or None)}
Rivals = Callable[[], dict[str, tuple[Program, Program | None]]]


class Runner(Protocol):
    """Runs one Program. Picklable.

    program: what it runs, None for something else; backend: its name; inputs, outputs: {name: shape} of what
    a call takes and gives, parameters and health being kept; checks: whether `run` tells by itself that
    inputs are not finite or not of unit length.
    """

    @property
    def program(self) -> Program | Rolled | Staged | None: ...

    @property
    def backend(self) -> str: ...

    @property
    def checks(self) -> bool: ...

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]: ...

    @property
    def outputs(self) -> dict[str, tuple[int, ...]]: ...

    def solve(self, *arrays) -> Literal[False] | None:
        """One state, the quick way: arrays are the inputs, then the outputs. None when it has written them,
        False when it declines: an array is not plain (C-contiguous float64 of the right shape), or anything
        is not finite, of unit length, or within the limits of health."""

    def few(self, *inputs):
        """A few states, the quick way: inputs (count, *shape), or (*shape) for all states. The output (count,
        *shape), a tuple if there are several; None when it declines, as `solve`, or there are too many."""

    def many(self, count: int, inputs, dtype: np.dtype, out=None) -> list[np.ndarray] | None:
        """Many states, the quick way: outputs [(count, *shape)], None when it declines, as `solve`, or there
        are too few; arrays of dtype, which is the precision of the arithmetic. out: arrays for the outputs,
        which those that come back may be, or not; when it declines anything may be in them."""

    def run(self, count: int, inputs, dtype=np.float64) -> tuple[list[np.ndarray], bool]:
        """Outputs [(count, *shape)] over many states, and whether all are good: finite, quaternions of unit
        length, health within its limits. Outputs of a state without a finite and healthy result are NaN; no
        state changes another. inputs: each (count, *shape), or (*shape) for all states, contiguous, of dtype,
        which is the precision of the arithmetic where the backend has it."""

    def with_parameters(self, values) -> "Runner":
        """A Runner with other values {name: array} of the parameters; names it does not have are ignored."""

    def require(self, dtype: np.dtype):
        """Raise DeviceError where there is no arithmetic of a type."""

    def prepare(self, batches: bool = False):
        """Do now what many states need later. Raises CompileError."""


def make(
    program: Program | Rolled | Staged,
    backend="auto",
    parameters=None,
    quaternions=(),
    instead=None,
    other=None,
    alike=(),
    rivals: Rivals | None = None,
) -> Runner:
    """The Runner of a Program.

    backend: c, numpy, one of DEVICES, beside which c serves where it works, or auto: c where it works, and
    for large batches a GPU that was measured to be faster. parameters: {name: array} of its last inputs,
    which a call does not take; quaternions: where among all entries of the inputs those of unit length begin.
    instead: the Runner that serves where nothing is compiled, by default the interpreter; other: the same
    operations in another order, one of which is faster; alike: inputs that go together: see `packed`; rivals:
    of Programs with the same results by other algorithms, asked where a GPU may run one of them. Raises
    CompileError for backend c without a compiler; DeviceError, and ImportError for an absent extra, for one
    of DEVICES.
    """
    runner = _on_cpu(program, backend, parameters, quaternions, instead, other, alike)
    if backend in DEVICES:
        return CudaRunner(_straight(program), runner, parameters, quaternions, other, rivals)
    if backend == "auto" and driver_is_there():
        return CudaRunner(_straight(program), runner, parameters, quaternions, other, rivals, measured=True)
    return runner


def _on_cpu(program, backend, parameters, quaternions, instead, other, alike) -> Runner:
    if backend != "numpy":
        try:
            return CRunner(program, parameters, quaternions, other, alike)
        except CompileError as error:
            if backend == "c":
                raise
            log.warning("%s; numpy serves instead", error)
    if instead is not None:
        return instead
    if isinstance(program, Rolled):
        raise CompileError("a Program that is rolled up is not interpreted: it needs a C compiler")
    return Interpreter(program, dict(parameters or {}))


def _straight(program) -> Program | Rolled:
    """For a thread that computes a state alone."""
    return flattened(program) if isinstance(program, Staged) else program
