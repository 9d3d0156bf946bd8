"""dynamics_estimator with real topics: what it tells, of which readings, and what it says of bad ones."""

import numpy as np
import pytest
from rig import Rig, efforts, stamp_of
from two_links import ARM, NAMES, PUSH

pytest.importorskip("dynamics_interfaces.msg", reason="build dynamics_interfaces first, or use ./dev")
try:
    from dynamics_interfaces.msg import JointStateEstimate
except ImportError:
    pytest.skip(
        "dynamics_interfaces without JointStateEstimate: build it again, or use ./dev",
        allow_module_level=True,
    )
from sensor_msgs.msg import Imu, JointState

MODULE = "dynamics_node.node.estimator.main"
NS = 1_000_000_000
PERIOD = NS // 250


class EstimatorRig(Rig):
    """The arm, which moves along sines while something pushes its second joint."""

    def __init__(self, parameters=None, robot=None, text=ARM):
        super().__init__(robot, {"rate": 250.0, **(parameters or {})}, module=MODULE)
        self.estimates, self.plain, self.external = [], [], []
        listen = self.node.create_subscription
        listen(JointStateEstimate, "dynamics_estimator/joint_state_estimate", self.estimates.append, 500)
        listen(JointState, "dynamics_estimator/estimated_joint_states", self.plain.append, 500)
        listen(JointState, "dynamics_estimator/external_torques", self.external.append, 500)
        self.imus = self.node.create_publisher(Imu, "imu", 50)
        self.model = dn.parse_model(text)
        self.inverse = dn.build(self.model, dn.inverse_dynamics(self.model), backend="numpy")
        self.k, self.begin = 0, 0
        if robot is None:
            self.describe(text)

    def serving(self):
        self.until(lambda: " estimated at " in self.process.output(), what="a robot")
        self.until(self.states.get_subscription_count, what="discovery")
        self.begin, self.k = self.next_stamp(), 0
        return self

    def motion(self, k):
        """q, qd, qdd of step k."""
        w, t = np.array([3.0, 4.0]), k * PERIOD / NS
        return 0.4 * np.cos(w * t), -0.4 * w * np.sin(w * t), -0.4 * w**2 * np.cos(w * t)

    def move(self, steps, effort=True, names=NAMES, tell=True):
        """The next steps, in time."""
        for _ in range(steps):
            q, qd, qdd = self.motion(self.k)
            tau = self.inverse(q, qd, qdd) - PUSH
            stamp = self.begin + self.k * PERIOD
            if tell:
                order = [NAMES.index(name) for name in names]
                self.send_state(names, q[order], effort=tau[order] if effort else (), stamp=stamp)
            self.k += 1
            self.spin(PERIOD / NS)
        return self

    def step_of(self, message):
        return (stamp_of(message) - self.begin) / PERIOD


@pytest.fixture(scope="module")
def estimator():
    made = EstimatorRig().serving()
    yield made
    made.close()


def test_state_and_push_are_told_with_their_covariance(estimator):
    estimator.move(300)
    estimator.until(
        lambda: len(estimator.estimates) > 50 and len(estimator.plain) == len(estimator.estimates),
        what="estimates",
    )
    told = estimator.estimates[-1]
    k = estimator.step_of(told)
    assert k == round(k) and told.lag == pytest.approx(0.01, abs=PERIOD / NS)
    q, qd, qdd = estimator.motion(k)
    assert tuple(told.name) == NAMES and told.header.frame_id == "base"
    for field, truth in (("position", q), ("velocity", qd), ("acceleration", qdd), ("external_torque", PUSH)):
        P = np.array(getattr(told, f"{field}_covariance")).reshape(2, 2)
        assert np.linalg.eigvalsh(P).min() > 0
        off = np.abs(np.array(getattr(told, field)) - truth)
        assert (off < 4 * np.sqrt(np.diag(P)) + 1e-6).all(), field
    assert told.readings == 4 and not told.unobservable
    np.testing.assert_allclose(estimator.plain[-1].position, told.position)
    np.testing.assert_allclose(efforts(estimator.external[-1], NAMES), told.external_torque)
