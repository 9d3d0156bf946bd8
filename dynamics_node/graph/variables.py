"""The typed variables of the factor graph (paper 1, section II)."""

from typing import NamedTuple

ACCELERATION, WRENCH, TORQUE, JOINT_ACCELERATION = "A", "F", "tau", "qdd"
COUPLING_FORCE, VIRTUAL_VELOCITY, EXTERNAL = "C", "mu", "W"


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
