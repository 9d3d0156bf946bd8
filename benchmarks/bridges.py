"""Functions in CasADi, JAX and PyTorch against Pinocchio called back from the same framework.

Inverse dynamics of the Panda, float64, on one pinned core, all in one run; medians of CPU time over many
calls. A derivative of the peer's is that of its analytical function, with the same callback.
`pinocchio.casadi` is a peer where Pinocchio has it; the wheels on PyPI do not. MJX computes the same tree in
the same loops and batches of JAX, without contacts and constraints; Brax names it for new work in physics.
"""

import os
import time
from importlib import import_module

import harness
import numpy as np
from dynamics import pinocchio_model
from robots import random_states, robot

import dynamics_node as dn

CALLS, REPEATS = 2000, 9
LOOP = 20_000  # steps of a compiled loop
FEWER = 2000  # steps of one against MJX
BATCH = 1000  # states
LARGER = 1024  # states of a batch against MJX
JITTED = 0.02  # of the callback's time: the target of a compiled loop
CALLBACK = "pin, called back"
MJX = "MJX"
ABSENT = {"casadi": "CasADi", "jax": "JAX", "torch": "PyTorch"}


def microseconds(run, count):
    """Median CPU time of a call of run(), of which one does `count` things."""
    times = []
    for _ in range(REPEATS):
        begin = time.process_time_ns()
        run()
        times.append((time.process_time_ns() - begin) / count / 1e3)
    return float(np.median(times[1:]))


def repeated(call):
    """CPU time of a call from Python."""

    def run():
        for _ in range(CALLS):
            call()

    return microseconds(run, CALLS)


def row(name, ours, theirs=None, target=None, peer=CALLBACK, reason=""):
    return harness.Row(name, ours, "us", "lower", peer, theirs, target=target, reason=reason)


class Peer:
    """Pinocchio's functions of NumPy arrays."""

    def __init__(self):
        import pinocchio

        self._pin, self._model = pinocchio, pinocchio_model("panda")
        self._data = self._model.createData()

    def torque(self, q, qd, qdd):
        return self._pin.rnea(self._model, self._data, *map(np.asarray, (q, qd, qdd)))

    def jacobian(self, q, qd, qdd):
        return self._pin.computeRNEADerivatives(self._model, self._data, *map(np.asarray, (q, qd, qdd)))


def in_casadi(function, peer, states):
    import casadi

    class Callback(casadi.Callback):
        """Pinocchio's torques."""

        def __init__(self):
            casadi.Callback.__init__(self)
            self.construct("torque", {})

        def get_n_in(self):
            return 3

        def get_sparsity_in(self, i):
            return casadi.Sparsity.dense(7, 1)

        def get_sparsity_out(self, i):
            return casadi.Sparsity.dense(7, 1)

        def eval(self, arguments):
            return [peer.torque(*(np.array(x).ravel() for x in arguments))]

    bridge, callback = function.casadi(), Callback()
    state = [casadi.DM(array[0]) for array in states]
    check(np.array(bridge(*state)).ravel(), np.array(callback(*state)).ravel())
    ours, theirs = (
        loop_in_casadi(casadi, bridge, state, LOOP),
        loop_in_casadi(casadi, callback, state, LOOP // 20),
    )
    jacobian = bridge.jacobian()
    reason = ""
    try:
        import_module("pinocchio.casadi")
    except ImportError as error:
        reason = str(error)
    return [
        row(
            "CasADi, a call from Python", repeated(lambda: bridge(*state)), repeated(lambda: callback(*state))
        ),
        row("CasADi, a step of fold", ours, theirs, JITTED),
        row("CasADi, the Jacobian from Python", repeated(lambda: jacobian(*state, 0)), peer=""),
        row("pinocchio.casadi, a step of fold", None, peer="", reason=reason or "not measured"),
    ]


def loop_in_casadi(casadi, torque, state, steps):
    q, qd, x = (casadi.MX.sym(name, 7) for name in ("q", "qd", "x"))
    step = casadi.Function("step", [x, q, qd], [x + 1e-9 * torque(q, qd, x)])
    whole = step.fold(steps)
    given = state[2], casadi.repmat(state[0], 1, steps), casadi.repmat(state[1], 1, steps)
    return microseconds(lambda: whole(*given), steps)


def in_jax(function, peer, states):
    import jax

    jax.config.update("jax_enable_x64", True)
    jnp, bridge = jax.numpy, function.jax()
    shape = jax.ShapeDtypeStruct((7,), np.float64)

    @jax.jit
    def callback(q, qd, qdd):
        return jax.pure_callback(peer.torque, shape, q, qd, qdd, vmap_method="sequential")

    shapes = [jax.ShapeDtypeStruct((7, 7), np.float64)] * 3

    def called_back(*state):
        return jax.pure_callback(peer.jacobian, shapes, *state, vmap_method="sequential")

    def loop(torque, steps):
        return timed(jax.jit(loop_in_jax(jax, torque, steps)), steps)

    def timed(run, count):
        run(*state).block_until_ready()
        return microseconds(lambda: run(*state).block_until_ready(), count)

    state = [jnp.asarray(array[0]) for array in states]
    many = [jnp.asarray(np.resize(array, (BATCH, 7))) for array in states]
    check(bridge(*state), callback(*state))
    gradient = jax.grad(lambda q, qd, x: bridge(q, qd, x).sum())
    theirs = repeated(lambda: callback(*state).block_until_ready())
    ours = repeated(lambda: bridge(*state).block_until_ready())
    by_callback = loop(lambda *state: called_back(*state)[0].sum(axis=0), LOOP // 20)
    batch = microseconds(lambda: bridge(*many).block_until_ready(), BATCH)
    return [
        row("JAX, a call from Python", ours, theirs),
        row("JAX, a step of a compiled loop", loop(bridge, LOOP), loop(callback, LOOP // 20), JITTED),
        row("JAX, the gradient in a compiled loop", loop(gradient, LOOP), by_callback, JITTED),
        row("JAX, a state of a batch of 1000", batch, numpy_batch(function, states), peer="NumPy, one core"),
    ]


def loop_in_jax(jax, step, steps):
    """A function of a state: the result of the last step of a loop. Positions change in every step, since XLA
    computes once what is the same in all of them."""

    def run(q, qd, x):
        def body(_, now):
            x, _ = now
            result = step(q + 1e-9 * x, qd, x)
            return x + 1e-9 * result, result

        return jax.lax.fori_loop(0, steps, body, (x, x))[1]

    return run


def against_mjx(function, states):
    """Rows of both, compiled by JAX, with the same results."""
    import jax

    try:
        from mjx_peer import OPTIONS, Mjx
    except ImportError as error:
        return [row("JAX, against MJX", None, peer=MJX, reason=f"{error}: pip install mujoco-mjx")]
    mjx, seconds = Mjx(function.robot), [0.0, 0.0]
    state = [jax.numpy.asarray(array[0]) for array in states]
    many = [jax.numpy.asarray(np.resize(array, (LARGER, 7))) for array in states]

    def compared(name, functions, arrays, count):
        runs, results = [], []
        for k, (run, options) in enumerate(zip(functions, (None, OPTIONS), strict=True)):
            begin = time.perf_counter()
            runs.append(jax.jit(run, compiler_options=options))
            results.append(runs[k](*arrays).block_until_ready())
            seconds[k] += time.perf_counter() - begin
        check(*results)
        times = [microseconds(lambda run=run: run(*arrays).block_until_ready(), count) for run in runs]
        return row(f"JAX, {name}", *times, peer=MJX)

    def loops(functions):
        return [loop_in_jax(jax, step, FEWER) for step in functions]

    rows = []
    for name in ("inverse_dynamics", "forward_dynamics"):
        built = function if name == "inverse_dynamics" else dn.build(function.robot, name, backend="c")
        both, words = (built.jax(), getattr(mjx, name)), name.replace("_", " ")
        rows.append(compared(f"{words}, a step of a loop", loops(both), state, FEWER))
        rows.append(compared(f"{words}, a state of {LARGER}", [jax.vmap(f) for f in both], many, LARGER))
        if name == "inverse_dynamics":
            slopes = [jax.grad(lambda *state, f=f: f(*state).sum()) for f in both]
            rows.append(compared(f"gradient of {words}, a step", loops(slopes), state, FEWER))
    compilation = "JAX, compilation of these, and first calls"
    return [*rows, harness.Row(compilation, seconds[0], "s", "lower", MJX, seconds[1])]


def in_torch(function, peer, states):
    import torch

    bridge = function.torch()
    state = [torch.from_numpy(array[0].copy()) for array in states]
    many = [torch.from_numpy(np.resize(array, (BATCH, 7))) for array in states]
    leaves = [x.clone().requires_grad_() for x in state]

    class Callback(torch.autograd.Function):
        """Pinocchio's torques."""

        @staticmethod
        def forward(ctx, *state):
            ctx.save_for_backward(*state)
            return torch.from_numpy(peer.torque(*state))

        @staticmethod
        def backward(ctx, weight):
            return tuple(torch.from_numpy(block).T @ weight for block in peer.jacobian(*ctx.saved_tensors))

    check(bridge(*state), Callback.apply(*state))
    ours, theirs = (
        repeated(lambda call=call: torch.autograd.grad(call(*leaves).sum(), leaves))
        for call in (bridge, Callback.apply)
    )
    batch = microseconds(lambda: bridge(*many), BATCH)
    return [
        row(
            "PyTorch, a call from Python",
            repeated(lambda: bridge(*state)),
            repeated(lambda: Callback.apply(*state)),
        ),
        row("PyTorch, a call and its gradient", ours, theirs),
        row(
            "PyTorch, a state of a batch of 1000",
            batch,
            numpy_batch(function, states),
            peer="NumPy, one core",
        ),
    ]


def numpy_batch(function, states):
    many = [np.resize(array, (BATCH, 7)) for array in states]
    function(*many)
    return microseconds(lambda: function(*many), BATCH)


def check(ours, theirs):
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert np.allclose(ours, theirs, rtol=0, atol=1e-10 * np.abs(theirs).max())


def main():
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])  # before JAX and PyTorch start threads
    save = harness.arguments("bridges").parse_args().save
    model = robot("panda")
    function, peer, rows = dn.build(model, "inverse_dynamics", backend="c"), Peer(), []
    for name, measure in (("casadi", in_casadi), ("jax", in_jax), ("torch", in_torch)):
        try:
            import_module(name)
        except ImportError as error:
            rows.append(row(f"{ABSENT[name]}, a call from Python", None, reason=str(error)))
            continue
        rows += measure(function, peer, random_states(model, 10))
        if name == "jax":
            rows += against_mjx(function, random_states(model, 10))
    packages = ("numpy", "pin", "casadi", "jax", "mujoco-mjx", "torch")
    harness.finish("bridges", rows, harness.versions(*packages), save)


if __name__ == "__main__":
    main()
