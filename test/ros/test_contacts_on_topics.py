"""Contacts on topics: a Solo12 on its feet. Results and bad values are tested in test/core/node."""

import numpy as np
import pytest

pytest.importorskip("dynamics_interfaces.srv", reason="build dynamics_interfaces first, or use ./dev")
pytest.importorskip("pinocchio", reason="the oracle: pip install pin")

from cases import case_of
from dynamics_interfaces.msg import ContactStates, ContactWrenches
from dynamics_interfaces.srv import InverseDynamics
from geometry_msgs.msg import AccelStamped, WrenchStamped
from rig import efforts, stamp_of
from standing import FEET, FILE, standing
from std_srvs.srv import Trigger
from tolerances import error

CLOSE = 1e-9
LEGS = np.tile([0.1, 0.8, -1.6], 4)
POSE = np.array([0.1, 0.2, 0.24, 0.0, 0.0, 0.1, np.sqrt(0.99)])
PARAMETERS = {"joint_state_timeout": 30.0, "effort_limits": "none"}


class Dog:
    """A node with the file of contacts, and messages by stamp."""

    def __init__(self, rig, folder, **values):
        self.file = folder / "contacts.yaml"
        self.file.write_text(FILE)
        self.case = case_of("solo12")
        self.r = rig("solo12", PARAMETERS | {"contacts_file": str(self.file)} | values).serving()
        node = self.r.node
        self.wrenches, self.residuals = {}, {}
        self.sets = node.create_publisher(ContactStates, "dynamics_node/active_contacts", 10)
        for kind, topic, kept in (
            (ContactWrenches, "contact_wrenches", self.wrenches),
            (WrenchStamped, "base_residual", self.residuals),
        ):
            node.create_subscription(kind, f"dynamics_node/{topic}", self._into(kept), 500)
        self.r.until(self.sets.get_subscription_count, what="discovery")
        self.r.until(self.r.odometry.get_subscription_count, what="discovery")

    @staticmethod
    def _into(kept):
        return lambda message: kept.__setitem__(stamp_of(message), message)

    def activate(self, names, active=None, stamp=0):
        active = [True] * len(names) if active is None else active
        message = ContactStates(names=list(names), active=active)
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp, 1_000_000_000)
        self.sets.publish(message)

    def answer(self):
        """Torques, ContactWrenches and residual (6,) at one state, force first."""

        def complete():
            self.r.send_odometry(POSE)
            stamp = stamp_of(self.r.answered(self.case.names, LEGS, 0 * LEGS))
            self.r.spin(0.05)
            return stamp in self.wrenches and stamp in self.residuals and stamp

        stamp = self.r.until(complete, what="wrenches")
        residual = self.residuals[stamp]
        assert residual.header.frame_id == self.case.model.base_link
        return efforts(self.r.torques[stamp], self.case.names), self.wrenches[stamp], numbers(residual.wrench)

    def is_right(self, feet):
        """Whether all outputs are those of Pinocchio with these contacts."""
        q = np.concatenate([POSE, LEGS])
        tau, forces = standing(self.case.oracle, q, np.zeros(18), np.zeros(18), feet)
        torques, wrenches, residual = self.answer()
        if tuple(n for n, a in zip(wrenches.names, wrenches.active, strict=True) if a) != feet:
            return False
        assert tuple(wrenches.names) == FEET and error(torques, tau[6:]) < CLOSE
        assert np.abs(residual - tau[[3, 4, 5, 0, 1, 2]]).max() < CLOSE * np.abs(tau).max()
        for foot, on_link, components in zip(FEET, wrenches.wrenches, wrenches.components, strict=True):
            force, (R, _) = forces.get(foot, np.zeros(3)), self.case.oracle.pose(q, foot)
            assert on_link.header.frame_id == foot
            assert np.abs(numbers(components) - [*force, 0, 0, 0]).max() < 1e-7
            assert np.abs(R @ numbers(on_link.wrench)[:3] - force).max() < 1e-7
        return True


def numbers(wrench):
    f, t = wrench.force, wrench.torque
    return np.array([f.x, f.y, f.z, t.x, t.y, t.z])


@pytest.fixture
def dog(rig, tmp_path):
    return Dog(rig, tmp_path)


def drops(dog, words, send):
    """Wait until the diagnostics report a dropped message."""
    dog.r.diagnostic(lambda s: any(v.key == "last drop" and words in v.value for v in s.values), send=send)


def test_messages_and_the_parameter_change_the_active_contacts(dog):
    dog.r.until(lambda: dog.is_right(FEET), what="all contacts")
    dog.activate(FEET, [True, True, True, False])
    dog.r.until(lambda: dog.is_right(FEET[:3]), what="three contacts")
    assert dog.r.set_parameters(active_contacts=list(FEET[1:]))[0]
    dog.r.until(lambda: dog.is_right(FEET[1:]), what="the parameter")
    done, reason = dog.r.set_parameters(active_contacts=["TAIL"])
    assert not done and "unknown contact TAIL" in reason
    assert dog.is_right(FEET[1:])


def test_bad_messages_keep_the_last_set(dog):
    feet = FEET[1:]
    dog.activate(feet, stamp=2_000_000_000)
    dog.r.until(lambda: dog.is_right(feet), what="three contacts")
    drops(dog, "unknown contact TAIL", lambda: dog.activate(["FL_FOOT", "TAIL"]))
    drops(dog, "4 names but 3 entries in active", lambda: dog.activate(FEET, [True] * 3))
    drops(dog, "listed twice", lambda: dog.activate(["FL_FOOT", "FL_FOOT"]))
    drops(dog, "older than the last one", lambda: dog.activate(FEET, stamp=1_500_000_000))
    long = [f"a contact with a long name {k}" for k in range(5000)]
    drops(dog, "bytes; the limit is", lambda: dog.activate(long))
    assert dog.is_right(feet) and "active_contacts dropped: unknown contact TAIL" in dog.r.process.output()


def test_the_reference_of_the_base(dog):
    """The forces add up to mass times acceleration, until the reference ends."""
    accelerations = dog.r.node.create_publisher(AccelStamped, "dynamics_node/base_acceleration", 10)
    dog.r.until(accelerations.get_subscription_count, what="discovery")
    message, mass = AccelStamped(), dog.case.model.mass
    message.accel.linear.z = 2.0

    def vertical(send=False):
        if send:
            accelerations.publish(message)
        _, wrenches, _ = dog.answer()
        return sum(components.force.z for components in wrenches.components)

    dog.r.until(lambda: vertical(send=True) > 11.0 * mass, what="the reference")
    dog.r.until(lambda: vertical() < 10.0 * mass, what="its end")
    assert dog.is_right(FEET)
    message.header.frame_id = "FL_FOOT"
    drops(dog, "frame_id 'FL_FOOT' is not the floating link", lambda: accelerations.publish(message))


def test_a_service_with_contacts(dog):
    dog.answer()
    answer = dog.r.ask(InverseDynamics, active_contacts=list(FEET[1:]))
    assert answer.success, answer.message
    q = np.concatenate([POSE, LEGS])
    tau, forces = standing(dog.case.oracle, q, np.zeros(18), np.zeros(18), FEET[1:])
    assert error(answer.solution.points[0].effort, tau[6:]) < CLOSE
    assert np.abs(np.array(answer.contact_forces.data)[3:] - np.concatenate([*forces.values()])).max() < 1e-7
    answer = dog.r.ask(InverseDynamics, active_contacts=["TAIL"])
    assert not answer.success and "unknown contact TAIL" in answer.message


def test_a_set_that_cannot_hold_the_robot_is_reported(dog):
    dog.r.until(lambda: dog.is_right(FEET), what="all contacts")
    dog.activate([])
    dog.r.until(lambda: dog.is_right(()), what="no contacts")
    words = "active contacts (none) cannot hold the robot at base_link"
    message, values, level = dog.r.diagnostic(lambda s: words in s.message, send=dog.answer)
    assert (
        level == b"\x01" and values["contact trouble"].startswith(words) and values["active contacts"] == ""
    )
    assert values["base residual"].startswith(f"{dog.case.model.mass * 9.81:.3g} N, ")
    dog.r.until(lambda: dog.answer() and f"contacts: {words}" in dog.r.process.output(), what="the log line")


def test_friction_cones_at_run_time(dog):
    """Forces within the cones; where there are none, silence with the contact and the amount, or the least
    violation."""
    pytest.importorskip("daqp", reason="the solver: pip install 'dynamics_node[contacts]'")
    dog.r.until(lambda: dog.is_right(FEET), what="the shortest forces")
    done, reason = dog.r.set_parameters(contact_forces="friction_cones", problem="forward")
    assert not done and "contact_forces friction_cones requires problem inverse" in reason
    assert dog.r.set_parameters(contact_forces="friction_cones")[0]
    dog.r.diagnostic(lambda s: any(v.value == "DAQP with friction cones" for v in s.values), send=dog.answer)
    accelerations = dog.r.node.create_publisher(AccelStamped, "dynamics_node/base_acceleration", 10)
    dog.r.until(accelerations.get_subscription_count, what="discovery")
    assert dog.r.set_parameters(reference_timeout=60.0)[0]
    message = AccelStamped()

    def forward(acceleration):
        message.accel.linear.x = acceleration
        accelerations.publish(message)

    def pushed():
        _, wrenches, residual = dog.answer()
        forces = np.array([numbers(components)[:3] for components in wrenches.components])
        assert (np.hypot(*forces.T[:2]) <= 0.8 * forces[:, 2] + 1e-6).all()
        return forces[:, 0].sum() > 5.0 * dog.case.model.mass and np.abs(residual).max() < 1e-4

    forward(6.0)
    dog.r.until(pushed, what="forces at the cones")
    forward(9.0)
    words = "no output: no contact forces produce this acceleration: contact '"

    def send():
        dog.r.send_odometry(POSE)
        dog.r.send_state(dog.case.names, LEGS, 0 * LEGS)

    text, _, level = dog.r.diagnostic(lambda s: words in s.message, send=send)
    assert level == b"\x01" and "_FOOT' slips: " in text and " N are beyond its friction" in text
    assert dog.r.set_parameters(on_violation="least")[0]
    text, values, _ = dog.r.diagnostic(lambda s: "least violation: " in s.message, send=dog.answer)
    assert "_FOOT' slips: " in values["contact trouble"]


def test_a_bad_file_keeps_the_last_robot(dog):
    """`~/reload` reads the file again. A bad file is no reason to stop, and no reason to forget the set."""
    dog.activate(FEET[1:])
    dog.r.until(lambda: dog.is_right(FEET[1:]), what="three contacts")
    for text, words in (
        ("contacts: [{link: TAIL}]", "contacts_file: contact 'TAIL': unknown link 'TAIL'"),
        ("contacts: [{link: FL_FOOT, kind: surface, half_lengths: [0.0, 0.1]}]", "half_lengths is"),
        ("contacts: [{link: FL_FOOT, friction: -0.5}]", "friction is"),
        ("{[", "contacts_file: "),
    ):
        dog.file.write_text(text)
        assert dog.r.call(Trigger, "reload").success
        message, values, _ = dog.r.diagnostic(lambda s, w=words: w in s.message, send=dog.answer)
        assert "the last valid robot is in use" in message and words in dog.r.process.output()
        assert dog.is_right(FEET[1:])
    dog.file.write_text(FILE)
    assert dog.r.call(Trigger, "reload").success
    dog.r.diagnostic(lambda s: "the last valid robot" not in s.message, send=dog.answer)
    assert dog.is_right(FEET[1:])


def test_a_bad_file_at_the_start_publishes_nothing(rig, tmp_path):
    (tmp_path / "contacts.yaml").write_text("contacts: [{link: FL_FOOT, friction: .nan}]")
    r = rig("solo12", {"contacts_file": str(tmp_path / "contacts.yaml"), "joint_state_timeout": 30.0})
    r.until(lambda: "contacts_file: " in r.process.output(), what="the log line")
    r.send_odometry(POSE)
    assert r.silent_for(1.0, lambda: r.send_state(case_of("solo12").names, LEGS, 0 * LEGS))
