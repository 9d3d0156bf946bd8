"""Damaged descriptions: URDF with transmissions and loops, MJCF, xacro, in which words and elements change.

Reading one ends with a robot of finite numbers, or with an error of the library. It takes little time and
memory, connects to nothing, and opens no file outside the folder of the description; xacro may open any.
"""

import contextlib
import re
import resource
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from coupled_motors import coupled_motors
from mjcf_texts import PENDULUM, TEXTS

import dynamics_node as dn
from dynamics_demo.robots import ROBOTS

BASES = [
    *(("urdf", text) for text in (coupled_motors(), ROBOTS["five_bar"](), ROBOTS["belt_leg"]())),
    *(("xml", text) for text in TEXTS.values()),
    ("xacro", PENDULUM),
]
WORDS = (
    "", "0", "-1", "nan", "inf", "1e308", "1e-320", "1e15 1 1", "1 2", "0 0 0", "word", "free", "world",
    "true", "${x}", "${1/0}", "$(arg mass)", "$(find nothing)", "../secret.xml", "/etc/passwd", "robot.xml",
    "{} \x7f \xe9", "DifferentialTransmission", "joint1", "actuator2", "9" * 400, "x" * 300,
)  # fmt: skip
ADDED = (
    '<include file="../secret.xml"/>', '<include file="robot.xml"/>', "<!-- -->", "<worldbody/>", "&#0;",
    '<asset><mesh name="m" file="../secret.obj"/></asset>', "&x;", "<robot/>",
    '<replicate count="1000000"><body/></replicate>', "<mechanicalReduction>0</mechanicalReduction>",
    '<transmission name="t"><type>SimpleTransmission</type><joint name="a"/></transmission>',
    '<xacro:include filename="/no/such/file.xacro"/>',
)  # fmt: skip
SECRET = '<mujoco><worldbody><body name="secret"><geom size="1"/></body></worldbody></mujoco>'
LONGEST, LARGEST = 20.0, 2**30  # s, bytes: of one file
NEVER = ("socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.system")
_watched: list = []  # the folder that may be read, and other files and connections


class Case(NamedTuple):
    """A file; suffix: its format."""

    suffix: str
    text: str

    @property
    def name(self):
        return f"damaged .{self.suffix}"


def draw(random: np.random.Generator) -> Case:
    """A description with one or two damages."""
    suffix, text = BASES[int(random.integers(len(BASES)))]
    for _ in range(int(random.integers(1, 3))):
        text = _damaged(text, random)
    return Case(suffix, text)


def _damaged(text, random):
    kind = random.choice(["value", "element", "copy", "added", "characters"], p=[0.5, 0.15, 0.1, 0.15, 0.1])
    pattern = {"value": r'="([^"]*)"', "characters": r"(.)"}.get(str(kind), r"(<[^>]*>)")
    places = [found.span(1) for found in re.finditer(pattern, text)]
    if not places:
        return text
    start, end = places[int(random.integers(len(places)))]
    part = {
        "value": WORDS[int(random.integers(len(WORDS)))],
        "copy": 2 * text[start:end],
        "added": text[start:end] + ADDED[int(random.integers(len(ADDED)))],
    }.get(str(kind), "")
    return text[:start] + part + text[end:]


def check(case: Case) -> str:
    """'ok', 'refused: ' or 'SILENT ERROR: ' with the reason."""
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top) / "robot"
        folder.mkdir()
        (Path(top) / "secret.xml").write_text(SECRET)
        file = folder / f"robot.{case.suffix}"
        file.write_text(case.text, encoding="utf-8")
        start, memory = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with _watching(folder) as reached:
            verdict = _read(file)
        used = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory)
    if time.monotonic() - start > LONGEST or used > LARGEST:
        return f"SILENT ERROR: {time.monotonic() - start:.0f} s and {used} bytes"
    reached = [what for what in reached if case.suffix != "xacro" or what in NEVER]
    return f"SILENT ERROR: it reaches {reached[0]}" if reached else verdict


def _read(file):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)  # of NumPy
            warnings.simplefilter("ignore", dn.ModelWarning)
            robot = dn.load_robot(file)
    except dn.Error as error:
        return f"refused: {error}"
    if "secret" in robot.frames:
        return "SILENT ERROR: a file outside the folder is part of the robot"
    numbers = [
        robot.inertias,
        robot.armature,
        robot.axle_map,
        robot.gravity,
        *(b.X_tree for b in robot.bodies),
    ]
    return "ok" if all(np.isfinite(array).all() for array in numbers) else "SILENT ERROR: not finite"


# --- what the reader reaches --------------------------------------------------------------------------------


@contextlib.contextmanager
def _watching(folder):
    """The list of files that Python opens outside the folder and its installation, and of connections."""
    if not _watched:
        for suffix, text in BASES:  # imports what reads it
            (folder / f"good.{suffix}").write_text(text)
            _read(folder / f"good.{suffix}")
        sys.addaudithook(_audit)
    reached: list[str] = []
    _watched[:] = [str(folder.resolve()), reached]
    try:
        yield reached
    finally:
        _watched[1] = []


def _audit(event, arguments):
    """A hook of Python, which stays."""
    if event in NEVER:
        _watched[1].append(event)
    elif event == "open" and isinstance(arguments[0], str):
        path = arguments[0]
        installed = "site-packages" in path or path.startswith((sys.prefix, sys.base_prefix, "/proc", "/sys"))
        if "secret" in path or not (installed or "/dynamics_node/" in path or path.startswith(_watched[0])):
            _watched[1].append(path)
