"""Whether sensors determine the motion, before solving (paper 4, sec. III-B), and which sensor would help.

Directions that are open at generic states are open at every state; at one pose more may be open. The
structural rank depends on the pattern of zeros only; it is an upper bound that needs no numbers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.algorithms.first_positions import generic_positions
from dynamics_node.display import with_field_repr
from dynamics_node.graph.factor_graph import dense_system
from dynamics_node.graph.sensor_factors import sensor_factor
from dynamics_node.graph.sensor_fusion import Space, determined_by, repeated, space, stacked, unobservable
from dynamics_node.graph.sensor_system import (
    Reduced,
    SensorSystem,
    factor_rows,
    reduced,
    sensor_system,
    site_of,
)
from dynamics_node.robot import Robot, SensorProblem
from dynamics_node.robot.sensors import (
    Accelerometer,
    AngularAcceleration,
    ExternalWrench,
    ForceTorque,
    JointAcceleration,
    JointTorque,
    Sensor,
)
from dynamics_node.robot.wrong_calls import explains_wrong_calls
from dynamics_node.text import listed

ZERO_ENTRY = 1e-12


def candidates(robot, problem: SensorProblem) -> Iterator[Sensor]:
    """Possible additional sensors: a row of a wrench at a contact, torque or acceleration of a joint, an
    accelerometer, angular accelerations, a force/torque sensor, at every place. Their noise has no
    meaning."""
    for contact in (c for c in problem.contacts if robot.frame(c.link).body >= 0):
        for row in contact.rows:
            name = f"{contact.link} wrench.{row}"
            yield ExternalWrench(
                contact.link, rows=[row], std=1.0, name=name, xyz=contact.xyz, rpy=contact.rpy
            )
    for joint in robot.independent_joints:
        if not joint.type.is_free:
            yield JointTorque(joint.name, std=1.0)
    for body in robot.bodies:
        yield JointAcceleration(body.joint.name, std=1.0)
    for body in robot.bodies:
        yield Accelerometer(body.name, std=1.0)
        yield AngularAcceleration(body.name, std=1.0)
    for body in robot.bodies:
        yield ForceTorque(body.joint.name, measures="parent_to_child", std=1.0)


class Help(NamedTuple):
    """A possible additional sensor.

    Attributes
    ----------
    sensor : Sensor
        The sensor.
    settles : int
        Number of missing equations that it provides.
    """

    sensor: Sensor
    settles: int


@with_field_repr
@dataclass(frozen=True)
class Observability:
    """The rank of a sensor problem: what its sensors determine, and which sensor would help.

    Attributes
    ----------
    rows, unknowns : int
        Size of the linear system.
    structural_rank : int
        Rank by the pattern of zeros, an upper bound.
    rank : int
        Rank at generic states.
    unobservable : tuple of str
        Names of quantities that no state determines, external wrenches and accelerations first.
    repeated : tuple of str
        Names of exact sensors that are implied by others.
    degrees_of_freedom : int
        Number of redundant readings: the degrees of freedom of chi-square.
    rank_here : int or None
        Rank at the position; None without a position, like the next two.
    unobservable_here : tuple of str or None
        Names of quantities that are not determined at the position.
    repeated_here : tuple of str or None
        Names of exact sensors that are implied by others at the position.
    help : tuple of Help
        Single sensors that make most of the open directions observable, those with the fewest readings first.
        Each is a pair of `sensor` and `settles`, the number of missing equations that it provides. The
        directions are those at the position, if there is one.

    References
    ----------
    Nori, "Inverse, forward and other dynamic computations computationally optimized with sparse matrix
    factorizations", sec. III-B.

    Examples
    --------
    >>> sensors = [dn.sensors.JointTorque(joint, std=0.5) for joint in robot.joint_names[:-1]]
    >>> result = dn.observability(robot, dn.sensor_problem(robot, sensors))
    >>> result.rank, result.unknowns
    (97, 98)
    >>> result.observable, result.help[0].sensor.name
    (False, 'panda_joint7 torque')
    """

    rows: int
    unknowns: int
    structural_rank: int
    rank: int
    unobservable: tuple[str, ...]
    repeated: tuple[str, ...]
    degrees_of_freedom: int
    rank_here: int | None = None
    unobservable_here: tuple[str, ...] | None = None
    repeated_here: tuple[str, ...] | None = None
    help: tuple[Help, ...] = ()

    @property
    def observable(self) -> bool:
        """Whether everything is determined, and no exact sensor is implied by others.

        This holds at generic states, and at the position if there is one.
        """
        return not (self.unobservable or self.repeated or self.unobservable_here or self.repeated_here)

    def __str__(self):
        size = f"{self.rows} equations of rank {self.rank} for {self.unknowns} unknowns"
        parts = [f"{'observable' if self.observable else 'not observable'}: {size}"]
        if self.rank_here is not None and self.rank_here != self.rank:
            parts.append(f"of rank {self.rank_here} at this position")
        if self.unobservable:
            parts.append(f"not determined at any state: {listed(self.unobservable, 12)}")
        elif self.unobservable_here:
            parts.append(f"not determined at this position: {listed(self.unobservable_here, 12)}")
        if self.repeated or self.repeated_here:
            again = self.repeated or self.repeated_here
            parts.append(f"exact, but implied by others: {listed(again, 12)}; give them a std")
        if self.help:
            missing = self.unknowns - (self.rank if self.rank_here is None else self.rank_here)
            settles = self.help[0].settles
            names = listed(help.sensor.name for help in self.help)
            part = "the motion" if settles == missing else f"{settles} of {missing} missing directions"
            parts.append(f"one more sensor makes {part} observable: {names}")
        return "; ".join(parts)


@explains_wrong_calls
def observability(robot: Robot, problem: SensorProblem, q: ArrayLike | None = None) -> Observability:
    """Check before solving whether sensors determine the motion.

    Parameters
    ----------
    robot : Robot
        The robot.
    problem : SensorProblem
        Its sensors, see `sensor_problem`.
    q : array_like (nq,), optional
        A position, rad or m, closed if there are loops. The rank may be lower there than at generic states.

    Returns
    -------
    Observability
        The rank, the undetermined quantities, and sensors that would determine them.

    References
    ----------
    Nori, "Inverse, forward and other dynamic computations computationally optimized with sparse matrix
    factorizations", sec. III-B.

    Examples
    --------
    >>> sensors = [dn.sensors.JointTorque(joint, std=0.5) for joint in robot.joint_names]
    >>> print(dn.observability(robot, dn.sensor_problem(robot, sensors)))
    observable: 98 equations of rank 98 for 98 unknowns
    """
    generic = [_At(robot, problem, q_k) for q_k in generic_positions(robot)]
    best = max(generic, key=lambda at: at.rank)
    here = None if q is None else _At(robot, problem, np.asarray(q, dtype=float))
    noisy = sum(factor.rows for factor in best.system.noisy)
    return Observability(
        rows=sum(factor.rows for factor in (*best.system.exact, *best.system.noisy)),
        unknowns=best.unknowns,
        structural_rank=_structural_rank(generic),
        rank=best.rank,
        unobservable=best.unobservable,
        repeated=best.repeated,
        degrees_of_freedom=noisy - (best.space.rank - best.space.exact_rank),
        rank_here=None if here is None else here.rank,
        unobservable_here=None if here is None else here.unobservable,
        repeated_here=None if here is None else here.repeated,
        help=(here or best).help(),
    )


class _At:
    """A problem at one position: velocities do not change coefficients."""

    def __init__(self, robot, problem, q):
        self._robot, self._problem, self._q = robot, problem, q
        still, nothing = np.zeros(robot.nv), np.zeros(len(problem.readings))
        self.system: SensorSystem = sensor_system(robot, problem, q, still, nothing)
        self.few: Reduced = reduced(self.system)
        self._exact, _ = stacked(self.few.exact, None, self.few.size)
        self._noisy, _ = stacked(self.few.noisy, None, self.few.size)
        self.space: Space = space(self._exact, self._noisy)

    @property
    def unknowns(self):
        return sum(x.dim for x in self.few.values)

    @property
    def rank(self):
        """The rank of all rows: variables with an equation of their own count in full."""
        return self.unknowns - self.few.size + self.space.rank

    @property
    def unobservable(self):
        return unobservable(self._robot, self._problem, self.few, self.space)

    @property
    def repeated(self):
        return repeated(self.system, self.few, self.space)

    def help(self) -> tuple[Help, ...]:
        """The sensors that settle most open directions."""
        if not self.space.open.size:
            return ()
        site = site_of(self._robot, self._problem, self._q, np.zeros(self._robot.tree.nv))
        ranked = []
        for sensor in candidates(self._robot, self._problem):
            factor = sensor_factor(site, sensor, np.zeros(1))
            if factor.blocks:
                A, _ = factor_rows(factor, self.few.values)
                ranked.append((Help(sensor, determined_by(A, self.space)), len(A)))
        most = max((help.settles for help, _ in ranked), default=0)
        chosen = sorted((pair for pair in ranked if pair[0].settles == most > 0), key=lambda pair: pair[1])
        return tuple(help for help, _ in chosen)


def _structural_rank(states) -> int:
    """The structural rank of the entries that are nonzero at some of the states."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import structural_rank

    variables = states[0].system.variables
    dense = [dense_system((*at.system.exact, *at.system.noisy), variables)[0] for at in states]
    size = np.abs(dense).max(axis=0)
    return int(structural_rank(csr_array(size > ZERO_ENTRY * size.max(axis=1, initial=0.0, keepdims=True))))
