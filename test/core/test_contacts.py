"""Contacts: their records, their file, and problems with them."""

import numpy as np
import pytest
from robots import robot_of

import dynamics_node as dn

FEET = ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT")


def test_a_contact_has_the_rows_of_its_kind():
    wheel = {"radius": 0.1, "axis": (0, 2, 0)}
    assert dn.Contact("foot").rows == ("fx", "fy", "fz")
    assert dn.Contact("foot", "surface").rows == ("mx", "my", "mz", "fx", "fy", "fz")
    assert dn.Contact("rim", "wheel", **wheel).rows == ("fx", "fy", "fz")
    assert dn.Contact("rim", "wheel", roller=0.785, **wheel).rows == ("fx", "fz")
    assert dn.Contact("rim", "wheel", **wheel).axis == (0.0, 1.0, 0.0)


@pytest.mark.parametrize(
    "fields, word",
    [
        ({"link": ""}, "link"),
        ({"kind": "ball"}, "kind"),
        ({"friction": -0.1}, "friction"),
        ({"friction": np.nan}, "friction"),
        ({"friction": True}, "friction"),
        ({"xyz": (0, 0)}, "xyz"),
        ({"xyz": (0, 0, np.inf)}, "xyz"),
        ({"normal": (0, 0, 0)}, "normal"),
        ({"kind": "surface", "half_lengths": (0.1, 0.0)}, "half_lengths"),
        ({"kind": "surface", "normal": (0, 1, 0)}, "normal"),
        ({"half_lengths": (0.1, 0.1)}, "half_lengths"),
        ({"kind": "wheel"}, "radius"),
        ({"kind": "wheel", "radius": -1.0}, "radius"),
        ({"radius": -1.0}, "radius"),
        ({"kind": "surface", "radius": 1.0}, "radius"),
        ({"rpy": (0, 0, 1)}, "rpy"),
    ],
)
def test_an_invalid_contact_names_itself_and_the_field(fields, word):
    with pytest.raises(dn.ContactError, match=word) as caught:
        dn.Contact(**{"link": "left foot", **fields})
    assert not fields.get("link", "x") or "left foot" in str(caught.value)


def test_contacts_fit_the_robot():
    robot = robot_of("solo12")
    for contacts, word in (
        ([dn.Contact("toe")], "toe"),
        ([dn.Contact("FL_FOOT"), dn.Contact("FL_FOOT")], "twice"),
        ([dn.Contact("FL_FOOT", other="FL_LOWER_LEG")], "fixed"),
        ([dn.Contact("FL_FOOT", other="nothing")], "nothing"),
    ):
        with pytest.raises(dn.ContactError, match=word):
            dn.forward_dynamics(robot, contacts)
    with pytest.raises(TypeError, match="load_contacts"):
        dn.forward_dynamics(robot, "feet.yaml")
    fixed = robot_of("panda7")
    with pytest.raises(dn.ContactError, match="fixed"):
        dn.forward_dynamics(fixed, dn.Contact("panda_link0"))


def test_a_problem_names_the_rows_of_its_contacts():
    problem = dn.forward_dynamics(robot_of("solo12"), [dn.Contact(foot) for foot in FEET])
    assert problem.rows.names[:4] == ("FL_FOOT.fx", "FL_FOOT.fy", "FL_FOOT.fz", "FR_FOOT.fx")
    assert problem.rows.places["HR_FOOT"] == slice(9, 12)
    assert problem.returns(robot_of("solo12")) == {"qdd": (18,), "contact_forces": (12,)}


def test_a_file_of_contacts(tmp_path):
    file = tmp_path / "contacts.yaml"
    file.write_text(
        "contacts:\n"
        "  - {link: [FL_FOOT, FR_FOOT], friction: 0.7}\n"
        "  - {link: sole, kind: surface, half_lengths: [0.1, 0.06], rpy: [0, 0, 1.5], name: left}\n"
        "  - {link: rim, kind: wheel, axis: [0, 0, 1], radius: 0.2, roller: -0.785}\n"
    )
    first, second, sole, rim = dn.load_contacts(file)
    assert (first, second) == (dn.Contact("FL_FOOT", friction=0.7), dn.Contact("FR_FOOT", friction=0.7))
    assert sole == dn.Contact("sole", "surface", "left", rpy=(0, 0, 1.5), half_lengths=(0.1, 0.06))
    assert rim == dn.Contact("rim", "wheel", axis=(0, 0, 1), radius=0.2, roller=-0.785)


@pytest.mark.parametrize(
    "text, word",
    [
        ("", "a list"),
        ("contacts: 3", "a list"),
        ("contacts: []\nmore: []", "a list"),
        ("contacts: [3]", "line 1"),
        ("contacts: [{link: a, colour: red}]", "line 1"),
        ("contacts: [{link: a, friction: 1, friction: 2}]", "twice"),
        ("contacts: [{link: a, friction: much}]", "friction"),
        ("contacts: [{link: a, friction: -1}]", "friction"),
        ("contacts: [{link: [a, b], name: c}]", "one link"),
        ("contacts: [{link: {a: b}}]", "link is a word"),
        ("contacts: [{friction: 1}]", "link"),
        ("contacts: [&x {link: a}, *x]", "alias"),
    ],
)
def test_an_invalid_file_names_the_place(text, word):
    from dynamics_node.robot.contacts import parse_contacts

    with pytest.raises(dn.ContactError, match=word):
        parse_contacts(text)
