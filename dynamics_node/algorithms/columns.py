"""Jacobians of all bodies at once: the directions in which joints move each body, in its own axes."""

import numpy as np


def body_jacobians(model, X_up, starts=None):
    """[(places (k,), J (..., 6, k))] of every body: the coordinates of v that move it, and its velocity in
    body axes at its origin where one of them has rate 1.

    starts: [(..., 6, nv of the joint)] of every body, in place of the motion subspaces S: directions that are
    carried outward as these are.
    """
    starts = [body.joint.S for body in model.bodies] if starts is None else starts
    found: list[dict] = []
    for i, (body, parent) in enumerate(zip(model.bodies, model.parents, strict=True)):
        above = found[parent] if parent >= 0 else {}
        columns = {v: X_up.motion(i, column) for v, column in above.items()}
        for k, v in enumerate(range(model.nv)[body.joint.v]):
            own = starts[i][..., k]
            columns[v] = columns[v] + own if v in columns else own
        found.append(columns)
    return [(np.array(list(own)), _side_by_side(list(own.values()))) for own in found]


def _side_by_side(columns):
    return np.stack(np.broadcast_arrays(*columns), axis=-1)
