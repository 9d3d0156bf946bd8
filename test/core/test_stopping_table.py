"""stopping_table: decelerations against Pinocchio along the stops of joint_trajectory_controller."""

from itertools import product

import numpy as np
import pytest
import yaml
from cases import oracle_of
from robots import robot_of

import dynamics_node as dn
from dynamics_node.errors import InfeasibleError, InputError

MASS, COM = 1.0, [0.0, 0.0, 0.1]


def used(name, effort, q, qd, time, samples=40):
    """The largest used fraction of efforts, by Pinocchio, as far as positions are within their limits."""
    robot, oracle = robot_of(name), oracle_of(name)
    most = 0.0
    for u in np.linspace(0.0, 1.0, samples):
        at = q + time * (u - 0.5 * u * u) * qd
        if (at > robot.upper_position_limits).any() or (at < robot.lower_position_limits).any():
            break
        rates = (1 - u) * qd
        tau = oracle.inverse(at, rates, -qd / time)
        tau += robot.damping * rates + robot.friction * np.tanh(rates / 0.01)
        most = max(most, np.abs(tau / effort).max())
    held = np.abs(oracle.inverse(at, 0 * qd, 0 * qd) / effort).max()
    return max(most, held) if (at == q + 0.5 * time * qd).all() else most


def test_each_joint_alone_and_its_limiting_position():
    robot = robot_of("panda7")
    random = np.random.default_rng(4)
    q = random.uniform(robot.lower_position_limits, robot.upper_position_limits, (12, 7))
    table = dn.stopping_table(robot, positions=q, qd=0.4 * robot.velocity_limits, backend="numpy")
    assert table.excluded == 0 and table.stops == 12 * 18
    for v, row in enumerate(table.rows):
        assert row.joint == robot.v_names[v] and row.deceleration <= row.alone
        assert np.isclose(row.distance, row.speed**2 / 2 / row.deceleration)
        rates = [sign * row.speed * np.eye(7)[v] for sign in (1, -1)]
        time = row.speed / row.alone
        states = [(at, rate) for at in q for rate in rates]
        most = [used("panda7", robot.effort_limits, *state, time) for state in states]
        assert max(most) <= 1.01
        if row.limit is None:  # 1 ms suffices
            assert np.isclose(time, 1e-3) and v == 6
            continue
        assert (row.position == q[int(np.argmax(most)) // 2]).all()
        shorter = [used("panda7", robot.effort_limits, row.position, rate, time / 1.03) for rate in rates]
        assert max(shorter) > 1 and row.limit[1] == "effort"


def test_limits_of_positions():
    """Random positions are within them, and stops from positions beyond them do not count."""
    robot = robot_of("panda7")
    q = np.array([0.0, 0.3, 0.0, -1.5, 0.0, 1.5, 0.5])
    limits = {
        name: {"min_position": at - 1e-3, "max_position": at + 1e-3}
        for name, at in zip(robot.v_names, q.tolist(), strict=True)
    }
    choices = {"limits": limits, "qd": 0.3 * robot.velocity_limits, "backend": "numpy"}
    inside = dn.stopping_table(robot, positions=q, **choices)
    random = dn.stopping_table(robot, positions=5, **choices)
    both = dn.stopping_table(robot, positions=[q, q + 0.1], **choices)
    for row, other, same in zip(inside.rows, random.rows, both.rows, strict=True):
        assert np.isclose(row.deceleration, other.deceleration, rtol=0.02)
        assert same.deceleration == row.deceleration and (same.position == q).all()
    assert (inside.excluded, random.excluded, both.excluded) == (0, 0, both.stops // 2)
    with pytest.raises(InfeasibleError, match="panda_joint1 can stop at no position"):
        dn.stopping_table(robot, positions=q + 0.1, **choices)


@pytest.mark.parametrize("effort", [1.2, 3.0])
def test_all_joints_together(effort):
    """All signs of both joints at every position."""
    robot, speeds = robot_of("double_pendulum"), np.array([2.0, 1.5])
    limits = {name: {"max_effort": effort} for name in robot.v_names}
    random = np.random.default_rng(2)
    q = random.uniform(-0.4, 0.4, (25, 2)) + np.array([np.pi, 0.0])
    table = dn.stopping_table(robot, positions=np.repeat(q, 4, axis=0), qd=speeds, limits=limits, backend="numpy")  # fmt: skip
    decelerations = np.array([row.deceleration for row in table.rows])
    time, efforts = (speeds / decelerations).max(), np.full(2, effort)
    states = [(at, signs * speeds) for at in q for signs in product((1.0, -1.0), repeat=2)]
    possible = [
        state for state in states
        if np.abs(oracle_of("double_pendulum").inverse(*state, np.zeros(2))).max() <= effort
    ]  # fmt: skip
    most = [used("double_pendulum", efforts, *state, time) for state in possible]
    assert len(possible) > 50 and max(most) <= 1.01


def test_payloads_reduce_decelerations():
    robot = robot_of("panda7")
    options = {"positions": 10, "qd": 0.3 * robot.velocity_limits, "backend": "numpy"}
    bare = dn.stopping_table(robot, **options)
    both = dn.stopping_table(robot, payloads=[("panda_hand", MASS, COM)], **options)
    only = dn.stopping_table(dn.with_payload(robot, "panda_hand", MASS, COM), **options)
    for without, row, loaded in zip(bare.rows, both.rows, only.rows, strict=True):
        assert np.isclose(row.alone, min(without.alone, loaded.alone))
    assert both.rows[1].alone < 0.9 * bare.rows[1].alone and both.stops == 2 * bare.stops


def test_limits_of_acceleration_and_yaml():
    robot = robot_of("panda7")
    limits = {name: {"max_deceleration": 1.0 + k / 3} for k, name in enumerate(robot.v_names)}
    options = {"positions": 5, "qd": np.full(7, 0.2), "backend": "numpy"}
    table = dn.stopping_table(robot, limits=limits, **options)
    assert np.allclose([row.deceleration for row in table.rows], 1 + np.arange(7) / 3, rtol=0.01)
    assert table.position is None or len(table.position) == 7
    constraints = yaml.safe_load(table.yaml())["constraints"]
    assert constraints.pop("decelerate_on_cancel") is True and list(constraints) == list(robot.v_names)
    for row in table.rows:
        (value,) = constraints[row.joint].values()
        assert row.deceleration * (1 - 1e-3) <= value <= row.deceleration


def test_a_five_bar_at_given_positions():
    robot = robot_of("five_bar")
    q = np.array([dn.first_closed(robot, [1.9 + d, 0, 1.2 - d, 0]) for d in (-0.1, 0.0, 0.1)])
    limits = {name: {"max_effort": 30.0} for name in robot.v_names}
    table = dn.stopping_table(robot, positions=q, qd=[1.0, 1.0], limits=limits, backend="numpy")
    speeds = np.array([row.speed for row in table.rows])
    for v, row in enumerate(table.rows):
        at = next(k for k in range(3) if (q[k] == row.position).all())
        times = [
            dn.stopping_trajectory(robot, q[at], sign * speeds * np.eye(2)[v], limits=limits, backend="numpy").time
            for sign in (1, -1)
        ]  # fmt: skip
        assert np.isclose(max(times), row.speed / row.alone, rtol=0.01)
    with pytest.raises(InputError, match="loops needs positions"):
        dn.stopping_table(robot, qd=[1.0, 1.0], limits=limits, backend="numpy")


@pytest.mark.parametrize(
    ("more", "error", "match"),
    [
        ({"qd": [0.0] * 7}, InputError, "largest speed of panda_joint1 is 0"),
        ({"positions": 0}, InputError, "positions must be from 1"),
        ({"positions": np.zeros((2, 3))}, InputError, r"shape \(k, 7\)"),
        ({"payloads": [("panda_hand", 1.0)]}, InputError, "center of mass"),
        ({"longest": 1e-4}, InputError, "longest"),
        ({"limits": {"panda_joint2": {"max_effort": 1e-3}}}, InfeasibleError, "can stop at no position"),
    ],
)
def test_errors(more, error, match):
    with pytest.raises(error, match=match):
        dn.stopping_table(robot_of("panda7"), **({"positions": 5, "backend": "numpy"} | more))
