"""Description -> Mechanism: constraints, clusters, independent joints, and the rows that count."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dynamics_node.loops.assembly import assembled_somewhere
from dynamics_node.loops.constraints import between, members_of, position_program
from dynamics_node.loops.kinds import Linear, LoopJoint
from dynamics_node.loops.mechanism import Cluster, Mechanism
from dynamics_node.loops.sidecar import read_loops_file, read_sidecar
from dynamics_node.model import Model, ModelError, model_of
from dynamics_node.model.assemble import assemble, resolve_mimic
from dynamics_node.model.description import JointDescription
from dynamics_node.model.urdf import parse_urdf
from dynamics_node.model.validate import validate
from dynamics_node.program import interpret
from dynamics_node.spatial import transform_origin, transform_rotation

RANK = 1e-7  # singular values beside the largest that count as zero
WEAK = 1e6  # condition of K_dep beyond which a choice of independent joints is refused


def parse_mechanism(text, *, strict=False, loops=None, constraints=(), **choices) -> Mechanism:
    """URDF or URDF+ text -> Mechanism.

    loops: text of a sidecar file (see sidecar.py); constraints: functions (tree) -> Custom, for what no text
    can say; strict, choices: as of parse_model. Raises ModelError with the joint, link, loop or coupling by
    name.
    """
    return _mechanism_of(parse_urdf(text), strict, loops, constraints, **choices)


def _mechanism_of(description, strict, loops, constraints=(), **choices):
    if loops is not None:
        description = replace(description, loops=(*description.loops, *read_sidecar(loops)))
    warnings = validate(description, strict)
    return assemble_mechanism(description, constraints, warnings=warnings, **choices)


def load_mechanism(path, *, loops_file=None, **choices) -> Mechanism:
    """URDF or URDF+ file -> Mechanism: `parse_mechanism` of its content and of that of a sidecar file. Raises
    OSError besides."""
    loops = None if loops_file is None else read_loops_file(loops_file)
    return parse_mechanism(Path(path).read_bytes(), loops=loops, **choices)


def parse_robot(text, *, loops=None, strict=False, **choices) -> Model | Mechanism:
    """URDF or URDF+ text -> Mechanism when it has loops or couplings, or `loops`, the text of a sidecar
    file, is given; else Model. Arguments and errors as of `parse_mechanism`."""
    description = parse_urdf(text)
    if loops is None and not description.loops and not description.couplings:
        return model_of(description, strict=strict, **choices)
    return _mechanism_of(description, strict, loops, **choices)


def load_robot(path, *, loops_file=None, **choices) -> Model | Mechanism:
    """URDF or URDF+ file -> Model, or Mechanism when it has loops: `parse_robot` of its content and of that
    of a sidecar file. Raises OSError besides."""
    loops = None if loops_file is None else read_loops_file(loops_file)
    return parse_robot(Path(path).read_bytes(), loops=loops, **choices)


def assemble_mechanism(description, constraints=(), **choices) -> Mechanism:
    """The Mechanism of a validated Description; arguments as of `parse_mechanism`. Raises ModelError: a
    loop without mobility, one whose rank changes, a singular choice of independent joints, no assembled
    position."""
    joints = resolve_mimic(description.joints)
    bare = tuple(replace(joint, mimic=None) for joint in joints)
    tree = assemble(replace(description, joints=bare, loops=(), couplings=()), **choices)
    held = _Held({joint.child: joint for joint in bare}, choices.get("positions") or {})
    found = [
        *(_mimic(tree, joint) for joint in joints if joint.mimic is not None),
        *(_coupling(tree, held, coupling) for coupling in description.couplings),
        *(_loop(tree, held, loop) for loop in description.loops),
        *(make(tree) for make in constraints),
    ]
    found = [constraint for constraint in found if constraint is not None]
    flags = {joint.name: joint.independent for joint in joints}
    return Mechanism(tree, tuple(_clusters(tree, found, flags)), tree.warnings)


# --- constraints --------------------------------------------------------------------------------------------


class _Held(NamedTuple):
    """What is known of joints that do not move: all joints by their child links, and positions by their
    names."""

    up: dict[str, JointDescription]
    positions: dict[str, float]

    def above(self, link):
        """Joints from the root to a link."""
        joints: list[JointDescription] = []
        while link in self.up:
            joints.insert(0, self.up[link])
            link = joints[0].parent
        return joints

    def apart(self, first, second):
        """The joints above two links, without those above both."""
        one, other = self.above(first), self.above(second)
        shared = sum(a is b for a, b in zip(one, other, strict=False))
        return one[shared:], other[shared:]

    def rigid(self, first, second):
        """Whether joints lead from one link to the other, though none of them moves."""
        return any(joint.kind != "fixed" for side in self.apart(first, second) for joint in side)


def _mimic(tree, joint):
    """None where both joints are held."""
    body = {body.joint.name: i for i, body in enumerate(tree.bodies)}
    follower, master = body.get(joint.name), body.get(joint.mimic.joint)
    if follower is None and master is None:
        return None
    if follower is None or master is None:
        raise ModelError(f"joint {joint.name!r} mimics {joint.mimic.joint!r}, and one of them does not move")
    weights = {_v(tree, follower): 1.0, _v(tree, master): -joint.mimic.multiplier}
    members = frozenset(between(tree, follower, master) | {follower, master})
    return Linear(joint.name, weights, joint.mimic.offset, members)


def _coupling(tree, held, coupling):
    """None where all its joints are held."""
    v_of = {body.joint.name: body.joint.v.start for body in tree.bodies}
    weights, offset = dict[int, float](), 0.0
    ends = (coupling.predecessor, coupling.successor)
    for joints, factor in zip(held.apart(*ends), (coupling.ratio, -1.0), strict=True):
        for joint in joints:
            if joint.name in v_of:
                v = v_of[joint.name]
                weights[v] = weights.get(v, 0.0) + factor
            else:
                offset -= factor * held.positions.get(joint.name, 0.0)
    if not weights:
        if held.rigid(*ends):
            return None
        raise ModelError(f"coupling {coupling.name!r}: no joint moves its links against each other")
    bodies = between(tree, *(tree.frames[link].body for link in ends))
    return Linear(coupling.name, weights, offset, frozenset(bodies))


def _loop(tree, held, loop):
    """None where all its joints are held."""
    (predecessor, R, p), (successor, S, s) = (_end(tree, end) for end in (loop.predecessor, loop.successor))
    if predecessor == successor and held.rigid(loop.predecessor.link, loop.successor.link):
        return None
    ends = (predecessor, successor, (R, S), (p, s))
    return LoopJoint(loop.name, loop.kind, *ends, loop.axis, loop.second_axis, loop.length)


def _end(tree, end):
    """Body, rotation and origin of a frame that is given on a link."""
    frame = tree.frames[end.link]
    E = transform_rotation(frame.X)
    return frame.body, E.T @ end.rotation, E.T @ end.origin + transform_origin(frame.X)


def _v(tree, body):
    return tree.bodies[body].joint.v.start


# --- clusters -----------------------------------------------------------------------------------------------


def _clusters(tree, constraints, flags):
    """In the order of their first bodies: those that constraints tie, and every other body alone."""
    groups: list[tuple[set, list]] = []
    for constraint in constraints:
        members, tied = members_of(tree, constraint), [constraint]
        if not members:
            raise ModelError(f"loop {constraint.name!r}: no joint moves its ends against each other")
        for other in [group for group in groups if group[0] & members]:
            groups.remove(other)
            members, tied = members | other[0], other[1] + tied
        groups.append((members, tied))
    taken = set().union(*(members for members, _ in groups))
    groups += [({i}, []) for i in range(tree.nbodies) if i not in taken]
    for members, tied in sorted(groups, key=lambda group: min(group[0])):
        yield _cluster(tree, tuple(sorted(members)), tuple(tied), flags)


def _cluster(tree, bodies, constraints, flags):
    coordinates = [v for i in bodies for v in range(tree.nv)[tree.bodies[i].joint.v]]
    if not constraints:
        return Cluster(bodies, (), tuple(coordinates), (), ())
    if any(tree.bodies[i].joint.kind == "floating" for i in bodies):
        raise ModelError(f"{_names(constraints)}: a floating joint can take no part in a loop")
    K, rank = _usual_rank(_generic_jacobians(tree, constraints, coordinates), constraints)
    if rank == 0:
        return Cluster(bodies, constraints, tuple(coordinates), (), ())
    if rank == len(coordinates):
        raise ModelError(f"{_names(constraints)}: the joints of the loop cannot move (mobility 0)")
    dependent = _dependent(tree, bodies, coordinates, constraints, flags, K, rank)
    rows, order = _pivots(K[0][:, dependent], rank)
    chosen = [dependent[k] for k in order]
    usual = np.median([np.linalg.cond(one[np.ix_(rows, chosen)]) for one in K])
    if usual > WEAK:
        given, better = (
            ", ".join(repr(tree.v_names[v]) for k, v in enumerate(coordinates) if k not in taken)
            for taken in (dependent, _by_rank(K[0], rank))
        )
        raise ModelError(
            f"{_names(constraints)}: {given} cannot be the independent joints, the others do not follow from "
            f"them (condition {usual:.3g}); {better} could"
        )
    independent = tuple(v for k, v in enumerate(coordinates) if k not in dependent)
    return Cluster(bodies, constraints, independent, tuple(coordinates[k] for k in chosen), tuple(rows))


def _names(constraints):
    return ", ".join(repr(constraint.name) for constraint in constraints)


def _generic_jacobians(tree, constraints, coordinates):
    """K (rows, coordinates) at several closed positions."""
    closed = assembled_somewhere(tree, constraints, coordinates, np.random.default_rng(7))
    if not len(closed):
        raise ModelError(f"{_names(constraints)}: no position was found in which the loop is closed")
    return interpret(position_program(tree, constraints), q=closed)["K"][:, :, coordinates]


def _usual_rank(K, constraints):
    """The K of usual rank, the best conditioned first, and that rank: degenerate positions do not decide."""
    sizes = np.linalg.svd(K, compute_uv=False)
    ranks = (sizes > RANK * sizes[:, :1]).sum(axis=1)
    usual = int(np.bincount(ranks).argmax())
    if (ranks != usual).mean() > 0.2:
        raise ModelError(
            f"{_names(constraints)}: the number of independent equations changes with the position "
            f"({sorted(set(ranks.tolist()))}): no fixed choice of rows is consistent"
        )
    keep = np.flatnonzero(ranks == usual)
    return K[keep[np.argsort(-sizes[keep, usual - 1])]] if usual else K[keep], usual


def _dependent(tree, bodies, coordinates, constraints, flags, K, rank):
    """Places among the coordinates of the dependent joints: as the file says; else those that mimic, and of
    the others those that follow best."""
    names = {tree.bodies[i].joint.v.start: tree.bodies[i].joint.name for i in bodies}
    flagged = [k for k, v in enumerate(coordinates) if flags.get(names[v]) is False]
    mimics = {constraint.name for constraint in constraints if isinstance(constraint, Linear)}
    followers = [k for k, v in enumerate(coordinates) if names[v] in mimics]
    if not flagged:
        return _by_rank(K[0], rank, followers)
    marked = sorted({*flagged, *followers})
    if len(marked) != rank:
        named = ", ".join(repr(names[coordinates[k]]) for k in marked)
        raise ModelError(
            f"{_names(constraints)}: {rank} joints follow from the others, but the file marks {len(marked)} "
            f"as dependent: {named}"
        )
    return marked


def _by_rank(K, rank, first=()):
    """Columns that follow best, by QR with pivots: some of them first; of equal ones the later, for rotors
    and passive joints come after what they hang on."""
    from scipy.linalg import qr  # 0.2 s, for those who have loops

    weights = 1.0 + 1e-6 * np.arange(K.shape[1])
    weights[list(first)] *= 1e3
    return sorted(qr(K * weights, mode="r", pivoting=True)[1][:rank].tolist())


def _pivots(K, rank):
    """Rows, and the order of the columns, in which elimination takes the largest pivots."""
    rest, rows, columns = np.array(K), [], []
    for _ in range(rank):
        i, j = np.unravel_index(np.argmax(np.abs(rest)), rest.shape)
        rows.append(int(i))
        columns.append(int(j))
        if rest[i, j] != 0:  # else the choice is singular, which its condition will tell
            rest = rest - np.outer(rest[:, j], rest[i]) / rest[i, j]
        rest[i], rest[:, j] = 0.0, 0.0
    return rows, columns
