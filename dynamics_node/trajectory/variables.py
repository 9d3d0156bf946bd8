"""What is asked at every step of a trajectory: vectors, and positions of a robot, which may turn."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from dynamics_node.algorithms.tangent import tangent_map
from dynamics_node.robot import Robot


@dataclass(frozen=True, eq=False)
class Variable:
    """A variable of every step: `size` numbers, changed along `tangent` directions.

    names (tangent,): of the directions, for people. moved: x (..., size), step (..., tangent) -> x after the
    step, exact to first order; difference: to, start -> the step by which `moved` takes start to `to`;
    tangent_map: x -> (..., size, tangent), by what x changes along its directions. All of floats or symbols.
    rate: the variable that is its derivative by time; neutral (size,): a value to begin with.
    """

    name: str
    names: tuple[str, ...]
    neutral: np.ndarray
    moved: Callable
    difference: Callable
    tangent_map: Callable
    rate: str = ""

    @property
    def size(self):
        return len(self.neutral)

    @property
    def tangent(self):
        return len(self.names)


def vector(name, names, rate="") -> Variable:
    """A Variable of plain numbers."""
    names = tuple(names)
    return Variable(name, names, np.zeros(len(names)), _added, _subtracted, _unchanged, rate)


def positions(tree: Robot, name="q", rate="qd") -> Variable:
    """The positions q (nq,) of a tree, which change along its velocities."""
    joints = tree.independent_joints

    def moved(q, step):
        parts = [joint.type.moved(q[..., joint.q], step[..., joint.v]) for joint in joints]
        return np.concatenate(parts, axis=-1) if parts else q

    def difference(to, start):
        parts = [joint.type.difference(to[..., joint.q], start[..., joint.q]) for joint in joints]
        return np.concatenate(parts, axis=-1) if parts else to - start

    return Variable(name, tree.v_names, tree.neutral(), moved, difference, partial(tangent_map, tree), rate)


def _added(x, step):
    return x + step


def _subtracted(to, start):
    return to - start


def _unchanged(x):
    return np.broadcast_to(np.eye(x.shape[-1]), (*x.shape, x.shape[-1]))
