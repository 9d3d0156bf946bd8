"""External torques from joint states with efforts: plain values in, estimates or a reason out."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from plain import serve, settings
from robots import ROBOTS

import dynamics_node as dn
from dynamics_node.algorithms import smooth_friction
from dynamics_node.node.core.diagnostics import Statistics
from dynamics_node.node.core.external_torque import contact_status, external_torque
from dynamics_node.node.core.publisher import Publisher
from dynamics_node.node.errors import NoOutput

REST = np.array([0.0, -0.6, 0.0, -2.2, 0.0, 1.6, 0.7])
LINK = "panda_hand"
PUSH = np.array([0.1, 0.2, 0.3, 4.0, 5.0, 6.0])  # moment first


@pytest.fixture
def observed():
    """A Panda with an observer of its hand."""
    return serve("panda7", observer__enabled=True, observer__link=LINK)


def torques(model, wrench=PUSH):
    return dn.evaluate(model, "frame_jacobian", REST, link=LINK, reference="body", backend="numpy").T @ wrench


def receive(served, q=REST, qd=None, effort=None, wait=1, names=None):
    """Receive a joint state of an arm at rest, whose motors balance the external wrench."""
    model = served.core.model
    qd = np.zeros(7) if qd is None else qd
    if effort is None:
        effort = dn.evaluate(model, "nonlinear_effects", q, qd, backend="numpy") - torques(model)
    served.wait(wait)
    served.receive(names or served.core.joints.names, q, qd, effort, stamp=served.ros)


def estimate_now(served):
    return external_torque(served.core, served.now)


def test_torques_and_wrench_are_estimated(observed):
    receive(observed)
    assert estimate_now(observed) is None, "one sample gives no estimate"
    for _ in range(200):
        receive(observed)
        estimate = estimate_now(observed)
    assert np.allclose(estimate.torques, torques(observed.core.model), atol=1e-9)
    assert np.allclose(estimate.wrench.wrench, PUSH, atol=1e-8) and estimate.wrench.link == LINK
    assert estimate.contact
    assert estimate_now(observed) is None, "the same state again"
    assert contact_status(observed.core) == "contact"


def test_the_estimate_continues_after_a_rebuild(observed):
    """For example when compiled code replaces NumPy during a contact."""
    for _ in range(200):
        receive(observed)
        before = estimate_now(observed)
    other = pickle.loads(pickle.dumps(observed.core.unloaded))
    other.observer.reset()
    observed.core.replace(other, observed.core.settings)
    receive(observed)
    estimate = estimate_now(observed)
    assert observed.core.robot.observer is other.observer and estimate.contact is True
    assert np.allclose(estimate.torques, before.torques, atol=1e-6)


def test_joints_in_any_order_with_a_payload(observed):
    model = observed.core.model
    payload = (1.5, (0.0, 0.0, 0.1), 0.01 * np.eye(3))
    observed.core.set_payload(LINK, *payload)
    loaded = dn.with_payload(model, LINK, *payload)
    names = observed.core.joints.names[::-1]
    for _ in range(3):
        effort = dn.evaluate(loaded, "nonlinear_effects", REST, np.zeros(7), backend="numpy") - torques(model)
        receive(observed, REST[::-1], effort=effort[::-1], names=names)
        estimate = estimate_now(observed)
    assert np.allclose(estimate.torques, torques(model), atol=1e-9)
    observed.core.set_payload(LINK, 0, (), ())
    receive(observed)
    assert estimate_now(observed) is None, "samples with the payload are cleared"


def test_friction_is_not_an_external_torque():
    """Friction of the parameters replaces that of the description."""
    friction = {"joints": ["panda_joint1"], "viscous": [3.0], "coulomb": [2.0]}
    named = {f"friction__{name}": values for name, values in friction.items()}
    served = serve("panda7", observer__enabled=True, **named)
    model, qd = served.core.model, np.zeros(7)
    qd[0] = 0.5
    q = REST.copy()
    friction = smooth_friction(qd, model.damping, model.friction)
    friction[0] = 3.0 * 0.5 + 2.0
    for _ in range(5):
        receive(served, q, qd, dn.evaluate(model, "nonlinear_effects", q, qd, backend="numpy") + friction)
        estimate = estimate_now(served)
        q = q + qd * 1e-3
    assert np.abs(estimate.torques).max() < 1e-6, "at a constant rate about the vertical only friction acts"


def reason(served):
    with pytest.raises(NoOutput) as caught:
        estimate_now(served)
    return str(caught.value)


def test_missing_input_gives_a_reason(observed):
    assert "never seen: panda_joint1" in reason(observed)
    names = observed.core.joints.names
    observed.wait(1).receive(names, REST, np.zeros(7), stamp=observed.ros)
    assert reason(observed).startswith("no effort in joint_states for panda_joint1, panda_joint2")
    effort = dn.evaluate(observed.core.model, "nonlinear_effects", REST, np.zeros(7), backend="numpy")
    effort[2] = np.nan
    receive(observed, effort=effort)
    assert reason(observed) == "no effort in joint_states for panda_joint3"
    receive(observed, qd=np.array([0, 0, 0, np.nan, 0, 0, 0]), effort=np.zeros(7))
    assert "no velocity in joint_states for panda_joint4" in reason(observed)
    receive(observed)
    estimate_now(observed)
    observed.wait(201)
    assert "joint states older than 0.2 s" in reason(observed)
    receive(observed)
    assert "joint states are 0.202 s apart; the observer needs at most 0.2 s" in reason(observed)
    receive(observed)
    assert estimate_now(observed) is not None


def test_an_unobservable_wrench_is_not_published():
    """A stretched wrist: torques are published, the wrench is None, and its components are named."""
    served = serve("ur5", observer__enabled=True, observer__link="wrist_3_link")
    model, q = served.core.model, np.array([0.3, -1.0, 1.2, -0.5, 0.0, 0.4])
    for _ in range(3):
        receive(
            served, q, np.zeros(6), dn.evaluate(model, "nonlinear_effects", q, np.zeros(6), backend="numpy")
        )
        estimate = estimate_now(served)
    assert estimate.wrench is None and np.isfinite(estimate.torques).all()
    assert "not observable" in contact_status(served.core)
    assert "at 'wrist_3_link'" in contact_status(served.core)


def test_a_robot_without_an_observer_is_served():
    """Two joints do not determine six components: the robot is served, and a note has the reason."""
    served = serve("double_pendulum", observer__enabled=True, observer__link=last_link("double_pendulum"))
    assert served.core.robot.observer is None
    assert any("no observer: 2 joint torques do not determine" in note for note in served.core.robot.notes)
    served.receive(served.core.joints.names, np.zeros(2), np.zeros(2), np.zeros(2))
    assert np.isfinite(served.tau()).all() and "has no observer" in reason(served)


def last_link(name):
    return ROBOTS[name].model().bodies[-1].name


# --- when it is published -----------------------------------------------------------------------------------


class Node:
    def __init__(self, served):
        self.served, self.serving = served, served
        self.settings, self.core = served.core.settings, served.core
        self.estimates, self.results = [], []
        self.statistics = Statistics()
        self.publisher = Publisher(
            self,
            self.statistics,
            SimpleNamespace(ros_now=lambda: served.ros, stamp=None),
            lambda core, result, _: self.results.append(result),
            lambda core, estimate, _: self.estimates.append(estimate),
            lambda *_: None,
            lambda: served.now,
        )


def test_estimates_are_published_while_enabled(observed):
    node = Node(observed)
    for _ in range(3):
        receive(observed)
        node.publisher.observe()
    assert len(node.estimates) == 2 and not node.statistics.no_torque.reason
    observed.wait(1).receive(observed.core.joints.names, REST, np.zeros(7), stamp=observed.ros)
    node.publisher.observe()
    assert "no effort" in node.statistics.no_torque.reason
    assert "publish measured efforts" in node.statistics.no_torque.remedy
    assert len(node.estimates) == 2
    node.publisher.enabled = False
    node.publisher.observe()
    assert not node.statistics.no_torque.reason


def test_the_observer_is_off_by_default():
    served = serve("panda7")
    node = Node(served)
    receive(served)
    node.publisher.observe()
    assert served.core.robot.observer is None and not node.estimates and not node.statistics.no_torque.reason


@pytest.mark.parametrize(
    "values, expected",
    [
        ({"observer__velocity_std": [0.0]}, r"observer\.velocity_std.* 0"),
        ({"observer__components": ["force.w"]}, "observer.*'force.w'"),
        ({"velocity_source": "zero"}, "observer.enabled.*velocities"),
    ],
)
def test_invalid_settings_are_rejected(values, expected):
    with pytest.raises(ValueError, match=expected):
        settings(observer__enabled=True, **values)


def test_settings_that_do_not_match_the_robot_are_rejected():
    from dynamics_node.node.core.consistency import check_against

    robot = serve("panda7").core.unloaded
    for values, expected in (
        ({"observer__torque_std": [1.0, 2.0]}, "observer.torque_std.* 2 .* 7 "),
        ({"observer__link": "paw"}, "observer.link.*'paw'"),
    ):
        with pytest.raises(ValueError, match=expected):
            check_against(settings(observer__enabled=True, **values), robot)
