"""Links that look alike, up to axes exchanged and mirrored: left and right legs, fingers of a hand.

What looks alike should weigh alike. That tells more than a link's own solid does: signs, and axes.
"""

from itertools import permutations, product
from typing import NamedTuple

import numpy as np

from dynamics_node.identification.doctor.oddness import second_moments

ALIKE = 0.01  # what solids of sisters may differ in, beside their size
CLOSE = 0.03  # ... and their inertias, usually
_SIGNED = np.array(
    [
        np.diag(signs) @ np.eye(3)[list(order)]
        for order in permutations(range(3))
        for signs in product((1, -1), repeat=3)
    ]
)


class Sister(NamedTuple):
    """place of another link; ways (n, 3, 3): the turns and mirrors by which its solid becomes this one's."""

    place: int
    ways: np.ndarray


def find_sisters(solids):
    """For each of a sequence of Solids a tuple of Sister."""
    found: list[list[Sister]] = [[] for _ in solids]
    for i, one in enumerate(solids):
        for j, other in enumerate(solids[:i]):
            if abs(one.volume - other.volume) > 3 * ALIKE * one.volume:
                continue
            ways = _ways(one, other)
            if len(ways):
                found[i].append(Sister(j, ways))
                found[j].append(Sister(i, ways.transpose(0, 2, 1)))
    return [tuple(sisters) for sisters in found]


def _ways(one, other):
    """(n, 3, 3): Q with Q other = one."""
    size = one.diagonal
    centres = np.abs(_SIGNED @ other.centre - one.centre).max(axis=1) < ALIKE * size
    seconds = _SIGNED @ other.second @ _SIGNED.transpose(0, 2, 1)
    alike = np.abs(seconds - one.second).max(axis=(1, 2)) < ALIKE * np.trace(one.second)
    corners = np.sort(_SIGNED @ np.array([other.low, other.high]).T, axis=2)
    boxes = np.abs(corners - np.array([one.low, one.high]).T).max(axis=(1, 2)) < ALIKE * size
    return _SIGNED[centres & alike & boxes]


def strangeness(inertials, solid, sisters, others):
    """(n,): how far n Inertials of one link, stacked, are from the nearest of its sisters, as minus the
    logarithm of a likelihood; 0 for a link without. others: the Inertials of all links, None of those that
    are no measure."""
    nearest = np.full(len(inertials.mass), np.inf)
    size, own = np.trace(solid.second), second_moments(inertials)
    for sister in sisters:
        other = others[sister.place]
        if other is None:
            continue
        spread = sister.ways @ second_moments(other) @ sister.ways.transpose(0, 2, 1)
        com = sister.ways @ other.com
        mass = np.log(inertials.mass / other.mass)[:, None]
        away = np.linalg.norm(inertials.com[:, None] - com, axis=2) / np.sqrt(size)
        apart = np.linalg.norm(own[:, None] - spread, axis=(2, 3)) / size
        nearest = np.minimum(nearest, (mass**2 + away**2 + apart**2).min(axis=1))
    return np.where(np.isfinite(nearest), np.log1p(np.minimum(nearest, 1.0) / CLOSE**2), 0.0)
