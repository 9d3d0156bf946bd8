"""A Panda with a payload in MuJoCo, its trajectory, and its joint PD controller. Without ROS."""

import re
from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicHermiteSpline

from dynamics_demo.panda import PANDA_JOINTS, description, specification

CYCLE_NS = 2_000_000  # ns of a control cycle
CYCLE = CYCLE_NS * 1e-9  # s
SUBSTEPS = 4  # simulation steps per cycle

# Friction and rotors. The URDF of example-robot-data has almost no friction, and URDF has no rotors.
DAMPING = (1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5)  # N m s/rad
FRICTION = (1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5)  # N m
ROTORS = (0.05,) * 7  # kg m^2 at the joint

# The controller
STIFFNESS = np.array([400, 400, 400, 400, 100, 100, 50.0])  # N m/rad
RATE_GAIN = np.array([40, 40, 40, 40, 10, 10, 5.0])  # N m s/rad

# The motion: sums of one harmonic per joint, from rest
CENTER = np.array([0.0, -0.3, 0.0, -1.9, 0.0, 1.7, 0.6])  # rad
AMPLITUDE = np.array([0.55, 0.35, 0.4, 0.45, 0.5, 0.45, 0.6])  # rad
PHASE = np.array([0.0, 0.9, 2.0, -1.2, 0.5, 2.6, 1.6])  # rad
PERIOD = 2.0  # s
RISE = 1.0  # s from rest to the full motion
POINTS = 0.01  # s between points of the trajectory
SECONDS = 12.0  # default


class Payload(NamedTuple):
    """A ball in the hand: link, mass (kg), center (3,) in link axes (m), radius (m)."""

    link: str
    mass: float
    center: tuple[float, float, float]
    radius: float

    @property
    def moment(self):
        """Its moment of inertia about the center, kg m^2."""
        return 0.4 * self.mass * self.radius**2


PAYLOAD = Payload("panda_hand", 2.0, (0.0, 0.0, 0.1), 0.04)


def described() -> str:
    """URDF of the Panda with DAMPING and FRICTION in its joints, and fixed fingers."""
    text = description()
    for name, damping, friction in zip(PANDA_JOINTS, DAMPING, FRICTION, strict=True):
        stated = f'<dynamics damping="{damping}" friction="{friction}"/></joint>'
        text = re.sub(rf'(<joint name="{name}".*?)</joint>', rf"\1{stated}", text, count=1, flags=re.S)
    return text


PARAMETERS = {  # of the node
    "use_sim_time": True,  # the reference follows the simulation at any speed
    "joints": list(PANDA_JOINTS),
    "state_source": "reference",
    "compensate.friction": True,
    "armature.joints": list(PANDA_JOINTS),
    "armature.values": list(ROTORS),
}
THIRDS = ("PD alone", "with gravity torques", "with full feed-forward")


class Trajectory:
    """Waypoints of the arm: time (k,) s, and q, qd, qdd (k, 7).

    The node interpolates like `linear`; tracking errors refer to `smooth`, the cubics through positions and
    velocities.
    """

    def __init__(self, time, q, qd, qdd):
        self.time, self._values = np.asarray(time), np.stack((q, qd, qdd), axis=1)
        self._cubics = CubicHermiteSpline(self.time, q, qd)
        self._slopes = self._cubics.derivative()

    @classmethod
    def lasting(cls, seconds):
        """The motion of the demo."""
        time = np.linspace(0.0, seconds, round(seconds / POINTS) + 1)
        return cls(time, *np.stack([motion(t) for t in time], axis=1))

    @property
    def seconds(self):
        """Duration."""
        return float(self.time[-1])

    @property
    def points(self):
        """(k, 3, 7): q, qd and qdd of each."""
        return self._values

    def linear(self, t):
        """q, qd, qdd (7,) by linear interpolation of the points."""
        k = min(max(int(np.searchsorted(self.time, t, side="right")), 1), len(self.time) - 1)
        weight = (t - self.time[k - 1]) / (self.time[k] - self.time[k - 1])
        return (1 - weight) * self._values[k - 1] + weight * self._values[k]

    def smooth(self, t):
        """q and qd at t (...,), each (..., 7)."""
        return self._cubics(t), self._slopes(t)


def motion(t):
    """q, qd, qdd (7,) at t s: sines about CENTER, multiplied by a polynomial that rises from 0 to 1."""
    w = 2 * np.pi / PERIOD
    sine, cosine = AMPLITUDE * np.sin(w * t + PHASE), AMPLITUDE * np.cos(w * t + PHASE)
    x = min(t / RISE, 1.0)
    g, first = x**3 * (10 - 15 * x + 6 * x * x), 30 * (x * (1 - x)) ** 2 / RISE
    second = 60 * x * (1 - x) * (1 - 2 * x) / RISE**2
    q, qd = CENTER + g * sine, g * w * cosine + first * sine
    return np.stack((q, qd, -g * w * w * sine + 2 * first * w * cosine + second * sine))


def feedback(trajectory, t, q, qd):
    """Torques (7,) of the PD controller at t, with the arm at q and qd."""
    wanted, rate = trajectory.smooth(t)
    return STIFFNESS * (wanted - q) + RATE_GAIN * (rate - qd)


class TrackedArm:
    """The arm in MuJoCo, at rest at the start of the motion. Friction and damping are those of the URDF.

    q, qd: current (7,). Raises ImportError with the installation command.
    """

    def __init__(self, urdf: str, payload: Payload = PAYLOAD):
        self._mujoco, spec = specification(urdf)
        ball = spec.body(payload.link).add_body(name="payload", pos=payload.center)
        ball.mass, ball.inertia, ball.explicitinertial = payload.mass, [payload.moment] * 3, True
        ball.ipos, ball.iquat = [0, 0, 0], [1, 0, 0, 0]
        self.model = spec.compile()
        self.model.opt.timestep = CYCLE / SUBSTEPS
        self.model.opt.integrator = self._mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        self._at = [self.model.joint(name).dofadr[0] for name in PANDA_JOINTS]
        self.model.dof_armature[self._at] = ROTORS
        self._data = self._mujoco.MjData(self.model)
        self._data.qpos[self._at] = motion(0.0)[0]

    @property
    def q(self):
        return self._data.qpos[self._at]

    @property
    def qd(self):
        return self._data.qvel[self._at]

    def step(self, torque):
        """Advance by a CYCLE with motor torques (7,)."""
        self._data.qfrc_applied[self._at] = torque
        self._mujoco.mj_step(self.model, self._data, SUBSTEPS)
