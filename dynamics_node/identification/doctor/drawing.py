"""A link in three projections: what it looks like, the ellipsoid and the box of its inertia. SVG text."""

import numpy as np

from dynamics_node.identification.doctor.evidence import ellipsoid
from dynamics_node.identification.doctor.solids import box

SIDE = 240  # of a view, in units of the drawing
MARGIN = 12
CELLS = 56  # along a link: corners of its triangles that share one become one
MOST = 2000  # triangles of a link that are drawn
VIEWS = (("x", "y", (0, 1)), ("x", "z", (0, 2)), ("y", "z", (1, 2)))
SHOWN = 4.0  # what is larger or farther away than so many links is left out, and said


def draw_link(inertial, geometry) -> str:
    """One <svg> with the three views side by side."""
    triangles = [_coarse(surface, MOST // len(geometry.surfaces)) for surface in geometry.surfaces]
    corners = np.concatenate([surface.reshape(-1, 3) for surface in geometry.surfaces] or [np.zeros((0, 3))])
    shape = ellipsoid(inertial) if inertial.mass > 0 else None
    edges = None
    if shape is not None and np.isfinite(shape.sides).all() and shape.sides.max() > 0:
        edges = shape.centre + box(np.maximum(shape.sides, 1e-9)) @ shape.axes.T
    low, high, note = _bounds(corners, edges, shape)
    scale = (SIDE - 2 * MARGIN) / max(float((high - low).max()), 1e-9)
    middle = 0.5 * (low + high)
    views = []
    for k, (across, up, axes) in enumerate(VIEWS):
        at = list(axes)

        def place(points, at=at):
            flat = (points[..., at] - middle[at]) * scale * (1, -1)
            return flat + SIDE / 2

        parts = [f'<path class="look" d="{_filled(place(own))}"/>' for own in triangles if len(own)]
        if shape is not None and edges is not None:
            parts.append(_ellipse(shape, at, place, scale))
            parts.append(f'<path class="box" d="{_hull_edges(edges, place)}"/>')
        if shape is not None:
            x, y = place(shape.centre)
            parts.append(f'<circle class="com" cx="{x:.1f}" cy="{y:.1f}" r="3"/>')
        x, y = place(np.zeros(3))
        parts.append(f'<path class="origin" d="M{x - 5:.1f} {y:.1f}h10M{x:.1f} {y - 5:.1f}v10"/>')
        parts.append(f'<text x="6" y="{SIDE - 6}">{across} right, {up} up</text>')
        views.append(f'<svg x="{k * SIDE}" width="{SIDE}" height="{SIDE}">{"".join(parts)}</svg>')
    if note:
        views.append(f'<text x="6" y="14">{note}</text>')
    bar = _bar(scale)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {3 * SIDE} {SIDE}" width="{3 * SIDE}">'
        f"{''.join(views)}{bar}</svg>"
    )


def _bounds(corners, edges, shape):
    """What the views show: the link, and its inertia unless that is far too large."""
    points = corners
    if edges is not None:
        reach = np.sqrt(np.diag(_square(shape)))  # of the ellipsoid, along the axes
        around = shape.centre + np.array([-reach, reach])
        every = np.concatenate([corners, edges.reshape(-1, 3), around])
        own = np.ptp(corners, axis=0).max() if len(corners) else np.inf
        if np.ptp(every, axis=0).max() <= SHOWN * own:
            points = every
        else:
            return (
                corners.min(axis=0),
                corners.max(axis=0),
                "the inertia is far larger or farther away than this",
            )
    elif shape is not None:
        points = np.concatenate([corners, shape.centre[None]])
    if not len(points):
        return -0.1 * np.ones(3), 0.1 * np.ones(3), ""
    return points.min(axis=0), points.max(axis=0), ""


def _coarse(triangles, most):
    """(n, 3, 3), at most so many, with corners on a coarse lattice, no two alike."""
    points = triangles.reshape(-1, 3)
    low, size = points.min(axis=0), max(float(np.ptp(points, axis=0).max()), 1e-9)
    cells = CELLS
    while True:
        corners = np.round((triangles - low) / size * cells)
        flat = (corners[:, 0] == corners[:, 1]).all(1) | (corners[:, 1] == corners[:, 2]).all(1)
        flat |= (corners[:, 0] == corners[:, 2]).all(1)
        kept = np.unique(corners[~flat], axis=0)
        if len(kept) <= most or cells <= 8:
            return kept[:most] / cells * size + low
        cells //= 2


def _filled(places):
    """Path data of triangles (n, 3, 2), all turned the same way, so that none is a hole in another."""
    places = places.round()
    (ax, ay), (bx, by), (cx, cy) = np.moveaxis(places, 0, -1)
    area = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
    places = np.where((area < 0)[:, None, None], places[:, ::-1], places)[area != 0]
    steps = np.concatenate([places[:, :1], np.diff(places, axis=1)], axis=1).reshape(-1, 6)
    return "".join(
        "M{:.0f} {:.0f}l{:.0f} {:.0f} {:.0f} {:.0f}z".format(*one) for one in np.unique(steps, axis=0)
    )


def _hull_edges(triangles, place):
    """Path data of the edges of a box whose sides are cut into triangles: the diagonals are left out."""
    corners = np.unique(triangles.reshape(-1, 3).round(12), axis=0)
    seen = []
    for one in triangles:
        for a, b, c in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
            if abs((one[a] - one[c]) @ (one[b] - one[c])) < 1e-6 * max(
                np.ptp(corners, axis=0).max() ** 2, 1e-18
            ):
                continue
            seen.append(place(one[[a, b]]))
    return "".join("M{:.1f} {:.1f}L{:.1f} {:.1f}".format(*edge.ravel()) for edge in seen)


def _square(shape):
    """A (3, 3) of the ellipsoid x^T A^-1 x <= 1 about its centre."""
    return (shape.axes * shape.half_axes**2) @ shape.axes.T


def _ellipse(shape, at, place, scale):
    squares, axes = np.linalg.eigh(_square(shape)[np.ix_(at, at)])
    x, y = place(shape.centre)
    turn = -np.degrees(np.arctan2(axes[1, 1], axes[0, 1]))
    rx, ry = (max(r, 0.5) for r in scale * np.sqrt(np.maximum(squares[::-1], 0)))
    return (
        f'<ellipse class="inertia" rx="{rx:.1f}" ry="{ry:.1f}" '
        f'transform="translate({x:.1f} {y:.1f}) rotate({turn:.1f})"/>'
    )


def _bar(scale):
    """A length to compare with."""
    length = 10.0 ** np.floor(np.log10(SIDE / 2 / scale))
    text = f"{length:g} m" if length >= 1 else f"{1000 * length:g} mm"
    x = 3 * SIDE - 8 - length * scale
    line = f'<path class="bar" d="M{x:.1f} {SIDE - 8}h{length * scale:.1f}"/>'
    return f'{line}<text x="{3 * SIDE - 8}" y="{SIDE - 12}" text-anchor="end">{text}</text>'
