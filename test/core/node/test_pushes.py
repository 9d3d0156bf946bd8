"""What pushes on the robot, from joint states with efforts: plain values in, estimates or a reason out."""

import pickle

import numpy as np
import pytest
from plain import serve, settings
from robots import ROBOTS

import dynamics_node as dn
from dynamics_node.algorithms import smooth_friction
from dynamics_node.node.core.diagnostics import Statistics
from dynamics_node.node.core.measured_efforts import external_torque, told
from dynamics_node.node.core.publisher import Publisher
from dynamics_node.node.errors import NoOutput

REST = np.array([0.0, -0.6, 0.0, -2.2, 0.0, 1.6, 0.7])
LINK = "panda_hand"
PUSH = np.array([0.1, 0.2, 0.3, 4.0, 5.0, 6.0])  # moment first


@pytest.fixture
def watched():
    """A Panda whose hand may be pushed."""
    return serve("panda7", observer__enabled=True, observer__link=LINK)


def torques(model, wrench=PUSH):
    return dn.evaluate(model, "frame_jacobian", REST, link=LINK, reference="body", backend="numpy").T @ wrench


def hear(served, q=REST, qd=None, effort=None, wait=1, names=None):
    """A joint state of an arm that stands still while motors bear the push."""
    model = served.core.model
    qd = np.zeros(7) if qd is None else qd
    effort = (
        dn.evaluate(model, "nonlinear_effects", q, qd, backend="numpy") - torques(model)
        if effort is None
        else effort
    )
    served.wait(wait)
    served.hear(names or served.core.joints.names, q, qd, effort, stamp=served.ros)


def push(served):
    return external_torque(served.core, served.now)


def test_torques_and_wrench(watched):
    hear(watched)
    assert push(watched) is None, "one sample says nothing"
    for _ in range(200):
        hear(watched)
        found = push(watched)
    assert np.allclose(found.torques, torques(watched.core.model), atol=1e-9)
    assert np.allclose(found.wrench.wrench, PUSH, atol=1e-8) and found.wrench.link == LINK and found.contact
    assert push(watched) is None, "the same state again"
    assert told(watched.core) == "contact"


def test_a_robot_that_is_built_another_way_goes_on(watched):
    """As when compiled code takes the place of NumPy's, in the middle of a push."""
    for _ in range(200):
        hear(watched)
        before = push(watched)
    other = pickle.loads(pickle.dumps(watched.core.unloaded))
    other.observer.reset()
    watched.core.replace(other, watched.core.settings)
    hear(watched)
    found = push(watched)
    assert watched.core.robot.observer is other.observer and found.contact is True
    assert np.allclose(found.torques, before.torques, atol=1e-6)


def test_by_names_in_any_order_and_with_a_payload(watched):
    model = watched.core.model
    carried = (1.5, (0.0, 0.0, 0.1), 0.01 * np.eye(3))
    watched.core.set_payload(LINK, *carried)
    loaded = dn.with_payload(model, LINK, *carried)
    names = watched.core.joints.names[::-1]
    for _ in range(3):
        effort = dn.evaluate(loaded, "nonlinear_effects", REST, np.zeros(7), backend="numpy") - torques(model)
        hear(watched, REST[::-1], effort=effort[::-1], names=names)
        found = push(watched)
    assert np.allclose(found.torques, torques(model), atol=1e-9)
    watched.core.set_payload(LINK, 0, (), ())
    hear(watched)
    assert push(watched) is None, "what was heard with the payload is forgotten"


def test_friction_is_no_push():
    """That of the parameters, in place of the description's."""
    served = serve(
        "panda7",
        observer__enabled=True,
        friction__joints=["panda_joint1"],
        friction__viscous=[3.0],
        friction__coulomb=[2.0],
    )
    model, qd = served.core.model, np.zeros(7)
    qd[0] = 0.5
    q = REST.copy()
    friction = smooth_friction(qd, model.damping, model.friction)
    friction[0] = 3.0 * 0.5 + 2.0
    for _ in range(5):
        hear(served, q, qd, dn.evaluate(model, "nonlinear_effects", q, qd, backend="numpy") + friction)
        found = push(served)
        q = q + qd * 1e-3
    assert np.abs(found.torques).max() < 1e-6, "at a constant rate about the vertical nothing else acts"


def reason(served):
    with pytest.raises(NoOutput) as caught:
        push(served)
    return str(caught.value)


def test_silence_has_a_reason(watched):
    assert "never seen: panda_joint1" in reason(watched)
    names = watched.core.joints.names
    watched.wait(1).hear(names, REST, np.zeros(7), stamp=watched.ros)
    assert reason(watched).startswith("no effort in joint_states for panda_joint1, panda_joint2")
    effort = dn.evaluate(watched.core.model, "nonlinear_effects", REST, np.zeros(7), backend="numpy")
    effort[2] = np.nan
    hear(watched, effort=effort)
    assert reason(watched) == "no effort in joint_states for panda_joint3"
    hear(watched, qd=np.array([0, 0, 0, np.nan, 0, 0, 0]), effort=np.zeros(7))
    assert "no velocity in joint_states for panda_joint4" in reason(watched)
    hear(watched)
    push(watched)
    watched.wait(201)
    assert "joint states older than 0.2 s" in reason(watched)
    hear(watched)
    assert "joint states 0.202 s apart, where at most 0.2 s will do" in reason(watched)
    hear(watched)
    assert push(watched) is not None


def test_nothing_that_is_not_known_is_said():
    """A wrist that is stretched: torques go on, the wrench is None, and its components are named."""
    served = serve("ur5", observer__enabled=True, observer__link="wrist_3_link")
    model, q = served.core.model, np.array([0.3, -1.0, 1.2, -0.5, 0.0, 0.4])
    for _ in range(3):
        hear(served, q, np.zeros(6), dn.evaluate(model, "nonlinear_effects", q, np.zeros(6), backend="numpy"))
        found = push(served)
    assert found.wrench is None and np.isfinite(found.torques).all()
    assert "joints do not tell" in told(served.core) and "at 'wrist_3_link'" in told(served.core)


def test_an_observer_that_cannot_be_is_no_reason_for_no_torques():
    """Two joints do not tell six components: the robot is served, and the note says why."""
    served = serve("double_pendulum", observer__enabled=True, observer__link=last_link("double_pendulum"))
    assert served.core.robot.observer is None
    assert any("no observer: 2 joint torques do not determine" in note for note in served.core.robot.notes)
    served.hear(served.core.joints.names, np.zeros(2), np.zeros(2), np.zeros(2))
    assert np.isfinite(served.tau()).all() and "there is no observer" in reason(served)


def last_link(name):
    return ROBOTS[name].model().bodies[-1].name


# --- when it is published -----------------------------------------------------------------------------------


class Node:
    def __init__(self, served):
        self.served, self.serving = served, served
        self.settings, self.core = served.core.settings, served.core
        self.pushes, self.results = [], []
        self.statistics = Statistics()
        self.answers = Publisher(
            self,
            self.statistics,
            lambda core, result: self.results.append(result),
            lambda: served.ros,
            lambda: served.now,
            lambda core, push: self.pushes.append(push),
        )


def test_published_while_enabled(watched):
    node = Node(watched)
    for _ in range(3):
        hear(watched)
        node.answers.observe()
    assert len(node.pushes) == 2 and not node.statistics.unobserved
    watched.wait(1).hear(watched.core.joints.names, REST, np.zeros(7), stamp=watched.ros)
    node.answers.observe()
    assert "no effort" in node.statistics.unobserved and "must report" in node.statistics.unobserved_remedy
    assert len(node.pushes) == 2
    node.answers.enabled = False
    node.answers.observe()
    assert not node.statistics.unobserved


def test_off_by_default():
    served = serve("panda7")
    node = Node(served)
    hear(served)
    node.answers.observe()
    assert served.core.robot.observer is None and not node.pushes and not node.statistics.unobserved


@pytest.mark.parametrize(
    "values, words",
    [
        ({"observer__velocity_std": [0.0]}, r"observer\.velocity_std.* 0"),
        ({"observer__components": ["force.w"]}, "observer.*'force.w'"),
        ({"velocity_source": "zero"}, "observer.enabled.*velocities"),
    ],
)
def test_settings_that_cannot_be(values, words):
    with pytest.raises(ValueError, match=words):
        settings(observer__enabled=True, **values)


def test_settings_that_do_not_fit_the_robot():
    from dynamics_node.node.core.consistency import check_against

    robot = serve("panda7").core.unloaded
    for values, words in (
        ({"observer__torque_std": [1.0, 2.0]}, "observer.torque_std.* 2 .* 7 "),
        ({"observer__link": "paw"}, "observer.link.*'paw'"),
    ):
        with pytest.raises(ValueError, match=words):
            check_against(settings(observer__enabled=True, **values), robot)
