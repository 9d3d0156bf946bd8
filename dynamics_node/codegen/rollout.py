"""Rollouts: a stage of an integrator, a Program, run along many steps of many states.

Inputs of the Program: what stages carry on, q, qd, and `hidden`, which is zero at the start of a step; tau of
a step; the coefficients of a `stage`; others, which all states share. Outputs: what is carried on, and
health.
"""

from typing import Any

import numpy as np

from dynamics_node.codegen.backends import Interpreter
from dynamics_node.codegen.c.rollout_kernel import RolloutKernel
from dynamics_node.codegen.cuda import ArrayError, CudaRunner, DeviceRollouts, lost
from dynamics_node.codegen.cuda.device import warn_once
from dynamics_node.errors import CompileError
from dynamics_node.symbolic import Program


def served(fill) -> bool:
    """Whether the device did what `fill` asks of it; else an error was logged."""
    if lost() is not None:
        return False
    try:
        fill()
    except (ArrayError, CompileError, MemoryError) as error:
        if lost() is None:
            warn_once(f"no GPU for a rollout: {error}")
        return False
    return True


class Rollouts:
    """backend: 'c'; 'numpy', interpreted; or 'cuda', beside which 'c' serves. stages (stages, coefficients);
    quaternions: where among all inputs they begin. Picklable.

    From the step on in which a state has no finite and healthy result, its results are NaN. No state changes
    another.
    """

    def __init__(self, program: Program, stages: np.ndarray, backend: str, quaternions=()):
        """Raises DeviceError for backend cuda without a device."""
        self._program, self._stages, self._backend = program, stages, backend
        self._interpreter = Interpreter(program)
        self._kernels: dict[np.dtype, RolloutKernel] = {}
        self._device = None
        if backend == "cuda":
            runner = CudaRunner(program, self._interpreter, quaternions=quaternions)
            self._device = DeviceRollouts(runner, stages)

    def __call__(self, tau, same, q, qd):
        """q (count, steps + 1, nq) and qd, of which the first step is the start: the others are written. tau
        (count, steps, nv); same: {name: array} of what all states share. Arrays of NumPy, contiguous, of one
        type. Raises CompileError."""
        if self._backend == "numpy":
            self._interpreted(tau, same, q, qd)
        elif not self._by_device(tau, same, q, qd):
            self._compiled(tau, same, q, qd)

    def on_device(self, q0, qd0, tau, same) -> tuple[Any, Any]:
        """See DeviceRollouts."""
        if self._device is None:
            reason = f"on a GPU, and this function runs by {self._backend}"
            raise ArrayError(f"q0, qd0, controls: arrays {reason}: build it with backend='cuda'")
        return self._device(q0, qd0, tau, same)

    def _by_device(self, tau, same, q, qd) -> bool:
        """False where the device does not do it; an error was logged."""
        return self._device is not None and served(lambda: self._device.fill(tau, same, q, qd))

    def _compiled(self, tau, same, q, qd):
        if tau.dtype not in self._kernels:
            self._kernels[tau.dtype] = RolloutKernel(self._program, tau.dtype)
        kernel = self._kernels[tau.dtype]
        shared = np.concatenate([np.ravel(same[name]) for name in self._program.inputs if name in same])
        kernel(tau, self._stages.astype(tau.dtype), shared.astype(tau.dtype), q, qd)

    def _interpreted(self, tau, same, q, qd):
        inputs = self._program.inputs
        carried = {"q": q[:, 0], "qd": qd[:, 0]}
        if "hidden" in inputs:
            carried["hidden"] = np.zeros((len(q), *inputs["hidden"]))
        for t in range(tau.shape[1]):
            for stage in self._stages:
                given = {**carried, "tau": tau[:, t], "stage": stage, **same}
                results, _ = self._interpreter.run_checked(len(q), [given[name] for name in inputs])
                carried = dict(zip(carried, results, strict=True))
            q[:, t + 1], qd[:, t + 1] = carried["q"], carried["qd"]
