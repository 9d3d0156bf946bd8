"""What is known and what is asked: the same equations, other unknowns."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from dynamics_node.model import Joint


class Coordinates(Protocol):
    """What a Problem needs of a Model, or of a Mechanism with loops."""

    @property
    def nv(self) -> int: ...

    @property
    def independent_joints(self) -> tuple[Joint, ...]: ...


@dataclass(frozen=True)
class Problem:
    """forward (nv,): True where the torque is known and the acceleration asked, False the reverse."""

    kind: str
    forward: tuple[bool, ...]


def inverse_dynamics(model: Coordinates) -> Problem:
    """qdd known, tau asked."""
    return Problem("inverse", (False,) * model.nv)


def forward_dynamics(model: Coordinates) -> Problem:
    """tau known, qdd asked."""
    return Problem("forward", (True,) * model.nv)


def hybrid_dynamics(model: Coordinates, forward_joints: Iterable[str]) -> Problem:
    """tau known and qdd asked at `forward_joints` (independent joints by name), the reverse elsewhere.

    Raises ValueError naming a joint that is unknown or mimics another.
    """
    forward = [False] * model.nv
    known = {joint.name: joint for joint in model.independent_joints}
    for name in forward_joints:
        if name not in known:
            raise ValueError(
                f"forward joint {name!r} is unknown or mimics another; known: {', '.join(known)}"
            )
        forward[known[name].v] = [True] * (known[name].v.stop - known[name].v.start)
    return Problem("hybrid", tuple(forward))
