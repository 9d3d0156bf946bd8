"""10 000 messages, requests and parameter sets with a fixed seed, good and bad.

Every torque that is published must be Pinocchio's for the input whose stamp it carries; an independent
mirror of what the node should know predicts which.
"""

import math
import random

import numpy as np
import pinocchio
import pytest
from dynamics_interfaces.msg import DynamicsState
from dynamics_interfaces.srv import GetMassMatrix, InverseDynamics
from rcl_interfaces.srv import GetParameters
from rig import Client, efforts, floats, point, stamp_of, trajectory
from sensor_msgs.msg import JointState
from tolerances import EXACT, error

COUNT = 10_000
SEED = 2026
STRANGERS = ["gripper", "", "panda_joint", "\u00fc\u4e2d", "a" * 300, "$(reboot)", "panda_joint1 "]


class Mirror:
    """What a correct node knows: joint -> (stamp, position, velocity), and what it was told to do."""

    def __init__(self, panda):
        self.panda = panda
        self.joints: dict[str, tuple] = {}
        self.qdd = np.zeros(7)
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

    def torque(self):
        """By Pinocchio, or None when the node must be silent."""
        if len(self.joints) < 7:
            return None
        q, qd = np.array([self.joints[name][1:] for name in self.panda.names]).T
        if self.parts["coriolis"] and not np.isfinite(qd).all():
            return None
        oracle = self.panda.oracle
        oracle.pin.gravity = pinocchio.Motion(self.gravity * self.parts["gravity"], np.zeros(3))
        qd = qd if self.parts["coriolis"] else 0 * q
        tau = oracle.inverse(q, qd, self.qdd * self.parts["inertia"])
        oracle.pin.gravity = pinocchio.Motion(np.array([0, 0, -9.81]), np.zeros(3))
        return tau


class Fuzz:
    """Random actions on a rig; predictions on a mirror."""

    def __init__(self, rig: Client, panda):
        self.rig, self.panda, self.mirror = rig, panda, Mirror(panda)
        self.random = random.Random(SEED)
        self.expected: dict[int, np.ndarray | None] = {}
        self.stamp = rig.next_stamp()
        self.done = 0

    def act(self):
        kind = self.random.choices(
            (
                self.good_state,
                self.bad_state,
                self.reference,
                self.parameters,
                self.request,
                self.description,
            ),
            (60, 33, 2, 2, 2.7, 0.3),
        )[0]
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
            names += self.random.sample(STRANGERS, 2)
        self.random.shuffle(names)
        q, qd = self.numbers(len(names)), self.numbers(len(names))
        if self.random.random() < 0.1:
            qd = self.random.choice(([], [math.nan] * len(names)))
        late = self.random.random() < 0.05
        if late:  # out of order: an older stamp than what the node has
            stamp = self.stamp - self.random.randrange(1, 500_000_000)
            self.rig.send_state(names, q, qd, stamp=stamp)
        else:
            stamp = self.publish(names, q, qd)
        moved = self.mirror.take(names, q, qd, stamp)
        self.expected[stamp] = self.mirror.torque() if moved else None

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
            names, q, qd = STRANGERS[:3], q[:3], qd[:3]
        else:
            names = names[:4]
        self.expected[self.publish(names, q, qd)] = None

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
            self.mirror.qdd = np.array(self.numbers(7))
            self.rig.send_reference(self.panda.names, point(qdd=self.mirror.qdd))
        self.settle()

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
        elif kind == 2:  # what runs changes, what comes out does not
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
            answer = self.rig.call(GetMassMatrix, "get_mass_matrix", GetMassMatrix.Request(state=state))
            assert answer.success != bad, answer.message
            if not bad:
                M = np.array(answer.mass_matrix.data).reshape(7, 7)
                assert error(M, self.panda.oracle.mass_matrix(np.array(q)), tail=2) <= EXACT
            return
        answer = self.rig.call(InverseDynamics, "inverse_dynamics", InverseDynamics.Request(state=state))
        assert answer.success != bad, answer.message

    def description(self):
        self.rig.describe(
            self.random.choice(
                ("<robot", "<robot name='r'/>", "&", '<!DOCTYPE r [<!ENTITY a "b">]><robot>&a;</robot>')
            )
        )

    def settle(self):
        """Everything sent has been received: a state with the newest stamp was answered, or time passed."""
        self.rig.spin(0.04)


@pytest.mark.timeout(400)
def test_ten_thousand_inputs(rig, panda):
    r = rig(
        parameters={
            "joint_state_timeout": 60.0,
            "reference_timeout": 3600.0,
            "effort_limits": "none",
            "qos_overrides./joint_states.subscription.reliability": "reliable",
            "qos_overrides./joint_states.subscription.depth": 1000,
        }
    )
    r.until(lambda: "7 joints" in r.process.output())
    r.until(lambda: r.states.get_subscription_count() and r.references.get_subscription_count())
    r.spin(0.5)
    fuzz = Fuzz(r, panda)
    while fuzz.done < COUNT:
        fuzz.act()
        if fuzz.done % 8 == 0:
            r.spin(0.006)
    r.spin(1.0)
    wrong = {}
    for message in r.torque_log:
        stamp = stamp_of(message)
        expected = fuzz.expected[stamp]
        tau = efforts(message, panda.names)
        if expected is None or not error(tau, expected) <= EXACT:
            wrong[stamp] = (tau, expected)
    wanted = [stamp for stamp, tau in fuzz.expected.items() if tau is not None]
    answered = sum(stamp in r.torques for stamp in wanted)
    print(f"{len(r.torque_log)} torques, {answered} of {len(wanted)} wanted, {len(wrong)} wrong")
    assert not wrong
    assert len(wanted) > COUNT / 3
    assert answered >= 0.99 * len(wanted)
    answer = r.call(GetParameters, "get_parameters", GetParameters.Request(names=["problem"]))
    assert answer.values[0].string_value == "inverse"
