"""Base parameters, what motions tell, and identification on data whose truth is known."""

import contextlib
import re

import numpy as np
import pytest
from identified import TIME, Truth, damaged, in_chunks
from oracle import Oracle, pin
from robots import ROBOTS, PublishedRobot, closed_states, random_states, robot_of

import dynamics_node as dn
from dynamics_node.algorithms import inertias_of_parameters
from dynamics_node.identification import (
    IdentificationError,
    RegressorModel,
    Sums,
    base_parameters,
    consistent_parameters,
    identified_robot,
    identify,
    weighted,
)
from dynamics_node.identification.sums import STRETCHES
from dynamics_node.robot.inertial_parameters import with_parameters
from dynamics_node.symbolic import pseudo_inertia

# --- base parameters ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, count", [("panda7", 43), ("ur5", 36), ("kinova", None), ("solo12", None)])
def test_as_many_as_the_regressor_has_rank(name, count):
    """Of Pinocchio's regressor, by singular values; 43 of a Panda and 36 of a UR5 are known from the literature."""
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
    lost = [linear.names.index(name) for name in base.unidentifiable]
    assert not W[:, :, lost].any() or np.abs(W[:, :, lost]).max() <= 1e-9
    told, felt = (
        dict(zip(base.names, base.felt.T, strict=True)),
        dict(zip(base.told, base.felt_by, strict=True)),
    )
    assert all(told[base.names[column]].any() for column in base.chosen) and all(felt.values())


def states_of(robot):
    return closed_states(robot, 5, reach=0.03) if robot.constrained else random_states(robot, 5)[:3]


def test_base_parameters_in_words():
    """Of a pendulum of two links in a plane: Izz of the first with the mass that hangs on it."""
    base = base_parameters(RegressorModel(robot_of("five_bar"), ("inertia",), "numpy"))
    assert "left_upper.Izz + 0.16 left_lower.m + 0.64 right_lower.Izz" in base.told
    assert "left_lower.my" in base.alone and "left_lower.Ixx" in base.unidentifiable
    model = ROBOTS["panda7"].model()
    last = base_parameters(RegressorModel(model, ("inertia",), "numpy"), measured=["panda_joint7"])
    assert all(name.startswith("panda_link7") for name in last.alone) and 0 < last.count < 10
    with pytest.raises(ValueError, match="'elbow'"):
        base_parameters(RegressorModel(model), measured=["elbow"])
    with pytest.raises(ValueError, match=r"terms.*'mass'"):
        RegressorModel(model, ("mass",))


# --- identification -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def arm():
    return Truth(ROBOTS["ur5"].model())


@pytest.fixture(scope="module")
def found(arm):
    return identified(arm, arm.recording(1), arm.recording(2))


def identified(arm, *recordings, **options):
    return identify(arm.robot, map(in_chunks, recordings), backend="numpy", **options)


def off(arm, parameters, recording):
    """RMS of torques, of all joints."""
    W = arm.linear.matrix(*(recording[kind] for kind in ("q", "qd", "qdd")))
    return np.sqrt(np.mean((W @ parameters - recording["tau"]) ** 2, axis=0))


def test_as_good_as_the_truth(arm, found):
    """On a motion that was not used, of parameters that bodies can have."""
    unseen = arm.recording(9)
    assert off(arm, arm.linear.described, unseen).max() > 1.0
    assert np.all(off(arm, found.parameters, unseen) <= 1.05 * off(arm, arm.parameters, unseen))
    assert np.allclose(found.rmse_cross_validated, 0.05, rtol=0.1) and found.better and not found.warnings
    inertias = inertias_of_parameters(found.parameters[found.linear.places("inertia")].reshape(-1, 10))
    assert np.linalg.eigvalsh(pseudo_inertia(inertias)).min() > 0
    robot = found.robot
    assert np.allclose(robot.inertias, inertias)
    assert np.allclose(robot.damping, found.parameters[found.linear.places("viscous")])


def test_within_what_noise_allows(arm, found):
    """Base parameters of data with other noise, beside the covariance that is told."""
    linear, base = arm.linear, found.base
    clean, right = arm.recording(1, noise=0.0, time=TIME[::4]), base.values(arm.parameters)
    start, inside = base.values(linear.described), 0
    W = base.reduced(linear.matrix(clean["q"], clean["qd"], clean["qdd"]))
    random = np.random.default_rng(0)
    for _ in range(20):
        sums = Sums(linear, base)
        noisy = W @ right + 0.05 * random.normal(size=W.shape[:2])
        rows = np.concatenate([W, noisy[..., None]], axis=-1)
        for joint, felt in enumerate(sums.felt):
            own = rows[:, joint, np.append(felt, base.count)]
            sums.accumulate(joint, own, np.arange(len(rows)) * STRETCHES // len(rows))
        solution = weighted(sums, start)
        miss = solution.x - right
        inside += miss @ solution.information @ miss <= base.count + 3 * np.sqrt(2 * base.count)
    assert inside >= 19


def test_a_robot_with_loops():
    """Torques of the driven joints; friction of those that follow, too."""
    robot = robot_of("five_bar")
    linear = RegressorModel(robot, backend="numpy")
    q, qd, qdd = closed_states(robot, 600, reach=0.2)
    truth, random = 1.3 * linear.described + 0.01, np.random.default_rng(0)
    W = linear.matrix(q, qd, qdd)
    recording = {"q": q, "qd": qd, "qdd": qdd, "tau": W @ truth + 0.01 * random.normal(size=qd.shape)}
    found = identify(robot, [lambda: iter([recording])], backend="numpy", force=True)
    left = np.sqrt(np.mean((W @ found.parameters - W @ truth) ** 2, axis=0))
    assert np.all(left <= 0.005) and found.rmse_nominal.min() > 0.05
    assert found.robot.clusters is robot.clusters
    tau = dn.build(found.robot, dn.inverse_dynamics(found.robot), backend="numpy")(q, qd, qdd)
    p = np.concatenate(
        [found.parameters[linear.places("inertia")], np.zeros(len(linear.names) - 10 * robot.nbodies)]
    )
    assert np.allclose(W @ p, tau, atol=1e-9)


def test_joints_that_mimic_keep_their_friction():
    model = ROBOTS["panda"].model()
    linear = RegressorModel(model, backend="numpy")
    p = linear.described.copy()
    p[linear.places("viscous")] += 0.5
    robot = identified_robot(linear, p)
    assert np.allclose(robot.damping, model.damping + 0.5) and np.allclose(robot.friction, model.friction)
    assert np.allclose(robot.inertias, model.inertias)


def test_robust_and_ordinary(arm):
    """A tenth of the samples is far off."""
    recording = arm.recording(1)
    random = np.random.default_rng(3)
    recording["tau"] += (
        20.0 * random.normal(size=recording["tau"].shape) * (random.random((len(TIME), 1)) < 0.1)
    )
    unseen = arm.recording(9)
    plain, robust = (
        identify(arm.robot, [in_chunks(recording)], method=method, force=True)
        for method in ("ordinary", "robust")
    )
    errors = [np.mean(off(arm, one.parameters, unseen)) for one in (plain, robust)]
    assert errors[1] < 0.7 * errors[0]
    with pytest.raises(ValueError, match="method 'best'"):
        identify(arm.robot, [], method="best")


@pytest.mark.parametrize("kind", ["zeros", "one without mass", "points", "impossible", "grams", "the same"])
def test_descriptions_that_are_grossly_wrong(arm, kind):
    """What is described does not stand in the way of what torques tell."""
    inertias = arm.robot.inertias.copy()
    if kind == "zeros":
        inertias[:] = 0.0
    elif kind == "one without mass":
        inertias[2] = 0.0
    elif kind == "points":
        inertias[:, :3, :3] = 0.0
    elif kind == "impossible":
        inertias[:, :3, :3] *= -1.0
    elif kind == "grams":
        inertias /= 1000.0
    else:
        inertias[:] = np.eye(6)
    recording, unseen = arm.recording(1), arm.recording(9)
    described = with_parameters(arm.robot, inertias, arm.robot.armature)
    found = identify(described, [in_chunks(recording)], backend="numpy")
    assert np.all(off(arm, found.parameters, unseen) <= 1.15 * off(arm, arm.parameters, unseen))
    bodies = inertias_of_parameters(found.parameters[found.linear.places("inertia")].reshape(-1, 10))
    assert np.linalg.eigvalsh(pseudo_inertia(bodies)).min() > 0


def test_friction_is_not_negative(arm):
    """Where noise would have it so."""
    linear, base = arm.linear, base_parameters(arm.linear)
    p = arm.parameters.copy()
    p[linear.places("viscous")] = -0.1
    recording = arm.recording(1)
    W = linear.matrix(*(recording[kind] for kind in ("q", "qd", "qdd")))
    sums = Sums(linear, base)
    sums.add(recording["q"], recording["qd"], recording["qdd"], W @ p)
    solution = weighted(sums, base.values(linear.described))
    fitted = consistent_parameters(linear, base, solution).parameters
    assert np.all(fitted[linear.places("viscous")] == 0) and np.all(fitted[linear.places("coulomb")] >= 0)


# --- data that tell too little --------------------------------------------------------------------------------


def test_motions_that_tell_too_little(arm):
    still = arm.recording(1, moving=[])
    with pytest.raises(IdentificationError, match=r"\d+ of 54.*nothing moves"):
        identified(arm, still)
    one = arm.recording(1, moving=[0, 1, 2, 3, 5])
    name = arm.robot.v_names[4]
    with pytest.raises(IdentificationError, match=f"{name}.*{name}.*move"):
        identified(arm, one)
    forced = identified(arm, one, force=True)
    assert forced.excitation.weak and np.all(off(arm, forced.parameters, one) <= 0.06)


def test_large_robots_need_not_be_known_as_small_ones():
    """Unknown 0.01 kg m^2 are nothing to a UR10, whose torques are known to 3 N m: it is told, not refused."""
    arm = Truth(PublishedRobot("ur_description/urdf/ur10_robot.urdf").model())
    found = identified(arm, arm.recording(1, noise=3.0))
    assert found.excitation.weak and not found.excitation.lost and found.better


def as_described(robot, kind):
    """The robot with other inertias in its description."""
    inertias = robot.inertias.copy()
    if kind == "zero":
        inertias[:] = 0.0
    elif kind == "of masses alone":
        inertias[:, :3, :3] = 0.0
    else:
        inertias *= {"grams": 1e3, "tonnes": 1e-3}[kind]
    return with_parameters(robot, inertias, robot.armature)


@pytest.mark.parametrize("kind", ["zero", "of masses alone", "grams", "tonnes"])
def test_how_large_a_robot_is_does_not_hang_on_its_description(kind):
    """Torques tell it: a placeholder is identified without force, motions that tell too little are refused
    for as many combinations at least as those of the robot that is described."""
    arm = Truth(PublishedRobot("ur_description/urdf/ur10_robot.urdf").model(), backend="c")
    placeholder = as_described(arm.robot, kind)
    found = identify(placeholder, [in_chunks(arm.recording(1, noise=3.0))])
    assert not found.excitation.lost and found.better
    unseen = arm.recording(9, noise=0.0)
    W = arm.linear.matrix(*(unseen[kind] for kind in ("q", "qd", "qdd")))
    assert np.sqrt(np.mean((W @ found.parameters - unseen["tau"]) ** 2, axis=0)).max() < 1.0
    poor = [in_chunks(arm.recording(1, noise=3.0, moving=[3, 4, 5]))]
    counts = []
    for robot in (arm.robot, placeholder):
        with pytest.raises(IdentificationError, match=r"\d+ of 54") as caught:
            identify(robot, poor)
        counts.append(int(re.search(r"tell (\d+) of", str(caught.value))[1]))
    assert counts[1] >= counts[0] > 15


def spoil(kind):
    def change(rows):
        if kind == "nan":
            rows[100:103, 2] = np.nan
        elif kind == "amperes":
            rows[:, 1] *= 0.05
        elif kind == "sign":
            rows[:, 1] *= -1
        elif kind == "gap":
            rows[600:] += 1.0
        else:
            rows[600:] -= 3.0

    return change


@pytest.mark.parametrize(
    "kind, of, told",
    [
        ("nan", "tau", "tau is not finite, or unknown beside ends and gaps, in 3 of 1200 rows"),
        ("amperes", "tau", "the torque of shoulder_lift_joint is 0.0.* amperes"),
        ("sign", "tau", "the torque of shoulder_lift_joint has the other sign"),
        ("gap", "time", "samples are missing at 1 place: steps up to 1.01 s instead of 0.01 s"),
        ("back", "time", "the clock jumps back 1 time"),
    ],
)
def test_odd_data_are_told(kind, of, told):
    """The described robot moves slowly, so that gravity is most of what is measured."""
    arm = Truth(ROBOTS["ur5"].model())
    arm.parameters = arm.linear.described
    recording = damaged(arm.recording(4), of, spoil(kind))
    found = identified(arm, recording, force=True)
    assert any(re.search(told, warning) for warning in found.warnings), found.warnings


def test_one_torque_is_unknown(arm):
    """It is said whose; the others tell what they can."""
    recording = damaged(arm.recording(1), "tau", lambda rows: rows[:, 5].fill(np.nan))
    with pytest.raises(IdentificationError, match=f"rows: {arm.robot.v_names[5]}"):
        identified(arm, recording)
    found = identified(arm, recording, force=True)
    assert found.rows == len(TIME) and np.all(off(arm, found.parameters, arm.recording(9))[:5] <= 0.055)


def test_another_robot(arm):
    random = np.random.default_rng(0)
    recording = arm.recording(1)
    recording["tau"] = random.permutation(recording["tau"] - recording["tau"].mean(axis=0))
    found = identified(arm, recording, force=True)
    assert any("another robot?" in told for told in found.warnings)


def test_several_recordings_are_told_apart(arm):
    bad = damaged(arm.recording(2), "tau", spoil("nan"))
    found = identified(arm, arm.recording(1), bad)
    assert [told[:14] for told in found.warnings] == ["recording 2: t"] and found.rows == 2 * len(TIME)


def test_stages_tell_how_far_they_are(arm):
    """For bars: their names, how many rows they have, and that all of them were done."""
    told = []

    @contextlib.contextmanager
    def stages(name, total):
        told.append([name, total, 0])

        def advance(count):
            told[-1][2] += count

        yield advance

    recordings = [in_chunks(arm.recording(k)) for k in (1, 2)]
    found = identify(arm.robot, recordings, method="robust", backend="numpy", stages=stages)
    count = 2 * len(TIME)
    passes = [["sums of squares", count, count], *([f"robust, {k} of 3", count, count] for k in (1, 2, 3))]
    assert told == [
        ["base parameters", None, 0],
        ["read and check", None, count],
        *passes,
        ["bodies", None, 0],
        ["judge", None, 0],
    ]
    assert found.rows == count and found.method == "robust"
