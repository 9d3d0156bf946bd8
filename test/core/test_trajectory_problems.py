"""Simulations, inverse trajectories and estimates, against an independent integrator and each other."""

from functools import cache

import numpy as np
import pytest
from trajectory_cases import robot_of

import dynamics_node as dn
from dynamics_demo.robots import UPRIGHT, differential, five_bar
from dynamics_node.algorithms import first_closed
from dynamics_node.errors import (
    InconsistentStart,
    InputError,
    NotConverged,
    SingularPosition,
    TrajectoryError,
)
from dynamics_node.trajectory import SmootherOptions

SAME_RULE = 1e-6  # rad or m after a second or two of falling, while errors grow


@cache
def released_robot(name):
    """A robot and the closed position of its release."""
    if name == "five_bar":
        robot = dn.parse_robot(five_bar(UPRIGHT))
        return robot, first_closed(robot, np.array([-1.2, 0.0, -1.9, 0.0]))
    if name == "differential":
        robot = dn.parse_robot(differential())
        return robot, first_closed(
            robot, np.array([0.8, 0.15, 0.8, 0.8])
        )  # cranks must not become collinear with rods
    robot = robot_of(name)
    return robot, robot.neutral() + 0.3


class Trapezoids:
    """z_next = z + dt/2 (zd + zd_next), likewise zd with forward dynamics, by fixed-point iteration."""

    def __init__(self, robot):
        self.robot, self.forward = robot, dn.build(robot, dn.forward_dynamics(robot))
        self.closing = dn.build_loop_solver(robot) if robot.constrained else None
        self.own = robot.independent if self.closing else slice(None)

    def run(self, q, dt, steps, torque):
        qd = np.zeros(self.robot.nv)
        positions = [q]
        acceleration = self.forward(q, qd, torque(0.0, q, qd))
        for k in range(1, steps + 1):
            q, qd, acceleration = self._step(q, qd, acceleration, dt, torque(dt * k, q, qd))
            positions.append(q)
        return np.array(positions)

    def _step(self, q, qd, acceleration, dt, tau):
        rate, after = qd + dt * acceleration, q
        for _ in range(100):
            before, after = after, self._moved(q, 0.5 * dt * (qd + rate), after)
            again = self.forward(after, rate, tau)
            rate = qd + 0.5 * dt * (acceleration + again)
            if np.abs(after - before).max() < 1e-15:
                break
        return after, rate, again

    def _moved(self, q, step, near):
        moved = near.copy()
        moved[self.own] = q[self.own] + step
        return self.closing.following(moved, near)[0] if self.closing else moved


@pytest.mark.parametrize(
    "name, duration", [("panda7", 1.0), ("double_pendulum", 2.0), ("five_bar", 1.0), ("differential", 1.0)]
)
def test_simulation_agrees_with_the_trapezoidal_rule(name, duration):
    robot, q = released_robot(name)
    steps = round(duration / 1e-3)
    motion = dn.simulate(robot, q, steps=steps, friction=False)
    own = Trapezoids(robot).run(q, 1e-3, steps, lambda t, q, qd: np.zeros(robot.nv))
    assert np.abs(motion.q - own).max() <= SAME_RULE
    assert np.ptp(motion.q, axis=0).max() > 0.1  # it fell
    assert len(motion) == steps + 1 and motion.time[-1] == pytest.approx(duration)
    exact = ("position constraint", "velocity constraint", "acceleration constraint", "dynamics")
    assert max(motion.residuals.get(factor, np.zeros(1)).max() for factor in exact) <= 1e-9


def test_steps_of_a_fast_motion_take_few_iterations():
    """The marginal from step to step stays regular without measurements."""
    robot, q = released_robot("panda7")
    assert dn.simulate(robot, q, duration=2.0).iterations.mean() <= 3.0


def test_simulation_stops_at_a_singular_position():
    """The lower links of the five-bar become collinear, where independent joints do not determine the motion."""
    robot, _ = released_robot("five_bar")
    q = first_closed(robot, np.array([1.9, 0.0, 1.2, 0.0]))
    with pytest.raises(SingularPosition, match=r"five_bar.* 0\.2\d* s .*'j3', 'j4'") as caught:
        dn.simulate(robot, q, duration=1.0)
    partial = caught.value.solution
    assert 250 < len(partial) < 300
    in_line = np.sin(partial.q[:, 0] + partial.q[:, 1] - partial.q[:, 2] - partial.q[:, 3])
    assert (np.sign(in_line) == np.sign(in_line[0])).all() and abs(in_line[-1]) < 0.2


def test_center_of_mass_of_a_floating_robot_falls_freely():
    robot = robot_of("floating")
    qd = np.array([1.0, 2.0, -3.0, 0.5, -0.2, 0.1, 4.0])
    motion = dn.simulate(robot, robot.neutral(), qd, 0.3)

    def center_of_mass(q):
        poses = [
            dn.evaluate(robot, "frame_pose", q, link=body.name, backend="numpy") for body in robot.bodies
        ]
        parts = [
            body.inertia[5, 5] * p + R @ _first_moment(body)
            for body, (R, p) in zip(robot.bodies, poses, strict=True)
        ]
        return sum(parts) / sum(body.inertia[5, 5] for body in robot.bodies)

    start, end = center_of_mass(motion.q[0]), center_of_mass(motion.q[-1])
    first = (center_of_mass(motion.q[1]) - start) / 1e-3 + 0.5e-3 * 9.81 * np.array([0, 0, 1])
    fallen = 0.3 * first - 0.5 * 9.81 * 0.3**2 * np.array([0, 0, 1])
    assert np.abs(end - start - fallen).max() <= 1e-4
    assert np.abs(np.linalg.norm(motion.q[:, 3:7], axis=1) - 1.0).max() <= 1e-12
    assert motion.units["q"] == ("m",) * 3 + ("1",) * 4 + ("rad",)
    with pytest.raises(InputError, match="quaternion"):
        dn.simulate(robot, 1.1 * motion.q[-1], steps=1)


def _first_moment(body):
    """Mass times center of mass (3,) of a body, from its inertia."""
    return np.array([body.inertia[2, 4], body.inertia[0, 5], body.inertia[1, 3]])


def test_controller_torques_use_the_previous_step():
    robot, q = released_robot("double_pendulum")

    def torque(t, q, qd):
        return -3.0 * q - 0.5 * qd + np.sin(t)

    motion = dn.simulate(robot, q, duration=0.5, torque=torque, friction=False)
    own = Trapezoids(robot).run(q, 1e-3, 500, torque)
    assert np.abs(motion.q - own).max() <= SAME_RULE
    at_rest = dn.simulate(
        robot,
        q,
        duration=0.1,
        torque=dn.evaluate(robot, "nonlinear_effects", q, np.zeros(2), backend="numpy"),
    )
    assert np.abs(at_rest.q - q).max() <= 1e-9


def test_lags_and_batches_agree():
    """The solution is unique."""
    robot, q = released_robot("five_bar")
    first = dn.simulate(robot, q, duration=0.3)
    for lag_steps in (5, None):
        assert np.abs(dn.simulate(robot, q, duration=0.3, lag_steps=lag_steps).q - first.q).max() <= 1e-10


# --- errors -------------------------------------------------------------------------------------------------


def test_inconsistent_starts_are_rejected():
    robot, q = released_robot("five_bar")
    with pytest.raises(InconsistentStart, match="five_bar.*open.*'j[34]'"):
        dn.simulate(robot, q + np.array([0.0, 0.01, 0.0, 0.0]), duration=0.1)
    with pytest.raises(InconsistentStart, match="velocities"):
        dn.simulate(robot, q, [1.0, 0.0, 0.0, 0.0], 0.1)
    rates = dn.spanning(robot, q, np.array([0.3, -0.2]))[1]
    motion = dn.simulate(robot, q, rates, 0.1)
    assert np.abs(motion.q - dn.simulate(robot, q, [0.3, -0.2], 0.1).q).max() <= 1e-9


def test_error_has_the_previous_states():
    """Rounding determines which of the errors occurs."""
    robot, q = released_robot("double_pendulum")
    good = dn.simulate(robot, q, steps=30, dt=0.01)
    with pytest.raises(TrajectoryError, match=r"2dof_planar, at 0\.3\d* s: ") as caught:
        dn.simulate(robot, q, steps=60, dt=0.01, torque=lambda t, q, qd: np.full(2, 1e9 * (t > 0.305)))
    partial = caught.value.solution
    assert 25 <= len(partial) <= 32 and np.abs(partial.q[:29] - good.q[:29]).max() <= 1e-6


def test_immediate_error_has_an_empty_trajectory():
    robot, q = released_robot("double_pendulum")
    with pytest.raises(TrajectoryError) as caught:
        dn.simulate(robot, q, steps=5, dt=0.1, torque=np.full((6, 2), 1e12))
    assert len(caught.value.solution) <= 2


@pytest.mark.parametrize(
    "change, words",
    [
        ({"dt": 0.0}, "dt "),
        ({"duration": None}, "duration.*steps"),
        ({"steps": 3}, "duration.*steps"),
        ({"duration": -1.0}, "negative"),
        ({"q0": [0.0]}, "q0 .* 2 finite"),
        ({"qd0": [np.nan, 0.0]}, "qd0 .* 2 finite"),
        ({"torque": np.zeros((3, 2))}, r"torque.*\(2,\).*\(101, 2\).*\(3, 2\)"),
        ({"torque": lambda t, q, qd: q[:1]}, " 0 s .*torque.* 2 finite"),
        ({"lag_steps": 0}, "lag_steps"),
    ],
)
def test_invalid_arguments_of_simulate(change, words):
    robot, q = released_robot("double_pendulum")
    arguments = {"q0": q, "duration": 0.1} | change
    with pytest.raises((InputError, ValueError), match=words):
        dn.simulate(robot, **arguments)


# --- inversion ----------------------------------------------------------------------------------------------

TIME = np.linspace(0.0, 1.0, 1001)


def curve(count):
    """z, zd, zdd (rows, count) of smooth curves."""
    w = 2.0 + np.arange(count)
    t = TIME[:, None]
    return 0.4 * np.sin(w * t), 0.4 * w * np.cos(w * t), -0.4 * w * w * np.sin(w * t)


@pytest.mark.parametrize("name", ["double_pendulum", "five_bar"])
def test_torques_of_a_curve_agree_with_inverse_dynamics(name):
    robot, q0 = released_robot(name)
    own = robot.independent if robot.constrained else slice(None)
    z, zd, zdd = curve(robot.nv)
    motion = dn.inverse_trajectory(robot, TIME, q0[own] + z, zd, zdd, q0=q0)
    inverse = dn.build(robot, dn.inverse_dynamics(robot))
    q = np.tile(q0, (len(TIME), 1))
    q[:, own] = q0[own] + z
    if robot.constrained:
        closing = dn.build_loop_solver(robot)
        for k in range(len(q)):
            q[k], _ = closing.following(q[k], q[max(k - 1, 0)])
    assert np.abs(motion.q - q).max() <= 1e-5
    tau = inverse(q, zd, zdd)
    assert np.abs(motion.tau - tau).max() <= 1e-4 * np.abs(tau).max()
    back = dn.simulate(robot, motion.q[0], motion.qd[0], steps=1000, torque=motion.tau, friction=False)
    assert np.abs(back.q - motion.q).max() <= SAME_RULE
    splined = dn.inverse_trajectory(robot, TIME, q0[own] + z, q0=q0)
    assert np.abs(splined.qd - zd).max() <= 1e-4
    assert np.abs(splined.tau - tau).max() <= 1e-3 * np.abs(tau).max()


def test_infeasible_curve_raises_an_error():
    robot, q0 = released_robot("differential")
    z = q0[robot.independent] + 0.5 * curve(2)[0]
    with pytest.raises(NotConverged, match=r"differential.*0\.[23]\d* s"):
        dn.inverse_trajectory(robot, TIME, z, q0=q0)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"time": TIME[::-1]}, "increasing"),
        ({"q": np.zeros((3, 2))}, r"q .*\(1001, 2\).*\(1001, 4\).*\(3, 2\)"),
        ({"qd": np.zeros((1001, 1)), "qdd": np.zeros((1001, 2))}, r"qd .*\(1001, 2\)"),
        ({"q0": np.zeros(2)}, "q0 .* 4 finite"),
        ({"stds": (1.0, 0.0, 1.0)}, "stds"),
    ],
)
def test_invalid_arguments_of_inverse_trajectory(change, words):
    robot, q0 = released_robot("five_bar")
    arguments = {"time": TIME, "q": q0[robot.independent] + curve(2)[0], "q0": q0} | change
    with pytest.raises(InputError, match=words):
        dn.inverse_trajectory(robot, **arguments)


# --- estimation ---------------------------------------------------------------------------------------------

PUSH = 0.05  # N m
NOISE = SmootherOptions(encoder_std=1e-4, torque_std=1e-3, jerk_density=1e4, external_torque_density=0.02)


@cache
def recording():
    """A controlled double pendulum with an external torque on its first joint from 0.5 s on."""
    robot, q = released_robot("double_pendulum")
    random = np.random.default_rng(4)

    inverse = dn.build(robot, dn.inverse_dynamics(robot))

    def torque(t, q, qd):
        return inverse(q, qd, 100.0 * (0.4 * np.sin(3 * t + np.arange(2)) - q) - 20.0 * qd)

    def push(t):
        return np.stack([PUSH * (t > 0.5), 0 * t], axis=-1)

    motion = dn.simulate(
        robot, q, duration=1.0, dt=2e-3, torque=lambda t, q, qd: torque(t, q, qd) + push(t), friction=False
    )
    pushes = push(motion.time)
    readings = {
        "q": motion.q + 1e-4 * random.normal(size=motion.q.shape),
        "tau": motion.tau - pushes + 1e-3 * random.normal(size=motion.tau.shape),
    }
    return robot, motion, pushes, readings


@pytest.mark.parametrize("lag_steps", [None, 10])
def test_estimation_errors_match_standard_deviations(lag_steps):
    robot, truth, pushes, readings = recording()
    estimate = dn.smooth(robot, truth.time, readings, options=NOISE, lag_steps=lag_steps)
    calm = truth.time > 0.1
    for kind, own in (("q", truth.q), ("qd", truth.qd)):
        error = (getattr(estimate, kind) - own)[calm]
        assert np.sqrt((error**2).mean()) <= 1.5 * estimate.std[kind][calm].mean()
    assert np.sqrt(((estimate.q - truth.q) ** 2).mean()) < 0.6e-4  # about half of the encoder noise
    late = truth.time > 0.7
    assert np.abs(estimate.external_torque[late].mean(axis=0) - [PUSH, 0.0]).max() <= 0.1 * PUSH
    for kind in ("q", "qd", "qdd", "external_torque"):
        variance = np.diagonal(estimate.covariance[kind], axis1=1, axis2=2)
        assert np.allclose(np.sqrt(variance), estimate.std[kind]) and (variance > 0).all()


def test_batch_is_more_accurate_than_a_fixed_lag():
    robot, truth, _, readings = recording()
    whole = dn.smooth(robot, truth.time, readings, options=NOISE)
    lagging = dn.smooth(robot, truth.time, readings, options=NOISE, lag_steps=3)
    assert (whole.std["qdd"][50:-50] < 0.9 * lagging.std["qdd"][50:-50]).all()
    errors = [np.sqrt(((m.qdd - truth.qdd)[50:-50] ** 2).mean()) for m in (whole, lagging)]
    assert errors[0] < errors[1]


def test_missing_readings_are_skipped():
    """NaN readings are skipped: standard deviations grow there and recover."""
    robot, truth, _, readings = recording()
    gone = {name: rows.copy() for name, rows in readings.items()}
    gone["q"][200:220, 0] = np.nan
    gone["tau"][210] = np.nan
    estimate = dn.smooth(robot, truth.time, gone, options=NOISE)
    assert np.abs(estimate.q - truth.q).max() <= 2e-3
    assert estimate.std["q"][210, 0] > 1.5 * estimate.std["q"][150, 0] > 0
    without = dn.smooth(robot, truth.time, {"q": readings["q"]}, options=NOISE)
    assert without.external_torque is None and "external_torque" not in without.std
    assert np.abs(without.q - truth.q).max() <= 1e-3
    jumping = {**readings, "q": readings["q"] + [0.0, 2 * np.pi] * (truth.time > 0.4)[:, None]}
    assert robot.independent_joints[1].type.wraps
    estimate = dn.smooth(robot, truth.time, jumping, options=NOISE)
    assert np.abs(estimate.q - truth.q).max() <= 1e-3


def test_readings_of_driven_joints_estimate_a_linkage():
    robot, q = released_robot("five_bar")
    truth = dn.simulate(robot, q, duration=0.3, dt=2e-3, torque=[0.5, -0.5])
    own = truth.q[:, robot.independent]
    readings = {"q": own + 1e-4 * np.random.default_rng(0).normal(size=own.shape), "tau": truth.tau}
    estimate = dn.smooth(robot, truth.time, readings, options=NOISE, q0=q)
    assert np.abs(estimate.q - truth.q).max() <= 1e-3
    assert estimate.residuals["position constraint"].max() <= 1e-9
    open_at = {"q": np.tile([3.1, 0.0], (len(truth), 1)), "tau": truth.tau}
    with pytest.raises(InconsistentStart, match="readings"):
        dn.smooth(robot, truth.time, open_at, options=NOISE, q0=q)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"knee": np.zeros((501, 1))}, "'knee'.*q, tau"),
        ({"q": np.zeros((501, 3))}, r"q .*\(count, 2\)"),
        ({"tau": np.zeros((5, 2))}, r"'torque'.*\(501, 2\).*\(5, 2\)"),
    ],
)
def test_mismatched_readings_are_rejected(change, words):
    robot, truth, _, readings = recording()
    with pytest.raises(InputError, match=words):
        dn.smooth(robot, truth.time, readings | change, options=NOISE)


def test_trajectory_errors_are_arithmetic_errors():
    assert issubclass(TrajectoryError, ArithmeticError) and dn.TrajectoryError is TrajectoryError
