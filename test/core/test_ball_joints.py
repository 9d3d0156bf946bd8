"""Ball joints: compiled, in descriptions, and in closed loops. Tests of all robots cover them, too."""

import numpy as np
import pytest
from balls import ankle, ball_robot, rssr
from cases import oracle_of
from mechanisms import joint, link, robot
from robots import BALL_LOOPS, BALLS, random_states, robot_of
from tolerances import EXACT, error, solved

import dynamics_node as dn

MANY = 70  # states, enough for SIMD vectors


def test_coordinates():
    model = dn.parse_robot(ball_robot(0, joints=1))
    assert (model.nq, model.nv) == (4, 3) and model.joint_names == ()
    assert model.q_names == ("j1.qx", "j1.qy", "j1.qz", "j1.qw")
    assert model.v_names == ("j1.angular.x", "j1.angular.y", "j1.angular.z")
    assert model.neutral().tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize("name", BALLS[::2])
def test_inverse_and_forward_compiled(name):
    """On a fixed or floating base, with rotors at some joints; one state and many, against Pinocchio."""
    model, oracle = robot_of(name), oracle_of(name)
    q, qd, qdd, f_ext = random_states(model, MANY, seed=41)
    torques = np.array([oracle.inverse(*state) for state in zip(q, qd, qdd, f_ext, strict=True)])
    inverse, forward = (
        dn.build(model, f"{kind}_dynamics", backend="c", f_ext=True) for kind in ("inverse", "forward")
    )
    tolerance = solved(dn.evaluate(model, "mass_matrix", q, backend="numpy"))
    assert error(inverse(q, qd, qdd, f_ext), torques).max() <= EXACT
    assert (error(forward(q, qd, torques, f_ext), qdd) <= tolerance).all()
    for k in range(3):
        assert error(inverse(q[k], qd[k], qdd[k], f_ext[k]), torques[k]) <= EXACT
        assert error(forward(q[k], qd[k], torques[k], f_ext[k]), qdd[k]) <= tolerance[k]
        assert error(inverse(q[k], qd[k], forward(q[k], qd[k], torques[k])), torques[k]) <= EXACT


@pytest.mark.parametrize("seed", range(4))
def test_against_mujoco(seed):
    from mujoco_oracle import Tree  # skips without MuJoCo

    tree = dn.parse_robot(ball_robot(seed), armature={"j1": 0.05})
    mujoco = Tree(tree)
    solver = dn.build(tree, dn.inverse_dynamics(tree), backend="numpy")
    for q, qd, qdd in zip(*random_states(tree, 5, seed=seed)[:3], strict=True):
        assert error(solver(q, qd, qdd), mujoco.inverse(q, qd, qdd)) <= EXACT


def test_hybrid_compiled():
    model = dn.parse_robot(ball_robot(1), floating_base=True)
    q, qd, qdd, _ = random_states(model, MANY, seed=43)
    tau = dn.build(model, dn.inverse_dynamics(model), backend="numpy")(q, qd, qdd)
    solution = dn.build(model, dn.hybrid_dynamics(model, ["j1"]), backend="c")(q, qd, qdd, tau)
    assert error(solution[0], qdd).max() <= 1e-9 and error(solution[1], tau).max() <= 1e-9


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_quaternion_norms_are_checked(backend):
    model = dn.parse_robot(ball_robot(2))
    q, qd, qdd, _ = random_states(model, MANY, seed=44)
    solver = dn.build(model, dn.inverse_dynamics(model), backend=backend)
    right, (name, at) = solver(q, qd, qdd), model.quaternions[-1]
    nearly, bad = q.copy(), q.copy()
    nearly[:, at] *= 1 + 5e-7
    assert error(solver(nearly, qd, qdd), right).max() <= 1e-12
    assert error(solver(nearly[0], qd[0], qdd[0]), right[0]) <= 1e-12
    bad[3, at] *= 1.01
    for states in (slice(None), slice(5), 3):
        with pytest.raises(dn.InputError, match=rf"'{name}'.*1\.01"):
            solver(bad[states], qd[states], qdd[states])
    torques = solver(bad, qd, qdd, errors="nan")
    assert np.isnan(torques[3]).all()
    assert error(np.delete(torques, 3, 0), np.delete(right, 3, 0)).max() <= 1e-12


def test_locked_ball_joint_stays_at_neutral():
    text = ball_robot(0)
    whole = dn.parse_robot(text)
    scalar = [joint.name for joint in whole.independent_joints if joint.type.is_scalar]
    model = dn.parse_robot(text, joints=scalar)
    q, qd, qdd, _ = random_states(model, 3, seed=48)
    q_all = np.tile(whole.neutral(), (3, 1))
    places = {joint.name: joint for joint in whole.independent_joints}
    v = [places[name].v.start for name in scalar]
    q_all[:, [places[name].q.start for name in scalar]] = q
    rates = np.zeros((2, 3, whole.nv))
    rates[..., v] = qd, qdd
    expected = dn.build(whole, dn.inverse_dynamics(whole), backend="numpy")(q_all, *rates)[:, v]
    assert (
        error(dn.build(model, dn.inverse_dynamics(model), backend="numpy")(q, qd, qdd), expected).max()
        <= EXACT
    )
    with pytest.raises(dn.ModelError, match="'j1'.*fixed"):
        dn.parse_robot(text, joints=scalar, positions={"j1": 0.3})


def test_mimic_of_a_ball_joint_raises():
    parts = [link("a"), link("b", 1, 1.0), link("c", 2, 1.0), joint("hip", "a", "b", kind="ball")]
    mimic = joint("toe", "b", "c").replace("<limit", '<mimic joint="hip"/><limit')
    with pytest.raises(dn.ModelError, match="'toe'.*mimic"):
        dn.parse_robot(robot(*parts, mimic))


def test_base_parameters_of_a_ball_joint():
    """The mass at its center moves to its parent, so a regrouped Program is as short as one without that mass."""
    from dynamics_node.robot.reframe import regroup

    model = dn.parse_robot(ball_robot(0))
    own = regroup(model).bodies[0].inertia
    assert own[5, 5] == 0 and model.bodies[0].inertia[5, 5] > 0


# --- in closed loops ------------------------------------------------------------------------------------------

MOBILITY = {
    "ankle": (3, (3,)),
    "rssr": (2, (1, 2)),
    "wrist": (1, (0,)),
}  # nv, independent coordinates of ball joints


@pytest.mark.parametrize("name", BALL_LOOPS)
def test_mobility(name):
    robot, (nv, of_balls) = robot_of(name), MOBILITY[name]
    balls = [v for v, name in enumerate(robot.tree.v_names) if ".angular." in name]
    assert np.isin(balls, robot.independent).sum() in of_balls
    assert robot.nv == nv == len(robot.v_names)
    assert nv == sum(joint.v.stop - joint.v.start for joint in robot.independent_joints)


def test_factor_graph_rejects_a_partly_dependent_ball_joint():
    mechanism = dn.parse_robot(rssr())
    message = "'j_ball'.*'cluster'"
    with pytest.raises(ValueError, match=message):
        dn.build(mechanism, dn.inverse_dynamics(mechanism), solver="factor_graph")


def test_joint_marks_must_match_the_mobility():
    with pytest.raises(dn.ModelError, match="3 joints.*marks 1"):
        dn.parse_robot(rssr(independent=False))
    text = rssr().replace('"j_ball" type="ball"', '"j_ball" type="ball" independent="false"')
    with pytest.raises(dn.ModelError, match="independent joints"):
        dn.parse_robot(text)


def test_gear_at_a_ball_joint_raises():
    text = ankle().replace(
        "</robot>",
        '<coupling name="gear"><predecessor link="foot"/><successor link="cross0"/><ratio value="2"/></coupling></robot>',
    )
    with pytest.raises(dn.ModelError, match="'gear'.*'ball'"):
        dn.parse_robot(text)


def test_torques_of_driven_joints():
    """The pistons drive the foot about two axes; the rest of the torque is returned. Each coordinate of a ball joint
    can have a drive."""
    mechanism = dn.parse_robot(ankle())
    q = dn.algorithms.first_closed(mechanism, mechanism.neutral())
    actuation = dn.algorithms.Actuation(mechanism, ["j_piston0", "j_piston1", "ball.angular.z"])
    tau = np.array([1.0, -2.0, 3.0])[: mechanism.nv]
    solution = actuation.from_coordinates(q, tau)
    assert np.allclose(actuation.to_coordinates(q, solution.torques), tau - solution.rest, atol=1e-12)
    with pytest.raises(ValueError, match="'ball'.*unknown"):
        dn.algorithms.Actuation(mechanism, ["ball"])
