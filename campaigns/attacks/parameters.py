"""Parameters: extreme numbers, invalid text and rapid changes."""

import math

from campaigns.attacks.table import attack
from campaigns.target import Start

HUGE = (1e200, 1e308, -1e308, math.inf, -math.inf, math.nan)


def panda_start(target, random):
    return Start(robot="panda")


def _numbers(random):
    """{parameter: value} with consistent lengths and one extreme number."""
    huge = random.choice(HUGE)
    joint = ["panda_joint1"]
    return random.choice(
        (
            {"armature__joints": joint, "armature__values": [0.1], "armature__gears": [huge]},
            {"armature__joints": joint, "armature__values": [huge], "armature__gears": [10.0]},
            {"friction__joints": joint, "friction__viscous": [huge], "friction__coulomb": [0.0]},
            {"fixed__joints": joint, "fixed__positions": [huge]},
            {"driven__joints": joint, "driven__weights": [huge]},
            {"gravity": [0.0, huge, 0.0]},
            {"effort_limits": "list", "effort_limits_list": [huge] * 8},
            {"rate": huge},
            {"joint_state_timeout": huge},
            {"reference_timeout": huge},
            {"wrench_timeout": huge},
            {"sensor_timeout": huge},
        )
    )


DEFAULTS = {
    "armature__joints": [""],
    "armature__values": [],
    "armature__gears": [],
    "friction__joints": [""],
    "friction__viscous": [],
    "friction__coulomb": [],
    "fixed__joints": [""],
    "fixed__positions": [],
    "driven__joints": [""],
    "driven__weights": [],
    "gravity": [0.0, 0.0, -9.81],
    "effort_limits": "none",
    "effort_limits_list": [],
    "rate": 0.0,
    "joint_state_timeout": 0.2,
    "reference_timeout": 0.5,
    "wrench_timeout": 0.2,
    "sensor_timeout": 0.2,
}


@attack(start=panda_start)
def extreme_numbers(target, random):
    """1e308, infinity, NaN for every numeric parameter: rejected, or without effect."""
    for _ in range(12):
        values = _numbers(random)
        accepted = target.set(**values)
        target.spin(0.3)
        target.serves()
        if accepted:
            target.set(**{name: DEFAULTS[name] for name in values})


STRANGE = ("\x00", "/tmp/\udcff", "\udcff", "a\x00b", "\x1b[31m", "x" * 1_000_000, "‮", "/" * 5000)


@attack()
def strange_text(target, random):
    """NUL, unpaired surrogates, escapes and a megabyte for text parameters."""
    names = ("robot_description_file", "loops_file", "solver", "backend", "robot_description", "on_stale")
    for name in random.sample(names, 3):
        for text in random.sample(STRANGE, 3):
            try:
                target.set(**{name: text})
            except (UnicodeError, ValueError):
                continue  # this client cannot send it; others can, see the start parameters
            target.serves()
    for name in ("robot_description_file", "loops_file", "robot_description"):
        target.set(**{name: ""})


CHANGES = (
    {"solver": "factor_graph", "ordering": "aba"},
    {"solver": "best", "ordering": "best"},
    {"backend": "numpy"},
    {"backend": "auto"},
    {"rate": -5.0},
    {"gravity": [math.nan, 0.0, 0.0]},
    {"joint_state_timeout": 1e9},
    {"reference_timeout": 0.7},
    {"solver": "nonsense"},
    {"command_joints": ["nobody"]},
    {"nonsense": 1},
)


@attack()
def rapid_parameter_changes(target, random):
    """Valid and invalid changes, each before the previous one takes effect."""
    for _ in range(60):
        target.set(**random.choice(CHANGES))
        target.spin(random.choice([0.0, 0.0, 0.1]))
    target.set(solver="best", ordering="best", backend="auto")
