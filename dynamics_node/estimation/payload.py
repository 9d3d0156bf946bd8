"""What a link carries: mass, centre of mass and inertia from measured torques, and what motions do not tell.

Torques are linear in the ten parameters of a payload (Atkeson, An, Hollerbach: Estimation of inertial
parameters of manipulator loads and links, IJRR 1986). What they tell decides; what they do not follows a body
near it: a ball of the density of water about the estimated centre of mass.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dynamics_node.algorithms import inertias_of_parameters
from dynamics_node.estimation.payload_sums import LOST, Fitted, PayloadSums, fitted, friction_columns
from dynamics_node.functions import build
from dynamics_node.identification.base_parameters import base_parameters, random_states
from dynamics_node.identification.checks.recording_check import RecordingCheck
from dynamics_node.identification.consistent import consistent_body
from dynamics_node.identification.identify import Chunks, IdentificationError
from dynamics_node.identification.regression import spectrum
from dynamics_node.identification.regressor_model import RegressorModel
from dynamics_node.robot import Robot
from dynamics_node.robot.inertial_parameters import with_payload
from dynamics_node.robot.subtree import central_moments

PRIOR_STD = 3.0  # of the ball, relative: a standard deviation
DENSITY = 1000.0  # kg/m^3
FIRST_RADIUS = 0.1  # m: of the body that counts before mass and centre of mass are known, 1 kg at the origin
STILL = 0.01  # rad or m over which a joint has to move: noise of its position is less
FAINT = 3.0  # standard deviations that a mass must exceed
SIZES = np.array([0.5] + 3 * [0.05] + 6 * [0.01])  # kg, kg m, kg m^2: a deviation beyond tells nothing
ALONE = 0.9  # of a parameter's square, from which on what is not told of it is itself
BROAD = 10.0  # SIZES: standard deviation where nothing is told
NOTHING = 1e-9  # of the largest entry of a regressor: less is rounding
STATES = 20  # random ones, to see which parameters torques depend on
TOGETHER = 0.1  # share of another one that is named
NAMES = (
    "mass",
    *(f"centre of mass along {axis}" for axis in "xyz"),
    *(
        f"{'moment' if a[0] == a[1] else 'product'} of inertia {a}"
        for a in ("xx", "xy", "yy", "xz", "yz", "zz")
    ),
)
GRAVITY = slice(0, 4)  # of the parameters: what weighs
ROWS = 2000  # in memory at a time, as regressors


@dataclass(frozen=True, eq=False)
class Payload:
    """All that a link carries beside its own description.

    parameters (10,): m, m c (3), moments of inertia about the link's origin (xx, xy, yy, xz, yz, zz), in link
    axes, of a body that can be; covariance (10, 10) by least squares, at most BROAD times SIZES squared.
    not_excited: what the motion does not tell, in words. fitted: least squares alone; samples: states that
    count; warnings: what is odd about recordings; described: kg of the links on the same body.
    """

    link: str
    parameters: np.ndarray
    covariance: np.ndarray
    not_excited: tuple[str, ...]
    fitted: Fitted
    samples: int
    warnings: tuple[str, ...] = field(default=())
    described: dict[str, float] = field(default_factory=dict)

    @property
    def mass(self) -> float:
        """kg"""
        return float(self.parameters[0])

    @property
    def com(self) -> np.ndarray:
        """(3,) m, in link axes from the link's origin."""
        return self.parameters[1:4] / self.mass

    @property
    def inertia(self) -> np.ndarray:
        """(3, 3) kg m^2 about the centre of mass, in link axes."""
        return central_moments(inertias_of_parameters(self.parameters))

    @property
    def mass_std(self) -> float:
        return float(np.sqrt(self.covariance[0, 0]))

    @property
    def com_std(self) -> np.ndarray:
        """(3,) m"""
        change = np.column_stack([-self.com, np.eye(3)]) / self.mass
        return np.sqrt(np.diagonal(change @ self.covariance[GRAVITY, GRAVITY] @ change.T))

    @property
    def condition(self) -> float:
        """Of the equations, columns of length one: near 1 is good, infinite where something is not told."""
        return self.fitted.condition

    @property
    def refusal(self) -> str:
        """Why it should not be put into a model, '' if nothing is against it: what weighs must be known; what
        only resists acceleration may be that of the ball."""
        if weighs := [told for told in self.not_excited if told.startswith(NAMES[GRAVITY])]:
            return f"not excited enough: {'; '.join(weighs)}"
        mass = float(self.fitted.x[0])
        if mass < -FAINT * self.mass_std:
            told = f"{-mass:.3g} kg less than described, give or take {self.mass_std:.2g}"
            listed = ", ".join(f"{name} {own:.3g} kg" for name, own in self.described.items()) or "nothing"
            return (
                f"the torques are those of {told}: is everything mounted that is described there ({listed})? "
                "A recording with nothing on the link (tare) takes off what the description has too much"
            )
        if not mass > FAINT * self.mass_std:
            return (
                f"the mass is {mass:.3g} kg, give or take {self.mass_std:.2g}: not significantly above zero"
            )
        return ""

    def on(self, robot) -> Any:
        """The Robot that carries it: see `with_payload`."""
        return with_payload(robot, self.link, self.mass, self.com, self.inertia)


def require_bearing(robot: Robot, link: str):
    """Raise KeyError for an unknown link, ValueError where measured torques do not bear what it carries."""
    if robot.tree.frame(link).body < 0:
        raise ValueError(f"link {link!r} is fixed to the root: no joint bears what it carries")
    if robot.floating_base:
        raise ValueError(
            "what the ground does to a floating base is not measured, so no payload can be told from "
            "it: hold the base and leave floating_base off"
        )


def felt_parameters(robot: Robot, regressor) -> np.ndarray:
    """(10,) bool: which parameters of what a link carries torques depend on in any motion. regressor: of
    joint torques, of that link."""
    found = regressor(*random_states(robot, STATES), errors="nan")  # where loops are singular
    W = np.abs(np.nan_to_num(found)).max(axis=(0, 1), initial=0.0)
    return NOTHING * W.max(initial=0.0) < W


def described_on(robot: Robot, link: str) -> dict[str, float]:
    """{link: kg} of what is described on the body of a link, heaviest first."""
    tree = robot.tree
    body = tree.frame(link).body
    masses = {name: float(own.inertia[5, 5]) for name, own in tree.frames.items() if own.body == body}
    return dict(sorted(((name, mass) for name, mass in masses.items() if mass > 0), key=lambda one: -one[1]))


def payload_of(link, found: Fitted, felt, samples, warnings=(), described=None) -> Payload:
    """What least squares tell, as a body. felt (10,): see `felt_parameters`; described: see
    `described_on`."""
    first = _ball(1.0, np.zeros(3), FIRST_RADIUS)
    for _ in range(2):  # about the origin, then about the centre of mass that this gives
        parameters = consistent_body(found.x, found.information, first, PRIOR_STD)
        mass = parameters[0]
        first = _ball(mass, parameters[1:4] / mass, (0.75 * mass / np.pi / DENSITY) ** (1 / 3))
    covariance, told = _told(found.information, felt)
    return Payload(link, parameters, covariance, told, found, samples, warnings, described or {})


def _ball(mass, com, radius):
    """(10,) of a solid ball."""
    x, y, z = com
    own = 0.4 * mass * radius**2
    moments = [y * y + z * z, -x * y, x * x + z * z, -x * z, -y * z, x * x + y * y]
    return np.array([mass, *(mass * com), *(mass * np.array(moments) + own * np.array([1, 0, 1, 0, 0, 1]))])


def _told(information, felt):
    """Covariance (10, 10), and in words the parameters whose standard deviation is larger than SIZES. felt
    (10,): see `felt_parameters`."""
    values, vectors, _ = spectrum(information, SIZES)
    values[values < LOST * values[-1]] = 0.0
    covariance = (vectors / np.maximum(values, 1.0 / BROAD**2)) @ vectors.T
    weak = vectors[:, values < 1.0]
    lost, open_ = np.flatnonzero(np.diagonal(covariance) > 1.0), weak @ weak.T
    told = []
    for k in lost:
        others = [NAMES[i] for i in lost if i != k and abs(open_[k, i]) > TOGETHER]
        if not felt[k]:
            told.append(f"{NAMES[k]} is not felt: no joint moves against it")
        elif open_[k, k] > ALONE or not others:
            told.append(f"{NAMES[k]} is not excited")
        else:
            told.append(f"{NAMES[k]} is told only together with {', '.join(others)}")
    return covariance * np.outer(SIZES, SIZES), tuple(told)


# --- from recordings with accelerations ---------------------------------------------------------------------


def identify_payload(
    robot: Robot,
    link: str,
    recordings: Iterable[Chunks],
    *,
    tare: Iterable[Chunks] = (),
    friction=True,
    torque_std=None,
    advance: Callable[[int], object] | None = None,
    backend="auto",
    measured: Sequence[str] | None = None,
) -> Payload:
    """What a link carries, from recordings of a robot, with loops or without, on a fixed base.

    recordings: callables that give chunks {q (k, nq), qd, qdd, tau (k, nv), maybe time}, as of `identify`;
    tare: others with nothing on the link, which tell what the model lacks without it; that is taken off, as
    far as payloads could explain it, and friction is that of both. friction: an offset, Coulomb and viscous
    friction of every coordinate are estimated, too, beside those that are described; False takes these as
    they are. torque_std: N m or N, of one torque, a number or (nv,); by default as residuals show it.
    advance(rows): called on the way. measured: names of the coordinates whose torques count, all by default.

    Raises KeyError for an unknown link, ValueError for one that no joint bears and for a floating base,
    IdentificationError where no row can be used.
    """
    require_bearing(robot, link)
    warnings: list[str] = []
    linear = RegressorModel(robot, backend=backend, measured=None if measured is None else tuple(measured))
    rows_of = _Rows(robot, link, backend, linear.counts)
    base = base_parameters(linear)
    empty, sums, samples = PayloadSums(robot.nv), PayloadSums(robot.nv), 0
    for own, chunks in [(empty, one) for one in tare] + [(sums, one) for one in recordings]:
        check = RecordingCheck(linear, base)
        for chunk in chunks():
            chunk = chunk | {"tau": linear.torques(chunk["tau"])}
            check.add(chunk)
            count = rows_of.add(own, chunk)
            samples += count if own is sums else 0
            if advance:
                advance(len(chunk["qd"]))
        which = "tare: " if own is empty else ""
        warnings += [which + told for told in check.warnings()]
    if not samples:
        raise IdentificationError("; ".join(["no row can be used", *warnings]))
    found = fitted(sums, friction, torque_std, empty if empty.count else None, rows_of.moved)
    felt = felt_parameters(robot, rows_of.regressor)
    return payload_of(link, found, felt, samples, tuple(warnings), described_on(robot, link))


class _Rows:
    """What sums get of recordings, by accelerations."""

    def __init__(self, robot, link, backend, counts):
        self._counts = counts
        self._low, self._high = np.full(robot.nq, np.inf), np.full(robot.nq, -np.inf)
        self.regressor = build(robot, "joint_torque_regressor", backend=backend, link=link)
        self._nominal = build(robot, "inverse_dynamics", backend=backend)
        self._friction = RegressorModel(robot, ("viscous", "coulomb"), backend)

    def add(self, sums, chunk):
        """How many rows count."""
        arrays = [np.asarray(chunk[kind], dtype=float) for kind in ("q", "qd", "qdd", "tau")]
        arrays[-1] = np.where(self._counts, arrays[-1], 0.0)
        good = np.flatnonzero(np.all([np.isfinite(array).all(axis=1) for array in arrays], axis=0))
        if len(good):
            self._low = np.minimum(self._low, arrays[0][good].min(axis=0))
            self._high = np.maximum(self._high, arrays[0][good].max(axis=0))
        for start in range(0, len(good), ROWS):
            q, qd, qdd, tau = (np.ascontiguousarray(array[good[start : start + ROWS]]) for array in arrays)
            W = self.regressor(q, qd, qdd)
            known = self._nominal(q, qd, qdd)
            if self._friction.described.any():
                known = known + self._friction.matrix(q, qd, qdd) @ self._friction.described
            rows = np.concatenate([W, friction_columns(qd), (tau - known)[..., None]], axis=-1)
            sums.add(np.where(self._counts[:, None], rows, 0.0))
        return len(good)

    @property
    def moved(self):
        """Whether some joint did, by more than noise."""
        return bool(np.any(self._high - self._low > STILL))
