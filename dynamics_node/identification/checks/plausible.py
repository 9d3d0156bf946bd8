"""What measured torques have to do with described ones.

Of every torque that part is taken off which friction and an offset of its joint could be; what is left is
held against the torques of the described inertias. Those of a robot that is described well enough are alike
and of the same size. What gravity adds is linear in its direction, which a fit therefore finds, too.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.identification.regressor_model import RegressorModel
from dynamics_node.text import listed

WIDTHS = 0.01, 0.1  # rad/s or m/s within which Coulomb friction may change its sign
FELT = 0.1  # of what is measured: smaller described torques tell nothing about it
IN_SOME, IN_MOST, IN_EACH = 0.3, 0.4, 1.0  # of what is measured: described torques as large must be seen
ALIKE = 0.7  # correlation from which on torques differ by a factor
UNLIKE = 0.3  # correlation below which they have nothing to do with each other
FAR = 0.3, 20.0  # factors of one joint beyond which units are doubted: a tool alone makes 10 of a wrist
OVERALL = 0.5, 2.0  # factors of the whole robot
NOTHING = 1e-12  # of described squares: smaller measured ones are none
TURNED = 35.0  # degrees
NONE = 2.5  # m/s^2: gravity that is not there
EXPLAINED = 0.7  # of squared torques, by a fit that is believed
CERTAIN = 6.0  # standard deviations
MOST = 0.7  # of the torques that gravity is in
CLEARER = 0.6  # of what another reading leaves unexplained
WEIGHTLESS = "torques have no gravity in them: are they compensated, or external ones?"


class Alike(NamedTuple):
    """Of each torque (nv,): correlation of measured and described, measured over described, and described
    over measured sizes."""

    correlation: np.ndarray
    factor: np.ndarray
    felt: np.ndarray

    @property
    def told(self):
        """Whether the description tells enough of a torque to judge it."""
        return self.felt > FELT

    @property
    def negative(self):
        """Torques of the other sign."""
        return self.told & (self.correlation < -ALIKE)

    @property
    def far(self):
        """Torques of other units."""
        return (self.correlation > ALIKE) & ((self.factor < FAR[0]) | (self.factor > FAR[1]))

    @property
    def needed(self):
        """What torques have to be multiplied with, then."""
        needed = np.where(self.negative, -1.0, 1.0)
        return np.divide(1.0, self.factor, out=needed, where=self.far)


def alike(linear: RegressorModel, rows) -> Alike:
    """Measured beside described torques, at rows {kind: (n, ...)}."""
    measured, described = _without_friction(rows, rows["tau"], torques(linear, rows))
    squares, both = np.sum(described**2, axis=0), np.sum(measured * described, axis=0)
    all_of = np.maximum(np.sum(measured**2, axis=0), 1e-300)
    size = np.sqrt(squares * all_of)
    correlation = np.divide(both, size, out=np.zeros_like(both), where=size > 1e-12)
    factor = np.divide(both, squares, out=np.zeros_like(both), where=squares > 1e-12)
    return Alike(correlation, factor, np.where(all_of > NOTHING * squares, np.sqrt(squares / all_of), 0.0))


def torques(linear: RegressorModel, rows, gravity=None):
    """(n, nv) of the description, without friction. gravity (3,) in place of the robot's."""
    q, qd, qdd = (rows[kind] for kind in ("q", "qd", "qdd"))
    return linear.inertial(q, qd, qdd, gravity) @ linear.described_inertias + linear.known(q, qd, qdd)


def about_signs_and_sizes(found: Alike, names):
    """Sentences."""
    names = np.array(names)
    warnings = [
        f"the torque of {name} has the other sign than the description's"
        for name in names[found.negative & (found.felt > IN_SOME)]
    ]
    strong = found.correlation > ALIKE
    if told := _about_all(found, strong):
        return [*warnings, told]
    for k in np.flatnonzero(found.far):
        told = f"{found.factor[k]:.2g} of the description's: amperes, or before a gear?"
        warnings.append(f"the torque of {names[k]} is {told}")
    unlike = np.abs(found.correlation) < UNLIKE
    most, each = found.felt > IN_MOST, found.felt > IN_EACH
    if 2 * int(np.sum(unlike & most)) > max(2, int(np.sum(most))):
        told = f"torques of {listed(names[unlike & most])} have little to do with the description"
        warnings.append(f"{told}: another robot?")
    elif np.any(unlike & each):
        warnings.append(f"the torque of {listed(names[unlike & each])} has little to do with the description")
    return warnings


def _about_all(found, strong):
    """Of all torques together."""
    if 2 * strong.sum() <= max(2, found.told.sum()):
        return None
    factor = float(np.median(found.factor[strong]))
    if OVERALL[0] < factor < OVERALL[1] or not np.all((found.factor[strong] < 1.0) == (factor < 1.0)):
        return None
    why = "amperes, before the gears, or a description of another robot?"
    return f"torques are about {factor:.2g} of the description's: {why}"


def about_gravity(linear: RegressorModel, rows, found: Alike, sure=True):
    """Sentences: whether gravity has another direction, or is not in the torques. sure: only where that
    explains them."""
    gravity, still = linear.robot.gravity, dict.fromkeys(("qd", "qdd"), np.zeros_like(rows["qd"]))
    rest = torques(linear, rows, np.zeros(3))
    falls = np.stack([torques(linear, rows | still, axis) for axis in np.eye(3)], axis=-1)
    measured, rest, falls = _without_friction(rows, rows["tau"], rest, falls)
    size = np.maximum(np.sqrt(np.mean(measured**2, axis=0)), 1e-300)
    fallen = np.sqrt(np.mean((falls @ gravity) ** 2, axis=0))
    if not np.any(falling := found.told & (fallen > FELT * size)):
        return []
    columns = np.concatenate([rest[..., None], falls], axis=-1) / size[:, None]
    A, b = columns[:, found.told].reshape(-1, 4), (measured / size)[:, found.told]
    x, spread, left = _fitted(A, b.ravel())
    scale, fall = x[0], x[1:]
    as_is = (A @ np.append(1.0, gravity)).reshape(b.shape)
    signs = np.sign(np.sum(as_is * b, axis=0))
    otherwise = np.sum((b - signs * as_is * np.sum(signs * as_is * b) / np.sum(as_is**2)) ** 2)
    clear = left < CLEARER * otherwise and left < (1.0 - EXPLAINED) * b.size
    if (
        left < (1.0 - EXPLAINED) * b.size
        and _angle(fall, gravity) < TURNED
        and np.linalg.norm(fall) > CERTAIN * spread[1:].max()
    ):
        return []  # there is gravity, of another size: a factor
    if np.linalg.norm(fall) < NONE:
        hidden = not sure and scale > FAR[0] and np.any(fallen[falling] > size[falling])
        gone = spread[1:].max() < NONE / 2 and (clear or hidden)
        return [WEIGHTLESS] if gone else []
    otherwise_so = clear or (not sure and np.mean(found.negative[falling]) > MOST)
    if not otherwise_so or _angle(fall, gravity) < TURNED:
        return []
    return [turned(fall)]


def turned(gravity):
    """In a sentence."""
    way = ", ".join(f"{value:.1f}" for value in gravity)
    told = f"torques look as if gravity were ({way}) in the axes of the root"
    return f"{told}: is the robot mounted so, or have they the other sign?"


def _without_friction(rows, *torques_of):
    """What of torques (n, nv, ...) no friction nor offset of their joint could be."""
    found = [np.array(one, dtype=float) for one in torques_of]
    for k, rate in enumerate(rows["qd"].T):
        columns = [np.ones_like(rate), rate, *(np.tanh(rate / width) for width in WIDTHS)]
        basis = np.linalg.qr(np.column_stack(columns))[0]
        for one in found:
            one[:, k] -= basis @ (basis.T @ one[:, k])
    return found


def _fitted(A, b):
    """x, its standard deviations and the sum of squares that is left."""
    x = np.linalg.lstsq(A, b, rcond=None)[0]
    left = float(np.sum((b - A @ x) ** 2))
    covariance = np.linalg.pinv(A.T @ A) * left / max(1, len(b) - len(x))
    return x, np.sqrt(np.maximum(np.diagonal(covariance), 0.0)), left


def _angle(a, b):
    cosine = a @ b / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-300)
    return float(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))))
