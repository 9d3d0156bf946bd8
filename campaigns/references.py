"""Right torques by Pinocchio: of several robots, with and without a payload, at any time.

The state of all joints is a function of the stamp, so the stamp of a torque determines its right value.
"""

import re
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
import pinocchio
from dynamics_interfaces.srv import SetPayload
from robots import ROBOTS
from tolerances import error

AGREEMENT = 1e-9  # tolerance of a right torque, see test/support/tolerances.py
MASS, COM, MOMENTS = 1.5, (0.02, -0.01, 0.08), (0.01, 0.012, 0.009)
TOOL = {"panda": "panda_hand", "heavy": "panda_hand", "ur5": "ee_link", "xarm7": "link7"}
PERIOD = 10_000  # period of the motion, s


class Configuration(NamedTuple):
    """The robot of a torque: one of `descriptions`, with or without a payload on its tool. at_rest: at the
    position with zero velocity, as in on_stale gravity."""

    robot: str
    loaded: bool = False
    at_rest: bool = False


@cache
def descriptions():
    """{name: URDF}. heavy is a Panda with other masses and the same joints."""
    panda = ROBOTS["panda"].file.read_text()
    heavy = re.sub(r'(<mass value=")([^"]+)', lambda match: f"{match[1]}{1.3 * float(match[2])}", panda)
    assert heavy != panda
    texts = {name: ROBOTS[name].file.read_text() for name in TOOL if name != "heavy"}
    return texts | {"heavy": heavy}


def payload(robot, mass=MASS, com=COM, moments=MOMENTS):
    """The SetPayload request for the tool; mass 0 removes the payload."""
    request = SetPayload.Request(link=TOOL[robot])
    inertia = request.inertia
    inertia.m = float(mass)
    inertia.com.x, inertia.com.y, inertia.com.z = map(float, com)
    inertia.ixx, inertia.iyy, inertia.izz = map(float, moments)
    return request


class Reference:
    """One Configuration; names: of its joints, in alphabetical order."""

    def __init__(self, configuration):
        self._model = pinocchio.buildModelFromXML(descriptions()[configuration.robot], mimic=True)
        if configuration.loaded:
            self._load(TOOL[configuration.robot])
        self._data = self._model.createData()
        joints = {name: self._model.joints[k] for k, name in enumerate(self._model.names) if k}
        joints = {name: joint for name, joint in joints.items() if "Mimic" not in joint.shortname()}
        self.names = tuple(sorted(joints))
        self._continuous = np.array([joints[name].nq == 2 for name in self.names])
        self._q_at = np.array([joints[name].idx_q for name in self.names])
        self._v_at = np.array([joints[name].idx_v for name in self.names])

    def _load(self, link):
        frame = self._model.frames[self._model.getFrameId(link, pinocchio.BODY)]
        payload_inertia = pinocchio.Inertia(MASS, np.array(COM), np.diag(MOMENTS))
        self._model.inertias[frame.parentJoint] += frame.placement.act(payload_inertia)

    def torque(self, position, velocity, acceleration=0.0):
        """(n,) at the joints `names`."""
        q, v = pinocchio.neutral(self._model), np.zeros(self._model.nv)
        q[self._q_at] = np.where(self._continuous, np.cos(position), position)
        q[self._q_at[self._continuous] + 1] = np.sin(position[self._continuous])
        a = np.zeros(self._model.nv)
        v[self._v_at], a[self._v_at] = velocity, acceleration
        return pinocchio.rnea(self._model, self._data, q, v, a)[self._v_at]


class References:
    """All Configurations and the motion of all their joints."""

    def __init__(self):
        each = [Configuration(robot, *how) for robot in TOOL for how in product((False, True), repeat=2)]
        self.of = {configuration: Reference(configuration) for configuration in each}
        self.names = sorted({name for reference in self.of.values() for name in reference.names})
        self._at = {name: k for k, name in enumerate(self.names)}
        self.index = {c: np.array([self._at[name] for name in r.names]) for c, r in self.of.items()}
        self._rate = 0.7 + 0.13 * np.arange(len(self.names))

    def motion(self, stamp):
        """Position and velocity of all `names` at a stamp, ns."""
        phase = self._rate * (stamp % (PERIOD * 10**9) * 1e-9) + np.arange(len(self.names))
        return 0.8 * np.sin(phase), 0.8 * self._rate * np.cos(phase)

    def efforts(self, configuration, stamp):
        """Torques of all `names` for the motion of a Configuration, zero at its other joints."""
        at, (position, velocity) = self.index[configuration], self.motion(stamp)
        acceleration = -(self._rate[at] ** 2) * position[at]
        torques = np.zeros(len(self.names))
        torques[at] = self.of[configuration].torque(position[at], velocity[at], acceleration)
        return torques

    def fits(self, configuration, names):
        """Whether the joints of a message are those of the configuration."""
        return sorted(names) == list(self.of[configuration].names)

    def error(self, configuration, stamp, names, efforts):
        """Error of the torques of a message with a stamp; infinite for other joints."""
        if not self.fits(configuration, names):
            return np.inf
        reference = self.of[configuration]
        at = self.index[configuration]
        position, velocity = self.motion(stamp)
        given = dict(zip(names, efforts, strict=True))
        own = np.array([given[name] for name in reference.names])
        rates = np.zeros(len(at)) if configuration.at_rest else velocity[at]
        relative = float(error(own, reference.torque(position[at], rates)))
        return relative if np.isfinite(relative) else np.inf
