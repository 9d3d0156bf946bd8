"""Which feet stand, from joint torques: against MuJoCo's ground, a dense estimate, and Pinocchio's Jacobians."""

import pickle

import numpy as np
import pytest

pytest.importorskip("mujoco", minversion="3.2", reason="the ground: pip install mujoco")
pytest.importorskip("pinocchio", reason="the oracle: pip install pin")

from cases import case_of
from robots import robot_of
from standing import FEET
from stepping_dog import CYCLE, IMU, crawl, landing, robot, run, trot

import dynamics_node as dn

CONTACTS = [dn.Contact(foot, friction=0.8) for foot in FEET]
VELOCITY_STD = (*[0.01] * 3, *[0.02] * 3, *[0.02] * 12)
TORQUE_STD = (*[0.5] * 6, *[0.03] * 12)
OPTIONS = dn.ObserverOptions(velocity_std=VELOCITY_STD, torque_std=TORQUE_STD, bandwidth=100.0)
LEVEL = 0.06
DRIFT = 0.05  # m/s, of the velocity of the base
IMU_ERRORS = np.array([*[0.01] * 3, *[0.2] * 3])  # rad/s and m/s^2, constant
MS = 1e3 * CYCLE


@pytest.fixture(scope="module")
def built():
    return dn.build_contact_observer(robot(), CONTACTS, OPTIONS, level=LEVEL)


@pytest.fixture
def observer(built):
    built.reset()
    return built


@pytest.fixture(scope="module")
def built_for_imu():
    return dn.build_contact_observer(robot(), CONTACTS, OPTIONS, imu=IMU, level=LEVEL)


@pytest.fixture(params=["odometry", "imu"])
def either(request, built, built_for_imu):
    """An observer that reads the base from odometry, or from an IMU alone."""
    observer = built if request.param == "odometry" else built_for_imu
    observer.reset()
    return observer


def measured(motion, seed, height=0.0):
    """A Run with noise of the options, a velocity of the base that drifts, and an IMU with constant errors."""
    truth, random = run(motion, height), np.random.default_rng(seed)
    noise = random.normal(size=(2, *truth.qd.shape)) * [[VELOCITY_STD], [TORQUE_STD]]
    noise[1, :, :6] = 0.0
    noise[0, :, 3:6] += DRIFT * np.sin(8.0 * truth.time)[:, None]
    imu = truth.imu + np.array(IMU.std) * random.normal(size=truth.imu.shape)
    imu += IMU_ERRORS * random.choice([-1.0, 1.0], size=6)
    return truth._replace(qd=truth.qd + noise[0], tau=truth.tau + noise[1], imu=imu)


def observed(observer, samples):
    """Flags (k, 4) and normal forces (k, 4)."""
    flags, forces = [], []
    if observer.imu is not None:  # and nothing else of the base
        samples = samples._replace(q=samples.q.copy(), qd=samples.qd.copy())
        samples.q[:, :7] = samples.qd[:, :6] = np.nan
    for *sample, imu in zip(samples.time, samples.q, samples.qd, samples.tau, samples.imu, strict=True):
        observer.step(*sample, imu=None if observer.imu is None else imu)
        flags.append(observer.active.copy())
        forces.append(observer.contact_forces[2::3].copy())
    return np.array(flags), np.array(forces)


class Phase:
    """Samples start .. end in which a foot is loaded above the level, or without force."""

    def __init__(self, foot, loaded, start, end):
        self.foot, self.loaded, self.start, self.end = foot, loaded, start, end


def phases(ground, weight, shortest=0.02):
    """The Phases after the first one of each foot, without bounces."""
    found = []
    for foot, force in enumerate(ground.T):
        for loaded in (True, False):
            holds = force > LEVEL * weight if loaded else force == 0.0
            edges = np.flatnonzero(np.diff(np.pad(holds.astype(int), 1)))
            found += [
                Phase(foot, loaded, start, end)
                for start, end in edges.reshape(-1, 2)
                if start > 0 and (end - start) * CYCLE >= shortest
            ]
    return found


def judged(flags, ground, weight):
    """Delays of loaded phases and of swings, ms, and the number of changes within phases after the first one."""
    delays, false = {True: [], False: []}, 0
    for phase in phases(ground, weight):
        inside = flags[phase.start : phase.end, phase.foot] == phase.loaded
        assert inside.any(), "a phase is missed"
        delays[phase.loaded].append(MS * int(np.argmax(inside)))
        false += np.count_nonzero(np.diff(inside[np.argmax(inside) :]))
    return delays[True], delays[False], false


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "motion, height, lifts, down, up",
    [(crawl, 0.0, 4, 16.0, 8.0), (trot, 0.0, 12, 4.0, 24.0), (landing, 0.05, 4, 6.0, 24.0)],
    ids=["crawl", "trot", "landing"],
)
def test_every_step_is_seen_and_no_other(either, motion, height, lifts, down, up, seed):
    """Delays in ms of the robot's time, with noise, a drifting odometry and constant errors of the IMU."""
    samples, weight = measured(motion, seed, height), 9.81 * robot().mass
    if height:
        either.reset(np.zeros(4))
    flags, _ = observed(either, samples)
    loaded, swings, false = judged(flags, samples.ground, weight)
    assert len(loaded) >= 4 and len(swings) >= lifts and false == 0
    assert max(loaded) <= down and max(swings) <= up


@pytest.mark.parametrize("motion, height", [(crawl, 0.0), (trot, 0.0), (landing, 0.05)])
def test_forces_are_those_of_the_ground(either, motion, height):
    """Without noise, they are those of MuJoCo after a low-pass filter."""
    samples = run(motion, height)
    _, forces = observed(either, samples)
    share, filtered = 1.0 - np.exp(-OPTIONS.bandwidth * CYCLE), np.zeros_like(samples.ground)
    for k in range(1, len(filtered)):
        filtered[k] = filtered[k - 1] + share * (samples.ground[k] - filtered[k - 1])
    far, weight = (forces - filtered)[50:], 9.81 * robot().mass
    assert np.sqrt((far**2).mean()) < 0.015 * weight and np.abs(far).max() < 0.1 * weight


def test_forces_are_a_dense_weighted_least_squares(observer):
    """Of the external torques and covariance of the momentum observer, with Jacobians of Pinocchio."""
    torques = dn.build_observer(robot(), OPTIONS, backend="numpy")
    oracle, samples = case_of("solo12").oracle, measured(trot, 5)
    prior = np.eye(12) / (100.0 * 9.81 * robot().mass) ** 2
    for k in range(130, 136):
        sample = samples.time[k], samples.q[k], samples.qd[k], samples.tau[k]
        if not torques.step(*sample):
            assert not observer.step(*sample)
            continue
        assert observer.step(*sample)
        J = np.concatenate([oracle.jacobian(samples.q[k], foot)[3:] for foot in FEET])
        weighted = np.linalg.solve(torques.torque_covariance, J.T)
        forces = np.linalg.solve(J @ weighted + prior, weighted.T @ torques.torque)
        np.testing.assert_allclose(observer.contact_forces, forces, rtol=1e-6, atol=1e-6)


def at_rest(flags, gravity=None, contacts=CONTACTS):
    """q, qd and the torques that hold the robot on these feet."""
    q = run(trot).q[0]
    tau, forces = dn.evaluate(
        robot(), "inverse_dynamics", q, np.zeros(18), np.zeros(18), flags, gravity=gravity,
        contacts=contacts, backend="numpy",
    )  # fmt: skip
    return q, np.zeros(18), np.where(np.arange(18) < 6, 0.0, tau), forces


def settle(observer, q, qd, tau, **more):
    for k in range(100):
        observer.step(CYCLE * k, q, qd, tau, **more)


def test_a_grip_also_pulls(built):
    """Hanging from the ceiling: feet with friction cannot hold it."""
    grips = [dn.Contact(foot) if k < 2 else CONTACTS[k] for k, foot in enumerate(FEET)]
    up = np.array([0.0, 0.0, 9.81])
    observer = dn.build_contact_observer(robot(), grips, OPTIONS, backend="numpy")
    q, qd, tau, forces = at_rest(np.ones(4), up)
    for k in range(12):
        observer.step(CYCLE * k, q, qd, tau, up)
    np.testing.assert_allclose(observer.contact_forces, forces, atol=1e-3)
    assert (forces[2::3] < -1.0).all() and observer.active.tolist() == [1, 1, 0, 0]


def test_bad_samples_keep_the_set(observer):
    q, qd, tau, _ = at_rest(np.array([1, 0, 0, 1]))
    settle(observer, q, qd, tau)
    kept = observer.active.tolist()
    assert kept == [1, 0, 0, 1]
    bad = tau.copy()
    bad[7] = np.nan
    with pytest.raises(dn.InputError, match="tau"):
        observer.step(0.2, q, qd, bad)
    with pytest.raises(dn.InputError, match="time"):
        observer.step("now", q, qd, tau)
    assert not observer.step(5.0, q, qd, 0 * tau), "after a gap it begins again"
    assert observer.active.tolist() == kept
    assert observer.step(5.002, q, qd, tau) and observer.active.tolist() == kept


def test_uncertain_forces_decide_nothing():
    noisy = dn.ObserverOptions(velocity_std=0.01, torque_std=5.0)
    observer = dn.build_contact_observer(robot(), CONTACTS, noisy, backend="numpy")
    observer.reset([1, 0, 1, 0])
    q, qd, tau, _ = at_rest(np.ones(4))
    for k in range(5):
        observer.step(CYCLE * k, q, qd, tau)
    assert observer.unclear == FEET and observer.active.tolist() == [1, 0, 1, 0]


def test_copies_continue(observer):
    q, qd, tau, _ = at_rest(np.array([0, 1, 1, 0]))
    settle(observer, q, qd, tau)
    copy = pickle.loads(pickle.dumps(observer))
    assert copy.step(0.2, q, qd, tau) and observer.step(0.2, q, qd, tau)
    np.testing.assert_array_equal(copy.contact_forces, observer.contact_forces)
    assert copy.active.tolist() == [0, 1, 1, 0] and "active" in repr(copy)


def test_a_payload_needs_no_build():
    observer = dn.build_contact_observer(
        robot(), CONTACTS, OPTIONS, backend="numpy", runtime_parameters=["inertia"]
    )
    q, qd, tau, _ = at_rest(np.ones(4))
    for k in range(3):
        observer.step(CYCLE * k, q, qd, tau)
    heavy = dn.with_payload(robot(), "base_link", 1.0, [0, 0, 0], np.zeros((3, 3)))
    other = observer.with_inertias(heavy)
    other.resume(observer)
    assert other.time == observer.time and other.active.tolist() == [1, 1, 1, 1]
    tau, forces = dn.evaluate(
        heavy, "inverse_dynamics", q, qd, qd, np.ones(4), contacts=CONTACTS, backend="numpy"
    )
    tau[:6] = 0.0
    other.reset()
    for k in range(12):
        other.step(CYCLE * k, q, qd, tau)
    np.testing.assert_allclose(other.contact_forces, forces, atol=1e-3)


@pytest.mark.parametrize(
    "contacts, options, words",
    [
        ([dn.Contact("TAIL")], {}, "unknown link 'TAIL'"),
        ([], {}, "contacts are missing"),
        (CONTACTS, {"level": 0.0}, "level must be between 0 and 1, not 0.0"),
        (CONTACTS, {"level": np.nan}, "level"),
        (
            [dn.Contact("FL_FOOT", name=n, xyz=(x, 0, 0)) for n, x in (("heel", 0), ("toe", 0.1))],
            {},
            "do not determine the forces at heel, toe separately",
        ),
    ],
)
def test_bad_arguments_are_named(contacts, options, words):
    with pytest.raises(ValueError, match=words):
        dn.build_contact_observer(robot(), contacts, OPTIONS, backend="numpy", **options)


def test_bad_flags_are_named(observer):
    for active in ([1, 1, 1], [1, 1, 1, 0.5], [1, 1, 1, np.nan], "all"):
        with pytest.raises(dn.InputError, match="active"):
            observer.reset(active)
    with pytest.raises(TypeError, match="ObserverOptions"):
        dn.build_contact_observer(robot(), CONTACTS, {})


def test_soles_are_surfaces():
    """Two feet of a humanoid: its weight is on one."""
    humanoid = robot_of("talos")
    soles = [dn.Contact(f"{side}_sole_link", kind="surface", half_lengths=(0.1, 0.06), friction=0.5)
             for side in ("left", "right")]  # fmt: skip
    options = dn.ObserverOptions(velocity_std=1e-3, torque_std=0.5, bandwidth=100.0)
    observer = dn.build_contact_observer(humanoid, soles, options, backend="numpy")
    q, still = humanoid.neutral(), np.zeros(humanoid.nv)
    tau, forces = dn.evaluate(
        humanoid, "inverse_dynamics", q, still, still, [1, 0], contacts=soles, backend="numpy"
    )
    tau[:6] = 0.0
    for k in range(4):
        observer.step(CYCLE * k, q, still, tau)
    np.testing.assert_allclose(observer.contact_forces, forces, atol=1e-2)
    assert observer.active.tolist() == [1, 0] and observer.unclear == ()
