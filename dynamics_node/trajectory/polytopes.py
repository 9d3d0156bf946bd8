"""Polytopes and ellipsoids of forces and accelerations, over batches.

A zonotope has a generator for each joint. In m dimensions, m - 1 generators span a facet: its normal is their
generalized cross product. Singular values scale the generators first, so that thin polytopes and mixed units
lose no digits; a flat one is computed in the space that it spans.

Vertices follow from signs, without Qhull. SciPy's HalfspaceIntersection raises QhullError at 24 of 30
positions of an eight-joint arm in six dimensions, needs a point inside, and takes 1.5 to 10 times as long.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations, product
from math import comb, prod
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.display import titled, with_field_repr
from dynamics_node.errors import InputError, SolutionError
from dynamics_node.functions.checks import numbers
from dynamics_node.symbolic import matvec, transpose

FLAT = 1e-9  # a polytope that is thinner, relative to its largest dimension, is flat
PARALLEL = 1e-12  # cosine between a direction and the normals to which it is perpendicular
DEPENDENT = 1e9  # inverse of the volume of unit vectors that are dependent
TIED = 1e-9  # sine between a facet and another generator in it; length of a generator that is zero
MOST_NUMBERS = 1_000_000  # at a time: 8 MB
MOST_FACETS = 5000  # pairs of facets of a state
MOST_JOINTS = 12  # for vertices: 4096 corners of the box of torques


@with_field_repr
class Ellipsoid(NamedTuple):
    """An ellipsoid: center + directions @ (lengths * x) for all x in the unit ball.

    Attributes
    ----------
    center : ndarray (..., m)
        Its center.
    directions : ndarray (..., m, m)
        Unit vectors of the semi-axes, in the columns, the longest one of an acceleration first.
    lengths : ndarray (..., m)
        Lengths of the semi-axes: infinite where joints need no torque, 0 where they cannot accelerate the
        link, NaN for an empty set.

    Examples
    --------
    >>> dn.Ellipsoid(np.zeros(2), np.eye(2), np.array([2.0, 1.0])).lengths
    array([2., 1.])
    """

    center: np.ndarray
    directions: np.ndarray
    lengths: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class Polytope:
    """A convex polytope: all x with normals @ x <= offsets.

    Attributes
    ----------
    normals : ndarray (..., k, m)
        Outer normals of k half-spaces. For forces, row i is the torque of joint i per unit of force. The
        upper limits of all joints come first, then the lower ones. For accelerations the rows are unit
        vectors, or zero where a state has fewer facets.
    offsets : ndarray (..., k)
        Right-hand sides.

    Examples
    --------
    >>> capability = dn.capability(robot, "panda_hand", robot.neutral(), backend="numpy")
    >>> capability.force
    Polytope
      normals  array (14, 3)
      offsets  array (14,)
    """

    normals: np.ndarray
    offsets: np.ndarray
    _vertices: Callable  # () -> vertices (k, m) of every state

    def __repr__(self):
        rows = {
            name: f"array {array.shape}"
            for name, array in (("normals", self.normals), ("offsets", self.offsets))
        }
        return titled("Polytope", **rows)

    def along(self, direction: ArrayLike) -> np.ndarray:
        """Compute the largest multiple of a unit vector in the polytope.

        Its components perpendicular to the direction are zero.

        Parameters
        ----------
        direction : array_like (..., m)
            A vector of any length.

        Returns
        -------
        ndarray (...,)
            The largest s >= 0 for which s times the unit vector is in the polytope. It is infinite without
            a bound, and NaN if there is no such s.

        Raises
        ------
        InputError
            For a zero direction.

        Examples
        --------
        >>> q = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.5, 0.8])
        >>> capability = dn.capability(robot, "panda_hand", q, backend="numpy")
        >>> print(capability.force.along([0.0, 0.0, 1.0]).round(1))  # N, upward
        110.5
        """
        unit = unit_vectors(direction, self.normals.shape[-1])
        slopes = matvec(self.normals, unit)
        slopes = np.where(np.abs(slopes) <= PARALLEL * np.linalg.norm(self.normals, axis=-1), 0.0, slopes)
        steps = np.divide(self.offsets, slopes, out=np.zeros_like(slopes), where=slopes != 0)
        most = np.where(slopes > 0, steps, np.inf).min(axis=-1, initial=np.inf)
        least = np.where(slopes < 0, steps, 0.0).max(axis=-1, initial=0.0)
        none = (most < least) | ((slopes == 0) & (self.offsets < 0)).any(axis=-1)
        return np.where(none, np.nan, most)[()]

    def vertices(self) -> np.ndarray:
        """Compute the vertices, state by state.

        Returns
        -------
        ndarray (..., k, m)
            The vertices of every state, followed by rows of NaN if another state has more.

        Raises
        ------
        SolutionError
            For an unbounded polytope of forces: some force needs no torque at this position.
        InputError
            If more than 12 joints move the link.

        Examples
        --------
        >>> q = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.5, 0.8])
        >>> capability = dn.capability(robot, "panda_hand", q, backend="numpy")
        >>> capability.acceleration.vertices().shape
        (44, 3)
        """
        found = self._vertices()
        vertices = np.full((len(found), max(map(len, found), default=0), self.normals.shape[-1]), np.nan)
        for place, points in zip(vertices, found, strict=True):
            place[: len(points)] = points
        return vertices.reshape(*self.offsets.shape[:-1], *vertices.shape[1:])


def unit_vectors(direction, size):
    """The direction (..., size) as unit vectors. Raises InputError."""
    array = numbers("direction", direction)
    if array.shape[-1:] != (size,):
        raise InputError(f"direction must have shape (..., {size}), not {array.shape}")
    length = np.linalg.norm(array, axis=-1, keepdims=True)
    if not (np.isfinite(length) & (length > 0)).all():
        raise InputError("direction must be finite, and not zero")
    return array / length


# --- zonotopes: images of a box -----------------------------------------------------------------------------


def zonotope(center, generators) -> Polytope:
    """The Polytope of center (..., m) + generators (..., m, n) @ x, |x_i| <= 1. Raises InputError for too
    many facets."""
    *batch, m, n = generators.shape
    states = prod(batch)
    c, G = center.reshape(states, m), generators.reshape(states, m, n)
    G = G[:, :, G.any(axis=(0, 1))]
    spans = _spans(G)
    normals, flat = _facet_normals(spans, m)
    reach = np.abs(normals @ G).sum(axis=-1)
    reach += np.where(flat, FLAT * reach.max(axis=-1, initial=0.0, keepdims=True), 0.0)
    middle = matvec(normals, c)
    return Polytope(
        np.concatenate([normals, -normals], axis=1).reshape(*batch, 2 * normals.shape[1], m),
        np.concatenate([reach + middle, reach - middle], axis=1).reshape(*batch, 2 * normals.shape[1]),
        partial(_zonotope_vertices, c, G, spans),
    )


class _Span(NamedTuple):
    """States (s,) whose generators, (U[:, :, :r] * sizes) @ V, span r dimensions: U (s, m, m), sizes (s, r),
    V (s, r, n)."""

    states: np.ndarray
    U: np.ndarray
    sizes: np.ndarray
    V: np.ndarray


def _spans(G) -> list[_Span]:
    """The spans of generators (states, m, n), one for each dimension. Raises InputError."""
    m, n = G.shape[1:]
    U, sizes, V = np.linalg.svd(G, full_matrices=n < m)
    ranks = (sizes > FLAT * sizes[:, :1]).sum(axis=-1)
    groups = [(r, np.flatnonzero(ranks == r)) for r in np.unique(ranks).tolist()]
    if any(r and comb(n, r - 1) > MOST_FACETS for r, _ in groups):
        raise InputError(
            f"{n} joints give more than {MOST_FACETS} facets in {m} dimensions: choose fewer axes"
        )
    return [_Span(states, U[states], sizes[states, :r], V[states, :r]) for r, states in groups]


def _facet_normals(spans, m):
    """Unit normals (states, k, m) of the facets, one of two opposite ones, and which are those (states, k) of
    the space of a flat zonotope; normals are zero beyond its facets."""
    rows = [
        np.concatenate([_facets(span), transpose(span.U[:, :, span.sizes.shape[1] :])], axis=1)
        for span in spans
    ]
    states = sum(len(span.states) for span in spans)
    normals = np.zeros((states, max((facets.shape[1] for facets in rows), default=0), m))
    flat = np.zeros(normals.shape[:2], dtype=bool)
    for span, facets in zip(spans, rows, strict=True):
        count, missing = facets.shape[1], m - span.sizes.shape[1]
        normals[span.states, :count] = facets
        flat[span.states, count - missing : count] = True
    lengths = np.linalg.norm(normals, axis=-1, keepdims=True)
    return np.divide(normals, lengths, out=normals, where=lengths > 0), flat


def _facets(span):
    """Normals (s, k, m) of the facets of a span."""
    r = span.sizes.shape[1]
    if r == 0:
        return np.zeros((len(span.states), 0, span.U.shape[1]))
    return _crosses(span.V)[1] / span.sizes[:, None] @ transpose(span.U[:, :, :r])


def _crosses(V):
    """Each choice of r - 1 of the n columns of V (s, r, n), as indices (k, r - 1), and vectors (s, k, r)
    perpendicular to them."""
    r, n = V.shape[1:]
    choices = np.array(list(combinations(range(n), r - 1)), dtype=int)
    chosen = np.moveaxis(V[:, :, choices], 1, 2)  # (s, k, r, r - 1)
    if r == 3:
        return choices, np.cross(chosen[..., 0], chosen[..., 1])
    minors = [(-1) ** k * np.linalg.det(np.delete(chosen, k, axis=2)) for k in range(r)]
    return choices, np.stack(minors, axis=-1)


def _zonotope_vertices(c, G, spans):
    """Vertices (k, m) of every state: images of corners of the box."""
    _require_few(G.shape[2])
    found = [vertex[None] for vertex in c]
    for span in spans:
        if span.V.shape[1]:
            for state, cocircuits in zip(span.states, _cocircuits(span.V), strict=True):
                moving = cocircuits.any(axis=0)
                found[state] = c[state] + _topes(cocircuits[:, moving]) @ G[state][:, moving].T
    return found


def _cocircuits(V):
    """The sides (s, k, n), 1, -1 or 0, of the generators V (s, r, n) from the planes through r - 1 of them; 0
    for those that span no plane."""
    choices, normals = _crosses(V)
    lengths, areas = np.linalg.norm(V, axis=1), np.linalg.norm(normals, axis=-1)
    heights = normals @ V
    np.put_along_axis(heights, np.broadcast_to(choices, (len(V), *choices.shape)), 0.0, axis=-1)
    apart = np.abs(heights) > TIED * areas[..., None] * lengths[:, None]
    spanned = areas * DEPENDENT > lengths[:, choices].prod(axis=-1)
    return np.where(apart & spanned[..., None] & (lengths > TIED)[:, None], np.sign(heights), 0.0)


def _topes(cocircuits):
    """The corners (count, n) of the box whose images are vertices of a zonotope: a direction exists in which
    each generator is on the side of its sign. The cocircuits that agree with such signs, where they are not
    zero, then leave none of them out (Bjoerner and others, Oriented Matroids, 1999, section 3.7)."""
    corners, sizes = _corners(cocircuits.shape[1]), np.abs(cocircuits)
    agree = np.abs(corners @ cocircuits.T) == sizes.sum(axis=1)  # or their opposites
    return corners[(agree.astype(float) @ sizes > 0).all(axis=1)]


@cache
def _corners(n):
    """The corners (2^n, n) of the box from -1 to 1."""
    return np.array(list(product((-1.0, 1.0), repeat=n)))


def _require_few(n):
    if n > MOST_JOINTS:
        raise InputError(f"vertices are for at most {MOST_JOINTS} joints that move the link, not {n}")


# --- intersections of slabs ---------------------------------------------------------------------------------


def slabs(columns, low, high) -> Polytope:
    """The Polytope of all x (..., m) with low <= columns^T x <= high (..., n), columns (..., m, n)."""
    rows = transpose(columns)
    *batch, n, m = rows.shape
    states = prod(batch)
    return Polytope(
        np.concatenate([rows, -rows], axis=-2),
        np.concatenate([high, -low], axis=-1),
        partial(_slab_vertices, rows.reshape(states, n, m), low.reshape(states, n), high.reshape(states, n)),
    )


def _slab_vertices(rows, low, high):
    """Vertices (k, m) of every state: points in which m planes meet."""
    states, n, m = rows.shape
    if not states:
        return []
    moving = np.flatnonzero(rows.any(axis=(0, 2)))
    _require_few(len(moving))
    U, sizes, V = np.linalg.svd(rows, full_matrices=False)
    open_states = ~(sizes > FLAT * sizes[:, :1]).all(axis=1) if n >= m else np.ones(states, dtype=bool)
    if open_states.any():
        raise SolutionError(
            f"the polytope of forces is unbounded at state {open_states.argmax()}: some force needs no torque"
        )
    choices = np.array(list(combinations(moving, m)))
    sides = np.array(list(product((False, True), repeat=m)))
    step = max(1, MOST_NUMBERS // (len(choices) * len(sides) * n))
    found = []
    for k in range(0, states, step):
        part = slice(k, k + step)
        met = _meeting_points(U[part], low[part], high[part], choices, sides)
        found += [y / size @ turn for y, size, turn in zip(met, sizes[part], V[part], strict=True)]
    return found


def _meeting_points(rows, low, high, choices, sides):
    """For each state the points (k, m) in low <= rows (n, m) y <= high in which m or more planes meet.
    choices (c, m): of planes; sides (2^m, m): whether it is the upper one."""
    m, moving = rows.shape[-1], np.unique(choices)
    planes = rows[:, choices]  # (states, c, m, m)
    regular = np.abs(np.linalg.det(planes)) * DEPENDENT > np.linalg.norm(planes, axis=-1).prod(axis=-1)
    planes = np.where(regular[..., None, None], planes, np.eye(m))
    bounds = np.where(sides.T, high[:, choices, None], low[:, choices, None])  # (states, c, m, 2^m)
    y = np.swapaxes(np.linalg.solve(planes, bounds), -1, -2).reshape(len(rows), -1, m)
    heights, slack = y @ transpose(rows), FLAT * (high - low)[:, None]
    above, below = heights - high[:, None], low[:, None] - heights
    inside = (np.maximum(above, below) <= slack).all(axis=-1) & np.repeat(regular, len(sides), axis=1)
    at = np.concatenate([(np.abs(gap) <= slack)[..., moving] for gap in (above, below)], axis=-1)
    codes = at @ (1 << np.arange(2 * len(moving)))  # of the planes through a point
    firsts = [np.unique(code[good], return_index=True)[1] for code, good in zip(codes, inside, strict=True)]
    return [points[good][first] for points, good, first in zip(y, inside, firsts, strict=True)]
