"""Payload estimation: commands in any order, changing robots, noisy or invalid efforts."""

import math
import time

from dynamics_interfaces.srv import EstimatePayload, SetPayload
from std_srvs.srv import SetBool

from campaigns.attacks.messages import flood
from campaigns.attacks.table import attack
from campaigns.references import MASS, TOOL, Configuration, descriptions, payload
from campaigns.target import Mute, Start

COMMANDS = ("start", "compute", "apply", "stop")
LARGE_NOISE = 1e5  # N m of noise: estimates are uncertain and never applied
OTHER_LINKS = ("", "nowhere", "panda_link0", "base_link", "x" * 100_000, "a\x1b[31m", "‮", "panda_link4")
LONGEST_ANSWER = 2000  # characters


def a_robot(target, random):
    return Start(robot=random.choice(["panda", "heavy", "ur5"]))


def a_robot_estimated_from_the_start(target, random):
    robot = random.choice(["panda", "heavy", "ur5"])
    return Start(robot=robot, parameters={"payload_estimation.link": TOOL[robot]})


def _call(target, command, link=""):
    """The reply; raises Mute for a missing or unreadable one."""
    answer = target.ask(
        EstimatePayload, "estimate_payload", EstimatePayload.Request(command=command, link=link)
    )
    if answer is None:
        raise Mute(f"estimate_payload {command} is not answered")
    if len(answer.message) > LONGEST_ANSWER or not answer.message.isprintable():
        raise Mute(f"estimate_payload {command} says {answer.message[:LONGEST_ANSWER]!r}")
    return answer


def _send_random_commands(target, random, seconds):
    """Send any commands in any order, for known and unknown links. None must be applied."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        command = random.choice([*COMMANDS, "", "dance", "x" * 10_000])
        link = random.choice([*OTHER_LINKS, *[TOOL[target.robot]] * len(OTHER_LINKS)])
        if _call(target, command, link).success and command == "apply":
            raise Mute("an estimate from noise was applied")
        target.spin(random.choice([0.0, 0.0, 0.05, 0.4]))


def _reset(target):
    _call(target, "stop")
    target.set(**DEFAULTS)
    target.watch.set_efforts()


DEFAULTS = {
    "payload_estimation__link": "",
    "payload_estimation__friction": True,
    "payload_estimation__horizon": 0.0,
}


@attack(start=a_robot)
def payload_commands_in_any_order(target, random):
    """start, compute, apply, stop and unknown commands; unknown links; changing efforts."""
    for _ in range(4):
        noise = random.choice([LARGE_NOISE, math.nan, math.inf, 1e300])
        target.watch.set_efforts(random.choice([None, Configuration(target.robot)]), noise)
        _send_random_commands(target, random, 3.0)
        target.serves()
    _reset(target)


@attack(start=a_robot_estimated_from_the_start)
def payload_estimates_of_robots_that_change(target, random):
    """The same with new descriptions, some of them invalid, and another tool link."""
    for _ in range(4):
        target.watch.set_efforts(Configuration(target.robot), LARGE_NOISE)
        _send_random_commands(target, random, 1.5)
        if random.random() < 0.3:
            target.describe("<robot")
        robot = random.choice(sorted(descriptions()))
        target.watch.allow(Configuration(target.robot), Configuration(robot))
        target.describe(descriptions()[robot])
        _send_random_commands(target, random, random.uniform(0.0, 2.0))
        target.serves(Configuration(robot))
        target.robot = robot
        target.watch.allow(Configuration(robot))
    _reset(target)


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
    """Extreme payload_estimation.*, other solvers and zero velocities between commands."""
    target.watch.set_efforts(Configuration(target.robot), LARGE_NOISE)
    at_rest = Configuration(target.robot, at_rest=True)  # states with velocity_source zero
    target.watch.allow(Configuration(target.robot), at_rest)
    for _ in range(12):
        target.set(**random.choice([*CHANGES, {"payload_estimation__link": TOOL[target.robot]}]))
        _send_random_commands(target, random, 0.5)
    target.set(velocity_source="message", solver="best", ordering="best", backend="auto")
    target.serves(Configuration(target.robot))
    target.watch.allow(Configuration(target.robot))
    _reset(target)


@attack(start=a_robot)
def payload_commands_in_a_flood(target, random):
    """Forty concurrent commands during a flood of unknown joints."""
    target.watch.set_efforts(Configuration(target.robot), LARGE_NOISE)
    client = target.client.node.create_client(EstimatePayload, "dynamics_node/estimate_payload")
    target.until(client.service_is_ready, 20, "estimate_payload")
    for seconds in (0.0, 2.0):
        if seconds:
            flood(target, "unknown_joints", seconds)
        for _ in range(5):
            futures = [
                client.call_async(
                    EstimatePayload.Request(command=random.choice(COMMANDS), link=TOOL[target.robot])
                )
                for _ in range(8)
            ]
            target.until(lambda all_=futures: all(future.done() for future in all_), 60, "answers")
    target.client.node.destroy_client(client)
    _reset(target)


@attack(start=a_robot)
def a_constant_payload(target, random):
    """The payload of the efforts is estimated, applied while disabled, and removed."""
    loaded, link = Configuration(target.robot, True), TOOL[target.robot]
    target.watch.set_efforts(loaded, 0.05)
    target.watch.set_pressing(False)
    target.spin(1.0)
    _call(target, "start", link)
    end = time.monotonic() + 60
    while (estimate := _call(target, "compute")).samples < 1500:
        target.spin(0.5)
        if time.monotonic() > end:
            raise Mute(f"too few samples: {estimate.message}")
    if abs(estimate.inertia.m - MASS) > 0.05:
        raise Mute(f"{estimate.inertia.m:g} kg instead of {MASS:g} kg: {estimate.message}")
    target.ask(SetBool, "set_enabled", SetBool.Request(data=False))
    if not (applied := _call(target, "apply")).success:
        raise Mute(f"not applied: {applied.message}")
    target.ask(SetPayload, "set_payload", payload(target.robot))
    target.watch.allow(loaded)
    target.ask(SetBool, "set_enabled", SetBool.Request(data=True))
    target.serves(loaded)
    after = _call(target, "compute")
    if abs(after.inertia.m - MASS) > 0.05:
        raise Mute(f"{after.inertia.m:g} kg with the payload set, {MASS:g} kg before: {after.message}")
    target.watch.allow(loaded, Configuration(target.robot))
    target.ask(SetPayload, "set_payload", payload(target.robot, 0))
    target.serves(Configuration(target.robot))
    _reset(target)
