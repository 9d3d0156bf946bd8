"""The functions that trajectory factors need of a robot, with or without loops, on symbols."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dynamics_node.algorithms import rnea
from dynamics_node.algorithms.constraint_rates import velocity_program
from dynamics_node.algorithms.rates import rates_at
from dynamics_node.algorithms.reduced_frames import economical_robot
from dynamics_node.robot import Robot
from dynamics_node.robot.loops.equations import counting_equations, gaps, position_program, turned
from dynamics_node.robot.robot import cached_on_robot
from dynamics_node.symbolic import interpret
from dynamics_node.trajectory.factor import TrajectoryVariable, positions, vector
from dynamics_node.trajectory.passive import PassiveTorques, passive_torques


@dataclass(frozen=True, eq=False, kw_only=True)
class System:
    """The equations of a robot, see `robot_system`: positions q (nq,) change along `directions` (n,), in SI
    units.

    q_names: of the numbers in q; units: {kind: unit of every coordinate}, as in Trajectory. independent,
    dependent: numbers of the directions that determine the others (nv of them), and of the determined ones.
    scalars: {direction: index in q that changes with it alone}.

    Functions of arrays of symbols, without leading axes; constraints are zero when they hold: positions: q ->
    (dependent,), in m, rad or 1; velocities: q, qd (n,) -> (dependent,); accelerations: q, qd, qdd (n,) ->
    (dependent,). turned: q -> (any,), 1 minus a cosine, near zero on the intended branch of assembly; above
    TURNED of loop closure, the constraints hold with an end rotated half a turn. inverse: q, qd, qdd -> tau
    (nv,) conjugate to the independent directions if the constraints hold. Gravity is constant, that of the
    robot. passive: damping, friction, springs and offsets of joints, or None; `inverse` accepts their torques
    (n,) as an optional last argument.
    """

    name: str
    q: TrajectoryVariable
    q_names: tuple[str, ...]
    units: dict[str, tuple[str, ...]]
    independent: tuple[int, ...]
    dependent: tuple[int, ...]
    scalars: dict[int, int]
    positions: Callable
    velocities: Callable
    accelerations: Callable
    turned: Callable
    inverse: Callable
    passive: PassiveTorques | None = None

    @property
    def directions(self):
        return self.q.names

    @property
    def torque_names(self):
        return tuple(self.directions[k] for k in self.independent)

    @cached_property
    def qd(self) -> TrajectoryVariable:
        return vector("qd", self.directions, "qdd")

    @cached_property
    def qdd(self) -> TrajectoryVariable:
        return vector("qdd", self.directions)

    def torque(self, name="tau") -> TrajectoryVariable:
        """A TrajectoryVariable (nv,) conjugate to the independent directions."""
        return vector(name, self.torque_names)


@cached_on_robot
def robot_system(robot: Robot) -> System:
    """The System of a robot. Explicit joints have no direction of their own; implicit ones have."""
    tree = robot.tree
    return System(
        name=robot.name,
        q=positions(tree),
        q_names=robot.q_names,
        units=units_of(robot),
        scalars={j.v.start: j.q.start for j in tree.independent_joints if j.type.is_scalar},
        passive=passive_torques(tree),
        **_functions(economical_robot(robot)[0]),
    )


def units_of(robot) -> dict[str, tuple[str, ...]]:
    """{kind: unit of every coordinate} of a Robot: rad and N m for rotations, m and N for translations, 1 for
    quaternions."""
    positions: list[str] = []
    for joint in robot.tree.independent_joints:
        at = joint.type.quaternion
        turning = ["rad" if at is None else "1"] * joint.type.nq
        positions += ["m" if k in joint.type.lengths else unit for k, unit in enumerate(turning)]
    torques = robot.torque_units
    lengths = ["rad" if unit == "N m" else "m" for unit in torques]
    per = {kind: tuple(f"{one}/{s}" for one in lengths) for kind, s in (("qd", "s"), ("qdd", "s²"))}
    return {"q": tuple(positions), **per, "tau": torques, "external_torque": torques}


# --- functions of factors -----------------------------------------------------------------------------------


def _functions(robot):
    tree = robot.tree
    tied = [cluster for cluster in robot.clusters if cluster.dependent]

    def positions(q):
        return _all(_counting(tree, c, q, gaps(tree, c.constraints, q)) for c in tied)

    def velocities(q, qd):
        return _all(_counting(tree, c, q, _rates(tree, c, q, qd)["K"] @ qd) for c in tied)

    def accelerations(q, qd, qdd):
        equations = [(c, _rates(tree, c, q, qd)) for c in tied]
        return _all(_counting(tree, c, q, values["K"] @ qdd - values["k"]) for c, values in equations)

    def inverse(q, qd, qdd, passive=None):
        tau = rnea(tree, q, qd, qdd)
        rates = rates_at(robot, q, qd[robot.independent])
        return rates.independent(tau if passive is None else tau + passive)

    return {
        "independent": tuple(robot.independent.tolist()),
        "dependent": tuple(v for cluster in tied for v in cluster.dependent),
        "positions": positions,
        "velocities": velocities,
        "accelerations": accelerations,
        "turned": lambda q: turned(tree, robot.constraints, q),
        "inverse": inverse,
    }


def _all(parts):
    return np.concatenate([np.zeros(0, dtype=object), *parts])


def _rates(tree, cluster, q, qd):
    return interpret(velocity_program(tree, cluster.constraints), q=q, qd=qd)


def _counting(tree, cluster, q, values):
    """The independent ones of `values` (rows,), as many as there are dependent joints. If more are
    independent, no choice is regular at every position, but the normal equations are."""
    rows = counting_equations(tree, cluster).rows
    if len(rows) == len(cluster.dependent):
        return values[rows]
    K = interpret(position_program(tree, cluster.constraints), q=q)["K"][rows]
    return K[:, list(cluster.dependent)].T @ values[rows]
