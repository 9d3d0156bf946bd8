"""10 000 messages, requests and parameter sets with a fixed seed, good and bad.

Every published torque must be that of Pinocchio for the input with its stamp, as predicted by an independent
mirror of the node. Inputs come in bursts. The node answers the newest of waiting states, so it must answer the
last state of each burst that moves a joint.
"""

import math
import random

import numpy as np
import pytest
from dynamics_interfaces.msg import DynamicsState
from dynamics_interfaces.srv import GetMassMatrix, InverseDynamics
from rcl_interfaces.srv import GetParameters
from rig import Client, efforts, floats, point, stamp_of, trajectory
from sensor_msgs.msg import JointState
from tolerances import EXACT, error

pinocchio = pytest.importorskip(
    "pinocchio", reason="Pinocchio: pip install pin, or ros-$ROS_DISTRO-pinocchio"
)

COUNT = 3_000
SEED = 2026
LONGEST_BURST = 8
UNKNOWN_JOINTS = ["gripper", "", "panda_joint", "\u00fc\u4e2d", "a" * 300, "$(reboot)", "panda_joint1 "]


class Mirror:
    """State of a correct node: joint -> (stamp, position, velocity), reference and parameters.

    qdds: the reference; two while either the old or the new one may be active."""

    def __init__(self, panda):
        self.panda = panda
        self.joints: dict[str, tuple] = {}
        self.qdds = [np.zeros(7)]
        self.gravity = np.array([0.0, 0.0, -9.81])
        self.parts = {"gravity": True, "coriolis": True, "inertia": True}

    def take(self, names, q, qd, stamp):
        """True when the message moves a joint."""
        moved = False
        for k, name in enumerate(names):
            if name in self.panda.names and stamp >= self.joints.get(name, (-1,))[0]:
                self.joints[name] = (stamp, q[k], qd[k] if len(qd) else math.nan)
                moved = True
        return moved

    def torques(self):
        """Torques by Pinocchio, one per reference; none if the node must have no output."""
        if len(self.joints) < 7:
            return []
        q, qd = np.array([self.joints[name][1:] for name in self.panda.names]).T
        if self.parts["coriolis"] and not np.isfinite(qd).all():
            return []
        oracle = self.panda.oracle
        oracle.pin.gravity = pinocchio.Motion(self.gravity * self.parts["gravity"], np.zeros(3))
        qd = qd if self.parts["coriolis"] else 0 * q
        torques = [oracle.inverse(q, qd, qdd * self.parts["inertia"]) for qdd in self.qdds]
        oracle.pin.gravity = pinocchio.Motion(np.array([0, 0, -9.81]), np.zeros(3))
        return torques


class Fuzz:
    """Random actions on a rig; predictions on a mirror."""

    def __init__(self, rig: Client, panda):
        self.rig, self.panda, self.mirror = rig, panda, Mirror(panda)
        self.random = random.Random(SEED)
        self.expected: dict[int, list] = {}  # torques by stamp, in the order of sending
        self.stamp = rig.next_stamp()
        self.newest = 0  # stamp of the last state that moved a joint
        self.done = self.bursts_answered = 0

    def burst(self):
        """Send some inputs at once, and wait for the answer of the last state that moves a joint."""
        for _ in range(self.random.randint(1, LONGEST_BURST)):
            self.act()
        if self.expected.get(self.newest):
            self.await_answer(self.newest)
            self.bursts_answered += 1
        else:
            self.settle()

    def await_answer(self, stamp):
        self.rig.until(lambda: stamp in self.rig.torques, what="the torque of the newest state")

    def act(self):
        shares = {
            self.good_state: 60, self.bad_state: 33, self.reference: 2, self.parameters: 2,
            self.request: 2.7, self.description: 0.3,
        }  # fmt: skip
        (kind,) = self.random.choices([*shares], shares.values())
        kind()
        self.done += 1

    def numbers(self, count, size=2.0):
        return [self.random.uniform(-size, size) for _ in range(count)]

    def publish(self, names, q, qd, effort=()):
        self.stamp += self.random.randrange(1, 5_000_000)
        return self.rig.send_state(names, q, qd, effort, stamp=self.stamp)

    def good_state(self):
        names = [*self.panda.names]
        if self.random.random() < 0.4:
            names = self.random.sample(names, self.random.randrange(1, 8))
        if self.random.random() < 0.3:
            names += self.random.sample(UNKNOWN_JOINTS, 2)
        self.random.shuffle(names)
        q, qd = self.numbers(len(names)), self.numbers(len(names))
        if self.random.random() < 0.1:
            qd = self.random.choice(([], [math.nan] * len(names)))
        late = self.random.random() < 0.05
        if late:  # out of order: older than the state of the node
            stamp = self.stamp - self.random.randrange(1, 500_000_000)
            self.rig.send_state(names, q, qd, stamp=stamp)
        else:
            stamp = self.publish(names, q, qd)
        self.expect(names, q, qd, stamp)

    def expect(self, names, q, qd, stamp):
        """Predict the answer of a valid state: none, or a torque, unless a newer state replaces it."""
        moved = self.mirror.take(names, q, qd, stamp)
        self.expected[stamp] = self.mirror.torques() if moved else []
        if moved:
            self.newest = stamp

    def bad_state(self):
        names = [*self.panda.names]
        q, qd = self.numbers(7), self.numbers(7)
        kind = self.random.randrange(7)
        if kind == 0:
            q[self.random.randrange(7)] = self.random.choice((math.nan, math.inf, -math.inf))
        elif kind == 1:
            names[3] = names[5]
        elif kind == 2:
            q = q[: self.random.randrange(7)]
        elif kind == 3:
            qd = qd[: self.random.randrange(1, 7)]
        elif kind == 4:
            names, q, qd = [], [], []
        elif kind == 5:
            names, q, qd = UNKNOWN_JOINTS[:3], q[:3], qd[:3]
        else:
            names = names[:4]
        self.expected[self.publish(names, q, qd)] = []

    def reference(self):
        self.settle()
        if self.random.random() < 0.5:
            self.rig.references.publish(
                self.random.choice(
                    (
                        trajectory(self.panda.names),
                        trajectory(self.panda.names, point(qdd=[math.nan] * 7)),
                        trajectory(self.panda.names, point(qdd=[1.0])),
                        trajectory(["panda_joint1"] * 2, point(qdd=[1.0, 2.0])),
                        trajectory(self.panda.names, point(1.0), point(1.0)),
                    )
                )
            )
        else:
            qdd = np.array(self.numbers(7))
            self.mirror.qdds.append(qdd)
            self.rig.send_reference(self.panda.names, point(qdd=qdd))
            self.rig.until(lambda: self.uses_reference(qdd), what="a torque of the new reference")
            self.mirror.qdds = [qdd]

    def uses_reference(self, qdd):
        """Whether the node uses a reference."""
        stamp = self.good_whole_state()
        self.rig.until(lambda: stamp in self.rig.solutions, what="a solution")
        solution = self.rig.solutions[stamp]
        accelerations = dict(zip(solution.joint_names, solution.points[0].accelerations, strict=True))
        return [accelerations[name] for name in self.panda.names] == list(qdd)

    def parameters(self):
        self.settle()
        kind = self.random.randrange(5)
        if kind == 0:
            gravity = self.numbers(3, 10.0)
            assert self.rig.set_parameters(gravity=gravity)[0]
            self.mirror.gravity = np.array(gravity)
        elif kind == 1:
            part = self.random.choice(list(self.mirror.parts))
            self.mirror.parts[part] = not self.mirror.parts[part]
            assert self.rig.set_parameters(**{f"compensate__{part}": self.mirror.parts[part]})[0]
        elif kind == 2:  # another solver, the same torques
            solver, ordering = self.random.choice(
                (("cluster", "best"), ("factor_graph", "aba"), ("factor_graph", "colamd"), ("best", "best"))
            )
            assert self.rig.set_parameters(solver=solver, ordering=ordering)[0]
        else:
            bad = self.random.choice(
                (
                    {"gravity": [math.nan, 0.0, 0.0]},
                    {"gravity": [1.0]},
                    {"problem": "x"},
                    {"rate": -1.0},
                    {"solver": "cluster", "ordering": "aba"},
                    {"command_joints": ["nobody"]},
                    {"joint_state_timeout": math.nan},
                    {"effort_limits": "list"},
                )
            )
            assert not self.rig.set_parameters(**bad)[0], bad

    def request(self):
        q, qd = self.numbers(7), self.numbers(7)
        bad = self.random.random() < 0.5
        if bad:
            q = q[:-1] if self.random.random() < 0.5 else [math.nan, *q[1:]]
        joints = JointState(name=list(self.panda.names), position=floats(q), velocity=floats(qd))
        state = DynamicsState(joints=joints)
        if self.random.random() < 0.5:
            answer = self.rig.ask(GetMassMatrix, state=state)
            assert answer.success != bad, answer.message
            if not bad:
                M = np.array(answer.mass_matrix.data).reshape(7, 7)
                assert error(M, self.panda.oracle.mass_matrix(np.array(q)), tail=2) <= EXACT
            return
        answer = self.rig.ask(InverseDynamics, state=state)
        assert answer.success != bad, answer.message

    def description(self):
        entity = '<!DOCTYPE r [<!ENTITY a "b">]><robot>&a;</robot>'
        self.rig.describe(self.random.choice(("<robot", "<robot name='r'/>", "&", entity)))

    def settle(self):
        """Wait until the node has processed all input: it answers a later state."""
        self.await_answer(self.good_whole_state())

    def wrong(self):
        """{stamp: (torque, right torques)} of published torques that are wrong."""
        mismatches = {}
        for message in self.rig.torque_log:
            stamp, tau = stamp_of(message), efforts(message, self.panda.names)
            torques = self.expected[stamp]
            if not any(error(tau, each) <= EXACT for each in torques):
                mismatches[stamp] = (tau, torques)
        return mismatches

    def good_whole_state(self):
        """Send a state that is always answered; returns its stamp. It is not random, because its number depends on
        the machine."""
        self.stamp += 1_000_000
        state = self.panda.names, self.panda.q, self.panda.qd
        self.rig.send_state(*state, stamp=self.stamp)
        self.expect(*state, self.stamp)
        return self.stamp


@pytest.mark.timeout(400)
def test_torques_match_a_mirror_for_thousands_of_inputs(rig, panda):
    r = rig(
        parameters={
            "backend": "auto",
            "joint_state_timeout": 60.0,
            "reference_timeout": 3600.0,
            "effort_limits": "none",
            "qos_overrides./joint_states.subscription.reliability": "reliable",
            "qos_overrides./joint_states.subscription.depth": 1000,
        }
    )
    r.until(lambda: "7 joints" in r.process.output())
    r.until(lambda: r.states.get_subscription_count() and r.references.get_subscription_count())
    fuzz = Fuzz(r, panda)
    r.until(lambda: fuzz.good_whole_state() and r.torques and r.solutions, what="answers")
    while fuzz.done < COUNT:
        fuzz.burst()
    fuzz.settle()
    wrong = fuzz.wrong()
    wanted = [stamp for stamp, torques in fuzz.expected.items() if torques]
    answered = sum(stamp in r.torques for stamp in wanted)
    print(f"{answered} of {len(wanted)} wanted torques, {fuzz.bursts_answered} awaited, {len(wrong)} wrong")
    assert not wrong
    number = {stamp: k for k, stamp in enumerate(fuzz.expected)}
    order = [number[stamp_of(message)] for message in r.torque_log]
    assert order == sorted(set(order)), "each once, in the order of sending"
    assert len(wanted) > COUNT / 3
    assert fuzz.bursts_answered > COUNT / LONGEST_BURST
    answer = r.ask(GetParameters, names=["problem"])
    assert answer.values[0].string_value == "inverse"
