"""The kinds of constraints between the joints of a tree: those that make joints implicit."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dynamics_node.robot.loop_joints import LOOP_KINDS, LoopType


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
