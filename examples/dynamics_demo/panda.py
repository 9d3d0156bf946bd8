"""The demo's robots and their smooth motions."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dynamics_demo.five_bar import FiveBarOracle
from dynamics_demo.robots import UPRIGHT, five_bar

_FILE = "robots/panda_description/urdf/panda.urdf"


class DemoRobot(NamedTuple):
    """joints: those that are moved and reported, each as centre + amplitude sin(omega t), rad and rad/s;
    urdf: its text; oracle: makes the independent computation from the text."""

    title: str
    joints: tuple[str, ...]
    centre: np.ndarray
    amplitude: np.ndarray
    omega: np.ndarray
    urdf: Callable[[], str]
    oracle: Callable[[str], Any]

    def motion(self, t):
        """q, qd, qdd (n,) at time t (s)."""
        phase = self.omega * t
        wave = self.amplitude * np.sin(phase)
        return self.centre + wave, self.amplitude * self.omega * np.cos(phase), -(self.omega**2) * wave

    def acceleration_at(self, q):
        """qdd (n,) where the motion is at q."""
        return -(self.omega**2) * (q - self.centre)

    def acceleration_tolerance(self, late):
        """What the acceleration may differ when the reference is `late` seconds older than the state."""
        return self.amplitude * self.omega**3 * late + 1e-9


def find_panda() -> Path:
    """URDF of the Franka Panda in example-robot-data, installed by pip or by ROS.

    Raises FileNotFoundError that says what to install.
    """
    for share in _share_folders():
        path = share / "example-robot-data" / _FILE
        if path.is_file():
            return path
    raise FileNotFoundError("the demo needs the URDF of example-robot-data: pip install example-robot-data")


def _share_folders():
    yield from (Path(p) / "share" for p in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if p)
    try:
        import pinocchio
    except ImportError:
        return
    yield from (folder / "share" for folder in Path(pinocchio.__file__).parents)


PANDA_JOINTS = tuple(f"panda_joint{i}" for i in range(1, 8))

FIVE_BAR = DemoRobot(
    "Five-bar",
    ("j1", "j2"),
    np.array([1.9, 1.2]),
    np.array([0.3, 0.3]),
    2 * np.pi * np.array([0.5, 0.35]),
    lambda: five_bar(UPRIGHT),
    FiveBarOracle,
)
