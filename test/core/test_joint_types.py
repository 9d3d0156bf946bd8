"""The records of the kinds of joints agree with themselves: every kind is tried alike."""

from functools import reduce

import numpy as np
import pytest
from scipy.linalg import expm

import dynamics_node as dn
from dynamics_node.robot.joints import KINDS
from dynamics_node.symbolic import (
    UNIT,
    inertia_of_pseudo,
    interpret,
    trace,
    transform_origin,
    transform_rotation,
)
from dynamics_node.symbolic.spatial import cross_matrix

AXES = {"z": np.array([0.0, 0.0, 1.0]), "askew": np.array([2.0, -3.0, 6.0]) / 7.0}
STEP = 1e-6


def position(of, random):
    """Any q (nq,)."""
    q = random.uniform(-1.5, 1.5, of.nq)
    if of.quaternion is not None:
        at = slice(of.quaternion, of.quaternion + 4)
        q[at] /= np.linalg.norm(q[at])
    return q


def transform(of, axis, q):
    """X_J (6, 6), by the factors of symbols."""
    program = trace(lambda q: {"X": product(of.factors(axis, q))}, {"q": (of.nq,)})
    return interpret(program, q=q)["X"]


def product(factors):
    return reduce(np.matmul, (factor.matrix() for factor in factors))


@pytest.fixture(params=KINDS)
def of(request):
    return KINDS[request.param]


@pytest.fixture(params=AXES)
def axis(request):
    return AXES[request.param]


@pytest.fixture
def random():
    return np.random.default_rng(4)


def test_sizes(of, axis):
    assert of.motion(axis).shape == (6, of.nv) and of.neutral.shape == (of.nq,)
    assert np.linalg.matrix_rank(of.motion(axis)) == of.nv
    assert len(of.q_names) in (0, of.nq) and len(of.v_names) in (0, of.nv)
    assert of.has_axis == (of.parts is not None) == of.is_scalar


def test_at_neutral_both_frames_are_the_same(of, axis):
    assert np.allclose(transform(of, axis, of.neutral), np.eye(6), atol=1e-15)


def test_parts_and_factors_are_one_transform(of, axis, random):
    q = position(of, random)
    X = transform(of, axis, q)
    if of.parts is None:
        both = product(of.factors(axis, np.stack([q, of.neutral])))
        assert np.allclose(both, [X, np.eye(6)], atol=1e-15)
    else:
        P, C, S, L = of.parts(axis)
        assert np.allclose(P + np.cos(q) * C + np.sin(q) * S + q * L, X, atol=1e-15)


def test_the_motion_subspace_is_how_the_transform_changes(of, axis, random):
    """X moves by -(S rates) x X."""
    q = position(of, random)
    X, S = transform(of, axis, q), of.motion(axis)
    for k in range(of.nv):
        rates = np.eye(of.nv)[k]
        ahead, behind = (transform(of, axis, of.moved(q, s * STEP * rates)) for s in (1, -1))
        assert np.allclose((ahead - behind) / (2 * STEP), -cross_matrix(S @ rates) @ X, atol=1e-8)


def test_the_tangent_is_how_positions_move(of, random):
    q = position(of, random)
    T = np.broadcast_to(of.tangent(q), (of.nq, of.nv))
    for k in range(of.nv):
        rates = np.eye(of.nv)[k]
        ahead, behind = (of.moved(q, s * STEP * rates) for s in (1, -1))
        assert np.allclose((ahead - behind) / (2 * STEP), T[:, k], atol=1e-8)


def test_symbols_move_as_floats_do(of, random):
    q, step = position(of, random), random.normal(size=of.nv)
    shapes = {"q": (of.nq,), "step": (of.nv,)}
    program = trace(lambda q, step: {"q": of.moved(q, step), "T": 1.0 * of.tangent(q)}, shapes)
    found = interpret(program, q=q, step=step)
    assert np.allclose(found["q"], of.moved(q, step), atol=1e-15)
    assert np.allclose(found["T"], of.tangent(q), atol=1e-15)


def test_moving_far_keeps_quaternions_and_mends_them(of, random):
    if of.quaternion is None:
        pytest.skip("no quaternion")
    at = slice(of.quaternion, of.quaternion + 4)
    q = np.stack([position(of, random) for _ in range(20)])
    moved = of.moved(q, random.normal(size=(20, of.nv)) * 3)
    assert np.allclose(np.linalg.norm(moved[:, at], axis=1), 1, atol=1e-15)
    q[:, at] *= 1 + UNIT
    assert np.allclose(np.linalg.norm(of.moved(q, np.zeros((20, of.nv)))[:, at], axis=1), 1, atol=2 * UNIT**2)


def test_still_points_do_not_move(of, random):
    """The part of a body's inertia that is counted with the parent looks the same there at every position."""
    z = AXES["z"]
    rows = np.ix_(of.still_points(z), of.still_points(z))
    J = np.zeros((4, 4))
    J[rows] = (random.normal(size=(4, 4)) + np.eye(4) * 5)[rows]
    still = inertia_of_pseudo(J + J.T)
    X = transform(of, z, position(of, random))
    assert np.allclose(X.T @ still @ X, still, atol=1e-13)
    for k in set(range(4)) - set(of.still_points(z)):
        J = np.zeros((4, 4))
        J[k, k] = 1.0
        moves = inertia_of_pseudo(J)
        assert not np.allclose(X.T @ moves @ X, moves, atol=1e-3)


def test_screws(of, axis, random):
    """Of a joint with one coordinate X is the exponential of its axis."""
    if not of.is_scalar:
        pytest.skip("several coordinates")
    q = position(of, random)
    X = transform(of, axis, q)
    assert np.allclose(X, expm(-cross_matrix(of.motion(axis)[:, 0]) * q), atol=1e-14)
    assert np.allclose(transform_rotation(X) @ transform_rotation(X).T, np.eye(3), atol=1e-14)
    assert np.isfinite(transform_origin(X)).all()


def test_a_floating_joint_has_no_rotor():
    """An armature of the file was counted by NumPy and not by compiled code."""
    text = """<robot name="r"><link name="world"/><link name="body"><inertial><mass value="2"/>
    <inertia ixx="0.1" iyy="0.2" izz="0.25" ixy="0" ixz="0" iyz="0"/></inertial></link>
    <joint name="free" type="floating"><parent link="world"/><child link="body"/>
    <dynamics armature="0.5"/></joint></robot>"""
    model = dn.parse_robot(text)
    assert not model.armature.any()
    assert any("'free': a floating joint has no rotor" in warning for warning in model.warnings)
    with pytest.raises(dn.ModelError, match="'free'.*rotor"):
        dn.parse_robot(text, armature={"free": 0.5})


def test_the_difference_is_the_step_between(of, random):
    start, step = position(of, random), 0.7 * random.normal(size=of.nv)
    to = of.moved(start, step)
    assert np.allclose(of.moved(start, of.difference(to, start)), to, atol=1e-14)
    assert np.allclose(of.difference(to, start), step, atol=1e-13)
    assert np.allclose(of.difference(start, start), 0.0, atol=1e-15)


def test_symbols_differ_as_floats_do(of, random):
    start = position(of, random)
    to = of.moved(start, random.normal(size=of.nv))
    shapes = {"to": (of.nq,), "start": (of.nq,)}
    program = trace(lambda to, start: {"step": of.difference(to, start)}, shapes)
    assert np.allclose(interpret(program, to=to, start=start)["step"], of.difference(to, start), atol=1e-14)
    both = of.difference(np.stack([to, start]), np.stack([start, to]))
    assert np.allclose(both[0], of.difference(to, start), atol=1e-15)
