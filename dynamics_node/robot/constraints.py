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

    shared: loop -> directions (3,) common to both frames: none, one, or two.
    others: loop, P, S, d -> the other equations, zero if closed, on floats or symbols. P, S (3, 3): axes of
        the predecessor's and of the successor's frame; d (3,): from the origin of the successor's to that of
        the predecessor's; all in one frame. loop: has axis, second_axis (3,) and length.
    scale: loop -> divisors of phi that make it m, rad or 1.
    varies: 'P' or 'd' if the constrained directions of the closed joint depend on the pose of the frames, as
        for the cross of a universal joint.
    has_length: whether the joint has a length, which is positive.
    """

    shared: Callable
    others: Callable
    scale: Callable = lambda loop: 1.0
    varies: str = ""
    has_length: bool = False

    def phi(self, loop, P, S, d):
        """As many equations as the joint has constraints. They also hold with the ends half a turn apart, and
        with permuted axes."""
        return [*_ALIGNED[len(self.shared(loop))](loop, P, S), *self.others(loop, P, S, d)]


def across(axis):
    """Two unit vectors (3,) that complete an axis to a right-handed frame."""
    n = _unit(axis)
    first = np.cross(n, np.eye(3)[np.argmin(np.abs(n))])
    first = _unit(first)
    return first, np.cross(n, first)


def _unit(axis):
    return axis / length(axis)


def _same_axes(loop, P, S):
    """Three equations for equal orientation: each axis is normal to the next one of the other frame."""
    return [dot(P[:, k], S[:, (k + 1) % 3]) for k in range(3)]


def _same_direction(loop, P, S):
    """Two equations: the axis of one end is normal to two directions of the other."""
    n = product(P, _unit(loop.axis))
    return [dot(n, product(S, side)) for side in across(loop.axis)]


_ALIGNED: dict[int, Callable] = {0: lambda loop, P, S: [], 1: _same_direction, 2: _same_axes}


def _none(loop):
    return ()


def _its_axis(loop):
    return (_unit(loop.axis),)


def _two_axes(loop):
    return np.eye(3)[:2]


def _same_origin(loop, P, S, d):
    return list(d)


def _on_axis(loop, P, S, d):
    return [dot(d, product(S, side)) for side in across(loop.axis)]


def _cross(loop, P, S, d):
    return [dot(product(P, _unit(loop.axis)), product(S, _unit(loop.second_axis))), *d]


def _in_plane(loop, P, S, d):
    return [dot(d, product(S, _unit(loop.axis)))]


def _at_length(loop, P, S, d):
    return [dot(d, d) - loop.length**2]


LOOP_KINDS: dict[str, LoopType] = {
    "fixed": LoopType(_two_axes, _same_origin),
    "revolute": LoopType(_its_axis, _same_origin),
    "prismatic": LoopType(_two_axes, _on_axis),
    "universal": LoopType(_none, _cross, varies="P"),
    "ball": LoopType(_none, _same_origin),
    "planar": LoopType(_its_axis, _in_plane),
    "rod": LoopType(_none, _at_length, scale=lambda loop: 2 * loop.length, varies="d", has_length=True),
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
class FunctionConstraint:
    """function(q) -> array (rows,) that is zero; q (n,): positions of some joints with one coordinate each.
    It may use the operations of object arrays.

    coordinates (n,): indices of these joints in the velocities of the tree (`Joint.v`), not in its positions,
    in the order of q. bodies: those that the joints move."""

    name: str
    function: Callable
    coordinates: tuple[int, ...]
    bodies: frozenset[int]
