"""A Trajectory -> one HTML page that plays it: a canvas, a little script, nothing from elsewhere.

Names come from descriptions that anybody may have written: they stand in a block of JSON in which no
character can end it, and the script puts them on the page as text alone. A policy in the page lets nothing
else run: no other script, no address.
"""

import base64
import hashlib
import json
from collections.abc import Callable
from html import escape
from importlib.resources import files
from pathlib import Path

import numpy as np

from dynamics_node.io.whole_files import write_text
from dynamics_node.trajectory.drawing import Drawing
from dynamics_node.trajectory.results import Trajectory

SCRIPTS = ("scene.js", "plots.js", "player.js")
FRAMES = 1500  # on the page at most; between two of them it shows what lies between
_CONTROLS = """<canvas id="scene" aria-label="the robot in motion"></canvas>
<div id="controls"><button id="play">Play</button>
<label>speed <select id="speed"><option value="0.1">0.1</option><option value="0.25">0.25</option>
<option value="0.5">0.5</option><option value="1" selected>1</option><option value="2">2</option>
<option value="5">5</option></select></label>
<input id="time" type="range" aria-label="time"><span id="clock"></span>
<label><input id="names" type="checkbox"> names</label>
<label><input id="paths" type="checkbox"> paths</label></div>
<p>Drag turns (with Shift: moves), the wheel goes nearer, a double click goes back.
Space plays and pauses, arrows step.</p>
<div id="chosen"></div><div id="plots"></div>"""


def write_animation(path, motion: Trajectory, draw: Callable[[np.ndarray], Drawing], title="") -> Path:
    """The page, a file that opens from disk. draw: q (count, nq) -> Drawing, for a robot
    `partial(robot_drawing, robot)`. Raises OSError, ValueError for a Trajectory without a row."""
    path = Path(path)
    write_text(path, animation(motion, draw, title))
    return path


def animation(motion: Trajectory, draw: Callable[[np.ndarray], Drawing], title="") -> str:
    """The text of the page."""
    if not len(motion):
        raise ValueError(f"{motion.name}: there is no motion to show")
    shown = motion.thinned(FRAMES)
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
            f'<script id="data" type="application/json">{_json(payload(shown, draw(shown.q)))}</script>',
            f"<script>{script}</script></body></html>",
            "",
        ]
    )


def payload(motion: Trajectory, drawing: Drawing) -> dict:
    """What the script reads; what is not finite is null."""
    curves = motion.curves()
    colours = {name: k for k, name in enumerate(dict.fromkeys(curve.name for curve in curves))}
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
                "colour": colours[curve.name],
                "values": _numbers(curve.values),
                "band": None if curve.band is None else _numbers(curve.band),
            }
            for curve in curves
        ],
    }


def _numbers(array):
    """Of six digits."""
    return [float(f"{x:.6g}") if np.isfinite(x) else None for x in array.tolist()]


def _json(data):
    """Text that ends no element and begins none."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _text(name):
    return files("dynamics_node").joinpath("trajectory", "page", name).read_text(encoding="utf-8")


def _hash(text):
    """As a policy names a script or style that may be in the page."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
