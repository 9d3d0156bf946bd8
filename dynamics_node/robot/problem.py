"""Known and unknown quantities: the same equations with other unknowns."""

from collections.abc import Iterable
from dataclasses import dataclass

from dynamics_node.robot.sensor_problem import Contact, SensorProblem, sensor_problem
from dynamics_node.robot.state_arrays import Coordinates, Shapes, state_shapes

KINDS = ("inverse", "forward", "hybrid")
KNOWN = {"inverse": ("qdd",), "forward": ("tau",), "hybrid": ("qdd", "tau")}
UNKNOWN = {"inverse": ("tau",), "forward": ("qdd",), "hybrid": ("qdd", "tau")}


@dataclass(frozen=True)
class Problem:
    """forward (nv,): True where the torque is known and the acceleration unknown, False for the reverse."""

    kind: str
    forward: tuple[bool, ...]

    def __repr__(self):
        return f"Problem({self.kind!r}, {sum(self.forward)} of {len(self.forward)} coordinates forward)"

    def reads(self, robot: Coordinates, wrenches=False) -> Shapes:
        """{name: shape} of the arguments at a state, in order: q, qd, knowns of qdd and tau, gravity, and
        f_ext if `wrenches` is true. Unknown entries of qdd and tau of a hybrid problem are ignored."""
        names = ["q", "qd", *KNOWN[self.kind], "gravity"] + ["f_ext"] * wrenches
        return state_shapes(robot, names)

    def returns(self, robot: Coordinates) -> Shapes:
        """{name: shape} of the result: qdd or tau; of a hybrid problem both, complete."""
        return state_shapes(robot, UNKNOWN[self.kind])


def inverse_dynamics(model: Coordinates) -> Problem:
    """The problem with known qdd and unknown tau."""
    return Problem("inverse", (False,) * model.nv)


def forward_dynamics(model: Coordinates) -> Problem:
    """The problem with known tau and unknown qdd."""
    return Problem("forward", (True,) * model.nv)


def hybrid_dynamics(model: Coordinates, forward_joints: Iterable[str]) -> Problem:
    """The problem with known tau and unknown qdd at `forward_joints` (independent joints), the reverse
    elsewhere.

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
    """The problem of one of KINDS; only a hybrid one has `forward_joints`. Raises ValueError for an unknown
    kind, and as in `hybrid_dynamics`."""
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
