"""The records of all kinds of joints are consistent."""

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


def position(kind, random):
    """A random q (nq,)."""
    q = random.uniform(-1.5, 1.5, kind.nq)
    if kind.quaternion is not None:
        at = slice(kind.quaternion, kind.quaternion + 4)
        q[at] /= np.linalg.norm(q[at])
    return q


def transform(kind, axis, q):
    """X_J (6, 6) from the symbolic factors."""
    program = trace(lambda q: {"X": product(kind.factors(axis, q))}, {"q": (kind.nq,)})
    return interpret(program, q=q)["X"]


def product(factors):
    return reduce(np.matmul, (factor.matrix() for factor in factors))


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.fixture(params=AXES)
def axis(request):
    return AXES[request.param]


@pytest.fixture
def random():
    return np.random.default_rng(4)


def test_sizes(kind, axis):
    assert kind.motion(axis).shape == (6, kind.nv) and kind.neutral.shape == (kind.nq,)
    assert np.linalg.matrix_rank(kind.motion(axis)) == kind.nv
    assert len(kind.q_names) in (0, kind.nq) and len(kind.v_names) in (0, kind.nv)
    assert kind.has_axis == (kind.parts is not None) == kind.is_scalar


def test_frames_coincide_at_neutral(kind, axis):
    assert np.allclose(transform(kind, axis, kind.neutral), np.eye(6), atol=1e-15)


def test_parts_and_factors_give_one_transform(kind, axis, random):
    q = position(kind, random)
    X = transform(kind, axis, q)
    if kind.parts is None:
        both = product(kind.factors(axis, np.stack([q, kind.neutral])))
        assert np.allclose(both, [X, np.eye(6)], atol=1e-15)
    else:
        P, C, S, L = kind.parts(axis)
        assert np.allclose(P + np.cos(q) * C + np.sin(q) * S + q * L, X, atol=1e-15)


def test_motion_subspace_gives_the_rate_of_the_transform(kind, axis, random):
    """The rate of X is -(S rates) x X."""
    q = position(kind, random)
    X, S = transform(kind, axis, q), kind.motion(axis)
    for k in range(kind.nv):
        rates = np.eye(kind.nv)[k]
        ahead, behind = (transform(kind, axis, kind.moved(q, s * STEP * rates)) for s in (1, -1))
        assert np.allclose((ahead - behind) / (2 * STEP), -cross_matrix(S @ rates) @ X, atol=1e-8)


def test_tangent_gives_the_rate_of_positions(kind, random):
    q = position(kind, random)
    T = np.broadcast_to(kind.tangent(q), (kind.nq, kind.nv))
    for k in range(kind.nv):
        rates = np.eye(kind.nv)[k]
        ahead, behind = (kind.moved(q, s * STEP * rates) for s in (1, -1))
        assert np.allclose((ahead - behind) / (2 * STEP), T[:, k], atol=1e-8)


def test_symbolic_moves_equal_numeric_moves(kind, random):
    q, step = position(kind, random), random.normal(size=kind.nv)
    shapes = {"q": (kind.nq,), "step": (kind.nv,)}
    program = trace(lambda q, step: {"q": kind.moved(q, step), "T": 1.0 * kind.tangent(q)}, shapes)
    outputs = interpret(program, q=q, step=step)
    assert np.allclose(outputs["q"], kind.moved(q, step), atol=1e-15)
    assert np.allclose(outputs["T"], kind.tangent(q), atol=1e-15)


def test_moves_normalize_quaternions(kind, random):
    if kind.quaternion is None:
        pytest.skip("no quaternion")
    at = slice(kind.quaternion, kind.quaternion + 4)
    q = np.stack([position(kind, random) for _ in range(20)])
    moved = kind.moved(q, random.normal(size=(20, kind.nv)) * 3)
    assert np.allclose(np.linalg.norm(moved[:, at], axis=1), 1, atol=1e-15)
    q[:, at] *= 1 + UNIT
    assert np.allclose(
        np.linalg.norm(kind.moved(q, np.zeros((20, kind.nv)))[:, at], axis=1), 1, atol=2 * UNIT**2
    )


def test_still_points_do_not_move(kind, random):
    """The part of a body's inertia that moves to the parent is the same there at every position."""
    z = AXES["z"]
    rows = np.ix_(kind.still_points(z), kind.still_points(z))
    J = np.zeros((4, 4))
    J[rows] = (random.normal(size=(4, 4)) + np.eye(4) * 5)[rows]
    still = inertia_of_pseudo(J + J.T)
    X = transform(kind, z, position(kind, random))
    assert np.allclose(X.T @ still @ X, still, atol=1e-13)
    for k in set(range(4)) - set(kind.still_points(z)):
        J = np.zeros((4, 4))
        J[k, k] = 1.0
        moves = inertia_of_pseudo(J)
        assert not np.allclose(X.T @ moves @ X, moves, atol=1e-3)


def test_screws(kind, axis, random):
    """X of a joint with one coordinate is the exponential of its axis."""
    if not kind.is_scalar:
        pytest.skip("several coordinates")
    q = position(kind, random)
    X = transform(kind, axis, q)
    assert np.allclose(X, expm(-cross_matrix(kind.motion(axis)[:, 0]) * q), atol=1e-14)
    assert np.allclose(transform_rotation(X) @ transform_rotation(X).T, np.eye(3), atol=1e-14)
    assert np.isfinite(transform_origin(X)).all()


def test_floating_joint_has_no_rotor():
    """NumPy once added an armature from the file, and compiled code did not."""
    text = """<robot name="r"><link name="world"/><link name="body"><inertial><mass value="2"/>
    <inertia ixx="0.1" iyy="0.2" izz="0.25" ixy="0" ixz="0" iyz="0"/></inertial></link>
    <joint name="free" type="floating"><parent link="world"/><child link="body"/>
    <dynamics armature="0.5"/></joint></robot>"""
    model = dn.parse_robot(text)
    assert not model.armature.any()
    assert any("'free': a floating joint has no rotor" in warning for warning in model.warnings)
    with pytest.raises(dn.ModelError, match="'free'.*rotor"):
        dn.parse_robot(text, armature={"free": 0.5})


def test_difference_is_the_step(kind, random):
    start, step = position(kind, random), 0.7 * random.normal(size=kind.nv)
    end = kind.moved(start, step)
    assert np.allclose(kind.moved(start, kind.difference(end, start)), end, atol=1e-14)
    assert np.allclose(kind.difference(end, start), step, atol=1e-13)
    assert np.allclose(kind.difference(start, start), 0.0, atol=1e-15)


def test_symbolic_differences_equal_numeric_differences(kind, random):
    start = position(kind, random)
    to = kind.moved(start, random.normal(size=kind.nv))
    shapes = {"to": (kind.nq,), "start": (kind.nq,)}
    program = trace(lambda to, start: {"step": kind.difference(to, start)}, shapes)
    assert np.allclose(interpret(program, to=to, start=start)["step"], kind.difference(to, start), atol=1e-14)
    both = kind.difference(np.stack([to, start]), np.stack([start, to]))
    assert np.allclose(both[0], kind.difference(to, start), atol=1e-15)
