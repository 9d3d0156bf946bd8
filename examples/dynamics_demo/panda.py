"""The Panda: its URDF, and an arm in MuJoCo under computed-torque control. Without ROS."""

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import dynamics_node as dn

PANDA_JOINTS = tuple(f"panda_joint{i}" for i in range(1, 8))


# --- simulated ----------------------------------------------------------------------------------------------


STIFFNESS, DAMPING = 60.0, 14.0  # 1/s^2, 1/s: compliant
_COMPILER = '<mujoco><compiler balanceinertia="false" fusestatic="false" discardvisual="true"/></mujoco>'
Motion = Callable[[float], tuple[np.ndarray, np.ndarray, np.ndarray]]


class Sample(NamedTuple):
    """At `time`, s: q, qd (7,), and the motor torques reported by the joints; pushed (7,): external joint
    torques, which are not reported."""

    time: float
    q: np.ndarray
    qd: np.ndarray
    tau: np.ndarray
    pushed: np.ndarray


class Noise(NamedTuple):
    """Standard deviations of the reported quantities: rad, rad/s, N m."""

    position: float = 0.0
    velocity: float = 0.0
    torque: float = 0.0


NO_NOISE = Noise()


def description() -> str:
    """URDF of a Panda without joint friction and with fixed fingers, as simulated."""
    text = re.sub(r"<dynamics[^>]*/>", "", dn.example_robot_file("panda").read_text())
    for finger in ("panda_finger_joint1", "panda_finger_joint2"):
        text = re.sub(rf'(name="{finger}" type=)"prismatic"', r'\1"fixed"', text)
    return re.sub(r"<mimic[^>]*/>", "", text)


def specification(urdf: str):
    """The mujoco module and the MjSpec of a description, without visual and collision geometry.

    Raises ImportError with the installation command.
    """
    try:
        import mujoco
    except ImportError as error:
        raise ImportError("this demo simulates with MuJoCo: pip install 'mujoco>=3.3.7,<4'") from error
    bare = re.sub(r"<(visual|collision)\b.*?</\1>", "", urdf, flags=re.S)
    return mujoco, mujoco.MjSpec.from_string(bare.replace("<link", _COMPILER + "<link", 1))


class SimulatedArm:
    """The simulation; it starts at rest where the motion starts.

    motion(t): desired angles, rates and accelerations (7,); step: s; gains: stiffness and damping, 1/s^2 and
    1/s; armature: rotor inertias, kg m^2. Damping and friction are those of the description. Raises
    ImportError with the installation command.
    """

    def __init__(
        self,
        urdf: str,
        motion: Motion,
        step,
        noise=NO_NOISE,
        seed=0,
        gains=(STIFFNESS, DAMPING),
        armature=0.0,
    ):
        mujoco, spec = specification(urdf)
        self._mujoco, self._random = mujoco, np.random.default_rng(seed)
        self._motion, self._noise, self._gains = motion, noise, gains
        self._model = spec.compile()
        self._model.opt.timestep = step
        self._at = [self._model.joint(name).dofadr[0] for name in PANDA_JOINTS]
        self._model.dof_armature[self._at] = armature
        self._data = mujoco.MjData(self._model)
        self._data.qpos[self._at] = motion(0.0)[0]
        self._load()

    def sample(self) -> Sample:
        """The current report of the joints."""
        data, at, noise = self._data, self._at, self._noise
        reported = zip((data.qpos[at], data.qvel[at], self._tau), noise, strict=True)
        q, qd, tau = (value + std * self._random.normal(size=7) for value, std in reported)
        return Sample(data.time, q, qd, tau, self._pushed[at].copy())

    def step(self) -> Sample:
        """Advance by a step and return the report."""
        self._mujoco.mj_step2(self._model, self._data)
        self._load()
        return self.sample()

    def touch(self, mujoco, model, data):
        """External joint torques (nv,)."""
        return np.zeros(model.nv)

    def _load(self):
        """Set the forces until the next step: motor torques, computed with MuJoCo's own model, and external
        ones."""
        mujoco, model, data, at = self._mujoco, self._model, self._data, self._at
        mujoco.mj_step1(model, data)
        wanted, rate, change = self._motion(data.time)
        stiffness, damping = self._gains
        acceleration = np.zeros(model.nv)
        acceleration[at] = change + stiffness * (wanted - data.qpos[at]) + damping * (rate - data.qvel[at])
        needed = np.zeros(model.nv)
        mujoco.mj_mulM(model, data, needed, acceleration)
        needed += data.qfrc_bias
        self._pushed = self.touch(mujoco, model, data)
        data.qfrc_applied[:] = needed + self._pushed
        self._tau = needed[at].copy()
