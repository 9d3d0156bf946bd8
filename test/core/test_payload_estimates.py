"""The payload of a link from measured torques: against Pinocchio and MuJoCo, with noise, and poor excitation."""

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
from dynamics_node.errors import IdentificationError
from dynamics_node.estimation import payload_functions
from dynamics_node.estimation.payload_fit import fit_payload, payload_sums
from dynamics_node.symbolic import pseudo_inertia

NOISE = 0.2  # N m
WEIGHS = ("mass", *(f"center of mass along {axis}" for axis in "xyz"))


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
    return *states, torques(*states), torques(*states, payload=False)


def identified(model, q, qd, qdd, tau, link=HAND, **options):
    return dn.identify_payload(model, link, [recording(q, qd, qdd, tau)], backend="numpy", **options)


def estimator_after(functions, q, qd, tau, time=TIME, **options):
    """A PayloadEstimator after the given samples."""
    own = dn.PayloadEstimator(functions, **options)
    for sample in zip(time, q, qd, tau, strict=True):
        own.step(*sample)
    return own


# --- regressors of one link -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, link", [("panda7", HAND), ("ur5", "wrist_2_link"), ("tiago", "torso_lift_link")]
)
def test_link_regressor_matches_an_added_body(name, link):
    """Torques of an added body against Pinocchio, momenta against our own model."""
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
    for own, bare_result, loaded_result in zip((P, R), before, after, strict=True):
        assert np.allclose(own @ parameters(), loaded_result - bare_result, atol=1e-9)


def test_link_regressor_of_a_loop_matches_an_added_body():
    robot = robot_of("five_bar")
    link = robot.bodies[-1].name
    q, yd, ydd = closed_states(robot, 3)
    loaded = dn.with_payload(robot, link, MASS, COM, MOMENTS)
    before, after = (
        dn.build(own, dn.inverse_dynamics(own), backend="numpy")(q, yd, ydd) for own in (robot, loaded)
    )
    Y = dn.build(robot, "joint_torque_regressor", backend="numpy", link=link)(q, yd, ydd)
    assert error(Y @ parameters(), after - before).max() <= 1e-9


def test_regressor_of_a_fixed_link_is_zero(panda7):
    q, qd, qdd = np.ones((3, 7))
    assert not joint_torque_regressor(panda7, q, qd, qdd, link="panda_link0").any()
    with pytest.raises(KeyError, match="'tool9'"):
        momentum_regressor(panda7, q, qd, link="tool9")


# --- truth ----------------------------------------------------------------------------------------------------


def test_exact_torques_identify_the_payload(panda7, functions, moved):
    q, qd, qdd, tau, _ = moved
    payload = identified(panda7, q, qd, qdd, tau)
    assert payload.mass == pytest.approx(MASS, abs=1e-8) and np.allclose(payload.com, COM, atol=1e-8)
    assert np.allclose(payload.inertia, MOMENTS, atol=1e-7)
    assert payload.not_excited == () and payload.refusal == "" and payload.samples == len(TIME)
    loaded = dn.build(payload.on(panda7), dn.inverse_dynamics(panda7), backend="numpy")(q, qd, qdd)
    assert error(loaded, tau).max() <= 1e-7


@pytest.mark.parametrize("recursive", [False, True])
def test_errors_are_within_three_standard_deviations(panda7, functions, moved, recursive):
    """Mass, center of mass and inertia for 25 draws of noise with unknown friction; the estimator also has noisy
    velocities."""
    q, qd, qdd, tau, _ = moved
    misses = []
    for seed in range(25):
        random = np.random.default_rng(seed)
        noisy = tau + rubbing(qd) + NOISE * random.normal(size=tau.shape)
        if recursive:
            payload = estimator_after(
                functions, q, qd + 1e-3 * random.normal(size=qd.shape), noisy
            ).estimate()
        else:
            payload = identified(panda7, q, qd, qdd, noisy)
        off = (payload.fitted.x - parameters()) / np.sqrt(np.diagonal(payload.covariance))
        misses.append(
            [(payload.mass - MASS) / payload.mass_std, *(payload.com - COM) / payload.com_std, *off]
        )
        assert np.linalg.eigvalsh(pseudo_inertia(inertias_of_parameters(payload.parameters)))[0] > 0
        assert payload.refusal == "" and payload.mass_std < 0.02
    size = np.sqrt(np.mean(np.square(misses), axis=0))
    assert (np.abs(misses) <= 3).mean() >= 0.99 and size.max() <= 1.5
    assert 0.7 <= size.mean() <= 1.2, "standard deviations match the errors"


def test_batch_and_recursive_estimates_agree(panda7, functions, moved):
    """Accelerations, and momenta over windows (which blur the motion), agree within 1 % of the payload."""
    q, qd, qdd, tau, _ = moved
    time = np.arange(0.0, 8.0, 0.004)
    dense = motion(1, time=time)
    recursive = estimator_after(functions, *dense[:2], torques(*dense) + rubbing(dense[1]), time).estimate()
    batch = identified(panda7, q, qd, qdd, tau + rubbing(qd))
    assert recursive.mass == pytest.approx(batch.mass, rel=1e-3)
    assert np.allclose(recursive.com, batch.com, atol=2e-4)
    assert np.allclose(recursive.inertia, batch.inertia, atol=5e-4)


def test_recursive_estimate_solves_the_least_squares_problem(functions, moved):
    """The reference is one weighted least-squares problem over the rows of all windows."""
    q, qd, _, tau, _ = moved
    time, tau = np.cumsum(np.random.default_rng(3).uniform(0.005, 0.03, len(q))), tau + rubbing(qd)
    estimator = estimator_after(functions, q, qd, tau, time)
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
    assert estimator.samples == start
    fit = fit_payload(estimator.sums)
    spread = fit.spread * np.sqrt(fit.inflation)
    dense = np.zeros((len(rows), 7, 10 + 21))
    dense[:, :, :10] = rows[:, :, :10]
    for joint in range(7):
        dense[:, joint, 10 + 3 * joint : 13 + 3 * joint] = rows[:, joint, 10:13]
    A, b = dense / spread[:, None], rows[:, :, -1] / spread
    x = np.linalg.lstsq(A.reshape(-1, 31), b.ravel(), rcond=None)[0]
    assert np.allclose(estimator.estimate().fitted.x, x[:10], atol=1e-8)
    residual_std = (rows[:, :, -1] - (dense @ x)).std(axis=0)
    assert np.allclose(residual_std, fit.spread, rtol=0.1)
    covariance = np.linalg.inv(A.reshape(-1, 31).T @ A.reshape(-1, 31))[:10, :10]
    assert np.allclose(estimator.estimate().covariance, covariance, rtol=1e-4, atol=1e-12)


def test_payload_of_an_arm_simulated_by_mujoco(monkeypatch):
    """The hand is heavier than described, with the noise of the demo and unknown accelerations."""
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
    estimator = dn.build_payload_estimator(model, HAND)
    for _ in range(4000):
        sample = arm.step()
        estimator.step(sample.time, sample.q, sample.qd, sample.tau)
    payload = estimator.estimate()
    assert payload.refusal == "" and abs(payload.mass - MASS) <= 3 * payload.mass_std < 0.1
    assert np.all(np.abs(payload.com - COM) <= 3 * payload.com_std) and payload.com_std.max() < 0.01


def test_payload_of_a_robot_with_loops():
    robot = robot_of("five_bar")
    link = robot.bodies[-1].name
    q, yd, ydd = closed_states(robot, 300, reach=0.2)
    loaded = dn.with_payload(robot, link, MASS, COM, MOMENTS)
    tau = dn.build(loaded, dn.inverse_dynamics(loaded), backend="numpy")(q, yd, ydd)
    payload = identified(robot, q, yd, ydd, tau, link)
    assert payload.mass == pytest.approx(MASS, rel=1e-5) and payload.com[:2] == pytest.approx(
        COM[:2], rel=1e-4
    )
    assert "center of mass along z is not identifiable: no joint torque depends on it" in payload.not_excited
    assert payload.inertia[2, 2] == pytest.approx(MOMENTS[2, 2], rel=1e-2)


@pytest.mark.parametrize("backend", ["c", "numpy"])
def test_recursive_payload_of_a_robot_with_loops(backend):
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
    payload = estimator_after(functions, q[every], yd[every], tau[every], time[every]).estimate(
        friction=False
    )
    assert payload.mass == pytest.approx(MASS, rel=0.02) and payload.com[:2] == pytest.approx(
        COM[:2], abs=5e-3
    )
    estimator = dn.PayloadEstimator(functions)
    open_loop = q[0] + np.where(np.isin(np.arange(robot.nq), own), 0.0, 0.3)
    with pytest.raises(dn.SolutionError):
        estimator.step(0.0, open_loop, yd[0], tau[0])


# --- friction, tare, and a known payload -----------------------------------------------------------------------


def test_tare_separates_friction_from_mass(panda7, moved):
    """A tare recording separates friction from the payload if the loaded recording is short."""
    q, qd, qdd, tau, empty = moved
    slow = slice(0, 60)  # about a second: too short for friction and payload together
    both = [tau + rubbing(qd), empty + rubbing(qd)]
    random = np.random.default_rng(0)
    loaded, bare = (torque + NOISE * random.normal(size=torque.shape) for torque in both)
    wrong = identified(panda7, q, qd, qdd, loaded, friction=False)
    assert abs(wrong.mass - MASS) > 0.04
    short = (q[slow], qd[slow], qdd[slow], loaded[slow])
    alone = identified(panda7, *short)
    tared = identified(panda7, *short, tare=[recording(q, qd, qdd, bare)])
    assert tared.mass_std < 0.8 * alone.mass_std and abs(tared.mass - MASS) <= 3 * tared.mass_std
    assert tared.samples == 60


def test_tare_removes_errors_of_the_description(panda7):
    """Mass errors of some percent in the links count as payload unless a tare recording removes them."""
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
        payload = dn.identify_payload(panda7, HAND, [loaded], tare=tare, backend="numpy")
        errors.append([abs(payload.mass - MASS), *np.abs(payload.com - COM)])
        assert payload.samples == len(time)
        assert bool(payload.caution) == (not tare)
    uniform = dn.with_parameters(panda7, 0.95 * panda7.inertias, panda7.armature)
    heavier = dn.identify_payload(uniform, HAND, [loaded], backend="numpy").mass
    lighter = dn.identify_payload(panda7, HAND, [loaded], backend="numpy")
    assert lighter.mass_of_description == pytest.approx(heavier - lighter.mass, rel=0.1)
    plain, tared = np.array(errors)
    assert plain[0] > 0.05 and np.all(tared <= [0.02, 0.004, 0.004, 0.004])
    both = dn.identify_payload(panda7, HAND, [empty], tare=[empty], backend="numpy")
    assert "not significantly above zero" in both.refusal and abs(both.fitted.x[0]) < 1e-6


def test_estimate_includes_a_known_payload(panda7, functions, moved):
    """The estimate includes a payload that the model already has."""
    q, qd, _, tau, _ = moved
    half = dn.with_payload(panda7, HAND, 0.5 * MASS, COM, 0.5 * MOMENTS)
    functions = payload_functions(panda7, HAND, "numpy", runtime_parameters=("inertia",))
    plain, own = dn.PayloadEstimator(functions), dn.PayloadEstimator(functions.with_inertias(half))
    for time, *sample in zip(TIME[:40], q[:40], qd[:40], tau[:40], strict=True):
        plain.step(time, *sample)
        own.step(time, *sample, payload=0.5 * parameters())
    assert np.allclose(plain.sums.total()[0], own.sums.total()[0], rtol=1e-9, atol=1e-9)


def test_gravity_may_differ_per_sample(panda7, functions, moved):
    """Gravity is an argument of every sample, as measured by an IMU."""
    q, qd, qdd, _, _ = moved
    tilted = np.array([3.0, -4.0, -8.0])
    loaded = dn.with_payload(panda7, HAND, MASS, COM, MOMENTS)
    tau = dn.build(loaded, dn.inverse_dynamics(loaded), backend="numpy")(q, qd, qdd, gravity=tilted)
    own = dn.PayloadEstimator(functions)
    for time, *sample in zip(TIME, q, qd, tau, strict=True):
        own.step(time, *sample, gravity=tilted)
    assert own.estimate().mass == pytest.approx(MASS, abs=2e-3)


def test_horizon_discounts_old_samples(functions, moved):
    q, qd, _, tau, empty = moved
    half, parts = len(TIME) // 2, []
    for horizon in (0.0, 0.5):
        then = np.concatenate([empty[:half], tau[half:]])
        parts.append(estimator_after(functions, q, qd, then, horizon=horizon).estimate())
    always, lately = parts
    assert lately.mass == pytest.approx(MASS, abs=0.02) and abs(always.mass - MASS) > 0.3


# --- poor excitation -----------------------------------------------------------------------------------------


def test_arm_at_rest_identifies_mass_and_moment_across_gravity(panda7):
    """Mass and the first moment across gravity are identifiable, inertia is not; a ball replaces it."""
    q = np.tile(REST, (200, 1))
    zero = np.zeros_like(q)
    tau = torques(q[:1], zero[:1], zero[:1]) + NOISE * np.random.default_rng(0).normal(size=q.shape)
    payload = identified(panda7, q, zero, zero, tau, friction=False)
    down = dn.evaluate(panda7, "frame_pose", REST, link=HAND, backend="numpy")[0].T @ np.array(
        [0.0, 0.0, 1.0]
    )
    across = np.eye(3) - np.outer(down, down)
    assert payload.mass == pytest.approx(MASS, abs=0.05)
    assert np.allclose(across @ (payload.mass * payload.com), across @ (MASS * COM), atol=0.02)
    reasons = "; ".join(payload.not_excited)
    assert all(f"inertia {axes}" in reasons for axes in ("xx", "xy", "yy", "xz", "yz", "zz"))
    assert "center of mass along z is not excited" in reasons and not reasons.startswith("mass")
    assert payload.refusal.startswith("not excited enough: center of mass along")
    assert "nothing moves" in payload.warnings and payload.condition == np.inf
    moments = np.linalg.eigvalsh(payload.inertia)
    radius = (0.75 * payload.mass / np.pi / 1000) ** (1 / 3)
    assert np.allclose(moments, 0.4 * payload.mass * radius**2, rtol=0.02), "a ball of water"
    unsure = identified(panda7, q, zero, zero, tau)
    assert [reason.startswith(name) for name, reason in zip(WEIGHS, unsure.not_excited, strict=False)] == [
        True
    ] * 4
    assert 0.1 < unsure.mass < 10 and np.allclose(unsure.com, 0, atol=0.01)


def test_last_joint_identifies_only_moments_about_its_axis(panda7):
    """The last joint rotates the hand about its z axis."""
    states = motion(1, moving=[6])
    tau = torques(*states) + rubbing(states[1])
    tau += NOISE * np.random.default_rng(0).normal(size=tau.shape)
    payload = identified(panda7, *states, tau)
    reasons = "; ".join(payload.not_excited)
    assert "mass is not excited" in reasons and "center of mass along z is not excited" in reasons
    assert "along x" not in reasons and "along y" not in reasons and "inertia zz" not in reasons
    assert np.allclose(payload.mass * payload.com[:2], MASS * COM[:2], atol=0.01)
    assert "panda_joint1" in payload.warnings[0] and "do not move" in payload.warnings[0]


def test_dependent_parameters_are_reported_together(panda7):
    states = motion(1, moving=[5])
    tau = torques(*states) + NOISE * np.random.default_rng(0).normal(size=states[0].shape)
    payload = identified(panda7, *states, tau)
    reasons = [reason for reason in payload.not_excited if reason.startswith("mass")]
    assert (
        reasons
        and "is identifiable only in combination with" in reasons[0]
        and "moment of inertia" in reasons[0]
    )


def test_tared_empty_hand_has_no_payload():
    """Friction and noise are those of real arms. The tared estimate of an empty hand is insignificant and consistent with
    its standard deviation."""
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
        payload = dn.identify_payload(
            arm.robot, "wrist_3_link", [in_chunks(empty)], tare=[in_chunks(tare)], backend="c"
        )
        assert payload.refusal
        apart.append(payload.fitted.x[0] / payload.mass_std)
    assert np.sqrt(np.mean(np.square(apart))) < 2.0


@pytest.mark.parametrize("friction", [True, False])
@pytest.mark.parametrize("recursive", [True, False])
def test_noise_of_a_robot_at_rest_is_no_excitation(panda7, functions, friction, recursive):
    """Noisy encoders and precise torques at rest contain no excitation."""
    random = np.random.default_rng(0)
    time = np.arange(0.0, 30.0, 0.01)
    q, qd, qdd = random.normal(size=(3, len(time), 7)) * np.array([1e-4, 1e-3, 0.1])[:, None, None]
    q = q + REST
    tau = torques(REST[None], *np.zeros((2, 1, 7))) + 1e-6 * random.normal(size=q.shape)
    if recursive:
        payload = estimator_after(functions, q, qd, tau, time).estimate(friction=friction)
    else:
        run = [recording(q, qd, qdd, tau, time)]
        payload = dn.identify_payload(panda7, HAND, run, backend="numpy", friction=friction)
    reasons = " ".join(payload.not_excited)
    assert payload.refusal.startswith("not excited enough") and reasons.count("of inertia") >= 6
    assert "mass is not excited" in reasons or not friction


def test_empty_hand_is_not_significant(panda7, moved):
    q, qd, qdd, _, empty = moved
    noisy = empty + rubbing(qd) + NOISE * np.random.default_rng(0).normal(size=qd.shape)
    payload = identified(panda7, q, qd, qdd, noisy)
    assert payload.not_excited == () and "not significantly above zero" in payload.refusal
    assert 0 < payload.mass < 3 * payload.mass_std and np.linalg.eigvalsh(payload.inertia)[0] >= 0
    for factor in (1, 1000):
        less = identified(panda7, q, qd, qdd, empty - factor * (torques(q, qd, qdd) - empty))
        assert less.fitted.x[0] == pytest.approx(-factor * MASS) and "less than described" in less.refusal
        assert "panda_hand 0.73 kg" in less.refusal
        assert np.linalg.eigvalsh(pseudo_inertia(inertias_of_parameters(less.parameters)))[0] > 0


# --- bad input ------------------------------------------------------------------------------------------------


def test_invalid_links_are_rejected(panda7, moved):
    for link, message in (("panda_link0", "'panda_link0'.*fixed"), ("tool9", "'tool9'")):
        with pytest.raises((KeyError, ValueError), match=message):
            identified(panda7, *moved[:4], link=link)
    floating = ROBOTS["solo12"].model()
    with pytest.raises(ValueError, match="floating base"):
        payload_functions(floating, floating.bodies[-1].name, "numpy")


def test_invalid_rows_are_skipped_or_rejected(panda7, functions, moved):
    q, qd, qdd, tau, _ = moved
    faulty = tau.copy()
    faulty[10:20, 3] = np.nan
    payload = identified(panda7, q, qd, qdd, faulty)
    assert payload.samples == len(TIME) - 10 and payload.mass == pytest.approx(MASS, abs=1e-8)
    assert "tau is not finite" in payload.warnings[0]
    still = recording(q[:50], 0 * qd[:50], 0 * qdd[:50], tau[:50])
    assert "tare: nothing moves" in identified(panda7, q, qd, qdd, tau, tare=[still]).warnings
    with pytest.raises(IdentificationError, match="row"):
        identified(panda7, q, qd, qdd, np.nan * tau)
    with pytest.raises(IdentificationError, match="window"):
        dn.PayloadEstimator(functions).estimate()


@pytest.mark.parametrize("argument, message", [(0, r"q\b.*finite"), (1, "qd.*finite"), (2, "tau")])
def test_sample_with_nan_discards_its_window(functions, moved, argument, message):
    """The window of the sample is discarded entirely."""
    q, qd, _, tau, _ = moved
    own, clean = dn.PayloadEstimator(functions), dn.PayloadEstimator(functions)
    for k in range(60):
        sample = [q[k].copy(), qd[k].copy(), tau[k].copy()]
        if k == 13:
            sample[argument][2] = np.nan
            with pytest.raises(dn.InputError, match=message):
                own.step(TIME[k], *sample)
            clean.interrupt()
            continue
        own.step(TIME[k], *sample)
        clean.step(TIME[k], *sample)
    assert own.samples == clean.samples > 0 and np.array_equal(own.sums.total()[0], clean.sums.total()[0])


@pytest.mark.parametrize("which, size", [(1, 1e9), (1, 1e90), (2, 1e20), (2, 1e140), (2, 1e300)])
def test_implausibly_large_numbers_are_discarded(functions, moved, which, size):
    """Such numbers are finite and must not enter the sums."""
    q, qd, _, tau, _ = moved
    own = estimator_after(functions, q[:40], qd[:40], tau[:40], TIME[:40])
    counted = own.samples
    for k in range(3):
        sample = [part[40 + 6 * k] for part in (q, qd, tau)]
        sample[which] = size * sample[which]
        try:
            own.step(TIME[40 + 6 * k], *sample)
        except dn.InputError as error:
            assert "implausibly large" in str(error)
        else:
            assert k == 0 or "implausibly large" in own.trouble
    assert own.samples == counted
    for k in range(60, len(TIME)):
        own.step(TIME[k], q[k], qd[k], tau[k])
    assert own.estimate().mass == pytest.approx(MASS, abs=5e-3)


def test_stopped_clocks_and_frozen_positions_are_discarded(functions, moved):
    q, qd, _, tau, _ = moved
    own = dn.PayloadEstimator(functions)
    assert not own.step(0.0, q[0], qd[0], tau[0])
    for _ in range(20):
        assert not own.step(0.0, q[0], qd[0], tau[0])
    for k in range(1, 10):
        assert not own.step(0.5 * k, q[k], qd[k], tau[k])
    assert "0.5 s apart; at most 0.2 s" in own.trouble and own.samples == 0
    for k in range(50):  # back in time, with frozen positions
        own.step(0.02 * k, q[7], qd[7], tau[7])
    assert "positions are constant although velocities" in own.trouble and own.samples == 0
    assert not own.sums.count.any()
    for k in range(20):  # velocities, too: a robot at rest
        own.step(1.0 + 0.02 * k, q[7], 0 * qd[7], tau[7])
    assert own.trouble == "" and own.samples > 0


def test_repeated_samples_add_no_information(functions, moved):
    """Repetition does not turn rounding errors into information."""
    q, qd, _, tau, _ = moved
    own = estimator_after(
        functions, np.tile(q[0], (50, 1)), np.zeros((50, 7)), np.tile(tau[0], (50, 1)), TIME[:50]
    )
    once = own.estimate(friction=False).not_excited
    own.sums.fade(1e8)
    assert own.estimate(friction=False).not_excited == once and len(once) >= 7
    assert len(own.estimate().not_excited) == 10


def test_spreads_of_few_rows_are_unbiased():
    """Spreads match the noise, since they account for the fitted parameters."""
    random, spreads = np.random.default_rng(0), []
    for _ in range(100):
        rows, own = random.normal(size=(20, 7, 14)), payload_sums(7)
        rows[:, :, 10] = 1.0
        own.accumulate(list(rows.swapaxes(0, 1)))
        spreads.append(fit_payload(own).spread)
    assert np.mean(np.square(spreads)) == pytest.approx(1.0, abs=0.1)


def test_fit_without_rows_is_zero():
    fit = fit_payload(payload_sums(3))
    assert not fit.x.any() and not fit.information.any()
