"""Base parameters, the excitation of motions, and identification from data with known truth."""

import contextlib
import re

import numpy as np
import pytest
from identified import TIME, Truth, damaged, in_chunks, torque_rmse
from oracle import Oracle, pin
from robots import ROBOTS, PublishedRobot, closed_states, random_states, robot_of

import dynamics_node as dn
from dynamics_node.algorithms import inertias_of_parameters
from dynamics_node.errors import IdentificationError
from dynamics_node.identification import (
    ConsistentFit,
    RegressorModel,
    Sums,
    base_parameters,
    identified_robot,
    identify,
    summary,
    weighted,
)
from dynamics_node.robot.inertial_parameters import with_parameters
from dynamics_node.symbolic import pseudo_inertia

# --- base parameters ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, count", [("panda7", 43), ("ur5", 36), ("kinova", None), ("solo12", None)])
def test_count_is_the_rank_of_pinocchios_regressor(name, count):
    """By singular values; the literature has 43 for a Panda and 36 for a UR5."""
    model = ROBOTS[name].model()
    base = base_parameters(RegressorModel(model, ("inertia",), "numpy"))
    oracle = Oracle(ROBOTS[name], model)
    states = random_states(model, 60, seed=2)[:3]
    rows = [
        pin.computeJointTorqueRegressor(
            oracle.pin, oracle.data, oracle.q(q), oracle.v(qd), oracle.v(qdd)
        ).copy()
        for q, qd, qdd in zip(*states, strict=True)
    ]
    W = np.concatenate(rows)
    sizes = np.linalg.norm(W, axis=0)
    W = W[:, sizes > 1e-9] / sizes[sizes > 1e-9]
    values = np.linalg.svd(W, compute_uv=False)
    assert base.count == np.count_nonzero(values > 1e-9 * values[0])
    assert count is None or base.count == count


@pytest.mark.parametrize("name", ["panda7", "five_bar", "universal"])
def test_torques_follow_from_base_parameters(name):
    robot = robot_of(name) if name not in ROBOTS else ROBOTS[name].model()
    terms = ("inertia", "rotor", "viscous", "coulomb", "creep", "offset", "spring")
    linear = RegressorModel(robot, terms, "numpy")
    base = base_parameters(linear)
    q, qd, qdd = states_of(robot)
    p = np.random.default_rng(0).uniform(-1, 1, len(linear.names))
    W = linear.matrix(q, qd, qdd)
    assert np.allclose(base.reduced(W) @ base.values(p), W @ p, atol=1e-8)
    unidentifiable = [linear.names.index(name) for name in base.unidentifiable]
    assert not W[:, :, unidentifiable].any() or np.abs(W[:, :, unidentifiable]).max() <= 1e-9
    joints_by_parameter, joints_by_name = (
        dict(zip(base.names, base.dependence.T, strict=True)),
        dict(zip(base.expressions, base.affected_joints, strict=True)),
    )
    assert all(joints_by_parameter[base.names[column]].any() for column in base.chosen) and all(
        joints_by_name.values()
    )


def states_of(robot):
    return closed_states(robot, 5, reach=0.03) if robot.constrained else random_states(robot, 5)[:3]


def test_names_of_base_parameters():
    """A planar pendulum of two links: Izz of the first includes the mass that hangs on it."""
    base = base_parameters(RegressorModel(robot_of("five_bar"), ("inertia",), "numpy"))
    assert "left_upper.Izz + 0.16 left_lower.m + 0.64 right_lower.Izz" in base.expressions
    assert "left_lower.my" in base.alone and "left_lower.Ixx" in base.unidentifiable
    model = ROBOTS["panda7"].model()
    last = base_parameters(RegressorModel(model, ("inertia",), "numpy", ("panda_joint7",)))
    assert all(name.startswith("panda_link7") for name in last.alone) and 0 < last.count < 10
    with pytest.raises(ValueError, match="'elbow'"):
        RegressorModel(model, measured=("elbow",))
    with pytest.raises(ValueError, match=r"terms.*'mass'"):
        RegressorModel(model, ("mass",))


# --- identification -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def arm():
    return Truth(ROBOTS["ur5"].model())


@pytest.fixture(scope="module")
def fit(arm):
    return fit_recordings(arm, arm.recording(1), arm.recording(2))


def fit_recordings(arm, *recordings, **options):
    return identify(arm.robot, map(in_chunks, recordings), backend="numpy", **options)


def test_fit_is_as_good_as_the_truth(arm, fit):
    """On an unseen motion, with physically consistent parameters."""
    unseen = arm.recording(9)
    assert torque_rmse(arm, arm.linear.described, unseen).max() > 1.0
    assert np.all(torque_rmse(arm, fit.parameters, unseen) <= 1.05 * torque_rmse(arm, arm.parameters, unseen))
    assert np.allclose(fit.rmse_cross_validated, 0.05, rtol=0.1) and fit.better and not fit.warnings
    inertias = inertias_of_parameters(fit.parameters[fit.linear.places("inertia")].reshape(-1, 10))
    assert np.linalg.eigvalsh(pseudo_inertia(inertias)).min() > 0
    robot = fit.robot
    assert np.allclose(robot.inertias, inertias)
    assert np.allclose(robot.damping, fit.parameters[fit.linear.places("viscous")])


def test_errors_match_the_covariance(arm, fit):
    """Base parameters from data with other noise, against their covariance."""
    linear, base = arm.linear, fit.base
    clean, right = arm.recording(1, noise=0.0, time=TIME[::4]), base.values(arm.parameters)
    start, inside = base.values(linear.described), 0
    W = base.reduced(linear.matrix(clean["q"], clean["qd"], clean["qdd"]))
    random = np.random.default_rng(0)
    for _ in range(20):
        sums = Sums(linear, base)
        noisy = W @ right + 0.05 * random.normal(size=W.shape[:2])
        rows = np.concatenate([W, noisy[..., None]], axis=-1)
        sums.accumulate([rows[:, joint, columns] for joint, columns in enumerate(sums.columns)])
        solution = weighted(sums, start)
        deviation = solution.x - right
        inside += deviation @ solution.information @ deviation <= base.count + 3 * np.sqrt(2 * base.count)
    assert inside >= 19


def test_sums_of_recordings_are_added(arm, fit):
    """In order, with about as many rows in every stretch; those of one recording stay as they are."""
    linear, base, random = arm.linear, fit.base, np.random.default_rng(5)
    every = Sums(linear, base)
    counts = np.array([7000, 40, 1, 3000, 12_000, 20, 0, *[100] * 70, 939])
    rows = random.normal(size=(counts.sum(), arm.robot.nv, base.count + 1))

    def sums_of(part):
        sums = Sums(linear, base)
        sums.accumulate([part[:, joint, columns] for joint, columns in enumerate(sums.columns)])
        return sums

    parts = [sums_of(part) for part in np.split(rows, np.cumsum(counts)[:-1])]
    for part in parts:
        every.append(part)
    (S, count), (expected, _) = every.total(), sums_of(rows).total()
    assert np.allclose(S, expected, rtol=1e-12, atol=1e-9) and np.all(count == len(rows))
    stretches = every.count[every.count[:, 0] > 0, 0]
    assert len(stretches) >= 8 and stretches.max() <= 2 * np.median(stretches)
    alone = Sums(linear, base)
    alone.append(parts[0])
    assert np.array_equal(alone.count, parts[0].count)
    assert all(map(np.array_equal, alone.products, parts[0].products))


def test_robot_with_loops():
    """Torques of the driven joints, including friction of dependent joints."""
    robot = robot_of("five_bar")
    linear = RegressorModel(robot, backend="numpy")
    q, qd, qdd = closed_states(robot, 600, reach=0.2)
    truth, random = 1.3 * linear.described + 0.01, np.random.default_rng(0)
    W = linear.matrix(q, qd, qdd)
    recording = {"q": q, "qd": qd, "qdd": qdd, "tau": W @ truth + 0.01 * random.normal(size=qd.shape)}
    fit = identify(robot, [lambda: iter([recording])], backend="numpy")
    rmse = np.sqrt(np.mean((W @ fit.parameters - W @ truth) ** 2, axis=0))
    assert np.all(rmse <= 0.005) and fit.rmse_nominal.min() > 0.05
    assert fit.robot.clusters is robot.clusters
    tau = dn.build(fit.robot, dn.inverse_dynamics(fit.robot), backend="numpy")(q, qd, qdd)
    p = np.concatenate(
        [fit.parameters[linear.places("inertia")], np.zeros(len(linear.names) - 10 * robot.nbodies)]
    )
    assert np.allclose(W @ p, tau, atol=1e-9)


def test_mimic_joints_keep_their_friction():
    model = ROBOTS["panda"].model()
    linear = RegressorModel(model, backend="numpy")
    p = linear.described.copy()
    p[linear.places("viscous")] += 0.5
    robot = identified_robot(linear, p)
    assert np.allclose(robot.damping, model.damping + 0.5) and np.allclose(robot.friction, model.friction)
    assert np.allclose(robot.inertias, model.inertias)


def test_robust_and_ordinary(arm):
    """A tenth of the samples are outliers."""
    recording = arm.recording(1)
    random = np.random.default_rng(3)
    recording["tau"] += (
        20.0 * random.normal(size=recording["tau"].shape) * (random.random((len(TIME), 1)) < 0.1)
    )
    unseen = arm.recording(9)
    plain, robust = (
        identify(arm.robot, [in_chunks(recording)], method=method) for method in ("ordinary", "robust")
    )
    errors = [np.mean(torque_rmse(arm, fit.parameters, unseen)) for fit in (plain, robust)]
    assert errors[1] < 0.7 * errors[0]
    with pytest.raises(ValueError, match="method 'best'"):
        identify(arm.robot, [], method="best")


@pytest.mark.parametrize("kind", ["zeros", "one without mass", "impossible", "the same"])
def test_wrong_descriptions_do_not_bias_the_fit(arm, kind):
    """The torques, not the described inertias, determine the result."""
    inertias = arm.robot.inertias.copy()
    if kind == "zeros":
        inertias[:] = 0.0
    elif kind == "one without mass":
        inertias[2] = 0.0
    elif kind == "impossible":
        inertias[:, :3, :3] *= -1.0
    else:
        inertias[:] = np.eye(6)
    recording, unseen = arm.recording(1), arm.recording(9)
    robot = with_parameters(arm.robot, inertias, arm.robot.armature)
    fit = identify(robot, [in_chunks(recording)], backend="numpy")
    assert np.all(torque_rmse(arm, fit.parameters, unseen) <= 1.15 * torque_rmse(arm, arm.parameters, unseen))
    bodies = inertias_of_parameters(fit.parameters[fit.linear.places("inertia")].reshape(-1, 10))
    assert np.linalg.eigvalsh(pseudo_inertia(bodies)).min() > 0


def test_friction_is_not_negative(arm):
    """Not even if it fits the torques better."""
    linear, base = arm.linear, base_parameters(arm.linear)
    p = arm.parameters.copy()
    p[linear.places("viscous")] = -0.1
    recording = arm.recording(1)
    W = linear.matrix(*(recording[kind] for kind in ("q", "qd", "qdd")))
    sums = Sums(linear, base)
    sums.add(recording | {"tau": W @ p})
    solution = weighted(sums, base.values(linear.described))
    fitted = ConsistentFit(linear, base).parameters(solution).parameters
    assert np.all(fitted[linear.places("viscous")] == 0) and np.all(fitted[linear.places("coulomb")] >= 0)


# --- insufficient data ----------------------------------------------------------------------------------------


def test_insufficient_motions_raise(arm):
    still = arm.recording(1, moving=[])
    with pytest.raises(IdentificationError, match=r"\d+ of 54.*nothing moves"):
        fit_recordings(arm, still)


def test_undetermined_parameters_stay_at_the_description(arm):
    """A joint at rest: its friction is named with the reason, and the others are identified as well as ever."""
    partial = arm.recording(1, moving=[0, 1, 2, 3, 5])
    name, linear = arm.robot.v_names[4], arm.linear
    fit = fit_recordings(arm, partial)
    (text,) = [text for text in fit.excitation.undetermined if f"{name}.viscous" in text]
    assert "no effect on the torques of this motion" in text
    assert fit.parameters[linear.names.index(f"{name}.viscous")] == pytest.approx(0.0, abs=1e-6)
    assert np.isinf(fit.solution.std[fit.base.chosen == linear.names.index(f"{name}.viscous")]).all()
    assert any(f"{name}.viscous" in line.text and not line.good for line in summary(fit))
    assert fit.better and np.all(torque_rmse(arm, fit.parameters, partial) <= 0.06)
    others = [k for k in range(6) if k != 4]
    for term in ("viscous", "coulomb"):
        own = np.arange(len(linear.names))[linear.places(term)][others]
        np.testing.assert_allclose(fit.parameters[own], arm.parameters[own], atol=0.02)


def test_weak_excitation_of_a_large_robot_is_accepted():
    """Unknown 0.01 kg m^2 are negligible for a UR10 with torque noise of 3 N m: reported, but no error."""
    arm = Truth(PublishedRobot("ur_description/urdf/ur10_robot.urdf").model())
    fit = fit_recordings(arm, arm.recording(1, noise=3.0))
    assert fit.excitation.weak and not fit.excitation.undetermined and fit.better


def with_inertias_of(robot, kind):
    """The robot with other inertias in its description."""
    inertias = robot.inertias.copy()
    if kind == "zero":
        inertias[:] = 0.0
    elif kind == "of masses alone":
        inertias[:, :3, :3] = 0.0
    else:
        inertias *= 1e3
    return with_parameters(robot, inertias, robot.armature)


@pytest.mark.parametrize("kind", ["zero", "of masses alone", "grams"])
def test_excitation_does_not_depend_on_the_description(kind):
    """Torques set the scale: a placeholder is identified as well. Poor motions leave at least as many combinations
    undetermined as with the right description."""
    arm = Truth(PublishedRobot("ur_description/urdf/ur10_robot.urdf").model(), backend="c")
    placeholder = with_inertias_of(arm.robot, kind)
    fit = identify(placeholder, [in_chunks(arm.recording(1, noise=3.0))])
    assert not fit.excitation.undetermined and fit.better
    unseen = arm.recording(9, noise=0.0)
    assert torque_rmse(arm, fit.parameters, unseen).max() < 1.0
    poor = [in_chunks(arm.recording(1, noise=3.0, moving=[3, 4, 5]))]
    counts = [len(identify(robot, poor).excitation.undetermined) for robot in (arm.robot, placeholder)]
    assert counts[1] >= counts[0] > 15


def test_data_errors_are_reported():
    """All of a recording at once. The described robot moves slowly, so gravity dominates its torques."""
    arm = Truth(ROBOTS["ur5"].model())
    arm.parameters = arm.linear.described
    recording = arm.recording(4)
    recording["tau"][:, [1, 2]] *= (-1.0, 0.05)
    recording["tau"][100:103, 3] = np.nan
    recording["time"] = recording["time"] + np.where(np.arange(len(TIME)) >= 600, 1.0, 0.0)
    recording["time"][900:] -= 3.0
    warnings = fit_recordings(arm, recording).warnings
    for message in (
        "tau is not finite, or unknown away from ends and gaps, in 3 of 1200 rows",
        "the torque of elbow_joint is 0.0.* amperes",
        "the torque of shoulder_lift_joint has the opposite sign",
        "samples are missing at 1 place: steps up to 1.01 s instead of 0.01 s",
        "the clock jumps back 1 time",
    ):
        assert any(re.search(message, warning) for warning in warnings), (message, warnings)


def test_unknown_torques_of_one_joint(arm):
    """Warnings and undetermined combinations name the joint; the other torques are used."""
    recording = damaged(arm.recording(1), "tau", lambda rows: rows[:, 5].fill(np.nan))
    fit = fit_recordings(arm, recording)
    assert any(f"rows: {arm.robot.v_names[5]}" in warning for warning in fit.warnings)
    assert any(arm.robot.v_names[5] in text for text in fit.excitation.undetermined)
    assert fit.rows == len(TIME) and np.all(torque_rmse(arm, fit.parameters, arm.recording(9))[:5] <= 0.055)


def test_torques_of_another_robot_are_reported(arm):
    random = np.random.default_rng(0)
    recording = arm.recording(1)
    recording["tau"] = random.permutation(recording["tau"] - recording["tau"].mean(axis=0))
    fit = fit_recordings(arm, recording)
    assert any("another robot?" in warning for warning in fit.warnings)


def test_warnings_name_the_recording(arm):
    bad = damaged(arm.recording(2), "tau", lambda rows: rows[100:103, 2].fill(np.nan))
    fit = fit_recordings(arm, arm.recording(1), bad)
    assert [warning[:14] for warning in fit.warnings] == ["recording 2: t"] and fit.rows == 2 * len(TIME)


def test_stages_report_progress(arm):
    """For progress bars: names, numbers of rows, and completion."""
    progress = []

    @contextlib.contextmanager
    def stages(name, total):
        progress.append([name, total, 0])

        def advance(count):
            progress[-1][2] += count

        yield advance

    recordings = [in_chunks(arm.recording(k)) for k in (1, 2)]
    fit = identify(arm.robot, recordings, method="robust", backend="numpy", progress=stages)
    count = 2 * len(TIME)
    passes = [["sums of squares", count, count], *([f"robust, {k} of 3", count, count] for k in (1, 2, 3))]
    assert progress == [
        ["base parameters", None, 0],
        ["read and check", None, count],
        *passes,
        ["bodies", None, 0],
        ["judge", None, 0],
    ]
    assert fit.rows == count and fit.method == "robust"


@pytest.mark.parametrize("recording", [np.zeros((10, 7)), {"q": np.zeros((10, 7))}])
def test_recording_that_is_no_function_raises(recording):
    robot, words = (
        ROBOTS["panda7"].model(),
        "^a recording must be a function that returns its chunks, not .*lambda",
    )
    with pytest.raises(TypeError, match=words):
        dn.identify(robot, [recording], backend="numpy")
    for recordings, tare in (([recording], ()), ([], [recording])):
        with pytest.raises(TypeError, match=words):
            dn.identify_payload(robot, "panda_hand", recordings, tare=tare, backend="numpy")
