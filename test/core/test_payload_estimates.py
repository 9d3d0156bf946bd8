"""What a link carries, by measured torques: against Pinocchio and MuJoCo, with noise, and what is not told."""

import numpy as np
import pytest
from carrying import COM, HAND, MASS, MOMENTS, REST, TIME, motion, parameters, recording, rubbing, torques
from environments import load
from identified import Truth, as_measured, in_chunks
from oracle import Oracle
from robots import ROBOTS, closed_states, robot_of
from tolerances import error

import dynamics_node as dn
from dynamics_node.algorithms import inertias_of_parameters, joint_torque_regressor, momentum_regressor
from dynamics_node.estimation import payload_functions
from dynamics_node.estimation.payload_sums import PayloadSums, fitted
from dynamics_node.identification import IdentificationError
from dynamics_node.symbolic import pseudo_inertia

NOISE = 0.2  # N m
WEIGHS = ("mass", *(f"centre of mass along {axis}" for axis in "xyz"))


@pytest.fixture(scope="module")
def panda7():
    return ROBOTS["panda7"].model()


@pytest.fixture(scope="module")
def functions(panda7):
    return payload_functions(panda7, HAND)


@pytest.fixture(scope="module")
def moved():
    """q, qd, qdd and torques with and without a payload."""
    states = motion(1)
    return *states, torques(*states), torques(*states, carried=False)


def estimated(model, q, qd, qdd, tau, link=HAND, **options):
    return dn.identify_payload(model, link, [recording(q, qd, qdd, tau)], backend="numpy", **options)


def fed(functions, q, qd, tau, time=TIME, **options):
    """A PayloadEstimator after these samples."""
    own = dn.PayloadEstimator(functions, **options)
    for sample in zip(time, q, qd, tau, strict=True):
        own.step(*sample)
    return own


# --- regressors of one link -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, link", [("panda7", HAND), ("ur5", "wrist_2_link"), ("tiago", "torso_lift_link")]
)
def test_the_regressor_of_a_link_is_what_pinocchio_adds(name, link):
    """The torque of a body that is put on a link, and the momentum of ours."""
    model = ROBOTS[name].model()
    bare, loaded = Oracle(ROBOTS[name], model), Oracle(ROBOTS[name], model)
    load(loaded, link)
    random = np.random.default_rng(0)
    q, qd, qdd = random.uniform(-1, 1, (3, 6, model.nv))
    added = [
        loaded.inverse(*state) - bare.inverse(*state) for state in zip(q[:, : model.nq], qd, qdd, strict=True)
    ]
    own = dn.build(model, "joint_torque_regressor", backend="numpy", link=link)
    assert error(own(q, qd, qdd) @ parameters(), np.array(added)).max() <= 1e-10
    P, R = dn.build(model, "momentum_regressor", backend="c", link=link)(q, qd)
    with_body = dn.with_payload(model, link, MASS, COM, MOMENTS)
    before, after = (dn.build(m, "generalized_momentum", backend="numpy")(q, qd) for m in (model, with_body))
    for own, one, other in zip((P, R), before, after, strict=True):
        assert np.allclose(own @ parameters(), other - one, atol=1e-9)


def test_the_regressor_of_a_link_of_a_loop():
    robot = robot_of("five_bar")
    link = robot.bodies[-1].name
    q, yd, ydd = closed_states(robot, 3)
    loaded = dn.with_payload(robot, link, MASS, COM, MOMENTS)
    before, after = (
        dn.build(one, dn.inverse_dynamics(one), backend="numpy")(q, yd, ydd) for one in (robot, loaded)
    )
    Y = dn.build(robot, "joint_torque_regressor", backend="numpy", link=link)(q, yd, ydd)
    assert error(Y @ parameters(), after - before).max() <= 1e-9


def test_a_link_that_no_joint_moves(panda7):
    q, qd, qdd = np.ones((3, 7))
    assert not joint_torque_regressor(panda7, q, qd, qdd, link="panda_link0").any()
    with pytest.raises(KeyError, match="'tool9'"):
        momentum_regressor(panda7, q, qd, link="tool9")


# --- truth ----------------------------------------------------------------------------------------------------


def test_without_noise(panda7, functions, moved):
    q, qd, qdd, tau, _ = moved
    found = estimated(panda7, q, qd, qdd, tau)
    assert found.mass == pytest.approx(MASS, abs=1e-8) and np.allclose(found.com, COM, atol=1e-8)
    assert np.allclose(found.inertia, MOMENTS, atol=1e-7)
    assert found.not_excited == () and found.refusal == "" and found.samples == len(TIME)
    loaded = dn.build(found.on(panda7), dn.inverse_dynamics(panda7), backend="numpy")(q, qd, qdd)
    assert error(loaded, tau).max() <= 1e-7


@pytest.mark.parametrize("recursive", [False, True])
def test_within_three_standard_deviations(panda7, functions, moved, recursive):
    """Mass, centre of mass and inertia of 40 noises, friction unknown; noise of velocities, too, where they
    count."""
    q, qd, qdd, tau, _ = moved
    misses = []
    for seed in range(40):
        random = np.random.default_rng(seed)
        noisy = tau + rubbing(qd) + NOISE * random.normal(size=tau.shape)
        if recursive:
            found = fed(functions, q, qd + 1e-3 * random.normal(size=qd.shape), noisy).found()
        else:
            found = estimated(panda7, q, qd, qdd, noisy)
        off = (found.fitted.x - parameters()) / np.sqrt(np.diagonal(found.covariance))
        misses.append([(found.mass - MASS) / found.mass_std, *(found.com - COM) / found.com_std, *off])
        assert np.linalg.eigvalsh(pseudo_inertia(inertias_of_parameters(found.parameters)))[0] > 0
        assert found.refusal == "" and found.mass_std < 0.02
    size = np.sqrt(np.mean(np.square(misses), axis=0))
    assert (np.abs(misses) <= 3).mean() >= 0.99 and size.max() <= 1.5
    assert 0.7 <= size.mean() <= 1.2, "standard deviations are as large as the errors are"


def test_both_forms_agree(panda7, functions, moved):
    """Accelerations, and momenta over windows, which blur the motion: within a hundredth of the payload."""
    q, qd, qdd, tau, _ = moved
    time = np.arange(0.0, 8.0, 0.004)
    dense = motion(1, time=time)
    recursive = fed(functions, *dense[:2], torques(*dense) + rubbing(dense[1]), time).found()
    batch = estimated(panda7, q, qd, qdd, tau + rubbing(qd))
    assert recursive.mass == pytest.approx(batch.mass, rel=1e-3)
    assert np.allclose(recursive.com, batch.com, atol=2e-4)
    assert np.allclose(recursive.inertia, batch.inertia, atol=5e-4)


def test_sample_by_sample_is_all_at_once(functions, moved):
    """Rows of windows written down here, and one weighted least-squares problem of all of them."""
    q, qd, _, tau, _ = moved
    time, tau = np.cumsum(np.random.default_rng(3).uniform(0.005, 0.03, len(q))), tau + rubbing(qd)
    recursive = fed(functions, q, qd, tau, time)
    p, rate = functions.momentum(q, qd)
    P, R = functions.regressor(q, qd)
    columns, start = [], 0
    for end in range(1, len(q)):
        if time[end] - time[start] >= 0.1:
            own, length = slice(start, end + 1), time[end] - time[start]

            def mean(x, own=own, length=length):
                return np.trapezoid(x[own], time[own], axis=0) / length

            W = (P[end] - P[start]) / length - mean(R)
            y = mean(tau + rate) - (p[end] - p[start]) / length
            F = np.stack([mean(np.ones_like(qd)), mean(np.tanh(qd / 0.01)), mean(qd)], axis=-1)
            columns.append(np.concatenate([W, F, y[:, None]], axis=-1))
            start = end
    rows = np.array(columns)
    assert recursive.samples == start
    found = fitted(recursive.sums)
    spread = found.spread * np.sqrt(found.inflation)
    dense = np.zeros((len(rows), 7, 10 + 21))
    dense[:, :, :10] = rows[:, :, :10]
    for joint in range(7):
        dense[:, joint, 10 + 3 * joint : 13 + 3 * joint] = rows[:, joint, 10:13]
    A, b = dense / spread[:, None], rows[:, :, -1] / spread
    x = np.linalg.lstsq(A.reshape(-1, 31), b.ravel(), rcond=None)[0]
    assert np.allclose(recursive.found().fitted.x, x[:10], atol=1e-8)
    left = (rows[:, :, -1] - (dense @ x)).std(axis=0)
    assert np.allclose(left, found.spread, rtol=0.1)
    covariance = np.linalg.inv(A.reshape(-1, 31).T @ A.reshape(-1, 31))[:10, :10]
    assert np.allclose(recursive.found().covariance, covariance, rtol=1e-4, atol=1e-12)


def test_an_arm_that_mujoco_simulates(monkeypatch):
    """Its hand is heavier than its description says; noise as its demo has it, accelerations unknown."""
    pytest.importorskip("mujoco", minversion="3.2", reason="the simulated arm: pip install mujoco")
    from dynamics_demo import pushed_arm
    from dynamics_demo.panda import description
    from dynamics_node.robot.urdf_numbers import Inertial, with_numbers

    monkeypatch.setattr(pushed_arm, "TOUCHES", ())
    text = description()
    model = dn.parse_robot(text)
    own = dn.with_payload(model, HAND, MASS, COM, MOMENTS).frames[HAND].inertia
    J = pseudo_inertia(own)
    com = J[:3, 3] / J[3, 3]
    central = own[:3, :3] - J[3, 3] * (com @ com * np.eye(3) - np.outer(com, com))
    arm = pushed_arm.PushedArm(with_numbers(text, {HAND: Inertial(central, J[3, 3], com)}))
    recursive = dn.build_payload_estimator(model, HAND)
    for _ in range(4000):
        sample = arm.step()
        recursive.step(sample.time, sample.q, sample.qd, sample.tau)
    found = recursive.found()
    assert found.refusal == "" and abs(found.mass - MASS) <= 3 * found.mass_std < 0.1
    assert np.all(np.abs(found.com - COM) <= 3 * found.com_std) and found.com_std.max() < 0.01


def test_a_robot_with_loops():
    robot = robot_of("five_bar")
    link = robot.bodies[-1].name
    q, yd, ydd = closed_states(robot, 300, reach=0.2)
    loaded = dn.with_payload(robot, link, MASS, COM, MOMENTS)
    tau = dn.build(loaded, dn.inverse_dynamics(loaded), backend="numpy")(q, yd, ydd)
    found = estimated(robot, q, yd, ydd, tau, link)
    assert found.mass == pytest.approx(MASS, rel=1e-5) and found.com[:2] == pytest.approx(COM[:2], rel=1e-4)
    assert "centre of mass along z is not felt: no joint moves against it" in found.not_excited
    assert found.inertia[2, 2] == pytest.approx(MOMENTS[2, 2], rel=1e-2)


@pytest.mark.parametrize("backend", ["c", "numpy"])
def test_a_robot_with_loops_sample_by_sample(backend):
    robot = robot_of("five_bar")
    link, time = robot.bodies[-1].name, np.arange(0.0, 4.0, 0.01)
    phase = np.outer(time, [3.0, 4.3])
    start = dn.close_loops(robot, np.full(robot.nq, 0.1))
    q = np.tile(start, (len(time), 1))
    own = [robot.tree.independent_joints[v].q.start for v in robot.independent]
    q[:, own] += 0.2 * np.sin(phase)
    q = dn.close_loops(robot, q)
    yd, ydd = 0.2 * np.cos(phase) * [3.0, 4.3], -0.2 * np.sin(phase) * np.square([3.0, 4.3])
    loaded = dn.with_payload(robot, link, MASS, COM, MOMENTS)
    tau = dn.build(loaded, dn.inverse_dynamics(loaded), backend="numpy")(q, yd, ydd)
    every = slice(None, None, 1 if backend == "c" else 4)
    functions = payload_functions(robot, link, backend)
    found = fed(functions, q[every], yd[every], tau[every], time[every]).found(friction=False)
    assert found.mass == pytest.approx(MASS, rel=0.02) and found.com[:2] == pytest.approx(COM[:2], abs=5e-3)
    recursive = dn.PayloadEstimator(functions)
    open_loop = q[0] + np.where(np.isin(np.arange(robot.nq), own), 0.0, 0.3)
    with pytest.raises(dn.SolutionError):
        recursive.step(0.0, open_loop, yd[0], tau[0])


# --- friction, tare, and what is carried already ---------------------------------------------------------------


def test_friction_taken_as_described_is_told_as_mass(panda7, moved):
    """And an empty run tells it apart from what is carried, where the time with the payload is short."""
    q, qd, qdd, tau, empty = moved
    slow = slice(0, 60)  # hardly a second: too little for friction and payload together
    both = [tau + rubbing(qd), empty + rubbing(qd)]
    random = np.random.default_rng(0)
    loaded, bare = (torque + NOISE * random.normal(size=torque.shape) for torque in both)
    wrong = estimated(panda7, q, qd, qdd, loaded, friction=False)
    assert abs(wrong.mass - MASS) > 0.04
    short = (q[slow], qd[slow], qdd[slow], loaded[slow])
    alone = estimated(panda7, *short)
    tared = estimated(panda7, *short, tare=[recording(q, qd, qdd, bare)])
    assert tared.mass_std < 0.8 * alone.mass_std and abs(tared.mass - MASS) <= 3 * tared.mass_std
    assert tared.samples == 60


def test_what_the_description_lacks_is_taken_off(panda7):
    """Links that are heavier or lighter by some percent: without an empty run that is told as payload."""
    time, errors = np.arange(0.0, 20.0, 0.05), []
    factors = 1 + 0.05 * np.random.default_rng(0).normal(size=(7, 1, 1))
    wrong = dn.with_parameters(panda7, panda7.inertias * factors, panda7.armature)
    recordings = []
    for robot, seed in ((dn.with_payload(wrong, HAND, MASS, COM, MOMENTS), 1), (wrong, 2)):
        q, qd, qdd = motion(seed, time=time)
        tau = dn.build(robot, dn.inverse_dynamics(robot), backend="numpy")(q, qd, qdd) + rubbing(qd)
        tau += NOISE * np.random.default_rng(seed).normal(size=tau.shape)
        recordings.append(recording(q, qd, qdd, tau, time))
    loaded, empty = recordings
    for tare in ([], [empty]):
        found = dn.identify_payload(panda7, HAND, [loaded], tare=tare, backend="numpy")
        errors.append([abs(found.mass - MASS), *np.abs(found.com - COM)])
        assert found.samples == len(time)
    plain, tared = np.array(errors)
    assert plain[0] > 0.05 and np.all(tared <= [0.02, 0.004, 0.004, 0.004])
    both = dn.identify_payload(panda7, HAND, [empty], tare=[empty], backend="numpy")
    assert "not significantly above zero" in both.refusal and abs(both.fitted.x[0]) < 1e-6


def test_all_that_is_carried(panda7, functions, moved):
    """A payload that the model has already is part of what is found."""
    q, qd, _, tau, _ = moved
    half = dn.with_payload(panda7, HAND, 0.5 * MASS, COM, 0.5 * MOMENTS)
    functions = payload_functions(panda7, HAND, "numpy", runtime_parameters=("inertia",))
    plain, own = dn.PayloadEstimator(functions), dn.PayloadEstimator(functions.with_inertias(half))
    for time, *sample in zip(TIME[:40], q[:40], qd[:40], tau[:40], strict=True):
        plain.step(time, *sample)
        own.step(time, *sample, carried=0.5 * parameters())
    assert np.allclose(plain.sums.total(), own.sums.total(), rtol=1e-9, atol=1e-9)


def test_gravity_of_a_tilted_root(panda7, functions, moved):
    """Given with every sample, as an IMU tells it."""
    q, qd, qdd, _, _ = moved
    tilted = np.array([3.0, -4.0, -8.0])
    loaded = dn.with_payload(panda7, HAND, MASS, COM, MOMENTS)
    tau = dn.build(loaded, dn.inverse_dynamics(loaded), backend="numpy")(q, qd, qdd, gravity=tilted)
    own = dn.PayloadEstimator(functions)
    for time, *sample in zip(TIME, q, qd, tau, strict=True):
        own.step(time, *sample, gravity=tilted)
    assert own.found().mass == pytest.approx(MASS, abs=2e-3)


def test_what_is_old_is_forgotten(functions, moved):
    q, qd, _, tau, empty = moved
    half, parts = len(TIME) // 2, []
    for horizon in (0.0, 0.5):
        then = np.concatenate([empty[:half], tau[half:]])
        parts.append(fed(functions, q, qd, then, horizon=horizon).found())
    always, lately = parts
    assert lately.mass == pytest.approx(MASS, abs=0.02) and abs(always.mass - MASS) > 0.3


# --- what is not told -----------------------------------------------------------------------------------------


def test_an_arm_at_rest_tells_what_gravity_turns(panda7):
    """Of mass and first moment what is across gravity; inertias not at all: there a ball stands in."""
    q = np.tile(REST, (200, 1))
    zero = np.zeros_like(q)
    tau = torques(q[:1], zero[:1], zero[:1]) + NOISE * np.random.default_rng(0).normal(size=q.shape)
    found = estimated(panda7, q, zero, zero, tau, friction=False)
    down = dn.evaluate(panda7, "frame_pose", REST, link=HAND, backend="numpy")[0].T @ np.array(
        [0.0, 0.0, 1.0]
    )
    across = np.eye(3) - np.outer(down, down)
    assert found.mass == pytest.approx(MASS, abs=0.05)
    assert np.allclose(across @ (found.mass * found.com), across @ (MASS * COM), atol=0.02)
    told = "; ".join(found.not_excited)
    assert all(f"inertia {axes}" in told for axes in ("xx", "xy", "yy", "xz", "yz", "zz"))
    assert "centre of mass along z is not excited" in told and not told.startswith("mass")
    assert found.refusal.startswith("not excited enough: centre of mass along")
    assert "nothing moves" in found.warnings and found.condition == np.inf
    moments = np.linalg.eigvalsh(found.inertia)
    radius = (0.75 * found.mass / np.pi / 1000) ** (1 / 3)
    assert np.allclose(moments, 0.4 * found.mass * radius**2, rtol=0.02), "a ball of water"
    unsure = estimated(panda7, q, zero, zero, tau)
    assert [told.startswith(name) for name, told in zip(WEIGHS, unsure.not_excited, strict=False)] == [
        True
    ] * 4
    assert 0.1 < unsure.mass < 10 and np.allclose(unsure.com, 0, atol=0.01)


def test_one_joint_that_moves(panda7):
    """The last: it turns the hand about its z axis."""
    states = motion(1, moving=[6])
    tau = torques(*states) + rubbing(states[1])
    tau += NOISE * np.random.default_rng(0).normal(size=tau.shape)
    found = estimated(panda7, *states, tau)
    told = "; ".join(found.not_excited)
    assert "mass is not excited" in told and "centre of mass along z is not excited" in told
    assert "along x" not in told and "along y" not in told and "inertia zz" not in told
    assert np.allclose(found.mass * found.com[:2], MASS * COM[:2], atol=0.01)
    assert "panda_joint1" in found.warnings[0] and "do not move" in found.warnings[0]


def test_parameters_that_are_told_together(panda7):
    states = motion(1, moving=[5])
    tau = torques(*states) + NOISE * np.random.default_rng(0).normal(size=states[0].shape)
    found = estimated(panda7, *states, tau)
    told = [told for told in found.not_excited if told.startswith("mass")]
    assert told and "is told only together with" in told[0] and "moment of inertia" in told[0]


def test_an_empty_hand_beside_an_empty_hand():
    """Friction of another law and noise that lasts, as on real arms: what a tare leaves is no payload, and within
    what standard deviations say."""
    arm, apart = Truth(ROBOTS["ur5"].model(), backend="c"), []
    own = arm.linear.places("inertia")
    arm.parameters[own] = arm.linear.described[own] * np.repeat(
        np.linspace(0.95, 1.05, arm.robot.nbodies), 10
    )
    for seed in range(5):
        empty, tare = (
            as_measured(arm, arm.recording(s, noise=0.0, time=np.arange(0.0, 10.0, 0.01)), s, 0.1)
            for s in (seed, seed + 50)
        )
        found = dn.identify_payload(
            arm.robot, "wrist_3_link", [in_chunks(empty)], tare=[in_chunks(tare)], backend="c"
        )
        assert found.refusal
        apart.append(found.fitted.x[0] / found.mass_std)
    assert np.sqrt(np.mean(np.square(apart))) < 2.0


@pytest.mark.parametrize("friction", [True, False])
@pytest.mark.parametrize("recursive", [True, False])
def test_a_robot_at_rest_tells_nothing_by_its_noise(panda7, functions, friction, recursive):
    """Encoders with noise and torques without: there is no motion to learn from."""
    random = np.random.default_rng(0)
    time = np.arange(0.0, 30.0, 0.01)
    q, qd, qdd = random.normal(size=(3, len(time), 7)) * np.array([1e-4, 1e-3, 0.1])[:, None, None]
    q = q + REST
    tau = torques(REST[None], *np.zeros((2, 1, 7))) + 1e-6 * random.normal(size=q.shape)
    if recursive:
        found = fed(functions, q, qd, tau, time).found(friction=friction)
    else:
        run = [recording(q, qd, qdd, tau, time)]
        found = dn.identify_payload(panda7, HAND, run, backend="numpy", friction=friction)
    told = " ".join(found.not_excited)
    assert found.refusal.startswith("not excited enough") and told.count("of inertia") >= 6
    assert "mass is not excited" in told or not friction


def test_nothing_is_carried(panda7, moved):
    q, qd, qdd, _, empty = moved
    noisy = empty + rubbing(qd) + NOISE * np.random.default_rng(0).normal(size=qd.shape)
    found = estimated(panda7, q, qd, qdd, noisy)
    assert found.not_excited == () and "not significantly above zero" in found.refusal
    assert 0 < found.mass < 3 * found.mass_std and np.linalg.eigvalsh(found.inertia)[0] >= 0
    for factor in (1, 1000):
        less = estimated(panda7, q, qd, qdd, empty - factor * (torques(q, qd, qdd) - empty))
        assert less.fitted.x[0] == pytest.approx(-factor * MASS) and "less than described" in less.refusal
        assert "panda_hand 0.73 kg" in less.refusal
        assert np.linalg.eigvalsh(pseudo_inertia(inertias_of_parameters(less.parameters)))[0] > 0


# --- bad input ------------------------------------------------------------------------------------------------


def test_links_that_are_refused(panda7, moved):
    for link, told in (("panda_link0", "'panda_link0'.*fixed"), ("tool9", "'tool9'")):
        with pytest.raises((KeyError, ValueError), match=told):
            estimated(panda7, *moved[:4], link=link)
    floating = ROBOTS["solo12"].model()
    with pytest.raises(ValueError, match="floating base"):
        payload_functions(floating, floating.bodies[-1].name, "numpy")


def test_rows_that_cannot_be_used(panda7, functions, moved):
    q, qd, qdd, tau, _ = moved
    spoilt = tau.copy()
    spoilt[10:20, 3] = np.nan
    found = estimated(panda7, q, qd, qdd, spoilt)
    assert found.samples == len(TIME) - 10 and found.mass == pytest.approx(MASS, abs=1e-8)
    assert "tau is not finite" in found.warnings[0]
    still = recording(q[:50], 0 * qd[:50], 0 * qdd[:50], tau[:50])
    assert "tare: nothing moves" in estimated(panda7, q, qd, qdd, tau, tare=[still]).warnings
    with pytest.raises(IdentificationError, match="row"):
        estimated(panda7, q, qd, qdd, np.nan * tau)
    with pytest.raises(IdentificationError, match="gathered"):
        dn.PayloadEstimator(functions).found()


@pytest.mark.parametrize("argument, told", [(0, r"q\b.*finite"), (1, "qd.*finite"), (2, "tau")])
def test_samples_with_nan(functions, moved, argument, told):
    """Their window does not count, and no number of it stays."""
    q, qd, _, tau, _ = moved
    own, clean = dn.PayloadEstimator(functions), dn.PayloadEstimator(functions)
    for k in range(60):
        sample = [q[k].copy(), qd[k].copy(), tau[k].copy()]
        if k == 13:
            sample[argument][2] = np.nan
            with pytest.raises(dn.InputError, match=told):
                own.step(TIME[k], *sample)
            clean.interrupt()
            continue
        own.step(TIME[k], *sample)
        clean.step(TIME[k], *sample)
    assert own.samples == clean.samples > 0 and np.array_equal(own.sums.total(), clean.sums.total())


@pytest.mark.parametrize("which, size", [(1, 1e9), (1, 1e90), (2, 1e20), (2, 1e140), (2, 1e300)])
def test_numbers_beyond_all_robots(functions, moved, which, size):
    """Are finite, and must not stay in the sums."""
    q, qd, _, tau, _ = moved
    own = fed(functions, q[:40], qd[:40], tau[:40], TIME[:40])
    counted = own.samples
    for k in range(3):
        sample = [part[40 + 6 * k] for part in (q, qd, tau)]
        sample[which] = size * sample[which]
        try:
            own.step(TIME[40 + 6 * k], *sample)
        except dn.InputError as error:
            assert "beyond all torques" in str(error)
        else:
            assert k == 0 or "beyond all robots" in own.trouble
    assert own.samples == counted
    for k in range(60, len(TIME)):
        own.step(TIME[k], q[k], qd[k], tau[k])
    assert own.found().mass == pytest.approx(MASS, abs=5e-3)


def test_clocks_and_positions_that_stand_still(functions, moved):
    q, qd, _, tau, _ = moved
    own = dn.PayloadEstimator(functions)
    assert not own.step(0.0, q[0], qd[0], tau[0])
    for _ in range(20):
        assert not own.step(0.0, q[0], qd[0], tau[0])
    for k in range(1, 10):
        assert not own.step(0.5 * k, q[k], qd[k], tau[k])
    assert "0.5 s apart, where at most 0.2 s" in own.trouble and own.samples == 0
    for k in range(50):  # back in time, and positions are frozen
        own.step(0.02 * k, q[7], qd[7], tau[7])
    assert "positions stand still while velocities say" in own.trouble and own.samples == 0
    assert not own.sums.total().any()
    for k in range(20):  # velocities, too: a robot at rest
        own.step(1.0 + 0.02 * k, q[7], 0 * qd[7], tau[7])
    assert own.trouble == "" and own.samples > 0


def test_however_long_it_rests(functions, moved):
    """What rounding tells does not become knowledge by repetition."""
    q, qd, _, tau, _ = moved
    own = fed(functions, np.tile(q[0], (50, 1)), np.zeros((50, 7)), np.tile(tau[0], (50, 1)), TIME[:50])
    once = own.found(friction=False).not_excited
    own.sums.fade(1e8)
    assert own.found(friction=False).not_excited == once and len(once) >= 7
    assert len(own.found().not_excited) == 10


def test_spreads_of_few_rows():
    """As large as the noise: what the fit has taken is given back."""
    random, spreads = np.random.default_rng(0), []
    for _ in range(100):
        rows, own = random.normal(size=(20, 7, 14)), PayloadSums(7)
        rows[:, :, 10] = 1.0
        own.add(rows)
        spreads.append(fitted(own).spread)
    assert np.mean(np.square(spreads)) == pytest.approx(1.0, abs=0.1)


def test_sums_without_rows():
    found = fitted(PayloadSums(3))
    assert not found.x.any() and not found.information.any()
