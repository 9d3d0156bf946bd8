"""Robot descriptions: malformed, enormous, implausible, too many, in a bad order."""

import time

from campaigns.attacks.table import attack
from campaigns.references import Configuration, descriptions
from campaigns.target import Mute, Start

BODY = "<inertial><mass value='{mass}'/><inertia ixx='1' ixy='0' ixz='0' iyy='1' iyz='0' izz='1'/></inertial>"


def chain(count, mass="1", origin="0.1 0 0", axis="0 0 1", kind="continuous"):
    """URDF of a chain."""
    body = BODY.format(mass=mass)
    links = "".join(f"<link name='l{k}'>{body}</link>" for k in range(count + 1))
    joints = "".join(
        f"<joint name='j{k}' type='{kind}'><parent link='l{k}'/><child link='l{k + 1}'/>"
        f"<origin xyz='{origin}'/><axis xyz='{axis}'/></joint>"
        for k in range(count)
    )
    return f"<robot name='r'>{links}{joints}</robot>"


def _entities():
    """Nine levels of nine nested entities."""
    levels = "".join(f"<!ENTITY a{k} '{f'&a{k - 1};' * 9}'>" for k in range(2, 10))
    return f"<!DOCTYPE r [<!ENTITY a1 'lol'>{levels}]><robot name='&a9;'/>"


def _mimic_cycle():
    text = chain(2)
    for joint, other in (("j0", "j1"), ("j1", "j0")):
        head = f"<joint name='{joint}' type='continuous'>"
        text = text.replace(head, f"{head}<mimic joint='{other}'/>")
    return text


BAD = {
    "no XML": lambda: "<robot",
    "empty": lambda: "",
    "entities": _entities,
    "an external entity": lambda: "<!DOCTYPE r [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><robot>&x;</robot>",
    "deep": lambda: f"<robot>{'<a>' * 500_000}{'</a>' * 500_000}</robot>",
    "a name of 8 MB": lambda: f"<robot name='{'x' * 8_300_000}'><link name='a'/></robot>",
    "a number of 8 MB": lambda: chain(1, mass="1" * 8_000_000),
    "attributes": lambda: "<robot " + " ".join(f"a{k}='1'" for k in range(400_000)) + "/>",
    "masses of 1e308": lambda: chain(3, mass="1e308"),
    "NaN": lambda: chain(3, mass="nan"),
    "an axis of 1e308": lambda: chain(3, axis="1e308 1e308 0"),
    "an axis of 0": lambda: chain(3, axis="0 0 0"),
    "an origin of 1e200": lambda: chain(3, origin="1e200 0 0"),
    "mimics in a circle": _mimic_cycle,
    "48 000 bodies": lambda: chain(48_000),
    "20 MB": lambda: f"<robot name='x'><!--{'y' * 20_000_000}--></robot>",
    "comments": lambda: f"<robot name='r'>{'<!---->' * 1_000_000}<link name='a'/></robot>",
    "control characters": lambda: "<robot name='r&#10;[FATAL] forged'><link name='a&#27;[31m'/></robot>",
}


def panda_or_ur5(target, random):
    return Start(robot=random.choice(["panda", "ur5"]))


@attack(start=panda_or_ur5)
def invalid_descriptions(target, random):
    """Malformed, enormous and implausible descriptions: the last valid robot continues, or returns."""
    for name in random.sample(sorted(BAD), 4):
        target.describe(BAD[name]())
        target.spin(random.uniform(0.1, 2.0))
        target.take(target.robot)


@attack(start=panda_or_ur5)
def many_descriptions(target, random):
    """Fifty different descriptions per second; the last is valid."""
    text = descriptions()[target.robot]
    for k in range(150):
        target.describe(text.replace("</robot>", f"<!--{k}--></robot>"))
        target.spin(0.02)
    target.take(target.robot)


@attack(start=panda_or_ur5)
def a_valid_description_then_an_invalid_one(target, random):
    """The invalid one arrives during the build of the valid one, which is served."""
    target.watch.allow(Configuration(target.robot), Configuration("heavy"))
    target.describe(descriptions()["heavy"])
    target.spin(random.uniform(0.0, 0.3))
    target.describe("<robot")
    target.serves(Configuration("heavy"))
    target.robot = "heavy"
    target.watch.allow(Configuration("heavy"))


def no_description(target, random):
    return Start(robot="")


@attack(start=no_description, started=True)
def repeated_descriptions(target, random):
    """The same description from the start, at 2 to 10 Hz: it is served and compiled."""
    target.watch.allow(Configuration("panda"))
    target.robot = "panda"
    period = 1 / random.uniform(2, 10)
    end = time.monotonic() + 40
    while "(c)" not in target.process.output():
        if time.monotonic() > end:
            raise Mute("not compiled within 40 s")
        target.describe(descriptions()["panda"])
        target.spin(period)
    target.serves()


@attack(start=panda_or_ur5)
def robots_in_sequence(target, random):
    """Each robot is served before the next, with its own torques."""
    for _ in range(4):
        target.take(random.choice([robot for robot in descriptions() if robot != target.robot]))


@attack(start=panda_or_ur5)
def overlapping_descriptions(target, random):
    """Each description arrives before the previous build ends; the last one is served."""
    every = {Configuration(robot) for robot in descriptions()}
    target.watch.allow(*every)
    for _ in range(8):
        robot = random.choice(list(descriptions()))
        target.describe(descriptions()[robot])
        target.spin(random.uniform(0.0, 0.8))
    target.serves(Configuration(robot))
    target.robot = robot
