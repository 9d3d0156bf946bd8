"""A drawing of a link in three projections, with the ellipsoid and the box of its inertia."""

from itertools import product

import numpy as np

from dynamics_node.identification.doctor.evidence import ellipsoid

SIDE = 240  # of a view, in SVG units
MARGIN = 12
VIEWS = ((0, 1), (0, 2), (1, 2))  # axes to the right and up
LARGEST_VIEW = 4.0  # link sizes: larger or more distant inertias are omitted, with a note


def draw_link(inertial, geometry) -> str:
    """One <svg> with three views side by side, of convex hulls: the doctor weighs these, too."""
    shapes = [surface.reshape(-1, 3) for surface in geometry.surfaces]
    inertia = ellipsoid(inertial) if inertial.mass > 0 else None
    square = edges = None
    if inertia is not None and np.isfinite(inertia.sides).all() and inertia.sides.max() > 0:
        square = (inertia.axes * inertia.half_axes**2) @ inertia.axes.T  # x^T square^-1 x <= 1
        edges = _box_edges(inertia)
    low, high, note = _bounds(shapes, inertia, square, edges)
    scale = (SIDE - 2 * MARGIN) / max(float((high - low).max()), 1e-9)
    views = []
    for number, axes in enumerate(VIEWS):
        at = list(axes)

        def place(points, at=at):
            return (points[..., at] - 0.5 * (low + high)[at]) * scale * (1, -1) + SIDE / 2

        parts = [f'<path fill="#c9ced6" d="{_path(_outline(place(shape)))}z"/>' for shape in shapes]
        if inertia is not None and edges is not None and square is not None:
            parts.append(_ellipse(square[np.ix_(at, at)] * scale**2, place(inertia.center)))
            box = "".join(map(_path, place(edges)))
            parts.append(f'<path stroke="#c4572b" stroke-width="1.2" d="{box}"/>')
        if inertia is not None:
            x, y = place(inertia.center)
            parts.append(f'<circle fill="#2f6fb5" cx="{x:.1f}" cy="{y:.1f}" r="3"/>')
        x, y = place(np.zeros(3))
        parts.append(f'<path stroke="#222" d="M{x - 5:.1f} {y:.1f}h10M{x:.1f} {y - 5:.1f}v10"/>')
        right, up = ("xyz"[axis] for axis in axes)
        parts.append(f'<text x="6" y="{SIDE - 6}">{right} right, {up} up</text>')
        views.append(f'<svg x="{number * SIDE}" width="{SIDE}" height="{SIDE}">{"".join(parts)}</svg>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {3 * SIDE} {SIDE}" width="{3 * SIDE}" '
        f'font-family="sans-serif" font-size="11">{"".join(views)}{_bar(scale)}'
        f'<text x="6" y="14">{note}</text></svg>'
    )


def _bounds(shapes, inertia, square, edges):
    """Bounds of the views: the link, and its inertia unless that is far too large; and a note."""
    points = np.concatenate([*shapes, np.zeros((0, 3))])
    every, note = points, ""
    if edges is not None:
        far = np.sqrt(np.diag(square))  # of the ellipsoid along the axes
        every = np.concatenate([points, edges.reshape(-1, 3), inertia.center + np.array([-far, far])])
        if len(points) and np.ptp(every, axis=0).max() > LARGEST_VIEW * np.ptp(points, axis=0).max():
            every, note = points, "the inertia is far larger or more distant than this view"
    elif inertia is not None:
        every = np.concatenate([points, inertia.center[None]])
    if not len(every):
        return -0.1 * np.ones(3), 0.1 * np.ones(3), note
    return every.min(axis=0), every.max(axis=0), note


def _outline(points):
    """Corners (n, 2) of the convex hull of points (m, 2)."""
    from scipy.spatial import ConvexHull  # takes 0.2 s to import

    return points[ConvexHull(points, qhull_options="QJ").vertices]


def _box_edges(inertia):
    """Ends (12, 2, 3) of the edges of the box."""
    corners = np.array(list(product((-0.5, 0.5), repeat=3)))
    pairs = [(a, b) for a in corners for b in corners if (a != b).sum() == 1 and (b >= a).all()]
    return inertia.center + (np.array(pairs) * inertia.sides) @ inertia.axes.T


def _path(points):
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _ellipse(square, center):
    """x^T square^-1 x <= 1 about the center, with y up."""
    squares, axes = np.linalg.eigh(square)
    turn = -np.degrees(np.arctan2(axes[1, 1], axes[0, 1]))
    rx, ry = (max(r, 0.5) for r in np.sqrt(np.maximum(squares[::-1], 0)))
    return (
        f'<ellipse fill="#2f6fb522" stroke="#2f6fb5" stroke-width="1.5" rx="{rx:.1f}" ry="{ry:.1f}" '
        f'transform="translate({center[0]:.1f} {center[1]:.1f}) rotate({turn:.1f})"/>'
    )


def _bar(scale):
    """A scale bar."""
    length = 10.0 ** np.floor(np.log10(SIDE / 2 / scale))
    label = f"{length:g} m" if length >= 1 else f"{1000 * length:g} mm"
    end, wide = 3 * SIDE - 8, length * scale
    line = f'<path stroke="#222" stroke-width="1.5" d="M{end - wide:.1f} {SIDE - 8}h{wide:.1f}"/>'
    return f'{line}<text x="{end}" y="{SIDE - 12}" text-anchor="end">{label}</text>'
