"""Do two descriptions describe the same robot? Joints, limits, frames, masses; then what torques show."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.regressors import NAMES, PER_BODY, inertial_parameters
from dynamics_node.errors import InputError
from dynamics_node.functions import evaluate, random_configuration
from dynamics_node.functions.checks import positive
from dynamics_node.identification.base_parameters import base_parameters
from dynamics_node.identification.regressor_model import RegressorModel
from dynamics_node.robot import Robot
from dynamics_node.robot.wrong_calls import explains_wrong_calls
from dynamics_node.symbolic import log3, transform_origin, transform_rotation
from dynamics_node.text import listed

STATES = 300
SPEED = 2.0  # rad/s or m/s, and their rates: of joints without a limit
MOVED = 1e-6  # m and rad: smaller differences of frames are rounding of files
LIMITS = ("lower", "upper", "velocity", "effort")
NUMBERS = ("damping", "friction", "spring", "torque_offset", "armature")


class NumberDifference(NamedTuple):
    """One number of both robots. what: `limit`, `mass`, ...; of: the joint or link; unit: SI."""

    what: str
    of: str
    first: float
    second: float
    unit: str


class TorqueDifference(NamedTuple):
    """The largest difference of a torque, N m or N: its joint, the torques of both, and the state. link,
    parameter: whose difference contributes most; the link is a joint or motor if it is that of the armature.
    Both are "" if frames differ, which explains it: see `placements`."""

    joint: str
    first: float
    second: float
    q: np.ndarray
    qd: np.ndarray
    qdd: np.ndarray
    link: str = ""
    parameter: str = ""


@dataclass(frozen=True)
class RobotComparison:
    """Two descriptions, compared: the result of `compare`.

    Attributes
    ----------
    joints : tuple of str
        Velocity coordinates of the first robot, in the order of `torques`.
    only_first, only_second : tuple of str
        Joints that only one robot has. If there are any, dynamics are not compared.
    kinds : tuple of str
        Joints of different kinds.
    numbers : tuple of NumberDifference
        Limits, masses of bodies, and numbers of joints that differ.
    placements : tuple of NumberDifference
        Joints with another axis or place on their parent: by how much they differ, rad or m. `first` is 0.
    frames : dict of str to tuple of float
        Largest distance, m, and angle, rad, between the frames of a link in both robots.
    base_parameters : tuple of NumberDifference
        Base parameters that differ: the combinations of inertial parameters that torques determine. Empty if
        frames differ.
    torques : ndarray (nv,)
        Largest difference of every torque, N m or N.
    sizes : ndarray (nv,)
        Largest torque of the first robot at the same states.
    worst : TorqueDifference or None
        The largest difference relative to `sizes`.
    tolerance : float
        Differences relative to `sizes` that count as none.

    Examples
    --------
    >>> heavier = dn.with_payload(robot, "panda_link7", 0.1, [0, 0, 0.05], np.zeros((3, 3)))
    >>> comparison = dn.compare(robot, heavier)
    >>> comparison.is_same, comparison.worst.link, comparison.worst.parameter
    (False, 'panda_link7', 'm')
    """

    joints: tuple[str, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    kinds: tuple[str, ...]
    numbers: tuple[NumberDifference, ...]
    placements: tuple[NumberDifference, ...]
    frames: dict[str, tuple[float, float]]
    base_parameters: tuple[NumberDifference, ...]
    torques: np.ndarray
    sizes: np.ndarray
    worst: TorqueDifference | None
    tolerance: float

    @property
    def is_comparable(self) -> bool:
        """Whether both have the same joints."""
        return not (self.only_first or self.only_second or self.kinds)

    @property
    def is_same(self) -> bool:
        """Whether torques agree within the tolerance; limits and friction may differ."""
        return self.is_comparable and bool(
            np.all(self.torques <= self.tolerance * np.maximum(self.sizes, 1e-9))
        )

    def lines(self) -> list[str]:
        """Return the comparison in words.

        Returns
        -------
        list of str
            Sentences, the verdict first.
        """
        lines = [self._verdict()]
        for names, whose in ((self.only_first, "first"), (self.only_second, "second")):
            if names:
                lines.append(f"only the {whose} has {listed(names, 10)}")
        if self.kinds:
            lines.append(f"of another kind: {listed(self.kinds, 10)}")
        if self.is_comparable and not self.is_same and self.worst is not None:
            lines.append(f"this is at q = {np.round(self.worst.q, 4).tolist()}")
        lines += [f"{one.what} of {one.of} by {one.second:.3g} {one.unit}" for one in self.placements]
        if moved := [f"{link} by {d:.3g} m, {a:.3g} rad" for link, (d, a) in self.frames.items()]:
            lines.append(f"frames differ: {listed(moved, 8)}")
        if self.base_parameters:
            combinations = listed((one.of for one in self.base_parameters), 4)
            lines.append(f"{len(self.base_parameters)} base parameters differ: {combinations}")
        lines += [
            f"{one.what} of {one.of}: {one.first:.9g} and {one.second:.9g} {one.unit}".rstrip()
            for one in self.numbers
        ]
        return lines

    def _verdict(self):
        if not self.is_comparable:
            return "not comparable: their joints differ"
        if self.is_same or self.worst is None:
            return f"the same torques, within {self.tolerance:g} of the largest of every joint"
        worst = self.worst
        cause = f", most of it by {worst.parameter} of {worst.link}" if worst.link else ""
        if self.placements:
            cause = f", since the {self.placements[0].what} of {self.placements[0].of} differs"
        gap = worst.second - worst.first
        return f"torques differ: {worst.joint} by {gap:.4g}, it is {worst.first:.4g} in the first{cause}"


@explains_wrong_calls
def compare(
    first: Robot, second: Robot, *, names: Mapping[str, str] | None = None, tolerance: float = 1e-4
) -> RobotComparison:
    """Compare two robots: descriptions of one robot by different files, or before and after a change.

    States are random, and the same in every call. Positions are within the limits of the first robot,
    velocities and accelerations up to 2 rad/s and 2 rad/s^2.

    Parameters
    ----------
    first, second : Robot
        The robots.
    names : mapping of str to str, optional
        Joints and links of the second robot, and what the first one calls them.
    tolerance : float
        Difference of a torque, relative to the largest one of its joint, that counts as none.

    Returns
    -------
    RobotComparison

    Raises
    ------
    InputError
        For a tolerance that is not positive, or `names` that the robots lack.

    Examples
    --------
    >>> heavier = dn.with_payload(robot, "panda_link7", 0.1, [0, 0, 0.05], np.zeros((3, 3)))
    >>> dn.compare(robot, heavier).lines()[-1]
    'mass of panda_link7: 1.495522 and 1.595522 kg'
    """
    positive("tolerance", tolerance)
    if names is not None and not isinstance(names, Mapping):
        raise InputError(f"names must be a mapping of names of the second robot, not {names!r}")
    pair = _Pair(first, second, dict(names or {}))
    empty = np.zeros(0)
    common = (first.v_names, pair.only_first, pair.only_second, pair.kinds)
    if any(common[1:]):
        return RobotComparison(*common, (), (), {}, (), empty, empty, None, tolerance)
    states = _states(first)
    torques, others = pair.torques(*states)
    gaps, sizes = np.abs(torques - others), np.abs(torques).max(axis=0)
    gaps[np.isnan(gaps)] = np.inf  # a loop that only one of them closes
    frames, largest = pair.frames(states[0]), gaps.max(axis=0, initial=0.0)
    worst = _worst(pair, states, torques, others, sizes, bool(frames)) if first.nv else None
    base = () if frames else pair.base_parameters(tolerance)
    placements = pair.placements() if frames else ()
    return RobotComparison(
        *common, pair.numbers(), placements, frames, base, largest, sizes, worst, tolerance
    )


def _states(robot):
    """q, qd, qdd (STATES, ...), always the same."""
    random = np.random.default_rng(0)
    q = random_configuration(robot, STATES, random=random)
    speed = np.where(np.isfinite(robot.velocity_limits), robot.velocity_limits, SPEED)
    qd = random.uniform(-1, 1, (STATES, robot.nv)) * np.minimum(speed, SPEED)
    return q, qd, random.uniform(-SPEED, SPEED, (STATES, robot.nv))


class _Pair:
    """Two robots whose joints and links have the names of the first."""

    def __init__(self, first, second, names):
        joints = [{body.joint.name: body.joint for body in robot.bodies} for robot in (first, second)]
        if unknown := [name for name in names if name not in {*second.frames, *joints[1]}]:
            raise InputError(f"names: the second robot has no joint or link {listed(unknown)}")
        self.first, self.second, self._names = first, second, names
        ours, theirs = joints[0], {self._named(name): joint for name, joint in joints[1].items()}
        self.only_first = tuple(name for name in ours if name not in theirs)
        self.only_second = tuple(name for name in theirs if name not in ours)
        self.joints = [(name, ours[name], theirs[name]) for name in ours if name in theirs]
        self.kinds = tuple(name for name, a, b in self.joints if _kind(a) != _kind(b))

    def _named(self, name):
        """The name in the first robot of a joint, link or coordinate (`base.qx`) of the second one."""
        joint, dot, part = name.rpartition(".")
        return f"{self._names[joint]}.{part}" if dot and joint in self._names else self._names.get(name, name)

    def moved(self, array, names_of):
        """An array (..., n) over coordinates of the first robot, in the order of the second."""
        theirs, ours = ([*map(self._named, names_of(self.second))], list(names_of(self.first)))
        return array[..., [ours.index(name) for name in theirs]]

    def torques(self, q, qd, qdd):
        """tau (..., nv) of both, in the order of the first."""
        state = self.moved(q, _q), self.moved(qd, _v), self.moved(qdd, _v)
        order = np.argsort(self.moved(np.arange(self.first.nv), _v))
        tau = evaluate(self.first, "inverse_dynamics", q, qd, qdd, errors="nan", backend="numpy")
        other = evaluate(self.second, "inverse_dynamics", *state, errors="nan", backend="numpy")
        return tau, other[..., order]

    def frames(self, q):
        """{link: (distance, angle)} of the links that both have and that differ, at q (count, nq)."""
        theirs = {self._named(link): link for link in self.second.frames}
        links = [link for link in self.first.frames if link in theirs]
        if not links:
            return {}
        R, p = evaluate(self.first, "frame_poses", q, links=links, backend="numpy")
        others = [theirs[link] for link in links]
        S, s = evaluate(self.second, "frame_poses", self.moved(q, _q), links=others, backend="numpy")
        distance = np.linalg.norm(p - s, axis=-1).max(axis=0)
        cosine = 0.5 * (np.einsum("...ij,...ij->...", R, S) - 1.0)
        angle = np.arccos(np.clip(cosine, -1.0, 1.0)).max(axis=0)
        angle[angle < 1e-7] = 0.0  # rounding of the cosine
        found = zip(links, distance.tolist(), angle.tolist(), strict=True)
        return {
            link: (d if d > MOVED else 0.0, a if a > MOVED else 0.0)
            for link, d, a in found
            if d > MOVED or a > MOVED
        }

    def placements(self):
        """The differences of axes and places of joints, in the frames of links."""
        theirs = {self._named(body.joint.name): body for body in self.second.bodies}
        found = []
        for body in self.first.bodies:
            name, other = body.joint.name, theirs[body.joint.name]
            moved = np.linalg.norm(transform_origin(body.X_tree) - transform_origin(other.X_tree))
            turn = transform_rotation(body.X_tree) @ transform_rotation(other.X_tree).T
            turned, axes = np.linalg.norm(log3(turn)), (body.joint.axis, other.joint.axis)
            tilted = np.arctan2(np.linalg.norm(np.cross(*axes)), np.dot(*axes))
            parts = (("origin", moved, "m"), ("orientation", turned, "rad"), ("axis", tilted, "rad"))
            found += [
                NumberDifference(what, name, 0.0, float(size), unit)
                for what, size, unit in parts
                if size > MOVED
            ]
        return tuple(found)

    def numbers(self):
        """The differences of limits, masses and numbers of joints."""
        found = []
        for name, a, b in self.joints:
            pairs = [(f"{what} limit", getattr(a.limits, what), getattr(b.limits, what)) for what in LIMITS]
            pairs += [(what, getattr(a, what), getattr(b, what)) for what in NUMBERS]
            found += [NumberDifference(what, name, x, y, "") for what, x, y in pairs if not _close(x, y)]
        found += [
            NumberDifference("rotor", name, x, y, "kg m^2")
            for name, (x, y) in self._coupled_rotors().items()
            if not _close(x, y)
        ]
        for body, m, n in self._masses():
            if not _close(m, n):
                found.append(NumberDifference("mass", body, m, n, "kg"))
        return tuple(found)

    def _coupled_rotors(self):
        """{motor: rotor inertias of both} of the motors that move several joints."""
        ours, theirs = (
            {self._named(own.name) if k else own.name: own.armature for own in robot.actuators if own.coupled}
            for k, robot in enumerate((self.first, self.second))
        )
        return {name: (ours.get(name, 0.0), theirs.get(name, 0.0)) for name in ours | theirs}

    def _masses(self):
        theirs = {self._named(body.joint.name): body.inertia[5, 5] for body in self.second.bodies}
        return [
            (body.name, float(body.inertia[5, 5]), float(theirs[body.joint.name]))
            for body in self.first.bodies
        ]

    def base_parameters(self, tolerance):
        """The differences of base parameters, relative to the largest contribution to each."""
        base = base_parameters(RegressorModel(self.first, ("inertia",), backend="numpy"))
        ours, theirs = self._inertial_parameters()
        scale = np.abs(base.combinations) @ np.maximum(np.abs(ours), np.abs(theirs))
        values = base.values(ours), base.values(theirs)
        differ = np.abs(values[0] - values[1]) > tolerance * scale
        rows = zip(base.expressions, *values, differ, strict=True)
        return tuple(
            NumberDifference("base parameter", name, float(x), float(y), "") for name, x, y, d in rows if d
        )

    def _inertial_parameters(self):
        """(10 nbodies,) of both, in the order of the first."""
        theirs = {self._named(body.joint.name): k for k, body in enumerate(self.second.bodies)}
        order = [theirs[body.joint.name] for body in self.first.bodies]
        ours = inertial_parameters(self.first.tree.inertias)
        return ours.ravel(), inertial_parameters(self.second.tree.inertias)[order].ravel()

    def shares(self, q, qd, qdd, joint):
        """(nbodies, 10): what the inertial parameters of every body contribute to the difference of a torque,
        by number, at one state; in the order of the first robot."""
        state = self.moved(q, _q), self.moved(qd, _v), self.moved(qdd, _v)
        other = int(self.moved(np.arange(self.first.nv), _v).tolist().index(joint))
        ours = evaluate(self.first, "joint_torque_regressor", q, qd, qdd, backend="numpy")[joint]
        theirs = evaluate(self.second, "joint_torque_regressor", *state, backend="numpy")[other]
        order = [self._named(body.joint.name) for body in self.second.bodies]
        order = [order.index(body.joint.name) for body in self.first.bodies]
        parts = theirs.reshape(-1, PER_BODY) * inertial_parameters(self.second.tree.inertias)
        return parts[order] - ours.reshape(-1, PER_BODY) * inertial_parameters(self.first.tree.inertias)

    def rotor_shares(self, q, qd, qdd, joint):
        """{joint or motor: what its rotor contributes to the difference of a torque} at one state."""
        state = self.moved(q, _q), self.moved(qd, _v), self.moved(qdd, _v)
        other = int(self.moved(np.arange(self.first.nv), _v).tolist().index(joint))
        shares: dict[str, float] = {}
        for robot, at, v, sign in ((self.first, (q, qd, qdd), joint, -1.0), (self.second, state, other, 1.0)):
            parts = evaluate(robot, "joint_regressor", *at, backend="numpy").rotor[v] * robot.tree.armature
            names = [*robot.tree.v_names, *(own.name for own in robot.tree.shared_joints)]
            for name, part in zip(names, parts.tolist(), strict=True):
                name = self._named(name) if sign > 0 else name
                shares[name] = shares.get(name, 0.0) + sign * part
        return shares


def _q(robot):
    return robot.q_names


def _v(robot):
    return robot.v_names


def _kind(joint):
    return {"continuous": "revolute"}.get(joint.kind, joint.kind)


def _close(x, y):
    return x == y or abs(x - y) <= MOVED * max(abs(x), abs(y))


def _worst(pair, states, torques, others, sizes, frames_differ):
    """The TorqueDifference that is the largest relative to the sizes; None if all are zero."""
    gaps = np.nan_to_num(np.abs(torques - others), nan=0.0) / np.maximum(sizes, 1e-9)
    if not gaps.any():
        return None
    k, joint = (int(n) for n in np.unravel_index(int(np.argmax(gaps)), gaps.shape))
    q, qd, qdd = (array[k] for array in states)
    link = parameter = ""
    if not frames_differ:
        link, parameter = _cause(pair, (q, qd, qdd), joint, np.sign(others[k, joint] - torques[k, joint]))
    first, second = float(torques[k, joint]), float(others[k, joint])
    return TorqueDifference(pair.first.v_names[joint], first, second, q, qd, qdd, link, parameter)


def _cause(pair, state, joint, sign):
    """The link or joint, and its parameter, whose difference contributes most to a torque."""
    shares = pair.shares(*state, joint) * sign
    body, number = np.unravel_index(int(np.argmax(shares)), shares.shape)
    rotors = {name: sign * share for name, share in pair.rotor_shares(*state, joint).items()}
    rotor = max(rotors, key=rotors.__getitem__)
    if rotors[rotor] > shares.max():
        return rotor, "armature"
    return pair.first.bodies[int(body)].name, NAMES[int(number)]
