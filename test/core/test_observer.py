"""The external-torque observer: consistent covariances, the rate of false alarms, unidentifiable wrenches."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from pushes import alarms, nees, observe, simulate, still
from robots import ROBOTS, closed_states, random_states, robot_of
from scipy.stats import chi2, norm
from tolerances import EXACT, error

import dynamics_node as dn
from dynamics_node.estimation.observer_options import _density, _exceeded, _seen, _tail, levels

VELOCITY_STD, TORQUE_STD = 0.01, 0.3
NOISE = {"velocity_std": VELOCITY_STD, "torque_std": TORQUE_STD}
REST = np.array([0.0, -0.6, 0.0, -2.2, 0.0, 1.6, 0.7])  # of the Panda
FORCES = ("force.x", "force.y", "force.z")


def observer(name="panda7", link="panda_hand", runtime_parameters=(), backend="auto", **options):
    options = dn.ObserverOptions(**{**NOISE, "link": link, **options})
    return dn.build_observer(ROBOTS[name].model(), options, backend, runtime_parameters)


def require_consistent(errors, covariances, runs):
    """The mean of e^T C^-1 e over runs lies in its 95 % band."""
    mean, count = nees(errors, covariances), runs * errors.shape[-1]
    low, high = chi2.ppf([0.025, 0.975], count) / count
    assert low <= mean <= high, (low, mean, high)


def pushes_on_arm(runs, seed=0):
    random = np.random.default_rng(seed)
    q, qd = REST + random.uniform(-0.3, 0.3, (runs, 7)), random.uniform(-0.1, 0.1, (runs, 7))
    return q, qd, random.uniform(-1, 1, (runs, 6)) * np.array([0.5, 0.5, 0.5, 5.0, 5.0, 5.0])


# --- covariances --------------------------------------------------------------------------------------------


def test_estimates_of_a_moving_arm_are_consistent():
    """200 runs of our forward dynamics with unknown wrenches and noisy velocities and torques."""
    q, qd, wrench = pushes_on_arm(200)
    run = simulate(ROBOTS["panda7"].model(), q, qd, 400, wrench, "panda_hand", swing=0.4)
    observed = observe(observer(bandwidth=40.0), run, VELOCITY_STD, TORQUE_STD)
    require_consistent(observed.torque - run.pushed[-1], observed.torque_covariance, 200)
    require_consistent(observed.wrench - wrench, observed.wrench_covariance, 200)
    exact = observe(observer(bandwidth=40.0), run, 0.0, 0.0)
    assert np.abs(exact.torque - run.pushed[-1]).max() < 0.1, "the remaining error is lag"


def test_estimates_of_a_floating_base_are_consistent():
    """A quadruped in free fall with one moving leg and a force on it; the base is in body axes, without motors."""
    robot = ROBOTS["solo12"]
    model = dn.load_robot(robot.file, floating_base=True, joints=["FL_HAA", "FL_HFE", "FL_KFE"])
    q, _, _, _ = random_states(model, 200, seed=5)
    q[:, 7:] *= 0.3
    random = np.random.default_rng(6)
    wrench = np.concatenate([np.zeros((200, 3)), random.uniform(-1, 1, (200, 3))], axis=1)
    link = model.bodies[3].name
    run = simulate(model, q, np.zeros((200, 9)), 150, wrench, link, step=5e-4)
    noise = {"velocity_std": 0.01, "torque_std": 0.1}
    own = dn.build_observer(model, dn.ObserverOptions(**noise, link=link, components=FORCES, bandwidth=60.0))
    observed = observe(own, run, *noise.values(), seed=2)
    require_consistent(observed.torque - run.pushed[-1], observed.torque_covariance, 200)
    force = observed.wrench_covariance[:, 3:, 3:]
    require_consistent((observed.wrench - wrench)[:, 3:], force, 200)
    assert not observed.wrench[:, :3].any()


def test_estimates_of_a_loop_are_consistent():
    """A five-bar with motors at two of its four joints."""
    mechanism = robot_of("five_bar")
    q, _, _ = closed_states(mechanism, 60, reach=0.1)
    random = np.random.default_rng(7)
    link, plane, at = mechanism.bodies[-1].name, ("moment.z", "force.y"), [2, 4]
    wrench = np.zeros((60, 6))
    wrench[:, at] = random.uniform(-1, 1, (60, 2))
    run = simulate(mechanism, q, np.zeros((60, 2)), 50, wrench, link, step=2e-3)
    noise = {"velocity_std": 0.005, "torque_std": 0.05}
    own = dn.build_observer(
        mechanism, dn.ObserverOptions(**noise, link=link, components=plane, bandwidth=60.0)
    )
    observed = observe(own, run, *noise.values())
    require_consistent(observed.torque - run.pushed[-1], observed.torque_covariance, 60)
    own_covariance = observed.wrench_covariance[np.ix_(range(60), at, at)]
    require_consistent((observed.wrench - wrench)[:, at], own_covariance, 60)


@pytest.mark.parametrize("samples", [2, 3, 10, 300])
def test_estimates_are_consistent_for_varying_time_steps(samples):
    """From the second sample on, estimates are unbiased and covariances consistent, for any time steps."""
    runs, random = 400, np.random.default_rng(samples)
    q, _, wrench = pushes_on_arm(runs, seed=8)
    time = np.cumsum(np.exp(random.uniform(np.log(2e-4), np.log(2e-2), samples)))
    run = still(ROBOTS["panda7"].model(), q, wrench, "panda_hand", time)
    assert np.abs(observe(observer(), run, 0.0, 0.0).torque - run.pushed[-1]).max() <= 1e-9
    observed = observe(observer(), run, VELOCITY_STD, TORQUE_STD)
    require_consistent(observed.torque - run.pushed[-1], observed.torque_covariance, runs)
    require_consistent(observed.wrench - wrench, observed.wrench_covariance, runs)


def test_constant_torque_offsets_are_in_the_covariance():
    """An offset of the torque sensors enters the covariance of the estimate and causes no contact alarm."""
    offsets = 0.5 * np.random.default_rng(9).standard_normal((300, 7))
    q, _, wrench = pushes_on_arm(300, seed=9)
    run = still(ROBOTS["panda7"].model(), q, wrench, "panda_hand", 1e-3 * np.arange(400))
    observed = observe(observer(model_std=0.5), run._replace(tau=run.tau + offsets), VELOCITY_STD, TORQUE_STD)
    require_consistent(observed.torque - run.pushed[-1], observed.torque_covariance, 300)
    free = still(ROBOTS["panda7"].model(), q, 0.0 * wrench, "panda_hand", 1e-3 * np.arange(400))
    free = free._replace(tau=free.tau + offsets)
    assert (observe(observer(model_std=0.5), free, VELOCITY_STD, TORQUE_STD).judged[..., :-1] < 1.0).all()
    assert (observe(observer(), free, VELOCITY_STD, TORQUE_STD).judged[..., :-1] > 1.0).any()


# --- contact ------------------------------------------------------------------------------------------------


def test_false_alarms_occur_at_their_rate():
    """The rate, per second, of an arm in motion; the same formula applies to one alarm an hour."""
    runs, samples = 200, 1000
    q, qd, _ = pushes_on_arm(runs, seed=10)
    run = simulate(ROBOTS["panda7"].model(), q, qd, samples, swing=3.0)
    for rate in (1.0, 0.2):
        observed = observe(observer(link=None, false_alarms=3600.0 * rate), run, VELOCITY_STD, TORQUE_STD)
        count, expected = alarms(observed.judged[..., :-1].max(axis=-1)), rate * runs * samples * 1e-3
        assert 0.5 * expected <= count <= 2.0 * expected, (rate, count, expected)


@pytest.mark.parametrize("freedom", [1, 7, 30])
def test_levels_follow_rate_and_freedom(freedom):
    """Rarer alarms and more coordinates need higher levels; for a window of one step the level is chi-square's."""
    rare, often = (levels(freedom, 1e-3, (0.002, 0.1), rate) for rate in (1 / 3600, 1.0))
    assert (rare > often).all() and rare[0] > rare[1]
    single = levels(freedom, 1.0, (1e-3,), 1e-6)[0]
    assert abs(single - chi2.isf(1e-6, freedom)) < 0.02 * single


@pytest.mark.parametrize("freedom", [1, 2, 3, 7, 30, 61])
def test_levels_are_those_of_the_distributions_of_scipy(freedom):
    x = np.array([freedom + 2.0, 30.0, 80.0, 400.0])
    for level in x:
        assert np.isclose(_tail(level, freedom), chi2.sf(level, freedom), rtol=1e-11, atol=0)
        assert np.isclose(_density(level, freedom), chi2.pdf(level, freedom), rtol=1e-11, atol=0)
    assert np.isclose(
        _seen(0.7), (2 / 0.7) * (norm.cdf(0.35) - 0.5) / (0.35 * norm.cdf(0.35) + norm.pdf(0.35))
    )
    for level in levels(freedom, 1e-3, (0.002, 0.1), 1 / 3600):
        rates = [
            _exceeded(level * by, freedom, 1e-3, window)
            for by in (1 - 1e-9, 1 + 1e-9)
            for window in (0.002, 0.1)
        ]
        assert min(rates) < 1 / 7200 < max(rates)


def test_a_step_imports_no_scipy():
    """It takes a second, in the thread of the node."""
    code = """
import sys, numpy as np, dynamics_node as dn
robot = dn.example_robot("panda")
observer = dn.build_observer(robot, dn.ObserverOptions(velocity_std=1e-3, torque_std=0.1), backend="numpy")
for k in range(3):
    observer.step(0.01 * k, robot.neutral(), np.zeros(robot.nv), np.zeros(robot.nv))
assert observer.torque is not None
sys.exit(any(name.startswith("scipy.") for name in sys.modules))
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=100).returncode == 0


@pytest.mark.parametrize("force", [2.0, 8.0, 60.0])
def test_contact_ends_as_soon_after_a_hard_push_as_after_a_weak_one(force):
    """Contact ends within twice the longest window, at one false alarm an hour, and persists during the push. A hard
    push is detected within 20 ms. The arm stays at rest, since the motors balance the force."""
    model, own = ROBOTS["panda7"].model(), observer(false_alarms=1.0)
    weight = dn.evaluate(model, "nonlinear_effects", REST, np.zeros(7), backend="numpy")
    for direction in np.eye(3):
        random, on = np.random.default_rng(int(force)), []
        push = dn.evaluate(
            model, "frame_jacobian", REST, link="panda_hand", reference="body", backend="numpy"
        ).T @ np.array([0, 0, 0, *force * direction])
        own.reset()
        for k in range(1400):
            pushed = push if 300 <= k < 1000 else 0.0
            qd = VELOCITY_STD * random.standard_normal(7)
            own.step(k * 1e-3, REST, qd, weight - pushed + TORQUE_STD * random.standard_normal(7))
            on.append(own.contact)
        assert not any(on[:300]) and all(on[400:1000]) and not any(on[1240:])
        assert any(on[300:320]) or force < 10.0


# --- samples and options ------------------------------------------------------------------------------------


def sample(model, seed=0):
    q, qd, _, _ = random_states(model, 1, seed)
    return q[0], qd[0], dn.evaluate(model, "nonlinear_effects", q[0], qd[0], backend="numpy")


def test_invalid_samples_are_rejected():
    """Invalid numbers raise an error with the name and change nothing. A gap or an earlier time restarts the observer."""
    model, own = ROBOTS["panda7"].model(), observer()
    q, _, tau = sample(model)
    qd, push = np.zeros(7), np.arange(7.0)
    tau = dn.evaluate(model, "nonlinear_effects", q, qd, backend="numpy")
    assert not own.step(0.0, q, qd, tau - push) and own.step(0.001, q, qd, tau - push)
    assert error(own.torque, push) <= 1e-9
    for bad in (np.nan, np.inf):
        for k, name in enumerate(("q", "qd", "tau")):
            state = [q.copy(), qd.copy(), tau.copy()]
            state[k][3] = bad
            with pytest.raises(dn.InputError, match=rf"{name}\[3\].*panda_joint4"):
                own.step(0.002, *state)
    with pytest.raises(dn.InputError, match="tau .*shape"):
        own.step(0.002, q, qd, tau[:6])
    assert not own.step(0.001, q, qd, tau), "the same sample again"
    assert own.step(0.003, q.tolist(), qd, tau - push) and error(own.torque, push) <= 1e-9
    assert not own.step(0.4, q, qd, tau - push), "a gap"
    assert not own.step(0.3, q, qd, tau - push), "back in time"
    assert own.step(0.301, q, qd, tau) and np.abs(own.torque).max() <= 0.5 * 7 + 1e-9
    with pytest.raises(dn.InputError, match="time.*finite"):
        own.step(np.nan, q, qd, tau)


def test_results_agree_without_a_compiler_and_after_pickling():
    model = ROBOTS["panda7"].model()
    compiled = observer(backend="c")
    others = [observer(backend="numpy"), pickle.loads(pickle.dumps(compiled))]
    for k in range(4):
        state = sample(model, seed=k)
        for own in (compiled, *others):
            own.step(k * 1e-3, *state)
    for own in others:
        assert error(own.torque, compiled.torque) <= EXACT and error(own.wrench, compiled.wrench) <= 1e-8
        assert abs(own.alarm - compiled.alarm) <= 1e-8 * compiled.alarm


def test_steps_reuse_their_arrays():
    """Results are in the same arrays after every step."""
    model, own = ROBOTS["panda7"].model(), observer()
    before = own.torque, own.torque_covariance, own.wrench, own.wrench_covariance
    for k in range(4):
        own.step(k * 1e-3, *sample(model, seed=k))
    after = own.torque, own.torque_covariance, own.wrench, own.wrench_covariance
    assert all(a is b for a, b in zip(before, after, strict=True)) and np.isfinite(own.wrench).all()


def test_observer_follows_a_payload():
    model = ROBOTS["panda7"].model()
    loaded = dn.with_payload(model, "panda_hand", 2.0, (0.0, 0.1, 0.1), 0.01 * np.eye(3))
    own = observer(runtime_parameters=("inertia",)).with_inertias(loaded)
    effort = dn.evaluate(loaded, "gravity_torque", REST, backend="numpy")
    for k in range(3):
        own.step(k * 1e-3, REST, np.zeros(7), effort)
    assert np.abs(own.torque).max() <= 1e-9
    with pytest.raises(ValueError, match="constant inertia"):
        observer().with_inertias(loaded)


def test_unidentifiable_wrenches_are_named():
    """build raises an error if no position identifies the wrench; at a singular position it is NaN and named."""
    mechanism = robot_of("five_bar")
    with pytest.raises(ValueError, match=r"2 joint torques.*moment.*link"):
        dn.build_observer(mechanism, dn.ObserverOptions(**NOISE, link=mechanism.bodies[-1].name))
    with pytest.raises(KeyError, match="hand"):
        observer(link="hand")
    model = ROBOTS["ur5"].model()
    own = dn.build_observer(model, dn.ObserverOptions(**NOISE, link="wrist_3_link"))
    for q5, known in ((0.8, True), (0.0, False)):
        q = np.array([0.3, -1.0, 1.2, -0.5, q5, 0.4])
        effort = dn.evaluate(model, "gravity_torque", q, backend="numpy")
        own.reset()
        for k in range(3):
            own.step(k * 1e-3, q, np.zeros(6), effort)
        assert np.isfinite(own.wrench).all() == known == (not own.unidentified(q))
        assert np.isfinite(own.torque).all()


def test_open_loop_raises_an_error():
    mechanism = robot_of("five_bar")
    q, yd, _ = closed_states(mechanism, 1)
    own = dn.build_observer(mechanism, dn.ObserverOptions(**NOISE))
    own.step(0.0, q[0], yd[0], np.zeros(2))
    with pytest.raises(dn.SolutionError, match="open"):
        own.step(0.001, q[0] + 0.1, yd[0], np.zeros(2))
    assert own.step(0.001, q[0], yd[0], np.zeros(2))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"velocity_std": 0.0}, "velocity_std"),
        ({"torque_std": (0.1, 0.2)}, "torque_std.* 2 .* 7 .*panda_joint1"),
        ({"model_std": -1.0}, "model_std"),
        ({"bandwidth": np.inf}, "bandwidth"),
        ({"components": ("force.w",)}, "'force.w'.*moment.x"),
        ({"components": ()}, "components"),
        ({"components": ("force.x", "force.x")}, "each once"),
        ({"windows": ()}, "windows"),
    ],
)
def test_invalid_options_are_rejected(options, message):
    with pytest.raises(ValueError, match=message):
        observer(**options)


@pytest.mark.parametrize("swing", [0.0, 1.0])
def test_filtered_velocities_cause_no_extra_alarms(swing):
    """A minute with velocities from a JointFilter, whose errors are correlated: alarms are at most at their rate, and
    errors are at most as large as the covariance."""
    model, random = ROBOTS["panda7"].model(), np.random.default_rng(12)
    time, speed = 1e-3 * np.arange(60_000), random.uniform(1.0, 3.0, 7)
    angle = np.outer(time, speed)
    motion = np.array([np.sin(angle), speed * np.cos(angle), -(speed**2) * np.sin(angle)])
    q, qd, qdd = 0.2 * swing * motion
    q += REST
    tau = dn.build(model, dn.inverse_dynamics(model))(q, qd, qdd)
    tau = tau + TORQUE_STD * random.standard_normal(tau.shape)
    encoders = q + 1e-5 * random.standard_normal(q.shape)
    rates = dn.JointFilter(model, 1e-5, 100.0)
    own = observer(
        link=None, false_alarms=3600.0, velocity_correlation_time=rates.velocity_correlation_time(1e-3)
    )
    alarm, samples = [], []
    for now, reading, torque in zip(time.tolist(), encoders, tau, strict=True):
        if rates.step(now, reading):
            position, velocity, variance = rates.position, rates.velocity, rates.velocity_variance
            if own.step(now, position, velocity, torque, velocity_variance=variance) and now > 1.0:
                alarm.append(own.alarm)
                if len(alarm) % 200 == 0:
                    samples.append((own.torque.copy(), own.torque_covariance.copy()))
    assert alarms(np.array(alarm)[:, None]) <= 59
    errors, covariances = map(np.array, zip(*samples, strict=True))
    assert 0.2 <= nees(errors, covariances) <= 1.1
