"""stopping_trajectory: against Pinocchio on dense samples of stops of all shorter times."""

import numpy as np
import pytest
from cart_pole import CART
from robots import robot_of
from stop_oracle import TIP, arm_state, loaded_arm, loop_limits, stops_of

import dynamics_node as dn
from dynamics_node.errors import InfeasibleError, InputError

REST = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])


def require_shortest(truth, robot, q, qd, smooth):
    """The stop keeps the limits at 60 samples, and no shorter one does; or there is none."""
    more = {"qdd": np.zeros(robot.nv)} if smooth else {}
    try:
        stop = dn.stopping_trajectory(robot, q, qd, backend="numpy", **more)
    except InfeasibleError as error:
        assert any(name in str(error) for name in robot.v_names)
        assert min(truth.used(q, qd, time, smooth) for time in np.geomspace(1e-3, 10, 40)) > 1
        return False
    assert stop.check.feasible and truth.used(q, qd, stop.time, smooth) <= 1.002
    assert stop.check.worst.used > 0.9
    if stop.time > 1.01e-3:
        shorter = np.geomspace(1e-3, 0.994 * stop.time, 25)
        assert min(truth.used(q, qd, time, smooth) for time in shorter) > 1
    return True


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("name", TIP)
def test_the_shortest_stop_by_pinocchio(name, smooth):
    robot, random, truth = loaded_arm(name), np.random.default_rng(7), stops_of(name)
    states = [arm_state(robot, random) for _ in range(4)]
    assert sum(require_shortest(truth, robot, *state, smooth) for state in states) >= 1


def test_constant_decelerations_take_the_time_of_the_slowest_joint():
    """With limits of acceleration alone: max |qd| / limit; smooth ones take 1.5 times as long."""
    robot = robot_of("panda7")
    qd = np.array([1.5, -0.5, 0.2, 0.0, 0.9, 0.0, -0.1])
    limits = {name: {"max_acceleration": 4.0 + k} for k, name in enumerate(robot.v_names)}
    expected = (np.abs(qd) / (4.0 + np.arange(7))).max()
    for more, factor in (({}, 1.0), ({"qdd": np.zeros(7)}, 1.5)):
        stop = dn.stopping_trajectory(robot, REST, qd, limits=limits, backend="numpy", **more)
        assert np.isclose(stop.time, factor * expected, rtol=1e-3) and stop.time >= factor * expected * (
            1 - 1e-6
        )
        assert (stop.limit.joint, stop.limit.quantity) == ("panda_joint1", "acceleration")
        assert np.allclose(list(stop.distance.values()), np.abs(qd) * stop.time / 2)
        assert np.allclose(stop.trajectory.q[-1] - REST, qd * stop.time / 2)
        assert not stop.trajectory.qd[-1].any() and np.array_equal(stop.trajectory.qd[0], qd)


def test_a_limit_of_jerk():
    """The largest jerk of the profile is 6 |qd| / T^2."""
    robot, qd = robot_of("panda7"), np.array([1.0, 0, 0, 0.5, 0, 0, 0])
    limits = {name: {"max_jerk": 300.0} for name in robot.v_names}
    stop = dn.stopping_trajectory(robot, REST, qd, limits=limits, backend="numpy")
    assert np.isclose(stop.time, np.sqrt(6 / 300), rtol=1e-3) and stop.limit.quantity == "jerk"
    assert stop.trajectory.degrees().tolist() == [5]


def test_a_limit_of_effort_rates():
    robot, qd = robot_of("panda7"), np.array([0.6, 0.3, 0, 0.5, 0, 0, 0])
    limits = {name: {"max_effort_rate": 1000.0} for name in robot.v_names}
    stop = dn.stopping_trajectory(robot, REST, qd, limits=limits, backend="numpy")
    assert stop.check.feasible and stop.limit.quantity == "effort_rate" and 0.95 < stop.limit.used <= 1 + 1e-6


def test_a_stop_continues_an_acceleration():
    robot, random = robot_of("panda7"), np.random.default_rng(2)
    qd, qdd = random.uniform(-0.5, 0.5, 7), random.uniform(-4, 4, 7)
    limits = {name: {"max_jerk": 200.0, "max_acceleration": 10.0} for name in robot.v_names}
    stop = dn.stopping_trajectory(robot, REST, qd, qdd=qdd, limits=limits, backend="numpy")
    assert np.allclose(stop.check.qdd[0], qdd) and np.allclose(stop.check.qdd[-1], 0)
    assert stop.check.feasible and stop.check.worst.used > 0.99
    ways = np.abs(np.diff(stop.check.q, axis=0)).sum(axis=0)
    assert np.allclose(list(stop.distance.values()), ways, rtol=0.01, atol=1e-5)


def test_travels_of_links():
    robot, qd = robot_of("panda7"), np.array([1.0, 0.4, 0, 0, 0, 0, 0])
    limits = {name: {"max_acceleration": 2.0} for name in robot.v_names}
    stop = dn.stopping_trajectory(
        robot, REST, qd, limits=limits, links=["panda_hand", "panda_link0"], backend="numpy"
    )
    u = np.linspace(0, 1, 2001)[:, None]
    q = REST + stop.time * (u - 0.5 * u**2) * qd
    p = dn.evaluate(robot, "frame_poses", q, links=["panda_hand"], backend="numpy").positions[:, 0]
    hand = stop.links["panda_hand"]
    assert np.isclose(hand.path, np.linalg.norm(np.diff(p, axis=0), axis=1).sum(), rtol=1e-3)
    assert np.allclose(hand.displacement, p[-1] - p[0], atol=1e-8)
    assert stop.links["panda_link0"].path == 0


@pytest.mark.parametrize(
    ("name", "start", "qd"),
    [("five_bar", [1.9, 0, 1.2, 0], [2.0, -1.0]), ("four_bar", [0.9, 0.0, 0.0], [3.0])],
)
def test_closed_loops(name, start, qd):
    """The joints' efforts by Pinocchio with multipliers, at this stop and at shorter ones."""
    robot, truth = robot_of(name), stops_of(name)
    q = dn.first_closed(robot, start)
    stop = dn.stopping_trajectory(robot, q, qd, limits=loop_limits(name), backend="numpy")
    assert stop.check.feasible and np.abs(dn.close_loops(robot, stop.check.q) - stop.check.q).max() <= 1e-9
    assert stop.limit.quantity == "effort" and 0.99 <= stop.limit.used <= 1 + 1e-6
    used = [truth.used(q, np.array(qd), share * stop.time) for share in (1.0, 0.98)]
    assert used[0] <= 1.001 and used[1] > 1


def test_a_robot_at_rest():
    robot = robot_of("panda7")
    stop = dn.stopping_trajectory(robot, REST, np.zeros(7), links=["panda_hand"], backend="numpy")
    assert stop.time == 0 and stop.limit is None and len(stop.trajectory) == 1
    assert not any(stop.distance.values()) and stop.links["panda_hand"].path == 0
    with pytest.raises(InfeasibleError, match="rests, .*effort of panda_joint2"):
        dn.stopping_trajectory(
            robot, REST, np.zeros(7), limits={"panda_joint2": {"max_effort": 5.0}}, backend="numpy"
        )


def test_no_stop_before_a_limit_of_position():
    robot, q, qd = robot_of("panda7"), REST.copy(), np.zeros(7)
    q[3], qd[3] = robot.upper_position_limits[3] - 0.005, 2.0
    with pytest.raises(InfeasibleError, match=r"panda_joint4 at .* is .*, limit .*"):
        dn.stopping_trajectory(robot, q, qd, backend="numpy")
    q[3] = robot.upper_position_limits[3] + 0.01  # beyond it already, on the way back
    qd[3] = -1.0
    assert dn.stopping_trajectory(robot, q, qd, backend="numpy").time < 0.2
    qd[3] = -1.2 * robot.velocity_limits[3]
    assert dn.stopping_trajectory(robot, q, qd, backend="numpy").time < 0.3


def test_a_payload_that_cannot_be_held_after_the_stop():
    """The arm stops where a limit below the torque of gravity cannot hold it."""
    robot = robot_of("panda7")
    stop = dn.stopping_trajectory(robot, REST, [0, 0.8, 0, 0, 0, 0, 0], backend="numpy")
    held = dn.evaluate(robot, "inverse_dynamics", stop.check.q[-1], np.zeros(7), np.zeros(7), backend="numpy")
    limits = {"panda_joint2": {"max_effort": 0.5 * abs(held[1])}}
    with pytest.raises(InfeasibleError, match="effort of panda_joint2"):
        dn.stopping_trajectory(robot, REST, [0, 0.8, 0, 0, 0, 0, 0], limits=limits, backend="numpy")


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"qd": np.zeros(3)}, "qd must be 7"),
        ({"qdd": [np.nan] * 7}, "qdd must be 7"),
        ({"links": ["nose"]}, "no link 'nose'"),
        ({"links": "panda_hand"}, "list of names"),
        ({"longest": 1e-4}, "longest"),
        ({"limits": {"nose": {"max_effort": 1.0}}}, "unknown joint 'nose'"),
    ],
)
def test_errors(more, match):
    arguments = {"q": REST, "qd": np.ones(7), "backend": "numpy"} | more
    with pytest.raises(InputError, match=match):
        dn.stopping_trajectory(robot_of("panda7"), **arguments)


def test_a_stop_needs_a_limit_and_joints():
    robot = dn.parse_robot(CART.replace('effort="', 'effort="0" was="'))
    with pytest.raises(InputError, match="no limit of effort, acceleration or jerk"):
        dn.stopping_trajectory(robot, [0.0, 0.1], [0.1, 0.1], backend="numpy")
    robot = robot_of("solo12")
    qd = np.zeros(robot.nv)
    qd[2] = 0.1
    with pytest.raises(InputError, match="cannot stop it"):
        dn.stopping_trajectory(robot, robot.neutral(), qd, backend="numpy")
