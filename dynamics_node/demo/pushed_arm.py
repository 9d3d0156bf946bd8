"""A Panda simulated by MuJoCo that is pushed now and then. Without ROS."""

import re
from typing import NamedTuple

import numpy as np

from dynamics_node.demo.robots import PANDA_JOINTS, find_panda

STEP = 2e-3  # s
STIFFNESS, DAMPING = 60.0, 14.0  # 1/s^2, 1/s: a hand can push the arm aside
VELOCITY_STD, TORQUE_STD = 2e-3, 0.1  # rad/s, N m: of what the joints report
CENTRE = np.array([0.0, -0.4, 0.0, -1.8, 0.0, 1.6, 0.6])
AMPLITUDE = np.array([0.25, 0.2, 0.2, 0.2, 0.3, 0.2, 0.3])
OMEGA = 2 * np.pi * np.array([0.2, 0.15, 0.25, 0.2, 0.3, 0.25, 0.3])
BANDWIDTH = 25.0  # rad/s, of the node's estimate
PARAMETERS = {  # of the node
    "observer.enabled": "true",
    "observer.velocity_std": f"[{VELOCITY_STD}]",
    "observer.torque_std": f"[{TORQUE_STD}]",
    "observer.bandwidth": str(BANDWIDTH),
}
_COMPILER = '<mujoco><compiler balanceinertia="false" fusestatic="false" discardvisual="true"/></mujoco>'


class Touch(NamedTuple):
    """A force (3,) in world axes at the origin of a link, N, from `begin` for `lasts` s."""

    link: str
    begin: float
    lasts: float
    force: tuple[float, float, float]


PERIOD = 8.0  # s after which the touches come again
TOUCHES = (
    Touch("panda_link4", 1.0, 1.0, (0.0, 20.0, 0.0)),
    Touch("panda_hand", 3.5, 1.0, (12.0, 0.0, -10.0)),
    Touch("panda_link6", 6.0, 1.0, (0.0, -10.0, 15.0)),
)


class Sample(NamedTuple):
    """At `time`, s: q, qd (7,), and the motors' torques as the joints report them; pushed (7,): what a touch
    exerts at the joints, which nobody reports."""

    time: float
    q: np.ndarray
    qd: np.ndarray
    tau: np.ndarray
    pushed: np.ndarray


def description() -> str:
    """URDF of a Panda whose joints have no friction and whose fingers do not move: what both simulate."""
    text = re.sub(r"<dynamics[^>]*/>", "", find_panda().read_text())
    for finger in ("panda_finger_joint1", "panda_finger_joint2"):
        text = re.sub(rf'(name="{finger}" type=)"prismatic"', r'\1"fixed"', text)
    return re.sub(r"<mimic[^>]*/>", "", text)


def touch_at(time) -> Touch | None:
    """The one that lasts at a time."""
    within = time % PERIOD
    return next((t for t in TOUCHES if t.begin <= within < t.begin + t.lasts), None)


class PushedArm:
    """The simulation; it begins in `CENTRE` at rest. Raises ImportError that says what to install."""

    def __init__(self, urdf: str, seed=0):
        try:
            import mujoco
        except ImportError as error:
            raise ImportError("this demo simulates with MuJoCo: pip install 'mujoco>=3.2,<4'") from error
        self._mujoco, self._random = mujoco, np.random.default_rng(seed)
        bare = re.sub(r"<(visual|collision)\b.*?</\1>", "", urdf, flags=re.S)
        spec = mujoco.MjSpec.from_string(bare.replace("<link", _COMPILER + "<link", 1))
        self._model = spec.compile()
        self._model.opt.timestep = STEP
        self._data = mujoco.MjData(self._model)
        self._at = [self._model.joint(name).dofadr[0] for name in PANDA_JOINTS]
        self._data.qpos[self._at] = CENTRE
        self._load()

    def sample(self) -> Sample:
        """What is reported now."""
        data, at, noise = self._data, self._at, self._random.normal
        qd = data.qvel[at] + VELOCITY_STD * noise(size=7)
        tau = self._tau + TORQUE_STD * noise(size=7)
        return Sample(data.time, data.qpos[at].copy(), qd, tau, self._pushed[at].copy())

    def step(self) -> Sample:
        """Go on for STEP; what is reported then."""
        self._mujoco.mj_step2(self._model, self._data)
        self._load()
        return self.sample()

    def _load(self):
        """The forces until the next step: of the motors, which compute with MuJoCo's own model, and of a
        touch."""
        mujoco, model, data, at = self._mujoco, self._model, self._data, self._at
        mujoco.mj_step1(model, data)
        phase = OMEGA * data.time
        wanted = CENTRE + AMPLITUDE * (1 - np.cos(phase))
        rate, change = AMPLITUDE * OMEGA * np.sin(phase), AMPLITUDE * OMEGA**2 * np.cos(phase)
        acceleration = np.zeros(model.nv)
        acceleration[at] = change + STIFFNESS * (wanted - data.qpos[at]) + DAMPING * (rate - data.qvel[at])
        needed = np.zeros(model.nv)
        mujoco.mj_mulM(model, data, needed, acceleration)
        needed += data.qfrc_bias
        self._pushed = np.zeros(model.nv)
        if (touch := touch_at(data.time)) is not None:
            body = model.body(touch.link).id
            force = np.array(touch.force)
            mujoco.mj_applyFT(model, data, force, np.zeros(3), data.xpos[body], body, self._pushed)
        data.qfrc_applied[:] = needed + self._pushed
        self._tau = needed[at].copy()
