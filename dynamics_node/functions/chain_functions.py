"""The parallel solvers cfa, jsiia and abia as Functions: their Spec, and the array module they run on."""

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np

from dynamics_node.chains import (
    RobotArrays,
    forward_dynamics,
    inverse_dynamics,
    require_definite_inertias,
    require_narrow_tree,
)
from dynamics_node.chains.chain_kernel import CudaChains, has_kernel
from dynamics_node.codegen.cuda import at_work, cupy_module
from dynamics_node.errors import ChoiceError, DeviceError
from dynamics_node.functions.choices import Choice
from dynamics_node.functions.spec import Spec
from dynamics_node.graph import dynamics_runner
from dynamics_node.robot import Problem, Robot

NUMBERS_A_JOINT = 600  # of a state in memory at once, approximately
AXES = (1, 1, 1, 1, 2)  # of q, qd, u, gravity and f_ext of one state
KERNEL_AT_ONCE = 2**22  # joints of all states together in the memory of a launch
_KERNELS: dict[str, Literal["float", "double"]] = {"float32": "float", "float64": "double"}
AT_ONCE = {
    "numpy": 2**21,
    "cuda": 2**28,
}  # numbers of all states together that fit caches, or a device


def parallel_solver(robot: Robot, problem: Problem, choice: Choice, parameters, precision="float64"):
    """(description, Spec, None): see build; everything is computed in the precision. Raises ChoiceError for
    an unsupported problem or robot, ModelError for unsupported joints and links, DeviceError for backend cuda
    without CuPy or a device."""
    _require_supported(robot, problem, choice)
    backend = "numpy" if choice.backend == "auto" else choice.backend
    algorithm = ParallelDynamics(robot.tree, problem, choice.solver, choice.ordering, backend, precision)
    _ = algorithm.arrays, algorithm.way
    numeric = partial(dynamics_runner, algorithm, problem, backend=backend)
    spec = Spec(
        robot=robot,
        name=f"{problem.kind}_dynamics",
        problem=problem,
        choice=choice._replace(backend=backend),
        forward=problem.forward,
        numeric=numeric,
        parameters=parameters,
    )
    return algorithm.description, spec, None


def _require_supported(robot, problem, choice):
    solver = choice.solver
    if robot.constrained:
        raise ChoiceError(
            f"solver {solver!r} is for trees, but this robot has loops: build with solver 'cluster'"
        )
    if problem.kind == "hybrid":
        raise ChoiceError(
            f"solver {solver!r} is for forward and inverse dynamics, not for hybrid: build with solver "
            "'cluster'"
        )


@dataclass(frozen=True, eq=False)
class ParallelDynamics:
    """An algorithm at call time, see numeric. solver: one of parallel.SOLVERS; ordering: elimination method
    of cfa, or 'best': oee by the kernel of long chains if it supports the robot, otherwise cr by arrays.
    backend: numpy, or cuda (the kernel, or CuPy's arrays). precision: of the arithmetic."""

    robot: Robot
    problem: Problem
    solver: str
    ordering: Any
    backend: str
    precision: str = "float64"

    @cached_property
    def arrays(self) -> RobotArrays:
        """The robot as arrays. Raises ModelError if the solver does not support it."""
        arrays = RobotArrays(self.robot)
        if self.solver == "cfa" and self.problem.kind == "forward":
            require_narrow_tree(arrays)
            require_definite_inertias(self.robot)
        return arrays

    @cached_property
    def kernel(self):
        """The kernel of long chains, None to compute by arrays. Raises DeviceError, CompileError."""
        if self.solver != "cfa" or self.problem.kind != "forward" or self.ordering not in ("best", "oee"):
            return None
        real = _KERNELS[self.precision]
        if self.backend == "cuda" and has_kernel(self.arrays, real):
            return CudaChains(self.arrays, real)
        return None

    @property
    def way(self):
        """The kernel, or the array module. Raises as in `parallel_solver`."""
        return self.kernel or (cupy_module() if self.backend == "cuda" else np)

    @property
    def tridiagonal(self):
        """One of WAYS."""
        return ("oee" if self.kernel else "cr") if self.ordering == "best" else self.ordering

    def with_inertias(self, robot):
        """The algorithm for a Robot that differs in inertias or rotor inertias only."""
        changed = replace(self, robot=robot)
        _ = changed.arrays, changed.way
        return changed

    @property
    def description(self):
        if self.problem.kind == "inverse":
            return "rnea by scans"
        return f"cfa ({self.tridiagonal})" if self.solver == "cfa" else self.solver

    def __call__(self, q, qd, qdd=None, tau=None, gravity=None, f_ext=None):
        """{'qdd'} or {'tau'} (count, nv)."""
        given = (
            None if a is None else np.asarray(a, self.precision) for a in (q, qd, qdd, tau, gravity, f_ext)
        )
        q, qd, qdd, tau, gravity, f_ext = given
        if self.problem.kind == "inverse":
            return {"tau": self._by_arrays(inverse_dynamics, q, qd, qdd, gravity, f_ext)}
        if self.kernel:
            return {"qdd": self._by_kernel(q, qd, tau, gravity, f_ext)}
        solve = partial(forward_dynamics, solver=self.solver, tridiagonal=self.tridiagonal)
        return {"qdd": self._by_arrays(solve, q, qd, tau, gravity, f_ext)}

    def _by_kernel(self, *arrays):
        """Results of the kernel; states outside the range of its sines, or all if the GPU is lost, by
        arrays."""
        try:
            qdd = _in_parts(self.kernel, KERNEL_AT_ONCE // self.robot.nv, arrays)
        except (DeviceError, MemoryError):
            qdd = np.full_like(arrays[1], np.nan)  # the loss was logged
        bad = np.isnan(qdd).any(axis=1)
        if bad.any():
            own = replace(self, backend="numpy")
            qdd[bad] = own._by_arrays(forward_dynamics, *_part(arrays, bad))
        return qdd

    def _by_arrays(self, solve, *arrays):
        if self.backend == "cuda":
            try:
                with at_work() as cupy:
                    return self._solved(cupy, solve, arrays)
            except (DeviceError, MemoryError):
                pass  # the loss was logged: NumPy goes on
        return self._solved(np, solve, arrays)

    def _solved(self, xp, solve, arrays):
        """By arrays of a module."""
        nv = self.robot.nv
        most = AT_ONCE["numpy" if xp is np else "cuda"] // (NUMBERS_A_JOINT * nv + 4 * nv**2)

        def solved(*given):
            return _on_host(solve(xp, self.arrays, *(None if a is None else xp.asarray(a) for a in given)))

        return _in_parts(solved, most, arrays)


def _in_parts(solve, most, arrays):
    """(count, nv) of arrays q, qd, u, gravity and f_ext, `most` states at a time."""
    results = np.zeros_like(arrays[1])
    for start in range(0, len(results), max(1, most)):
        part = slice(start, start + max(1, most))
        results[part] = solve(*_part(arrays, part))
    return results


def _part(arrays, part):
    """Arrays of some states; shared arrays stay whole."""
    return [a if a is None or a.ndim == own else a[part] for a, own in zip(arrays, AXES, strict=True)]


def _on_host(array):
    return array.get() if hasattr(array, "get") else array
