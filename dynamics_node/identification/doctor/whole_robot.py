"""The robot as a whole, at random positions within its limits.

Condition of the mass matrix and the link that limits it, gravity torques relative to effort limits, loop
closure, and inertial parameters that affect no torque.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.first_positions import closed_samples
from dynamics_node.algorithms.health import health_program
from dynamics_node.algorithms.regressors import PER_BODY, joint_torque_regressor
from dynamics_node.functions import evaluate
from dynamics_node.robot import Robot
from dynamics_node.robot.state_arrays import sample_positions
from dynamics_node.symbolic import interpret

COUNT = 200  # positions of a tree
CLOSED = 50  # ... of a robot with loops, which are computed iteratively
BADLY = 1e10  # condition of M: above it, accelerations lose ten digits
STIFF = 1e3  # condition of the constraints: above it, a loop is near a singular position


class Condition(NamedTuple):
    """median, worst: condition of M over the positions; link: first link moved by the softest motion at the
    worst position; joint: the coordinate with the largest share of that motion."""

    median: float
    worst: float
    link: str
    joint: str

    @property
    def is_bad(self):
        return not self.worst < BADLY


class EffortMargin(NamedTuple):
    """joint; gravity: largest absolute holding torque over the positions, N m or N; effort: its limit."""

    joint: str
    gravity: float
    effort: float

    @property
    def share(self):
        return self.gravity / self.effort


class Loops(NamedTuple):
    """constraints: names; worst: largest condition of their equations over `closed` closed positions, nan if
    there are none."""

    constraints: tuple[str, ...]
    worst: float
    closed: int

    @property
    def is_bad(self):
        return not self.worst < STIFF


def positions_within(robot):
    """Positions q (n, nq): closed if there are loops; otherwise within the joint limits, or within half a
    turn of zero."""
    random = np.random.default_rng(0)
    if robot.constrained:
        return np.asarray(closed_samples(robot, CLOSED, random))
    q = sample_positions(robot, COUNT, random, np.pi)
    for joint in robot.independent_joints:
        if joint.type.is_scalar:
            low, high = np.clip((joint.limits.lower, joint.limits.upper), -np.pi, np.pi)
            q[:, joint.q] = random.uniform(min(low, high), max(low, high), (len(q), 1))
    return q


def condition_of(robot, q) -> Condition:
    """Condition of M at q (n, nq)."""
    M = evaluate(robot, "mass_matrix", q)
    values, vectors = np.linalg.eigh(M)
    with np.errstate(divide="ignore", invalid="ignore"):
        conditions = np.where(values[:, 0] > 0, values[:, -1] / values[:, 0], np.inf)
    worst = int(conditions.argmax())
    v = int(np.abs(vectors[worst, :, 0]).argmax())
    at = int(robot.independent[v])
    body = next(b for b in robot.tree.bodies if b.joint.v.start <= at < b.joint.v.stop)
    return Condition(float(np.median(conditions)), float(conditions[worst]), body.name, robot.v_names[v])


def margins_of(robot, q) -> list[EffortMargin]:
    """Margins of the joints that have an effort limit and a coordinate of their own, tightest first."""
    rest = np.zeros((len(q), robot.nv))
    torques = np.abs(evaluate(robot, "nonlinear_effects", q, rest)).max(axis=0)
    tree, names = robot.tree, list(robot.v_names)
    limits = {joint.name: joint.limits.effort for joint in tree.independent_joints if joint.type.is_scalar}
    margins = [
        EffortMargin(name, float(torques[names.index(name)]), float(effort))
        for name, effort in limits.items()
        if name in names and 0 < effort < np.inf
    ]
    return sorted(margins, key=lambda margin: -margin.share)


def loops_of(robot, q) -> Loops:
    """Loops of a robot at closed q (n, nq)."""
    names = tuple(sorted(constraint.name for constraint in robot.constraints))
    if not len(q):
        return Loops(names, np.nan, 0)
    health = interpret(health_program(robot), q=q)["health"]
    return Loops(names, float(np.sqrt(np.abs(health[:, 0]).max())), len(q))


PARAMETERS = ("m", "m x", "m y", "m z", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")  # columns of a body
STATES = 20
NOTHING = 1e-9  # fraction of the largest column: smaller ones are zero


def unseen_parameters(robot: Robot):
    """{body: names in PARAMETERS} of those whose column of the torque regressor is zero at random states."""
    random = np.random.default_rng(0)
    q = sample_positions(robot, STATES, random)
    qd, qdd = random.uniform(-1, 1, (2, STATES, robot.nv))
    columns = joint_torque_regressor(robot, q, qd, qdd).reshape(-1, robot.nbodies, PER_BODY)
    sizes, names = np.linalg.norm(columns, axis=0), {}
    for body, size in zip(robot.bodies, sizes, strict=True):
        irrelevant = size <= NOTHING * max(size.max(), 1e-300)
        if irrelevant.any():
            names[body.name] = tuple(name for name, zero in zip(PARAMETERS, irrelevant, strict=True) if zero)
    return names
