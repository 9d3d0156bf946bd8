"""Small Programs for tests of the GPU backends."""

from dataclasses import replace
from functools import cache

import numpy as np

from dynamics_node.codegen import make_runner
from dynamics_node.symbolic import Program, trace


@cache
def swinging() -> Program:
    """An angle, a reciprocal, health: outputs x (3,) and y () of a (3,), b (3,) and gravity (3,) with
    parameters p (10, 7), too many to be handed over by value."""

    def function(a, b, gravity, p):
        g = gravity
        x = np.array([np.sin(a[0]) * g[2] + b[0], np.cos(a[0]) / (b[1] + 3), a[1] * b[2] + p[2, 1]])
        return {"x": x, "y": x[0] * x[1] + a[2] * g[0] + g[1], "health": np.array([b[1] * b[1]])}

    shapes = {"a": (3,), "b": (3,), "gravity": (3,), "p": (10, 7)}
    return replace(trace(function, shapes), limits=(4.0,))


def parameters(seed=0):
    """Values of p."""
    return {"p": np.random.default_rng(seed).uniform(-1, 1, (10, 7))}


def states(count, dtype=np.float64, seed=0):
    """a, b and gravity of so many states, gravity the same in all."""
    random = np.random.default_rng(seed)
    a, b = (random.uniform(-1, 1, (count, 3)).astype(dtype) for _ in range(2))
    return [a, b, np.array([0.5, -1.0, -9.81], dtype)]


@cache
def on_cpu():
    """The Runner of `swinging` by C, with `parameters`."""
    return make_runner(swinging(), "c", parameters())
