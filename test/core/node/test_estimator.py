"""The estimator without ROS: steps, late and missing readings, and restarts."""

import numpy as np
import pytest
from two_links import ARM, NAMES, PUSH, SENSORS, Swing

from dynamics_node.node.building.build_job import Failure, do
from dynamics_node.node.errors import BadMessage, NoOutput
from dynamics_node.node.estimator.estimator_core import EstimatorCore, TimeGrid
from dynamics_node.node.estimator.estimator_settings import PARAMETERS, EstimatorJob, read_settings
from dynamics_node.node.state.sensor_readings import SensorMessage

NS = 1_000_000_000
PERIOD = 4_000_000  # ns
BEGIN = 1_700_000_000 * NS
DEFAULTS = {parameter.name: parameter.default for parameter in PARAMETERS}


def settings(**values):
    named = {name.replace("__", "."): value for name, value in values.items()}
    return read_settings({**DEFAULTS, "rate": NS / PERIOD, "window": 0.024, "lag": 0.008, **named})


@pytest.fixture(scope="module")
def swing():
    return Swing()


@pytest.fixture(scope="module")
def robot(tmp_path_factory):
    """A robot with an IMU."""
    file = tmp_path_factory.mktemp("sensors") / "imus.yaml"
    file.write_text(SENSORS)
    made = do(settings(sensors_file=str(file)).job(ARM))
    assert not isinstance(made, Failure), made
    return made


class Rig:
    """A core that receives readings of the swing; the time is that of the stamps."""

    def __init__(self, robot, swing, **values):
        self.core, self.swing = EstimatorCore(robot, settings(**values)), swing
        (self.topic,) = robot.topics

    def states(self, k, offset=0, names=NAMES, effort=True, turn=0.0):
        """Joint states at step k, `offset` ns later."""
        stamp = BEGIN + k * PERIOD + offset
        t = (stamp - BEGIN) / NS
        order = [NAMES.index(name) for name in names]
        q, tau = self.swing.state(t)[0][order] + turn, self.swing.torque(t)[order]
        self.core.receive_states(names, q, (), tau if effort else (), stamp, stamp)

    def imu(self, k, offset=0):
        stamp = BEGIN + k * PERIOD + offset
        numbers = self.swing.imu((stamp - BEGIN) / NS)
        self.core.receive_sensor(self.topic, SensorMessage(numbers, "", stamp, stamp))

    def advance(self, k):
        return self.core.advance(BEGIN + k * PERIOD)

    def run(self, steps, begin=0, **options):
        """The last estimate."""
        for k in range(begin, begin + steps):
            self.imu(k)
            self.states(k, **options)
            stamped = self.advance(k)
        return stamped

    def error(self, stamped, quantity):
        """Error (joints,) of an estimate in its standard deviations."""
        number = ("position", "velocity", "acceleration", "external_torque").index(quantity)
        truth = (*self.swing.state((stamped.stamp - BEGIN) / NS), PUSH)[number]
        std = np.sqrt(np.diag(stamped.estimate.covariances[number]))
        return (getattr(stamped.estimate, quantity) - truth) / std

    def require_true(self, stamped, within=0.5):
        """Readings have no noise here: the error is that of the process model."""
        for quantity in ("position", "velocity", "acceleration", "external_torque"):
            assert np.abs(self.error(stamped, quantity)).max() < within, quantity


def test_the_estimate_at_the_lag_is_accurate(robot, swing):
    rig = Rig(robot, swing)
    stamped = rig.run(60)
    assert stamped.stamp == BEGIN + 57 * PERIOD and stamped.lag == pytest.approx(0.008)
    assert stamped.estimate.readings == 10 and not stamped.estimate.unobservable
    rig.require_true(stamped)


def test_accurate_torques_do_not_restart_the_estimate(robot, swing):
    rig = Rig(robot, swing, noise__torque=[1e-6])
    rig.require_true(rig.run(40))
    assert rig.core.restarts == 0


def test_a_reading_between_steps_is_extrapolated_to_the_nearest_step(robot, swing):
    """Without it, a third of a period at 1 rad/s would be an error of ten standard deviations."""
    rig, exact = Rig(robot, swing), Rig(robot, swing)
    exact_stamped = exact.run(60)
    rig.run(1)
    for k in range(1, 60):
        rig.imu(k)
        rig.states(k, offset=PERIOD // 3 if k % 2 else -PERIOD // 3)
        stamped = rig.advance(k)
    assert stamped.stamp == exact_stamped.stamp
    rig.require_true(stamped, within=1.0)


@pytest.mark.parametrize(
    "encoder, jerk, push", [(1e-6, 1e3, 1e3), (1e-9, 1e3, 1e3), (1e-4, 1e7, 1e3), (1e-9, 1e10, 1e12)]
)
def test_extrapolation_adds_the_variance_of_the_rates(robot, swing, encoder, jerk, push):
    """Encoders more accurate than the rates that extrapolate them, up to the limits of the parameters."""
    options = {"noise__encoder": [encoder], "noise__external_torque_density": push}
    options["noise__jerk_density"] = jerk
    rig, random, number = Rig(robot, swing, **options), np.random.default_rng(0), 0
    for k in range(50):
        rig.states(k, offset=int(random.integers(-PERIOD // 2 + 1, PERIOD // 2)) if k else 0)
        if (stamped := rig.advance(k)) is not None:
            rig.require_true(stamped, within=2.0)
            number += 1
    assert number >= 44 and rig.core.restarts == 0 and not rig.core.pending.rejected


def test_a_late_reading_is_used_in_its_step(robot, swing):
    rig, punctual = Rig(robot, swing), Rig(robot, swing)
    rig.run(30), punctual.run(30)
    for k in (30, 31, 32):
        rig.states(k), punctual.imu(k), punctual.states(k)
        rig.advance(k), punctual.advance(k)
    for k in (30, 31, 32):
        rig.imu(k)
    rig.run(1, begin=33), punctual.run(1, begin=33)
    mine, theirs = rig.core.last.estimate, punctual.core.last.estimate
    np.testing.assert_allclose(mine.acceleration, theirs.acceleration, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(mine.covariances[2], theirs.covariances[2], rtol=1e-4)
    assert dict(rig.core.pending.late) == {"imu": 2} and not rig.core.pending.too_late  # 32 was the newest


def test_a_reading_outside_the_window_is_counted_and_ignored(robot, swing):
    rig, without = Rig(robot, swing), Rig(robot, swing)
    rig.run(40), without.run(40)
    rig.imu(10)
    rig.run(1, begin=40), without.run(1, begin=40)
    assert dict(rig.core.pending.too_late) == {"imu": 1}
    np.testing.assert_array_equal(
        rig.core.last.estimate.acceleration, without.core.last.estimate.acceleration
    )


def test_a_reading_ahead_of_the_joint_states_waits_for_its_step(robot, swing):
    rig = Rig(robot, swing)
    rig.run(30)
    rig.imu(31), rig.imu(30)
    assert rig.advance(30) is None
    rig.states(30), rig.states(31)
    stamped = rig.advance(31)
    assert stamped.estimate.readings == 10
    rig.states(32), rig.states(33)
    assert rig.advance(33).estimate.readings == 10  # step 31, to which the first IMU message belongs
    assert not rig.core.pending.late


def test_states_of_several_publishers(robot, swing):
    rig = Rig(robot, swing)
    for k in range(50):
        rig.imu(k)
        rig.states(k, names=("joint2",))
        if k == 0:
            with pytest.raises(NoOutput, match="never.*joint1"):
                rig.advance(k)
        rig.states(k, names=("joint1",))
        stamped = rig.advance(k)
    rig.require_true(stamped)


def test_states_slower_than_steps_are_estimated(robot, swing):
    rig = Rig(robot, swing)
    for k in range(0, 90, 3):
        rig.states(k)
        stamped = rig.advance(k)
    assert stamped.stamp == BEGIN + 85 * PERIOD
    rig.require_true(stamped, within=1.0)


def test_a_continuous_joint_may_wrap(robot, swing):
    rig, plain = Rig(robot, swing), Rig(robot, swing)
    rig.run(30), plain.run(30)
    for k in range(30, 40):
        rig.imu(k), plain.imu(k), plain.states(k)
        t = k * PERIOD / NS
        q, tau = swing.state(t)[0] + [0.0, 2 * np.pi * (-1) ** k], swing.torque(t)
        stamp = BEGIN + k * PERIOD
        rig.core.receive_states(NAMES, q, (), tau, stamp, stamp)
        np.testing.assert_allclose(
            rig.advance(k).estimate.position, plain.advance(k).estimate.position, atol=1e-9
        )


def test_external_torques_are_unobservable_without_torques(robot, swing):
    rig = Rig(robot, swing, torque_source="none")
    stamped = rig.run(60)
    assert stamped.estimate.unobservable == ("external_torque joint1", "external_torque joint2")
    assert np.abs(rig.error(stamped, "acceleration")).max() < 0.5


def test_a_commanded_torque_holds_until_the_next(robot, swing):
    rig = Rig(robot, swing, torque_source="commanded", command_joints=["joint2", "joint1"])
    for k in range(80):
        stamp = BEGIN + k * PERIOD
        tau = swing.torque(k * PERIOD / NS)
        if k % 2 == 0:
            rig.core.receive_ordered_command(tau[::-1], stamp, stamp)
        rig.imu(k)
        rig.states(k, effort=False)
        stamped = rig.advance(k)
    np.testing.assert_allclose(stamped.estimate.external_torque, PUSH, atol=0.2)
    with pytest.raises(BadMessage, match="1 .*2 command_joints"):
        rig.core.receive_ordered_command([1.0], stamp, stamp)


def test_stale_sensors_are_named(robot, swing):
    rig = Rig(robot, swing)
    for k in range(120):
        rig.states(k, effort=False)
        stamped = rig.advance(k)
    assert rig.core.stale_sensors(BEGIN + 120 * PERIOD) == {"imu": "never", "measured torques": "never"}
    assert set(stamped.estimate.unobservable) >= {"external_torque joint1", "external_torque joint2"}


def test_a_gap_or_a_jump_restarts_the_estimate(robot, swing):
    rig = Rig(robot, swing)
    rig.run(30)
    rig.states(130)
    assert rig.advance(130) is None and rig.core.restarts == 1
    (note,) = rig.core.notes
    assert "0.404 s apart; the limit is 0.2 s" in note
    rig.require_true(rig.run(60, begin=131))
    rig.states(-1000)
    assert rig.core.restarts == 2 and "jumped back" in rig.core.notes[-1]


def test_joint_friction_is_not_an_external_torque(robot, swing):
    friction = {"friction__joints": ["joint1"], "friction__viscous": [2.0], "friction__coulomb": [0.0]}
    rig = Rig(robot, swing, **friction)
    stamped = rig.run(60)
    qd = swing.state((stamped.stamp - BEGIN) / NS)[1]
    np.testing.assert_allclose(
        stamped.estimate.external_torque, PUSH + 2.0 * np.array([qd[0], 0.0]), atol=0.1
    )


@pytest.mark.parametrize(
    "message, reason",
    [
        (((*NAMES, "joint1"), [0.0] * 3, [], []), "'joint1'.*twice"),
        ((NAMES, [0.0, np.nan], [], []), "'joint2'.*nan"),
        ((NAMES, [0.0], [], []), "2 .*1 .*position"),
        ((NAMES, [0.0, 0.0], [], [1.0]), "2 .*1 .*effort"),
    ],
)
def test_bad_states_change_nothing(robot, swing, message, reason):
    rig, untouched = Rig(robot, swing), Rig(robot, swing)
    rig.run(20), untouched.run(20)
    with pytest.raises(BadMessage, match=reason):
        rig.core.receive_states(*message, BEGIN + 20 * PERIOD, BEGIN + 20 * PERIOD)
    mine, theirs = rig.run(1, begin=20).estimate, untouched.run(1, begin=20).estimate
    np.testing.assert_array_equal(mine.position, theirs.position)


def test_an_infinite_effort_is_ignored(robot, swing):
    rig = Rig(robot, swing)
    rig.run(30)
    k = 30
    stamp, t = BEGIN + k * PERIOD, k * PERIOD / NS
    rig.core.receive_states(NAMES, swing.state(t)[0], (), [np.inf, np.nan], stamp, stamp)
    rig.imu(k)
    stamped = rig.advance(k)
    assert np.isfinite(stamped.estimate.external_torque).all()


def test_robots_and_sensors_that_do_not_fit_are_rejected(tmp_path):
    floating = ARM.replace('type="revolute"', 'type="floating"')
    assert "floating joint 'joint1'" in do(EstimatorJob(floating, {}, backend="numpy")).reason
    file = tmp_path / "sensors.yaml"
    file.write_text("sensors: [{type: imu, name: i, link: shoulder, std: 0.1}]")
    reason = do(EstimatorJob(ARM, {}, sensors_file=str(file), backend="numpy")).reason
    assert "sensor 'i': unknown link 'shoulder'" in reason


def test_sensors_of_other_nodes_are_ignored(tmp_path):
    """The log names the sensors of a common file that the estimator cannot read."""
    others = """
  - {type: torque, name: t, joint: joint1, std: 0.1}
  - {type: force_torque, name: ft, joint: joint2, measures: child_to_parent, std: 0.1}
  - {type: imu, name: level, link: base, std: 0.1}
  - {type: imu, name: imu, link: lower, std: 0.02}
"""
    file = tmp_path / "sensors.yaml"
    file.write_text(f"sensors:{others}")
    robot = do(EstimatorJob(ARM, {}, sensors_file=str(file), backend="numpy"))
    assert [sensor.name for sensor in robot.smoothed.sensors] == ["imu"]
    assert list(robot.topics) == ["~/sensors/imu"]
    assert any("t, ft, level" in note for note in robot.notes), robot.notes


def test_a_robot_can_be_pickled(robot):
    import pickle

    again = pickle.loads(pickle.dumps(robot))
    assert again.smoothed.graph.column_names == robot.smoothed.graph.column_names
    assert again.topics == robot.topics


def test_grid_returns_the_nearest_step():
    grid = TimeGrid(1000, 100)
    assert [grid.step(stamp) for stamp in (949, 950, 1000, 1049, 1050)] == [-1, 0, 0, 0, 1]
    assert grid.time(3) == 1300


def test_a_command_ahead_of_the_states_is_not_active_yet(robot, swing):
    """States arrive some milliseconds after their stamp, so the newest command is newer."""
    rig = Rig(robot, swing, torque_source="commanded", command_joints=["joint1", "joint2"])
    for k in range(80):
        later = BEGIN + (k + 2) * PERIOD
        rig.core.receive_ordered_command(swing.torque((k + 2) * PERIOD / NS), later, later)
        rig.states(k, effort=False)
        stamped = rig.advance(k)
    np.testing.assert_allclose(stamped.estimate.external_torque, PUSH, atol=0.1)


# --- wrong readings -----------------------------------------------------------------------------------------


def bad_imu(rig, k, x):
    """An IMU reading at step k with x as the first acceleration."""
    stamp = BEGIN + k * PERIOD
    numbers = rig.swing.imu((stamp - BEGIN) / NS)
    numbers[3] = x
    rig.core.receive_sensor(rig.topic, SensorMessage(numbers, "", stamp, stamp))


def worst(rig, stamped, quantity):
    return 0.0 if stamped is None else np.abs(rig.error(stamped, quantity)).max()


@pytest.mark.parametrize("value", [50.0, -300.0, 1e6, 1e7])
def test_one_bad_imu_reading_is_rejected(robot, swing, value):
    rig = Rig(robot, swing)
    rig.run(60)
    for k in range(60, 80):
        bad_imu(rig, k, value) if k == 60 else rig.imu(k)
        rig.states(k)
        rig.require_true(rig.advance(k), within=1.0)
    assert dict(rig.core.pending.rejected) == {"imu": 1} and rig.core.restarts == 0


@pytest.mark.parametrize(
    "sensor, value", [("encoder", 0.05), ("encoder", 1e7), ("torque", 300.0), ("torque", 1e7)]
)
def test_one_bad_number_in_joint_states_is_rejected(robot, swing, sensor, value):
    rig = Rig(robot, swing)
    rig.run(60)
    for k in range(60, 80):
        stamp = BEGIN + k * PERIOD
        numbers = {"encoder": swing.state(k * PERIOD / NS)[0].copy(), "torque": swing.torque(k * PERIOD / NS)}
        numbers[sensor][1] += value * (k == 60)
        rig.imu(k)
        rig.core.receive_states(NAMES, numbers["encoder"], (), numbers["torque"], stamp, stamp)
        if (stamped := rig.advance(k)) is None:
            assert sensor == "encoder" and k == 62  # the step with a rejected position is not published
        else:
            rig.require_true(stamped, within=1.0)
    assert dict(rig.core.pending.rejected) == {sensor: 1} and rig.core.restarts == 0


@pytest.mark.parametrize("value", [100.0, 500.0, 9e3])
def test_a_stuck_imu_is_rejected_until_it_recovers(robot, swing, value):
    rig = Rig(robot, swing)
    rig.run(60)
    for k in range(60, 140):
        bad_imu(rig, k, value)
        rig.states(k)
        stamped = rig.advance(k)
        for quantity in ("position", "velocity", "acceleration"):
            assert worst(rig, stamped, quantity) < 3.0, (k, quantity)
    assert rig.core.rejected_sensors().keys() == {"imu"} and rig.core.pending.rejected["imu"] > 60
    rig.require_true(rig.run(120, begin=140))
    assert rig.core.rejected_sensors() == {} and rig.core.restarts == 0


@pytest.mark.parametrize("begin", [0, 1])
@pytest.mark.parametrize("rate, acceleration", [(50.0, 500.0), (5.0, 0.0), (0.5, 5.0)])
def test_an_imu_wrong_from_the_start_is_rejected(robot, swing, begin, rate, acceleration):
    """Velocities are unknown at first: encoders have priority over the IMU."""
    rig, number = Rig(robot, swing), 0
    for k in range(50):
        stamp = BEGIN + k * PERIOD
        wrong = k >= begin
        numbers = np.array([0, rate, 0, acceleration, 0, 0]) if wrong else swing.imu(k * PERIOD / NS)
        rig.core.receive_sensor(rig.topic, SensorMessage(numbers, "", stamp, stamp))
        rig.states(k)
        if (stamped := rig.advance(k)) is not None:
            rig.require_true(stamped, within=1.0)
            number += 1
    assert number >= 44 and rig.core.restarts == 0 and rig.core.rejected_sensors().keys() == {"imu"}


@pytest.mark.parametrize(
    "kind, rate, acceleration",
    [("bias", 0.1, 1.0), ("flips", 5.0, 0.0), ("flips", 0.5, 5.0), ("zero", 0.0, 0.0)],
)
def test_a_slightly_wrong_imu_does_not_change_the_estimate(robot, swing, kind, rate, acceleration):
    """A jump of the robot would explain some of its readings, but contradicts later encoder readings."""
    rig, off = Rig(robot, swing), np.array([0, rate, 0, acceleration, 0, 0])
    rig.run(17)
    for k in range(17, 60):
        stamp, true = BEGIN + k * PERIOD, swing.imu(k * PERIOD / NS)
        numbers = {"bias": true + off, "flips": true + (-1) ** k * off, "zero": off}[kind]
        rig.core.receive_sensor(rig.topic, SensorMessage(numbers, "", stamp, stamp))
        rig.states(k)
        if (stamped := rig.advance(k)) is not None:
            rig.require_true(stamped, within=3.0)
    assert rig.core.restarts == 0 and rig.core.rejected_sensors().keys() == {"imu"}
    assert rig.core.notes[0].startswith("readings of imu are rejected: they contradict the encoders")
    rejections = len(rig.core.notes)
    rig.require_true(rig.run(120, begin=60))
    assert rig.core.notes[rejections:] == ["readings of imu are used again"]


@pytest.mark.parametrize("row, error, begin", [(3, 1.0, 150), (5, -9.81, 0), (3, 20.0, 150), (1, 0.2, 150)])
def test_a_lasting_error_of_an_imu_falls_back_to_the_encoders(robot, swing, row, error, begin):
    """Noisy readings at irregular times, some of them late. The IMU stays rejected, and encoders are never
    dropped for it; it is used again when its error ends."""
    rig, random = Rig(robot, swing), np.random.default_rng(0)
    held, lasted, settled, ended = [], 0, begin + 100, begin + 500
    for k in range(ended + 250):
        stamp = BEGIN + k * PERIOD + int(random.uniform(-0.45, 0.45) * PERIOD)
        q, _, _ = swing.state((stamp - BEGIN) / NS)
        tau = swing.torque((stamp - BEGIN) / NS) + 0.2 * random.standard_normal(2)
        for message in held:
            rig.core.receive_sensor(rig.topic, message)
        numbers = swing.imu((stamp - BEGIN) / NS) + 0.02 * random.standard_normal(6)
        numbers[row] += error * (begin <= k < ended)
        held = [SensorMessage(numbers, "", stamp, stamp)]
        rig.core.receive_states(NAMES, q + 1e-4 * random.standard_normal(2), (), tau, stamp, stamp)
        try:
            stamped = rig.core.advance(stamp)
        except NoOutput:  # the estimate contradicts an encoder
            assert begin < k < settled
            continue
        if settled <= k < ended:
            lasted += "imu" in rig.core.rejected_sensors()
        if stamped is not None:
            true = swing.state((stamped.stamp - BEGIN) / NS)[0]
            assert np.abs(stamped.estimate.position - true).max() < 2e-3, k
            if k >= settled:
                for quantity in ("position", "velocity", "acceleration", "external_torque"):
                    assert worst(rig, stamped, quantity) < 6.0, (k, quantity)
    assert lasted > 0.9 * (ended - settled) and rig.core.rejected_sensors() == {} and rig.core.restarts == 0
    reason = next(note for note in rig.core.notes if "mean error" in note)
    unit, axis = ("rad/s", "y") if row < 3 else ("m/s^2", "xyz"[row - 3])
    assert f"{unit} in {axis}" in reason
    assert float(reason.split("mean error ")[1].split()[0]) == pytest.approx(error, rel=0.5)


@pytest.mark.parametrize("window", [0.02, 0.04])
def test_a_wrong_imu_is_rejected_while_joint_states_are_missing(robot, swing, window):
    """No reading contradicts it then, and the estimate follows the model. States arrive late and in bursts."""
    rig, random, following, number = Rig(robot, swing, window=window), np.random.default_rng(0), 0, 0
    for k in range(150):
        offset = int(random.integers(-PERIOD // 3, PERIOD // 3))
        stamp = BEGIN + k * PERIOD + offset
        numbers = swing.imu((stamp - BEGIN) / NS) if k < 40 else np.array([0, 5.0, 0, 0, 0, 0])
        rig.core.receive_sensor(rig.topic, SensorMessage(numbers, "", stamp, stamp))
        if k >= 30 and k < following:
            continue
        missing = (8, 20)[window > 0.02]
        following = k + 1 + (int(random.integers(0, missing + 1)) if random.random() < 0.4 else 0)
        rig.states(k, offset=int(random.integers(-PERIOD // 3, PERIOD // 3)))
        if (stamped := rig.advance(k)) is not None:
            rig.require_true(stamped, within=4.0)
            number += 1
    assert number >= 40 and rig.core.restarts == 0 and rig.core.rejected_sensors().keys() == {"imu"}


def test_the_shortest_window_solves(robot, swing):
    """Two steps determine no acceleration, and three no jump; there are five."""
    rig, number = Rig(robot, swing, window=0.001, lag=0.0), 0
    for k in range(30):
        rig.imu(k)
        rig.states(k)
        if (stamped := rig.advance(k)) is not None:
            rig.require_true(stamped, within=1.0)
            number += 1
    assert number == 27


class Struck(Swing):
    """An impact on the upper link: for 12 ms it accelerates by 300 rad/s^2 more than the motors command."""

    AT, LASTS, JUMP = 0.24, 0.012, 300.0

    def state(self, t):
        q, qd, qdd = (part.copy() for part in super().state(t))
        during = min(max(t - self.AT, 0.0), self.LASTS)
        after = max(t - self.AT - self.LASTS, 0.0)
        q[0] += self.JUMP * during * (0.5 * during + after)
        qd[0] += self.JUMP * during
        qdd[0] += self.JUMP * (during > 0.0 and after == 0.0)
        return q, qd, qdd

    def torque(self, t):
        return self.inverse(*super().state(t)) - PUSH

    def push(self, t):
        return self.inverse(*self.state(t)) - self.torque(t)


def test_a_collision_is_not_rejected_as_an_outlier(robot):
    """The estimate has its acceleration and its torque, with the lag, and accurate positions."""
    struck = Struck()
    rig, ratios = Rig(robot, struck), 0.0
    rig.run(60)
    for k in range(60, 130):
        rig.imu(k)
        rig.states(k)
        if (stamped := rig.advance(k)) is None:
            continue
        t = (stamped.stamp - BEGIN) / NS
        q, _, qdd = struck.state(t)
        assert np.abs(stamped.estimate.position - q).max() < 10e-4  # encoders: 1e-4
        if stamped.stamp == BEGIN + 62 * PERIOD:
            ratios = (
                stamped.estimate.acceleration[0] / qdd[0],
                stamped.estimate.external_torque[0] / struck.push(t)[0],
            )
    assert ratios and min(ratios) > 0.8 and max(ratios) < 1.25
    assert rig.core.restarts == 0 and not rig.core.rejected_sensors()
    for number, truth in enumerate((*struck.state(t), struck.push(t))):
        error = np.abs(stamped.estimate[1 + number] - truth)
        assert (error < np.sqrt(np.diag(stamped.estimate.covariances[number]))).all()


@pytest.mark.parametrize("seed", range(3))
def test_random_messages_give_an_estimate_or_a_reason(robot, swing, seed):
    """Random stamps, numbers and lengths raise no other error; estimates are finite, and accurate afterwards."""
    random = np.random.default_rng(seed)
    rig = Rig(robot, swing)
    numbers = [0.0, 1.0, -3.0, 1e3, 1e12, 1e200, np.nan, np.inf]

    def wild(count):
        return random.choice(numbers, count) if random.random() < 0.2 else 0.4 * random.standard_normal(count)

    for k in range(300):
        stamp = BEGIN + k * PERIOD + int(random.choice([0, 0, 0, -5, 7, 60, -2000, 10**6])) * PERIOD
        try:
            count = int(random.choice([2, 2, 2, 2, 1, 3]))
            rig.core.receive_states(
                NAMES, wild(count), (), wild(int(random.choice([0, 2, 2, 1]))), stamp, k * PERIOD
            )
            rig.core.receive_sensor(rig.topic, SensorMessage(wild(6), "", stamp, k * PERIOD))
        except BadMessage:
            pass
        try:
            stamped = rig.core.advance(k * PERIOD)
        except NoOutput:
            continue
        if stamped is not None:
            assert all(np.isfinite(part).all() for part in stamped.estimate[1:5])
            assert all(np.isfinite(P).all() for P in stamped.estimate.covariances)
    rig.core.forget("the test goes on")
    rig.require_true(rig.run(60))
