"""stop_on_path: against Pinocchio at dense samples, bisection on its decelerations, and toppra's time reversed."""

import numpy as np
import pytest
from cart_pole import CART
from robots import robot_of
from scipy.optimize import brentq
from stop_oracle import CENTER, LOOPS, TIP, braking_time, curve, loaded_arm, sampled, stops_of

import dynamics_node as dn
from dynamics_node.errors import InfeasibleError, InputError

toppra = pytest.importorskip("toppra", reason="stops on a path: pip install toppra")


def along(points, parts=12):
    """q, qd, qdd of the executed polynomials, at `parts` times in every segment."""
    steps = (np.arange(parts) + 0.5) / parts
    time = (points.time[:-1, None] + np.diff(points.time)[:, None] * steps).ravel()
    return points.at(time)[1:4]


@pytest.mark.parametrize(
    ("name", "begin"), [("panda7", 0.31), ("panda7", 1.1), ("xarm7", 0.77), ("xarm7", 1.2)]
)
def test_the_shortest_stop_by_pinocchio(name, begin):
    """With a payload and friction: the time of the largest decelerations, within limits between the points."""
    robot, path = loaded_arm(name), curve(CENTER[name], seed=1)
    points = sampled(robot.v_names, path)
    stop = dn.stop_on_path(robot, points, begin, links=[TIP[name]], backend="numpy")
    expected, end = braking_time(name, path, begin)
    assert np.isclose(stop.time, expected, rtol=0.01) and stop.limit.quantity == "effort"
    q, qd, qdd = along(stop.trajectory)
    tau = np.array([stops_of(name).tau(*state) for state in zip(q, qd, qdd, strict=True)])
    assert (np.abs(tau) <= robot.effort_limits * 1.001).all()
    assert np.allclose(stop.trajectory.q[0], path(begin), atol=1e-6) and not stop.trajectory.qd[-1].any()
    assert np.allclose(stop.trajectory.qd[0], path(begin, 1), atol=1e-4)
    assert np.abs(stop.trajectory.q[-1] - path(end)).max() <= 0.02 * np.abs(path(end) - path(begin)).max()
    places = path(np.linspace(begin, end + 0.01, 4001))
    assert max(np.abs(places - at).max(axis=1).min() for at in q[::7]) <= 1e-4
    ways = np.abs(np.diff(q, axis=0)).sum(axis=0)
    assert np.allclose(list(stop.distance.values()), ways, rtol=0.02, atol=1e-5)
    assert stop.links[TIP[name]].path > 0


@pytest.mark.parametrize("seed", range(2))
def test_the_way_by_toppra_back_in_time(seed):
    """toppra with its own constraint of torques speeds up along the reversed path, without friction."""
    robot, path, begin = robot_of("panda7"), curve(CENTER["panda7"], seed=seed), 0.9
    stop = dn.stop_on_path(
        robot, sampled(robot.v_names, path), begin, friction=False, links=["panda_hand"], backend="numpy"
    )
    inverse = dn.build(robot, "inverse_dynamics", backend="numpy")
    far = brentq(lambda s: np.linalg.norm(path(s) - path(begin)) - np.linalg.norm(stop.trajectory.q[-1] - path(begin)), begin, begin + 0.2)  # fmt: skip

    def duration(way):
        """Of the fastest motion from rest to the speed of the trajectory, None without."""
        end, count = begin + way, 120
        s = np.linspace(0, way, 4 * count + 1)
        back = toppra.SplineInterpolator(s, path(end - s), [(2, path(end, 2)), (2, path(begin, 2))])
        effort = np.stack([-robot.effort_limits, robot.effort_limits], axis=1)
        torque = toppra.constraint.JointTorqueConstraint(
            inverse, effort, np.zeros(7), toppra.constraint.DiscretizationType.Interpolation
        )
        grid = way * np.linspace(0, 1, count + 1) ** 2
        _, speeds, _ = toppra.algorithm.TOPPRA([torque], back, gridpoints=grid).compute_parameterization(0, 1)
        return None if speeds is None else (2 * np.diff(grid) / (speeds[1:] + speeds[:-1])).sum()

    assert duration(0.985 * (far - begin)) is None
    fastest = duration(1.015 * (far - begin))
    assert fastest is not None and np.isclose(stop.time, fastest, rtol=0.02)


def line(speed, *, seconds=1.0, rest=False):
    """The cart moves with a constant speed, or slows down to rest."""
    time = np.array([0.0, seconds])
    end = 0.0 if rest else speed
    q = np.array([[-0.2], [-0.2 + seconds * (speed + end) / 2]])
    return dn.JointTrajectory(("slide",), time, q, np.array([[speed], [end]]), np.full((2, 1), np.nan))


def test_constant_decelerations():
    """With a limit of deceleration d alone: speed / d, on half the way."""
    robot, limits = dn.parse_robot(CART), {"slide": {"max_deceleration": 0.8, "max_acceleration": 5.0}}
    options = {"q0": [0, 0.3], "friction": False, "limits": limits, "backend": "numpy"}
    for speed, begin in ((0.3, 0.0), (0.3, 0.25), (0.02, 0.4)):
        stop = dn.stop_on_path(robot, line(speed), begin, **options)
        assert np.isclose(stop.time, speed / 0.8, rtol=3e-3) and stop.time >= speed / 0.8
        assert np.isclose(stop.distance["slide"], speed**2 / 1.6, rtol=5e-3)
        assert (stop.limit.joint, stop.limit.quantity) == ("slide", "acceleration")
        assert np.isclose(stop.trajectory.q[0, 0], -0.2 + speed * begin)


@pytest.mark.parametrize("jerk", [4.0, 30.0])
def test_a_limit_of_jerk(jerk):
    """From a speed v, without acceleration: 2 sqrt(v / jerk), half of it with each sign."""
    robot, speed = dn.parse_robot(CART), 0.3
    limits = {"slide": {"max_jerk": jerk, "max_acceleration": 50.0}}
    options = {"q0": [0, 0.3], "friction": False, "limits": limits, "backend": "numpy"}
    stop = dn.stop_on_path(robot, line(speed), 0.2, **options)
    shortest = 2 * np.sqrt(speed / jerk)
    assert shortest * (1 - 1e-6) <= stop.time <= 1.06 * shortest
    assert np.isclose(stop.distance["slide"], speed * stop.time / 2, rtol=0.05)
    assert stop.check.feasible and stop.limit.quantity == "jerk"
    assert np.allclose(stop.trajectory.qdd[[0, -1]], 0, atol=1e-9) and not stop.trajectory.qd[-1].any()


@pytest.mark.parametrize("rate", [1500.0])
def test_effort_rates_by_pinocchio(rate):
    """The stop continues the torques of the trajectory, on its path, within limits between the points."""
    name, begin = "panda7", 0.5
    robot, path = loaded_arm(name), curve(CENTER[name], seed=1)
    limits = {joint: {"max_effort_rate": rate} for joint in robot.v_names}
    points = sampled(robot.v_names, path)
    stop = dn.stop_on_path(robot, points, begin, limits=limits, backend="numpy")
    time = np.linspace(0, stop.time, 2001)
    states = stop.trajectory.at(time)[1:4]
    tau = np.array([stops_of(name).tau(*state) for state in zip(*states, strict=True)])
    changes = np.abs(np.diff(tau, axis=0)).max() / (time[1] - time[0])
    assert 0.9 * rate <= changes <= 1.01 * rate and (np.abs(tau) <= robot.effort_limits * 1.001).all()
    assert np.allclose(tau[0], stops_of(name).tau(path(begin), path(begin, 1), path(begin, 2)), atol=0.05)
    fast = dn.stop_on_path(robot, points, begin, backend="numpy")
    state = [values[0] for values in points.at([begin])[1:4]]
    together = dn.stopping_trajectory(robot, *state[:2], qdd=state[2], limits=limits, backend="numpy")
    assert fast.time < stop.time < together.time
    places = path(np.linspace(begin, begin + stop.time, 4001))
    assert max(np.abs(places - at).max(axis=1).min() for at in states[0][::50]) <= 1e-4


def test_a_stop_is_not_faster_than_the_trajectory():
    """At no place of its path."""
    robot, path = robot_of("panda7"), curve(CENTER["panda7"], seed=3)
    points = sampled(robot.v_names, path)
    for begin in (0.2, 1.5):
        stop = dn.stop_on_path(robot, points, begin, backend="numpy")
        q, qd, _ = along(stop.trajectory)
        places = np.linspace(begin, 2, 8001)
        at = [np.abs(path(places) - own).max(axis=1).argmin() for own in q]
        assert (
            np.linalg.norm(qd, axis=1) <= 1.002 * np.linalg.norm(path(places[at], 1), axis=1) + 1e-6
        ).all()


def test_the_rest_of_the_trajectory_is_a_stop():
    """It brakes as strongly as its limits permit already: nothing is faster."""
    robot, limits = dn.parse_robot(CART), {"slide": {"max_acceleration": 0.5}}
    options = {"q0": [0, 0.3], "friction": False, "limits": limits, "backend": "numpy"}
    stop = dn.stop_on_path(robot, line(0.5, rest=True), 0.4, **options)
    assert np.isclose(stop.time, 0.6, rtol=1e-3) and np.isclose(stop.trajectory.q[-1, 0], 0.05, atol=1e-4)


def test_a_robot_that_rests():
    robot, points = dn.parse_robot(CART), line(0.3, rest=True)
    for time in (1.0, np.float32(1.0)):
        stop = dn.stop_on_path(robot, points, time, q0=[0, 0.3], links=["cart"], backend="numpy")
        assert stop.time == 0 and stop.limit is None and stop.links["cart"].path == 0
    with pytest.raises(InfeasibleError, match="rests, .*effort of hinge"):
        dn.stop_on_path(
            robot, points, 1.0, q0=[0, 0.3], limits={"hinge": {"max_effort": 0.01}}, backend="numpy"
        )


def test_a_stop_before_the_next_stop_of_the_trajectory():
    """A trajectory that turns back: the stop is before, although the path goes on."""
    robot = dn.parse_robot(CART)
    time, still = np.array([0.0, 1.0, 2.0]), np.zeros((3, 1))
    points = dn.JointTrajectory(("slide",), time, np.array([[0.0], [0.2], [0.0]]), still, still)
    limits = {"slide": {"max_acceleration": 1.3}}
    stop = dn.stop_on_path(robot, points, 0.8, q0=[0, 0.3], limits=limits, friction=False, backend="numpy")
    assert stop.time <= 0.2 + 1e-6 and 0 < stop.trajectory.q[-1, 0] <= 0.2 + 1e-9


@pytest.mark.parametrize("name", LOOPS)
def test_closed_loops(name):
    """Efforts by Pinocchio with multipliers: within limits, and at one of them at all times."""
    robot, truth = robot_of(name), stops_of(name)
    start = {"five_bar": [1.9, 0, 1.2, 0], "four_bar": [0.9, 0.0, 0.0]}[name]
    q0 = dn.first_closed(robot, start)
    names = list(robot.v_names)
    path = curve(q0[[robot.q_names.index(joint) for joint in names]], reach=0.3, seconds=0.6)
    limits = {joint: {"max_effort": 30.0} for joint in names}
    stop = dn.stop_on_path(robot, sampled(names, path, 31), 0.25, q0=q0, limits=limits, backend="numpy")
    check = stop.check
    assert check.feasible and np.abs(dn.close_loops(robot, check.q) - check.q).max() <= 1e-9
    tau = truth.efforts(check.q, check.qd, check.qdd)
    used = np.abs(tau).max(axis=1) / 30.0
    assert used.max() <= 1 + 1e-5 and np.mean(used >= 0.97) >= 0.9
    assert np.isclose(np.linalg.norm(check.qd[0]), np.linalg.norm(path(0.25, 1)), rtol=1e-4)


@pytest.mark.parametrize(
    ("more", "error", "match"),
    [
        ({"time": 1.5}, InputError, "from 0 s to 1 s"),
        ({"time": 1.0}, InfeasibleError, "ends in motion, at 1 s: stop joint by joint"),
        ({"time": 0.9}, InfeasibleError, "acceleration of slide at .* limit .*stop joint by joint"),
        ({"time": 0.9, "limits": {"slide": {"max_deceleration": 1.5}}}, InfeasibleError, "acceleration of slide .* limit -1.5"),
        ({"longest": 0.1}, InfeasibleError, "acceleration of slide"),
        ({"limits": {"slide": {"max_jerk": 0.1, "max_acceleration": 5.0}}}, InfeasibleError, "jerk of slide at .* limit .*stop joint by joint"),
        ({"limits": {"hinge": {"max_effort": 1e-3}}}, InfeasibleError, "effort of hinge"),
        ({"links": ["nose"]}, InputError, "nose"),
        ({"longest": 1e-4}, InputError, "longest"),
        ({"trajectory": dn.JointTrajectory(("slide",), [0, 1], [[0.0], [0.2]], *np.full((2, 2, 1), np.nan))}, InputError, "needs velocities"),
    ],
)  # fmt: skip
def test_errors(more, error, match):
    arguments = {
        "trajectory": line(0.3), "time": 0.2, "q0": [0, 0.3], "limits": {"slide": {"max_deceleration": 0.8}},
        "backend": "numpy",
    }  # fmt: skip
    with pytest.raises(error, match=match):
        dn.stop_on_path(dn.parse_robot(CART), **(arguments | more))
