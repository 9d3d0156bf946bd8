"""Payload estimation from joint states: plain values in, an estimate or a reason out."""

import pickle

import numpy as np
import pytest
from carrying import COM, HAND, MASS, MOMENTS, motion, rubbing, torques
from plain import built, robot_settings, serve, settings
from robots import PANDA_JOINTS, ROBOTS

pytest.importorskip("dynamics_interfaces", reason="build dynamics_interfaces first, or use ./dev")

from dynamics_interfaces.srv import EstimatePayload

from dynamics_node.node.core.consistency import check_against
from dynamics_node.node.core.diagnostics import Statistics, report
from dynamics_node.node.core.payload_estimation import ROBOT_REBUILT
from dynamics_node.node.errors import BadMessage
from dynamics_node.node.services.services import estimate_payload

NAMES = list(PANDA_JOINTS)
TIME = np.arange(0.0, 6.0, 0.02)


@pytest.fixture(scope="module")
def recording():
    """q, qd and torques with the payload and without, friction included."""
    states = motion(1, time=TIME)
    return *states[:2], torques(*states) + rubbing(states[1]), torques(*states, payload=False)


@pytest.fixture
def served_panda():
    return serve("panda7", payload_estimation__link=HAND, backend="c")


def feed(served, q, qd, tau, milliseconds=20, names=NAMES):
    """Receive joint states and add them to the estimate, as the node does."""
    for state in zip(q, qd, tau, strict=True):
        served.wait(milliseconds)
        served.receive(names, *state, stamp=served.ros)
        if served.core.payload_estimation.running:
            served.core.payload_estimation.gather(served.core, served.now)
    return served.core.payload_estimation


def is_accurate(estimate):
    off = (estimate.fitted.x[0] - MASS, *(estimate.com - COM), *(estimate.inertia - MOMENTS).ravel())
    return np.allclose(off, 0.0, atol=3e-3)


def test_an_estimate_starts_stops_and_restarts(served_panda, recording):
    estimation = served_panda.core.payload_estimation
    assert estimation.running and estimation.status() == f"{HAND}: 0 samples", "it starts with the robot"
    with pytest.raises(BadMessage, match=f"sample.*'{HAND}'"):
        estimation.estimate("")
    feed(served_panda, *recording[:3])
    estimate = estimation.estimate("")
    assert is_accurate(estimate) and estimate.refusal == "" and estimate.samples == estimation.samples > 280
    assert estimation.status() == f"{HAND}: {estimation.samples} samples"
    estimation.stop()
    feed(served_panda, *recording[:3])
    assert estimation.estimate(HAND).samples == estimate.samples
    assert estimation.status().endswith("samples, stopped")
    assert estimation.start(served_panda.core.unloaded, HAND) and estimation.samples == 0
    with pytest.raises(BadMessage, match=f"'panda_link5'.*'{HAND}'"):
        estimation.estimate("panda_link5")


def test_a_set_payload_is_part_of_the_estimate(served_panda, recording):
    """Also if set during the estimation; a payload on another link is not part of it."""
    core, third = served_panda.core, len(TIME) // 3
    feed(served_panda, *(part[:third] for part in recording[:3]))
    core.set_payload(HAND, 0.4 * MASS, COM, 0.4 * MOMENTS)
    feed(served_panda, *(part[third : 2 * third] for part in recording[:3]))
    estimation = core.payload_estimation
    core.set_payload(
        HAND, estimation.estimate("").mass, estimation.estimate("").com, estimation.estimate("").inertia
    )
    feed(served_panda, *(part[2 * third :] for part in recording[:3]))
    assert is_accurate(estimation.estimate(""))
    core.set_payload(HAND, 0, (), ())
    core.set_payload("panda_link5", 2.0, (0, 0, 0), 0.01 * np.eye(3))
    assert estimation.start(core.unloaded, HAND)
    q, qd, _, empty = recording
    more = serve("panda7", backend="c").core
    more.set_payload("panda_link5", 2.0, (0, 0, 0), 0.01 * np.eye(3))
    states = motion(1, time=TIME)
    feed(served_panda, q, qd, more.solver(*states))
    assert abs(estimation.estimate("").fitted.x[0]) < 1e-3 and np.abs(empty).max() > 1


def test_an_applied_estimate_gives_the_torques_of_the_loaded_arm(served_panda, recording):
    q, qd, tau, _ = recording
    estimate = feed(served_panda, q, qd, tau - rubbing(qd)).estimate("")
    before = served_panda.tau(NAMES)
    served_panda.core.set_payload(HAND, estimate.mass, estimate.com, estimate.inertia)
    served_panda.receive(NAMES, q[0], 0 * q[0])
    zero = np.zeros((1, 7))
    assert np.allclose(served_panda.tau(NAMES), torques(q[:1], zero, zero)[0], atol=0.02)
    assert np.abs(served_panda.tau(NAMES) - before).max() > 1


def test_a_missing_effort_is_named(served_panda, recording):
    q, qd, tau, _ = recording
    estimation = feed(served_panda, q[:20], qd[:20], tau[:20])
    samples = estimation.samples
    tau = tau.copy()
    tau[20:30, 3] = np.nan
    feed(served_panda, q[20:30], qd[20:30], tau[20:30])
    assert estimation.reason == "no effort in joint_states for panda_joint4" and estimation.samples == samples
    assert estimation.reason in estimation.status()
    served = serve("panda7", payload_estimation__link=HAND, backend="c")
    for state in zip(q[:10], qd[:10], strict=True):
        served.wait(20).receive(NAMES, *state, stamp=served.ros)
        served.core.payload_estimation.gather(served.core, served.now)
    with pytest.raises(BadMessage, match="effort.*panda_joint1"):
        served.core.payload_estimation.estimate("")
    feed(served_panda, q[30:], qd[30:], tau[30:])
    assert estimation.reason == "" and is_accurate(estimation.estimate(""))


def test_stale_and_rare_states_are_skipped(served_panda, recording):
    q, qd, tau, _ = recording
    estimation = feed(served_panda, q[:20], qd[:20], tau[:20], milliseconds=400)
    assert estimation.samples == 0 and "0.4 s apart; at most 0.2 s is allowed" in estimation.reason
    served_panda.wait(1000)
    estimation.gather(served_panda.core, served_panda.now)
    assert "joint states older than 0.2 s" in estimation.reason and estimation.samples == 0


@pytest.mark.parametrize("source", ["message", "differentiate"])
def test_velocities_have_the_source_of_the_torques(recording, source):
    served = serve("panda7", payload_estimation__link=HAND, backend="c", velocity_source=source)
    time = np.arange(0.0, 6.0, 0.004)
    states = motion(1, time=time)
    qd = states[1] if source == "message" else np.full_like(states[1], np.nan)
    estimation = feed(served, states[0], qd, torques(*states), milliseconds=4)
    assert estimation.estimate("").mass == pytest.approx(MASS, abs=0.02)


def test_only_new_parameters_stop_an_estimation(served_panda, recording):
    q, qd, tau, _ = recording
    estimation, core, half = served_panda.core.payload_estimation, served_panda.core, len(TIME) // 2
    feed(served_panda, *(part[:half] for part in recording[:3]))
    samples = estimation.samples
    chosen = robot_settings("panda7", payload_estimation__link=HAND, backend="c")
    same = pickle.loads(pickle.dumps(built(ROBOTS["panda7"].file.read_text(), chosen)))
    core.replace(same, chosen)
    assert estimation.running and estimation.samples == samples, "the same robot, compiled again"
    core.forget()
    feed(served_panda, *(part[half:] for part in recording[:3]))
    assert is_accurate(estimation.estimate("")) and estimation.samples > samples
    heavier = ROBOTS["panda7"].file.read_text().replace('mass value="0.73"', 'mass value="0.9"')
    assert heavier != ROBOTS["panda7"].file.read_text()
    samples = estimation.samples
    core.replace(built(heavier, chosen), chosen)
    assert not estimation.running and estimation.reason == ROBOT_REBUILT
    assert ROBOT_REBUILT in estimation.status()
    feed(served_panda, *recording[:3])
    assert estimation.samples == samples and is_accurate(estimation.estimate("")), "the estimate is kept"
    assert estimation.start(core.unloaded, HAND) and estimation.running


def test_a_new_link_starts_a_new_estimate(served_panda, recording):
    estimation, core = served_panda.core.payload_estimation, served_panda.core
    text = ROBOTS["panda7"].file.read_text()
    feed(served_panda, *recording[:3])
    assert not estimation.start(core.unloaded, "panda_link7")
    assert estimation.status() == "panda_link7: being built"
    with pytest.raises(BadMessage, match="'panda_link7'.*built"):
        estimation.estimate("")
    assert is_accurate(estimation.estimate(HAND))
    other = robot_settings("panda7", payload_estimation__link="panda_link7", backend="c")
    core.replace(built(text, other), other)
    assert estimation.running and estimation.link == "panda_link7" and estimation.samples == 0
    feed(served_panda, *recording[:3])
    assert estimation.estimate("").mass == pytest.approx(MASS, abs=3e-3)
    without = robot_settings("panda7", backend="c")
    core.replace(built(text, without), without)
    assert not estimation.running and estimation.reason == "payload_estimation.link is empty"
    core.replace(built(text, other), other)
    assert estimation.running and estimation.samples == 0, "started again"


def test_an_estimation_can_be_stopped_before_it_is_built():
    served = serve("panda7", backend="c")
    estimation, core = served.core.payload_estimation, served.core
    assert estimation.status() == "off" and not estimation.running
    with pytest.raises(BadMessage, match="started"):
        estimation.estimate("")
    assert not estimation.start(core.unloaded, HAND)
    estimation.stop()
    chosen = robot_settings("panda7", payload_estimation__link=HAND, backend="c")
    core.replace(built(ROBOTS["panda7"].file.read_text(), chosen), chosen)
    assert not estimation.running
    assert estimation.start(core.unloaded, HAND)


def test_a_return_to_the_old_link_during_a_build_continues(served_panda, recording):
    """The same robot is built again, and the estimate continues."""
    estimation, core = served_panda.core.payload_estimation, served_panda.core
    assert not estimation.start(core.unloaded, "panda_link7")
    assert estimation.start(core.unloaded, HAND)
    samples = feed(served_panda, *recording[:3]).samples
    core.replace(built(ROBOTS["panda7"].file.read_text(), core.settings), core.settings)
    assert estimation.running and estimation.samples == samples > 280 and is_accurate(estimation.estimate(""))


def test_known_friction_is_not_estimated(recording):
    """Friction is that of the parameters friction.*."""
    friction = {"friction__joints": NAMES, "friction__viscous": [2.0] * 7, "friction__coulomb": [1.0] * 7}
    served = serve(
        "panda7", payload_estimation__link=HAND, payload_estimation__friction=False, backend="c", **friction
    )
    q, qd, tau, _ = recording
    estimation = feed(served, q, qd, tau - rubbing(qd) + 2.0 * qd + np.tanh(qd / 0.01))
    assert is_accurate(estimation.estimate(""))


def test_a_restart_waits_for_the_build(served_panda, recording):
    """NumPy of the first stage has no estimation."""
    estimation, core = served_panda.core.payload_estimation, served_panda.core
    text = ROBOTS["panda7"].file.read_text()
    chosen, without = core.settings, robot_settings("panda7", backend="c")
    feed(served_panda, *recording[:3])
    core.replace(built(text, without), chosen)
    samples = estimation.samples
    feed(served_panda, *(part[:20] for part in recording[:3]))
    assert estimation.running and estimation.samples == samples
    assert not estimation.start(core.unloaded, HAND)
    core.replace(built(text, chosen), chosen)
    assert estimation.running and estimation.samples == 0


def test_settings_apply_at_once(served_panda, recording):
    q, qd, tau, _ = recording
    estimation = feed(served_panda, q, qd, tau)
    assert is_accurate(estimation.estimate(""))
    served_panda.use(payload_estimation__friction=False)
    assert not is_accurate(estimation.estimate("")) and estimation.running
    served_panda.use(payload_estimation__friction=True, payload_estimation__horizon=0.5)
    feed(served_panda, q, qd, tau - 2 * (tau - rubbing(qd) - recording[3]))
    assert estimation.estimate("").fitted.x[0] == pytest.approx(-MASS, abs=0.02), (
        "the newest second dominates"
    )


def test_diagnostics_have_the_status(served_panda):
    class RobotManager:
        core, failure, building, settings = served_panda.core, "", False, served_panda.core.settings

    assert report(RobotManager, Statistics(), True).values["payload estimation"] == f"{HAND}: 0 samples"


@pytest.mark.parametrize(
    "name, link, reason",
    [
        ("panda7", "tool9", "unknown link 'tool9'; the robot has: panda_hand"),
        (
            "panda7",
            "panda_link0",
            "link 'panda_link0' is fixed to the root: no joint torque depends on its payload",
        ),
        ("solo12", "base_link", "the ground forces on a floating base are not measured"),
    ],
)
def test_a_robot_without_payload_estimation_is_served(name, link, reason):
    """Torques have priority: a new description may lack the link."""
    served = serve(name, payload_estimation__link=link)
    estimation = served.core.payload_estimation
    check_against(served.core.settings, served.core.unloaded)
    assert estimation.status().startswith(f"no payload is estimated: {reason}") and not estimation.running
    with pytest.raises(BadMessage, match=f"no payload is estimated: {reason}"):
        estimation.estimate(link)


def test_payload_estimation_needs_velocities():
    with pytest.raises(ValueError, match="payload_estimation.link.*velocities"):
        settings(payload_estimation__link=HAND, velocity_source="zero")


def test_the_first_stage_has_no_payload_estimation():
    """Interpretation would take milliseconds per state."""
    job = settings(payload_estimation__link=HAND).job("")
    assert job.payload_link == HAND and job.first().payload_link == ""
    assert job.topics_first().payload_link == HAND


@pytest.mark.parametrize("friction", [True, False])
def test_a_robot_at_rest_excites_nothing(friction):
    """For any noise: an offset hides the weight, and one pose does not determine the center of mass."""
    random, zero = np.random.default_rng(0), np.zeros((200, 7))
    q = np.broadcast_to([0.1, 0.4, -0.2, -1.5, 0.3, 1.2, 0.1], zero.shape)
    noise = [std * random.normal(size=zero.shape) for std in (5e-5, 5e-4, 0.05)]
    served = serve(
        "panda7", payload_estimation__link=HAND, payload_estimation__friction=friction, backend="c"
    )
    estimation = feed(served, q + noise[0], noise[1], torques(q, zero, zero) + noise[2])
    reason = EstimatePayload.Response()
    words = estimate_payload(None, served.core, EstimatePayload.Request(command="compute"), reason)
    assert "cannot be applied: not excited enough" in words
    assert len(reason.not_excited) == (10 if friction else 9) and reason.samples == estimation.samples > 100
    with pytest.raises(BadMessage, match="excited"):
        estimate_payload(None, served.core, EstimatePayload.Request(command="apply"), reason)
