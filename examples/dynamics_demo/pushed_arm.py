"""A Panda simulated by MuJoCo under intermittent external forces. Without ROS."""

from typing import NamedTuple

import numpy as np

from dynamics_demo.panda import Noise, SimulatedArm

STEP = 2e-3  # s
NOISE = Noise(velocity=2e-3, torque=0.1)
CENTER = np.array([0.0, -0.4, 0.0, -1.8, 0.0, 1.6, 0.6])
AMPLITUDE = np.array([0.25, 0.2, 0.2, 0.2, 0.3, 0.2, 0.3])
OMEGA = 2 * np.pi * np.array([0.2, 0.15, 0.25, 0.2, 0.3, 0.25, 0.3])
BANDWIDTH = 25.0  # rad/s, of the node's estimate
PARAMETERS = {  # of the node
    "observer.enabled": True,
    "observer.velocity_std": [NOISE.velocity],
    "observer.torque_std": [NOISE.torque],
    "observer.bandwidth": BANDWIDTH,
}


class Touch(NamedTuple):
    """A force (3,) in world axes at the origin of a link, N, from `begin` for `duration` s."""

    link: str
    begin: float
    duration: float
    force: tuple[float, float, float]


PERIOD = 8.0  # s: period of the touches
TOUCHES = (
    Touch("panda_link4", 1.0, 1.0, (0.0, 20.0, 0.0)),
    Touch("panda_hand", 3.5, 1.0, (12.0, 0.0, -10.0)),
    Touch("panda_link6", 6.0, 1.0, (0.0, -10.0, 15.0)),
)


def touch_at(time) -> Touch | None:
    """The touch at a time, or None."""
    within = time % PERIOD
    return next((t for t in TOUCHES if t.begin <= within < t.begin + t.duration), None)


def swing(time):
    """Angles, rates and accelerations (7,) about `CENTER`."""
    phase = OMEGA * time
    return (
        CENTER + AMPLITUDE * (1 - np.cos(phase)),
        AMPLITUDE * OMEGA * np.sin(phase),
        AMPLITUDE * OMEGA**2 * np.cos(phase),
    )


class PushedArm(SimulatedArm):
    """The simulation; it starts in `CENTER` at rest."""

    def __init__(self, urdf: str, seed=0, noise=NOISE):
        super().__init__(urdf, swing, STEP, noise, seed)

    def touch(self, mujoco, model, data):
        pushed = np.zeros(model.nv)
        if (touch := touch_at(data.time)) is not None:
            body = model.body(touch.link).id
            force = np.array(touch.force)
            mujoco.mj_applyFT(model, data, force, np.zeros(3), data.xpos[body], body, pushed)
        return pushed
