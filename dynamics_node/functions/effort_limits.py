"""Limits of efforts that may depend on velocity and sign, as half-planes of every joint.

The torque of a motor at a supply voltage falls linearly with its velocity, and its current is limited. So the
possible efforts at a velocity are between a concave upper curve and a convex lower one. Each line of a curve
is linear in effort and velocity: limits of a motion stay linear programs.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from dynamics_node.errors import InputError
from dynamics_node.functions.checks import numbers

SIDES = {"max_effort": 1.0, "min_effort": -1.0}  # {limit: its sign}
TABLES = {f"{key}_at_velocity": sign for key, sign in SIDES.items()}
EFFORT_KEYS = (*SIDES, *TABLES)
BENT = 1e-9  # of the larger slope: rounding of corners on a line


class EffortLimits(NamedTuple):
    """lower <= tau[joint] + slope * qd[joint] <= upper for rows sorted by joint, with lower < 0 < upper.

    nv: number of joints; joint (rows,): places in tau; slope (rows,): N m s/rad or N s/m; lower, upper
    (rows,): N m or N, one of them may be infinite. Limits that do not depend on velocity have the slope 0.
    starts: the first rows of the joints that have some.
    """

    nv: int
    joint: np.ndarray
    slope: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    starts: np.ndarray

    def loads(self, tau, qd):
        """tau + slope * qd (..., rows) of efforts and velocities (..., nv)."""
        return tau[..., self.joint] + self.slope * qd[..., self.joint]

    def fractions(self, tau, qd):
        """Used fractions (..., rows) with the sign of their side: by which effort and velocity together are
        divided to be at the limit."""
        loads = self.loads(tau, qd)
        return np.where(loads > 0, loads / self.upper, loads / -self.lower)

    def used(self, tau, qd):
        """The largest used fractions (..., nv) of the joints; 0 without a limit."""
        return self._by_joint(np.maximum, np.abs(self.fractions(tau, qd)), 0.0)

    def ranges(self, qd):
        """The lowest and the highest effort (..., nv) at velocities (..., nv); infinite without a limit."""
        lost = self.slope * qd[..., self.joint]
        lowest = self._by_joint(np.maximum, self.lower - lost, -np.inf)
        return lowest, self._by_joint(np.minimum, self.upper - lost, np.inf)

    @property
    def limited(self) -> np.ndarray:
        """Places of the joints with a limit."""
        return self.joint[self.starts]

    def _by_joint(self, best, rows, none):
        """The best (..., nv) of rows (..., rows) of each joint, `none` without one."""
        result = np.full((*rows.shape[:-1], self.nv), none)
        if len(self.starts):
            result[..., self.limited] = best.reduceat(rows, self.starts, axis=-1)
        return result


def effort_limits(most, more: Mapping[int, tuple[str, Mapping[str, Any]]]) -> EffortLimits:
    """EffortLimits of magnitudes `most` (nv,), infinite without a limit, and of more entries of joints:
    {place: (joint, {one of EFFORT_KEYS: value})}. Raises InputError with the joint."""
    lower, upper, sloped = -np.array(most), np.array(most, dtype=float), []
    for v, (name, entries) in more.items():
        for key, value in entries.items():
            sign = SIDES.get(key) or TABLES[key]
            both = key.replace("max", "min") not in entries
            curve = lines if key in TABLES else _constant
            for slope, bound in curve(f"limits: {key} of {name!r}", value, sign):
                row = -bound if both or sign < 0 else -np.inf, bound if sign > 0 else np.inf
                if slope:
                    sloped.append((v, slope, *row))
                else:
                    lower[v], upper[v] = max(lower[v], row[0]), min(upper[v], row[1])
    limited = np.flatnonzero(np.isfinite(lower) | np.isfinite(upper))
    rows = [(v, 0.0, lower[v], upper[v]) for v in limited.tolist()]
    rows = sorted([*rows, *sloped], key=lambda row: row[0])
    places, slope, lower, upper = np.array(rows, dtype=float).reshape(-1, 4).T.copy()
    joint = places.astype(int)
    return EffortLimits(len(most), joint, slope, lower, upper, np.flatnonzero(np.diff(joint, prepend=-1)))


def _constant(label, value, sign):
    """The line of a number with this sign. Raises InputError."""
    value = numbers(label, value)
    if value.ndim or not value * sign > 0:
        raise InputError(f"{label} must be {'positive' if sign > 0 else 'negative'}, not {value}")
    return [(0.0, float(value) * sign)]


def lines(label, table, sign) -> list[tuple[float, float]]:
    """Lines effort = sign * (bound - slope * (sign * velocity)), as pairs (slope, bound), through neighboring
    corners of a table of pairs (velocity, effort), and through its most distant corner from zero effort.
    sign: 1 for an upper curve, -1 for a lower one. Raises InputError."""
    corners = numbers(label, table)
    wanted = f"{label} must be pairs [velocity, effort]"
    if corners.ndim != 2 or corners.shape[1] != 2 or len(corners) < 2 or not np.isfinite(corners).all():
        raise InputError(f"{wanted} of at least two corners, finite numbers, not {table!r}")
    corners = sign * corners[:: int(sign)]
    velocity, effort = corners.T
    if (np.diff(velocity) <= 0).any():
        raise InputError(f"{wanted} in the order of increasing velocities, not {table!r}")
    found: list[tuple[float, float]] = []
    for (v0, e0), (v1, e1) in pairwise(corners.tolist()):
        slope = (e0 - e1) / (v1 - v0)
        if found and slope < (last := found[-1][0]) - BENT * max(abs(slope), abs(last)):
            at = f"[{sign * v0:g}, {sign * e0:g}]"
            raise InputError(
                f"{label}: the curve is not {'concave' if sign > 0 else 'convex'} at {at}, which is closer "
                "to zero than the line between its neighbors: omit this corner, or reduce others"
            )
        found.append((slope, e0 + slope * v0))
    found.append((0.0, float(effort.max())))
    if min(bound for _, bound in found) <= 0:
        raise InputError(f"{label}: the effort at velocity 0 must be {'above' if sign > 0 else 'below'} 0")
    return found
