"""docs/reference/elements.md: each row is tried, and each name that the readers know is in a row."""

import re
import warnings
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np
import pytest

import dynamics_node as dn
from dynamics_node.robot.constraints import LOOP_KINDS
from dynamics_node.robot.description import JOINT_TYPES
from dynamics_node.robot.overrides import JointNumbers
from dynamics_node.robot.sensors.records import SENSORS
from dynamics_node.robot.urdf_elements import READ

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "elements.md").read_text()
TEXT = re.search(r"```xml\n(.*?)```", PAGE, re.DOTALL)[1]
REACTIONS = ("read", "read, warning", "warning", "error", "ignored")
FILES = ("loops", "parameters", "sensors")


class Row(NamedTuple):
    """The cells of a row; examples: (place, text)."""

    examples: list[tuple[str, str]]
    reaction: str
    result: str


def rows():
    for line in re.findall(r"^\|(?! place|--)(.*)\|$", PAGE, re.MULTILINE):
        place, example, reaction, result = (cell.strip() for cell in line.split("|"))
        texts = [example] if example.startswith("without") else re.findall("`([^`]*)`", example)
        examples = list(zip(place.split(", "), texts, strict=True))
        yield pytest.param(Row(examples, reaction, result), id=example[:70])


ROWS = list(rows())


def changed(examples):
    """The text of the robot with the examples of a row."""
    robot, before = ElementTree.fromstring(TEXT), ""
    places = {
        "robot": ".",
        "link": "link[@name='hand']",
        "inertial": "link[@name='hand']/inertial",
        "joint": "joint[@name='wrist']",
    }
    for place, example in examples:
        if place == "before":
            before = example
            continue
        parent = robot.find(places[place])
        if example.startswith("without"):
            parent.remove(parent.find(re.search("<(.*)>", example)[1]))
        elif example.startswith("<"):
            children = dn_elements(example)
            for child in children if place != "robot" else ():
                if (old := parent.find(child.tag)) is not None:
                    parent.remove(old)
            parent.extend(children)
        else:
            parent.attrib |= dict(re.findall('([\\w:]+)="([^"]*)"', example))
    return before + ElementTree.tostring(robot, encoding="unicode")


def dn_elements(text):
    """Elements, in which a prefix needs no declaration."""
    from dynamics_node.robot.safe_xml import elements

    return list(elements(f"<examples>{text}</examples>"))


def loaded(examples):
    """(robot, sensors, messages of the warnings)."""
    (place, example), sensors = examples[0], ()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if place == "sensors":
            robot = dn.parse_robot(TEXT)
            sensors = dn.sensors.parse_sensors(f"sensors: {example}")
            dn.sensor_problem(robot, sensors, contacts=dn.Contact("hand", "surface"))
        elif place in FILES:
            robot = dn.parse_robot(TEXT, **{place: example})
        else:
            robot = dn.parse_robot(changed(examples))
    assert all(issubclass(own.category, dn.ModelWarning) for own in caught), caught
    assert bool(caught) == bool(robot.warnings)
    return robot, sensors, " ".join(robot.warnings)


class Names(dict):
    def __init__(self, robot, sensors):
        super().__init__(sensors=sensors)
        self.robot = robot

    def __missing__(self, name):
        return getattr(self.robot, name)


def value_of(expression, robot, sensors=()):
    return eval(expression, {"np": np}, Names(robot, sensors))


def numbers(robot):
    """Everything of a robot that dynamics depends on."""
    fields_of_joint = attrgetter("kind", "offset", "creep", "spring", "torque_offset", "limits")
    joints = [(own.parent, *own.joint.axis, fields_of_joint(own.joint)) for own in robot.bodies]
    arrays = [robot.inertias, robot.armature, robot.damping, robot.friction, robot.gravity]
    arrays += [own.X_tree for own in robot.bodies]
    frames = {name: own.X.tolist() for name, own in robot.frames.items()}
    return repr((joints, [own.tolist() for own in arrays], frames, robot.v_names, robot.nq))


def same(one, other):
    try:
        return bool(np.allclose(one, other, rtol=1e-12, atol=1e-12, equal_nan=True))
    except (TypeError, ValueError):
        return one == other


@pytest.mark.parametrize("row", ROWS)
def test_row(row):
    assert row.reaction in REACTIONS
    expression, words = "", row.result
    if "read" in row.reaction:
        expression, words = re.fullmatch("`([^`]*)` = ([^;]*);?(.*)", row.result).groups()[::2]
        expected = eval(re.search(" = ([^;]*)", row.result)[1], {"np": np})
    words = re.findall("`([^`]*)`", words)
    assert bool(words) == (row.reaction not in ("read", "ignored"))
    if row.reaction == "error":
        with pytest.raises((dn.ModelError, dn.SensorError)) as caught:
            loaded(row.examples)
        assert all(word in str(caught.value) for word in words), caught.value
        return
    robot, sensors, message = loaded(row.examples)
    base = dn.parse_robot(TEXT)
    assert bool(message) == bool(words) and all(word in message for word in words), message
    if not expression:
        assert numbers(robot) == numbers(base)
        return
    assert same(value_of(expression, robot, sensors), expected), value_of(expression, robot, sensors)
    if row.examples[0][0] != "sensors":
        try:
            before = value_of(expression, base)
        except (AttributeError, IndexError):  # a joint that follows none
            before = None
        assert not same(before, expected)


def names_of(reactions):
    """{(element, attribute or element inside)} of the examples with one of these reactions."""
    names = set()
    for row in (own.values[0] for own in ROWS):
        for place, example in row.examples if row.reaction in reactions else ():
            if place in FILES or place == "before":
                continue
            tag = {"inertial": "inertial"}.get(place, place)
            if example.startswith("<"):
                whole = ElementTree.Element(tag)
                whole.extend(dn_elements(example))
                parts = whole.iter()
            else:
                attributes = dict(re.findall('([\\w:]+)="([^"]*)"', example))
                parts = [ElementTree.Element(tag, attributes)]
            for part in parts:
                names |= {(part.tag, name) for name in (*part.attrib, *(child.tag for child in part))}
    return names


def test_all_that_is_read_has_a_row():
    read = names_of(("read", "read, warning"))
    parts = list(ElementTree.fromstring(TEXT).iter())
    read |= {(part.tag, name) for part in parts for name in ("name", "link") if name in part.attrib}
    read |= {(part.tag, child.tag) for part in parts for child in part}
    other = names_of(("ignored", "read"))
    for tag, content in READ.items():
        for name in content.attributes | content.elements:
            assert (tag, name) in read, f"no row reads {name} of <{tag}>"
        for name in content.other_attributes | content.other_elements:
            assert (tag, name) in other, f"no row ignores {name} of <{tag}>"


def test_all_kinds_and_fields_have_a_row():
    text = " ".join(row.values[0].examples[-1][1] for row in ROWS) + TEXT
    for kind in (*JOINT_TYPES, "planar"):
        assert f'type="{kind}"' in text
    for kind in LOOP_KINDS:
        assert re.search(f'<(loop|constraint) name="bar" type="{kind}"', PAGE), kind
    for name in JointNumbers._fields:
        assert f"{{joints: {{wrist: {{{name}: 7}}}}}}" in text
    for kind, record in SENSORS.items():
        assert f"{{type: {kind}," in text
        for own in fields(record):
            assert f"{own.name}: " in text, own.name


@pytest.mark.parametrize("tag", READ)
def test_anything_else_causes_a_warning(tag):
    """An attribute and an element that no list has, in each element that is read."""
    loop = next(row.values[0] for row in ROWS if '<axis2 xyz="1 0 0"/>' in row.values[0].examples[0][1])
    rows = [row.values[0] for row in ROWS if row.values[0].reaction == "read"]
    for row in [loop, *(row for row in rows if f"<{tag}" in row.examples[0][1])][::-1]:
        robot = dn_elements(changed(row.examples))[0]
        part = robot if tag == "robot" else robot.find(f".//{tag}")
        if part is not None:
            part.set("odd", "1")
            ElementTree.SubElement(part, "odd_part")
            message = " ".join(dn.parse_robot(ElementTree.tostring(robot, encoding="unicode")).warnings)
            assert f"odd of <{tag}>" in message and f"<odd_part> in <{tag}>" in message
            return
    raise AssertionError(f"no example of <{tag}>")
