"""The frozen Robot: moving bodies in topological order, joints, clusters that share constraints,
and a frame for every link."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property, wraps
from operator import attrgetter
from typing import NoReturn, TypeVar

import numpy as np

from dynamics_node.display import html_table, titled
from dynamics_node.errors import UnknownNameError
from dynamics_node.names import no_attribute
from dynamics_node.robot.bodies import Actuator, Body, Frame, Joint
from dynamics_node.robot.constraints import FunctionConstraint, LoopJoint
from dynamics_node.robot.grouping import Cluster, groups_of, tied


@dataclass(frozen=True, eq=False)
class Robot:
    """A tree of bodies, and constraints between its joints that close loops.

    `load_robot` and `parse_robot` make it from a URDF. It does not change: functions such as `with_payload`
    return another Robot.

    Joints are of three kinds. Independent ones have a coordinate in q, qd, qdd and tau. The position of an
    explicit one (mimic, gear, belt) is a linear function of others; it is in none of these vectors. The other
    joints of a closed loop are implicit: in q (..., nq), but not in qd, qdd, tau (..., nv). q has to be
    closed, see `close_loops`. tau is conjugate to qd. Slices of bodies' joints, S and the constants of joints
    are those of the tree, in which implicit joints are independent.

    Attributes
    ----------
    name : str
        Name of the robot in its description.
    base_link : str
        The root link.
    bodies : tuple of Body
        The moving links, each with everything fixed to it. Parents come before their children.
    frames : dict of str to Frame
        Frame of every link, also of links that are fixed to others.
    gravity : ndarray (3,)
        Acceleration of free fall in root axes, m/s^2.
    warnings : tuple of str
        Ignored or implausible parts of the description.
    clusters : tuple of Cluster
        Groups of bodies that share constraints, in the order of their first bodies. An empty tuple stands for
        the clusters of the tree.
    urdf_digest : str
        SHA-256 of the text of its URDF, in hex; empty for a robot without one.
    actuators : tuple of Actuator
        The motors of its transmissions.

    References
    ----------
    Chignoli, Adrian, Kim and Wensing, "Recursive Rigid-Body Dynamics Algorithms for Systems with Kinematic
    Loops", sec. IV: clusters, independent joints.

    Examples
    --------
    >>> robot.nq, robot.nv, robot.nbodies
    (7, 7, 7)
    >>> robot.q_names[:2]
    ('panda_joint1', 'panda_joint2')
    >>> robot.effort_limits
    array([87., 87., 87., 87., 12., 12., 12.])
    >>> [body.name for body in robot.bodies if body.mass > 3.0]
    ['panda_link1', 'panda_link3', 'panda_link4']
    """

    name: str
    base_link: str
    bodies: tuple[Body, ...]
    frames: dict[str, Frame]
    gravity: np.ndarray
    warnings: tuple[str, ...] = ()
    clusters: tuple[Cluster, ...] = ()
    urdf_digest: str = ""
    actuators: tuple[Actuator, ...] = ()

    def __post_init__(self):
        if not self.clusters:
            object.__setattr__(self, "clusters", tuple(tied(self, group) for group in groups_of(self)))

    def __getattr__(self, name) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise no_attribute("a Robot", name, (own for own in dir(type(self)) if not own.startswith("_")))

    def __repr__(self):
        explicit = [
            f"{j.name} follows {', '.join(j.masters.names)}" for j in self.explicit_joints if j.masters
        ]
        joints = [joint.name for joint in self.independent_joints]
        if self.floating_base:
            joints[0] = "floating base"
        return titled(
            f"Robot {self.name!r}: {self.nbodies} bodies, nq {self.nq}, nv {self.nv}",
            root=f"{self.base_link}, {'floating' if self.floating_base else 'fixed'}",
            joints=joints,
            explicit=explicit or None,
            implicit=[name for name in self.tree.v_names if name not in self.v_names] or None,
            loops=[constraint.name for constraint in self.constraints] or None,
            coupled=[joint.name for joint in self.shared_joints if joint in self.actuators] or None,
            mass=f"{self.mass:.4g} kg, moving",
            gravity=self.gravity,
            warnings=self.warnings or None,
        )

    def _repr_html_(self):
        """A table of bodies and joints, for notebooks."""
        rows = []
        for body in self.bodies:
            joint = body.joint
            limits = (joint.limits.lower, joint.limits.upper, joint.limits.velocity, joint.limits.effort)
            cells = ["" if limit is None else f"{limit:g}" for limit in limits]
            rows.append((joint.name, joint.kind, body.name, f"{body.mass:.4g}", *cells))
        head = ("joint", "type", "body", "mass kg", "lower", "upper", "velocity", "effort")
        return html_table(head, rows, repr(self).partition("\n")[0])

    def __getstate__(self):
        """The state without cached facts, see `cached_on_robot`."""
        return {field.name: self.__dict__[field.name] for field in fields(self)}

    @cached_property
    def constraints(self) -> tuple[LoopJoint | FunctionConstraint, ...]:
        """All constraints, cluster by cluster."""
        return tuple(constraint for cluster in self.clusters for constraint in cluster.constraints)

    @property
    def constrained(self) -> bool:
        """Whether the robot has closed loops, and so implicit joints."""
        return bool(self.constraints)

    @cached_property
    def tree(self) -> "Robot":
        """The Robot without constraints, in which implicit joints are independent.

        A robot without constraints is its own tree.
        """
        return replace(self, clusters=()) if self.constrained else self

    def with_tree(self, tree: "Robot") -> "Robot":
        """Return the Robot with another tree of the same geometry.

        Parameters
        ----------
        tree : Robot
            The tree, which differs from that of the robot in inertias, rotor inertias, gravity or names only.

        Returns
        -------
        Robot
            The tree with the constraints of this robot.
        """
        return replace(tree, clusters=self.clusters)

    @cached_property
    def independent(self) -> np.ndarray:
        """Velocity coordinates (nv,) of the tree that determine all others."""
        return np.array(sorted(v for cluster in self.clusters for v in cluster.independent), dtype=int)

    @property
    def nbodies(self) -> int:
        """Number of moving bodies."""
        return len(self.bodies)

    @cached_property
    def nq(self) -> int:
        """Number of positions in q: those of independent and implicit joints."""
        return max((body.joint.q.stop for body in self.bodies), default=0)

    @property
    def nv(self) -> int:
        """Number of velocities in qd: those of independent joints."""
        return len(self.independent)

    @cached_property
    def _nv_of_tree(self):
        return max((body.joint.v.stop for body in self.bodies), default=0)

    @cached_property
    def parents(self) -> tuple[int, ...]:
        """Index of the parent of every body; -1 for the root."""
        return tuple(body.parent for body in self.bodies)

    @cached_property
    def _joints_of_tree(self):
        joints = (body.joint for body in self.bodies if body.joint.masters is None)
        return tuple(sorted(joints, key=lambda joint: joint.v.start))

    @cached_property
    def independent_joints(self) -> tuple[Joint, ...]:
        """Joints that own independent coordinates, in the order of these; `v` of each is its slice of qd."""
        at = {v: k for k, v in enumerate(self.independent.tolist())}
        owners = []
        for joint in self._joints_of_tree:
            places = [at[v] for v in range(joint.v.start, joint.v.stop) if v in at]
            if places:
                v = slice(places[0], places[-1] + 1)
                owners.append(joint if joint.v == v else replace(joint, v=v))
        return tuple(owners)

    @cached_property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the independent joints with one coordinate, as in a JointState message."""
        return tuple(j.name for j in self.independent_joints if j.type.is_scalar)

    @cached_property
    def quaternion_places(self) -> tuple[int, ...]:
        """Indices in q at which quaternions begin."""
        return tuple(at.start for _, at in self.quaternions)

    @property
    def floating_base(self) -> bool:
        """Whether the joint of the first body is floating."""
        return bool(self.bodies) and self.bodies[0].joint.type.is_free

    @cached_property
    def q_names(self) -> tuple[str, ...]:
        """Names of the entries of q: joints, and coordinates of joints with several."""
        return _coordinate_names((joint.name, joint.type.q_names) for joint in self._joints_of_tree)

    @cached_property
    def v_names(self) -> tuple[str, ...]:
        """Names of the entries of qd, qdd and tau: joints, and coordinates of joints with several."""
        names = _coordinate_names((joint.name, joint.type.v_names) for joint in self._joints_of_tree)
        return tuple(names[v] for v in self.independent)

    @cached_property
    def torque_units(self) -> tuple[str, ...]:
        """Units of the entries of tau: N m of coordinates that turn, N of others."""
        return tuple(unit for joint in self.independent_joints for unit in joint.torque_units)

    @cached_property
    def inertias(self) -> np.ndarray:
        """Spatial inertias (nbodies, 6, 6) about the origins of the body frames, angular part first."""
        return np.array([body.inertia for body in self.bodies]).reshape(-1, 6, 6)

    @cached_property
    def masses(self) -> np.ndarray:
        """Masses (nbodies,) of the moving bodies, each with everything fixed to it, kg.

        Links that are fixed to the root have no part in them.
        """
        return self.inertias[:, 5, 5].copy()

    @property
    def mass(self) -> float:
        """The sum of `masses`, kg."""
        return float(self.masses.sum())

    @cached_property
    def scalar_motions(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Bodies that move by one coordinate (n,), its index in v (n,), and their S (n, 6)."""
        moved = [
            (i, b.joint.v.start, b.joint.S[:, 0])
            for i, b in enumerate(self.bodies)
            if b.joint.S.shape[1] == 1
        ]
        bodies, places, S = zip(*moved, strict=True) if moved else ((), (), ())
        return np.array(bodies, dtype=int), np.array(places, dtype=int), np.array(S).reshape(-1, 6)

    @cached_property
    def vector_motions(self) -> tuple[tuple[int, slice, np.ndarray], ...]:
        """Index of the body, slice of v, and S of every joint with several velocities."""
        bodies = enumerate(self.bodies)
        return tuple((i, b.joint.v, b.joint.S) for i, b in bodies if b.joint.S.shape[1] > 1)

    @cached_property
    def quaternions(self) -> tuple[tuple[str, slice], ...]:
        """Name of the joint and slice of q of every unit quaternion x y z w."""
        quaternions = []
        for joint in self._joints_of_tree:
            if joint.type.quaternion is not None:
                start = joint.q.start + joint.type.quaternion
                quaternions.append((joint.name, slice(start, start + 4)))
        return tuple(quaternions)

    @cached_property
    def explicit_joints(self) -> tuple[Joint, ...]:
        """Joints whose position follows from others by a mimic, gear or belt, in the order of bodies."""
        return tuple(body.joint for body in self.bodies if body.joint.masters is not None)

    @cached_property
    def joint_map(self) -> np.ndarray:
        """Map (n, nv of the tree) from the tree's velocity coordinates to the velocities of all joints.

        Its rows are all coordinates of the joints, in the order of bodies, then the actuators; see
        `joint_map_names`.
        """
        joints = (*(body.joint for body in self.bodies), *self.actuators)
        rates = [joint.rate(np.eye(self._nv_of_tree)).T for joint in joints]
        return np.concatenate([np.zeros((0, self._nv_of_tree)), *rates])

    @cached_property
    def shared_joints(self) -> tuple[Joint, ...]:
        """Explicit joints with several masters, then coupled actuators; their rotors and friction act between
        these."""
        several = (joint for joint in self.explicit_joints if joint.masters and len(joint.masters.names) > 1)
        return (*several, *(actuator for actuator in self.actuators if actuator.coupled))

    @cached_property
    def axle_map(self) -> np.ndarray:
        """Map (axles, nv of the tree) from the tree's velocity coordinates to the rates of axles.

        Rotors, friction and springs act at axles: the coordinates of the tree, then the shared joints.
        """
        unit = np.eye(self._nv_of_tree)
        return np.concatenate([unit, *(joint.rate(unit).T for joint in self.shared_joints)])

    @cached_property
    def joint_map_names(self) -> tuple[str, ...]:
        """Names of the rows of `joint_map`."""
        joints = (*(body.joint for body in self.bodies), *self.actuators)
        return _coordinate_names((joint.name, joint.type.v_names) for joint in joints)

    @cached_property
    def armature(self) -> np.ndarray:
        """Rotor inertias (axles,), kg m^2 or kg, see `axle_map`.

        The rotor of an explicit joint with one master counts at the master.
        """
        return self._squared("armature")

    @cached_property
    def damping(self) -> np.ndarray:
        """Viscous coefficients (axles,), N m s/rad or N s/m, see `axle_map`."""
        return self._squared("damping")

    @cached_property
    def friction(self) -> np.ndarray:
        """Coulomb friction (axles,), N m or N, see `axle_map`."""
        return self._of_axles(attrgetter("friction"), abs)

    @cached_property
    def creep(self) -> np.ndarray:
        """Friction (axles,) that acts as creep tanh(rate / 0.1), with the rate in rad/s or m/s, N m or N."""
        return self._of_axles(attrgetter("creep"), abs)

    @cached_property
    def springs(self) -> np.ndarray:
        """Stiffnesses (axles,) of springs at rest at position 0, N m/rad or N/m, see `axle_map`."""
        return self._squared("spring")

    @cached_property
    def torque_offsets(self) -> np.ndarray:
        """Constant torques (axles,) at position 0, N m or N, see `axle_map`."""
        return self._of_axles(
            lambda joint: joint.torque_offset + joint.spring * joint.offset, lambda weight: weight
        )

    @cached_property
    def lower_position_limits(self) -> np.ndarray:
        """Lower limits (nq,) of positions, rad or m.

        They are -infinite where the description has none, and for quaternions. Limits of explicit joints are
        in `robot.bodies`.
        """
        return self._position_limits("lower", -np.inf)

    @cached_property
    def upper_position_limits(self) -> np.ndarray:
        """Upper limits (nq,) of positions, rad or m.

        They are infinite where the description has none; see `lower_position_limits`.
        """
        return self._position_limits("upper", np.inf)

    def _position_limits(self, attribute, none):
        limit = np.full(self.nq, none)
        for joint in self._joints_of_tree:
            if joint.type.bounded:
                limit[joint.q] = getattr(joint.limits, attribute) - joint.offset
        return limit

    @cached_property
    def velocity_limits(self) -> np.ndarray:
        """Limits (nv,) of speeds, rad/s or m/s; infinite where the description has none or zero."""
        return self._rate_limits("velocity")

    @cached_property
    def effort_limits(self) -> np.ndarray:
        """Limits (nv,) of torques, N m or N; infinite where the description has none or zero."""
        return self._rate_limits("effort")

    def _rate_limits(self, attribute):
        limit = np.full(self._nv_of_tree, np.inf)
        for joint in self._joints_of_tree:
            limit[joint.v] = getattr(joint.limits, attribute) or np.inf
        return limit[self.independent]

    def _squared(self, attribute):
        return self._of_axles(attrgetter(attribute), lambda weight: weight**2)

    def _of_axles(self, value, share):
        """(axles,): sums of value(joint) share(weight) over the joints at an axle."""
        joints = [body.joint for body in self.bodies]
        joints += [actuator for actuator in self.actuators if actuator.coupled]
        values = [value(joint) for joint in joints]
        total = np.zeros(len(self.axle_map), dtype=np.result_type(np.array(values).dtype, float))
        shared = {id(joint): self._nv_of_tree + k for k, joint in enumerate(self.shared_joints)}
        for joint, number in zip(joints, values, strict=True):
            if joint.masters is None:
                total[joint.v] += number
            elif id(joint) in shared:
                total[shared[id(joint)]] += number
            else:
                total[joint.masters.v[0]] += share(joint.masters.weights[0]) * number
        return total

    @cached_property
    def ancestors(self) -> tuple[tuple[int, ...], ...]:
        """Indices of the bodies from the root to every body, which is the last of them."""
        chains: list[tuple[int, ...]] = []
        for index, parent in enumerate(self.parents):
            chains.append((*(chains[parent] if parent >= 0 else ()), index))
        return tuple(chains)

    def neutral(self) -> np.ndarray:
        """Return the position with every joint at zero, or with its frames coincident.

        Loops may be open there: `first_closed` closes them.

        Returns
        -------
        ndarray (nq,)
            rad or m; quaternions are (0, 0, 0, 1).
        """
        q = np.zeros(self.nq)
        for joint in self._joints_of_tree:
            q[joint.q] = joint.type.neutral
        return q

    def frame(self, name: str) -> Frame:
        """Return the frame of a link.

        Parameters
        ----------
        name : str
            The link, which may be fixed to another one.

        Returns
        -------
        Frame
            Index of the link's body, its transform from the body, and its inertia.

        Raises
        ------
        KeyError
            For an unknown link; the message lists the links.
        """
        try:
            return self.frames[name]
        except (KeyError, TypeError):  # a name that has no hash
            known = ", ".join(sorted(self.frames)[:40])
            raise UnknownNameError(f"unknown link {name!r}; the robot has: {known}") from None


_F = TypeVar("_F", bound=Callable)


def cached_on_robot(function: _F) -> _F:
    """A function (robot, ...) that is computed once for a robot and its other arguments; the result is cached
    with the robot."""

    @wraps(function)
    def of(robot, *more, **options):
        known = robot.__dict__.setdefault("_facts", {})
        at = (function, more, tuple(options.items()))
        if at not in known:
            known[at] = function(robot, *more, **options)
        return known[at]

    return of  # type: ignore[return-value]


def _coordinate_names(joints):
    """joints: (name, suffixes of its coordinates)."""
    return tuple(".".join(filter(None, (name, part))) for name, parts in joints for part in parts or ("",))
