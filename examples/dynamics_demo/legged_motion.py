"""The motion of a robot on legs: it sways and turns, then lifts one foot after the other. Without ROS.

Weight shifts before a foot is lifted. By the shortest forces, the center of pressure determines what each
of four feet bears: half of the way to the opposite foot, a foot bears nothing. The center of pressure rests a
little before while this foot is in the air, so that the foot, with a fortieth of the weight, does not slide
while weight shifts. Forces and torques hardly change when the set of active contacts does.
"""

import numpy as np
from scipy.linalg import solve_banded

import dynamics_node as dn
from dynamics_demo.legged_robots import CLEAR, CYCLE, LIFT, PHASES, SHIFT, STEP, Legged

RAMP = 1.0  # s from rest to the full motion, and back
GRAVITY = 9.81
ROUNDS, LAST = 6, 3  # corrections of base and legs, and of the legs alone
UNLOADED = 0.45  # share of the way to the opposite foot that the center of pressure goes
EDGE = 2  # further cycles at both ends, for differences


class Motion:
    """Of a robot in every cycle: q (k, nq), qd and qdd (k, nv), the active feet (k, feet), and the number
    (k,) of the phase. Feet on the ground stay where they are. `seconds`: duration."""

    def __init__(self, legged: Legged, seconds: float):
        robot, time = legged.robot(), CYCLE * np.arange(-EDGE, round(seconds / CYCLE) + EDGE)
        placement = _Placement(robot, legged)
        stand, feet = placement.stand()
        path, middle = _Path(legged, seconds, feet), feet[:, :2].mean(axis=0)
        waves = path.envelope(time)[:, None] * np.sin(2 * np.pi * time[:, None] * legged.rates)
        sway, turn = waves[:, :3] * legged.sway, waves[:, 3:] * legged.turn
        height = placement.center_of_mass(stand)[2]
        shift = _pendulum(path.pressure(time) - middle, height)
        q = np.tile(stand, (len(time), 1))
        q[:, 2] += sway[:, 2]
        q[:, 3:7] = _quaternions(turn)
        q = placement.placed(q, path.feet(time), middle + sway[:, :2] + shift)
        there = dn.difference(robot, q[:-2], q[2:]) / (2 * CYCLE)  # qd at times 1 .. k - 1
        inside = slice(EDGE, -EDGE)
        self.q, self.qd = q[inside], there[1:-1]
        self.qdd = (there[2:] - there[:-2]) / (2 * CYCLE)
        self.active = path.active(time[inside])
        ends = [end for _, end in legged.phases(seconds).values()]
        self.phase = np.searchsorted(ends[:-1], time[inside], side="right")

    def __len__(self):
        return len(self.q)


class _Path:
    """Where feet (feet, 3) and the center of pressure are over time."""

    def __init__(self, legged, seconds, feet):
        self._legged, self._feet, self._end = legged, feet, legged.phases(seconds)[PHASES[-1]][1]
        self._shifts = self._end + STEP * np.arange(len(legged.lifted) + 1)  # begins; the last is back
        lifts = dict(zip(legged.lifted, self._shifts + SHIFT + CLEAR, strict=False))
        self._lifts = np.array([lifts.get(foot, np.inf) for foot in legged.feet])

    def envelope(self, time):
        """(k,): from 0 to 1 at the start, and to 0 before the feet are lifted."""
        falling = _step((time - self._end + RAMP) / RAMP) if self._legged.lifted else 0.0
        return _step(time / RAMP) - falling

    def active(self, time):
        """(k, feet) of bool."""
        into = self._into_lift(time)
        return (into < 0.0) | (into >= LIFT)

    def feet(self, time):
        """Places (k, feet, 3)."""
        s = np.clip(self._into_lift(time) / LIFT, 0.0, 1.0)
        feet = np.tile(self._feet, (len(time), 1, 1))
        feet[..., 2] += self._legged.rise * 64 * (s * (1 - s)) ** 3
        return feet

    def _into_lift(self, time):
        """Times (k, feet) since each foot was lifted."""
        return time[:, None] - self._lifts

    def pressure(self, time):
        """The center of pressure (k, 2) without the sway."""
        xy, middle = self._feet[:, :2], self._feet[:, :2].mean(axis=0)
        opposite = [
            middle + UNLOADED * (middle - xy[self._legged.feet.index(foot)]) for foot in self._legged.lifted
        ]
        moves = zip(self._shifts, np.diff([middle, *opposite, middle], axis=0), strict=True)
        return middle + sum(_step((time - begin) / SHIFT)[:, None] * move for begin, move in moves)


def _step(x):
    """From 0 at 0 to 1 at 1, without velocity and acceleration at both."""
    x = np.clip(x, 0.0, 1.0)
    return x**3 * (10 - 15 * x + 6 * x * x)


def _pendulum(pressure, height):
    """Places c (k, 2) of the center of mass, from those p of the center of pressure: c - h / g d^2c/dt^2 = p
    at the height h, as for an inverted pendulum. Both rest at the ends."""
    stiff = height / GRAVITY / CYCLE**2
    bands = np.tile([[-stiff], [1 + 2 * stiff], [-stiff]], len(pressure))
    bands[1, [0, -1]] -= stiff
    return solve_banded((1, 1), bands, pressure)


def _quaternions(vectors):
    """x y z w (k, 4) of rotation vectors."""
    angle = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.concatenate([0.5 * np.sinc(angle / (2 * np.pi)) * vectors, np.cos(angle / 2)], axis=1)


class _Placement:
    """Inverse kinematics: joints and base for places of the feet and of the center of mass."""

    def __init__(self, robot, legged):
        self._robot, self._legged = robot, legged

        def built(quantity, **choices):
            return dn.build(robot, quantity, backend="numpy", **choices)

        self._poses, self._center = built("frame_poses", links=list(legged.feet)), built("center_of_mass")
        self._jacobians = [built("frame_jacobian", link=foot) for foot in legged.feet]
        self._rows = slice(0 if legged.half_lengths else 3, 6)

    def center_of_mass(self, q):
        """(k, 3) at q (k, nq)."""
        return self._center(q).position

    def stand(self):
        """The stance (nq,) on the ground, and the places (feet, 3) of its feet."""
        q = self._robot.neutral()
        for joint, angle in self._legged.stance.items():
            q[self._robot.q_names.index(joint)] = angle
        q[2] -= self._poses(q).positions[:, 2].mean()
        feet = self._poses(q).positions
        feet[:, 2] = 0.0
        return q, feet

    def placed(self, q, feet, center):
        """q (k, nq) with the feet at (k, feet, 3), soles level, and the center of mass at (k, 2)."""
        q = q.copy()
        for _ in range(ROUNDS):
            q[:, :2] += center - self.center_of_mass(q)[:, :2]
            self._reach(q, feet)
        for _ in range(LAST):
            self._reach(q, feet)
        return q

    def _reach(self, q, feet):
        """A step of Newton's method of the legs."""
        J = np.concatenate([jacobian(q)[:, self._rows, 6:] for jacobian in self._jacobians], axis=1)
        legs = np.flatnonzero(J.any(axis=(0, 1)))
        poses = self._poses(q)
        errors = np.concatenate([_tilt(poses.rotations), feet - poses.positions], axis=-1)[..., self._rows]
        q[:, 7 + legs] += np.linalg.solve(J[..., legs], errors.reshape(len(q), -1, 1))[..., 0]


def _tilt(rotations):
    """Rotation vectors (..., 3) that make rotations (..., 3, 3) level, to first order."""
    R = rotations - np.swapaxes(rotations, -1, -2)
    return -0.5 * np.stack([R[..., 2, 1], R[..., 0, 2], R[..., 1, 0]], axis=-1)
