"""A Solo12 in MuJoCo that lifts its feet and sets them down, under PD control: what its sensors measure, and the
forces of the ground."""

from functools import cache
from typing import NamedTuple

import numpy as np

import dynamics_node as dn
from dynamics_demo.legged_robots import SOLO12
from dynamics_demo.legged_simulation import IMU_PLACE, LeggedSimulation

CYCLE = 2e-3  # s, of control
WITHOUT_DRIVES = SOLO12._replace(gains={"": (0.0, 0.0)})
STIFFNESS, DAMPING = 25.0, 0.2  # N m/rad, N m s/rad
WARM_UP = 0.2  # s at rest
IMU = dn.sensors.Imu(
    "base_link", xyz=IMU_PLACE, rpy=(np.pi / 2, 0, np.pi / 2), std=(*[0.01] * 3, *[0.1] * 3), name="imu"
)  # rad/s, m/s^2


class Run(NamedTuple):
    """time (k,); q (k, nq), qd, tau (k, nv) as measured without noise; ground (k, 4): normal forces at the same
    times, means of the cycle before; imu (k, 6): readings of IMU."""

    time: np.ndarray
    q: np.ndarray
    qd: np.ndarray
    tau: np.ndarray
    ground: np.ndarray
    imu: np.ndarray


@cache
def robot():
    return SOLO12.robot()


def crawl(seconds=1.0, height=0.05, shift=0.03):
    """Body positions (k, 3) and heights (k, 4): the body moves over three feet, the fourth is lifted, in turn."""
    s = np.linspace(0.0, 1.0, round(seconds / CYCLE), endpoint=False)
    away = _smooth(s / 0.3) * (1 - _smooth((s - 0.7) / 0.3))
    up = _smooth((s - 0.3) / 0.12) * (1 - _smooth((s - 0.55) / 0.12))
    sides = np.array([(1, 1), (1, -1), (-1, 1), (-1, -1)])
    body = [np.outer(away, [*(-shift * side), 0.0]) for side in sides]
    return np.concatenate(body), np.concatenate([np.outer(height * up, np.eye(4)[leg]) for leg in range(4)])


def trot(seconds=0.2, height=0.03, steps=6):
    """The same for diagonal legs in turn, on the spot."""
    s = np.linspace(0.0, 1.0, round(seconds / CYCLE), endpoint=False)
    up = height * np.sin(np.pi * np.clip((s - 0.2) / 0.5, 0.0, 1.0)) ** 2
    pairs = np.array([(1, 0, 0, 1), (0, 1, 1, 0)])
    return np.zeros((steps * len(s), 3)), np.concatenate([np.outer(up, pairs[k % 2]) for k in range(steps)])


def landing(seconds=0.6):
    """The same of a robot at rest."""
    count = round(seconds / CYCLE)
    return np.zeros((count, 3)), np.zeros((count, 4))


@cache
def run(motion, height=0.0) -> Run:
    """Simulate a motion. height: of the feet above the ground at the start, m."""
    body, heights = motion()
    rest = round(WARM_UP / CYCLE)
    targets = _targets(np.pad(body, ((rest, 0), (0, 0))), np.pad(heights, ((rest, 0), (0, 0))))
    rates = np.gradient(targets, CYCLE, axis=0)
    start = _standing()[0].copy()
    start[2] += height
    dog, rows, none = LeggedSimulation(WITHOUT_DRIVES, robot().joint_names, start, CYCLE), [], np.zeros(12)
    for target, rate in zip(targets, rates, strict=True):
        tau = STIFFNESS * (target - dog.q) + DAMPING * (rate - dog.qd)
        state = np.concatenate([dog.pose, dog.q]), np.concatenate([dog.twist, dog.qd])
        rows.append((*state, np.concatenate([np.zeros(6), tau]), dog.wrenches[:, 5].copy(), dog.imu))
        dog.step(tau, none, none)
    return Run(CYCLE * np.arange(len(rows)), *map(np.array, zip(*rows, strict=True)))


def _smooth(x):
    x = np.clip(x, 0.0, 1.0)
    return x**3 * (10 - 15 * x + 6 * x * x)


@cache
def _poses():
    return dn.build(robot(), "frame_poses", links=list(SOLO12.feet), backend="numpy")


@cache
def _standing():
    """q (nq,) and places of the feet (4, 3)."""
    q = robot().neutral()
    for joint, angle in SOLO12.stance.items():
        q[robot().q_names.index(joint)] = angle
    q[2] = -_poses()(q).positions[:, 2].mean()
    return q, _poses()(q).positions


def _targets(body, heights):
    """Positions of the legs (k, 12) for which feet are at these heights, by Newton's method."""
    stand, places = _standing()
    q = np.tile(stand, (len(body), 1))
    q[:, :3] += body
    wanted = np.tile(places, (len(body), 1, 1))
    wanted[:, :, 2] += heights
    jacobians = [dn.build(robot(), "frame_jacobian", link=foot, backend="numpy") for foot in SOLO12.feet]
    for _ in range(10):
        J = np.concatenate([jacobian(q)[:, 3:, 6:] for jacobian in jacobians], axis=1)
        missing = (wanted - _poses()(q).positions).reshape(len(q), 12)
        q[:, 7:] += np.linalg.solve(J, missing[..., None])[..., 0]
    return q[:, 7:]
