"""A loop joint is defined by its phi; the directions derived from it are those of a joint of that kind."""

import numpy as np
import pytest
from mechanisms import joint, link, numbers, robot
from scipy.spatial.transform import Rotation

import dynamics_node as dn
from dynamics_node.algorithms.constraint_rates import velocity_program
from dynamics_node.algorithms.loop_forces import cut_program
from dynamics_node.algorithms.recursion import joint_motions, outward
from dynamics_node.robot.constraints import LOOP_KINDS, LoopJoint, across
from dynamics_node.robot.loops.equations import end_frames
from dynamics_node.robot.transforms import joint_transforms
from dynamics_node.symbolic import cross_motion, interpret, trace

NOWHERE = (0.0, 0.0, 0.0)


def transmitted_wrenches(loop, P, d):
    """Columns (6, any): textbook forces (moment, force) that such a joint transmits. P, d: axes and origin of the
    predecessor's frame in the successor's."""
    n = loop.axis / np.linalg.norm(loop.axis)
    sides = across(loop.axis)
    force, moment = np.vstack([np.zeros((3, 3)), np.eye(3)]), np.vstack([np.eye(3), np.zeros((3, 3))])
    second = loop.second_axis / np.linalg.norm(loop.second_axis)
    columns = {
        "fixed": (force, moment),
        "revolute": (force, *(moment @ side[:, None] for side in sides)),
        "prismatic": (moment, *(force @ side[:, None] for side in sides)),
        "universal": (force, moment @ np.cross(P @ n, second)[:, None]),
        "ball": (force,),
        "planar": (force @ n[:, None], *(moment @ side[:, None] for side in sides)),
        "rod": (force @ d[:, None],),
    }
    return np.concatenate(columns[loop.kind], axis=1)


def about(axis, angle):
    return Rotation.from_rotvec(np.asarray(axis, dtype=float) * angle).as_matrix()


ANY = Rotation.from_rotvec([0.4, -1.1, 0.7]).as_matrix()
SECOND = np.array([1.0, 0.0, 0.0])
# allowed poses of the predecessor's frame in the successor's, for joints with axis z
ALLOWED = {
    "fixed": (np.eye(3), NOWHERE),
    "revolute": (about([0, 0, 1], 0.8), NOWHERE),
    "prismatic": (np.eye(3), (0, 0, 0.3)),
    "universal": (about([1, 0, 0], 0.5) @ about([0, 0, 1], 0.9), NOWHERE),
    "ball": (ANY, NOWHERE),
    "planar": (about([0, 0, 1], -0.6), (0.2, -0.1, 0)),
    "rod": (ANY, (0.3, 0, -0.4)),
}


@pytest.fixture(scope="module")
def tree():
    parts, names = [link("l0")], ["l0"]
    random = np.random.default_rng(5)
    for k in range(1, 10):
        place, axis, turn = (numbers(x) for x in np.round(random.uniform(-1, 1, (3, 3)), 3))
        kind = "prismatic" if k == 3 else "revolute"
        parts += [
            link(f"l{k}", k, 1.0),
            joint(f"j{k}", names[-1 if k != 4 else 1], f"l{k}", place, axis, kind, rpy=turn),
        ]
        names.append(f"l{k}")
    return dn.parse_robot(robot(*parts))


@pytest.fixture(params=[(kind, ends) for kind in LOOP_KINDS for ends in ((-1, 8), (2, 8))], ids=str)
def closed(request, tree):
    """A loop joint from the root or between two branches, and a closed position."""
    kind, (predecessor, successor) = request.param
    q = np.random.default_rng(7).uniform(-1, 1, tree.nq)
    poses = dn.evaluate(
        tree, "frame_poses", q, links=["l0", *(body.name for body in tree.bodies)], backend="numpy"
    )
    (A, a), (B, b) = ((poses.rotations[k + 1], poses.positions[k + 1]) for k in (predecessor, successor))
    S, s = ANY.T, np.array([0.1, 0.2, -0.3])  # on the successor
    D, d = ALLOWED[kind]
    P, p = B @ S @ D, B @ (S @ d + s) + b
    frames = ((A.T @ P, S), (A.T @ (p - a), s))
    axis = np.array([0, 0, 2.0])
    return tree, LoopJoint("tie", kind, predecessor, successor, *frames, axis, SECOND, 0.5), q


def place(tree, loop, q):
    """P, d on symbols: axes and origin of the predecessor's frame in the successor's."""
    (P, p), (S, s) = end_frames(tree, joint_transforms(tree, q), loop)
    return {"P": S.T @ P, "d": S.T @ (p - s)}


def test_transmitted_wrenches(closed):
    tree, loop, q = closed
    at = interpret(trace(lambda q: place(tree, loop, q), {"q": (tree.nq,)}), q=q)
    assert np.allclose(loop.type.phi(loop, at["P"], np.eye(3), at["d"]), 0, atol=1e-12)
    T = interpret(cut_program(tree, loop), q=q, qd=0 * q)["T"]
    expected = transmitted_wrenches(loop, at["P"], at["d"])
    rank = expected.shape[1]
    assert T.shape == expected.shape and np.linalg.matrix_rank(T, tol=0.1) == rank
    assert np.linalg.matrix_rank(np.hstack([T, expected]), tol=1e-9) == rank


def test_rate_and_change_along_closed_motions(closed):
    """Rates that keep phi at zero open no direction, and neither do such accelerations."""
    tree, loop, q = closed
    random = np.random.default_rng(8)
    program = velocity_program(tree, (loop,))
    K = interpret(program, q=q, qd=0 * q)["K"]
    null_space = np.eye(tree.nv) - np.linalg.pinv(K, rcond=1e-9) @ K
    qd = null_space @ random.uniform(-1, 1, tree.nv)
    k = interpret(program, q=q, qd=qd)["k"]
    qdd = np.linalg.pinv(K, rcond=1e-9) @ k + null_space @ random.uniform(-1, 1, tree.nv)
    assert np.allclose(K @ qdd, k, atol=1e-9) and np.linalg.norm(K, 2) > 0.1 < np.linalg.norm(qd)
    cut = interpret(cut_program(tree, loop), q=q, qd=qd)
    vJ, X_up = joint_motions(tree, qd), joint_transforms(tree, q)
    v = outward(tree, X_up, vJ)
    a = outward(tree, X_up, joint_motions(tree, qdd) + cross_motion(v, vJ))
    frames = ((cut["X_p"], loop.predecessor), (cut["X_s"], loop.successor))
    ends = [X @ a[i] if i >= 0 else np.zeros(6) for X, i in frames]
    assert np.abs(cut["rate"]).max() <= 1e-12
    assert np.abs(cut["T"].T @ (ends[0] - ends[1]) - cut["change"]).max() <= 1e-10
    opening = interpret(cut_program(tree, loop), q=q, qd=qd + K[0])["rate"]
    assert np.abs(opening).max() > 1e-3
