"""contact_source estimated on topics: a Solo12 that trots in MuJoCo, its joint states and odometry, or IMU, replayed."""

import numpy as np
import pytest

pytest.importorskip("dynamics_interfaces.srv", reason="build dynamics_interfaces first, or use ./dev")
pytest.importorskip("mujoco", minversion="3.2", reason="the ground: pip install mujoco")
pytest.importorskip("pinocchio", reason="the robots: pip install example-robot-data")

from dynamics_interfaces.msg import ContactWrenches
from rig import stamp_of
from sensor_msgs.msg import Imu
from standing import FEET, FILE
from stepping_dog import CYCLE, IMU, robot, run, trot

DIAGONAL = ("FR_FOOT", "HL_FOOT")  # stands first
SENSORS = (
    f"sensors: [{{type: imu, name: imu, link: base_link, xyz: {list(IMU.xyz)}, rpy: {list(IMU.rpy)}, "
    f"std: {list(IMU.std)}, topic: imu/data}}]"
)


class Replay:
    def __init__(self, rig, folder, by_imu=False):
        (folder / "contacts.yaml").write_text(FILE)
        parameters = {
            "contacts_file": str(folder / "contacts.yaml"),
            "contact_source": "estimated",
            "observer.velocity_std": [0.02],
            "observer.torque_std": [0.03],
            "joint_state_timeout": 30.0,
        }
        if by_imu:
            (folder / "sensors.yaml").write_text(SENSORS)
            parameters |= {
                "sensors_file": str(folder / "sensors.yaml"),
                "contact_estimation.imu": "imu",
                "sensor_timeout": 30.0,
            }
        self.r, self.estimates, self.imu = rig("solo12", parameters).serving(), {}, None
        if by_imu:
            self.imu = self.r.node.create_publisher(Imu, "imu/data", 50)
        create = self.r.node.create_subscription
        create(ContactWrenches, "dynamics_node/estimated_contacts", self._on_estimate, 500)
        self.wrenches = {}
        create(ContactWrenches, "dynamics_node/contact_wrenches", self._on_wrenches, 500)
        source = self.imu or self.r.odometry
        self.r.until(source.get_subscription_count, what="discovery")
        self.motion, self.names, self.stamp = run(trot), list(robot().joint_names), self.r.next_stamp()

    def _on_estimate(self, message):
        self.estimates[stamp_of(message)] = message

    def _on_wrenches(self, message):
        self.wrenches[stamp_of(message)] = message

    def send(self, k, effort=True):
        """Send sample k of the motion, CYCLE after the last one; return its stamp."""
        q, qd, tau = (array[k] for array in self.motion[1:4])
        self.stamp += round(CYCLE * 1e9)
        if self.imu is None:
            self.r.send_odometry(q[:7], qd[:6], stamp=self.stamp)
        else:
            self.send_imu(self.motion.imu[k])
        self.r.spin(0.002)
        return self.r.send_state(self.names, q[7:], qd[6:], tau[6:] if effort else (), stamp=self.stamp)

    def send_imu(self, reading):
        message = Imu()
        message.orientation_covariance[0] = -1.0  # REP 145: without orientation
        message.header.frame_id = "base_link"
        w, a = message.angular_velocity, message.linear_acceleration
        w.x, w.y, w.z, a.x, a.y, a.z = reading.tolist()
        self.imu.publish(message)

    def estimate(self, k):
        """The estimate at sample k."""
        stamp = self.send(k)
        self.r.until(lambda: stamp in self.estimates, timeout=5.0, what=f"an estimate at {k}")
        return self.estimates[stamp]


@pytest.fixture
def replay(rig, tmp_path):
    return begun(Replay(rig, tmp_path))


def begun(replay):
    """The Replay after the build of the observer."""

    def first():
        replay.send(0)
        replay.r.spin(0.02)
        return replay.estimates

    replay.r.until(first, what="the first estimate, after the build")
    return replay


def standing(message):
    return tuple(name for name, flag in zip(message.names, message.active, strict=True) if flag)


def test_estimates_on_topics(replay):
    """The set and the forces follow the feet; without efforts the last set holds, and the reason is reported."""
    ground, seen = replay.motion.ground, []
    for k in range(50, 156):
        message = replay.estimate(k)
        seen.append(standing(message))
    assert seen[45] == FEET and seen[-1] == DIAGONAL and set(seen) >= {FEET, DIAGONAL}
    forces = np.array([c.force.z for c in message.components])
    assert np.abs(forces - ground[155]).max() < 3.0 and message.wrenches[0].header.frame_id == "FL_FOOT"
    r = replay.r
    used = r.until(lambda: replay.wrenches.get(replay.stamp), what="contact_wrenches")
    assert standing(used) == DIAGONAL, "torques use the estimated set"
    assert r.node.count_subscribers("dynamics_node/active_contacts") == 0

    def without_efforts():
        replay.stamp += 10_000_000
        replay.send(155, effort=False)

    r.diagnostic(
        lambda s: "no contact estimate: no effort in joint_states for" in s.message, send=without_efforts
    )
    assert standing(r.until(lambda: replay.wrenches.get(replay.stamp), what="torques")) == DIAGONAL
    r.until(lambda: without_efforts() or "contact_source:=given" in r.process.output(), what="the log line")
    assert r.set_parameters(contact_source="given", active_contacts=list(FEET))[0]

    def given():
        replay.send(155, effort=False)
        r.spin(0.02)
        return replay.wrenches.get(replay.stamp) and standing(replay.wrenches[replay.stamp]) == FEET

    r.until(given, what="the given set")
    r.until(lambda: r.node.count_subscribers("dynamics_node/active_contacts"), what="the subscription")


def test_an_imu_and_no_odometry(rig, tmp_path):
    """Contacts are estimated; torques need odom, and the reason is reported."""
    replay = begun(Replay(rig, tmp_path, by_imu=True))
    ground, seen = replay.motion.ground, []
    for k in range(50, 156):
        message = replay.estimate(k)
        seen.append(standing(message))
    assert seen[45] == FEET and seen[-1] == DIAGONAL
    forces = np.array([c.force.z for c in message.components])
    assert np.abs(forces - ground[155]).max() < 3.0 and not replay.wrenches
    replay.r.diagnostic(lambda s: "no odom message yet" in s.message, send=lambda: replay.send(155))

    def a_bad_reading():
        replay.send_imu(np.full(6, np.nan))
        replay.send(155)

    replay.r.diagnostic(
        lambda s: any("not finite" in v.value for v in s.values if v.key == "last drop"), send=a_bad_reading
    )
