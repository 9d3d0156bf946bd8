"""The arrays that belong to a state of a robot."""

from typing import Protocol

from dynamics_node.robot.robot import Joint

Shapes = dict[str, tuple[int, ...]]


class Coordinates(Protocol):
    """What a Problem needs of a Robot."""

    @property
    def nq(self) -> int: ...

    @property
    def nv(self) -> int: ...

    @property
    def nbodies(self) -> int: ...

    @property
    def independent_joints(self) -> tuple[Joint, ...]: ...


def state_shapes(robot: Coordinates, names) -> Shapes:
    """{name: shape} of what belongs to a state of the robot."""
    rates = (robot.nv,)
    shapes: Shapes = {"q": (robot.nq,), "qd": rates, "qdd": rates, "tau": rates, "gravity": (3,)}
    shapes["f_ext"] = (robot.nbodies, 6)
    return {name: shapes[name] for name in names}
