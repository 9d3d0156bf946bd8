"""A Trajectory as one self-contained HTML page that plays it: a canvas and a small script.

Names come from untrusted descriptions. They are stored in a JSON block that no character can terminate, and
the script inserts them as text only. The content security policy of the page blocks other scripts and all
addresses.
"""

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path

import numpy as np

from dynamics_node.algorithms.transforms import joint_transforms
from dynamics_node.errors import InputError
from dynamics_node.output_files import write_text
from dynamics_node.robot import Robot
from dynamics_node.robot.constraints import LoopJoint
from dynamics_node.symbolic import transform_origin, transform_rotation, transpose
from dynamics_node.trajectory.trajectory import Trajectory

# --- drawings -----------------------------------------------------------------------------------------------


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
        own = places.add(i, np.zeros(3))
        names.append((own, body.joint.name))
        if not body.joint.type.is_free:
            bars.append((places.add(body.parent, np.zeros(3)), own, max(body.parent, 0)))
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


# --- pages --------------------------------------------------------------------------------------------------


SCRIPTS = ("scene.js", "plots.js", "player.js")
FRAMES = 1500  # on the page at most; the player interpolates between them
_CONTROLS = """<canvas id="scene" aria-label="the robot in motion"></canvas>
<div id="controls"><button id="play">Play</button>
<label>speed <select id="speed"><option value="0.1">0.1</option><option value="0.25">0.25</option>
<option value="0.5">0.5</option><option value="1" selected>1</option><option value="2">2</option>
<option value="5">5</option></select></label>
<input id="time" type="range" aria-label="time"><span id="clock"></span>
<label><input id="names" type="checkbox"> names</label>
<label><input id="paths" type="checkbox"> paths</label></div>
<p>Drag to rotate (with Shift: pan), use the wheel to zoom, double-click to reset.
Space plays and pauses, arrow keys step.</p>
<div id="chosen"></div><div id="plots"></div>"""


def write_animation(
    path: str | Path, motion: Trajectory, draw: Callable[[np.ndarray], Drawing], title: str = ""
) -> Path:
    """Write a page that plays a trajectory: one HTML file without links, for any browser.

    Parameters
    ----------
    path : str or Path
        File to write.
    motion : Trajectory
        The trajectory. Long ones are thinned to 1500 states.
    draw : callable
        Function of q (count, nq) that returns a Drawing: ``partial(dn.robot_drawing, robot)`` for a robot.
    title : str
        Title of the page; default: the name of the robot.

    Returns
    -------
    Path
        The written file.

    Raises
    ------
    OSError
        If the file cannot be written.
    ValueError
        If the trajectory has no rows.

    Examples
    --------
    >>> from functools import partial
    >>> from tempfile import TemporaryDirectory
    >>> from dynamics_demo.robots import geared_chain
    >>> arm = dn.parse_robot(geared_chain(1))  # a link on a geared motor
    >>> fall = dn.simulate(arm, [1.0], steps=5, dt=0.01, backend="numpy")
    >>> with TemporaryDirectory() as folder:
    ...     page = dn.write_animation(f"{folder}/fall.html", fall, partial(dn.robot_drawing, arm))
    >>> page.name
    'fall.html'
    """
    path = Path(path)
    write_text(path, animation(motion, draw, title))
    return path


def animation(motion: Trajectory, draw: Callable[[np.ndarray], Drawing], title="") -> str:
    """The text of the page."""
    if not len(motion):
        raise InputError(f"{motion.name}: the trajectory has no rows")
    thinned = motion.thinned(FRAMES)
    script = "".join(_text(name) for name in SCRIPTS)
    style = _text("style.css")
    policy = f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'"
    title, every = title or motion.name, -(-len(motion) // FRAMES)
    count = f"{len(motion)} states" + (f", one in {every} shown" if every > 1 else "")
    return "\n".join(
        [
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title><style>{style}</style></head><body>",
            f"<h1>{escape(title)}</h1><p>{count}</p>{_CONTROLS}",
            f'<script id="data" type="application/json">{_json(payload(thinned, draw(thinned.q)))}</script>',
            f"<script>{script}</script></body></html>",
            "",
        ]
    )


def payload(motion: Trajectory, drawing: Drawing) -> dict:
    """Data of the script; nonfinite numbers are null."""
    curves = motion.curves()
    colors = {name: k for k, name in enumerate(dict.fromkeys(curve.name for curve in curves))}
    return {
        "time": _numbers(motion.time - motion.time[0]),
        "points": [_numbers(frame) for frame in np.round(drawing.points, 5).reshape(len(motion), -1)],
        "bars": drawing.bars,
        "names": drawing.names,
        "paths": drawing.paths,
        "planar": drawing.planar,
        "curves": [
            {
                "name": curve.name,
                "kind": curve.kind,
                "unit": curve.unit,
                "color": colors[curve.name],
                "values": _numbers(curve.values),
                "band": None if curve.band is None else _numbers(curve.band),
            }
            for curve in curves
        ],
    }


def _numbers(array):
    """Numbers with six digits."""
    return [float(f"{x:.6g}") if np.isfinite(x) else None for x in array.tolist()]


def _json(data):
    """JSON that cannot open or close an HTML element."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _text(name):
    return files("dynamics_node").joinpath("trajectory", "page", name).read_text(encoding="utf-8")


def _hash(text):
    """Hash of a script or style for the content security policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
