"""Constraints between the joints of a tree, which make joints implicit: joints that close loops, one record a
kind, and functions given from Python.

A kind of loop joint is its equations phi = 0. Everything else follows from phi: the rates at which the loop
opens, in which directions its ends cannot move against each other, and with that the force that the joint
transmits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dynamics_node.symbolic import dot, length, product


class LoopType(NamedTuple):
    """What loop joints of one kind have in common.

    phi: loop, P, S, d -> equations that are zero where the loop is closed, on floats or symbols. P, S (3, 3):
        axes of the predecessor's and of the successor's frame; d (3,): from the origin of the successor's to
        that of the predecessor's; all seen from one frame. loop: has axis, second_axis (3,) and length.
    shared: loop -> directions (3,) that both frames have in common: the equations alone also hold with the
        ends half a turn apart.
    scale: loop -> what phi is to be divided by to be m, rad or 1.
    varies: 'P' or 'd' where the directions in which the closed joint bears force depend on how the frames lie
        (as the cross of a universal joint does), and not on that of two equal frames.
    has_length: whether the joint has one, which is positive.
    """

    phi: Callable
    shared: Callable = lambda loop: ()
    scale: Callable = lambda loop: 1.0
    varies: str = ""
    has_length: bool = False


def across(axis):
    """Two unit vectors (3,) that make a right-handed frame with an axis."""
    n = _unit(axis)
    first = np.cross(n, np.eye(3)[np.argmin(np.abs(n))])
    first = _unit(first)
    return first, np.cross(n, first)


def _unit(axis):
    return axis / length(axis)


def _same_axes(P, S):
    """Three equations of one orientation: each axis is at a right angle to the next one of the other."""
    return [dot(P[:, k], S[:, (k + 1) % 3]) for k in range(3)]


def _same_direction(loop, P, S):
    """Two equations: the axis of one end is at right angles to two directions of the other."""
    n = product(P, _unit(loop.axis))
    return [dot(n, product(S, side)) for side in across(loop.axis)]


def _fixed(loop, P, S, d):
    return [*_same_axes(P, S), *d]


def _revolute(loop, P, S, d):
    return [*_same_direction(loop, P, S), *d]


def _prismatic(loop, P, S, d):
    return [*_same_axes(P, S), *(dot(d, product(S, side)) for side in across(loop.axis))]


def _universal(loop, P, S, d):
    return [dot(product(P, _unit(loop.axis)), product(S, _unit(loop.second_axis))), *d]


def _ball(loop, P, S, d):
    return list(d)


def _planar(loop, P, S, d):
    return [*_same_direction(loop, P, S), dot(d, product(S, _unit(loop.axis)))]


def _rod(loop, P, S, d):
    return [dot(d, d) - loop.length**2]


def _two_axes(loop):
    return np.eye(3)[:2]


def _its_axis(loop):
    return (_unit(loop.axis),)


LOOP_KINDS: dict[str, LoopType] = {
    "fixed": LoopType(_fixed, _two_axes),
    "revolute": LoopType(_revolute, _its_axis),
    "prismatic": LoopType(_prismatic, _two_axes),
    "universal": LoopType(_universal, varies="P"),
    "ball": LoopType(_ball),
    "planar": LoopType(_planar, _its_axis),
    "rod": LoopType(_rod, scale=lambda loop: 2 * loop.length, varies="d", has_length=True),
}


@dataclass(frozen=True, eq=False)
class LoopJoint:
    """A joint of a kind of LOOP_KINDS between a frame on body `predecessor` and one on body `successor`
    (-1: the root). rotation (3, 3), origin (3,): of the frames in their bodies; axes in loop axes."""

    name: str
    kind: str
    predecessor: int
    successor: int
    rotations: tuple[np.ndarray, np.ndarray]
    origins: tuple[np.ndarray, np.ndarray]
    axis: np.ndarray
    second_axis: np.ndarray
    length: float

    @property
    def type(self) -> LoopType:
        """What all loop joints of its kind have in common."""
        return LOOP_KINDS[self.kind]


@dataclass(frozen=True, eq=False)
class Custom:
    """function(q) -> array (rows,) that is zero; q (n,): the positions of the joints named by `joints`. It
    may use what arrays of symbols can do."""

    name: str
    function: Callable
    coordinates: tuple[int, ...]
    bodies: frozenset[int]
