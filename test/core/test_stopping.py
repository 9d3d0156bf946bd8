"""stopping_trajectory: against Pinocchio on dense samples of stops of all shorter times."""

import numpy as np
import pytest
from cart_pole import CART
from cases import oracle_of
from oracle import pin
from robots import robot_of

import dynamics_node as dn
from dynamics_node.errors import InfeasibleError, InputError

REST = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])
TIP = {"panda7": "panda_hand", "ur5": "tool0", "kinova": "j2s6s200_link_6", "xarm7": "link7"}
MASS, COM = 1.5, np.array([0.02, -0.03, 0.08])


def arm(name):
    """A robot with a payload; the Panda has damping, the xArm dry friction as well."""
    return dn.with_payload(robot_of(name), TIP[name], MASS, COM)


class Truth:
    """Torques of a loaded arm by Pinocchio, and whether a stop keeps the limits."""

    def __init__(self, name, samples=60):
        self._oracle, self._u = oracle_of(name), np.linspace(0.0, 1.0, samples)
        self._robot, self._model = robot_of(name), pin.Model(self._oracle.pin)
        frame = self._model.frames[self._model.getFrameId(TIP[name])]
        load = pin.Inertia(MASS, COM, np.zeros((3, 3)))
        self._model.appendBodyToJoint(frame.parentJoint, load, frame.placement)
        self._data = self._model.createData()

    def tau(self, q, qd, qdd):
        tau = pin.rnea(self._model, self._data, self._oracle.q(q), qd, qdd)
        return tau + self._robot.damping * qd + self._robot.friction * np.tanh(qd / 0.01)

    def used(self, q, qd, time, smooth):
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


def random_state(robot, random):
    low, high = robot.lower_position_limits, robot.upper_position_limits
    low, high = np.maximum(low, -3.0), np.minimum(high, 3.0)
    q = low + (high - low) * random.uniform(0.15, 0.85, robot.nq)
    return q, robot.velocity_limits * random.uniform(-0.8, 0.8, robot.nv)


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
    robot, random = arm(name), np.random.default_rng(7)
    truth = Truth(name)
    states = [random_state(robot, random) for _ in range(4)]
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


def closed_stop(name, start, qd, limits):
    robot = robot_of(name)
    q = dn.first_closed(robot, start)
    stop = dn.stopping_trajectory(robot, q, qd, limits=limits, backend="numpy")
    assert stop.check.feasible and np.abs(dn.close_loops(robot, stop.check.q) - stop.check.q).max() <= 1e-9
    return robot, q, stop


@pytest.mark.parametrize(
    ("name", "start", "qd"),
    [("five_bar", [1.9, 0, 1.2, 0], [2.0, -1.0]), ("four_bar", [0.9, 0.0, 0.0], [3.0])],
)
def test_closed_loops(name, start, qd):
    """The joints' efforts by Pinocchio with multipliers, at this stop and at shorter ones."""
    limits = {joint: {"max_effort": 30.0} for joint in robot_of(name).v_names}
    robot, q, stop = closed_stop(name, start, qd, limits)
    assert stop.limit.quantity == "effort" and 0.99 <= stop.limit.used <= 1 + 1e-6
    oracle, qd = oracle_of(name), np.array(qd)

    def used(time):
        states = np.linspace(0.0, 1.0, 41)
        moved = np.tile(q, (41, 1))
        at = [robot.q_names.index(joint) for joint in robot.v_names]
        for k, u in enumerate(states):
            moved[k] = moved[max(k - 1, 0)]
            moved[k, at] = q[at] + time * (u - 0.5 * u * u) * qd
            moved[k] = dn.close_loops(robot, moved[k])
        friction = dn.friction_torque(robot, moved, (1 - states[:, None]) * qd)
        rows = zip(moved, states, strict=True)
        tau = np.array([oracle.inverse(row, (1 - u) * qd, -qd / time) for row, u in rows]) + friction
        return np.abs(tau).max() / 30.0

    assert used(stop.time) <= 1.001 and used(0.98 * stop.time) > 1


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
