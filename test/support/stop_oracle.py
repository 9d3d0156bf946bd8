"""Stops by Pinocchio: which fractions of the limits they use at dense samples, and the shortest ones on paths."""

from functools import cache

import numpy as np
from cases import oracle_of
from oracle import pin
from robots import closed_states, robot_of
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq

import dynamics_node as dn

TIP = {"panda7": "panda_hand", "ur5": "tool0", "kinova": "j2s6s200_link_6", "xarm7": "link7"}
CENTER = {"panda7": [0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8], "xarm7": [0.0, 0.3, 0.0, 1.2, 0.0, 0.8, 0.0]}
LOOPS = {"five_bar": 2.0, "four_bar": 3.0}  # largest speeds, rad/s
LOOP_EFFORT = 30.0  # N m
MASS, COM = 1.5, np.array([0.02, -0.03, 0.08])
REACH = 3.0  # rad, of joints without limits


def loaded_arm(name):
    """A robot with a payload; the Panda has damping, the xArm dry friction as well."""
    return dn.with_payload(robot_of(name), TIP[name], MASS, COM)


def arm_state(robot, random):
    """q and qd away from the limits."""
    low, high = robot.lower_position_limits, robot.upper_position_limits
    low, high = np.maximum(low, -REACH), np.minimum(high, REACH)
    q = low + (high - low) * random.uniform(0.15, 0.85, robot.nq)
    return q, robot.velocity_limits * random.uniform(-0.8, 0.8, robot.nv)


def loop_state(name, random):
    """Closed q, and qd."""
    robot = robot_of(name)
    q = closed_states(robot, 1, int(random.integers(2**31)))[0][0]
    return q, LOOPS[name] * random.uniform(-1, 1, robot.nv)


def loop_limits(name):
    """Limits of the efforts of a closed loop."""
    return {joint: {"max_effort": LOOP_EFFORT} for joint in robot_of(name).v_names}


class ArmStops:
    """Torques of a loaded arm, and how much of its limits stops use."""

    def __init__(self, name, samples=60):
        self._oracle, self._u = oracle_of(name), np.linspace(0.0, 1.0, samples)
        self._robot, self._model = robot_of(name), pin.Model(self._oracle.pin)
        frame = self._model.frames[self._model.getFrameId(TIP[name])]
        load = pin.Inertia(MASS, COM, np.zeros((3, 3)))
        self._model.appendBodyToJoint(frame.parentJoint, load, frame.placement)
        self._data = self._model.createData()

    def tau(self, q, qd, qdd):
        """Efforts (nv,) with friction."""
        tau = pin.rnea(self._model, self._data, self._oracle.q(q), qd, qdd)
        return tau + self._robot.damping * qd + self._robot.friction * np.tanh(qd / 0.01)

    def used(self, q, qd, time, smooth=False):
        """The largest used fraction of efforts, of the rest after the stop too; infinite beyond positions."""
        u, robot = self._u[:, None], self._robot
        if smooth:
            way, speed, slope = u - u**3 + 0.5 * u**4, 1 - 3 * u**2 + 2 * u**3, 6 * u**2 - 6 * u
        else:
            way, speed, slope = u - 0.5 * u**2, 1 - u, np.full_like(u, -1.0)
        states = [*zip(q + time * way * qd, speed * qd, slope / time * qd, strict=True)]
        end = states[-1][0]
        tau = np.array([self.tau(*state) for state in (*states, (end, 0 * qd, 0 * qd))])
        outside = (end > robot.upper_position_limits) | (end < robot.lower_position_limits)
        return np.inf if outside.any() else np.abs(tau / robot.effort_limits).max()


class LoopStops:
    """The same of a closed loop, by multipliers."""

    def __init__(self, name, samples=41):
        self._robot, self._oracle = robot_of(name), oracle_of(name)
        self._u = np.linspace(0.0, 1.0, samples)

    def used(self, q, qd, time):
        """The largest used fraction of efforts; infinite if the loop cannot close."""
        robot, u = self._robot, self._u
        moved = np.tile(q, (len(u), 1))
        at = [robot.q_names.index(joint) for joint in robot.v_names]
        for k in range(len(u)):
            moved[k] = moved[max(k - 1, 0)]
            moved[k, at] = q[at] + time * (u[k] - 0.5 * u[k] ** 2) * qd
            moved[k] = dn.close_loops(robot, moved[k], errors="nan")
            if not np.isfinite(moved[k]).all():
                return np.inf
        rates, falling = (1 - u[:, None]) * qd, np.tile(-qd / time, (len(u), 1))
        held = self.efforts(moved[-1:], 0 * rates[:1], 0 * rates[:1])
        return max(np.abs(self.efforts(moved, rates, falling)).max(), np.abs(held).max()) / LOOP_EFFORT

    def efforts(self, q, qd, qdd):
        """Efforts (k, nv) with friction."""
        tau = [self._oracle.inverse(*state) for state in zip(q, qd, qdd, strict=True)]
        return np.array(tau) + dn.friction_torque(self._robot, q, qd)


@cache
def stops_of(name):
    """The ArmStops or LoopStops of a robot."""
    return LoopStops(name) if name in LOOPS else ArmStops(name)


def curve(center, reach=0.35, seconds=2.0, seed=0):
    """A smooth path from rest to rest, as a spline."""
    random = np.random.default_rng(seed)
    knots = np.linspace(0, seconds, 5)
    return CubicSpline(knots, center + random.uniform(-reach, reach, (5, len(center))), bc_type="clamped")


def sampled(names, path, count=81):
    """Its points as a trajectory."""
    time = np.linspace(0, path.x[-1], count)
    return dn.JointTrajectory(tuple(names), time, path(time), path(time, 1), path(time, 2))


def braking_time(name, path, begin):
    """The shortest stop on a path by Pinocchio, from the end back: the largest deceleration at every place.

    s is the time of the trajectory, so the speed at the start is 1. Torques are a s'' + g(s, s')."""
    robot, tau = robot_of(name), stops_of(name).tau

    def least(s, speed):
        """The least s'' within the limits."""
        q, qs, qss = path(s), path(s, 1), path(s, 2)
        rest = tau(q, qs * speed, qss * speed**2)
        a = tau(q, qs * speed, qss * speed**2 + qs) - rest
        a = np.where(np.abs(a) < 1e-9, 1e-9, a)
        return ((-np.sign(a) * robot.effort_limits - rest) / a).max()

    def back(end):
        """The speed at the start of a stop at `end`, and its time."""

        def slope(_, state):  # of s and speed by the time before the stop
            return [-state[1], -least(*state)]

        def begun(_, state):
            return state[0] - begin

        def fast(_, state):
            return state[1] - 3

        begun.terminal = fast.terminal = True
        found = solve_ivp(
            slope, (0, 5), [end, 1e-9], events=(begun, fast), rtol=1e-6, atol=1e-9, max_step=0.01
        )
        return found.y[1, -1], found.t[-1]

    end = brentq(lambda end: back(end)[0] - 1, begin + 1e-4, begin + 0.3, xtol=1e-7)
    return back(end)[1], end
