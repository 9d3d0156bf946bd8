"""Steps with contacts, many of many states: two Programs, and the solver of impulses between them."""

import numpy as np

from dynamics_node.codegen.backends import Interpreter
from dynamics_node.codegen.c.contact_rollout import ContactRolloutKernel
from dynamics_node.codegen.contact_solver import STEEP, Impulses, full, solve_impulses, targets
from dynamics_node.codegen.pd_loops import Loops, loop_torques
from dynamics_node.symbolic import CROSSING, Halves


class ContactRollouts:
    """halves, rows: of algorithms.contact_step; loops: their places; backend: 'c', or 'numpy', interpreted.
    Picklable.

    From the step on in which a state has no finite result, its results are NaN. No state changes another.
    """

    def __init__(self, halves: Halves, rows, loops: Loops, backend: str):
        self._halves, self._rows, self._loops, self._backend = halves, rows, loops, backend
        self._interpreters = Interpreter(halves.first), Interpreter(halves.second)
        self._kernels: dict[np.dtype, ContactRolloutKernel] = {}

    @property
    def touches(self):
        return len(self._rows.touches)

    def __call__(self, control, gains, same, sweeps, q, qd, force, residual):
        """See ContactRolloutKernel; gains: LoopGains, if any; same: {name: array} of what all states share,
        `dt` among them. Raises CompileError."""
        if self._backend == "numpy":
            return self._interpreted(control, gains, same, sweeps, q, qd, force, residual)
        dtype = control.dtype
        if dtype not in self._kernels:
            self._kernels[dtype] = ContactRolloutKernel(self._halves, self._rows, self._loops, dtype)
        inputs = self._halves.first.inputs
        shared = np.concatenate([np.ravel(same[name]) for name in inputs if name in same])
        shared, gains = shared.astype(dtype), np.array(gains, dtype=dtype)
        self._kernels[dtype](control, gains, shared, sweeps, q, qd, force, residual)
        return None

    def _interpreted(self, control, gains, same, sweeps, q, qd, force, residual):
        rows, count, dt = self._rows, len(q), float(same["dt"])
        first, second = self._halves
        impulses = Impulses(
            np.zeros((count, rows.size)), np.zeros((count, 2, len(rows.joints))), np.zeros(count)
        )
        state = {"q": q[:, 0], "qd": qd[:, 0]}
        for t in range(control.shape[1]):
            given = {**state, **self._controlled(control[:, t], gains, state, dt), **same}
            results, _ = self._interpreters[0].run_checked(count, [given[name] for name in first.inputs])
            found = dict(zip(first.outputs, results, strict=True))
            with np.errstate(all="ignore"):  # states that failed
                target = targets(found["gap"], found["approach"], rows.restitution)
                bounds = found["low"], found["high"], rows.friction, rows.dry * dt
                A = full(found["A"], rows.size)
                impulses = solve_impulses(A, found["velocity"], target, *bounds, impulses, sweeps)
            given = {CROSSING: found[CROSSING], "impulses": impulses.p}
            results, _ = self._interpreters[1].run_checked(count, [given[name] for name in second.inputs])
            after = dict(zip(second.outputs, results, strict=True))
            q[:, t + 1], qd[:, t + 1] = after["q"], after["qd"]
            force[:, t] = impulses.p[:, : 3 * self.touches] / dt
            residual[:, t] = impulses.residual
            failed = ~(np.isfinite(qd[:, t + 1]).all(axis=1) & (found["steep"] <= STEEP).all(axis=1))
            for array in (q[:, t + 1], qd[:, t + 1], force[:, t], residual[:, t]):
                array[failed] = np.nan
            state = {"q": q[:, t + 1], "qd": qd[:, t + 1]}

    def _controlled(self, control, gains, state, dt):
        """The inputs of a step that depend on its control."""
        if not self._loops.v:
            return {"tau": control}
        tau, inertia = loop_torques(self._loops, gains, control, **state, dt=dt)
        return {"tau": tau, "loop_inertia": inertia}
