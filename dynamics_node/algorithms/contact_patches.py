"""Contacts of one body as a patch with one wrench of at most six rows.

The wrenches of unit forces at the contacts are P G, with constant P (6, 6) and G (6, rows). S are the flags
of active contacts, and C = G S G^T depends on them alone. The forces lambda = S G^T y are the shortest ones
with the wrench P C y. The rows of active contacts, multiplied by G, are C P^T a = G S b: they are met by
least squares. C is singular while few contacts are active. There y is free, and N makes it zero: N is
positive where C is zero, and negligible elsewhere. With the acceleration l + L x by forces x along P, the
regular equation

    (C L C + N) y + C l = G S b

determines y, also of redundant contacts.
"""

from itertools import product
from typing import Any, NamedTuple

import numpy as np

from dynamics_node.algorithms.contact_equations import ContactEquation
from dynamics_node.symbolic import half_solved, skew, symmetric

SHORTEST = 0.01  # m; scale of moments of a patch of closer places
MOST = 8  # contacts of a patch: all sets of active ones are tried
CLEAR = 1e-3, 1e-13  # of C with diagonal entries near 1: pivots between are neither regular nor zero
IDLE = 2.0**-40  # far below the first, above rounding


class Patch(NamedTuple):
    """places: of its rows among those of all contacts; equation: with the P of the patch; scale (size,): of
    the columns of P; active: X (size, k) -> C X; gaps: l (size,) -> C l - G S b; idle (size, size): N; along:
    y -> x (size,); forces: y -> lambda (rows,)."""

    places: np.ndarray
    equation: ContactEquation
    scale: Any
    active: Any
    gaps: Any
    idle: np.ndarray
    along: Any
    forces: Any


def patches(touch, b) -> list[Patch]:
    """The patches of a PlacedContacts: the points and surfaces of a body, and single contacts. b (rows,):
    accelerations of active contacts along P, in units of rows."""
    ends = np.cumsum([0, *touch.sizes])
    rows = [np.arange(*ends[k : k + 2]) for k in range(len(touch.sizes))]
    members: dict[int, list[int]] = {}
    for k, equation in enumerate(touch.equations):
        key = -1 - k if equation.wheel or len(equation.sides) > 1 else equation.sides[0][0]
        members.setdefault(key, []).append(k)
    return [of for group in members.values() for of in _patches(touch, b, rows, group)]


def _patches(touch, b, rows, group):
    basis = _basis(touch, rows, group) if 1 < len(group) <= MOST else None
    if basis is None:
        return [_single(touch, b, rows[k], touch.equations[k]) for k in group]
    return [_several(touch, b, [rows[k] for k in group], touch.equations[group[0]].sides[0][0], basis)]


def _single(touch, b, rows, equation):
    s = touch.active[rows]
    return Patch(
        places=rows,
        equation=equation,
        scale=touch.units[rows],
        active=lambda X: s[:, None] * X,
        gaps=lambda a: s * (a - b[rows]),
        idle=np.diag(1.0 - s),
        along=lambda y: y,
        forces=lambda y: y,
    )


def _several(touch, b, rows, body, basis):
    P, parts = basis
    flags = [touch.active[own[0]] for own in rows]
    C = symmetric(sum(s * (G @ G.T) for s, G in zip(flags, parts, strict=True)))
    places, G = np.concatenate(rows), np.concatenate(parts, axis=1)
    s = touch.active[places]
    wanted = G @ (s * b[places])
    return Patch(
        places=places,
        equation=ContactEquation(((body, P),), None, (body, -1, np.zeros((6, 6))), P),
        scale=np.ones(6),
        active=lambda X: C @ X,
        gaps=lambda a: C @ a - wanted,
        idle=_idle(C),
        along=lambda y: C @ y,
        forces=lambda y: s * (G.T @ y),
    )


def _idle(C):
    """N: one where C is zero, and below IDLE^2 / C^2 elsewhere."""
    _, pivots, half = half_solved(C + IDLE * np.eye(6), np.eye(6))
    inverse = np.array([IDLE / pivot for pivot in pivots], dtype=object)
    T = symmetric(half.T @ (inverse[:, None] * half))
    return symmetric(T @ T)


def _basis(touch, rows, group):
    """P (6, 6), and G (6, rows) of every contact; None if a set of active contacts is nearly redundant.

    P are moments and forces about the center of the places, scaled so that C is near 1 if all are active.
    """
    wrenches = [touch.equations[k].sides[0][1] * touch.units[rows[k]] for k in group]
    places = np.array([_place(P[:, -3:]) for P in wrenches], dtype=float)
    center = places.sum(axis=0) / len(places)
    away = places - center
    length = max(float(np.sqrt((away * away).sum() / len(away))), SHORTEST)
    size, eye, zero = float(np.sqrt(len(group))), np.eye(3), np.zeros((3, 3))
    P = size * np.block([[length * eye, skew(center)], [zero, eye]])
    inverse = np.block([[eye / length, -skew(center) / length], [zero, eye]]) / size
    parts = [_cleaned(inverse @ wrench) for wrench in wrenches]
    squares = [G @ G.T for G in parts]
    sets = product((0.0, 1.0), repeat=len(group))
    clear = all(_is_clear(sum(s * C for s, C in zip(flags, squares, strict=True))) for flags in sets)
    return (P.astype(float), parts) if clear else None


def _place(P):
    """The point (3,) of unit forces with wrenches P (6, 3)."""
    r = P[:3] @ P[3:].T  # skew(r)
    return r[2, 1], r[0, 2], r[1, 0]


def _cleaned(G):
    G = np.array(G, dtype=float)
    return np.where(np.abs(G) < 1e-15, 0.0, G)


def _is_clear(C):
    """Whether every pivot of the symmetric C (6, 6), the largest first, is regular or zero."""
    C = np.array(C, dtype=float)
    for _ in range(len(C)):
        k = int(np.argmax(np.diag(C)))
        pivot = C[k, k]
        if not (pivot > CLEAR[0] or pivot < CLEAR[1]):
            return False
        if pivot > CLEAR[1]:
            C = C - np.outer(C[k], C[k]) / pivot
        C[k, :], C[:, k] = 0.0, 0.0
    return True
