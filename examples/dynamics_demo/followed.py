"""Motions that a simulated arm follows: sums of sines, and trajectories from files."""

from pathlib import Path

import numpy as np
import yaml
from scipy.interpolate import BPoly

from dynamics_demo.panda import PANDA_JOINTS
from dynamics_demo.pushed_arm import CENTRE
from dynamics_demo.simulated_arm import Motion

PEAK = np.array([0.9, 0.5, 0.9, 0.6, 1.0, 0.8, 1.2])  # rad, away from CENTRE
PERIOD, HARMONICS, RISE = 10.0, 5, 2.0  # s, and s until a motion from rest is that of the sines


def wandering(seed) -> Motion:
    """Random sums of sines about CENTRE, from rest."""
    random, k = np.random.default_rng(seed), np.arange(1, HARMONICS + 1)[:, None]
    w, (a, b) = 2 * np.pi / PERIOD * k, random.normal(size=(2, HARMONICS, 7)) / k
    phases = w * np.linspace(0.0, PERIOD, 500)[:, None, None]
    scale = PEAK / np.abs((a * np.sin(phases) + b * np.cos(phases)).sum(1)).max(0)
    a, b = a * scale, b * scale

    def motion(t):
        s, c = np.sin(w * t), np.cos(w * t)
        q, qd = (a * s + b * c).sum(0), (w * (a * c - b * s)).sum(0)
        return _from_rest(t, q, qd, -(w * w * (a * s + b * c)).sum(0))

    return motion


def _from_rest(t, q, qd, qdd):
    """About CENTRE, times a polynomial that rises from 0 to 1, with its derivatives."""
    x = min(t / RISE, 1.0)
    g, first = x**3 * (10 - 15 * x + 6 * x * x), 30 * (x * (1 - x)) ** 2 / RISE
    second = 60 * x * (1 - x) * (1 - 2 * x) / RISE**2
    return CENTRE + g * q, g * qd + first * q, g * qdd + 2 * first * qd + second * q


def motion_of_file(path) -> Motion:
    """A JointTrajectory of the Panda as YAML, again and again. Raises ValueError for missing joints."""
    told = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    names, points = told["joint_names"], told["points"]
    if missing := [name for name in PANDA_JOINTS if name not in names]:
        raise ValueError(f"{path} has no {', '.join(missing)}")
    order = [names.index(name) for name in PANDA_JOINTS]
    since = [p["time_from_start"] for p in points]
    time = np.array([t["sec"] + 1e-9 * t["nanosec"] for t in since])
    states = [
        np.array([p[kind] for p in points])[:, order] for kind in ("positions", "velocities", "accelerations")
    ]
    curve = BPoly.from_derivatives(time, np.stack(states, axis=1))
    rate, change = curve.derivative(), curve.derivative(2)
    period = time[-1] - time[0]

    def motion(t):
        at = time[0] + t % period
        return curve(at), rate(at), change(at)

    return motion
