"""Rollouts whose controls are targets of PD loops: single steps, MuJoCo's position actuators, both backends."""

import numpy as np
import pytest
from mujoco_oracle import Tree, mujoco
from robots import closed_states, random_states, robot_of
from test_contact_rollouts import BOX, FEET, LEGS, SLIDER, forward_of
from tolerances import error

import dynamics_node as dn

DT = 0.01


def sampled(count=9, steps=20):
    """Targets of a Solo12 near its stance: q, qd, targets, feedforward."""
    random = np.random.default_rng(0)
    q = np.tile(np.r_[0, 0, 0.223, 0, 0, 0, 1, LEGS], (count, 1))
    feedforward = np.zeros((count, steps, 18))
    feedforward[..., 6:] = random.uniform(-0.5, 0.5, (count, steps, 12))
    targets = LEGS + random.uniform(-0.5, 0.5, (count, steps, 12))
    return q, random.uniform(-0.3, 0.3, (count, 18)), targets, feedforward


@pytest.mark.parametrize("name", ["panda7", "panda", "five_bar", "geared_chain", "belt_leg"])
@pytest.mark.parametrize("effort", [np.inf, 0.3])
def test_a_step_is_implicit_in_kd(name, effort):
    """(M + dt kd) (qd' - qd) = dt (tau - h) with the torques at the start of the step, from the inverse dynamics."""
    robot = robot_of(name)
    if robot.constrained:
        q, qd, _ = (array[0] for array in closed_states(robot, 1, reach=0.05))
    else:
        q, qd, *_ = (array[0] for array in random_states(robot, 1))
    random, joints = np.random.default_rng(0), len(robot.joint_names)
    targets, feedforward = random.normal(size=(6, joints)), 0.1 * random.normal(size=(6, robot.nv))
    kp, kd = np.linspace(1.0, 3.0, joints), np.linspace(0.1, 0.2, joints)
    gains = dn.PDGains(kp, kd, effort)
    path = forward_of(robot, backend="numpy").rollout(
        q, 0.1 * qd, targets, DT, pd=gains, feedforward=feedforward
    )
    at, place = (
        [names.index(joint) for joint in robot.joint_names] for names in (robot.v_names, robot.q_names)
    )
    for t in range(6):
        tau = feedforward[t].copy()
        tau[at] += kp * (targets[t] - path.q[t, place]) - kd * path.qd[t, at]
        beyond = np.abs(tau[at]) > effort
        tau[at] = np.clip(tau[at], -effort, effort)
        M = dn.evaluate(robot, "mass_matrix", path.q[t], backend="numpy")
        M[at, at] += np.where(beyond, 0.0, DT * kd)
        h = dn.evaluate(robot, "nonlinear_effects", path.q[t], path.qd[t], backend="numpy")
        expected = path.qd[t] + DT * np.linalg.solve(M, tau - h)
        assert error(path.qd[t + 1], expected) <= 1e-10
    assert beyond.any() == np.isfinite(effort)


def test_loops_beside_friction_of_the_joint():
    """Both are implicit: (M + dt (d + kd)) v' = M v + dt (kp (target - q) - dry)."""
    robot = dn.parse_robot(SLIDER.format(1.5, 4))
    for backend in ("c", "numpy"):
        path = forward_of(robot, backend=backend).rollout(
            [0.1], [0.2], np.full((1, 1), 0.4), DT, contacts=(), pd=dn.PDGains(30.0, 6.0)
        )
        expected = (2 * 0.2 + DT * (30.0 * 0.3 - 1.5)) / (2 + DT * (4 + 6.0))
        assert path.qd[1, 0] == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize(("name", "kp", "kd"), [("panda7", 100.0, 10.0), ("solo12", 3.0, 0.2)])
@pytest.mark.parametrize("limited", [False, True])
def test_position_actuators_of_mujoco(name, kp, kd, limited):
    """Its integrator implicitfast is implicit in the velocity gains of actuators, too."""
    robot, effort = robot_of(name), kp / 5 if limited else np.inf
    q, qd, *_ = (array[0] for array in random_states(robot, 1))
    targets = np.random.default_rng(0).normal(size=(10, len(robot.joint_names)))
    path = forward_of(robot).rollout(q, qd, targets, DT, pd=dn.PDGains(kp, kd, effort))
    theirs = Tree(robot)
    spec = theirs.model_spec()
    for joint in robot.joint_names:
        motor = spec.add_actuator(target=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        motor.set_to_position(kp=kp, kv=kd)
        if limited:
            motor.forcelimited, motor.forcerange = True, [-effort, effort]
    model = spec.compile()
    model.opt.integrator, model.opt.timestep = mujoco.mjtIntegrator.mjINT_IMPLICITFAST, DT
    model.opt.gravity = robot.gravity
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = theirs.qpos(q), theirs.qvel(q, qd)
    for t, target in enumerate(targets, 1):
        data.ctrl[:] = target
        mujoco.mj_step(model, data)
        assert np.allclose(np.abs(theirs.qpos(path.q[t])), np.abs(data.qpos), rtol=0, atol=1e-8), t
        assert np.allclose(theirs.qvel(path.q[t], path.qd[t]), data.qvel, rtol=0, atol=1e-6), t


def test_contacts_are_those_of_the_torques_of_the_loops():
    """Rollouts of single steps with kp (target - q) - kd qd', with qd' at the end of the step."""
    robot = robot_of("solo12")
    q, qd, targets, feedforward = (array[0] for array in sampled(steps=8))
    options = {"contacts": FEET, "sweeps": 2000, "friction": False}
    path = forward_of(robot).rollout(
        q, qd, targets, DT, pd=dn.PDGains(3.0, 0.2), feedforward=feedforward, **options
    )
    tau = feedforward.copy()
    tau[:, 6:] += 3.0 * (targets - path.q[:-1, 7:]) - 0.2 * path.qd[1:, 6:]
    steps = forward_of(robot).rollout(path.q[:-1], path.qd[:-1], tau[:, None], DT, **options)
    np.testing.assert_allclose(steps.qd[:, 1], path.qd[1:], rtol=0, atol=1e-6)
    np.testing.assert_allclose(steps.contact_forces[:, 0], path.contact_forces, rtol=0, atol=1e-4)
    assert (path.contact_forces[:, 2::3] > 1.0).any(axis=1).all()


@pytest.mark.parametrize("effort", [None, 0.8])
@pytest.mark.parametrize("contacts", [None, FEET])
def test_both_backends_agree(effort, contacts):
    robot = robot_of("solo12")
    q, qd, targets, feedforward = sampled()
    gains = dn.PDGains(np.linspace(2.0, 4.0, 12), 0.1, effort)
    for torques in (None, feedforward):
        ours, theirs = (
            forward_of(robot, backend=backend).rollout(
                q, qd, targets, DT, pd=gains, feedforward=torques, contacts=contacts
            )
            for backend in ("c", "numpy")
        )
        assert type(ours).__name__ == ("Rollout" if contacts is None else "ContactRollout")
        for name in ours._fields:
            np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=1e-7, err_msg=name)


def test_samples_do_not_depend_on_their_neighbors():
    robot = robot_of("solo12")
    q, qd, targets, _ = sampled()
    forward = forward_of(robot)
    options = {"dt": DT, "pd": dn.PDGains(3.0, 0.1, 1.5), "contacts": FEET}
    together = forward.rollout(q, qd, targets, **options)
    poisoned = targets.copy()
    poisoned[1::2, 3] = 1e200
    others = forward.rollout(q, qd, poisoned, **{**options, "pd": dn.PDGains(3.0, 0.1, np.inf)})
    free = forward.rollout(q, qd, targets, **{**options, "pd": dn.PDGains(3.0, 0.1, np.inf)})
    for k in (0, 2, 8):
        alone = forward.rollout(q[k], qd[k], targets[k], **options)
        for name in together._fields:
            np.testing.assert_array_equal(getattr(alone, name), getattr(together, name)[k])
            np.testing.assert_array_equal(getattr(others, name)[k], getattr(free, name)[k])
    assert np.isnan(others.qd[1, -1]).all()


@pytest.mark.parametrize("kp, kd", [(1e3, 0.0), (1e6, 0.0), (10.0, 1e4)])
@pytest.mark.parametrize("contacts", [None, FEET])
def test_stiff_loops_are_stable(kp, kd, contacts):
    """Natural frequencies up to thousands of times as high as those of the steps."""
    robot = robot_of("solo12")
    q, qd, *_ = sampled()
    q[:, 7:] += np.random.default_rng(0).uniform(-0.05, 0.05, (9, 12))
    path = forward_of(robot).rollout(
        q, qd, np.tile(LEGS, (200, 1)), DT, pd=dn.PDGains(kp, kd, np.inf), contacts=contacts
    )
    start, end = (np.abs(path.q[:, t, 7:] - LEGS).max() for t in (0, -1))
    assert end < 1.2 * start


def test_a_limit_of_effort_is_that_of_the_robot():
    """A joint falls if its limit is below the torque of gravity."""
    arm = """<robot name="arm"><link name="a"/><joint name="j" type="revolute"><parent link="a"/><child link="b"/>
      <axis xyz="0 1 0"/><limit effort="{}" velocity="9" lower="-3" upper="3"/></joint><link name="b"><inertial>
      <origin xyz="1 0 0"/><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
      </link></robot>"""
    for limit, holds in ((12.0, True), (8.0, False)):
        forward = forward_of(dn.parse_robot(arm.format(limit)), backend="numpy")
        path = forward.rollout([0.0], [0.0], np.zeros((100, 1)), DT, pd=dn.PDGains(1000.0, 50.0))
        assert (path.q[-1, 0] < 0.02) == holds
    unlimited = forward.rollout([0.0], [0.0], np.zeros((100, 1)), DT, pd=dn.PDGains(1000.0, 50.0, np.inf))
    assert unlimited.q[-1, 0] == pytest.approx(9.81 / 1000, rel=1e-2)


def test_float32():
    robot = robot_of("solo12")
    q, qd, targets, _ = sampled(steps=10)
    exact, single = (
        forward_of(robot, precision=precision).rollout(
            q, qd, targets, DT, pd=dn.PDGains(3.0, 0.2), contacts=FEET
        )
        for precision in ("float64", "float32")
    )
    assert single.q.dtype == np.float32
    assert np.median(np.abs(single.q - exact.q)[:, -1]) < 1e-3


def test_what_loops_refuse():
    robot = robot_of("solo12")
    forward = forward_of(robot, backend="numpy")
    q, qd, targets, feedforward = (array[0] for array in sampled(steps=4))
    for field in ({"kp": -1.0}, {"kd": np.nan}, {"kp": "stiff"}, {"effort": -1.0}, {"kp": np.inf}):
        with pytest.raises(dn.InputError, match=next(iter(field))):
            dn.PDGains(**{"kp": 1.0, "kd": 1.0, **field})
    gains, bad = dn.PDGains(3.0, 0.1), targets.copy()
    bad[2, 5] = np.nan
    for controls, options, words in (
        (feedforward, {}, "controls must have shape"),
        (targets[0], {}, "controls must have shape"),
        (targets, {"pd": dn.PDGains(np.ones(7), 1.0)}, "kp must have 12 entries"),
        (targets, {"feedforward": targets}, "feedforward must have shape"),
        (targets, {"feedforward": feedforward[1:]}, "equally many steps"),
        (bad, {}, r"controls\[5\] \(FR_KFE\) at step 2 is not finite"),
        (targets, {"feedforward": np.full((4, 18), np.inf)}, r"feedforward\[0\]"),
    ):
        with pytest.raises(dn.InputError, match=words):
            forward.rollout(q, qd, controls, DT, **{"pd": gains, **options})
    with pytest.raises(dn.ChoiceError, match="rk4"):
        forward.rollout(q, qd, targets, DT, pd=gains, integrator="rk4")
    with pytest.raises(dn.ChoiceError, match="feedforward"):
        forward.rollout(q, qd, feedforward, DT, feedforward=feedforward)
    with pytest.raises(dn.InputError, match="no joint with one coordinate"):
        forward_of(dn.parse_robot(BOX), backend="numpy").rollout(
            [0, 0, 0, 0, 0, 0, 1], np.zeros(6), np.zeros((4, 0)), DT, pd=gains
        )
    with pytest.raises(TypeError, match="PDGains"):
        forward.rollout(q, qd, targets, DT, pd=(3.0, 0.1))
