"""The equations of the constraints, on symbols: phi(q) = 0 for closed positions.

Everything else is derived: K = dphi/dq, and with K qd = 0 the right-hand side k = -(dK/dt) qd of K qdd = k.
So any kind of constraint, also a Python function, needs its phi only. Equations of a cluster that others
imply are left out: planar loops may be written as spatial ones.
"""

from dataclasses import dataclass, field
from functools import lru_cache, wraps
from typing import Any, NamedTuple

import numpy as np

from dynamics_node.algorithms.transforms import joint_transforms
from dynamics_node.robot.constraints import FunctionConstraint, LoopJoint
from dynamics_node.robot.robot import cached_on_robot
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
WORTH = 0.89  # of the operations of K and k by rates: those by positions share fewer expressions


def equations(tree, constraints, q):
    """phi (rows,) of some constraints at symbols q (nq,)."""
    return np.concatenate([np.zeros(0), *_equations(tree, constraints, q)])


def _equations(tree, constraints, q):
    X_up = _transforms(tree, constraints, q)
    return [_equation(constraint)(tree, X_up, constraint, q) for constraint in constraints]


def _transforms(tree, constraints, q):
    """Transforms of the bodies whose poses the equations need."""
    loops = [constraint for constraint in constraints if isinstance(constraint, LoopJoint)]
    return joint_transforms(tree, q, sorted(set().union(*(members_of(tree, loop) for loop in loops))))


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
    X_up = _transforms(tree, constraints, q)
    loops = [loop for loop in constraints if isinstance(loop, LoopJoint)]
    terms = [1.0 - one for loop in loops for one in _cosines(loop, *end_frames(tree, X_up, loop))]
    return np.array(terms, dtype=object)


def _cosines(loop, predecessor, successor):
    (P, _), (S, _) = predecessor, successor
    return [dot(product(P, direction), product(S, direction)) for direction in loop.type.shared(loop)]


@dataclass(frozen=True)
class _Geometry:
    """The data of the equations of some constraints. It is equal if joints and the bodies and frames of the
    loops have the same geometry. Inertias, names and other bodies do
    not matter."""

    places: tuple
    tree: Any = field(compare=False)
    constraints: tuple = field(compare=False)


def _geometry(tree, constraints):
    loops = [constraint for constraint in constraints if isinstance(constraint, LoopJoint)]
    members = sorted(set().union(*(members_of(tree, loop) for loop in loops)))
    places = [(i, tree.parents[i], *_place(tree.bodies[i])) for i in members]
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


def _once(program):
    """program(tree, constraints), traced once per geometry: trees with inertias as inputs share it, and
    robots that are read again."""
    made = lru_cache(maxsize=256)(lambda geometry: program(geometry.tree, geometry.constraints))

    @lru_cache(maxsize=256)  # clusters of recent robots
    def of(tree, constraints):
        return made(_geometry(tree, constraints))

    return wraps(program)(of)


@_once
def position_program(tree, constraints: tuple) -> Program:
    """q -> phi (rows,), K (rows, nv of the tree), gaps (rows,) and turned (any,)."""
    phi = trace(lambda q: {"phi": equations(tree, constraints, q)}, {"q": (tree.nq,)})
    K = jacobian(phi, ["phi"], ["q"])

    def function(q):
        return {
            "phi": interpret(phi, q=q)["phi"],
            "K": _over_velocities(tree, q, interpret(K, q=q)[derivative_name("phi", "q")]),
            "gaps": gaps(tree, constraints, q),
            "turned": turned(tree, constraints, q),
        }

    return trace(function, {"q": (tree.nq,)})


@_once
def closing_program(tree, constraints: tuple) -> Program:
    """q -> open (rows,) and K (rows, nv of the tree) for Newton's method; gaps and turned as in
    `position_program`.

    phi is also zero with the ends of a loop half a turn apart, where Newton's method would end. Instead of
    its equations for directions, `open` has rotation vectors, and K relative angular velocities.
    """

    def parts(q):
        X_up = _transforms(tree, constraints, q)
        parts = zip(*(_opening(tree, X_up, constraint, q) for constraint in constraints), strict=True)
        return dict(zip(("axes", "others"), (np.concatenate(part) for part in parts), strict=True))

    values = trace(parts, {"q": (tree.nq,)})
    derivatives = jacobian(values, ["axes", "others"], ["q"])

    def function(q):
        now, rates = interpret(values, q=q), interpret(derivatives, q=q)
        axes, others = (_over_velocities(tree, q, rates[derivative_name(name, "q")]) for name in now)
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
        return np.zeros(0), _custom(tree, X_up, constraint, q)
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


@_once
def velocity_program(tree, constraints: tuple) -> Program:
    """q, qd (of the tree) -> K (rows, nv) and k (rows,) with K qdd = k. k is computed in the way with fewer
    operations: for parallel axes by derivatives of K, for spatial motion by those of phi."""
    position = position_program(tree, constraints)
    K = position.outputs["K"] - position.input_size

    def program(right_hand_side):
        def function(q, qd):
            return {"K": interpret(position, q=q)["K"], "k": right_hand_side(q, qd)}

        return trace(function, {"q": (tree.nq,), "qd": (tree.nv,)})

    if np.isin(K, range(len(position.constants))).all():  # linear constraints
        return program(lambda q, qd: -np.zeros(len(K)))
    by_rates = program(_change_of_rates(tree, position))
    by_positions = program(_second_change(tree, constraints))
    return by_positions if len(by_positions.ops) < WORTH * len(by_rates.ops) else by_rates


@_once
def jerk_program(tree, constraints: tuple) -> Program:
    """q, qd (of the tree) -> change (rows,) of k in time, at constant rates."""
    velocity = velocity_program(tree, constraints)
    change = _along_motion(tree, lambda q, qd: interpret(velocity, q=q, qd=qd)["k"])
    return trace(lambda q, qd: {"change": change(q, qd)}, {"q": (tree.nq,), "qd": (tree.nv,)})


@_once
def change_program(tree, constraints: tuple) -> Program:
    """q, qd (of the tree), forces (rows,) -> change (nv of the tree,) = (dK/dt)^T forces along qd."""
    position = position_program(tree, constraints)

    def later(q, qd, forces, t):
        K = interpret(position, q=_moved(tree, q, qd, t))["K"]
        return {"f": K.T @ forces}

    (rows,) = position.outputs["phi"].shape
    shapes: dict[str, tuple[int, ...]] = {"q": (tree.nq,), "qd": (tree.nv,), "forces": (rows,)}
    change = jacobian(trace(later, {**shapes, "t": (1,)}), ["f"], ["t"])

    def function(**arrays):
        derivatives = interpret(change, **arrays, t=np.zeros(1))
        return {"change": derivatives[derivative_name("f", "t")][:, 0]}

    return trace(function, shapes)


def _change_of_rates(tree, position):
    """k(q, qd) = -(dK/dt) qd, by the derivatives of K qd."""
    rates = trace(
        lambda q, qd: {"rate": interpret(position, q=q)["K"] @ qd}, {"q": (tree.nq,), "qd": (tree.nv,)}
    )
    change = jacobian(rates, ["rate"], ["q"])

    def k(q, qd):
        derivative = interpret(change, q=q, qd=qd)[derivative_name("rate", "q")]
        return -(_over_velocities(tree, q, derivative) @ qd)

    return k


def _second_change(tree, constraints):
    """k(q, qd): minus the second time derivative of phi at constant rates."""
    first = _along_motion(tree, lambda q, qd: equations(tree, constraints, q))
    second = _along_motion(tree, first)
    return lambda q, qd: -second(q, qd)


def _along_motion(tree, function):
    """The time derivative of function(q, qd) (rows,) at constant rates."""

    def later(q, qd, t):
        return {"f": function(_moved(tree, q, qd, t), qd)}

    shapes: dict[str, tuple[int, ...]] = {"q": (tree.nq,), "qd": (tree.nv,), "t": (1,)}
    change = jacobian(trace(later, shapes), ["f"], ["t"])

    def derivative(q, qd):
        return interpret(change, q=q, qd=qd, t=np.zeros(1))[derivative_name("f", "t")][:, 0]

    return derivative


def _moved(tree, q, qd, t):
    """Positions after a short time t (1,) at rates qd, to first order."""
    moved = np.array(q, dtype=object)
    for joint in tree.independent_joints:
        moved[joint.q] = q[joint.q] + t[0] * (joint.type.tangent(q[joint.q]) @ qd[joint.v])
    return moved


def _over_velocities(tree, q, derivative):
    """Derivatives (rows, nv) by velocity coordinates, from those by positions (rows, nq)."""
    out = np.zeros((len(derivative), tree.nv), dtype=object)
    for joint in tree.independent_joints:
        out[:, joint.v] = derivative[:, joint.q] @ joint.type.tangent(q[joint.q])
    return out


# --- one function for each type of constraint ---------------------------------------------------------------


def _custom(tree, X_up, constraint: FunctionConstraint, q):
    at = {joint.v.start: joint.q.start for joint in tree.independent_joints}
    return np.atleast_1d(constraint.function(q[[at[v] for v in constraint.coordinates]]))


def _loop(tree, X_up, loop: LoopJoint, q):
    """phi of a loop joint from the frames of both ends, in the frame of the last body on both paths."""
    (P, p), (S, s) = end_frames(tree, X_up, loop)
    return np.array(loop.type.phi(loop, P, S, p - s), dtype=object)


def end_frames(tree, X_up, loop: LoopJoint):
    """`frame_in` of the predecessor's and the successor's end, in the frame of the last body on both
    paths."""
    top = common_ancestor(tree, loop.predecessor, loop.successor)
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


def common_ancestor(tree, a, b):
    """The last body on both paths from the root, -1 for the root."""
    above = set(tree.ancestors[a]) if a >= 0 else set()
    shared = [body for body in (tree.ancestors[b] if b >= 0 else ()) if body in above]
    return shared[-1] if shared else -1


def path(tree, top, body):
    """Bodies from below `top` to `body`."""
    above = tree.ancestors[body] if body >= 0 else ()
    return [i for i in above if top < 0 or i not in tree.ancestors[top]]


def between(tree, a, b):
    """Bodies on the two paths from the nearest common ancestor, without it."""
    top = common_ancestor(tree, a, b)
    return {*path(tree, top, a), *path(tree, top, b)}


def members_of(tree, constraint):
    """Bodies whose joints a constraint concerns."""
    if isinstance(constraint, LoopJoint):
        return between(tree, constraint.predecessor, constraint.successor)
    return set(constraint.bodies)


def _equation(constraint) -> Any:
    return {LoopJoint: _loop, FunctionConstraint: _custom}[type(constraint)]


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
    K_all = interpret(position_program(tree, cluster.constraints), q=cluster.samples)["K"]
    K = K_all[:, :, [*cluster.independent, *cluster.dependent]]
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
