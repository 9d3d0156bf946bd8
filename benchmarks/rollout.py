"""Rollouts of 1024 samples along 50 steps against mujoco.rollout and MJX, on the same tree and threads.

MuJoCo has no contacts, limits, constraints, damping or geometry to compute. Least times of whole calls in
alternating rounds, with checks of arguments and new arrays for results: CPU time on one core. With
--threads N: wall time of N threads, which needs a quiet machine. A step of an arm is the same in all
(the results agree); on a floating base MuJoCo's velocities are in other axes. MJX, in JAX, has Euler's steps:
`pip install mujoco-mjx`.
"""

import os
import time

import harness
import mujoco
import numpy as np
from mujoco.rollout import Rollout
from robots import mujoco_tree, random_states, robot

import dynamics_node as dn

SAMPLES, STEPS = 1024, 50
SECONDS, PARTS = 2.0, 10  # for every figure; turns of the calls
STEP = {"panda": 0.01, "solo12": 0.002}  # s
INTEGRATORS = {
    "semi_implicit_euler": mujoco.mjtIntegrator.mjINT_EULER,
    "rk4": mujoco.mjtIntegrator.mjINT_RK4,
}
TARGET = 1 / 10  # of MuJoCo's time
AGREEMENT = 1e-9  # rad, after all steps of an arm, or of MuJoCo's two programs


class Peer:
    """mujoco.rollout of a robot's tree."""

    def __init__(self, model, dt):
        self.tree = mujoco_tree(model)
        options = self.tree.model.opt
        options.timestep = dt
        for part in ("CONSTRAINT", "CONTACT", "AUTORESET", "EULERDAMP"):
            options.disableflags |= getattr(mujoco.mjtDisableBit, f"mjDSBL_{part}")

    def call(self, q, qd, tau, integrator, threads):
        """A function that returns qpos (samples, steps, nq)."""
        model, nq = self.tree.model, self.tree.model.nq
        model.opt.integrator = INTEGRATORS[integrator]
        start = np.hstack([np.zeros((len(q), 1)), self.tree.qpos(q), self.tree.qvel(q, qd)])
        data, spec = [mujoco.MjData(model) for _ in range(threads)], mujoco.mjtState.mjSTATE_QFRC_APPLIED
        pool = Rollout(nthread=threads if threads > 1 else 0)

        def run():
            states, _ = pool.rollout([model], data, start, tau, control_spec=spec)
            return states[..., 1 : 1 + nq]

        return run


def in_mjx(model, dt, q, qd, tau):
    """A function that returns qpos (samples, steps, nq) by MJX. Raises ImportError."""
    from mjx_peer import OPTIONS, Mjx, jax

    mjx = Mjx(model, dt)
    given = [jax.numpy.asarray(array) for array in (mjx.tree.qpos(q), mjx.tree.qvel(q, qd), tau)]
    compiled = jax.jit(jax.vmap(mjx.rollout), compiler_options=OPTIONS)
    return lambda: compiled(*given).block_until_ready()


def least_times(threads, calls):
    """Least time of a step of a sample, ns, of every call."""
    clock = time.process_time_ns if threads == 1 else time.perf_counter_ns
    times = [np.inf] * len(calls)
    for _ in range(PARTS):
        for k, call in enumerate(calls):
            stop = time.perf_counter() + SECONDS / PARTS
            while time.perf_counter() < stop:
                begin = clock()
                call()
                times[k] = min(times[k], (clock() - begin) / SAMPLES / STEPS)
    return times


def rows(name, threads):
    model, dt = robot(name), STEP[name]
    q, qd, _ = random_states(model, SAMPLES)
    qd *= 0.1
    tau = 0.1 * np.random.default_rng(1).normal(size=(SAMPLES, STEPS, model.nv))
    forward, peer = dn.build(model, "forward_dynamics", backend="c"), Peer(model, dt)
    every = [np.repeat(array, STEPS, 0) for array in (q, qd)] + [tau.reshape(-1, model.nv)]
    for integrator in INTEGRATORS:

        def ours(integrator=integrator):
            return forward.rollout(q, qd, tau, dt, integrator=integrator)

        if not np.isfinite(ours().q).all():
            raise SystemExit(f"{name}: a sample diverges")
        theirs = peer.call(q, qd, tau, integrator, threads)
        if name == "panda":
            require_agreement(f"{name}, {integrator}", ours().q[:, 1:], theirs())
        row = f"{name} {integrator}, {threads} thread{'s' * (threads > 1)}"
        calls = {"mujoco.rollout": theirs, "forward, of a batch": lambda: forward(*every)}
        if integrator == "semi_implicit_euler":
            try:
                calls["MJX"] = in_mjx(model, dt, q, qd, tau)
                require_agreement(f"{name}, MJX", calls["MJX"](), theirs())
            except ImportError as error:
                yield harness.Row(row, None, "ns", "lower", "MJX", reason=f"{error}: pip install mujoco-mjx")
        step, *others = least_times(threads, [ours, *calls.values()])
        targets = {"mujoco.rollout": TARGET}
        for own, value in zip(calls, others, strict=True):
            yield harness.Row(row, step, "ns", "lower", own, value, target=targets.get(own))


def require_agreement(name, positions, mujoco_positions):
    apart = np.abs(positions - mujoco_positions).max()
    if not apart < AGREEMENT:
        raise SystemExit(f"{name}: {apart:.3g} rad from MuJoCo")


def main():
    parser = harness.arguments("rollout")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    os.sched_setaffinity(0, range(options.threads))  # before JAX starts threads
    found = [row for name in STEP for row in rows(name, options.threads)]
    harness.finish("rollout", found, harness.versions("mujoco", "mujoco-mjx", "jax", "numpy"), options.save)


if __name__ == "__main__":
    main()
