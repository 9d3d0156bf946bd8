"""The typed variables of the factor graph (paper 1, section II), and their names entry by entry."""

from typing import NamedTuple

from dynamics_node.robot.sensor_problem import SensorProblem

ACCELERATION, WRENCH, TORQUE, JOINT_ACCELERATION = "A", "F", "tau", "qdd"
COUPLING_FORCE, VIRTUAL_VELOCITY, EXTERNAL = "C", "mu", "W"
_TURNING = [f"{what} {axis}" for what in ("moment", "force") for axis in "xyz"]
_MOVING = [f"{what} acceleration {axis}" for what in ("angular", "linear") for axis in "xyz"]


class Variable(NamedTuple):
    """kind: A (spatial acceleration), F (wrench across the joint), tau or qdd; body: its number from 0.

    tau and qdd belong to the body whose joint owns the coordinates. Constraints are numbered on after the
    bodies: F of a loop joint that is cut, C (force of a gear, a belt or the like). mu: see
    `minimum_torque_factors`. W (what the environment does to a link) is numbered as the contacts of a
    sensor problem. Printed as in the paper: A1, F1, ...
    """

    kind: str
    body: int
    dim: int

    def __str__(self):
        return f"{self.kind}{self.body + 1}"

    def __repr__(self):
        return str(self)


def acceleration(body):
    return Variable(ACCELERATION, body, 6)


def wrench(body, dim=6):
    return Variable(WRENCH, body, dim)


def coupling_force(number, dim):
    return Variable(COUPLING_FORCE, number, dim)


def virtual_velocity(dim):
    return Variable(VIRTUAL_VELOCITY, 0, dim)


def torque(body, dim=1):
    return Variable(TORQUE, body, dim)


def joint_acceleration(body, dim=1):
    return Variable(JOINT_ACCELERATION, body, dim)


def external_wrench(number, dim):
    return Variable(EXTERNAL, number, dim)


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
