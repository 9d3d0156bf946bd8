"""The external-torque observer: honest covariances, alarms at their rate, and nothing that is not known."""

import pickle

import numpy as np
import pytest
from pushes import alarms, nees, observe, simulate, still
from robots import ROBOTS, closed_states, random_states, robot_of
from scipy.stats import chi2
from tolerances import EXACT, error

import dynamics_node as dn
from dynamics_node.estimation.observer_options import levels

VELOCITY_STD, TORQUE_STD = 0.01, 0.3
NOISE = {"velocity_std": VELOCITY_STD, "torque_std": TORQUE_STD}
REST = np.array([0.0, -0.6, 0.0, -2.2, 0.0, 1.6, 0.7])  # of the Panda
FORCES = ("force.x", "force.y", "force.z")


def observer(name="panda7", link="panda_hand", runtime_parameters=(), backend="auto", **options):
    options = dn.ObserverOptions(**{**NOISE, "link": link, **options})
    return dn.build_observer(ROBOTS[name].model(), options, backend, runtime_parameters)


def require_honest(errors, covariances, runs):
    """The mean of e^T C^-1 e over runs lies in its 95 % band."""
    found, count = nees(errors, covariances), runs * errors.shape[-1]
    low, high = chi2.ppf([0.025, 0.975], count) / count
    assert low <= found <= high, (low, found, high)


def pushes_on_arm(runs, seed=0):
    random = np.random.default_rng(seed)
    q, qd = REST + random.uniform(-0.3, 0.3, (runs, 7)), random.uniform(-0.1, 0.1, (runs, 7))
    return q, qd, random.uniform(-1, 1, (runs, 6)) * np.array([0.5, 0.5, 0.5, 5.0, 5.0, 5.0])


# --- covariances --------------------------------------------------------------------------------------------


def test_arm_in_motion():
    """200 runs of our forward dynamics with unknown pushes, noise on velocities and torques."""
    q, qd, wrench = pushes_on_arm(200)
    run = simulate(ROBOTS["panda7"].model(), q, qd, 400, wrench, "panda_hand", swing=0.4)
    found = observe(observer(bandwidth=40.0), run, VELOCITY_STD, TORQUE_STD)
    require_honest(found.torque - run.pushed[-1], found.torque_covariance, 200)
    require_honest(found.wrench - wrench, found.wrench_covariance, 200)
    exact = observe(observer(bandwidth=40.0), run, 0.0, 0.0)
    assert np.abs(exact.torque - run.pushed[-1]).max() < 0.1, "what is left is lag"


def test_floating_base():
    """A quadruped that moves one leg, in free fall, is pushed there: base in body axes, no motor there."""
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
    found = observe(own, run, *noise.values(), seed=2)
    require_honest(found.torque - run.pushed[-1], found.torque_covariance, 200)
    force = found.wrench_covariance[:, 3:, 3:]
    require_honest((found.wrench - wrench)[:, 3:], force, 200)
    assert not found.wrench[:, :3].any()


def test_loops():
    """The five-bar, two of whose four joints have motors."""
    mechanism = robot_of("five_bar")
    q, _, _ = closed_states(mechanism, 100, reach=0.1)
    random = np.random.default_rng(7)
    link, plane, at = mechanism.bodies[-1].name, ("moment.z", "force.y"), [2, 4]
    wrench = np.zeros((100, 6))
    wrench[:, at] = random.uniform(-1, 1, (100, 2))
    run = simulate(mechanism, q, np.zeros((100, 2)), 120, wrench, link, step=1e-3)
    noise = {"velocity_std": 0.005, "torque_std": 0.05}
    own = dn.build_observer(
        mechanism, dn.ObserverOptions(**noise, link=link, components=plane, bandwidth=60.0)
    )
    found = observe(own, run, *noise.values())
    require_honest(found.torque - run.pushed[-1], found.torque_covariance, 100)
    own_covariance = found.wrench_covariance[np.ix_(range(100), at, at)]
    require_honest((found.wrench - wrench)[:, at], own_covariance, 100)


@pytest.mark.parametrize("samples", [2, 3, 10, 300])
def test_steps_that_vary(samples):
    """From the second sample on, whatever the steps: without bias, covariance as told."""
    runs, random = 400, np.random.default_rng(samples)
    q, _, wrench = pushes_on_arm(runs, seed=8)
    time = np.cumsum(np.exp(random.uniform(np.log(2e-4), np.log(2e-2), samples)))
    run = still(ROBOTS["panda7"].model(), q, wrench, "panda_hand", time)
    assert np.abs(observe(observer(), run, 0.0, 0.0).torque - run.pushed[-1]).max() <= 1e-9
    found = observe(observer(), run, VELOCITY_STD, TORQUE_STD)
    require_honest(found.torque - run.pushed[-1], found.torque_covariance, runs)
    require_honest(found.wrench - wrench, found.wrench_covariance, runs)


def test_errors_that_stay():
    """An offset of the torque sensors is in the covariance of the estimate, and makes no contact."""
    offsets = 0.5 * np.random.default_rng(9).standard_normal((300, 7))
    q, _, wrench = pushes_on_arm(300, seed=9)
    run = still(ROBOTS["panda7"].model(), q, wrench, "panda_hand", 1e-3 * np.arange(400))
    found = observe(observer(model_std=0.5), run._replace(tau=run.tau + offsets), VELOCITY_STD, TORQUE_STD)
    require_honest(found.torque - run.pushed[-1], found.torque_covariance, 300)
    free = still(ROBOTS["panda7"].model(), q, 0.0 * wrench, "panda_hand", 1e-3 * np.arange(400))
    free = free._replace(tau=free.tau + offsets)
    assert (observe(observer(model_std=0.5), free, VELOCITY_STD, TORQUE_STD).judged[..., :-1] < 1.0).all()
    assert (observe(observer(), free, VELOCITY_STD, TORQUE_STD).judged[..., :-1] > 1.0).any()


# --- contact ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [1.0, 0.2])
def test_false_alarms_at_their_rate(rate):
    """Of an arm in motion, so many a second; from there to one an hour it is the same formula."""
    runs, samples = 100, 2000
    q, qd, _ = pushes_on_arm(runs, seed=10)
    run = simulate(ROBOTS["panda7"].model(), q, qd, samples, swing=3.0)
    found = observe(observer(link=None, false_alarms=3600.0 * rate), run, VELOCITY_STD, TORQUE_STD)
    count, expected = alarms(found.judged[..., :-1].max(axis=-1)), rate * runs * samples * 1e-3
    assert 0.5 * expected <= count <= 2.0 * expected, (count, expected)


@pytest.mark.parametrize("freedom", [1, 7, 30])
def test_levels(freedom):
    """Rarer alarms and more coordinates need higher levels; a window of one step is chi-square itself."""
    rare, often = (levels(freedom, 1e-3, (0.002, 0.1), rate) for rate in (1 / 3600, 1.0))
    assert (rare > often).all() and rare[0] > rare[1]
    single = levels(freedom, 1.0, (1e-3,), 1e-6)[0]
    assert abs(single - chi2.isf(1e-6, freedom)) < 0.02 * single


@pytest.mark.parametrize("force", [2.0, 8.0, 60.0])
def test_contact_ends_as_soon_after_a_hard_push_as_after_a_weak_one(force):
    """Within twice the longest window, at one false alarm an hour; while the push lasts, contact stays."""
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


def test_contact_begins_and_ends():
    """At one false alarm an hour a push of 10 N shows within 20 ms, and its end as well."""
    model, own = ROBOTS["panda7"].model(), observer(false_alarms=1.0)
    random, q, zero = np.random.default_rng(11), REST.copy(), np.zeros(7)
    weight = dn.evaluate(model, "nonlinear_effects", q, zero, backend="numpy")
    push = dn.evaluate(
        model, "frame_jacobian", q, link="panda_hand", reference="body", backend="numpy"
    ).T @ np.array([0, 0, 0, 0, 0, 10.0])
    on = []
    for k in range(3000):
        pushed = push if 1000 <= k < 2000 else zero
        qd = VELOCITY_STD * random.standard_normal(7)
        own.step(k * 1e-3, q, qd, weight - pushed + TORQUE_STD * random.standard_normal(7))
        on.append(own.contact)
    # the arm stands still while it is pushed: the motors bear it, as those of a stiff controller do
    assert not any(on[:1000]) and any(on[1000:1020]) and all(on[1100:2000]) and not any(on[2500:])


# --- what it takes, and what it refuses ---------------------------------------------------------------------


def sample(model, seed=0):
    q, qd, _, _ = random_states(model, 1, seed)
    return q[0], qd[0], dn.evaluate(model, "nonlinear_effects", q[0], qd[0], backend="numpy")


def test_samples_that_are_none():
    """Bad numbers are refused by name and change nothing; a gap or a time before the last begins anew."""
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


def test_same_numbers_without_a_compiler_and_after_pickling():
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


def test_nothing_is_allocated():
    """The arrays of a result are the same in every step."""
    model, own = ROBOTS["panda7"].model(), observer()
    before = own.torque, own.torque_covariance, own.wrench, own.wrench_covariance
    for k in range(4):
        own.step(k * 1e-3, *sample(model, seed=k))
    after = own.torque, own.torque_covariance, own.wrench, own.wrench_covariance
    assert all(a is b for a, b in zip(before, after, strict=True)) and np.isfinite(own.wrench).all()


def test_payloads():
    model = ROBOTS["panda7"].model()
    loaded = dn.with_payload(model, "panda_hand", 2.0, (0.0, 0.1, 0.1), 0.01 * np.eye(3))
    own = observer(runtime_parameters=("inertia",)).with_inertias(loaded)
    q = REST.copy()
    for k in range(3):
        own.step(
            k * 1e-3,
            q,
            np.zeros(7),
            dn.evaluate(loaded, "nonlinear_effects", q, np.zeros(7), backend="numpy"),
        )
    assert np.abs(own.torque).max() <= 1e-9
    with pytest.raises(ValueError, match="constant inertia"):
        observer().with_inertias(loaded)


def test_wrenches_that_joints_do_not_tell():
    """Refused at build where no position tells them, NaN and named where this one does not."""
    mechanism = robot_of("five_bar")
    with pytest.raises(ValueError, match=r"2 joint torques.*moment.*link"):
        dn.build_observer(mechanism, dn.ObserverOptions(**NOISE, link=mechanism.bodies[-1].name))
    with pytest.raises(KeyError, match="hand"):
        observer(link="hand")
    model = ROBOTS["ur5"].model()
    own = dn.build_observer(model, dn.ObserverOptions(**NOISE, link="wrist_3_link"))
    for q5, known in ((0.8, True), (0.0, False)):
        q = np.array([0.3, -1.0, 1.2, -0.5, q5, 0.4])
        own.reset()
        for k in range(3):
            own.step(
                k * 1e-3,
                q,
                np.zeros(6),
                dn.evaluate(model, "nonlinear_effects", q, np.zeros(6), backend="numpy"),
            )
        assert np.isfinite(own.wrench).all() == known == (not own.unidentified(q))
        assert np.isfinite(own.torque).all()


def test_loops_that_are_open():
    mechanism = robot_of("five_bar")
    q, yd, _ = closed_states(mechanism, 1)
    own = dn.build_observer(mechanism, dn.ObserverOptions(**NOISE))
    own.step(0.0, q[0], yd[0], np.zeros(2))
    with pytest.raises(dn.SolutionError, match="open"):
        own.step(0.001, q[0] + 0.1, yd[0], np.zeros(2))
    assert own.step(0.001, q[0], yd[0], np.zeros(2))


@pytest.mark.parametrize(
    "options, told",
    [
        ({"velocity_std": 0.0}, "velocity_std"),
        ({"torque_std": (0.1, 0.2)}, "torque_std.* 2 .* 7 .*panda_joint1"),
        ({"model_std": -1.0}, "model_std"),
        ({"bandwidth": np.inf}, "bandwidth"),
        ({"components": ("force.w",)}, "'force.w'.*moment.x"),
        ({"components": ()}, "at least one"),
        ({"windows": ()}, "windows"),
    ],
)
def test_options_that_cannot_be(options, told):
    with pytest.raises(ValueError, match=told):
        observer(**options)


@pytest.mark.parametrize("swing", [0.0, 1.0])
def test_velocities_from_encoders(swing):
    """A minute of an arm whose velocities come from a JointFilter: its errors last, so nothing is said that
    is not so: alarms are at most at their rate, errors at most as large as told."""
    model, random = ROBOTS["panda7"].model(), np.random.default_rng(12)
    time, speed = 1e-3 * np.arange(60_000), random.uniform(1.0, 3.0, 7)
    angle = np.outer(time, speed)
    q, qd, qdd = (
        rest + swing * 0.2 * part
        for rest, part in (
            (REST, np.sin(angle)),
            (0.0, speed * np.cos(angle)),
            (0.0, -(speed**2) * np.sin(angle)),
        )
    )
    tau = dn.build(model, dn.inverse_dynamics(model))(q, qd, qdd)
    tau = tau + TORQUE_STD * random.standard_normal(tau.shape)
    encoders = q + 1e-5 * random.standard_normal(q.shape)
    rates = dn.JointFilter(7, 1e-5, 100.0)
    own = observer(
        link=None, false_alarms=3600.0, velocity_correlation_time=rates.velocity_correlation_time(1e-3)
    )
    alarm, found = [], []
    for now, reading, torque in zip(time.tolist(), encoders, tau, strict=True):
        if rates.step(now, reading):
            position, velocity, variance = rates.position, rates.velocity, rates.velocity_variance
            if own.step(now, position, velocity, torque, velocity_variance=variance) and now > 1.0:
                alarm.append(own.alarm)
                if len(alarm) % 200 == 0:
                    found.append((own.torque.copy(), own.torque_covariance.copy()))
    assert alarms(np.array(alarm)[:, None]) <= 59
    errors, covariances = map(np.array, zip(*found, strict=True))
    assert 0.2 <= nees(errors, covariances) <= 1.1
