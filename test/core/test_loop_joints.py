"""A loop joint is its phi: the directions that follow from it are those of a joint of that kind."""

from dataclasses import replace

import numpy as np
import pytest
from test_mechanisms import SPATIAL, states

import dynamics_node as dn
from dynamics_node.algorithms.recursion import joint_motions, outward
from dynamics_node.algorithms.transforms import joint_transforms
from dynamics_node.loops.constraints import end_frames, scale_of
from dynamics_node.loops.cut import cut_program
from dynamics_node.model.loop_joints import LOOP_KINDS, across
from dynamics_node.program import interpret, trace
from dynamics_node.spatial import cross_motion, matvec, transpose


def bears(loop, P, d):
    """Columns (6, any): the forces (moment, force) that such a joint transmits, as textbooks have them; P, d: axes
    and origin of the predecessor's frame in the successor's."""
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


@pytest.fixture(scope="module", params=LOOP_KINDS)
def closed(request):
    """Tree, loop joint, closed positions and rates. A fixed one lets this arm not move: tried at home."""
    kind = request.param
    mechanism = dn.parse_mechanism(SPATIAL["revolute" if kind == "fixed" else kind])
    (loop,) = mechanism.constraints
    q, yd, _ = states(mechanism, 3, reach=0.1)
    if kind == "fixed":
        return mechanism.tree, replace(loop, kind=kind), 0 * q, 0 * q
    return mechanism.tree, loop, q, mechanism.spanning(q, yd)[1]


def place(tree, loop, q):
    """P, d on symbols: axes and origin of the predecessor's frame in the successor's."""
    (P, p), (S, s) = end_frames(tree, joint_transforms(tree, q), loop)
    return {"P": S.T @ P, "d": S.T @ (p - s)}


def test_what_it_bears(closed):
    tree, loop, q, qd = closed
    at = interpret(trace(lambda q: place(tree, loop, q), {"q": (tree.nq,)}), q=q)
    T = interpret(cut_program(tree, loop), q=q, qd=qd)["T"]
    for own, P, d in zip(T, at["P"], at["d"], strict=True):
        expected = bears(loop, P, d)
        rank = expected.shape[1]
        assert own.shape == expected.shape and np.linalg.matrix_rank(own, tol=0.1) == rank
        assert np.linalg.matrix_rank(np.hstack([own, expected]), tol=1e-8) == rank


def test_rate_and_change_are_those_of_phi(closed):
    """The derivatives of phi by time, once through the motion of its ends and once through the joints, at rates and
    positions that may open it."""
    tree, loop, _, _ = closed
    random = np.random.default_rng(8)
    q, qd, qdd = random.uniform(-1, 1, (3, 4, tree.nv))

    def phi(q):
        at = place(tree, loop, q)
        return {
            "phi": np.array(loop.type.phi(loop, at["P"], np.eye(3), at["d"]), dtype=object) / scale_of(loop)
        }

    K = trace(phi, {"q": (tree.nq,)}).jacobian(["phi"], ["q"])
    rate = trace(
        lambda q, qd: {"rate": interpret(K, q=q)["dphi_dq"] @ qd}, {"q": (tree.nq,), "qd": (tree.nv,)}
    )
    change = rate.jacobian(["rate"], ["q", "qd"])
    cut = interpret(cut_program(tree, loop), q=q, qd=qd)
    assert np.allclose(cut["rate"], interpret(rate, q=q, qd=qd)["rate"], atol=1e-12)
    by = interpret(change, q=q, qd=qd)
    by_joints = matvec(by["drate_dq"], qd) + matvec(by["drate_dqd"], qdd)
    vJ = joint_motions(tree, qd)
    X_up = joint_transforms(tree, q)
    v = outward(tree, X_up, vJ)
    a = outward(tree, X_up, joint_motions(tree, qdd) + cross_motion(v, vJ))
    ends = [
        matvec(X, a[:, i]) if i >= 0 else np.zeros((4, 6))
        for X, i in ((cut["X_p"], loop.predecessor), (cut["X_s"], loop.successor))
    ]
    by_ends = matvec(transpose(cut["T"]), ends[0] - ends[1]) - cut["change"]
    assert np.allclose(by_ends, by_joints, atol=1e-11)
