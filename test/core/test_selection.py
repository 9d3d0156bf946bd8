"""Parts of a robot: joints that move, ways to tips, another root; gravity and mass stay."""

import numpy as np
import pytest
from tolerances import EXACT, error
from urdf_text import joint, robot

import dynamics_node as dn


def link(name, mass=1.0, com="0.1 0.02 0.15"):
    return (
        f'<link name="{name}"><inertial><origin xyz="{com}" rpy="0.1 0.2 0.3"/><mass value="{mass}"/>'
        '<inertia ixx="0.02" ixy="0.001" ixz="0" iyy="0.03" iyz="0.002" izz="0.025"/></inertial></link>'
    )


def turned(name, parent, child, rpy, kind="revolute", axis="0 1 0", more=""):
    text = joint(name, parent, child, kind, f'<axis xyz="{axis}"/>{more}')
    return text.replace('<origin xyz="0 0 0.3"/>', f'<origin xyz="0.05 0.1 0.3" rpy="{rpy}"/>')


LINKS = [link(name, mass) for name, mass in zip(
    ("torso", "chest", "mount", "upper", "fore", "flange", "hand", "finger", "head"),
    (10, 6, 0.5, 2, 1.5, 0.1, 0.8, 0.2, 3), strict=True)]  # fmt: skip
JOINTS = [
    turned("waist", "torso", "chest", "0 0 0.4", axis="1 0 1"),
    turned("weld", "chest", "mount", "1.1 0.2 0", "fixed"),
    turned("shoulder", "mount", "upper", "0.3 0 0.7"),
    turned("elbow", "upper", "fore", "0 0.2 0", axis="1 1 0"),
    turned("wrist_weld", "fore", "flange", "0 0.9 0.3", "fixed"),
    turned("wrist", "flange", "hand", "0.1 0 0", axis="0 0 1"),
    turned("grip", "hand", "finger", "0 0 0", "prismatic"),
    turned("neck", "chest", "head", "0.2 0.1 0", axis="0 0 1"),
]
TEXT = robot(*LINKS, *JOINTS)
NAMES = ("waist", "shoulder", "elbow", "wrist", "grip", "neck")


def compare(part, positions, names):
    """The dynamics of the part are those of the whole robot with the other joints at these positions."""
    whole = dn.parse_robot(TEXT)
    assert part.joint_names == tuple(names)
    places = [whole.v_names.index(name) for name in names]
    random = np.random.default_rng(0)
    for state in (
        np.zeros((3, len(names))),
        np.full((3, len(names)), np.pi / 2),
        *random.uniform(-1, 1, (3, 3, len(names))),
    ):
        q, qd, qdd = np.zeros((3, whole.nv))
        for name, value in positions.items():
            q[whole.q_names.index(name)] = value
        q[places], qd[places], qdd[places] = state
        for quantity in ("inverse_dynamics", "mass_matrix"):
            given = (q, qd, qdd) if quantity == "inverse_dynamics" else (q,)
            own = dn.evaluate(part, quantity, *state[: len(given)], backend="numpy")
            expected = dn.evaluate(whole, quantity, *given, backend="numpy")[places]
            expected = expected if expected.ndim == 1 else expected[:, places]
            assert error(own.ravel(), expected.ravel()) <= EXACT


@pytest.mark.parametrize("positions", [{}, {"wrist": -0.4, "grip": 0.05, "neck": 1.0}])
def test_links_beyond_the_tips_keep_their_mass(positions):
    part = dn.parse_robot(TEXT, tips=["flange"], positions=positions)
    compare(part, positions, ("waist", "shoulder", "elbow"))
    assert part.warnings == () and np.isclose(part.mass, dn.parse_robot(TEXT).mass, rtol=1e-14)


def test_gravity_keeps_its_direction_below_a_root():
    part = dn.parse_robot(TEXT, root="mount", positions={"waist": 0.7})
    compare(part, {"waist": 0.7}, ("shoulder", "elbow", "wrist", "grip"))
    assert part.base_link == "mount" and part.warnings == ()
    part = dn.parse_robot(TEXT, root="chest", tips=["hand"], positions={"waist": -1.2, "neck": 0.1})
    compare(part, {"waist": -1.2, "neck": 0.1}, ("shoulder", "elbow", "wrist"))
    assert np.isclose(np.linalg.norm(part.gravity), 9.81, rtol=1e-14)
    given = dn.parse_robot(TEXT, root="mount", gravity=(1, 2, 3))
    assert given.gravity.tolist() == [1, 2, 3] and given.warnings == ()


def test_root_below_a_joint_that_turns_it_causes_a_warning():
    (warning,) = dn.parse_robot(TEXT, root="mount").warnings
    assert "'waist'" in warning and "'mount'" in warning and "gravity" in warning
    vertical = TEXT.replace('<axis xyz="1 0 1"/>', '<axis xyz="0 0 -2"/>')
    assert dn.parse_robot(vertical, root="mount").warnings == ()


def test_part_agrees_with_pinocchio():
    pin = pytest.importorskip("pinocchio")
    model = pin.buildModelFromXML(TEXT)
    fixed = [model.getJointId(name) for name in ("wrist", "grip", "neck")]
    model = pin.buildReducedModel(model, fixed, pin.neutral(model))
    part = dn.parse_robot(TEXT, tips=["flange"])
    q, qd, qdd = np.random.default_rng(1).uniform(-1, 1, (3, 3))
    expected = pin.rnea(model, model.createData(), q, qd, qdd)
    assert error(dn.evaluate(part, "inverse_dynamics", q, qd, qdd, backend="numpy"), expected) <= EXACT


def test_floating_root_leaves_out_mass_with_a_warning():
    part = dn.parse_robot(TEXT, root="mount", floating_base=True)
    (warning,) = part.warnings
    assert "'mount'" in warning and "19 kg" in warning and "'torso', 'chest', 'head'" in warning
    assert part.gravity.tolist() == [0, 0, -9.81]


@pytest.mark.parametrize(
    "choices, words",
    [
        ({"tips": ["mount"], "joints": ["neck"]}, "'neck'"),
        ({"root": "mount", "joints": ["waist"]}, "'waist'"),
        ({"root": "mount", "positions": {"ghost": 1.0}}, "'ghost'"),
        ({"root": "mount", "positions": {"waist": np.nan}}, "'waist'.*position"),
        ({"tips": ["mount"], "positions": {"neck": 1e16}}, "'neck'.*position"),
        ({"root": "flange", "tips": ["head"]}, "'head'.*below"),
    ],
)
def test_impossible_parts(choices, words):
    with pytest.raises(dn.ModelError, match=words):
        dn.parse_robot(TEXT, **choices)


# --- joints that follow others ------------------------------------------------------------------------------


def geared(master, follower):
    """The robot in which a joint mimics another one."""
    own = next(text for text in JOINTS if f'"{follower}"' in text)
    mimic = f'<mimic joint="{master}" multiplier="0.5" offset="0.1"/>'
    return TEXT.replace(own, own.replace("<axis", f"{mimic}<axis"))


@pytest.mark.parametrize(
    "master, follower, choices, moving, fixed",
    [
        ("elbow", "wrist", {"tips": ["flange"]}, ("waist", "shoulder", "elbow"), {}),
        ("neck", "elbow", {"tips": ["flange"]}, ("waist", "shoulder", "neck"), {}),
        ("neck", "wrist", {"tips": ["flange"]}, ("waist", "shoulder", "elbow"), {"wrist": 0.1}),
        ("waist", "elbow", {"root": "mount", "positions": {"waist": 0.6}}, ("shoulder", "wrist", "grip"), {"waist": 0.6, "elbow": 0.4}),
    ],
)  # fmt: skip
def test_joints_that_follow_others(master, follower, choices, moving, fixed):
    """They move with joints on the way; on the way themselves, they move those. Others are at their places."""
    part, whole = dn.parse_robot(geared(master, follower), **choices), dn.parse_robot(TEXT)
    assert part.joint_names == moving
    for q in (np.zeros(len(moving)), np.random.default_rng(2).uniform(-1, 1, len(moving))):
        places = dict.fromkeys(NAMES, 0.0) | fixed | dict(zip(moving, q, strict=True))
        G = np.zeros((whole.nv, len(moving)))
        for k, name in enumerate(moving):
            G[whole.v_names.index(name), k] = 1.0
        if follower not in fixed:
            places[follower] = 0.5 * places[master] + 0.1
            G[whole.v_names.index(follower)] = 0.5 * G[whole.v_names.index(master)]
        at = np.array([places[name] for name in whole.q_names])
        expected = G.T @ dn.evaluate(whole, "gravity_torque", at, backend="numpy")
        assert error(dn.evaluate(part, "gravity_torque", q, backend="numpy"), expected) <= EXACT


LOOP = (
    '<loop name="bar" type="ball"><predecessor link="{}"><origin xyz="0.1 0 0"/></predecessor>'
    '<successor link="{}"><origin xyz="0.1 0 0"/></successor></loop>'
)


def four_bar():
    bars = [link("crank"), link("rocker"), link("coupler"), link("end")]
    planar = [
        joint("motor", "base", "crank"),
        joint("c", "crank", "coupler").replace("0 0 0.3", "0.4 0 0"),
        joint("r", "base", "rocker").replace("0 0 0.3", "1 0 0.3"),
        joint("out", "rocker", "end"),
    ]
    loop = LOOP.format("coupler", "rocker").replace("ball", "revolute").replace('"0.1 0 0"', '"0.9 0 0"', 1)
    loop = loop.replace('"0.1 0 0"', '"0.6 0 0"').replace("</loop>", '<axis xyz="0 0 1"/></loop>')
    return robot(link("base"), *bars, *planar, loop)


def test_joints_of_a_loop_move_together():
    text = four_bar()
    part = dn.parse_robot(text, tips=["rocker"])
    assert part.nv == 1 and set(part.q_names) == {"motor", "c", "r"}
    assert dn.parse_robot(text, tips=["end"]).nv == 2
    assert dn.parse_robot(text, root="end").nv == 0
    with pytest.raises(dn.ModelError, match="'bar'.*'rocker'.*root='crank'"):
        dn.parse_robot(text, root="crank")


def test_fixed_joints_that_leave_a_loop_open_cause_a_warning():
    """Links of an open loop are at places where the robot never is."""
    whole = dn.parse_robot(four_bar())
    closed = dict(zip(whole.q_names, dn.first_closed(whole, whole.neutral()).tolist(), strict=True))
    (warning,) = dn.parse_robot(four_bar(), joints=["out"]).warnings
    assert "'bar'" in warning and "open" in warning
    del closed["out"]
    assert dn.parse_robot(four_bar(), joints=["out"], positions=closed).warnings == ()


# --- floating bases -----------------------------------------------------------------------------------------


def free(parent, child):
    return f'<joint name="free" type="floating"><parent link="{parent}"/><child link="{child}"/></joint>'


def test_floating_base_beside_a_free_joint():
    """A root with mass, or with other branches, floats, too; a root that stands for the world does not."""
    body = [link("body"), link("leg"), joint("hip", "body", "leg")]
    world = robot('<link name="world"/>', *body, free("world", "body"))
    assert dn.parse_robot(world, floating_base=True).v_names[:1] == ("free.angular.x",)
    below = world.replace(
        "</robot>", '<link name="map"/>' + joint("map_weld", "map", "world", "fixed") + "</robot>"
    )
    assert dn.parse_robot(below, floating_base=True).nv == 7
    for text in (
        robot(link("base"), *body, free("base", "body")),
        robot('<link name="base"/>', *body, link("arm"), joint("a", "base", "arm"), free("base", "body")),
        robot(
            '<link name="base"/>',
            *body,
            link("box"),
            joint("weld", "base", "box", "fixed"),
            free("base", "body"),
        ),
    ):
        model = dn.parse_robot(text, floating_base=True)
        assert model.nv == 6 + dn.parse_robot(text).nv
        assert model.v_names[0] == "floating_base.angular.x" and "free.angular.x" in model.v_names


def test_name_of_the_floating_base_is_taken():
    with pytest.raises(dn.ModelError, match="'floating_base'.*rename"):
        dn.parse_robot(robot(link("a"), link("b"), joint("floating_base", "a", "b")), floating_base=True)
