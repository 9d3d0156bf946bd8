"""The equations of the constraints, on symbols: phi(q) = 0 for closed positions.

Everything else is derived: K = dphi/dq, and in `algorithms` the right-hand side k of K qdd = k. So any kind
of constraint, also a Python function, needs its phi only. Equations of a cluster that others imply are left
out: planar loops may be written as spatial ones.
"""

from dataclasses import dataclass, field
from functools import lru_cache, wraps
from typing import Any, NamedTuple

import numpy as np

from dynamics_node.robot.constraints import LoopJoint
from dynamics_node.robot.grouping import last_common, members_of
from dynamics_node.robot.robot import cached_on_robot
from dynamics_node.robot.transforms import joint_transforms
from dynamics_node.symbolic import (
    Program,
    derivative_name,
    dot,
    interpret,
    jacobian,
    pivoted,
    power_of_two,
    product,
    skew,
    trace,
)

PAST = 1.5  # above 1: sin(x) (1 + PAST) / (PAST + cos(x)) is near x up to 150 degrees


def equations(tree, constraints, q):
    """phi (rows,) of some constraints at symbols q (nq,)."""
    return np.concatenate([np.zeros(0), *_equations(tree, constraints, q)])


def _equations(tree, constraints, q):
    X_up = joint_transforms(tree, q, _posed(tree, constraints))
    return [_phi(tree, X_up, constraint, q) for constraint in constraints]


def _phi(tree, X_up, constraint, q):
    """phi of a constraint; that of a loop joint in the frame of the last body on both paths."""
    if isinstance(constraint, LoopJoint):
        (P, p), (S, s) = end_frames(tree, X_up, constraint)
        return np.array(constraint.type.phi(constraint, P, S, p - s), dtype=object)
    at = {joint.v.start: joint.q.start for joint in tree.independent_joints}
    return np.atleast_1d(constraint.function(q[[at[v] for v in constraint.coordinates]]))


def _posed(tree, constraints):
    """The bodies whose poses the equations need, in order."""
    loops = [constraint for constraint in constraints if isinstance(constraint, LoopJoint)]
    return sorted(set().union(*(members_of(tree, loop) for loop in loops)))


def gaps(tree, constraints, q):
    """phi (rows,) in m, rad or 1: d^2 - L^2 of a rod over 2 L is its excess length."""
    pairs = zip(constraints, _equations(tree, constraints, q), strict=True)
    return np.concatenate([np.zeros(0), *(phi / scale_of(constraint) for constraint, phi in pairs)])


def scale_of(constraint):
    """The divisor that makes phi of a constraint m, rad or 1."""
    return constraint.type.scale(constraint) if isinstance(constraint, LoopJoint) else 1.0


def turned(tree, constraints, q):
    """1 minus the cosine for every direction that both ends of a loop share, at symbols q: the equations
    alone also hold with the ends half a turn apart, or with permuted axes."""
    X_up = joint_transforms(tree, q, _posed(tree, constraints))
    loops = [loop for loop in constraints if isinstance(loop, LoopJoint)]
    terms = [1.0 - one for loop in loops for one in _cosines(loop, *end_frames(tree, X_up, loop))]
    return np.array(terms, dtype=object)


def _cosines(loop, predecessor, successor):
    (P, _), (S, _) = predecessor, successor
    return [dot(product(P, direction), product(S, direction)) for direction in loop.type.shared(loop)]


@dataclass(frozen=True)
class _Geometry:
    """The data of the equations of some constraints. It is equal if joints and the bodies and frames of the
    loops have the same geometry. Inertias, names and other bodies do not matter."""

    places: tuple
    tree: Any = field(compare=False)
    constraints: tuple = field(compare=False)


def _geometry(tree, constraints):
    places = [(i, tree.parents[i], *_place(tree.bodies[i])) for i in _posed(tree, constraints)]
    joints = [(joint.kind, joint.q.start, joint.v.start) for joint in tree.independent_joints]
    return _Geometry((*places, *joints, *map(_form, constraints)), tree, constraints)


def _place(body):
    joint = body.joint
    numbers = joint.kind, joint.q.start, joint.v.start, joint.masters, joint.offset
    return *numbers, *_numbers(body.X_tree, joint.axis)


def _form(constraint):
    """The data shared by equations of the same form."""
    if isinstance(constraint, LoopJoint):
        ends = constraint.predecessor, constraint.successor
        frames = *constraint.rotations, *constraint.origins, constraint.axis, constraint.second_axis
        return constraint.kind, *ends, *_numbers(*frames), constraint.length
    return constraint


def _numbers(*arrays):
    return [None if array is None else array.tobytes() for array in arrays]


def once_per_geometry(program):
    """program(tree, constraints), traced once per geometry: trees with inertias as inputs share it, and
    robots that are read again."""
    made = lru_cache(maxsize=256)(lambda geometry: program(geometry.tree, geometry.constraints))

    @lru_cache(maxsize=256)  # clusters of recent robots
    def of(tree, constraints):
        return made(_geometry(tree, constraints))

    return wraps(program)(of)


@once_per_geometry
def position_program(tree, constraints: tuple) -> Program:
    """q -> phi (rows,), K (rows, nv of the tree), gaps (rows,) and turned (any,)."""
    phi = trace(lambda q: {"phi": equations(tree, constraints, q)}, {"q": (tree.nq,)})
    K = jacobian(phi, ["phi"], ["q"])

    def function(q):
        return {
            "phi": interpret(phi, q=q)["phi"],
            "K": over_velocities(tree, q, interpret(K, q=q)[derivative_name("phi", "q")]),
            "gaps": gaps(tree, constraints, q),
            "turned": turned(tree, constraints, q),
        }

    return trace(function, {"q": (tree.nq,)})


def constraint_jacobian(tree, constraints, coordinates, q):
    """K (count, rows, coordinates) at q (count, nq), by some velocity coordinates of the tree."""
    return interpret(position_program(tree, constraints), q=q)["K"][:, :, list(coordinates)]


@once_per_geometry
def closing_program(tree, constraints: tuple) -> Program:
    """q -> open (rows,) and K (rows, nv of the tree) for Newton's method; gaps and turned as in
    `position_program`.

    phi is also zero with the ends of a loop half a turn apart, where Newton's method would end. Instead of
    its equations for directions, `open` has rotation vectors, and K relative angular velocities.
    """

    def parts(q):
        X_up = joint_transforms(tree, q, _posed(tree, constraints))
        parts = zip(*(_opening(tree, X_up, constraint, q) for constraint in constraints), strict=True)
        return dict(zip(("axes", "others"), (np.concatenate(part) for part in parts), strict=True))

    values = trace(parts, {"q": (tree.nq,)})
    derivatives = jacobian(values, ["axes", "others"], ["q"])

    def function(q):
        now, rates = interpret(values, q=q), interpret(derivatives, q=q)
        axes, others = (over_velocities(tree, q, rates[derivative_name(name, "q")]) for name in now)
        open_rows, K, at = [now["others"]], [others], 0
        for directions in (rows for rows in map(_directions, constraints) if len(rows)):
            size = directions.size
            open_rows.append(_rotation(directions, now["axes"][at : at + size].reshape(-1, 3)))
            K.append(_spin(now["axes"][at : at + size].reshape(-1, 3), axes[at : at + size]))
            at += size
        closed = {"gaps": gaps(tree, constraints, q), "turned": turned(tree, constraints, q)}
        return {"open": np.concatenate(open_rows), "K": np.concatenate(K), **closed}

    return trace(function, {"q": (tree.nq,)})


def _directions(constraint):
    """(0, 1 or 3, 3): the axis common to both ends of a constraint, or all three."""
    shared = constraint.type.shared(constraint) if isinstance(constraint, LoopJoint) else ()
    return np.eye(3) if len(shared) > 1 else np.array(shared).reshape(-1, 3)


def _opening(tree, X_up, constraint, q):
    """The directions of the predecessor in axes of the successor, and the other equations, in m, rad or 1."""
    if not isinstance(constraint, LoopJoint):
        return np.zeros(0), _phi(tree, X_up, constraint, q)
    (P, p), (S, s) = end_frames(tree, X_up, constraint)
    axes = [product(S.T, product(P, direction)) for direction in _directions(constraint)]
    others = constraint.type.others(constraint, P, S, p - s)
    return np.concatenate([np.zeros(0), *axes]), np.array(others, dtype=object) / scale_of(constraint)


def _rotation(directions, axes):
    """The rotation (3,) of directions (1 or 3, 3) to axes: along its axis, with a length near its angle. Half
    a turn gives zero, but a step of Newton's method leads away from it."""
    three = len(directions) == 3
    sine = sum(skew(n) @ axis for n, axis in zip(directions, axes, strict=True))
    cosine = sum(dot(n, axis) for n, axis in zip(directions, axes, strict=True))
    sine, cosine = (0.5 * sine, 0.5 * (cosine - 1.0)) if three else (sine, cosine)
    return sine * ((1.0 + PAST) / (PAST + cosine))


def _spin(axes, derivatives):
    """(3, nv): the angular velocity that moves axes (1 or 3, 3) with their derivatives (3 or 9, nv)."""
    rates = sum(skew(axis) @ derivatives[3 * k : 3 * k + 3] for k, axis in enumerate(axes))
    return 0.5 * rates if len(axes) == 3 else rates


def over_velocities(tree, q, derivative):
    """Derivatives (rows, nv) by velocity coordinates, from those by positions (rows, nq)."""
    out = np.zeros((len(derivative), tree.nv), dtype=object)
    for joint in tree.independent_joints:
        out[:, joint.v] = derivative[:, joint.q] @ joint.type.tangent(q[joint.q])
    return out


def end_frames(tree, X_up, loop: LoopJoint):
    """`frame_in` of the predecessor's and the successor's end, in the frame of the last body on both
    paths."""
    top = last_common(tree, loop.predecessor, loop.successor)
    ends = zip((loop.predecessor, loop.successor), loop.rotations, loop.origins, strict=True)
    return tuple(frame_in(tree, X_up, top, *end) for end in ends)


def frame_in(tree, X_up, top, body, rotation, origin):
    """Axes (columns of (3, 3)) and origin (3,) of a frame on a body, in the frame of `top`."""
    axes, place = [rotation[:, k] for k in range(3)], origin
    while body != top:
        axes = [X_up.vector_back(body, axis) for axis in axes]
        place = X_up.point_back(body, place)
        body = tree.parents[body]
    return np.stack(axes, axis=-1), place


# --- independent ones ---------------------------------------------------------------------------------------

RANK = 1e-7  # sizes relative to the largest that count as zero
NEAR = 1e-5  # the same near a singular position


class Counting(NamedTuple):
    """rows (m,): independent rows of K of a cluster; sizes (m,): their approximate norms over all
    coordinates."""

    rows: list[int]
    sizes: np.ndarray


@cached_on_robot
def counting_equations(tree, cluster) -> Counting:
    """The rows that no others imply with the same weights at every position.

    They depend on the frames of `tree` and the constraints. A row that others imply with changing weights
    (spherical linkages, double parallelograms) counts: without it the rest would be singular at some
    positions. Then there are more rows than dependent joints.
    """
    coordinates = [*cluster.independent, *cluster.dependent]
    K = constraint_jacobian(tree, cluster.constraints, coordinates, cluster.samples)
    rows = _independent_rows(np.swapaxes(K, 0, 1).reshape(K.shape[1], -1))
    return Counting(rows, power_of_two(np.median(np.linalg.norm(K[:, rows], axis=2), axis=0)))


def ranks_of(K, zero=RANK):
    """(count,) of matrices K (count, rows, n); zero: sizes relative to the largest that count as zero."""
    sizes = np.linalg.svd(K, compute_uv=False)
    return (sizes > zero * sizes[:, :1]).sum(axis=1)


def _independent_rows(K):
    """Numbers of rows of K (rows, any) that span all others."""
    sizes = np.linalg.norm(K, axis=1)
    there = np.flatnonzero(sizes > RANK * sizes.max(initial=0.0))
    order, left = pivoted(K[there] / sizes[there, None])
    return sorted(there[k].item() for k, size in zip(order, left, strict=True) if size > RANK)
