"""A robot as points and bars that move: what a page plays, and what plots can draw."""

from dataclasses import dataclass

import numpy as np

from dynamics_node.robot import Robot
from dynamics_node.robot.constraints import LoopJoint
from dynamics_node.robot.transforms import joint_transforms
from dynamics_node.robot.wrong_calls import explains_wrong_calls
from dynamics_node.symbolic import transform_origin, transform_rotation, transpose

PATHS = 4  # end points with paths: more would hide each other
NEAR = 1e-4  # m: closer points coincide


@dataclass(frozen=True, eq=False)
class Drawing:
    """Points, bars and names of a moving robot.

    Attributes
    ----------
    points : ndarray (count, n, 3)
        Positions of n points at every state, m.
    bars : tuple of (int, int, int)
        First point, second point and color of every bar.
    names : tuple of (int, str)
        Point and label.
    paths : tuple of int
        Points whose paths are drawn.
    planar : bool
        Whether all points are in z = 0 and viewed from +z.
    """

    points: np.ndarray
    bars: tuple[tuple[int, int, int], ...]
    names: tuple[tuple[int, str], ...] = ()
    paths: tuple[int, ...] = ()
    planar: bool = False


@explains_wrong_calls
def robot_drawing(robot: Robot, q: np.ndarray) -> Drawing:
    """Draw a robot as bars between its joints.

    Bars also lead to the ends of loops, and to the farthest frames of the last links. Every joint has its
    name.

    Parameters
    ----------
    robot : Robot
        The robot, with or without closed loops.
    q : ndarray (count, nq)
        Positions, closed, rad or m.

    Returns
    -------
    Drawing
        points (count, n, 3) in m, bars, names, and points with paths.

    Examples
    --------
    >>> drawing = dn.robot_drawing(robot, np.zeros((100, 7)))
    >>> drawing.points.shape  # states, points, coordinates
    (100, 9, 3)
    >>> drawing.names[0]
    (0, 'panda_joint1')
    """
    tree = robot.tree
    places, bars, names = _Places(), [], []
    for i, body in enumerate(tree.bodies):
        origin = places.add(i, np.zeros(3))
        names.append((origin, body.joint.name))
        if not body.joint.type.is_free:
            bars.append((places.add(body.parent, np.zeros(3)), origin, max(body.parent, 0)))
    ends = [places.add(i, end) for i, end in _ends(robot, tree)]
    bars += [(places.add(places.bodies[end], np.zeros(3)), end, places.bodies[end]) for end in ends]
    bars += _loops(robot, places, names)
    distinct = tuple(dict.fromkeys(bar for bar in bars if bar[0] != bar[1]))
    return Drawing(_moved(tree, q, places), distinct, tuple(names), tuple(ends[:PATHS]))


class _Places:
    """Distinct points fixed to bodies. bodies, offsets: of every point."""

    def __init__(self):
        self.bodies: list[int] = []
        self.offsets: list[np.ndarray] = []

    def add(self, body, offset):
        """Index of a point of a body (-1: the root), offset (3,) in its axes."""
        for k, (other, there) in enumerate(zip(self.bodies, self.offsets, strict=True)):
            if other == body and np.abs(there - offset).max() < NEAR:
                return k
        self.bodies.append(body)
        self.offsets.append(np.asarray(offset, dtype=float))
        return len(self.bodies) - 1


def _ends(robot, tree):
    """(body, offset) of the end point of every leaf link: its farthest frame, or else twice its center of
    mass."""
    parents = {
        *tree.parents,
        *(body for loop in _loop_joints(robot) for body in (loop.predecessor, loop.successor)),
    }
    for i in sorted(set(range(tree.nbodies)) - parents):
        inertia = tree.bodies[i].inertia
        center = np.array([inertia[2, 4], inertia[0, 5], inertia[1, 3]]) / max(inertia[5, 5], 1e-9)
        frames = [transform_origin(frame.X) for frame in tree.frames.values() if frame.body == i]
        farthest = max(frames, key=np.linalg.norm, default=np.zeros(3))
        yield i, farthest if np.linalg.norm(farthest) > NEAR else 2.0 * center


def _loop_joints(robot):
    return [constraint for constraint in robot.constraints if isinstance(constraint, LoopJoint)]


def _loops(robot, places, names):
    """Bars to both ends of every loop joint, and a rod between them if they are apart."""
    for loop in _loop_joints(robot):
        pair = []
        for body, origin in zip((loop.predecessor, loop.successor), loop.origins, strict=True):
            pair.append(places.add(body, origin))
            yield places.add(body, np.zeros(3)), pair[-1], max(body, 0)
        if loop.length > 0:
            yield (*pair, max(loop.successor, 0) + 1)
        names.append((pair[-1], loop.name))


def _moved(tree, q, places):
    """Points (count, n, 3) at q (count, nq)."""
    X_up = joint_transforms(tree, q)
    turns, origins = [np.broadcast_to(np.eye(3), (len(q), 3, 3))], [np.zeros((len(q), 3))]
    for i, parent in enumerate(tree.parents):
        R, p = turns[parent + 1], origins[parent + 1]
        origins.append(p + (R @ X_up.origin(i)[..., None])[..., 0])
        turns.append(R @ transpose(transform_rotation(X_up.matrix(i))))
    points = [
        origins[body + 1] + turns[body + 1] @ offset
        for body, offset in zip(places.bodies, places.offsets, strict=True)
    ]
    return np.stack(points, axis=1) if points else np.zeros((len(q), 0, 3))
