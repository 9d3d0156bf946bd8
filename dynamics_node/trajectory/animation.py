"""A Trajectory as one self-contained HTML page that plays it, recorded by viser.

Names come from untrusted descriptions. They are labels in viser's recording, which is data; the content
security policy of the page blocks all addresses.
"""

import contextlib
import io
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from dynamics_node.errors import InputError
from dynamics_node.optional import required
from dynamics_node.output_files import write_text
from dynamics_node.robot.wrong_calls import explains_wrong_calls
from dynamics_node.trajectory.robot_drawing import Drawing
from dynamics_node.trajectory.trajectory import Trajectory

FRAMES = 600  # of the page at most
RATE = 30.0  # frames per second
PALETTE = ((59, 110, 168), (192, 57, 43), (46, 139, 87), (142, 90, 168), (217, 140, 31), (42, 157, 157))
POLICY = (  # the player is one script with WebAssembly and workers of its own
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval' blob:; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:; connect-src data: blob:; worker-src blob:"
)
NEEDS_VISER = "a page that plays a motion"


@explains_wrong_calls
def write_animation(
    path: str | Path, motion: Trajectory, draw: Callable[[np.ndarray], Drawing], title: str = ""
) -> Path:
    """Write a page that plays a trajectory: one HTML file without links, for any browser.

    Parameters
    ----------
    path : str or Path
        File to write.
    motion : Trajectory
        The trajectory. The page has 30 frames per second of it, at most 600.
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
    ImportError
        If viser is missing.
    OSError
        If the file cannot be written.
    InputError
        If the trajectory has no row with known positions.

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
    known = np.flatnonzero(np.isfinite(motion.q).all(axis=1) & np.isfinite(motion.time))
    if not len(known):
        raise InputError(f"{motion.name}: the trajectory has no rows with known positions")
    frames = _frames(motion.time[known])
    time, drawing = motion.time[known][frames], draw(motion.q[known][frames])
    with _scene() as (server, scene):
        show = _shown(scene, server.initial_camera, drawing)
        recording = server.get_scene_serializer()
        for k, step in enumerate(np.diff(time, append=time[-1])):
            show(k)
            recording.insert_sleep(float(step))
        html = recording.as_html()
    head = f'<head><meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    return html.replace("<head>", head, 1).replace(
        "<title>Viser<", f"<title>{escape(title or motion.name)}<", 1
    )


def _frames(time):
    """Indices of increasing times, RATE a second but at most FRAMES, with the first and the last."""
    count = int(np.clip(RATE * (time[-1] - time[0]), 2, FRAMES))
    return np.unique(np.searchsorted(time, np.linspace(time[0], time[-1], count)).clip(0, len(time) - 1))


@contextlib.contextmanager
def _scene() -> Iterator[tuple[Any, Any]]:
    """A server of viser, which this computer alone can reach, and its scene."""
    viser = required("viser", NEEDS_VISER)
    with contextlib.redirect_stdout(io.StringIO()):  # viser prints its address
        server = viser.ViserServer(host="127.0.0.1", port=0)
        try:
            yield server, server.scene
        finally:
            server.stop()


def _shown(scene, camera, drawing):
    """Add the drawing to a scene. Returns a function that moves it to a frame."""
    points, ends = drawing.points, [bar[:2] for bar in drawing.bars]
    low, high = points.min(axis=(0, 1)), points.max(axis=(0, 1))
    middle, size = 0.5 * (low + high), max(float(np.linalg.norm(high - low)), 0.1)
    width = 0.02 * max(float(np.linalg.norm(np.ptp(points[0], axis=0))), 0.1)  # of the bars
    scene.set_up_direction("+y" if drawing.planar else "+z")
    camera.look_at = middle
    camera.position = middle + size * np.array([0, 0, 0.9] if drawing.planar else [0.65, -0.5, 0.4])
    scene.add_grid(
        "/grid", 3 * size, 3 * size, cell_size=size / 10, section_size=size, position=(*middle[:2], 0)
    )
    colors = np.array([[PALETTE[color % len(PALETTE)]] * 2 for *_, color in drawing.bars], dtype=np.uint8)
    bars = scene.add_line_segments("/bars", points[0, ends], colors.reshape(-1, 2, 3), thickness=width)
    labels = [
        (point, scene.add_label(f"/names/{k}", name, position=points[0, point]))
        for k, (point, name) in enumerate(drawing.names)
    ]
    for k, point in enumerate(drawing.paths if len(points) > 1 else ()):
        path = np.stack([points[:-1, point], points[1:, point]], axis=1)
        scene.add_line_segments(f"/paths/{k}", path, PALETTE[1], thickness=0.1 * width)

    def show(frame):
        bars.points = points[frame, ends].astype(np.float32)
        for point, label in labels:
            label.position = points[frame, point]

    return show
