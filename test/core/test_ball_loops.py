"""Closed loops with ball joints in the tree: a platform on a ball joint and two legs, a rod between ball joints."""

import numpy as np
import pytest
from balls import BallOracle, ankle, pin, rssr, wrist
from tolerances import EXACT, error

import dynamics_node as dn
from dynamics_node.algorithms.constraint_equations import velocity_program
from dynamics_node.algorithms.first_positions import closed_samples
from dynamics_node.graph import ORDERINGS
from dynamics_node.robot.state_arrays import moved
from dynamics_node.symbolic import interpret

STEP = 1e-5


ALL = {"ankle": (ankle(), 3), "rssr": (rssr(), 2), "wrist": (wrist(), 1)}


@pytest.fixture(scope="module", params=ALL)
def mechanism(request):
    return dn.parse_robot(ALL[request.param][0])


@pytest.fixture(scope="module")
def state(mechanism):
    """Closed positions near one where the joints follow well, and rates."""
    random = np.random.default_rng(6)
    (start,) = closed_samples(mechanism, 1, random)
    steps = random.uniform(-0.15, 0.15, (70, mechanism.nv))
    q = moved(mechanism.tree, np.tile(start, (70, 1)), mechanism.independent.tolist(), steps)
    return dn.close_loops(mechanism, q), *random.uniform(-1, 1, (2, 70, mechanism.nv))


def rates_by_pinocchio(mechanism, oracle, q):
    """K (rows, nv of the tree) of the ties: how fast their ends part, by the Jacobians of frames there."""
    data, own = oracle.data, oracle.q(q)
    rows = []
    for tie in mechanism.constraints:
        ends = []
        for body, R, p in zip((tie.predecessor, tie.successor), tie.rotations, tie.origins, strict=True):
            frame = pin.Frame(f"end{oracle.pin.nframes}", body + 1, 0, pin.SE3(R, p), pin.OP_FRAME)
            index = oracle.pin.addFrame(frame, False)
            data = oracle.pin.createData()
            ends.append(pin.computeFrameJacobian(oracle.pin, data, own, index, pin.LOCAL_WORLD_ALIGNED))
        part = (ends[0] - ends[1])[:, oracle.order]
        rows.append(part if tie.kind == "fixed" else part[:3])
    return np.concatenate(rows)


def test_mobility(mechanism):
    assert mechanism.nv == ALL[mechanism.name][1]
    balls = [v for v, name in enumerate(mechanism.tree.v_names) if ".angular." in name]
    independent = {"ankle": (3,), "rssr": (1, 2), "wrist": (0,)}[mechanism.name]
    assert np.isin(balls, mechanism.independent).sum() in independent
    assert (
        len(mechanism.v_names)
        == mechanism.nv
        == sum(j.v.stop - j.v.start for j in mechanism.independent_joints)
    )


def test_closed_positions(mechanism, state):
    q, _, _ = state
    assert np.abs(q - q[0]).max() > 0.05
    for name, at in mechanism.quaternions:
        assert np.allclose(np.linalg.norm(q[:, at], axis=1), 1, atol=1e-14), name
    for tie in mechanism.constraints:
        for k in range(3):
            ends = [
                dn.evaluate(mechanism.tree, "frame_pose", q[k], link=mechanism.tree.bodies[b].name)
                if b >= 0
                else (np.eye(3), 0.0)
                for b in (tie.predecessor, tie.successor)
            ]
            places = [R @ p + place for (R, place), p in zip(ends, tie.origins, strict=True)]
            assert np.allclose(*places, atol=1e-9)


def test_dynamics_against_pinocchio(mechanism, state):
    """Its mass matrix, bias and Jacobians, projected; the change of the Jacobians by differences."""
    q, yd, ydd = state
    tree, own = mechanism.tree, mechanism.independent
    dependent = np.setdiff1d(np.arange(tree.nv), own)
    oracle = BallOracle(tree)
    inverse = dn.build(mechanism, dn.inverse_dynamics(mechanism), backend="c")
    forward = dn.build(mechanism, dn.forward_dynamics(mechanism), backend="c")
    tau = inverse(q, yd, ydd)
    assert error(forward(q, yd, tau), ydd).max() <= 1e-8
    M = dn.build(mechanism, "mass_matrix")
    for k in range(3):
        K = rates_by_pinocchio(mechanism, oracle, q[k])
        G = np.zeros((tree.nv, len(own)))
        G[own, np.arange(len(own))] = 1
        inverted = np.linalg.pinv(K[:, dependent], rcond=1e-9)
        G[dependent] = -inverted @ K[:, own]
        qd, qdd = G @ yd[k], G @ ydd[k]
        around = [moved(tree, q[k], range(tree.nv), s * STEP * qd) for s in (1, -1)]
        later, before = (rates_by_pinocchio(mechanism, oracle, there) for there in around)
        qdd[dependent] -= inverted @ ((later - before) / (2 * STEP) @ qd)
        expected = G.T @ oracle.inverse(q[k], qd, qdd)
        assert error(tau[k], expected) <= 1e-7
        assert error(inverse(q[k], yd[k], ydd[k]), tau[k]) <= EXACT
        assert error(M(q[k]), G.T @ oracle.mass_matrix(q[k]) @ G, tail=2) <= 1e-9
        _, found, accelerations = dn.spanning(mechanism, q[k], yd[k], ydd[k])
        assert np.allclose(found, qd, atol=1e-9) and np.allclose(accelerations, qdd, atol=1e-6)


def test_rates_follow_from_positions(mechanism, state):
    """Along a motion the loops stay closed, and moving the independent coordinates and closing gives that motion."""
    q, yd, _ = (array[0] for array in state)
    tree, own = mechanism.tree, mechanism.independent.tolist()
    _, rates, _ = dn.spanning(mechanism, q, yd)
    along = moved(tree, q, range(tree.nv), 1e-6 * rates)
    closed = dn.close_loops(mechanism, moved(tree, q, own, 1e-6 * yd))
    assert np.abs(along - closed).max() <= 1e-10
    K = interpret(velocity_program(tree, mechanism.constraints), q=q, qd=rates)["K"]
    assert np.abs(K @ rates).max() <= 1e-9


def test_derivatives_along_closed_motions(mechanism, state):
    q, yd, ydd = (array[0] for array in state)
    inverse = dn.build(mechanism, dn.inverse_dynamics(mechanism), backend="numpy")
    dq, dqd, M = dn.build(mechanism, "inverse_dynamics_derivatives", backend="numpy")(q, yd, ydd)
    tree = mechanism.tree
    for k in range(mechanism.nv):
        unit = np.eye(mechanism.nv)[k]
        _, rates, _ = dn.spanning(mechanism, q, unit)
        there = [dn.close_loops(mechanism, moved(tree, q, range(tree.nv), s * STEP * rates)) for s in (1, -1)]
        change = np.subtract(*(inverse(x, yd, ydd) for x in there)) / (2 * STEP)
        assert np.allclose(dq[:, k], change, rtol=1e-5, atol=1e-6)
        change = np.subtract(*(inverse(q, yd + s * STEP * unit, ydd) for s in (1, -1))) / (2 * STEP)
        assert np.allclose(dqd[:, k], change, rtol=1e-5, atol=1e-6)
    assert error(M, dn.build(mechanism, "mass_matrix", backend="numpy")(q), tail=2) <= EXACT


def test_the_fast_way_to_close(mechanism, state):
    """As the node does it: from the last position, compiled."""
    closing = dn.build_loop_solver(mechanism, "c")
    last, condition = closing(state[0][0])
    assert np.allclose(last, state[0][0], atol=1e-9) and condition < 1e6
    step = 0.01 * state[1][0]
    there = moved(mechanism.tree, last, mechanism.independent.tolist(), step)
    assert np.allclose(closing(there)[0], dn.close_loops(mechanism, there), atol=1e-9)
    far = moved(mechanism.tree, last, mechanism.independent.tolist(), 20 * step)
    assert np.allclose(
        np.linalg.norm(closing.following(far, last)[0][mechanism.quaternions[0][1]]), 1, atol=1e-12
    )


def test_the_factor_graph(mechanism, state):
    q, yd, ydd = (array[:3] for array in state)
    tau = dn.build(mechanism, dn.inverse_dynamics(mechanism))(q, yd, ydd)
    for ordering in ORDERINGS:
        choice = {"solver": "factor_graph", "ordering": ordering, "backend": "numpy"}
        forward = dn.build(mechanism, dn.forward_dynamics(mechanism), **choice)
        assert error(forward(q, yd, tau), ydd).max() <= 1e-8, ordering
        if mechanism.name != "rssr":
            inverse = dn.build(mechanism, dn.inverse_dynamics(mechanism), **choice)
            assert error(inverse(q, yd, ydd), tau).max() <= 1e-8, ordering


def test_a_ball_joint_of_which_a_part_follows_is_told_in_the_graph():
    mechanism = dn.parse_robot(rssr())
    message = "of ball joint 'j_ball' only some coordinates follow .* choose solver 'cluster'"
    with pytest.raises(ValueError, match=message):
        dn.build(mechanism, dn.inverse_dynamics(mechanism), solver="factor_graph")


def test_a_file_can_mark_the_joints():
    with pytest.raises(dn.ModelError, match="3 joints follow from the others, but the file marks 1"):
        dn.parse_robot(rssr(independent=False))
    text = rssr().replace('"j_ball" type="ball"', '"j_ball" type="ball" independent="false"')
    with pytest.raises(dn.ModelError, match="cannot be the independent joints"):
        dn.parse_robot(text)


def test_no_gear_at_a_ball_joint():
    text = ankle().replace(
        "</robot>",
        '<coupling name="gear"><predecessor link="foot"/><successor link="cross0"/><ratio value="2"/></coupling></robot>',
    )
    with pytest.raises(dn.ModelError, match="'gear'.*ball joint 'ball' has no single position"):
        dn.parse_robot(text)


def test_torques_of_driven_joints():
    """The pistons drive the foot about two axes; what they cannot bring about is told. A ball joint may be driven
    coordinate by coordinate."""
    mechanism = dn.parse_robot(ankle())
    q = dn.algorithms.first_closed(mechanism, mechanism.neutral())
    actuation = dn.algorithms.Actuation(mechanism, ["j_piston0", "j_piston1", "ball.angular.z"])
    tau = np.array([1.0, -2.0, 3.0])[: mechanism.nv]
    found = actuation.from_coordinates(q, tau)
    assert np.allclose(actuation.to_coordinates(q, found.torques), tau - found.rest, atol=1e-12)
    with pytest.raises(ValueError, match="driven joint 'ball' is unknown"):
        dn.algorithms.Actuation(mechanism, ["ball"])
