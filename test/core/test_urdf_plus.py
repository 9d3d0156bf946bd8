"""Parsing of closed loops, gears and belts, and error messages."""

import numpy as np
import pytest
from mechanisms import joint, link, loop, robot, spatial_loop
from robots import closed_states
from tolerances import EXACT, error

import dynamics_node as dn
from benchmarks.cluster_alternatives import independent_tree
from dynamics_demo.robots import belt_leg, coupling, five_bar, four_bar, geared_chain, humanoid
from dynamics_node.algorithms.first_positions import generic_positions
from dynamics_node.robot.constraints import FunctionConstraint


@pytest.mark.parametrize("kind", ["revolute", "ball", "planar"])
def test_kind_of_loop_joint_determines_planar_mobility(kind):
    """A pin and a ball give a planar loop the same mobility; a planar joint in its own plane adds no constraint."""
    mechanism = dn.parse_robot(four_bar(kind, (None, None, None)))
    assert mechanism.nv == (3 if kind == "planar" else 1)


def test_fixed_joints_of_geared_robots():
    """Explicit joints move with their masters even if not chosen; a joint fixed away from zero shifts its dependents."""
    driven = [f"left_{part}_joint" for part in ("thigh", "thigh_rotor", "shank")]
    robot = dn.parse_robot(humanoid(), joints=driven)
    rotors = [joint.name for joint in robot.explicit_joints]
    assert sorted(rotors) == [f"left_{part}_rotor_joint" for part in ("foot", "shank", "thigh")]
    assert robot.joint_names == robot.q_names == ("left_thigh_joint", "left_shank_joint")
    with pytest.raises(dn.ModelError, match="'left_thigh_rotor_joint'.*'left_thigh_joint'"):
        dn.parse_robot(humanoid(), joints=["left_thigh_rotor_joint"])
    partly_fixed = dn.parse_robot(belt_leg(), joints=["leg_foot_joint"], positions={"leg_shank_joint": 0.4})
    at = dict(zip(partly_fixed.joint_map_names, dn.spanning(partly_fixed, [0.1])[0], strict=True))
    assert at["leg_foot_rotor_joint"] == pytest.approx(12.0 * 0.5)  # the belt runs past the knee
    rigid = dn.parse_robot(
        four_bar().replace("</robot>", link("tip", 5, 1.0) + joint("free", "rocker", "tip") + "</robot>"),
        joints=["free"],
    )
    assert rigid.nv == 1 and not rigid.constraints


def test_loops_of_a_sidecar_file(tmp_path):
    """A five-bar with its loop in a file: two fixed links are the ends."""
    ends = [
        link("end2"), link("end4"), joint("e2", "left_lower", "end2", "0.5 0 0", kind="fixed"),
        joint("e4", "right_lower", "end4", "0.5 0 0", kind="fixed"),
    ]  # fmt: skip
    bare = five_bar().split("<loop")[0] + "".join(ends) + "</robot>"
    (tmp_path / "robot.urdf").write_text(bare)
    (tmp_path / "loops.yaml").write_text("closed_loop: [[end2, end4]]\ntype: [3d]\n")
    from_file = dn.load_robot(tmp_path / "robot.urdf", loops_file=tmp_path / "loops.yaml")
    from_urdf = dn.parse_robot(five_bar())
    q, yd, ydd = closed_states(from_urdf, 4)
    ours, theirs = (dn.build(m, dn.inverse_dynamics(m))(q, yd, ydd) for m in (from_file, from_urdf))
    assert from_file.v_names == from_urdf.v_names and error(ours, theirs).max() <= EXACT
    for text, words in {
        "closed_loop: [end2]": "closed_loop.*pairs",
        "[1, 2": "YAML",
        "x" * 2_000_000: "1048576 bytes",
    }.items():
        with pytest.raises(dn.ModelError, match=words):
            dn.parse_robot(bare, loops=text)


def spatial_four_bar(socket, cross):
    """A crank, a coupler on a ball-and-socket joint, and a rocker with a universal joint; socket, cross: elements."""
    return robot(
        link("base"), link("crank", 1, 1.0), link("coupler", 2, 1.0), link("rocker", 3, 1.0), link("fork", 4, 1.0),
        joint("j1", "base", "crank", axis="0 0 1"), socket, joint("j3", "base", "rocker", "1 0 0", "0 0.3 1"), cross,
        link("tip"), link("eye"), joint("at_tip", "coupler", "tip", "0.9 0 0.1", kind="fixed"),
        joint("at_eye", "fork", "eye", "0 0 0", kind="fixed"),
    )  # fmt: skip


def test_motors_and_joint_types_of_a_loops_file(tmp_path):
    """Joint names mean child links, SPHERICAL a ball joint, and UJOINT_ZY two hinges. Motors are independent."""
    spec = "closed_loop: [[at_tip, eye]]\ntype: [6D]\nname_mot: [j3]\n"
    spec += "joint_name: [s, u]\njoint_type: [Spherical, UJOINT_ZY]"
    plain = spatial_four_bar(
        joint("s", "crank", "coupler", "0.4 0 0", "1 0 0"),
        joint("u", "rocker", "fork", "0.5 0 0.2", "0 1 0", rpy="0.1 0 2"),
    )
    (tmp_path / "robot.urdf").write_text(plain)
    (tmp_path / "loops.yaml").write_text(spec)
    from_file = dn.load_robot(tmp_path / "robot.urdf", loops_file=tmp_path / "loops.yaml")
    hinges = (
        joint("u_Z", "rocker", "u_Z", "0.5 0 0.2", "0 0 1", "continuous", rpy="0.1 0 2"),
        link("u_Z"), joint("u_Y", "u_Z", "fork", axis="0 1 0", kind="continuous"),
    )  # fmt: skip
    ball = joint("s", "crank", "coupler", "0.4 0 0", kind="ball")
    tie = loop("tie", "fixed", "tip", "0 0 0", "eye", "0 0 0")
    written = spatial_four_bar(ball, "".join(hinges)).replace("</robot>", f"{tie}</robot>")
    written = written.replace('"j1" type', '"j1" independent="false" type')
    for name in ("s", "u_Z", "u_Y"):
        written = written.replace(f'"{name}" type', f'"{name}" independent="false" type')
    from_urdf = dn.parse_robot(written)
    assert from_file.v_names == from_urdf.v_names == ("j3",)
    q = generic_positions(from_urdf)
    order = [from_urdf.q_names.index(name) for name in from_file.q_names]
    ours, theirs = (
        dn.build(own, dn.inverse_dynamics(own), backend="numpy")(
            at, 0.7 * np.ones((len(q), 1)), np.ones((len(q), 1))
        )
        for own, at in ((from_file, q[:, order]), (from_urdf, q))
    )
    assert error(ours, theirs).max() <= EXACT
    for text, words in {spec.replace("name_mot", "motors"): "loops.yaml.*unknown key 'motors'"}.items():
        (tmp_path / "loops.yaml").write_text(text)
        with pytest.raises(dn.ModelError, match=words):
            dn.load_robot(tmp_path / "robot.urdf", loops_file=tmp_path / "loops.yaml")


def test_independent_tree_reflects_rotor_inertia():
    """At rest and without gravity, the approximation lacks only off-diagonal terms of rotors in M."""
    exact, text = dn.parse_robot(geared_chain(3)), geared_chain(3)
    reflected, bare = independent_tree(text), independent_tree(text, reflect=False)
    assert reflected.joint_names == bare.joint_names == exact.joint_names
    q = np.zeros(3)
    M = dn.evaluate(exact, "mass_matrix", q, backend="numpy")
    near = dn.evaluate(reflected, "mass_matrix", q, backend="numpy")
    far = dn.evaluate(bare, "mass_matrix", q, backend="numpy")
    assert np.abs(M - near).max() < 0.3 * np.abs(M - far).max()
    rotors = [body for body in exact.bodies if body.joint.masters]
    turning = [body.joint.axis @ body.inertia[:3, :3] @ body.joint.axis for body in rotors]
    assert np.allclose(np.sort(reflected.armature), np.sort(36.0 * np.array(turning)))
    with pytest.raises(dn.ModelError, match="'pin'.*ratio"):
        independent_tree(four_bar())


INVALID = {
    "rigid": (spatial_loop("fixed"), "'tie'.*move"),
    "too many marked": (four_bar(independent=(False, False, False)), "'pin'.* 2 joints.*marks 3"),
    "too few marked": (four_bar(independent=(True, True, False)), "2 joints.*marks 1 .*'rocker_j'"),
    "never closed": (four_bar().replace('xyz="0.7 0 0"', 'xyz="9 0 0"'), "'pin'.*closed"),
    "ends on one body": (four_bar().replace('successor link="rocker"', 'successor link="coupler"'), "'pin'.*ends"),
    "axis": (four_bar().replace('</successor><axis xyz="0 0 1"/>', '</successor><axis xyz="0 0 0"/>'), "'pin'.*axis.*zero"),
    "numbers": (four_bar().replace('</successor><axis xyz="0 0 1"/>', '</successor><axis xyz="0 0"/>'), " 3 numbers.* 2"),
    "two gears at odds": (geared_chain(1).replace("</robot>", coupling("more", "l1", "r1", 5.0) + "</robot>"), "'more'.*'j1'.*move"),
    "mimics that contradict": (robot(link("a"), *(link(f"b{k}", k, 1.0) for k in range(2)), joint("j0", "a", "b0"), joint("j1", "a", "b1").replace("</joint>", '<mimic joint="j0" offset="0.5"/></joint>'), coupling("same", "b0", "b1", 1.0)), "'same' contradicts.*0.5"),
    "coupling of one body": (robot(link("a"), link("b", 1, 1.0), joint("j", "a", "b"), coupling("c", "b", "b", 2.0)), "'c'.*moves"),
}  # fmt: skip


@pytest.mark.parametrize("what", INVALID)
def test_invalid_loops_are_rejected_by_name(what):
    text, words = INVALID[what]
    with pytest.raises(dn.ModelError, match=words):
        dn.parse_robot(text)


def test_singular_choice_of_independent_joints_is_rejected():
    """Of two coaxial joints at least one must be independent."""
    text = robot(
        link("ground"), link("a", 1, 1.0), link("b", 2, 1.0), link("c", 3, 1.0), link("d", 4, 1.0),
        joint("j1", "ground", "a", independent=False), joint("j2", "a", "b", independent=False),
        joint("j3", "b", "c", "0.3 0 0", independent=True), joint("j4", "c", "d", "0.8 0 0", independent=True),
        loop("tie", "revolute", "d", "0.5 0 0", "ground", "0.9 0.2 0"),
    )  # fmt: skip
    with pytest.raises(dn.ModelError, match="independent joints.*; use "):
        dn.parse_robot(text)


def test_constraint_with_a_varying_rank():
    """The constraint fixes j0 on one branch, j1 and j2 on the other. The default is the branch with fewer fixed joints,
    unless the file marks the others as dependent."""
    links = [link("a"), *(link(f"b{k}", k, 1.0) for k in range(3))]

    def two_branches(tree):
        function = lambda q: np.array([q[0] * q[1], q[0] * q[2]])  # noqa: E731
        return FunctionConstraint("fork", function, (0, 1, 2), frozenset({0, 1, 2}))

    for marks, own in (((None, None, None), 0), ((True, False, False), 1)):
        joints = (joint(f"j{k}", "a", f"b{k}", independent=mark) for k, mark in enumerate(marks))
        mechanism = dn.parse_robot(robot(*links, *joints), constraints=[two_branches])
        assert mechanism.v_names == (("j1", "j2"), ("j0",))[own]
        inverse = dn.build(mechanism, dn.inverse_dynamics(mechanism), backend="numpy")
        branches, one = np.array([[0.0, 0.3, 0.4], [0.5, 0.0, 0.0]]), np.ones(mechanism.nv)
        assert np.isfinite(inverse(branches[own], one, one)).all()
        with pytest.raises(dn.SolutionError, match=f"fork.*assembly.* {2 - own} equations"):
            inverse(branches[1 - own], one, one)
        with pytest.raises(dn.SolutionError, match=f"singular.*fork: 0 .* {1 + own} "):
            inverse(np.zeros(3), one, one)
