"""Consistency of measured torques with the description.

The part of every torque that friction and an offset of its joint could explain is removed. The remainder is
compared with the torques of the described inertias: for an adequate description both are correlated and of
similar size. The gravity torque is linear in the direction of gravity, so a fit estimates that, too.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.identification.regressor_model import RegressorModel
from dynamics_node.text import listed

WIDTHS = 0.01, 0.1  # rad/s or m/s: widths of the sign change of Coulomb friction
SIGNIFICANT = 0.1  # fraction of the measured torque: smaller described torques are not comparable
IN_SOME, IN_MOST, IN_EACH = 0.3, 0.4, 1.0  # of the measured torque: required size of the described torque
CORRELATED = 0.7  # correlation: above it, torques differ by a factor only
UNRELATED = 0.3  # correlation: below it, torques are unrelated
PLAUSIBLE = 0.3, 20.0  # plausible factors of one joint; an undescribed tool alone can cause 10 at a wrist
OVERALL = 0.5, 2.0  # plausible factors of the whole robot
NEGLIGIBLE = 1e-12  # fraction of described squares: smaller measured ones count as zero
MOST_DEGREES = 35.0  # degrees: larger deviations of gravity are reported
WEAK_GRAVITY = 2.5  # m/s^2: smaller estimates mean no gravity
EXPLAINED = 0.7  # fraction of squared torques: required of a fit
CERTAIN = 6.0  # standard deviations
MOST = 0.7  # fraction of the torques with gravity
CLEARER = 0.6  # fraction of the residual of the alternative
WEIGHTLESS = "torques contain no gravity: are they gravity-compensated, or external torques?"


class TorqueComparison(NamedTuple):
    """Per torque (nv,): correlation of measured and described torques, ratio of measured to described, and
    size of the described relative to the measured torque."""

    correlation: np.ndarray
    factor: np.ndarray
    size_ratio: np.ndarray

    @property
    def comparable(self):
        """Whether the described torque is large enough for a comparison."""
        return self.size_ratio > SIGNIFICANT

    @property
    def negative(self):
        """Torques with the opposite sign."""
        return self.comparable & (self.correlation < -CORRELATED)

    @property
    def far(self):
        """Torques with implausible factors, for example in other units."""
        return (self.correlation > CORRELATED) & ((self.factor < PLAUSIBLE[0]) | (self.factor > PLAUSIBLE[1]))

    @property
    def needed(self):
        """Factors that correct the measured torques."""
        needed = np.where(self.negative, -1.0, 1.0)
        return np.divide(1.0, self.factor, out=needed, where=self.far)


def compare_torques(linear: RegressorModel, rows) -> TorqueComparison:
    """Compare measured and described torques at rows {kind: (n, ...)}."""
    measured, described = _without_friction(rows, rows["tau"], torques(linear, rows))
    squares, both = np.sum(described**2, axis=0), np.sum(measured * described, axis=0)
    all_of = np.maximum(np.sum(measured**2, axis=0), 1e-300)
    size = np.sqrt(squares * all_of)
    correlation = np.divide(both, size, out=np.zeros_like(both), where=size > 1e-12)
    factor = np.divide(both, squares, out=np.zeros_like(both), where=squares > 1e-12)
    return TorqueComparison(
        correlation, factor, np.where(all_of > NEGLIGIBLE * squares, np.sqrt(squares / all_of), 0.0)
    )


def torques(linear: RegressorModel, rows, gravity=None):
    """Torques (n, nv) of the description, without friction. gravity (3,) overrides the robot's."""
    q, qd, qdd = (rows[kind] for kind in ("q", "qd", "qdd"))
    return linear.inertial(q, qd, qdd, gravity) @ linear.described_inertias + linear.known(q, qd, qdd)


def about_signs_and_sizes(comparison: TorqueComparison, names):
    """Warnings about signs and sizes of torques."""
    names = np.array(names)
    warnings = [
        f"the torque of {name} has the opposite sign of the description's"
        for name in names[comparison.negative & (comparison.size_ratio > IN_SOME)]
    ]
    correlated = comparison.correlation > CORRELATED
    if message := _about_all(comparison, correlated):
        return [*warnings, message]
    for k in np.flatnonzero(comparison.far):
        message = f"{comparison.factor[k]:.2g} times the description's: amperes, or on the motor side?"
        warnings.append(f"the torque of {names[k]} is {message}")
    unlike = np.abs(comparison.correlation) < UNRELATED
    most, each = comparison.size_ratio > IN_MOST, comparison.size_ratio > IN_EACH
    if 2 * int(np.sum(unlike & most)) > max(2, int(np.sum(most))):
        message = f"torques of {listed(names[unlike & most])} do not correlate with the description"
        warnings.append(f"{message}: another robot?")
    elif np.any(unlike & each):
        warnings.append(
            f"the torque of {listed(names[unlike & each])} does not correlate with the description"
        )
    return warnings


def _about_all(comparison, correlated):
    """Warning about a common factor of all torques, or None."""
    if 2 * correlated.sum() <= max(2, comparison.comparable.sum()):
        return None
    factor = float(np.median(comparison.factor[correlated]))
    if OVERALL[0] < factor < OVERALL[1] or not np.all(
        (comparison.factor[correlated] < 1.0) == (factor < 1.0)
    ):
        return None
    cause = "amperes, motor-side torques, or a description of another robot?"
    return f"torques are about {factor:.2g} times the description's: {cause}"


def about_gravity(linear: RegressorModel, rows, comparison: TorqueComparison, sure=True):
    """Warnings: gravity has another direction, or the torques contain none. sure: only if that clearly
    explains the torques."""
    gravity, still = linear.robot.gravity, dict.fromkeys(("qd", "qdd"), np.zeros_like(rows["qd"]))
    rest = torques(linear, rows, np.zeros(3))
    falls = np.stack([torques(linear, rows | still, axis) for axis in np.eye(3)], axis=-1)
    measured, rest, falls = _without_friction(rows, rows["tau"], rest, falls)
    size = np.maximum(np.sqrt(np.mean(measured**2, axis=0)), 1e-300)
    fallen = np.sqrt(np.mean((falls @ gravity) ** 2, axis=0))
    if not np.any(falling := comparison.comparable & (fallen > SIGNIFICANT * size)):
        return []
    columns = np.concatenate([rest[..., None], falls], axis=-1) / size[:, None]
    A, b = columns[:, comparison.comparable].reshape(-1, 4), (measured / size)[:, comparison.comparable]
    x, spread, left = _fitted(A, b.ravel())
    scale, fall = x[0], x[1:]
    as_is = (A @ np.append(1.0, gravity)).reshape(b.shape)
    signs = np.sign(np.sum(as_is * b, axis=0))
    reference = np.sum((b - signs * as_is * np.sum(signs * as_is * b) / np.sum(as_is**2)) ** 2)
    clear = left < CLEARER * reference and left < (1.0 - EXPLAINED) * b.size
    if (
        left < (1.0 - EXPLAINED) * b.size
        and _angle(fall, gravity) < MOST_DEGREES
        and np.linalg.norm(fall) > CERTAIN * spread[1:].max()
    ):
        return []  # gravity has the expected direction; only its size differs
    if np.linalg.norm(fall) < WEAK_GRAVITY:
        hidden = not sure and scale > PLAUSIBLE[0] and np.any(fallen[falling] > size[falling])
        gone = spread[1:].max() < WEAK_GRAVITY / 2 and (clear or hidden)
        return [WEIGHTLESS] if gone else []
    otherwise_so = clear or (not sure and np.mean(comparison.negative[falling]) > MOST)
    if not otherwise_so or _angle(fall, gravity) < MOST_DEGREES:
        return []
    return [turned(fall)]


def turned(gravity):
    """Warning about the direction of gravity."""
    direction = ", ".join(f"{value:.1f}" for value in gravity)
    message = f"torques fit a gravity of ({direction}) in root axes"
    return f"{message}: is the robot mounted that way, or are the signs reversed?"


def _without_friction(rows, *arrays):
    """Remainders of torques (n, nv, ...) that joint friction and offsets cannot explain."""
    remainders = [np.array(one, dtype=float) for one in arrays]
    for k, rate in enumerate(rows["qd"].T):
        columns = [np.ones_like(rate), rate, *(np.tanh(rate / width) for width in WIDTHS)]
        basis = np.linalg.qr(np.column_stack(columns))[0]
        for one in remainders:
            one[:, k] -= basis @ (basis.T @ one[:, k])
    return remainders


def _fitted(A, b):
    """x, its standard deviations and the residual sum of squares."""
    x = np.linalg.lstsq(A, b, rcond=None)[0]
    left = float(np.sum((b - A @ x) ** 2))
    covariance = np.linalg.pinv(A.T @ A) * left / max(1, len(b) - len(x))
    return x, np.sqrt(np.maximum(np.diagonal(covariance), 0.0)), left


def _angle(a, b):
    cosine = a @ b / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-300)
    return float(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))))
