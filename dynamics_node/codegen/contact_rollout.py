"""Steps with contacts, many of many states: the Programs of a step, and the solver of impulses between them.

A step first leaves out the rows of limits. Where no joint then passes one, that is the step. Else all rows
are solved; this is decided for every state by itself.
"""

import numpy as np

from dynamics_node.codegen.backends import Interpreter
from dynamics_node.codegen.c.contact_rollout import ContactRolloutKernel
from dynamics_node.codegen.contact_solver import (
    STEEP,
    Impulses,
    full,
    limit_velocities,
    solve_impulses,
    targets,
)
from dynamics_node.codegen.cuda import ArrayError, DeviceContactRollouts
from dynamics_node.codegen.pd_loops import LoopPlaces, loop_torques
from dynamics_node.codegen.rollout import served
from dynamics_node.symbolic import SplitProgram


class ContactRollouts:
    """parts, rows: of algorithms.contact_step; loops: their places; backend: 'c'; 'numpy', interpreted; or
    'cuda', beside which 'c' serves. Picklable.

    From the step on in which a state has no finite result, its results are NaN. No state changes another.
    """

    def __init__(self, parts: SplitProgram, rows, loops: LoopPlaces, backend: str):
        """Raises DeviceError for backend cuda without a device."""
        self._parts, self._rows, self._loops, self._backend = parts, rows, loops, backend
        self._interpreters = [Interpreter(part.program) for part in parts.parts]
        self._kernels: dict[np.dtype, ContactRolloutKernel] = {}
        self._device = DeviceContactRollouts(parts, rows, loops) if backend == "cuda" else None

    @property
    def touches(self):
        return len(self._rows.touches)

    def __call__(self, control, gains, same, sweeps, q, qd, force, residual):
        """See ContactRolloutKernel; gains: LoopGains, if any; same: {name: array} of what all states share,
        `dt` and `gravity`. Raises CompileError."""
        if self._backend == "numpy":
            return self._interpreted(control, gains, same, sweeps, q, qd, force, residual)
        if self._device is not None and served(
            lambda: self._device.fill(control, gains, same, sweeps, q, qd, force, residual)
        ):
            return None
        dtype = control.dtype
        if dtype not in self._kernels:
            self._kernels[dtype] = ContactRolloutKernel(self._parts, self._rows, self._loops, dtype)
        shared = np.concatenate([np.ravel(same[name]) for name in ("dt", "gravity")])
        shared, gains = shared.astype(dtype), np.array(gains, dtype=dtype)
        self._kernels[dtype](control, gains, shared, sweeps, q, qd, force, residual)
        return None

    def on_device(self, q0, qd0, controls, gains, same, sweeps):
        """See DeviceContactRollouts."""
        if self._device is None:
            reason = f"on a GPU, and this function runs by {self._backend}"
            raise ArrayError(f"q0, qd0, controls: arrays {reason}: build it with backend='cuda'")
        return self._device(q0, qd0, controls, gains, same, sweeps)

    def _interpreted(self, control, gains, same, sweeps, q, qd, force, residual):
        rows, count, dt = self._rows, len(q), float(same["dt"])
        numbers = np.zeros((count, self._parts.size))
        memory = {name: numbers[:, place] for name, place in self._parts.places.items()}
        for name, value in same.items():
            memory[name][...] = value
        impulses = Impulses(
            np.zeros((count, rows.size)), np.zeros((count, 2, len(rows.joints))), np.zeros(count)
        )
        state = {"q": q[:, 0], "qd": qd[:, 0]}
        for t in range(control.shape[1]):
            for name, value in {**state, **self._controlled(control[:, t], gains, state, dt)}.items():
                memory[name][...] = value
            with np.errstate(all="ignore"):  # states that failed
                q[:, t + 1], qd[:, t + 1], impulses = self._step(numbers, memory, impulses, dt, sweeps)
            force[:, t] = impulses.p[:, : 3 * self.touches] / dt
            residual[:, t] = impulses.residual
            failed = ~(np.isfinite(qd[:, t + 1]).all(axis=1) & (memory["steep"] <= STEEP).all(axis=1))
            for array in (q[:, t + 1], qd[:, t + 1], force[:, t], residual[:, t]):
                array[failed] = np.nan
            state = {"q": q[:, t + 1], "qd": qd[:, t + 1]}

    def _step(self, numbers, memory, start, dt, sweeps):
        """q, qd and Impulses at the end of a step."""
        rows, n = self._rows, self._rows.always
        dry = n - 3 * self.touches
        self._run(0, numbers)
        target = targets(memory["gap"], memory["approach"], rows.restitution)
        low, high = limit_velocities(memory["low"], memory["high"])
        given = target, low[:, :dry], high[:, :dry], rows.friction, rows.dry[:dry] * dt
        A, first = full(memory["A"], n), Impulses(start.p[:, :n], start.joints[:, :, :dry], start.residual)
        found = solve_impulses(A, memory["velocity"], *given, first, sweeps)
        memory["impulses"][...] = found.p
        self._run(1, numbers)
        after = [memory["q_after"].copy(), memory["qd_after"].copy()]
        impulses = Impulses(np.zeros_like(start.p), np.zeros_like(start.joints), found.residual.copy())
        impulses.p[:, :n], impulses.joints[:, :, :dry] = found.p, found.joints
        passed = ((memory["reached"] < low[:, dry:]) | (memory["reached"] > high[:, dry:])).any(axis=1)
        if passed.any():
            self._run(2, numbers)
            A = full(np.concatenate([memory["A"], memory["A_more"]], axis=1), rows.size)
            velocity = np.concatenate([memory["velocity"], memory["velocity_more"]], axis=1)
            found = solve_impulses(
                A, velocity, target, low, high, rows.friction, rows.dry * dt, start, sweeps
            )
            memory["all_impulses"][...] = found.p
            self._run(3, numbers)
            every = (*after, *impulses), (memory["all_q"], memory["all_qd"], *found)
            for array, value in zip(*every, strict=True):
                array[passed] = value[passed]
        return *after, impulses

    def _run(self, k, numbers):
        part = self._parts.parts[k]
        (results,), _ = self._interpreters[k].run_checked(len(numbers), [numbers[:, part.reads]])
        numbers[:, part.writes : part.end] = results

    def _controlled(self, control, gains, state, dt):
        """The inputs of a step that depend on its control."""
        if not self._loops.v:
            return {"tau": control}
        tau, inertia = loop_torques(self._loops, gains, control, **state, dt=dt)
        return {"tau": tau, "loop_inertia": inertia}
