"""The estimator without ROS: steps in time, late and absent readings, and when it begins anew."""

import numpy as np
import pytest
from two_links import ARM, NAMES, PUSH, SENSORS, Swing

from dynamics_node.node.building.build_job import Failure, do
from dynamics_node.node.errors import BadMessage, NoOutput
from dynamics_node.node.estimator.estimator_core import EstimatorCore, Grid
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
    """With an IMU."""
    file = tmp_path_factory.mktemp("sensors") / "imus.yaml"
    file.write_text(SENSORS)
    made = do(settings(sensors_file=str(file)).job(ARM))
    assert not isinstance(made, Failure), made
    return made


class Rig:
    """A core that hears of the swing; the time is that of the stamps."""

    def __init__(self, robot, swing, **values):
        self.core, self.swing = EstimatorCore(robot, settings(**values)), swing
        (self.topic,) = robot.topics

    def states(self, k, offset=0, names=NAMES, effort=True, turn=0.0):
        """Joint states at step k, `offset` ns later."""
        stamp = BEGIN + k * PERIOD + offset
        t = (stamp - BEGIN) / NS
        order = [NAMES.index(name) for name in names]
        q, tau = self.swing.state(t)[0][order] + turn, self.swing.torque(t)[order]
        self.core.hear_states(names, q, (), tau if effort else (), stamp, stamp)

    def imu(self, k, offset=0):
        stamp = BEGIN + k * PERIOD + offset
        numbers = self.swing.imu((stamp - BEGIN) / NS)
        self.core.hear_sensor(self.topic, SensorMessage(numbers, "", stamp, stamp))

    def advance(self, k):
        return self.core.advance(BEGIN + k * PERIOD)

    def run(self, steps, begin=0, **options):
        """What was told last."""
        for k in range(begin, begin + steps):
            self.imu(k)
            self.states(k, **options)
            told = self.advance(k)
        return told

    def error(self, told, quantity):
        """Of what was told, in standard deviations of it (joints,)."""
        number = ("position", "velocity", "acceleration", "external_torque").index(quantity)
        truth = (*self.swing.state((told.stamp - BEGIN) / NS), PUSH)[number]
        std = np.sqrt(np.diag(told.estimate.covariances[number]))
        return (getattr(told.estimate, quantity) - truth) / std

    def require_true(self, told, within=0.5):
        """Readings have no noise here: what is off is what the process model costs."""
        for quantity in ("position", "velocity", "acceleration", "external_torque"):
            assert np.abs(self.error(told, quantity)).max() < within, quantity


def test_state_and_push_at_the_lag(robot, swing):
    rig = Rig(robot, swing)
    told = rig.run(60)
    assert told.stamp == BEGIN + 57 * PERIOD and told.lag == pytest.approx(0.008)
    assert told.estimate.readings == 10 and not told.estimate.unobservable
    rig.require_true(told)


def test_accurate_torques_do_not_begin_anew_for_ever(robot, swing):
    rig = Rig(robot, swing, noise__torque=[1e-6])
    rig.require_true(rig.run(40))
    assert rig.core.restarts == 0


def test_a_reading_between_steps_goes_to_the_nearest_as_it_would_have_been_there(robot, swing):
    """Without this, a third of a period at 1 rad/s would be an error of ten standard deviations."""
    rig, exact = Rig(robot, swing), Rig(robot, swing)
    exact_told = exact.run(60)
    rig.run(1)
    for k in range(1, 60):
        rig.imu(k)
        rig.states(k, offset=PERIOD // 3 if k % 2 else -PERIOD // 3)
        told = rig.advance(k)
    assert told.stamp == exact_told.stamp
    rig.require_true(told, within=1.0)


@pytest.mark.parametrize(
    "encoder, jerk, push", [(1e-6, 1e3, 1e3), (1e-9, 1e3, 1e3), (1e-4, 1e7, 1e3), (1e-9, 1e10, 1e12)]
)
def test_what_carries_a_reading_to_its_step_is_no_surer_than_the_rates_are(robot, swing, encoder, jerk, push):
    """Encoders that are better than the rates by which their readings are carried, up to the limits of the parameters."""
    options = {
        "noise__encoder": [encoder],
        "noise__jerk_density": jerk,
        "noise__external_torque_density": push,
    }
    rig, random, number = Rig(robot, swing, **options), np.random.default_rng(0), 0
    for k in range(50):
        rig.states(k, offset=int(random.integers(-PERIOD // 2 + 1, PERIOD // 2)) if k else 0)
        if (told := rig.advance(k)) is not None:
            rig.require_true(told, within=2.0)
            number += 1
    assert number >= 44 and rig.core.restarts == 0 and not rig.core.waiting.rejected


def test_a_late_reading_counts_in_its_step(robot, swing):
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
    assert dict(rig.core.waiting.late) == {"imu": 2} and not rig.core.waiting.outside  # 32 was the newest


def test_a_reading_that_is_too_late_is_counted_and_changes_nothing(robot, swing):
    rig, without = Rig(robot, swing), Rig(robot, swing)
    rig.run(40), without.run(40)
    rig.imu(10)
    rig.run(1, begin=40), without.run(1, begin=40)
    assert dict(rig.core.waiting.outside) == {"imu": 1}
    np.testing.assert_array_equal(
        rig.core.last.estimate.acceleration, without.core.last.estimate.acceleration
    )


def test_a_reading_ahead_of_the_joint_states_waits_for_its_step(robot, swing):
    rig = Rig(robot, swing)
    rig.run(30)
    rig.imu(31), rig.imu(30)
    assert rig.advance(30) is None
    rig.states(30), rig.states(31)
    told = rig.advance(31)
    assert told.estimate.readings == 10
    rig.states(32), rig.states(33)
    assert rig.advance(33).estimate.readings == 10  # of step 31, which the first IMU message is of
    assert not rig.core.waiting.late


def test_states_of_several_publishers(robot, swing):
    rig = Rig(robot, swing)
    for k in range(50):
        rig.imu(k)
        rig.states(k, names=("joint2",))
        if k == 0:
            with pytest.raises(NoOutput, match="never.*joint1"):
                rig.advance(k)
        rig.states(k, names=("joint1",))
        told = rig.advance(k)
    rig.require_true(told)


def test_slower_states_than_steps(robot, swing):
    rig = Rig(robot, swing)
    for k in range(0, 90, 3):
        rig.states(k)
        told = rig.advance(k)
    assert told.stamp == BEGIN + 85 * PERIOD
    rig.require_true(told, within=1.0)


def test_a_continuous_joint_that_wraps(robot, swing):
    rig, plain = Rig(robot, swing), Rig(robot, swing)
    rig.run(30), plain.run(30)
    for k in range(30, 40):
        rig.imu(k), plain.imu(k), plain.states(k)
        t = k * PERIOD / NS
        q, tau = swing.state(t)[0] + [0.0, 2 * np.pi * (-1) ** k], swing.torque(t)
        stamp = BEGIN + k * PERIOD
        rig.core.hear_states(NAMES, q, (), tau, stamp, stamp)
        np.testing.assert_allclose(
            rig.advance(k).estimate.position, plain.advance(k).estimate.position, atol=1e-9
        )


def test_without_torques_nothing_tells_what_pushes(robot, swing):
    rig = Rig(robot, swing, torque_source="none")
    told = rig.run(60)
    assert told.estimate.unobservable == ("external_torque joint1", "external_torque joint2")
    assert np.abs(rig.error(told, "acceleration")).max() < 0.5


def test_commanded_torques_hold_until_others_come(robot, swing):
    rig = Rig(robot, swing, torque_source="commanded", command_joints=["joint2", "joint1"])
    for k in range(80):
        stamp = BEGIN + k * PERIOD
        tau = swing.torque(k * PERIOD / NS)
        if k % 2 == 0:
            rig.core.hear_numbers(tau[::-1], stamp, stamp)
        rig.imu(k)
        rig.states(k, effort=False)
        told = rig.advance(k)
    np.testing.assert_allclose(told.estimate.external_torque, PUSH, atol=0.2)
    with pytest.raises(BadMessage, match="1 .*2 command_joints"):
        rig.core.hear_numbers([1.0], stamp, stamp)


def test_silent_sensors_are_named(robot, swing):
    rig = Rig(robot, swing)
    for k in range(120):
        rig.states(k, effort=False)
        told = rig.advance(k)
    assert rig.core.silent_sensors(BEGIN + 120 * PERIOD) == {"imu": "never", "measured torques": "never"}
    assert set(told.estimate.unobservable) >= {"external_torque joint1", "external_torque joint2"}


def test_a_gap_and_a_jump_begin_anew(robot, swing):
    rig = Rig(robot, swing)
    rig.run(30)
    rig.states(130)
    assert rig.advance(130) is None and rig.core.restarts == 1
    (note,) = rig.core.notes
    assert "0.404 s apart; 0.2 s are bridged at most" in note
    rig.require_true(rig.run(60, begin=131))
    rig.states(-1000)
    assert rig.core.restarts == 2 and "jumped back" in rig.core.notes[-1]


def test_joint_friction_is_no_push(robot, swing):
    friction = {"friction__joints": ["joint1"], "friction__viscous": [2.0], "friction__coulomb": [0.0]}
    rig = Rig(robot, swing, **friction)
    told = rig.run(60)
    qd = swing.state((told.stamp - BEGIN) / NS)[1]
    np.testing.assert_allclose(told.estimate.external_torque, PUSH + 2.0 * np.array([qd[0], 0.0]), atol=0.1)


@pytest.mark.parametrize(
    "message, words",
    [
        (((*NAMES, "joint1"), [0.0] * 3, [], []), "'joint1'.*twice"),
        ((NAMES, [0.0, np.nan], [], []), "'joint2'.*nan"),
        ((NAMES, [0.0], [], []), "2 .*1 .*position"),
        ((NAMES, [0.0, 0.0], [], [1.0]), "2 .*1 .*effort"),
    ],
)
def test_bad_states_change_nothing(robot, swing, message, words):
    rig, untouched = Rig(robot, swing), Rig(robot, swing)
    rig.run(20), untouched.run(20)
    with pytest.raises(BadMessage, match=words):
        rig.core.hear_states(*message, BEGIN + 20 * PERIOD, BEGIN + 20 * PERIOD)
    mine, theirs = rig.run(1, begin=20).estimate, untouched.run(1, begin=20).estimate
    np.testing.assert_array_equal(mine.position, theirs.position)


def test_a_bad_effort_is_none(robot, swing):
    rig = Rig(robot, swing)
    rig.run(30)
    k = 30
    stamp, t = BEGIN + k * PERIOD, k * PERIOD / NS
    rig.core.hear_states(NAMES, swing.state(t)[0], (), [np.inf, np.nan], stamp, stamp)
    rig.imu(k)
    told = rig.advance(k)
    assert np.isfinite(told.estimate.external_torque).all()


def test_what_is_no_arm_is_refused(tmp_path):
    floating = ARM.replace('type="revolute"', 'type="floating"')
    assert "floating joint 'joint1'" in do(EstimatorJob(floating, {}, backend="numpy")).reason
    file = tmp_path / "sensors.yaml"
    file.write_text("sensors: [{type: imu, name: i, link: shoulder, std: 0.1}]")
    reason = do(EstimatorJob(ARM, {}, sensors_file=str(file), backend="numpy")).reason
    assert "sensor 'i': unknown link 'shoulder'" in reason


def test_the_sensors_of_other_nodes_are_left_out(tmp_path):
    """One file for all: those that the estimator cannot read are named in the log."""
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


def test_a_robot_is_pickled_without_its_code(robot):
    import pickle

    again = pickle.loads(pickle.dumps(robot))
    assert again.smoothed.graph.column_names == robot.smoothed.graph.column_names
    assert again.topics == robot.topics


def test_steps_are_nearest():
    grid = Grid(1000, 100)
    assert [grid.step(stamp) for stamp in (949, 950, 1000, 1049, 1050)] == [-1, 0, 0, 0, 1]
    assert grid.time(3) == 1300


def test_a_command_that_comes_before_the_states_of_its_time_is_not_in_force_yet(robot, swing):
    """States come some milliseconds after they were taken: the newest command is younger than they are."""
    rig = Rig(robot, swing, torque_source="commanded", command_joints=["joint1", "joint2"])
    for k in range(80):
        later = BEGIN + (k + 2) * PERIOD
        rig.core.hear_numbers(swing.torque((k + 2) * PERIOD / NS), later, later)
        rig.states(k, effort=False)
        told = rig.advance(k)
    np.testing.assert_allclose(told.estimate.external_torque, PUSH, atol=0.1)


# --- readings that cannot be ---------------------------------------------------------------------------------


def bad_imu(rig, k, x):
    """An IMU's reading at step k whose first acceleration is x."""
    stamp = BEGIN + k * PERIOD
    numbers = rig.swing.imu((stamp - BEGIN) / NS)
    numbers[3] = x
    rig.core.hear_sensor(rig.topic, SensorMessage(numbers, "", stamp, stamp))


def worst(rig, told, quantity):
    return 0.0 if told is None else np.abs(rig.error(told, quantity)).max()


@pytest.mark.parametrize("value", [50.0, -300.0, 1e6, 1e300])
def test_one_bad_reading_of_an_imu_does_not_count(robot, swing, value):
    rig = Rig(robot, swing)
    rig.run(60)
    for k in range(60, 80):
        bad_imu(rig, k, value) if k == 60 else rig.imu(k)
        rig.states(k)
        rig.require_true(rig.advance(k), within=1.0)
    assert dict(rig.core.waiting.rejected) == {"imu": 1} and rig.core.restarts == 0


@pytest.mark.parametrize(
    "sensor, value", [("encoder", 0.05), ("encoder", 1e9), ("torque", 300.0), ("torque", 1e200)]
)
def test_one_bad_number_of_joint_states_does_not_count(robot, swing, sensor, value):
    rig = Rig(robot, swing)
    rig.run(60)
    for k in range(60, 80):
        stamp = BEGIN + k * PERIOD
        numbers = {"encoder": swing.state(k * PERIOD / NS)[0].copy(), "torque": swing.torque(k * PERIOD / NS)}
        numbers[sensor][1] += value * (k == 60)
        rig.imu(k)
        rig.core.hear_states(NAMES, numbers["encoder"], (), numbers["torque"], stamp, stamp)
        if (told := rig.advance(k)) is None:
            assert (
                sensor == "encoder" and k == 62
            )  # of the step whose position was rejected nothing is published
        else:
            rig.require_true(told, within=1.0)
    assert dict(rig.core.waiting.rejected) == {sensor: 1} and rig.core.restarts == 0


@pytest.mark.parametrize("value", [100.0, 500.0, 9e3])
def test_an_imu_that_is_stuck_is_rejected_and_named_and_believed_again_when_it_recovers(robot, swing, value):
    rig = Rig(robot, swing)
    rig.run(60)
    for k in range(60, 140):
        bad_imu(rig, k, value)
        rig.states(k)
        told = rig.advance(k)
        for quantity in ("position", "velocity", "acceleration"):
            assert worst(rig, told, quantity) < 3.0, (k, quantity)
    assert rig.core.doubted() == ["imu"] and rig.core.waiting.rejected["imu"] > 60
    rig.require_true(rig.run(60, begin=140))
    assert rig.core.doubted() == [] and rig.core.restarts == 0


@pytest.mark.parametrize("begin", [0, 1])
@pytest.mark.parametrize("rate, acceleration", [(50.0, 500.0), (5.0, 0.0), (0.5, 5.0)])
def test_an_imu_that_is_wrong_from_the_first_steps_is_rejected(robot, swing, begin, rate, acceleration):
    """Nothing is known of velocities yet: encoders come first, and judge the IMU."""
    rig, number = Rig(robot, swing), 0
    for k in range(50):
        stamp = BEGIN + k * PERIOD
        wrong = k >= begin
        numbers = np.array([0, rate, 0, acceleration, 0, 0]) if wrong else swing.imu(k * PERIOD / NS)
        rig.core.hear_sensor(rig.topic, SensorMessage(numbers, "", stamp, stamp))
        rig.states(k)
        if (told := rig.advance(k)) is not None:
            rig.require_true(told, within=1.0)
            number += 1
    assert number >= 44 and rig.core.restarts == 0 and rig.core.doubted() == ["imu"]


@pytest.mark.parametrize(
    "kind, rate, acceleration",
    [("bias", 0.1, 1.0), ("flips", 5.0, 0.0), ("flips", 0.5, 5.0), ("zero", 0.0, 0.0)],
)
def test_an_imu_that_is_a_little_wrong_does_not_move_the_estimate(robot, swing, kind, rate, acceleration):
    """A jump of the robot would explain some of its readings, but not with what encoders read since."""
    rig, off = Rig(robot, swing), np.array([0, rate, 0, acceleration, 0, 0])
    rig.run(17)
    for k in range(17, 60):
        stamp, true = BEGIN + k * PERIOD, swing.imu(k * PERIOD / NS)
        numbers = {"bias": true + off, "flips": true + (-1) ** k * off, "zero": off}[kind]
        rig.core.hear_sensor(rig.topic, SensorMessage(numbers, "", stamp, stamp))
        rig.states(k)
        if (told := rig.advance(k)) is not None:
            rig.require_true(told, within=3.0)
    assert rig.core.restarts == 0 and rig.core.doubted() == ["imu"]
    assert rig.core.notes == ["readings of imu are rejected: those of encoders contradict them"]
    rig.require_true(rig.run(20, begin=60))
    assert rig.core.notes[1:] == ["readings of imu count again"]


@pytest.mark.parametrize("window", [0.02, 0.04])
def test_an_imu_that_is_wrong_while_joint_states_are_missing_is_not_believed(robot, swing, window):
    """Nothing contradicts it then, and the estimate follows nothing but the model. States come late and in bursts."""
    rig, random, following, number = Rig(robot, swing, window=window), np.random.default_rng(0), 0, 0
    for k in range(150):
        offset = int(random.integers(-PERIOD // 3, PERIOD // 3))
        stamp = BEGIN + k * PERIOD + offset
        numbers = swing.imu((stamp - BEGIN) / NS) if k < 40 else np.array([0, 5.0, 0, 0, 0, 0])
        rig.core.hear_sensor(rig.topic, SensorMessage(numbers, "", stamp, stamp))
        if k >= 30 and k < following:
            continue
        missing = (8, 20)[window > 0.02]
        following = k + 1 + (int(random.integers(0, missing + 1)) if random.random() < 0.4 else 0)
        rig.states(k, offset=int(random.integers(-PERIOD // 3, PERIOD // 3)))
        if (told := rig.advance(k)) is not None:
            rig.require_true(told, within=4.0)
            number += 1
    assert number >= 40 and rig.core.restarts == 0 and rig.core.doubted() == ["imu"]


def test_the_shortest_window_solves(robot, swing):
    """Two steps tell no acceleration, and three no jump; there are five."""
    rig, number = Rig(robot, swing, window=0.001, lag=0.0), 0
    for k in range(30):
        rig.imu(k)
        rig.states(k)
        if (told := rig.advance(k)) is not None:
            rig.require_true(told, within=1.0)
            number += 1
    assert number == 27


class Struck(Swing):
    """Something hits the upper link: for 12 ms it accelerates by 300 rad/s^2 more than the motors ask for."""

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


def test_a_collision_is_no_outlier(robot):
    """Its acceleration and its torque are told, with the lag; no position is ever far off."""
    struck = Struck()
    rig, hardest = Rig(robot, struck), 0.0
    rig.run(60)
    for k in range(60, 130):
        rig.imu(k)
        rig.states(k)
        if (told := rig.advance(k)) is None:
            continue
        t = (told.stamp - BEGIN) / NS
        q, _, qdd = struck.state(t)
        assert np.abs(told.estimate.position - q).max() < 10e-4  # encoders: 1e-4
        if told.stamp == BEGIN + 62 * PERIOD:
            hardest = (
                told.estimate.acceleration[0] / qdd[0],
                told.estimate.external_torque[0] / struck.push(t)[0],
            )
    assert hardest and min(hardest) > 0.8 and max(hardest) < 1.25
    assert rig.core.restarts == 0 and not rig.core.doubted()
    for number, truth in enumerate((*struck.state(t), struck.push(t))):
        error = np.abs(told.estimate[1 + number] - truth)
        assert (error < np.sqrt(np.diag(told.estimate.covariances[number]))).all()


@pytest.mark.parametrize("seed", range(3))
def test_whatever_comes_there_is_an_estimate_or_a_reason(robot, swing, seed):
    """Wild stamps, numbers and lengths: nothing else is raised, and what is told is finite; afterwards all is as before."""
    random = np.random.default_rng(seed)
    rig = Rig(robot, swing)
    numbers = [0.0, 1.0, -3.0, 1e3, 1e12, 1e200, np.nan, np.inf]

    def wild(count):
        return random.choice(numbers, count) if random.random() < 0.2 else 0.4 * random.standard_normal(count)

    for k in range(300):
        stamp = BEGIN + k * PERIOD + int(random.choice([0, 0, 0, -5, 7, 60, -2000, 10**6])) * PERIOD
        try:
            count = int(random.choice([2, 2, 2, 2, 1, 3]))
            rig.core.hear_states(
                NAMES, wild(count), (), wild(int(random.choice([0, 2, 2, 1]))), stamp, k * PERIOD
            )
            rig.core.hear_sensor(rig.topic, SensorMessage(wild(6), "", stamp, k * PERIOD))
        except BadMessage:
            pass
        try:
            told = rig.core.advance(k * PERIOD)
        except NoOutput:
            continue
        if told is not None:
            assert all(np.isfinite(part).all() for part in told.estimate[1:5])
            assert all(np.isfinite(P).all() for P in told.estimate.covariances)
    rig.core.forget("the test goes on")
    rig.require_true(rig.run(60))
