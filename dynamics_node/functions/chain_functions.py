"""The parallel solvers cfa, jsiia and abia as Functions: their Runner, and the array module they run on."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dynamics_node.chains import (
    chain_arrays,
    forward_dynamics,
    inverse_dynamics,
    on_host,
    require_definite_inertias,
    require_narrow_tree,
)
from dynamics_node.codegen.cuda import at_work, cupy_module
from dynamics_node.errors import ChoiceError, DeviceError
from dynamics_node.functions.spec import FunctionSpec
from dynamics_node.graph import NumericRunner, dynamics_runner
from dynamics_node.robot import Problem, Robot

NUMBERS_A_JOINT = 1000  # of a state in memory at once, approximately
AXES = (1, 1, 1, 1, 2)  # of q, qd, u, gravity and f_ext of one state
AT_ONCE = {
    "numpy": 2**21,
    "cuda": 2**28,
}  # numbers of all states together that fit caches, or a device


def chain_runner(spec: FunctionSpec, precision: str) -> tuple[str, NumericRunner]:
    """(description, Runner), see build; everything is computed in the precision. Raises ChoiceError for an
    unsupported problem or robot, ModelError for unsupported joints and links, DeviceError for backend cuda
    without CuPy or a device."""
    robot, problem, choice = spec.robot, spec.problem, spec.choice
    assert isinstance(problem, Problem)
    _require_supported(robot, problem, choice)
    backend = "numpy" if choice.backend == "auto" else choice.backend
    algorithm = ParallelDynamics(robot.tree, problem, choice.solver, choice.ordering, backend, precision)
    return algorithm.description, dynamics_runner(algorithm, problem, spec.f_ext, backend)


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
    """An algorithm at call time, see numeric. solver: one of chains.SOLVERS; ordering: of the elimination of
    cfa, 'best' is cr. backend: numpy, or cuda: arrays of CuPy. precision: of the arithmetic."""

    robot: Robot
    problem: Problem
    solver: str
    ordering: Any
    backend: str
    precision: str = "float64"

    def __post_init__(self):
        """Raises ModelError for what the solver does not support, DeviceError without CuPy or a device."""
        chain_arrays(self.robot, np, np.dtype(self.precision))
        if self.solver == "cfa" and self.problem.kind == "forward":
            require_narrow_tree(self.robot)
            require_definite_inertias(self.robot)
        if self.backend == "cuda":
            cupy_module()

    @property
    def tridiagonal(self):
        """One of chains.CFA_ORDERINGS."""
        return "cr" if self.ordering == "best" else self.ordering

    @property
    def description(self):
        if self.problem.kind == "inverse":
            return "rnea by scans"
        return f"cfa ({self.tridiagonal})" if self.solver == "cfa" else self.solver

    def __call__(self, q, qd, qdd=None, tau=None, gravity=None, f_ext=None):
        """{'qdd'} or {'tau'} (count, nv). If the device is lost, which is logged, NumPy goes on."""
        given = [q, qd, qdd if tau is None else tau, gravity, f_ext]
        given = [None if array is None else np.asarray(array, self.precision) for array in given]
        (result,) = self.problem.returns(self.robot)
        if self.backend == "cuda":
            try:
                with at_work() as cupy:
                    return {result: self._solved(cupy, given)}
            except (DeviceError, MemoryError):
                pass
        return {result: self._solved(np, given)}

    def _solved(self, xp, arrays):
        """(count, nv) by arrays of a module, some states at a time."""
        solve = partial(inverse_dynamics, xp, self.robot)
        if self.problem.kind == "forward":
            solve = partial(forward_dynamics, xp, self.robot, solver=self.solver, ordering=self.tridiagonal)
        nv, results = self.robot.nv, np.zeros_like(arrays[1])
        step = max(1, AT_ONCE["numpy" if xp is np else "cuda"] // (NUMBERS_A_JOINT * nv + 4 * nv**2))
        for start in range(0, len(results), step):
            part = slice(start, start + step)
            given = [
                a if a is None or a.ndim == axes else a[part] for a, axes in zip(arrays, AXES, strict=True)
            ]
            results[part] = on_host(solve(*(a if a is None else xp.asarray(a) for a in given)))
        return results
