"""Variables in words, entry by entry."""

from dynamics_node.graph.variables import (
    ACCELERATION,
    COUPLING_FORCE,
    EXTERNAL,
    JOINT_ACCELERATION,
    TORQUE,
    WRENCH,
    Variable,
)
from dynamics_node.robot.sensor_problem import SensorProblem

_TURNING = [f"{what} {axis}" for what in ("moment", "force") for axis in "xyz"]
_MOVING = [f"{what} acceleration {axis}" for what in ("angular", "linear") for axis in "xyz"]


def in_words(robot, problem: SensorProblem, variable: Variable) -> tuple[str, ...]:
    """What every entry of a variable is: `torque of joint 'knee'`, `external moment z on link 'foot'`."""
    bodies, number = robot.tree.bodies, variable.body
    if variable.kind == EXTERNAL:
        contact = problem.contacts[number]
        return tuple(f"external {_TURNING[row]} on link {contact.link!r}" for row in contact.rows)
    if number >= len(bodies) or variable.kind == COUPLING_FORCE:
        return _of_constraint(robot, number - len(bodies), variable.dim)
    body, joint = bodies[number], bodies[number].joint
    if variable.kind == ACCELERATION:
        return tuple(f"{what} of link {body.name!r}" for what in _MOVING)
    if variable.kind == WRENCH:
        return tuple(f"{what} across joint {joint.name!r}" for what in _TURNING)
    what = {TORQUE: "torque", JOINT_ACCELERATION: "acceleration"}[variable.kind]
    parts = joint.type.v_names or ("",)
    return tuple(f"{what}{' ' if part else ''}{part} of joint {joint.name!r}" for part in parts)


def _of_constraint(robot, number, dim):
    assert robot.constrained
    name = robot.constraints[number].name
    return tuple(f"force {k} of constraint {name!r}" for k in range(1, dim + 1))
