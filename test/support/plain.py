"""A Core with plain values as input: no ROS, no other process, and a clock that only `wait` advances."""

from types import SimpleNamespace

import numpy as np
import pytest
from robots import ROBOTS

from dynamics_node.node.building.build_job import Failure, ServedRobot, do
from dynamics_node.node.core.consistency import read_settings
from dynamics_node.node.core.dynamics_core import Core
from dynamics_node.node.core.parameters import Numbers
from dynamics_node.node.core.settings import PARAMETERS, Settings
from dynamics_node.node.errors import NoOutput
from dynamics_node.node.state.reference import read_reference

MS = 1_000_000  # ns
BEGIN = 1_700_000_000_000_000_000  # ns of ROS time
DEFAULTS = {parameter.name: parameter.default for parameter in PARAMETERS}
_built: dict[str, ServedRobot] = {}


def extremes(parameters):
    """(name, value): tiny numbers and the bounds of every parameter that is a number or a list of numbers."""
    for parameter in parameters:
        if parameter.kind not in (float, Numbers) or parameter.read_only:
            continue
        borders = parameter.entries if parameter.is_list else parameter.bounds
        for value in (5e-324, 1e-300, 1e-12, *borders):
            if parameter.is_list:
                lengths = {"gravity": 3, "wrench_sensor.bias": 6, "wrench_sensor.tool_com": 3}
                value = [value] * lengths.get(parameter.name, 1)
            yield parameter.name, value


def settings(**values) -> Settings:
    """Settings from parameters; double underscores stand for dots."""
    named = {name.replace("__", "."): value for name, value in values.items()}
    assert named.keys() <= DEFAULTS.keys(), named.keys() - DEFAULTS.keys()
    return read_settings({**DEFAULTS, **named})


def robot_settings(name, **values) -> Settings:
    """Settings for a robot of robots.py; the default backend is NumPy."""
    robot = ROBOTS[name]
    values = {"backend": "numpy", "floating_base": robot.floating_base, **values}
    return settings(**{"joints": list(robot.joints or ())} | values)


def built(text, chosen: Settings) -> ServedRobot:
    """The robot of a description, built once; a Failure is an error."""
    job = chosen.job(text)
    if repr(job) not in _built:
        robot = do(job)
        assert not isinstance(robot, Failure), robot
        _built[repr(job)] = robot
    return _built[repr(job)]


class Served:
    """A Core of a robot, by NumPy unless the settings differ. now: steady ns; ros: ns of ROS time."""

    def __init__(self, text, chosen: Settings):
        self.text, self.core = text, Core(built(text, chosen), chosen)
        self.now, self.ros = 0, BEGIN
        self.stamp = BEGIN

    def wait(self, milliseconds):
        self.now += milliseconds * MS
        self.ros += milliseconds * MS
        return self

    def receive(self, names, q, qd=(), effort=(), stamp=None):
        """Receive a joint state; True if it updates a joint."""
        self.stamp = self.stamp + MS if stamp is None else stamp
        return self.core.joints.update(tuple(names), q, qd, effort, self.stamp, self.now)

    def refer(self, names, *points, stamp=None):
        """Receive a reference of points made by `point`."""
        stamp = self.ros if stamp is None else stamp
        self.core.reference = read_reference(self.core.joints.names, list(names), points, stamp, self.now)

    def use(self, **values):
        """Apply settings that need no new build."""
        given = {p.name.replace(".", "__"): getattr(self.core.settings, p.field) for p in PARAMETERS}
        self.core.apply(settings(**given | values))

    def solve(self):
        return self.core.solve(lambda: self.ros, self.now)

    def tau(self, names=None):
        """Published torques, in the order of names (default: as published)."""
        return self.published(self.solve(), names)

    def published(self, result, names=None):
        tau, own = result.tau[self.core.coordinates.v_at], list(self.core.joints.names)
        return tau if names is None else tau[[own.index(name) for name in names]]

    def no_output(self, words) -> NoOutput:
        """The NoOutput that solve raises; its text must contain `words`."""
        with pytest.raises(NoOutput) as caught:
            self.solve()
        assert words in str(caught.value), caught.value
        return caught.value


def serve(name, **values) -> Served:
    """A robot of robots.py."""
    return Served(ROBOTS[name].file.read_text(), robot_settings(name, **values))


def point(time_from_start=0.0, q=(), qd=(), qdd=(), effort=()):
    """A trajectory point with the attributes of rclpy's message."""
    seconds, rest = divmod(round(time_from_start * 1e9), 1_000_000_000)
    return SimpleNamespace(
        time_from_start=SimpleNamespace(sec=seconds, nanosec=rest),
        positions=np.asarray(q, dtype=float),
        velocities=np.asarray(qd, dtype=float),
        accelerations=np.asarray(qdd, dtype=float),
        effort=np.asarray(effort, dtype=float),
    )
