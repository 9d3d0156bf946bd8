"""What is known and what is asked: the same equations, other unknowns."""

from collections.abc import Iterable
from dataclasses import dataclass

from dynamics_node.robot.sensor_problem import Contact, SensorProblem, sensor_problem
from dynamics_node.robot.state_arrays import Coordinates, Shapes, state_shapes

KINDS = ("inverse", "forward", "hybrid")
KNOWN = {"inverse": ("qdd",), "forward": ("tau",), "hybrid": ("qdd", "tau")}
ASKED = {"inverse": ("tau",), "forward": ("qdd",), "hybrid": ("qdd", "tau")}


@dataclass(frozen=True)
class Problem:
    """forward (nv,): True where the torque is known and the acceleration asked, False the reverse."""

    kind: str
    forward: tuple[bool, ...]

    def reads(self, robot: Coordinates, wrenches=False) -> Shapes:
        """{name: shape} of what is known at a state, in the order of arguments: q, qd, what is known of qdd
        and tau, gravity, and f_ext if there are external wrenches. Where a hybrid problem asks, an entry of
        qdd or tau is not used."""
        names = ["q", "qd", *KNOWN[self.kind], "gravity"] + ["f_ext"] * wrenches
        return state_shapes(robot, names)

    def returns(self, robot: Coordinates) -> Shapes:
        """{name: shape} of the result: qdd or tau, or both of them, complete, of a hybrid problem."""
        return state_shapes(robot, ASKED[self.kind])


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


def named(kind: str, robot: Coordinates, forward_joints: Iterable[str] = ()) -> Problem:
    """The problem of one of KINDS; only a hybrid one has `forward_joints`. Raises ValueError for another
    kind, and as `hybrid_dynamics`."""
    if kind not in KINDS:
        raise ValueError(f"unknown problem {kind!r}; there are {', '.join(KINDS)}")
    if kind == "hybrid":
        return hybrid_dynamics(robot, forward_joints)
    return (inverse_dynamics if kind == "inverse" else forward_dynamics)(robot)


__all__ = [
    "KINDS",
    "Contact",
    "Coordinates",
    "Problem",
    "SensorProblem",
    "Shapes",
    "forward_dynamics",
    "hybrid_dynamics",
    "inverse_dynamics",
    "named",
    "sensor_problem",
    "state_shapes",
]
