"""Measured torques against those of the description: signs and sizes.

The part of every torque that friction and an offset of its joint could explain is removed. The remainder is
compared with the torques of the described inertias: for an adequate description both are correlated and of
similar size.
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
    states = [rows[kind] for kind in ("q", "qd", "qdd")]
    described = linear.inertial(*states) @ linear.described_inertias + linear.known(*states)
    measured, described = (_without_friction(rows["qd"], tau) for tau in (rows["tau"], described))
    squares, both = np.sum(described**2, axis=0), np.sum(measured * described, axis=0)
    all_of = np.maximum(np.sum(measured**2, axis=0), 1e-300)
    size = np.sqrt(squares * all_of)
    correlation = np.divide(both, size, out=np.zeros_like(both), where=size > 1e-12)
    factor = np.divide(both, squares, out=np.zeros_like(both), where=squares > 1e-12)
    return TorqueComparison(
        correlation, factor, np.where(all_of > NEGLIGIBLE * squares, np.sqrt(squares / all_of), 0.0)
    )


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
        cause = "amperes, or on the motor side?" if comparison.factor[k] < 1.0 else "other units?"
        factor = f"{comparison.factor[k]:.2g} times the description's"
        warnings.append(f"the torque of {names[k]} is {factor}: {cause}")
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


def _without_friction(qd, tau):
    """Remainders of torques (n, nv) that joint friction and offsets cannot explain."""
    remainders = np.empty_like(tau)
    for k, (rate, torque) in enumerate(zip(qd.T, tau.T, strict=True)):
        columns = [np.ones_like(rate), rate, *(np.tanh(rate / width) for width in WIDTHS)]
        basis = np.linalg.qr(np.column_stack(columns))[0]
        remainders[:, k] = torque - basis @ (basis.T @ torque)
    return remainders
