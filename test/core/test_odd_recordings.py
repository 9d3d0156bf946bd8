"""Warnings about faulty recordings name the joints; valid recordings have no warnings."""

import re

import numpy as np
import pytest
from identified import Truth, as_measured, in_chunks
from robots import ROBOTS, PublishedRobot

from dynamics_node.identification import USUAL, Sums, base_parameters, identify
from dynamics_node.identification.checks.recording_check import RecordingCheck
from dynamics_node.identification.checks.torque_checks import about_torques

NAMES = ("ur5", "panda7", "kinova")


each_robot = pytest.mark.parametrize("arms", NAMES, indirect=True, scope="module")


@pytest.fixture(scope="module")
def arms(request):
    """Robots that differ from their description."""
    model = ROBOTS[request.param].model()
    arms = [Truth(model, seed, "c") for seed in range(5)]
    base = base_parameters(arms[0].linear)
    for arm in arms:
        arm.linear, arm.base = arms[0].linear, base
    return arms


def warnings(arm, recording):
    """Warnings as collected by `identify`."""
    check, sums = RecordingCheck(arm.linear, arm.base), Sums(arm.linear, arm.base)
    for chunk in in_chunks(recording)():
        check.add(chunk)
        sums.add(chunk)
    messages = check.warnings()
    return messages if check.late else messages + about_torques(arm.linear, arm.base, sums, check.sample.rows)


def changed(kinds, change):
    """A fault that changes copies of some arrays of a recording."""

    def applied(arm, recording):
        copies = {kind: recording[kind].copy() for kind in kinds.split()}
        for rows in copies.values():
            change(rows)
        return recording | copies

    return applied


def exchanged(kinds, a, b):
    def change(rows):
        rows[:, [a, b]] = rows[:, [b, a]]

    return changed(kinds, change)


def scaled(kinds, factor, joints=slice(None)):
    def change(rows):
        rows[..., joints] *= factor

    return changed(kinds, change)


def late(seconds):
    """A fault that delays torques."""

    def applied(arm, recording):
        time = recording["time"]
        tau = [np.interp(time - seconds, time, column) for column in recording["tau"].T]
        return recording | {"tau": np.column_stack(tau)}

    return applied


def other_gravity(*gravity):
    """A fault that gives torques of another gravity."""

    def applied(arm, recording):
        q, at_rest = recording["q"], np.zeros_like(recording["qd"])
        more = arm.linear.inertial(q, at_rest, at_rest, np.array(gravity)) - arm.linear.inertial(
            q, at_rest, at_rest
        )
        own = arm.parameters[arm.linear.places("inertia")]
        return recording | {"tau": recording["tau"] + more @ own}

    return applied


def loaded(kilograms):
    """A fault that adds a payload at some time."""

    def applied(arm, recording):
        more = np.zeros_like(arm.parameters)
        last = arm.linear.places("inertia").stop - 10
        more[last : last + 4] = kilograms * np.array([1.0, 0.0, 0.0, 0.1])
        torques = arm.linear.matrix(*(recording[kind] for kind in ("q", "qd", "qdd"))) @ more
        return recording | {"tau": recording["tau"] + torques * (recording["time"] > 6.0)[:, None]}

    return applied


def clipped(arm, recording):
    tau = recording["tau"].copy()
    limit = 0.7 * np.abs(tau[:, 1]).max()
    tau[:, 1] = np.clip(tau[:, 1], -limit, limit)
    return recording | {"tau": tau}


def subset(which):
    """A fault that keeps only some rows."""

    def applied(arm, recording):
        rows = which(len(recording["time"]))
        return {kind: array[rows] for kind, array in recording.items()}

    return applied


def stamped(change):
    def applied(arm, recording):
        time = recording["time"].copy()
        change(time)
        return recording | {"time": time}

    return applied


def repeated_stamps(time):
    time[5::10] = time[4::10]


def clock_back(time):
    time[600:] -= 3.0


def gap(time):
    time[600:] += 1.0


def nan(rows):
    rows[100:103, 2] = np.nan


def at_rest(*joints):
    def applied(arm, recording):
        moving = np.setdiff1d(np.arange(arm.robot.nv), joints)
        return arm.recording(11, moving=moving)

    return applied


def constant(rows):
    rows[:, 2] = 1.5


def random_rows(count):
    return np.flatnonzero(np.random.default_rng(0).random(count) > 0.1)


ODD = {
    "one torque of the other sign": (scaled("tau", -1.0, 1), "the torque of {1} has the opposite sign"),
    "the last but one, too": (scaled("tau", -1.0, [1, -2]), "the torque of {1} has the opposite sign"),
    "one torque in amperes": (scaled("tau", 0.08, 2), r"the torque of {2} is 0\.(0[5-9]|1).*amperes"),
    "one torque in other units": (scaled("tau", 1000.0, 1), r"the torque of {1} is (\d\.\d|1)e\+0[23] .*units"),
    "all torques in amperes": (scaled("tau", 0.08), r"about 0\.\d+ times the description's: amperes"),
    "all torques in other units": (scaled("tau", 100.0), r"about 1(\d\d|.*e\+02) times the description's"),
    "torques exchanged": (exchanged("tau", 1, 2), "the torques of {1} and {2} seem to be exchanged"),
    "joints exchanged": (exchanged("q qd qdd tau", 1, 3), "the columns of {1} and {3} seem to be exchanged"),
    "positions in degrees": (scaled("q", 180 / np.pi), "57.3 times as fast .* positions in degrees"),
    "states in degrees": (scaled("q qd qdd", 180 / np.pi), "far outside their limits: degrees"),
    "velocities in degrees": (scaled("qd", 180 / np.pi), "0.0175 times .* velocities in degrees"),
    "velocities of another joint": (exchanged("qd", 0, 1), "velocities of {0} do not correlate|{0} change"),
    "milliseconds": (scaled("time", 1e3), "samples are 10 s apart: are times milliseconds"),
    "microseconds": (scaled("time", 1e6), r"samples are 1e\+04 s apart: are times microseconds"),
    "nanoseconds": (scaled("time", 1e9), r"samples are 1e\+07 s apart: are times nanoseconds"),
    "stamps twice": (stamped(repeated_stamps), "120 time stamps are repeated"),
    "the clock back": (stamped(clock_back), "the clock jumps back 1 time"),
    "a gap": (stamped(gap), "samples are missing at 1 place"),
    "samples dropped": (subset(random_rows), r"about (8|9|1\d) % of the samples are missing"),
    "5 ms late": (late(0.005), "torques are 5 ms behind"),
    "20 ms late": (late(0.02), r"torques are (20|19|21) ms behind"),
    "50 ms late": (late(0.05), r"torques are (5\d|4\d) ms behind"),
    "30 ms early": (late(-0.03), r"torques are (29|30|31) ms ahead"),
    "70 ms late": (late(0.07), r"torques are (69|7[012]) ms behind"),
    "10 ms early": (late(-0.01), r"torques are (10|9|11) ms ahead"),
    "saturated": (clipped, "the torque of {1} has its largest value in .* saturated"),
    "a load taken": (loaded(0.5), r"is about 0\.[45]\d* kg more after about (6|7)(\.\d+)? s"),
    "a load left": (loaded(-0.5), r"is about 0\.[45]\d* kg less after about"),
    "constant": (changed("tau", constant), "the torque of {2} never changes"),
    "no gravity": (other_gravity(0.0, 0.0, 0.0), "torques contain no gravity"),
    "NaN": (changed("tau", nan), "tau is not finite"),
    "a joint still": (at_rest(3), "{3} does not move"),
    "all still": (at_rest(*range(7)), "nothing moves"),
}  # fmt: skip


ONE_ROBOT_EACH = [
    (name, kind) for k, kind in enumerate(ODD) for n, name in enumerate(NAMES) if not (k + n) % 3
]


@pytest.mark.parametrize("arms, kind", ONE_ROBOT_EACH, indirect=["arms"], scope="module")
def test_warning_names_the_fault(arms, kind):
    fault, message = ODD[kind]
    pattern = re.sub(r"\{(-?\d)\}", lambda match: arms[0].robot.v_names[int(match[1])], message)
    arm = arms[len(kind) % 5]
    messages = warnings(arm, fault(arm, arm.recording(len(kind) + 10)))
    assert any(re.search(pattern, text) for text in messages), messages


@each_robot
@pytest.mark.parametrize("gravity", [(0.0, 0.0, 9.81), (9.81, 0.0, 0.0)])
def test_other_mounting_is_suggested(arms, gravity):
    """Robots upside down or on a wall."""
    fault = other_gravity(*gravity)
    messages_of_arms = [warnings(arm, fault(arm, arm.recording(seed))) for seed, arm in enumerate(arms[:2])]
    assert all(
        any("is the robot mounted that way" in text for text in messages) for messages in messages_of_arms
    ), messages_of_arms


@each_robot
def test_valid_recordings_have_no_warnings(arms):
    for seed, arm in enumerate(arms):
        assert warnings(arm, arm.recording(seed)) == []


@each_robot
@pytest.mark.parametrize("kind", ["coarse", "creep", "noise", "short"])
def test_ordinary_errors_cause_no_warning(arms, kind):
    """Torques in steps of 0.5 N m, creeping friction, much noise, or a length of three seconds."""
    arm = arms[2]
    time = np.arange(0.0, 3.0 if kind == "short" else 12.0, 0.01)
    recording = arm.recording(5, noise=1.0 if kind == "noise" else 0.05, time=time)
    tau, qd = recording["tau"], recording["qd"]
    if kind == "coarse":
        tau = 0.5 * np.round(tau / 0.5)
    elif kind == "creep":
        tau = tau + 2.0 * np.tanh(qd / 0.1)
    assert warnings(arm, recording | {"tau": tau}) == []


@each_robot
@pytest.mark.parametrize("seconds, rate", [(4.0, 30.0), (6.0, 50.0), (12.0, 30.0)])
def test_real_friction_causes_no_warning(arms, seconds, rate):
    """Another friction law and correlated noise cause no warning of a delay or of another robot, even with few rows."""
    for seed, arm in enumerate(arms[:2]):
        clean = arm.recording(seed, noise=0.0, time=np.arange(0.0, seconds, 1.0 / rate))
        assert warnings(arm, as_measured(arm, clean, seed)) == []


@each_robot
def test_scale_of_torques_is_estimated_in_slow_motion(arms):
    """Gravity dominates the torques; a factor of 0.1 does not count as missing gravity."""
    arm = arms[0]
    recording = arm.recording(3, noise=0.0)
    slow = recording | {
        "qd": recording["qd"] / 20,
        "qdd": recording["qdd"] / 400,
        "time": 20 * recording["time"],
    }
    own = arm.linear.described.copy()
    tau = 0.1 * arm.linear.matrix(slow["q"], slow["qd"], slow["qdd"]) @ own
    messages = warnings(arm, slow | {"tau": tau + 0.002 * np.random.default_rng(0).normal(size=tau.shape)})
    assert any(re.search(r"about 0\.(1|09\d*|10\d*) times the description's", text) for text in messages), (
        messages
    )
    assert not any("gravity" in text for text in messages)


@each_robot
def test_exchanged_torques_of_the_last_joints_are_named(arms):
    """Friction dominates these torques."""
    arm = arms[2]
    for seed in (4, 5):
        recording = as_measured(
            arm, arm.recording(seed, noise=0.0, time=np.arange(0.0, 20.0, 0.02)), seed, 0.1
        )
        recording["tau"][:, [-1, -2]] = recording["tau"][:, [-2, -1]]
        last, other = arm.robot.v_names[-1], arm.robot.v_names[-2]
        assert f"the torques of {other} and {last} seem to be exchanged" in warnings(arm, recording)


def test_exchanged_torques_that_look_delayed_are_named():
    """Rotors dominate the torques of the wrist of a UR10, and the description has none."""
    robot = PublishedRobot("ur_description/urdf/ur10_robot.urdf").model()
    arm = Truth(robot, backend="c", terms=(*USUAL, "rotor"))
    sizes = {"rotor": [6.0, 6.0, 4.0, 1.0, 1.0, 1.0], "viscous": 1.0, "coulomb": 1.0}
    for term, size in sizes.items():
        arm.parameters[arm.linear.places(term)] = size
    recording = arm.recording(1, time=np.arange(0.0, 24.0, 0.01))
    recording["tau"][:, [3, 4]] = recording["tau"][:, [4, 3]]
    fit = identify(robot, [in_chunks(recording)], backend="c")
    assert any("ahead" in text for text in fit.warnings)
    assert "the torques of wrist_1_joint and wrist_2_joint seem to be exchanged" in fit.warnings


@each_robot
def test_delay_of_slow_samples_is_estimated(arms):
    """Delays of either sign at 30 Hz cause only the warning about the delay."""
    arm = arms[1]
    clean = arm.recording(6, noise=0.0, time=np.arange(0.0, 20.0, 1 / 30))
    for seconds in (-0.03, 0.07):
        messages = warnings(arm, late(seconds)(arm, as_measured(arm, clean, 1, 0.1)))
        match = re.fullmatch(r"torques are (\d+) ms (behind|ahead of) the positions", ";".join(messages))
        assert match, messages
        assert abs(int(match[1]) - 1e3 * abs(seconds)) <= 8 and (match[2] == "behind") == (seconds > 0)


@each_robot
def test_large_friction_causes_no_warning(arms):
    """Friction of 20 N m, as in the shoulder of a UR10, is no fault of the data."""
    arm = arms[1]
    recording = arm.recording(7, noise=0.5)
    tau = recording["tau"] + 20.0 * np.tanh(recording["qd"] / 0.03) + 5.0 * recording["qd"]
    assert warnings(arm, recording | {"tau": tau}) == []
