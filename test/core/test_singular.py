"""Robots with a singular mass matrix raise an error with the joint's name, never return huge accelerations."""

import numpy as np
import pytest
from mechanisms import joint, link, robot
from robots import ROBOTS

import dynamics_node as dn
from dynamics_node.algorithms.pivots import free_coordinates, undetermined_joints

COM = '<link name="{}"><inertial><origin xyz="{}"/><mass value="1"/>{}</inertial></link>'


def point(name, xyz="0 0 0"):
    return COM.format(name, xyz, '<inertia ixx="0" ixy="0" ixz="0" iyy="0" iyz="0" izz="0"/>')


BASE = link("base", 0, 1.0)
HINGES = [joint(f"j{k}", parent, child, "0.3 0 0") for k, (parent, child) in enumerate(("sa", "ab", "bc"), 1)]
SINGULAR = {  # parts, joints that nothing determines
    "a wheel without inertia": (
        (BASE, link("a", 1, 1.0), point("w"), joint("j", "base", "a"), joint("wheel", "a", "w")), ["wheel"],
    ),
    "coaxial joints, a massless link between": (
        (BASE, link("a"), link("b", 1, 1.0), joint("j1", "base", "a"), joint("j2", "a", "b", "0 0 1")), ["j1", "j2"],
    ),
    "parallel slides": (
        (
            BASE, link("a"), link("b", 1, 1.0), joint("s1", "base", "a", kind="prismatic"),
            joint("s2", "a", "b", "1 0 0", kind="prismatic"),
        ),
        ["s1", "s2"],
    ),
    "a massless floating base with one child": (
        (link("base"), link("a", 1, 1.0), joint("j", "base", "a", "0.1 0 0")), ["floating_base", "j"],
    ),
    "a rod without inertia about itself": ((BASE, point("a", "0 0 0.3"), joint("roll", "base", "a")), ["roll"]),
    "three hinges in a plane and one point": (
        (link("s", 0, 1.0), link("a"), link("b"), point("c", "0.3 0 0"), *HINGES), ["j1", "j2", "j3"],
    ),
}  # fmt: skip


def singular(name, **choices):
    parts, joints = SINGULAR[name]
    return dn.parse_robot(robot(*parts), floating_base="floating base" in name, **choices), joints


@pytest.mark.parametrize("name", SINGULAR)
def test_singular_mass_matrix_raises_an_error_with_the_joints(name):
    model, joints = singular(name)
    assert list(undetermined_joints(model)) == joints
    problem = dn.forward_dynamics(model)
    builds = [lambda b=b: dn.build(model, problem, backend=b) for b in ("c", "numpy")]
    builds += [
        lambda: dn.build(model, problem, solver="factor_graph", backend="numpy"),
        lambda: dn.build(model, "forward_dynamics_derivatives"),
        lambda: dn.build(model, "operational_space_inertia_inverse", links=[model.bodies[-1].name]),
    ]
    for build in builds:
        with pytest.raises(ValueError) as caught:
            build()
        assert all(repr(joint) in str(caught.value) for joint in joints)


@pytest.mark.parametrize("name", SINGULAR)
def test_inverse_dynamics_of_singular_robots_is_finite(name):
    model, _ = singular(name)
    tau = dn.build(model, dn.inverse_dynamics(model))(model.neutral(), np.ones(model.nv), np.ones(model.nv))
    assert np.isfinite(tau).all()


def test_armature_makes_a_robot_regular():
    model, _ = singular("coaxial joints, a massless link between", armature={"j1": 1e-6})
    assert undetermined_joints(model) == ()
    assert np.isfinite(dn.build(model, dn.forward_dynamics(model))([0.1, 0.2], [0, 0], [1, 1])).all()


def test_hybrid_dynamics_may_be_regular():
    model, _ = singular("coaxial joints, a massless link between")
    solver = dn.build(model, dn.hybrid_dynamics(model, ["j1"]))
    qdd, tau = solver([0.1, 0.2], [0, 0], [0, 1.0], [1.0, 0])
    assert np.isfinite(qdd).all() and np.isfinite(tau).all()


def test_mimic_joints_are_part_of_the_mass_matrix():
    parts = [BASE, link("a"), link("b", 1, 1.0), joint("j1", "base", "a"), joint("j2", "a", "b", "0 0 1")]
    follower = joint("j3", "base", "c").replace("<limit", '<mimic joint="j2" multiplier="2"/><limit')
    model = dn.parse_robot(robot(*parts, link("c"), follower))
    assert model.explicit_joints and undetermined_joints(model) == ("j1", "j2")
    with pytest.raises(ValueError, match="'j1', 'j2'"):
        dn.build(model, dn.forward_dynamics(model))


@pytest.mark.parametrize("name", ["panda", "tiago_pro", "talos", "kinova"])
def test_real_robots_are_regular(name):
    assert undetermined_joints(ROBOTS[name].model()) == ()


def test_long_chains_are_regular():
    from test_frames_lose_no_digits import chain

    model = dn.parse_robot(chain(*[{"xyz": "0.3 0.2 0.1", "rpy": "0.1 0.2 0.7", "axis": "0 1 1"}] * 300))
    assert undetermined_joints(model) == ()


def test_null_space_of_matrices():
    J = np.random.default_rng(0).normal(size=(3, 4, 2))
    M = np.zeros((3, 4, 4))
    M[:, 1:, 1:] = np.eye(3)
    M[:, 1, 2] = M[:, 2, 1] = 1.0
    assert free_coordinates(M).tolist() == [True, True, True, False]
    assert not free_coordinates(np.eye(4)[None] + J @ np.swapaxes(J, -1, -2)).any()
