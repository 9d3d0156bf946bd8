"""What a link carries, from joint states: plain values in, an estimate or a reason out."""

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
from dynamics_node.node.core.measured_efforts import ANEW
from dynamics_node.node.errors import BadMessage
from dynamics_node.node.services.services import estimate_payload

NAMES = list(PANDA_JOINTS)
TIME = np.arange(0.0, 6.0, 0.02)


@pytest.fixture(scope="module")
def moved():
    """q, qd and torques with the payload and without, friction included."""
    states = motion(1, time=TIME)
    return *states[:2], torques(*states) + rubbing(states[1]), torques(*states, payload=False)


@pytest.fixture
def bearing():
    return serve("panda7", payload_estimation__link=HAND, backend="c")


def feed(served, q, qd, tau, milliseconds=20, names=NAMES):
    """A joint state each, and what the node makes of it."""
    for state in zip(q, qd, tau, strict=True):
        served.wait(milliseconds)
        served.hear(names, *state, stamp=served.ros)
        if served.core.payload_estimation.running:
            served.core.payload_estimation.gather(served.core, served.now)
    return served.core.payload_estimation


def is_right(found):
    off = (found.fitted.x[0] - MASS, *(found.com - COM), *(found.inertia - MOMENTS).ravel())
    return np.allclose(off, 0.0, atol=3e-3)


def test_found_and_forgotten(bearing, moved):
    own = bearing.core.payload_estimation
    assert own.running and own.status() == f"{HAND}: 0 states", "it begins with the robot"
    with pytest.raises(BadMessage, match=f"state.*'{HAND}'"):
        own.found("")
    feed(bearing, *moved[:3])
    found = own.found("")
    assert is_right(found) and found.refusal == "" and found.samples == own.samples > 280
    assert own.status() == f"{HAND}: {own.samples} states"
    own.stop()
    feed(bearing, *moved[:3])
    assert own.found(HAND).samples == found.samples and own.status().endswith("states, stopped")
    assert own.start(bearing.core.unloaded, HAND) and own.samples == 0
    with pytest.raises(BadMessage, match=f"'panda_link5'.*'{HAND}'"):
        own.found("panda_link5")


def test_a_payload_that_is_set_already_is_part_of_it(bearing, moved):
    """Set in the middle, too; on another link it is nothing that this one carries."""
    core, third = bearing.core, len(TIME) // 3
    feed(bearing, *(part[:third] for part in moved[:3]))
    core.set_payload(HAND, 0.4 * MASS, COM, 0.4 * MOMENTS)
    feed(bearing, *(part[third : 2 * third] for part in moved[:3]))
    own = core.payload_estimation
    core.set_payload(HAND, own.found("").mass, own.found("").com, own.found("").inertia)
    feed(bearing, *(part[2 * third :] for part in moved[:3]))
    assert is_right(own.found(""))
    core.set_payload(HAND, 0, (), ())
    core.set_payload("panda_link5", 2.0, (0, 0, 0), 0.01 * np.eye(3))
    assert own.start(core.unloaded, HAND)
    q, qd, _, empty = moved
    more = serve("panda7", backend="c").core
    more.set_payload("panda_link5", 2.0, (0, 0, 0), 0.01 * np.eye(3))
    states = motion(1, time=TIME)
    feed(bearing, q, qd, more.solver(*states))
    assert abs(own.found("").fitted.x[0]) < 1e-3 and np.abs(empty).max() > 1


def test_applied_torques_are_those_of_the_loaded_arm(bearing, moved):
    q, qd, tau, _ = moved
    found = feed(bearing, q, qd, tau - rubbing(qd)).found("")
    before = bearing.tau(NAMES)
    bearing.core.set_payload(HAND, found.mass, found.com, found.inertia)
    bearing.hear(NAMES, q[0], 0 * q[0])
    zero = np.zeros((1, 7))
    assert np.allclose(bearing.tau(NAMES), torques(q[:1], zero, zero)[0], atol=0.02)
    assert np.abs(bearing.tau(NAMES) - before).max() > 1


def test_a_missing_effort_is_named(bearing, moved):
    q, qd, tau, _ = moved
    own = feed(bearing, q[:20], qd[:20], tau[:20])
    counted = own.samples
    tau = tau.copy()
    tau[20:30, 3] = np.nan
    feed(bearing, q[20:30], qd[20:30], tau[20:30])
    assert own.reason == "no effort in joint_states for panda_joint4" and own.samples == counted
    assert own.reason in own.status()
    served = serve("panda7", payload_estimation__link=HAND, backend="c")
    for state in zip(q[:10], qd[:10], strict=True):
        served.wait(20).hear(NAMES, *state, stamp=served.ros)
        served.core.payload_estimation.gather(served.core, served.now)
    with pytest.raises(BadMessage, match="effort.*panda_joint1"):
        served.core.payload_estimation.found("")
    feed(bearing, q[30:], qd[30:], tau[30:])
    assert own.reason == "" and is_right(own.found(""))


def test_stale_and_rare_states_do_not_count(bearing, moved):
    q, qd, tau, _ = moved
    own = feed(bearing, q[:20], qd[:20], tau[:20], milliseconds=400)
    assert own.samples == 0 and "0.4 s apart; at most 0.2 s is allowed" in own.reason
    bearing.wait(1000)
    own.gather(bearing.core, bearing.now)
    assert "joint states older than 0.2 s" in own.reason and own.samples == 0


@pytest.mark.parametrize("source", ["message", "differentiate"])
def test_velocities_from_wherever_the_torques_have_them(moved, source):
    served = serve("panda7", payload_estimation__link=HAND, backend="c", velocity_source=source)
    time = np.arange(0.0, 6.0, 0.004)
    states = motion(1, time=time)
    qd = states[1] if source == "message" else np.full_like(states[1], np.nan)
    own = feed(served, states[0], qd, torques(*states), milliseconds=4)
    assert own.found("").mass == pytest.approx(MASS, abs=0.02)


def test_what_ends_and_what_goes_on(bearing, moved):
    q, qd, tau, _ = moved
    own, core, half = bearing.core.payload_estimation, bearing.core, len(TIME) // 2
    feed(bearing, *(part[:half] for part in moved[:3]))
    counted = own.samples
    chosen = robot_settings("panda7", payload_estimation__link=HAND, backend="c")
    same = pickle.loads(pickle.dumps(built(ROBOTS["panda7"].file.read_text(), chosen)))
    core.replace(same, chosen)
    assert own.running and own.samples == counted, "the same robot, compiled another way"
    core.forget()
    feed(bearing, *(part[half:] for part in moved[:3]))
    assert is_right(own.found("")) and own.samples > counted
    heavier = ROBOTS["panda7"].file.read_text().replace('mass value="0.73"', 'mass value="0.9"')
    assert heavier != ROBOTS["panda7"].file.read_text()
    counted = own.samples
    core.replace(built(heavier, chosen), chosen)
    assert not own.running and own.reason == ANEW and ANEW in own.status()
    feed(bearing, *moved[:3])
    assert own.samples == counted and is_right(own.found("")), "what was found is kept"
    assert own.start(core.unloaded, HAND) and own.running


def test_another_link_and_none(bearing, moved):
    own, core, text = bearing.core.payload_estimation, bearing.core, ROBOTS["panda7"].file.read_text()
    feed(bearing, *moved[:3])
    assert not own.start(core.unloaded, "panda_link7") and own.status() == "panda_link7: being built"
    with pytest.raises(BadMessage, match="'panda_link7'.*built"):
        own.found("")
    assert is_right(own.found(HAND))
    other = robot_settings("panda7", payload_estimation__link="panda_link7", backend="c")
    core.replace(built(text, other), other)
    assert own.running and own.link == "panda_link7" and own.samples == 0
    feed(bearing, *moved[:3])
    assert own.found("").mass == pytest.approx(MASS, abs=3e-3)
    none = robot_settings("panda7", backend="c")
    core.replace(built(text, none), none)
    assert not own.running and own.reason == "payload_estimation.link is empty"
    core.replace(built(text, other), other)
    assert own.running and own.samples == 0, "asked for again"


def test_stopped_before_it_was_built():
    served = serve("panda7", backend="c")
    own, core = served.core.payload_estimation, served.core
    assert own.status() == "off" and not own.running
    with pytest.raises(BadMessage, match="started"):
        own.found("")
    assert not own.start(core.unloaded, HAND)
    own.stop()
    asked = robot_settings("panda7", payload_estimation__link=HAND, backend="c")
    core.replace(built(ROBOTS["panda7"].file.read_text(), asked), asked)
    assert not own.running
    assert own.start(core.unloaded, HAND)


def test_back_at_a_link_before_another_one_was_built(bearing, moved):
    """The robot comes once more, as it was: what counts goes on."""
    own, core = bearing.core.payload_estimation, bearing.core
    assert not own.start(core.unloaded, "panda_link7")
    assert own.start(core.unloaded, HAND)
    counted = feed(bearing, *moved[:3]).samples
    core.replace(built(ROBOTS["panda7"].file.read_text(), core.settings), core.settings)
    assert own.running and own.samples == counted > 280 and is_right(own.found(""))


def test_friction_as_it_is_described(moved):
    """By the parameters that torques are compensated with."""
    rubs = {"friction__joints": NAMES, "friction__viscous": [2.0] * 7, "friction__coulomb": [1.0] * 7}
    served = serve(
        "panda7", payload_estimation__link=HAND, payload_estimation__friction=False, backend="c", **rubs
    )
    q, qd, tau, _ = moved
    own = feed(served, q, qd, tau - rubbing(qd) + 2.0 * qd + np.tanh(qd / 0.01))
    assert is_right(own.found(""))


def test_asked_for_again_before_it_is_built(bearing, moved):
    """While NumPy serves, nothing estimates."""
    own, core, text = bearing.core.payload_estimation, bearing.core, ROBOTS["panda7"].file.read_text()
    chosen, none = core.settings, robot_settings("panda7", backend="c")
    feed(bearing, *moved[:3])
    core.replace(built(text, none), chosen)
    counted = own.samples
    feed(bearing, *(part[:20] for part in moved[:3]))
    assert own.running and own.samples == counted
    assert not own.start(core.unloaded, HAND)
    core.replace(built(text, chosen), chosen)
    assert own.running and own.samples == 0


def test_settings_count_at_once(bearing, moved):
    q, qd, tau, _ = moved
    own = feed(bearing, q, qd, tau)
    assert is_right(own.found(""))
    bearing.use(payload_estimation__friction=False)
    assert not is_right(own.found("")) and own.running
    bearing.use(payload_estimation__friction=True, payload_estimation__horizon=0.5)
    feed(bearing, q, qd, tau - 2 * (tau - rubbing(qd) - moved[3]))
    assert own.found("").fitted.x[0] == pytest.approx(-MASS, abs=0.02), "the newest second counts"


def test_diagnostics_have_a_line(bearing):
    class RobotManager:
        core, failure, building, settings = bearing.core, "", False, bearing.core.settings

    assert report(RobotManager, Statistics(), True).values["payload estimation"] == f"{HAND}: 0 states"


@pytest.mark.parametrize(
    "name, link, told",
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
def test_robots_that_are_served_without(name, link, told):
    """Torques are more important: a new description may lack the link."""
    served = serve(name, payload_estimation__link=link)
    own = served.core.payload_estimation
    check_against(served.core.settings, served.core.unloaded)
    assert own.status().startswith(f"no payload is estimated: {told}") and not own.running
    with pytest.raises(BadMessage, match=f"no payload is estimated: {told}"):
        own.found(link)


def test_velocities_are_needed():
    with pytest.raises(ValueError, match="payload_estimation.link.*velocities"):
        settings(payload_estimation__link=HAND, velocity_source="zero")


def test_what_serves_first_estimates_nothing():
    """To interpret it would take milliseconds a state."""
    job = settings(payload_estimation__link=HAND).job("")
    assert job.payload_link == HAND and job.first().payload_link == ""
    assert job.topics_first().payload_link == HAND


@pytest.mark.parametrize("friction", [True, False])
def test_a_robot_that_stands_still_excites_nothing(friction):
    """Whatever noise its sensors have: an offset hides what weighs, and one pose tells of no centre of mass."""
    random, zero = np.random.default_rng(0), np.zeros((200, 7))
    q = np.broadcast_to([0.1, 0.4, -0.2, -1.5, 0.3, 1.2, 0.1], zero.shape)
    noise = [std * random.normal(size=zero.shape) for std in (5e-5, 5e-4, 0.05)]
    served = serve(
        "panda7", payload_estimation__link=HAND, payload_estimation__friction=friction, backend="c"
    )
    own = feed(served, q + noise[0], noise[1], torques(q, zero, zero) + noise[2])
    told = EstimatePayload.Response()
    words = estimate_payload(None, served.core, EstimatePayload.Request(command="compute"), told)
    assert "apply would refuse: not excited enough" in words
    assert len(told.not_excited) == (10 if friction else 9) and told.samples == own.samples > 100
    with pytest.raises(BadMessage, match="excited"):
        estimate_payload(None, served.core, EstimatePayload.Request(command="apply"), told)
