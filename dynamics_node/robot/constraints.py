"""Constraints between the joints of a tree, which make joints implicit: loop joints and Python functions.

A kind of loop joint, a record, is its equations phi = 0. Everything else follows from phi: the rates at which
the loop opens, the constrained directions, and with them the force that the joint transmits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dynamics_node.symbolic import dot, length, product


class LoopType(NamedTuple):
    """The properties of one kind of loop joint.

    phi: loop, P, S, d -> equations that are zero if the loop is closed, on floats or symbols. P, S (3, 3):
        axes of the predecessor's and of the successor's frame; d (3,): from the origin of the successor's to
        that of the predecessor's; all in one frame. loop: has axis, second_axis (3,) and length.
    shared: loop -> directions (3,) common to both frames. The equations alone also hold with the ends half a
        turn apart.
    scale: loop -> divisors of phi that make it m, rad or 1.
    varies: 'P' or 'd' if the constrained directions of the closed joint depend on the pose of the frames, as
        for the cross of a universal joint.
    has_length: whether the joint has a length, which is positive.
    """

    phi: Callable
    shared: Callable = lambda loop: ()
    scale: Callable = lambda loop: 1.0
    varies: str = ""
    has_length: bool = False


def across(axis):
    """Two unit vectors (3,) that complete an axis to a right-handed frame."""
    n = _unit(axis)
    first = np.cross(n, np.eye(3)[np.argmin(np.abs(n))])
    first = _unit(first)
    return first, np.cross(n, first)


def _unit(axis):
    return axis / length(axis)


def _same_axes(P, S):
    """Three equations for equal orientation: each axis is normal to the next one of the other frame."""
    return [dot(P[:, k], S[:, (k + 1) % 3]) for k in range(3)]


def _same_direction(loop, P, S):
    """Two equations: the axis of one end is normal to two directions of the other."""
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
    """A loop joint between a frame on body `predecessor` and one on body `successor` (-1: the root).
    kind: in LOOP_KINDS; rotation (3, 3), origin (3,): of the frames in their bodies; axes in loop axes."""

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
        """The properties of its kind."""
        return LOOP_KINDS[self.kind]


@dataclass(frozen=True, eq=False)
class Custom:
    """function(q) -> array (rows,) that is zero; q (n,): positions of some joints with one coordinate each.
    It may use the operations of object arrays.

    coordinates (n,): indices of these joints in the velocities of the tree (`Joint.v`), not in its positions,
    in the order of q. bodies: those that the joints move."""

    name: str
    function: Callable
    coordinates: tuple[int, ...]
    bodies: frozenset[int]
