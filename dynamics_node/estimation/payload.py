"""Payload identification: mass, center of mass and inertia from measured torques, and undetermined
parameters.

Torques are linear in the ten parameters of a payload (Atkeson, An, Hollerbach: Estimation of inertial
parameters of manipulator loads and links, IJRR 1986). Undetermined parameters follow a prior: a ball with the
density of water about the estimated center of mass.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.algorithms import inertial_parameters, inertias_of_parameters
from dynamics_node.display import titled
from dynamics_node.errors import IdentificationError, InputError
from dynamics_node.estimation.payload_fit import (
    RANK_TOLERANCE,
    PayloadFit,
    fit_payload,
    friction_columns,
    payload_sums,
)
from dynamics_node.functions import Backend, build
from dynamics_node.identification.base_parameters import base_parameters, random_states
from dynamics_node.identification.checks.recording_check import RecordingCheck
from dynamics_node.identification.consistent import consistent_body
from dynamics_node.identification.identify import required_recordings
from dynamics_node.identification.passes import Chunks, measured_chunks
from dynamics_node.identification.regression import spectrum
from dynamics_node.identification.regressor_model import RegressorModel
from dynamics_node.robot import Robot
from dynamics_node.robot.inertial_parameters import with_payload
from dynamics_node.robot.subtree import central_moments
from dynamics_node.robot.wrong_calls import explains_wrong_calls
from dynamics_node.symbolic import spatial_inertia

PRIOR_STD = 3.0  # relative standard deviation of the ball's parameters
DENSITY = 1000.0  # kg/m^3
FIRST_RADIUS = 0.1  # m: of the initial prior, 1 kg at the origin
STATIONARY = 0.01  # rad or m: a smaller range is position noise
DESCRIPTION_ERROR = 0.05  # relative error of described inertias that `mass_of_description` assumes
SIGNIFICANT = 3.0  # standard deviations: least significant mass
# kg, kg m, kg m^2: parameters with larger standard deviations are not excited
SIZES = np.array([0.5] + 3 * [0.05] + 6 * [0.01])
ISOLATED = 0.9  # fraction of a parameter's unit square: above it, the parameter itself is undetermined
LARGEST_STD = 10.0  # SIZES: standard deviation of undetermined directions
NEGLIGIBLE = 1e-9  # fraction of the largest entry of a regressor: smaller ones are rounding errors
STATES = 20  # random states for finding the parameters that torques depend on
LISTED_SHARE = 0.1  # share: parameters with smaller shares are not listed
NAMES = (
    "mass",
    *(f"center of mass along {axis}" for axis in "xyz"),
    *(
        f"{'moment' if a[0] == a[1] else 'product'} of inertia {a}"
        for a in ("xx", "xy", "yy", "xz", "yz", "zz")
    ),
)
GRAVITY = slice(0, 4)  # the parameters that gravity excites
ROWS = 2000  # rows per regressor evaluation


@dataclass(frozen=True, eq=False, repr=False)
class Payload:
    """The payload of a link, in addition to its description.

    `identify_payload` and `PayloadEstimator.estimate` return it.

    Attributes
    ----------
    link : str
        Name of the link.
    parameters : ndarray (10,)
        Mass m (kg), m c (x, y, z; kg m), then the moments of inertia (xx, xy, yy, xz, yz, zz; kg m^2). They
        are in link axes about the link's origin, and physically consistent.
    covariance : ndarray (10, 10)
        Covariance of least squares. Standard deviations are at most 5 kg, 0.5 kg m and 0.1 kg m^2.
    not_excited : tuple of str
        Undetermined parameters, as sentences.
    fitted : PayloadFit
        Unconstrained least squares.
    samples : int
        Number of states.
    warnings : tuple of str
        Problems in the recordings.
    described : dict
        {name: mass in kg} of the links on the same body.
    mass_of_description : float or None
        Mass that appears as payload if all described inertias are 5 % wrong, kg. It is None with a tare
        recording, which removes such errors, and from `PayloadEstimator`.

    Examples
    --------
    >>> loaded = dn.with_payload(robot, "panda_link7", 1.5, [0.0, 0.05, 0.1], 0.01 * np.eye(3))
    >>> estimator = dn.build_payload_estimator(robot, "panda_link7", backend="numpy")
    >>> for t in np.arange(0.0, 1.0, 0.05):  # ten poses at rest
    ...     q = np.sin(np.floor(10 * t) * np.arange(1, 8))
    ...     tau = dn.evaluate(loaded, "gravity_torque", q, backend="numpy")
    ...     complete = estimator.step(t, q, np.zeros(7), tau)
    >>> payload = estimator.estimate(friction=False)
    >>> round(payload.mass, 3), payload.com[1:].round(3)
    (1.5, array([0.05, 0.1 ]))
    >>> payload.not_excited[0]  # the inertia is that of the prior
    'moment of inertia xx is not excited'
    """

    link: str
    parameters: np.ndarray
    covariance: np.ndarray
    not_excited: tuple[str, ...]
    fitted: PayloadFit
    samples: int
    warnings: tuple[str, ...] = field(default=())
    described: dict[str, float] = field(default_factory=dict)
    mass_of_description: float | None = None

    def __repr__(self):
        return titled(
            f"Payload of {self.link!r}",
            mass=f"{self.mass:.4g} kg, std {self.mass_std:.2g}",
            com=self.com,
            com_std=self.com_std,
            inertia=self.inertia,
            condition=self.condition,
            samples=self.samples,
            not_excited=self.not_excited or None,
            warnings=self.warnings or None,
        )

    @property
    def mass(self) -> float:
        """Mass, kg."""
        return float(self.parameters[0])

    @property
    def com(self) -> np.ndarray:
        """Center of mass (3,), m, in link axes from the link's origin."""
        return self.parameters[1:4] / self.mass

    @property
    def inertia(self) -> np.ndarray:
        """Moments of inertia (3, 3) about the center of mass, in link axes, kg m^2."""
        return central_moments(inertias_of_parameters(self.parameters))

    @property
    def mass_std(self) -> float:
        """Standard deviation of the mass, kg."""
        return float(np.sqrt(self.covariance[0, 0]))

    @property
    def com_std(self) -> np.ndarray:
        """Standard deviations of the center of mass (3,), m."""
        change = np.column_stack([-self.com, np.eye(3)]) / self.mass
        return np.sqrt(np.diagonal(change @ self.covariance[GRAVITY, GRAVITY] @ change.T))

    @property
    def condition(self) -> float:
        """Condition number of the equations with columns of unit length; infinite if underdetermined."""
        return self.fitted.condition

    @property
    def refusal(self) -> str:
        """Reason why the payload should not be applied to a model, '' if there is none. The parameters that
        gravity excites must be determined; the inertia may be that of the prior."""
        if unknown := [name for name in self.not_excited if name.startswith(NAMES[GRAVITY])]:
            return f"not excited enough: {'; '.join(unknown)}"
        mass = float(self.fitted.x[0])
        if mass < -SIGNIFICANT * self.mass_std:
            difference = f"{-mass:.3g} kg less than described (standard deviation {self.mass_std:.2g})"
            listed = (
                ", ".join(f"{name} {kilograms:.3g} kg" for name, kilograms in self.described.items())
                or "nothing"
            )
            return (
                f"the torques correspond to {difference}: is everything described there "
                f"mounted ({listed})? A recording without payload (tare) corrects an error of the description"
            )
        if not mass > SIGNIFICANT * self.mass_std:
            estimate = f"{mass:.3g} kg, standard deviation {self.mass_std:.2g}"
            return f"the mass is {estimate}: not significantly above zero"
        return ""

    @property
    def caution(self) -> str:
        """Effect of a tare recording that is missing, '' if there was one."""
        if self.mass_of_description is None:
            return ""
        return (
            "without a tare, errors of the description count as payload: "
            f"{self.mass_of_description:.2g} kg if the described inertias are 5 % wrong, which the standard "
            "deviation leaves out. To weigh the object, record the motion without it (tare)"
        )

    def on(self, robot: Robot) -> Robot:
        """Return the Robot with this payload: see `with_payload`.

        Parameters
        ----------
        robot : Robot
            A robot with the link.

        Returns
        -------
        Robot
        """
        return with_payload(robot, self.link, self.mass, self.com, self.inertia)


def require_bearing(robot: Robot, link: str):
    """Raise KeyError for an unknown link, ValueError if measured torques do not depend on its payload."""
    if robot.tree.frame(link).body < 0:
        raise InputError(f"link {link!r} is fixed to the root: no joint torque depends on its payload")
    if robot.floating_base:
        raise InputError(
            "the ground forces on a floating base are not measured, so no payload can be identified: "
            "fix the base and omit floating_base"
        )


def identifiable_parameters(robot: Robot, regressor) -> np.ndarray:
    """Mask (10,) of the payload parameters that torques depend on in any motion. regressor: joint torque
    regressor of the payload's link."""
    columns = regressor(*random_states(robot, STATES), errors="nan")  # NaN where loops are singular
    W = np.abs(np.nan_to_num(columns)).max(axis=(0, 1), initial=0.0)
    return NEGLIGIBLE * W.max(initial=0.0) < W


def described_on(robot: Robot, link: str) -> dict[str, float]:
    """{link: kg} of the described links on the body of a link, heaviest first."""
    tree = robot.tree
    body = tree.frame(link).body
    masses = {name: float(frame.inertia[5, 5]) for name, frame in tree.frames.items() if frame.body == body}
    return dict(sorted(((name, mass) for name, mass in masses.items() if mass > 0), key=lambda one: -one[1]))


def payload_of(
    link, fit: PayloadFit, identifiable, samples, warnings=(), described=None, mass_of_description=None
) -> Payload:
    """A physically consistent Payload from a least-squares fit. identifiable (10,): see
    `identifiable_parameters`; described: see `described_on`."""
    first = _ball(1.0, np.zeros(3), FIRST_RADIUS)
    for _ in range(2):  # first about the origin, then about the resulting center of mass
        parameters = consistent_body(fit.x, fit.information, first, PRIOR_STD)
        mass = parameters[0]
        first = _ball(mass, parameters[1:4] / mass, (0.75 * mass / np.pi / DENSITY) ** (1 / 3))
    covariance, not_excited = _determined(fit.information, identifiable)
    texts = not_excited, fit, samples, warnings, described or {}
    return Payload(link, parameters, covariance, *texts, mass_of_description)


def _ball(mass, com, radius):
    """Parameters (10,) of a solid ball."""
    return inertial_parameters(spatial_inertia(mass, com, 0.4 * mass * radius**2 * np.eye(3)))


def _determined(information, identifiable):
    """Covariance (10, 10), and sentences about parameters whose standard deviation exceeds SIZES.
    identifiable (10,): see `identifiable_parameters`."""
    values, vectors, _ = spectrum(information, SIZES)
    values[values < RANK_TOLERANCE * values[-1]] = 0.0
    covariance = (vectors / np.maximum(values, 1.0 / LARGEST_STD**2)) @ vectors.T
    weak = vectors[:, values < 1.0]
    unknown, open_ = np.flatnonzero(np.diagonal(covariance) > 1.0), weak @ weak.T
    messages = []
    for k in unknown:
        others = [NAMES[i] for i in unknown if i != k and abs(open_[k, i]) > LISTED_SHARE]
        if not identifiable[k]:
            messages.append(f"{NAMES[k]} is not identifiable: no joint torque depends on it")
        elif open_[k, k] > ISOLATED or not others:
            messages.append(f"{NAMES[k]} is not excited")
        else:
            messages.append(f"{NAMES[k]} is identifiable only in combination with {', '.join(others)}")
    return covariance * np.outer(SIZES, SIZES), tuple(messages)


# --- from recordings with accelerations ---------------------------------------------------------------------


@explains_wrong_calls
def identify_payload(
    robot: Robot,
    link: str,
    recordings: Iterable[Chunks],
    *,
    tare: Iterable[Chunks] = (),
    friction: bool = True,
    torque_std: ArrayLike | None = None,
    progress: Callable[[int], object] | None = None,
    backend: Backend = "auto",
    measured: Sequence[str] | None = None,
) -> Payload:
    """Identify the payload of a link from recordings of a fixed-base robot, with or without loops.

    Undetermined parameters follow a prior: a ball with the density of water about the estimated center of
    mass.

    Parameters
    ----------
    robot : Robot
        The robot without the payload.
    link : str
        The link that bears the payload.
    recordings : iterable of callables
        Each returns chunks, as in `identify`: {"q": (k, nq), "qd", "qdd", "tau": (k, nv)}, optionally with
        "time". Units are SI.
    tare : iterable of callables
        Recordings without payload. They correct errors of the description as far as a payload could explain
        them. Friction is fitted to both.
    friction : bool
        Whether to estimate an offset, Coulomb and viscous friction of every coordinate in addition to the
        described ones. Otherwise the described ones are used.
    torque_std : float or array_like (nv,), optional
        Standard deviation of one torque, N m or N; by default from the residuals.
    progress : callable, optional
        Progress callback: progress(rows).
    backend : str
        As in `build`.
    measured : sequence of str, optional
        Names of the coordinates whose torques are used; by default all.

    Returns
    -------
    Payload

    Raises
    ------
    KeyError
        For an unknown link.
    ValueError
        For a link that no joint bears, and for a floating base.
    IdentificationError
        If no row is usable.
    TypeError
        For a recording that is no function.

    Examples
    --------
    >>> loaded = dn.with_payload(robot, "panda_link7", 1.5, [0.0, 0.05, 0.1], 0.01 * np.eye(3))
    >>> q, qd, qdd = np.random.default_rng(0).uniform(-1, 1, (3, 100, 7))
    >>> tau = dn.evaluate(loaded, "inverse_dynamics", q, qd, qdd, backend="numpy")
    >>> chunks = [{"q": q, "qd": qd, "qdd": qdd, "tau": tau}]
    >>> payload = dn.identify_payload(robot, "panda_link7", [lambda: chunks], backend="numpy")
    >>> round(payload.mass, 3), payload.com[1:].round(3)
    (1.5, array([0.05, 0.1 ]))

    References
    ----------
    Atkeson, An and Hollerbach, Estimation of inertial parameters of manipulator loads and links, IJRR 5(3),
    1986.
    """
    require_bearing(robot, link)
    recordings, tare = required_recordings(recordings), required_recordings(tare)
    warnings: list[str] = []
    linear = RegressorModel(robot, backend=backend, measured=None if measured is None else tuple(measured))
    rows_of = _PayloadRows(robot, link, backend, linear.counts)
    base = base_parameters(linear)
    empty, sums, doubt, samples = *(payload_sums(robot.nv) for _ in range(3)), 0
    for into, chunks in [(empty, one) for one in tare] + [(sums, one) for one in recordings]:
        check = RecordingCheck(linear, base)
        for chunk in measured_chunks(linear, chunks):
            check.add(chunk)
            count = rows_of.add(into, chunk, None if tare else doubt)
            samples += count if into is sums else 0
            if progress:
                progress(len(chunk["qd"]))
        which = "tare: " if into is empty else ""
        warnings += [which + warning for warning in check.warnings()]
    if not samples:
        raise IdentificationError("; ".join(["no row is usable", *warnings]))
    fit = fit_payload(sums, friction, torque_std, empty if empty.count.any() else None, rows_of.moved)
    identifiable = identifiable_parameters(robot, rows_of.regressor)
    error = None if tare else abs(float(fit_payload(doubt, friction, torque_std, moved=rows_of.moved).x[0]))
    return payload_of(link, fit, identifiable, samples, tuple(warnings), described_on(robot, link), error)


class _PayloadRows:
    """Adds the rows of recordings with accelerations to sums."""

    def __init__(self, robot, link, backend, counts):
        self._counts = counts
        self._low, self._high = np.full(robot.nq, np.inf), np.full(robot.nq, -np.inf)
        self.regressor = build(robot, "joint_torque_regressor", backend=backend, link=link)
        self._nominal = build(robot, "inverse_dynamics", backend=backend)
        self._friction = RegressorModel(robot, ("viscous", "coulomb"), backend)

    def add(self, sums, chunk, doubt=None):
        """Returns the number of usable rows. doubt: sums for the torques of an error of the description."""
        arrays = [np.asarray(chunk[kind], dtype=float) for kind in ("q", "qd", "qdd", "tau")]
        arrays[-1] = np.where(self._counts, arrays[-1], 0.0)
        good = np.flatnonzero(np.all([np.isfinite(array).all(axis=1) for array in arrays], axis=0))
        if len(good):
            self._low = np.minimum(self._low, arrays[0][good].min(axis=0))
            self._high = np.maximum(self._high, arrays[0][good].max(axis=0))
        for start in range(0, len(good), ROWS):
            q, qd, qdd, tau = (np.ascontiguousarray(array[good[start : start + ROWS]]) for array in arrays)
            W = self.regressor(q, qd, qdd)
            known = described = self._nominal(q, qd, qdd)
            if self._friction.described.any():
                known = known + self._friction.matrix(q, qd, qdd) @ self._friction.described
            rows = np.concatenate([W, friction_columns(qd), (tau - known)[..., None]], axis=-1)
            rows[:, ~self._counts] = 0.0
            sums.accumulate(list(rows.swapaxes(0, 1)))
            if doubt is not None:
                rows[..., -1] = np.where(self._counts, DESCRIPTION_ERROR * described, 0.0)
                doubt.accumulate(list(rows.swapaxes(0, 1)))
        return len(good)

    @property
    def moved(self):
        """Whether a joint moved by more than noise."""
        return bool(np.any(self._high - self._low > STATIONARY))
