"""Description -> Mechanism: constraints between the joints of a tree, and their clusters."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from dynamics_node.loops.clusters import clusters
from dynamics_node.loops.constraints import between
from dynamics_node.loops.kinds import Linear, LoopJoint
from dynamics_node.loops.mechanism import Mechanism
from dynamics_node.loops.sidecar import read_loops_file, read_sidecar
from dynamics_node.model import Model, ModelError, model_of
from dynamics_node.model.description import JointDescription
from dynamics_node.model.errors import warned
from dynamics_node.model.from_description import model_from_description, resolve_mimic
from dynamics_node.model.overrides import overridden, read_overrides, read_parameters_file
from dynamics_node.model.urdf import parse_urdf
from dynamics_node.model.validate import validate
from dynamics_node.spatial import product, transform_origin, transform_rotation


def parse_mechanism(text, *, strict=False, loops=None, constraints=(), **choices) -> Mechanism:
    """URDF or URDF+ text -> Mechanism.

    loops: text of a sidecar file (see sidecar.py); constraints: functions (tree) -> Custom, for what no text
    can say; strict, choices: as of parse_model. Raises ModelError with the joint, link, loop or coupling by
    name. Emits a ModelWarning if the Mechanism has `warnings`.
    """
    return warned(_mechanism_of(parse_urdf(text), strict, loops, constraints, **choices))


def _mechanism_of(description, strict, loops, constraints=(), **choices):
    if loops is not None:
        description = replace(description, loops=(*description.loops, *read_sidecar(loops)))
    warnings = validate(description, strict)
    return mechanism_from_description(description, constraints, warnings=warnings, **choices)


def load_mechanism(path, *, loops_file=None, **choices) -> Mechanism:
    """URDF or URDF+ file -> Mechanism: `parse_mechanism` of its content and of that of a sidecar file. Raises
    OSError besides."""
    loops = None if loops_file is None else read_loops_file(loops_file)
    text, strict = Path(path).read_bytes(), choices.pop("strict", False)
    return warned(_mechanism_of(parse_urdf(text), strict, loops, **choices))


def parse_robot(text, *, loops=None, numbers=None, strict=False, **choices) -> Model | Mechanism:
    """URDF or URDF+ text -> Mechanism when it has loops or couplings, or `loops`, the text of a sidecar
    file, is given; else Model. numbers: the text of a parameters file, see model/overrides.py, whose numbers
    count instead of the description's. Arguments, errors and warnings as of `parse_mechanism`."""
    return warned(_robot_of(text, loops, numbers, strict, **choices))


def _robot_of(text, loops, numbers, strict=False, **choices):
    description = parse_urdf(text)
    if numbers is not None:
        validate(description)  # names are unique, before what is called so
        description = overridden(description, read_overrides(numbers))
    if loops is None and not description.loops and not description.couplings:
        return model_of(description, strict=strict, **choices)
    return _mechanism_of(description, strict, loops, **choices)


def load_robot(path, *, loops_file=None, parameters_file=None, **choices) -> Model | Mechanism:
    """URDF or URDF+ file -> Model, or Mechanism when it has loops: `parse_robot` of its content and of that
    of a sidecar and of a parameters file. Raises OSError besides."""
    loops = None if loops_file is None else read_loops_file(loops_file)
    numbers = None if parameters_file is None else read_parameters_file(parameters_file)
    return warned(_robot_of(Path(path).read_bytes(), loops, numbers, **choices))


def mechanism_from_description(description, constraints=(), **choices) -> Mechanism:
    """The Mechanism of a validated Description; arguments as of `parse_mechanism`. Raises ModelError: a
    loop without mobility, one whose rank changes, a singular choice of independent joints, no assembled
    position."""
    joints = resolve_mimic(description.joints)
    bare = tuple(replace(joint, mimic=None) for joint in joints)
    tree = model_from_description(replace(description, joints=bare, loops=(), couplings=()), **choices)
    held = _Held({joint.child: joint for joint in bare}, choices.get("positions") or {})
    found = [
        *(_mimic(tree, joint) for joint in joints if joint.mimic is not None),
        *(_coupling(tree, held, coupling) for coupling in description.couplings),
        *(_loop(tree, held, loop) for loop in description.loops),
        *(make(tree) for make in constraints),
    ]
    found = [constraint for constraint in found if constraint is not None]
    flags = {joint.name: joint.independent for joint in joints}
    return Mechanism(tree, tuple(clusters(tree, found, flags)), tree.warnings)


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
    return frame.body, product(E.T, end.rotation), product(E.T, end.origin) + transform_origin(frame.X)


def _v(tree, body):
    return tree.bodies[body].joint.v.start
