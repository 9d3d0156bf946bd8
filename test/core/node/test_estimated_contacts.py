"""contact_source estimated in the node: the set and forces from efforts, with odometry or an IMU. The observer is
tested by itself."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("mujoco", minversion="3.2", reason="the ground: pip install mujoco")
pytest.importorskip("pinocchio", reason="the robots: pip install example-robot-data")

from plain import MS, Served, settings
from standing import FEET, FILE
from stepping_dog import CYCLE, IMU, robot, run, trot

from dynamics_demo.legged_robots import SOLO12
from dynamics_node.node.building.build_job import Failure, do
from dynamics_node.node.core.consistency import check_against
from dynamics_node.node.core.diagnostics import Statistics, report
from dynamics_node.node.core.publisher import Publisher
from dynamics_node.node.errors import BadMessage
from dynamics_node.node.state.sensor_readings import SensorMessage

ESTIMATED = {
    "contact_source": "estimated",
    "observer__velocity_std": [0.02],
    "observer__torque_std": [0.03],
    "floating_base": True,
    "effort_limits": "none",
}
TICK = round(CYCLE * 1e9)  # ns
SENSORS = (
    f"sensors: [{{type: imu, name: imu, link: {{link}}, xyz: {list(IMU.xyz)}, rpy: {list(IMU.rpy)}, "
    f"std: {list(IMU.std)}, topic: imu}}]"
)


class Node:
    """The parts of a node around a Core."""

    def __init__(self, folder, text=FILE, **values):
        file = folder / "contacts.yaml"
        file.write_text(text)
        self.chosen = settings(**{**ESTIMATED, "contacts_file": str(file), **values})
        self.served = served = Served(SOLO12.urdf(), self.chosen)
        self.core, self.settings, self.failure, self.building = served.core, self.chosen, "", False
        self.published, self.statistics = [], Statistics()
        self.publisher = Publisher(
            self,
            self.statistics,
            SimpleNamespace(ros_now=lambda: served.ros, stamp=None),
            lambda *_: None,
            lambda *_: None,
            lambda core, estimate, _: self.published.append(estimate),
            lambda: served.now,
        )

    def receive(self, q, qd, tau):
        served = self.served
        served.now += TICK
        served.stamp += TICK - MS
        self.core.state.base = self.core.state.read_base(q[:7], qd[:6], 0, served.now)
        served.receive(robot().joint_names, q[7:], qd[6:], tau[6:])
        self.publisher.estimate_contacts()
        return self.core.active.active

    def feel(self, numbers, frame="base_link"):
        """Receive a message of the IMU."""
        self.core.receive_sensor("imu", SensorMessage(numbers, frame, None, self.served.now))

    def receive_with_imu(self, imu, q, qd, tau):
        """The same as `receive`, with the IMU in place of odometry."""
        self.served.now += TICK
        self.served.stamp += TICK - MS
        if imu is not None:
            self.feel(imu)
        self.served.receive(robot().joint_names, q[7:], qd[6:], tau[6:])
        self.publisher.estimate_contacts()
        return self.core.active.active

    def status(self):
        return report(self, self.statistics, True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("dog")


@pytest.fixture
def node(folder):
    return Node(folder, backend="auto")


def samples(count=None):
    motion = run(trot)
    return list(zip(motion.q, motion.qd, motion.tau, motion.ground, strict=True))[:count]


def test_the_set_follows_the_feet(node):
    """Of a trot: the set in use, the published set and forces, and the torques."""
    diagonals = {("FL_FOOT", "HR_FOOT"), ("FR_FOOT", "HL_FOOT")}
    seen = {node.receive(*state) for *state, _ in samples()}
    assert diagonals <= seen <= diagonals | {FEET, *(tuple(f for f in FEET if f != g) for g in FEET)}
    assert len(node.published) == len(samples()) - 1
    for estimate, (*_, ground) in list(zip(node.published, samples()[1:], strict=True))[::50]:
        assert (ground[estimate.loads.active == 0] < 3.0).all()
    assert node.served.solve().loads.active.tolist() == node.published[-1].loads.active.tolist()
    assert not node.statistics.missing[0]


def test_the_parameter_is_the_set_before_the_first_estimate(folder):
    node = Node(folder, backend="auto", active_contacts=[FEET[0], FEET[3]])
    assert node.core.active.active == (FEET[0], FEET[3])
    (*state, _), *_ = samples(1)
    assert node.receive(*state) == (FEET[0], FEET[3]) and not node.published


def test_bad_input_keeps_the_last_set(node):
    rows = samples()
    swing = next(k for k, (*_, ground) in enumerate(rows) if (ground == 0).sum() == 2) + 25
    for *state, _ in rows[:swing]:
        kept = node.receive(*state)
    assert len(kept) == 2
    q, qd, tau, _ = rows[swing]
    gone = np.where(np.arange(18) == 8, np.nan, tau)
    node.core.joints.effort[:] = np.nan
    for bad in (gone, np.full(18, np.nan)):
        assert node.receive(q, qd, bad) == kept
        reason, remedy = node.statistics.missing
        assert reason.startswith("no contact estimate: no effort in joint_states for ")
        assert "contact_source:=given" in remedy
    assert node.served.solve().loads.active.sum() == 2, "torques continue with the last set"
    assert node.receive(q, np.where(np.arange(18) == 9, np.nan, qd), tau) == kept
    assert "no velocity in joint_states" in node.statistics.missing[0]
    status = node.status()
    assert status.warn and "no velocity" in status.values["no contact estimate because"]
    node.core.forget()
    assert node.receive(q, qd, tau) == kept, "and a jump of the clock"


def test_uncertain_forces_are_reported(folder):
    node = Node(folder, backend="auto", observer__torque_std=[5.0])
    for *state, _ in samples(30):
        node.receive(*state)
    reason, remedy = node.statistics.missing
    assert reason == f"no contact estimate: forces at {', '.join(FEET)} are too uncertain"
    assert "observer.velocity_std" in remedy and node.core.active.active == FEET


def test_reports_have_the_forces(node):
    for *state, _ in samples(100):
        node.receive(*state)
    text = node.status().values["estimated forces at contacts"]
    forces = [float(part.split()[1]) for part in text.split(", ")]
    assert text.startswith("FL_FOOT ") and sum(forces) == pytest.approx(9.81 * robot().mass, rel=0.05)


def test_a_payload_acts_at_once(node):
    for *state, _ in samples(60):
        node.receive(*state)
    before = node.core.robot.contact_observer.contact_forces[2::3].sum()
    node.core.set_payload("base_link", 0.5, [0, 0, 0], np.zeros((3, 3)))
    for *state, _ in samples(90)[50:]:
        assert node.receive(*state) == FEET
    assert node.core.robot.contact_observer is not node.core.unloaded.contact_observer
    assert node.core.robot.contact_observer.contact_forces[2::3].sum() != pytest.approx(before, rel=1e-3)


@pytest.fixture
def by_imu(folder):
    return Node(folder, backend="auto", **sensed(folder))


def sensed(folder, link="base_link"):
    """Parameters of an IMU on a link."""
    (folder / f"{link}.yaml").write_text(SENSORS.replace("{link}", link))
    return {"sensors_file": str(folder / f"{link}.yaml"), "contact_estimation__imu": "imu"}


def test_an_imu_needs_no_odometry(by_imu, node):
    """The set and the forces are nearly those with an exact odometry, which the IMU does not read."""
    q, *_ = run(trot).q
    by_imu.core.state.base = by_imu.core.state.read_base(q[:7], np.full(6, 50.0), 0, 0)
    differ = 0
    for (*state, _), imu in zip(samples(), run(trot).imu, strict=True):
        differ += by_imu.receive_with_imu(imu, *state) != node.receive(*state)
    assert differ < 0.02 * len(samples()) and len(by_imu.published) == len(samples()) - 1
    forces, expected = (np.array([e.loads.forces for e in n.published])[50:] for n in (by_imu, node))
    assert np.abs(forces - expected).max() < 2.0
    wrenches, others = (
        [w.on_link for w in n.core.contacts.wrenches(n.published[-1].q, n.published[-1].loads.forces)]
        for n in (by_imu, node)
    )
    np.testing.assert_allclose(wrenches, others, atol=0.5)
    assert not by_imu.statistics.missing[0]


def test_bad_readings_of_the_imu_keep_the_last_set(by_imu):
    rows, imus = samples(), run(trot).imu
    (*state, _), *_ = rows
    assert by_imu.receive_with_imu(None, *state) == FEET
    reason, remedy = by_imu.statistics.missing
    assert reason == "no contact estimate: no message yet of contact_estimation.imu imu"
    assert remedy == "publish it on imu"
    swing = next(k for k, (*_, ground) in enumerate(rows) if (ground == 0).sum() == 2) + 25
    for (*state, _), imu in zip(rows[:swing], imus, strict=False):
        kept = by_imu.receive_with_imu(imu, *state)
    assert len(kept) == 2 and not by_imu.statistics.missing[0]
    for numbers, frame, words in (
        (np.full(6, np.nan), "base_link", "'imu': a reading is not finite"),
        (imus[0], "FL_FOOT", "'imu': its frame is 'base_link', but the message has 'FL_FOOT'"),
    ):
        with pytest.raises(BadMessage, match=words):
            by_imu.feel(numbers, frame)
    by_imu.served.now += 300 * MS
    assert by_imu.receive_with_imu(None, *state) == kept
    assert by_imu.statistics.missing[0].endswith("contact_estimation.imu imu older than 0.2 s")
    assert by_imu.status().warn


def test_the_imu_is_on_the_base(folder):
    (folder / "contacts.yaml").write_text(FILE)
    chosen = settings(
        **ESTIMATED | sensed(folder, "FL_UPPER_LEG"),
        backend="numpy",
        contacts_file=str(folder / "contacts.yaml"),
    )
    result = do(chosen.job(SOLO12.urdf()))
    assert isinstance(result, Failure) and result.reason == (
        "contact_source estimated: sensor 'imu': its link 'FL_UPPER_LEG' is not fixed to the floating link "
        "'base_link', which contacts need"
    )


def test_an_unknown_imu_is_rejected(by_imu):
    chosen = replace(by_imu.chosen, contact_estimation_imu="head")
    with pytest.raises(ValueError, match="contact_estimation.imu: sensors_file has no sensor 'head'"):
        check_against(chosen, by_imu.core.unloaded)
    check_against(replace(chosen, contact_source="given"), by_imu.core.unloaded)


@pytest.mark.parametrize(
    "values, reason",
    [
        ({"contact_source": "estimated"}, "contact_source estimated needs contacts_file"),
        (
            {"contact_source": "estimated", "contacts_file": "x", "velocity_source": "zero"},
            "contact_source estimated needs velocities",
        ),
        (
            {
                "contact_source": "estimated",
                "contacts_file": "x",
                "problem": "sensors",
                "sensors_file": "y",
            },
            "contact_source estimated requires problem inverse, forward or hybrid",
        ),
        ({"contact_estimation__imu": "imu"}, "contact_estimation.imu needs sensors_file"),
        ({"contact_source": "guessed"}, "contact_source must be one of given, estimated"),
        ({"contact_estimation__level": 1.5}, "contact_estimation.level must be between 0.001 and 0.9"),
        ({"contact_estimation__bandwidth": 0.0}, "contact_estimation.bandwidth must be between"),
    ],
)
def test_impossible_combinations(values, reason):
    with pytest.raises(ValueError, match=reason):
        settings(**values)


def test_noise_of_another_robot_is_rejected(node):
    chosen = settings(
        **ESTIMATED | {"observer__velocity_std": [0.1] * 7}, contacts_file=node.chosen.contacts_file
    )
    with pytest.raises(ValueError, match="observer.velocity_std has 7 numbers, the robot 18 rates"):
        check_against(chosen, node.core.unloaded)


def test_contacts_that_torques_do_not_separate_are_a_failure(tmp_path):
    (tmp_path / "contacts.yaml").write_text(
        "contacts: [{link: FL_FOOT, name: heel}, {link: FL_FOOT, name: toe, xyz: [0.1, 0, 0]}]"
    )
    chosen = settings(**ESTIMATED, backend="numpy", contacts_file=str(tmp_path / "contacts.yaml"))
    result = do(chosen.job(SOLO12.urdf()))
    assert isinstance(result, Failure)
    assert result.reason.startswith("contact_source estimated: joint torques do not determine")
    assert "heel, toe" in result.reason
