"""The demo's robot and its smooth motion."""

import os
from pathlib import Path

import numpy as np

JOINTS = tuple(f"panda_joint{i}" for i in range(1, 8))
CENTRE = np.array([0.0, -0.4, 0.0, -1.8, 0.0, 1.6, 0.6])
AMPLITUDE = np.array([0.6, 0.4, 0.5, 0.4, 0.6, 0.4, 0.8])
OMEGA = 2 * np.pi * np.array([0.25, 0.2, 0.3, 0.35, 0.4, 0.45, 0.5])  # rad/s
_FILE = "robots/panda_description/urdf/panda.urdf"


def find_panda() -> Path:
    """URDF of the Franka Panda in example-robot-data, installed by pip or by ROS.

    Raises FileNotFoundError that says what to install.
    """
    for share in _share_folders():
        path = share / "example-robot-data" / _FILE
        if path.is_file():
            return path
    raise FileNotFoundError(
        "the demo needs the URDF of example-robot-data: pip install example-robot-data, or give --urdf FILE"
    )


def _share_folders():
    yield from (Path(p) / "share" for p in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if p)
    try:
        import pinocchio
    except ImportError:
        return
    yield from (folder / "share" for folder in Path(pinocchio.__file__).parents)


def motion(t):
    """q, qd, qdd (7,) at time t (s): a sine of its own frequency at every joint."""
    phase = OMEGA * t
    wave = AMPLITUDE * np.sin(phase)
    return CENTRE + wave, AMPLITUDE * OMEGA * np.cos(phase), -(OMEGA**2) * wave
