"""Functions inside other frameworks: their states, and derivatives to compare with."""

import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from robots import robot_of, states_of

import dynamics_node as dn

STEP = 1e-6
CASES = [  # a tree, closed loops, a floating base
    ("panda7", "inverse_dynamics"),
    ("panda7", "forward_dynamics"),
    ("five_bar", "inverse_dynamics"),
    ("five_bar", "forward_dynamics"),
    ("solo12", "inverse_dynamics"),
]
CALLS = 100_000
GROWTH = 8 << 20  # bytes: 84 a call


def built(name, quantity, **options):
    """A Function, and arguments of four states."""
    function = dn.build(robot_of(name), quantity, backend="numpy", **options)
    return function, [array.copy() for array in states_of(name, 4)[:3]][
        : len(set(function.runner.inputs) - {"gravity"})
    ]


def rates(robot, q):
    """(nq, nv): the rates of the numbers of q by the velocities, from positions a step apart."""
    steps = STEP * np.eye(robot.nv)
    columns = [(dn.integrate(robot, q, step) - dn.integrate(robot, q, -step)) / (2 * STEP) for step in steps]
    return np.stack(columns, axis=1)


def require_tangent(robot, q, by_numbers, along):
    """Derivatives by the numbers of q, which lie along velocities, are those of `RobotFunction.derivatives`."""
    scale = max(1.0, np.abs(along).max())
    assert np.abs(by_numbers @ rates(robot, q) - along).max() <= 1e-7 * scale
    for _, at in robot.quaternions:
        assert np.abs(by_numbers[:, at] @ q[at]).max() <= 1e-9 * scale  # nothing along the quaternion


@contextmanager
def float64_in_jax():
    """JAX, if it is imported, has float64 inside."""
    if "jax" not in sys.modules:
        yield
        return
    config = sys.modules["jax"].config
    before = config.jax_enable_x64
    config.update("jax_enable_x64", True)
    yield
    config.update("jax_enable_x64", before)


def resident():
    """Bytes of this process in memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) << 10
