"""Parsing of URDF: accepted text, choices, and error messages. For every element and attribute, see test_elements."""

import re
import warnings
from xml.etree import ElementTree

import numpy as np
import pytest
from tolerances import EXACT, error
from urdf_text import INERTIAL, joint, link, robot

import dynamics_node as dn
from dynamics_node.errors import ModelError, ModelWarning
from dynamics_node.robot import load_robot, parse_robot
from dynamics_node.robot.loading import read_description
from dynamics_node.robot.safe_xml import MAX_BYTES
from dynamics_node.robot.urdf_elements import MOST_KINDS
from dynamics_node.robot.urdf_numbers import Inertial, with_numbers
from dynamics_node.symbolic import rpy_rotation

ARM = (link("base"), link("a"), link("b"), joint("j1", "base", "a"), joint("j2", "a", "b"))


def test_robot_is_read():
    model = parse_robot(robot(*ARM, '<gazebo><x/></gazebo><ros2_control name="c"/>'))
    assert model.joint_names == ("j1", "j2")
    assert model.q_names == model.v_names == ("j1", "j2")
    assert set(model.frames) == {"base", "a", "b"}
    assert model.effort_limits.tolist() == [10, 10]
    assert model.base_link == "base" and not model.floating_base and model.warnings == ()


def test_bytes_with_an_encoding_declaration_are_read():
    text = '<?xml version="1.0" encoding="utf-8"?>' + robot(*ARM)
    assert parse_robot(text).nv == parse_robot(text.encode()).nv == 2


@pytest.mark.parametrize("limit", ['<limit effort="10"/>', '<limit velocity="1"/>', "<limit/>", ""])
def test_limits_may_be_incomplete(limit):
    continuous = f'<joint name="j1" type="continuous"><parent link="base"/><child link="a"/>{limit}</joint>'
    model = parse_robot(robot(link("base"), link("a"), continuous))
    assert model.effort_limits[0] == (10 if "effort" in limit else np.inf)


def test_fixed_links_merge_and_keep_their_frame():
    model = parse_robot(robot(*ARM, link("tool"), joint("weld", "b", "tool", "fixed")))
    assert model.nbodies == 2
    assert model.frames["tool"].body == 1
    assert model.bodies[1].inertia[5, 5] == pytest.approx(2.0)


def test_mimic_shares_the_coordinate_and_chains_are_composed():
    second = joint("j2", "a", "b", extra='<axis xyz="0 0 1"/><mimic joint="j1" multiplier="2" offset="0.1"/>')
    third = joint("j3", "b", "c", extra='<axis xyz="0 0 1"/><mimic joint="j2" multiplier="-3" offset="1"/>')
    model = parse_robot(robot(*ARM[:4], second, link("c"), third))
    assert model.joint_names == ("j1",)
    q, qd, _ = dn.spanning(model, np.array([0.5]), np.array([1.0]))
    assert np.allclose(q, [0.5, 1.1, -2.3]) and np.allclose(qd, [1, 2, -6])


def test_floating_base_comes_first():
    model = parse_robot(robot(*ARM), floating_base=True)
    assert (model.nq, model.nv, model.nbodies) == (9, 8, 3)
    assert model.q_names[:7] == tuple(f"floating_base.{k}" for k in ("x", "y", "z", "qx", "qy", "qz", "qw"))
    assert model.v_names[0] == "floating_base.angular.x" and model.v_names[6] == "j1"


def test_floating_joint_of_a_file_is_the_floating_base():
    free = '<joint name="free" type="floating"><parent link="world"/><child link="base"/></joint>'
    text = robot('<link name="world"/>', *ARM, free)
    for floating_base in (False, True):
        model = parse_robot(text, floating_base=floating_base)
        assert model.floating_base and model.nv == 8 and model.v_names[0] == "free.angular.x"


# --- choices ------------------------------------------------------------------------------------


def test_excluded_joints_are_fixed_at_their_position():
    whole = parse_robot(robot(*ARM))
    part = parse_robot(robot(*ARM), joints=["j1"], positions={"j2": 0.7})

    assert part.nv == 1
    q = np.array([0.3, 0.7])
    for quantity, options in (("mass_matrix", {}), ("frame_pose", {"link": "b"})):
        own = dn.evaluate(part, quantity, q[:1], **options, backend="numpy")
        right = dn.evaluate(whole, quantity, q, **options, backend="numpy")
        assert np.allclose(own[0], right[0][: own[0].shape[-1]])


def test_root_and_tips_select_a_subtree():
    text = robot(*ARM, link("side"), joint("j3", "a", "side"))
    assert parse_robot(text, root="a").joint_names == ("j2", "j3")
    assert parse_robot(text, tips=["side"]).joint_names == ("j1", "j3")
    assert parse_robot(text, root="a", tips=["b"]).joint_names == ("j2",)


@pytest.mark.parametrize(
    "choices, words",
    [
        ({"joints": ["nope"]}, "'nope'"),
        ({"joints": ["j1"], "positions": {"no": 1.0}}, "'no'"),
        ({"positions": {"j1": 1.0}}, "positions of fixed joints"),
        ({"root": "nope"}, "link 'nope'"),
        ({"tips": ["nope"]}, "link 'nope'"),
        ({"root": "b", "tips": ["a"]}, "'a'.*below"),
        ({"gravity": (0, 0, np.nan)}, "gravity"),
        ({"armature": {"j1": -1.0}}, "armature.*'j1'"),
        ({"armature": {"nope": 1.0}}, "armature.*'nope'"),
    ],
)
def test_invalid_choices_are_rejected(choices, words):
    with pytest.raises(ModelError, match=words):
        parse_robot(robot(*ARM), **choices)


# --- errors -------------------------------------------------------------------------------------

ENTITY = '<!DOCTYPE robot [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><robot name="&b;"><link name="l"/></robot>'
EXTERNAL = (
    '<!DOCTYPE robot [<!ENTITY x SYSTEM "file:///etc/passwd">]><robot name="r"><link name="&x;"/></robot>'
)


def inertial(mass="1", ixx="0.01", iyy="0.01", izz="0.01", xyz="0 0 0"):
    return (
        f'<inertial><origin xyz="{xyz}"/><mass value="{mass}"/>'
        f'<inertia ixx="{ixx}" ixy="0" ixz="0" iyy="{iyy}" iyz="0" izz="{izz}"/></inertial>'
    )


def arm_with(second_link=None, second_joint=None, *more):
    return robot(
        link("base"), link("a"), second_link or link("b"), joint("j1", "base", "a"),
        second_joint or joint("j2", "a", "b"), *more,
    )  # fmt: skip


MIMIC_CYCLE = (
    joint("j1", "base", "a", extra='<mimic joint="j2"/>'),
    joint("j2", "a", "b", extra='<mimic joint="j1"/>'),
)
INVALID = {
    "malformed": ("<robot><link", "malformed XML"),
    "empty": ("", "malformed XML.*bring_your_robot"),
    "not a robot": ("<sdf/>", "convert it.*bring_your_robot"),
    "nul bytes": ("<robot\0/>", "malformed XML"),
    "lone surrogate": ("<robot name='\ud800'/>", "not valid text"),
    "unknown encoding": (b"<?xml version='1.0' encoding='klingon'?><robot/>", "malformed XML"),
    "entities": (ENTITY, "DTD or an entity"),
    "external entity": (EXTERNAL, "DTD or an entity"),
    "over-size": (robot(*ARM, "<!--" + "x" * MAX_BYTES + "-->"), "the limit is"),
    "no links": (robot(), "no links"),
    "nameless link": (robot("<link/>"), "link number 1 has no name"),
    "long link": (robot(link("x" * 10**6)), "link 'x{50}'.* 1000000 characters; the limit is 256"),
    "long joint": (robot(*ARM[:3], joint("j" * 257, "base", "a")), "joint 'j{50}'.* 257 characters"),
    "long loop": (robot(*ARM, f'<loop name="{"l" * 257}"/>'), "loop 'l{50}'.* 257 characters"),
    "NaN mass": (arm_with(link("b", inertial(mass="nan"))), "link 'b': mass is not finite"),
    "infinite inertia": (arm_with(link("b", inertial(mass="0", ixx="inf"))), "link 'b': inertia is not finite"),
    "NaN com": (arm_with(link("b", inertial(xyz="0 nan 0"))), "link 'b': inertial origin is not finite"),
    "NaN axis": (
        arm_with(None, joint("j2", "a", "b", extra='<axis xyz="nan 0 1"/>')),
        "joint 'j2': axis is not finite",
    ),
    "huge axis": (
        arm_with(None, joint("j2", "a", "b", extra='<axis xyz="1e308 1e308 0"/>')),
        "joint 'j2': axis exceeds 1e\\+15",
    ),
    "huge origin": (
        arm_with(None, joint("j2", "a", "b").replace("0 0 0.3", "0 0 1e200")),
        "joint 'j2': origin exceeds",
    ),
    "NaN origin": (
        arm_with(None, joint("j2", "a", "b").replace("0 0 0.3", "0 0 nan")),
        "joint 'j2': origin is not finite",
    ),
    "NaN limit": (
        arm_with(None, joint("j2", "a", "b").replace('effort="10"', 'effort="nan"')),
        "joint 'j2': a limit is NaN",
    ),
    "negative jerk": (arm_with(None, joint("j2", "a", "b").replace("velocity=", 'jerk="-1" velocity=')), "joint 'j2'"),
    "NaN acceleration": (arm_with(None, joint("j2", "a", "b").replace("velocity=", 'acceleration="nan" velocity=')), "joint 'j2'"),
    "deceleration no number": (arm_with(None, joint("j2", "a", "b").replace("velocity=", 'deceleration="fast" velocity=')), "joint 'j2'"),
    "armature no number": (
        arm_with(None, joint("j2", "a", "b", extra='<dynamics armature="big"/>')),
        "'j2'.*'big'",
    ),
    "planar without a normal": (arm_with(None, joint("j2", "a", "b", "planar", '<axis xyz="0 0 0"/>')), "'j2.x'.*axis.*zero"),
    "planar that mimics": (arm_with(None, joint("j2", "a", "b", "planar", '<mimic joint="j1"/>')), "'j2'.*planar.*mimic"),
    "two joints": (arm_with(None, None, link("c"), joint("j1", "b", "c")), "joint 'j1'.*twice"),
    "two parents": (arm_with(None, None, joint("j3", "base", "b")), "'b'.*two parents.*'j2'"),
    "cycle": (robot(link("a"), link("b"), joint("j1", "a", "b"), joint("j2", "b", "a")), "cycle"),
    "cycle beside a root": (
        robot(*ARM, link("c"), link("d"), joint("j3", "c", "d"), joint("j4", "d", "c")),
        "cycle.*(c|d)",
    ),
    "itself": (robot(link("a"), joint("j1", "a", "a")), "cycle"),
    "two roots": (robot(link("a"), link("b")), "parent joint.*'a', 'b'"),
    "massless tip": (arm_with('<link name="b"/>'), "'j2'.*massless"),
    "mimic cycle": (robot(*ARM[:3], *MIMIC_CYCLE), "mimic.*cycle.*j1 -> j2 -> j1"),
    "mimic NaN": (
        arm_with(None, joint("j2", "a", "b", extra='<mimic joint="j1" multiplier="nan"/>')),
        "'j2'.*mimic.*finite",
    ),
    "loop": (robot(*ARM, '<loop name="four_bar" type="revolute"/>'), "'four_bar'.*<predecessor>"),
}  # fmt: skip


@pytest.mark.parametrize("case", INVALID)
def test_invalid_text_raises_an_error_with_name_and_reason(case, capfd):
    text, words = INVALID[case]
    with pytest.raises(ModelError, match=words) as caught:
        parse_robot(text)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")  # no noise of the parser


def test_entities_read_no_file():
    with pytest.raises(ModelError) as caught:
        parse_robot(EXTERNAL)
    assert "root:" not in str(caught.value)


IMPLAUSIBLE = {
    "not definite": (inertial(izz="-0.01"), "link 'b': inertia is not positive definite"),
    "triangle": (inertial(izz="1"), "link 'b': inertia breaks the triangle inequality"),
    "point mass": (inertial(ixx="0", iyy="0", izz="0"), "link 'b': inertia is zero with mass 1"),
}


@pytest.mark.parametrize("along", [0, 1, 2])
def test_moments_in_warnings_have_no_rounding(along):
    """The smallest moment of a rod is zero up to rounding, which depends on the processor."""
    signs = np.roll([1, -1, 1], along)
    ixy, ixz, iyz = (1e-6 * signs[a] * signs[b] for a, b in ((0, 1), (0, 2), (1, 2)))
    rod = inertial(ixx="1e-6", iyy="1e-6", izz="1e-6").replace('ixy="0" ixz="0"', f'ixy="{ixy}" ixz="{ixz}"')
    (warning,) = parse_robot(arm_with(link("b", rod.replace('iyz="0"', f'iyz="{iyz}"')))).warnings
    assert warning == "link 'b': inertia is not positive definite (principal moments 0 0 3e-06)"


@pytest.mark.parametrize("case", IMPLAUSIBLE)
def test_implausible_inertia_warns_and_is_an_error_when_strict(case):
    text, words = arm_with(link("b", IMPLAUSIBLE[case][0])), IMPLAUSIBLE[case][1]
    assert words in parse_robot(text).warnings[0]
    with pytest.raises(ModelError, match=words):
        parse_robot(text, strict=True)


def test_massless_tip_with_armature_or_heavy_child_is_accepted():
    massless = '<link name="b"/>'
    assert parse_robot(arm_with(massless), armature={"j2": 0.01}).nv == 2
    assert parse_robot(arm_with(massless, None, link("c"), joint("j3", "b", "c"))).nv == 3


def test_model_is_frozen_and_pickles():
    import pickle

    model = parse_robot(robot(*ARM))
    with pytest.raises(AttributeError):
        model.name = "other"
    copy = pickle.loads(pickle.dumps(model))
    assert copy.joint_names == model.joint_names and np.array_equal(copy.inertias, model.inertias)


def test_path_is_not_read_as_text(tmp_path):
    (tmp_path / "x.urdf").write_text(robot(*ARM))
    with pytest.raises(ModelError, match="load_robot"):
        parse_robot(str(tmp_path / "x.urdf"))


# --- planar joints ------------------------------------------------------------------------------------------


def planar_arm(axis="0 0 1"):
    """A cart in a plane with an arm of one joint."""
    cart = joint("cart", "base", "a", "planar", f'<axis xyz="{axis}"/>')
    return robot(*ARM[:3], cart, joint("j2", "a", "b", extra='<axis xyz="0 1 0"/>'))


def test_planar_joint_has_three_coordinates():
    model = parse_robot(planar_arm())
    assert model.joint_names == ("cart.x", "cart.y", "cart.theta", "j2")
    rotation, place = dn.evaluate(
        model, "frame_pose", np.array([0.5, -0.2, 0.3, 0.0]), link="a", backend="numpy"
    )
    assert np.allclose(place, [0.5, -0.2, 0.3])  # the joint's origin is 0.3 above
    assert np.allclose(rotation[:, 0], [np.cos(0.3), np.sin(0.3), 0])


@pytest.mark.parametrize("axis", ["0 1 0", "1 0 0", "1 -2 0.5", "0 0 -1", "0.1 0 -3"])
def test_planar_joint_moves_in_its_plane(axis):
    """Translations stay in the plane, and rotations are about its normal."""
    model = parse_robot(planar_arm(axis))
    normal = np.array(axis.split(), dtype=float)
    normal /= np.linalg.norm(normal)
    _, origin = dn.evaluate(model, "frame_pose", np.zeros(4), link="a", backend="numpy")
    for k in range(2):
        _, place = dn.evaluate(model, "frame_pose", np.eye(4)[k], link="a", backend="numpy")
        assert abs((place - origin) @ normal) < 1e-12 and np.linalg.norm(place - origin) == pytest.approx(1)
    rotation, _ = dn.evaluate(model, "frame_pose", np.eye(4)[2], link="a", backend="numpy")
    assert np.allclose(rotation @ normal, normal)


def test_planar_joint_agrees_with_pinocchio():
    """Rates of Pinocchio's planar joint are in body axes; ours are the time derivatives of x, y and theta."""
    pin = pytest.importorskip("pinocchio")
    model, theirs = parse_robot(planar_arm()), pin.buildModelFromXML(planar_arm())
    assert theirs.joints[1].shortname() == "JointModelPlanar"
    inverse = dn.build(model, dn.inverse_dynamics(model))
    random = np.random.default_rng(0)
    for q, qd, qdd in random.uniform(-2, 2, (5, 3, 4)):
        c, s, turn = np.cos(q[2]), np.sin(q[2]), qd[2]
        R = np.array([[c, -s], [s, c]])
        at, rates, accelerations = np.array([*q[:2], c, s, q[3]]), qd.copy(), qdd.copy()
        rates[:2] = R.T @ qd[:2]
        accelerations[:2] = R.T @ qdd[:2] - turn * np.array([-rates[1], rates[0]])
        expected = pin.rnea(theirs, theirs.createData(), at, rates, accelerations)
        expected[:2] = R @ expected[:2]
        assert error(inverse(q, qd, qdd), expected) <= EXACT


# --- ignored elements -------------------------------------------------------------------------------------------


def test_second_inertial_causes_a_warning():
    text = robot(*ARM).replace(
        link("b"), link("b", INERTIAL + INERTIAL.replace('mass value="', 'mass value="7'))
    )
    model = parse_robot(text)
    assert model.warnings == ("link 'b': only the first of 2 <inertial> is read",)
    assert np.array_equal(model.inertias, parse_robot(robot(*ARM)).inertias)


@pytest.mark.parametrize("uri", ["http://www.ros.org/wiki/xacro", "http://ros.org/wiki/xacro"])
def test_unexpanded_xacro_causes_a_warning(uri):
    """Unexpanded xacro elements cause a warning, not an error, since real files contain some."""
    macro = '<xacro:hand prefix="left"/>'
    text = robot(*ARM, macro).replace("<robot ", f'<robot xmlns:xacro="{uri}" ')
    with pytest.warns(ModelWarning, match="<xacro:hand>.*run xacro"):
        (warning,) = parse_robot(text).warnings
    assert warning.startswith("<xacro:hand> not expanded")
    assert parse_robot(text.replace(macro, '<xacro:property name="x" value="1"/>')).warnings == ()
    inside = text.replace(INERTIAL, INERTIAL + "<xacro:inertia m='1'/>", 1)
    assert parse_robot(inside).warnings[0].startswith("<xacro:inertia>, <xacro:hand> not expanded")


def test_every_loader_warns_once(tmp_path):
    text = robot(*(part.replace("<limit", "<no_limit") for part in ARM))
    (tmp_path / "arm.urdf").write_text(text)
    for loader, source in ((dn.parse_robot, text), (dn.load_robot, tmp_path / "arm.urdf")):
        with pytest.warns(ModelWarning, match="'j1'.*<limit>") as caught:
            loaded = loader(source)
        assert len(caught) == 1 and all(warning in str(caught[0].message) for warning in loaded.warnings)


def test_mimic_of_a_fixed_joint_is_rejected():
    follower = joint("j2", "a", "b", extra='<axis xyz="0 0 1"/><mimic joint="j1"/>')
    with pytest.raises(ModelError, match="'j2'.*'j1'.*fixed"):
        parse_robot(robot(*ARM[:3], joint("j1", "base", "a", "fixed", ""), follower))
    assert parse_robot(robot(*ARM[:4], follower), joints=[], positions={"j1": 0.3}).nv == 0


def test_floating_base_must_be_a_bool():
    with pytest.raises(TypeError, match="^floating_base must be True or False, not 'yes'"):
        parse_robot(robot(*ARM), floating_base="yes")


def test_text_is_not_read_as_path():
    with pytest.raises(ModelError, match="use parse_robot"):
        load_robot(robot(*ARM))


@pytest.mark.parametrize("more, deceleration", [("", 4.0), ('deceleration="3" ', 3.0)])
def test_deceleration_is_that_of_the_acceleration_by_default(more, deceleration):
    limited = joint("j", "a", "b").replace("velocity=", f'acceleration="4" {more}velocity=')
    (own,) = read_description(robot(link("a"), link("b"), limited)).joints
    assert (own.limits.acceleration, own.limits.deceleration) == (4.0, deceleration)


def quaternion_of(rpy):
    from scipy.spatial.transform import Rotation

    return " ".join(map(repr, Rotation.from_euler("xyz", rpy).as_quat().tolist()))


TURNS = [(0.3, -0.7, 2.1), (0.0, 0.0, 0.0), (3.0, 1.2, -3.1), (0.4, np.pi / 2, 0.9), (0.4, -np.pi / 2, 0.9)]


@pytest.mark.parametrize("rpy", TURNS)
def test_origins_with_quaternions(rpy):
    """quat_xyzw of URDF 1.1, in joints, inertials and loops."""
    inertial = INERTIAL.replace('iyy="0.01"', 'iyy="0.015"').replace('ixy="0"', 'ixy="0.001"')
    words = " ".join(map(repr, rpy))
    by_rpy, by_quaternion = (
        robot(
            link("a"),
            link("b", inertial.replace("<origin ", f"<origin {turn} ")),
            joint("j", "a", "b").replace("<origin ", f"<origin {turn} "),
        )
        for turn in (f'rpy="{words}"', f'quat_xyzw="{quaternion_of(rpy)}"')
    )
    one, other = (parse_robot(text).bodies[0] for text in (by_rpy, by_quaternion))
    assert error(other.X_tree.ravel(), one.X_tree.ravel()) <= 1e-7
    assert error(other.inertia.ravel(), one.inertia.ravel()) <= 1e-7


@pytest.mark.parametrize(
    "turn",
    [
        'quat_xyzw="0 0 0 0"',
        'quat_xyzw="1 0 0"',
        'quat_xyzw="a b c d"',
        'quat_xyzw="0 0 nan 1"',
        'quat_xyzw="0 0 0 1" rpy="0 0 0"',
    ],
)
def test_impossible_quaternions(turn):
    text = robot(link("a"), link("b"), joint("j", "a", "b").replace("<origin ", f"<origin {turn} "))
    with pytest.raises(ModelError, match="joint 'j'.*quat_xyzw"):
        parse_robot(text)


# --- as urdfdom reads it ------------------------------------------------------------------------------------

DECLARED = '<?xml version="1.0" encoding="utf-8"?>'
LOADED_BY_ROS = {
    "blank line before the declaration": "\n" + DECLARED + robot(*ARM),
    "comments before the declaration": "<!-- a --> \n<!-- b -->" + DECLARED + robot(*ARM),
    "namespace": robot(*ARM).replace("<robot", '<robot xmlns="http://www.ros.org"'),
    "undeclared prefix": robot(*ARM, "<tool:part/>").replace("<tool:part/>", "<gazebo><tool:part/></gazebo>"),
}


@pytest.mark.parametrize("case", LOADED_BY_ROS)
@pytest.mark.parametrize("kind", [str, bytes])
def test_text_that_ros_loads(case, kind):
    text = LOADED_BY_ROS[case]
    model = parse_robot(text if kind is str else text.encode())
    assert model.joint_names == ("j1", "j2") and model.warnings == ()
    changed = with_numbers(text, {"b": Inertial(0.05 * np.eye(3), 3.0)})
    assert changed.startswith(text[:10]) and parse_robot(changed).masses.tolist() == [1.0, 3.0]


@pytest.mark.parametrize("start", ["<!--", "<!---->" * 3 + "<!--", " <a/>", "text"])
def test_other_text_before_the_declaration_is_malformed(start):
    with pytest.raises(ModelError, match="malformed XML"):
        parse_robot(start + DECLARED + robot(*ARM))


@pytest.mark.parametrize(
    "wrong", ["1_000", "\uff11", "\u0661", "1,5", "1.5kg", "0x10", "1e", "e1", ".", "1 .", "--1"]
)
def test_numbers_are_decimal_and_ascii(wrong):
    with pytest.raises(ModelError, match="'b'.*mass"):
        parse_robot(arm_with(link("b", inertial(mass=wrong))))


@pytest.mark.parametrize("text", ["1", "+1.", "01.0", ".1e1", "10E-1", " 1\n", "1e+0"])
def test_numbers_of_urdf(text):
    assert parse_robot(arm_with(link("b", inertial(mass=text)))).masses[1] == 1.0


# --- rotors -------------------------------------------------------------------------------------------------


def transmission(actuators, joints=("j2",), name="drive"):
    named = "".join(f'<joint name="{own}"/>' for own in joints)
    return f'<transmission name="{name}">{named}{actuators}</transmission>'


MOTOR = (
    '<actuator name="motor"><mechanicalReduction>100</mechanicalReduction>'
    "<motorInertia>0.0001</motorInertia></actuator>"
)


def test_rotors_of_a_transmission_add_up():
    """With the rotor of Drake's iiwa14 at joint 7: at the joint, times the square of the reduction."""
    drake = '<actuator><drake:gear_ratio value="-119"/><drake:rotor_inertia value="1.16e-4"/></actuator>'
    model = parse_robot(robot(*ARM, transmission(MOTOR + drake)))
    assert np.allclose(model.armature, [0, 1 + 1.16e-4 * 119**2], rtol=1e-14) and model.warnings == ()


@pytest.mark.parametrize(
    "extra, words",
    [
        ([transmission(MOTOR, ("j1", "j2"))], ["'drive'", "'j1'", "'j2'"]),
        ([transmission(MOTOR, ())], ["'drive'", "no joint"]),
        ([transmission(MOTOR, ("ghost",))], ["'drive'", "'ghost'"]),
        ([transmission(MOTOR), transmission(MOTOR, name="other")], ["'j2'", "'drive'", "'other'"]),
    ],
)
def test_rotors_that_are_not_read_cause_a_warning(extra, words):
    (warning,) = parse_robot(robot(*ARM, *extra)).warnings
    assert "not read" in warning and all(word in warning for word in words)


@pytest.mark.parametrize("wrong", ["big", "", "1e308", "nan", "-1"])
def test_impossible_rotors(wrong):
    with pytest.raises(ModelError, match="'j2'|'drive'"):
        parse_robot(robot(*ARM, transmission(MOTOR.replace("0.0001", wrong))))


def test_warnings_of_elements_are_few():
    """One for each kind, with the first owners; a hostile file has any number of kinds."""
    extra = '<axis xyz="0 0 1"/><dynamics stiffness="5"/>'
    joints = [joint(f"k{k}", "b", f"c{k}", extra=extra) for k in range(9)]
    model = parse_robot(robot(*ARM, *joints, *(link(f"c{k}") for k in range(9))))
    assert model.warnings == (
        "joint 'k0', joint 'k1', joint 'k2' and 6 more: stiffness of <dynamics> is not read",
    )
    many = "".join(f"<{'x' * 999}{k}/>" for k in range(999)) + "".join(f"<y{k}/>" for k in range(999))
    warnings = parse_robot(robot(*ARM, many)).warnings
    assert len(warnings) <= MOST_KINDS + 1 and max(map(len, warnings)) < 200


# --- two parents --------------------------------------------------------------------------------------------


def two_parents(kind, axis="0 0 1", more=""):
    """A four-bar whose coupler has two parents."""
    bars = {"base": 'xyz="0 0 0"', "crank": 'xyz="0.4 0 0"', "rocker": 'xyz="0.6 0 0" rpy="0.3 0 0"'}
    second = (
        f'<joint name="c&quot;2" type="{kind}"><parent link="rocker"/><child link="coupler"/>'
        f'<origin {bars["rocker"]}/><axis xyz="{axis}"/>{more}</joint>'
    )
    links = (*bars, "coupler")
    return robot(
        *map(link, links),
        joint("motor", "base", "crank", "continuous"),
        joint("rock", "base", "rocker", "continuous").replace("0 0 0.3", "1 0 0.3"),
        joint("c1", "crank", "coupler", "continuous").replace("0 0 0.3", "0.4 0 0"),
        second,
    ), second


@pytest.mark.parametrize(
    "kind, loop, has_axis",
    [("continuous", "revolute", True), ("prismatic", "prismatic", True), ("fixed", "fixed", False),
     ("ball", "ball", False), ("planar", "planar", True)],
)  # fmt: skip
def test_two_parents_name_the_loop_to_write(kind, loop, has_axis):
    text, second = two_parents(kind, "0.6 0 0.8")
    with pytest.raises(ModelError, match="'coupler' has two parents.*'c1'") as caught:
        parse_robot(text)
    advice = re.search("<loop.*</loop>", str(caught.value))[0]
    (own,) = read_description(text.replace(second, advice)).loops
    ends = own.predecessor.link, own.successor.link
    assert (own.name, own.kind, *ends) == ('c"2', loop, "rocker", "coupler")
    assert np.allclose(own.predecessor.origin, [0.6, 0, 0]) and np.allclose(own.successor.origin, 0)
    assert np.allclose(own.predecessor.rotation, rpy_rotation([0.3, 0, 0]))
    assert np.allclose(own.successor.rotation, np.eye(3))
    assert not has_axis or np.allclose(own.axis, [0.6, 0, 0.8])


def test_advice_for_a_four_bar_closes_it():
    text, second = two_parents("continuous")
    text, second = (own.replace(' rpy="0.3 0 0"', "") for own in (text, second))
    with pytest.raises(ModelError) as caught:
        parse_robot(text)
    advice = re.search("<loop.*</loop>", str(caught.value))[0]
    model = parse_robot(
        text.replace(second, advice.replace('"coupler"><origin xyz="0', '"coupler"><origin xyz="0.9'))
    )
    assert model.nv == 1 and set(model.q_names) == {"motor", "rock", "c1"}


def test_second_parent_that_floats_is_to_be_removed():
    with pytest.raises(ModelError, match="two parents.*remove joint"):
        parse_robot(two_parents("floating")[0])


# --- numbers beyond any robot's -----------------------------------------------------------------------------


def chained(count, multiplier):
    links = [link(f"l{k}") for k in range(count + 1)]
    mimics = ["", *(f'<mimic joint="j{k}" multiplier="{multiplier}"/>' for k in range(count - 1))]
    joints = [joint(f"j{k}", f"l{k}", f"l{k + 1}", "continuous", extra) for k, extra in enumerate(mimics)]
    return robot(*links, *joints)


def second(**changed):
    """The arm with attributes of the second joint's parts changed: {'limit_effort': '1e300'}."""
    element = ElementTree.fromstring(arm_with())
    for name, value in changed.items():
        tag, _, attribute = name.partition("_")
        own = element.findall("joint")[1]
        part = own.find(tag)
        (ElementTree.SubElement(own, tag) if part is None else part).set(attribute, value)
    return ElementTree.tostring(element, encoding="unicode")


BEYOND = {
    "2000 chained mimics": (chained(2000, 1.5), "joint 'j\\d+'.*mimics.*1e\\+15"),
    "2000 chained mimics, backward": (chained(2000, -1e14), "joint 'j2'.*mimics.*1e\\+28"),
    "vanishing mimics": (chained(2000, 0.5), "'j100'.*mimics.*1e-30"),
    "offset of a mimic": (second(mimic_joint="j1", mimic_offset="1e200"), "'j2'.*mimic"),
    "tiny inertia": (arm_with(link("b", inertial(mass="0", ixx="1e-320", iyy="1e-320", izz="1e-320"))), "link 'b': inertia"),
    "huge armature": (second(dynamics_armature="1e200"), "joint 'j2': armature exceeds"),
    "huge damping": (second(dynamics_damping="1e200"), "joint 'j2': damping exceeds"),
    "angle that is not finite": (second(origin_rpy="0 inf 0"), "joint 'j2': rpy"),
    "tiny axis": (second(axis_xyz="1e-320 0 0"), "joint 'j2': axis"),
    "inertia that overflows about the joint": (arm_with(link("b", inertial(mass="1e14", xyz="1e14 0 0"))), "link 'b'.*exceeds"),
    "huge ratio": (robot(*ARM, '<coupling name="gear"><predecessor link="b"/><successor link="a"/><ratio value="1e200"/></coupling>'), "'gear'.*ratio"),
}  # fmt: skip


@pytest.mark.parametrize("case", BEYOND)
def test_numbers_that_would_overflow_or_vanish(case):
    text, words = BEYOND[case]
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.raises(ModelError, match=words):
            parse_robot(text)


@pytest.mark.parametrize("armature", [1e200, 1e-320, np.inf, -1.0])
def test_armature_beyond_any_rotor(armature):
    with pytest.raises(ModelError, match="armature.*'j1'"):
        parse_robot(robot(*ARM), armature={"j1": armature})


@pytest.mark.parametrize("most", ["1.7976931348623157e308", "1e16", "inf"])
def test_the_largest_number_is_no_limit(most):
    limits = {f"limit_{key}": most for key in ("upper", "effort", "velocity", "acceleration", "jerk")}
    model = parse_robot(second(limit_lower=f"-{most}", **limits))
    for own in (
        model.upper_position_limits,
        model.effort_limits,
        model.velocity_limits,
        -model.lower_position_limits,
    ):
        assert own[1] == np.inf
    assert np.isfinite(dn.random_configuration(model)).all() and model.warnings == ()


@pytest.mark.parametrize("multiplier", [1e13, -1e13, 1e-13])
def test_mimics_with_odd_factors_still_follow(multiplier):
    model = parse_robot(second(mimic_joint="j1", mimic_multiplier=repr(multiplier)))
    assert model.nv == 1 and model.bodies[1].joint.masters.weights == (multiplier,)
