"""Torques of PD loops in a step, for many states at once. This text defines the meaning; c/pd_loops.c is the
same in vectors.

The torque of a loop is kp (target - q) - kd qd: of the position at the start of the step, and of the velocity
at its end. The end of the step adds dt kd to the inertia of the joint (algorithms/contact_step.py). A torque
beyond its limit at the start of the step is the limit, and adds none.
"""

from typing import NamedTuple

import numpy as np


class LoopPlaces(NamedTuple):
    """Coordinates with a loop: their places in q and in qd."""

    q: tuple[int, ...]
    v: tuple[int, ...]


class LoopGains(NamedTuple):
    """Numbers (loops,) of a rollout: kp, kd, limits of the torques."""

    kp: np.ndarray
    kd: np.ndarray
    effort: np.ndarray


def stable_damping(kp, kd, dt):
    """kd, or the least that keeps a step stable: dt kp / 2.

    With the inertia M of a joint, a step is stable where dt^2 kp < 4 M + 2 dt kd (the Jury criterion of its
    velocity and position), thus for every inertia where kd is at least dt kp / 2.
    """
    return np.maximum(kd, 0.5 * dt * kp)


def loop_torques(loops: LoopPlaces, gains: LoopGains, control, q, qd, dt):
    """Torques (count, nv) at the start of the step, and what it adds to the inertias (count, loops). control
    (count, loops), targets; or (count, loops + nv), with torques besides."""
    n = len(loops.v)
    tau = control[:, n:].copy() if control.shape[1] > n else np.zeros_like(qd)
    v = list(loops.v)
    wanted = tau[:, v] + (gains.kp * (control[:, :n] - q[:, list(loops.q)]) - gains.kd * qd[:, v])
    beyond = np.abs(wanted) > gains.effort
    tau[:, v] = np.where(beyond, np.copysign(gains.effort, wanted), wanted)
    return tau, np.where(beyond, 0.0, dt * gains.kd)
