"""What a link carries, asked in every order, of robots that change, by efforts that are none."""

import math
import time

from dynamics_interfaces.srv import EstimatePayload, SetPayload
from std_srvs.srv import SetBool

from campaigns.attacks.messages import flood
from campaigns.attacks.table import attack
from campaigns.references import MASS, TOOL, Configuration, descriptions, payload
from campaigns.target import Mute, Start

COMMANDS = ("start", "compute", "apply", "stop")
DEAFENING = 1e5  # N m of noise: whatever is found is far from certain, and never applied
STRANGERS = ("", "nowhere", "panda_link0", "base_link", "x" * 100_000, "a\x1b[31m", "‮", "panda_link4")
SAID = 2000  # characters of an answer, at most


def a_robot(target, random):
    return Start(robot=random.choice(["panda", "heavy", "ur5"]))


def a_robot_estimated_from_the_start(target, random):
    robot = random.choice(["panda", "heavy", "ur5"])
    return Start(robot=robot, parameters={"payload_estimation.link": TOOL[robot]})


def _ask(target, command, link=""):
    """The answer; Mute where there is none, or one that nobody can read."""
    answer = target.ask(
        EstimatePayload, "estimate_payload", EstimatePayload.Request(command=command, link=link)
    )
    if answer is None:
        raise Mute(f"estimate_payload {command} is not answered")
    if len(answer.message) > SAID or not answer.message.isprintable():
        raise Mute(f"estimate_payload {command} says {answer.message[:SAID]!r}")
    return answer


def _asked_at_random(target, random, seconds):
    """Every command in any order, of links that are and that are not. Nothing is ever applied."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        command = random.choice([*COMMANDS, "", "dance", "x" * 10_000])
        link = random.choice([*STRANGERS, *[TOOL[target.robot]] * len(STRANGERS)])
        if _ask(target, command, link).success and command == "apply":
            raise Mute("efforts that are noise have been applied")
        target.spin(random.choice([0.0, 0.0, 0.05, 0.4]))


def _quiet(target):
    _ask(target, "stop")
    target.set(**DEFAULTS)
    target.watch.feel()


DEFAULTS = {
    "payload_estimation__link": "",
    "payload_estimation__friction": True,
    "payload_estimation__horizon": 0.0,
}


@attack(start=a_robot)
def payload_commands_in_any_order(target, random):
    """estimate_payload start, compute, apply, stop, nonsense; of strange links; efforts come and go."""
    for _ in range(4):
        noise = random.choice([DEAFENING, math.nan, math.inf, 1e300])
        target.watch.feel(random.choice([None, Configuration(target.robot)]), noise)
        _asked_at_random(target, random, 3.0)
        target.serves()
    _quiet(target)


@attack(start=a_robot_estimated_from_the_start)
def payload_estimates_of_robots_that_change(target, random):
    """The same while descriptions come, some of them bad, and the tool's link is another one."""
    for _ in range(4):
        target.watch.feel(Configuration(target.robot), DEAFENING)
        _asked_at_random(target, random, 1.5)
        if random.random() < 0.3:
            target.describe("<robot")
        robot = random.choice(sorted(descriptions()))
        target.watch.allow(Configuration(target.robot), Configuration(robot))
        target.describe(descriptions()[robot])
        _asked_at_random(target, random, random.uniform(0.0, 2.0))
        target.serves(Configuration(robot))
        target.robot = robot
        target.watch.allow(Configuration(robot))
    _quiet(target)


CHANGES = (
    {"payload_estimation__link": ""},
    {"payload_estimation__link": "nowhere"},
    {"payload_estimation__link": "panda_link0"},
    {"payload_estimation__link": "x" * 100_000},
    {"payload_estimation__friction": False},
    {"payload_estimation__friction": True},
    {"payload_estimation__horizon": 1e-300},
    {"payload_estimation__horizon": 1e300},
    {"payload_estimation__horizon": 0.05},
    {"payload_estimation__horizon": -1.0},
    {"payload_estimation__horizon": math.nan},
    {"payload_estimation__horizon": math.inf},
    {"velocity_source": "zero"},
    {"velocity_source": "message"},
    {"backend": "numpy"},
    {"backend": "auto"},
    {"solver": "factor_graph", "ordering": "aba"},
    {"solver": "best", "ordering": "best"},
)


@attack(start=a_robot_estimated_from_the_start)
def payload_estimates_while_parameters_change(target, random):
    """payload_estimation.* without bounds, other solvers, velocities that are zero, between commands."""
    target.watch.feel(Configuration(target.robot), DEAFENING)
    held = Configuration(target.robot, held=True)  # what velocity_source zero makes of a state
    target.watch.allow(Configuration(target.robot), held)
    for _ in range(12):
        target.set(**random.choice([*CHANGES, {"payload_estimation__link": TOOL[target.robot]}]))
        _asked_at_random(target, random, 0.5)
    target.set(velocity_source="message", solver="best", ordering="best", backend="auto")
    target.serves(Configuration(target.robot))
    target.watch.allow(Configuration(target.robot))
    _quiet(target)


@attack(start=a_robot)
def payload_commands_in_a_flood(target, random):
    """Forty commands under way together, while strangers' joint states flood the node."""
    target.watch.feel(Configuration(target.robot), DEAFENING)
    client = target.client.node.create_client(EstimatePayload, "dynamics_node/estimate_payload")
    target.until(client.service_is_ready, 20, "estimate_payload")
    for seconds in (0.0, 2.0):
        if seconds:
            flood(target, "strangers", seconds)
        for _ in range(5):
            asked = [
                client.call_async(
                    EstimatePayload.Request(command=random.choice(COMMANDS), link=TOOL[target.robot])
                )
                for _ in range(8)
            ]
            target.until(lambda all_=asked: all(future.done() for future in all_), 60, "answers")
    target.client.node.destroy_client(client)
    _quiet(target)


@attack(start=a_robot)
def a_payload_that_is_there(target, random):
    """What the efforts tell is found, applied while nothing is published, and taken off."""
    loaded, link = Configuration(target.robot, True), TOOL[target.robot]
    target.watch.feel(loaded, 0.05)
    target.watch.press(False)
    target.spin(1.0)
    _ask(target, "start", link)
    end = time.monotonic() + 60
    while (found := _ask(target, "compute")).samples < 1500:
        target.spin(0.5)
        if time.monotonic() > end:
            raise Mute(f"too few states count: {found.message}")
    if abs(found.inertia.m - MASS) > 0.05:
        raise Mute(f"{found.inertia.m:g} kg where {MASS:g} kg are carried: {found.message}")
    target.ask(SetBool, "set_enabled", SetBool.Request(data=False))
    if not (applied := _ask(target, "apply")).success:
        raise Mute(f"not applied: {applied.message}")
    target.ask(SetPayload, "set_payload", payload(target.robot))
    target.watch.allow(loaded)
    target.ask(SetBool, "set_enabled", SetBool.Request(data=True))
    target.serves(loaded)
    again = _ask(target, "compute")
    if abs(again.inertia.m - MASS) > 0.05:
        raise Mute(f"{again.inertia.m:g} kg with the payload set, {MASS:g} kg before: {again.message}")
    target.watch.allow(loaded, Configuration(target.robot))
    target.ask(SetPayload, "set_payload", payload(target.robot, 0))
    target.serves(Configuration(target.robot))
    _quiet(target)
