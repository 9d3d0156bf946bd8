"""A Solo12 in MuJoCo on its four feet, the motion of its body, and its joint PD controller. Without ROS."""

import re

import numpy as np

import dynamics_node as dn
from dynamics_demo.panda import specification

FEET = ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT")
BASE = "base_link"
CONTACTS = f"contacts: [{{link: [{', '.join(FEET)}], friction: 0.8}}]\n"
CYCLE = 2e-3  # s, of control
SUBSTEPS = 8  # simulation steps per cycle
RADIUS = 1e-3  # m, of the balls that touch the ground
FRICTION = 0.8
STIFFNESS, RATE_GAIN = 6.0, 0.15  # N m/rad, N m s/rad: soft, so that the legs sag
SECONDS = 9.0  # default

PARAMETERS = {  # of the node
    "floating_base": True,
    "joint_state_timeout": 2.0,
    "reference_timeout": 2.0,
}

STANCE = (0.0, 0.8, -1.6) * 2 + (0.0, -0.8, 1.6) * 2  # rad, of the legs: knees point to the middle
SWAY = np.array([0.02, 0.015, 0.012])  # m, of the body along x, y and z
TURN = np.array([0.08, 0.06, 0.12])  # rad, about x, y and z
RATES = 2 * np.pi * np.array([[0.9, 0.7, 1.1], [0.7, 1.0, 0.6]])  # rad/s, of SWAY and TURN
RISE = 1.0  # s from rest to the full motion


def described() -> str:
    """URDF of the Solo12 without joint friction."""
    return re.sub(r"<dynamics[^>]*/>", "", dn.example_robot_file("solo12").read_text())


class Motion:
    """q (k, nq), qd and qdd (k, nv) of the robot in every cycle: the feet stay where they stand. `seconds`:
    duration."""

    def __init__(self, urdf: str, seconds: float):
        robot = dn.parse_robot(urdf, floating_base=True)
        time = CYCLE * np.arange(-2, round(seconds / CYCLE) + 2)
        poses = dn.build(robot, "frame_poses", links=list(FEET), backend="numpy")
        stand = robot.neutral()
        stand[7:] = STANCE
        stand[2] = -poses(stand).positions[:, 2].mean() + RADIUS
        feet = poses(stand).positions
        q = np.tile(stand, (len(time), 1))
        q[:, :3] += _body(time, 0) * SWAY
        q[:, 3:7] = _quaternions(_body(time, 1) * TURN)
        q = _with_feet_at(robot, poses, q, feet)
        there = dn.difference(robot, q[:-2], q[2:]) / (2 * CYCLE)  # qd at times 1 .. k - 1
        self.q, self.qd = q[2:-2], there[1:-1]
        self.qdd = (there[2:] - there[:-2]) / (2 * CYCLE)

    def __len__(self):
        return len(self.q)


def _body(time, which):
    """Sines (k, 3) times a polynomial that rises from 0 to 1."""
    x = np.clip(time / RISE, 0.0, 1.0)[:, None]
    return x**3 * (10 - 15 * x + 6 * x * x) * np.sin(time[:, None] * RATES[which])


def _quaternions(vectors):
    """x y z w (k, 4) of rotation vectors."""
    angle = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.concatenate([0.5 * np.sinc(angle / (2 * np.pi)) * vectors, np.cos(angle / 2)], axis=1)


def _with_feet_at(robot, poses, q, feet):
    """q (k, nq) with the legs moved so that the feet are at places (4, 3), by Newton's method."""
    jacobians = [dn.build(robot, "frame_jacobian", link=foot, backend="numpy") for foot in FEET]
    for _ in range(8):
        J = np.concatenate([jacobian(q)[:, 3:, 6:] for jacobian in jacobians], axis=1)
        error = (feet - poses(q).positions).reshape(len(q), 12)
        q[:, 7:] += np.linalg.solve(J, error[..., None])[..., 0]
    return q


def feedback(motion: Motion, k: int, q, qd):
    """Torques (12,) of the PD controller in cycle k, with the joints at q and qd."""
    return STIFFNESS * (motion.q[k, 7:] - q) + RATE_GAIN * (motion.qd[k, 6:] - qd)


class StandingDog:
    """The robot in MuJoCo, at rest at the start of the motion. pose: of the base, x y z qx qy qz qw; twist:
    (angular, linear) in its axes; q, qd (12,) of the legs; forces (4, 3): of the ground on the feet in world
    axes, the mean of the last cycle. Raises ImportError with the installation command."""

    def __init__(self, urdf: str, joints, start):
        mujoco, spec = specification(urdf)
        self._mujoco = mujoco
        spec.body(BASE).add_freejoint()
        spec.worldbody.add_geom(
            type=mujoco.mjtGeom.mjGEOM_PLANE, size=[2, 2, 0.1], friction=[FRICTION, 0, 0], condim=3
        )
        for foot in FEET:
            spec.body(foot).add_geom(
                name=foot, type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[RADIUS, 0, 0], mass=0.0,
                friction=[FRICTION, 0, 0], condim=3, solref=[4e-3, 1.0],
            )  # fmt: skip
        self._model = model = spec.compile()
        model.opt.timestep = CYCLE / SUBSTEPS
        model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        model.opt.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
        self._data = data = mujoco.MjData(model)
        self._at = [model.joint(name).dofadr[0] for name in joints]
        self._q_at = [model.joint(name).qposadr[0] for name in joints]
        self._feet = {model.geom(foot).id: k for k, foot in enumerate(FEET)}
        data.qpos[:7] = start[[0, 1, 2, 6, 3, 4, 5]]
        data.qpos[self._q_at] = start[7:]
        self.forces = np.zeros((4, 3))
        mujoco.mj_forward(model, data)

    @property
    def pose(self):
        return self._data.qpos[[0, 1, 2, 4, 5, 6, 3]]

    @property
    def twist(self):
        R = np.zeros(9)
        self._mujoco.mju_quat2Mat(R, self._data.qpos[3:7])
        return np.concatenate([self._data.qvel[3:6], R.reshape(3, 3).T @ self._data.qvel[:3]])

    @property
    def q(self):
        return self._data.qpos[self._q_at]

    @property
    def qd(self):
        return self._data.qvel[self._at]

    def step(self, torque):
        """Advance by a CYCLE with motor torques (12,)."""
        self._data.qfrc_applied[self._at] = torque
        self.forces[:] = 0.0
        for _ in range(SUBSTEPS):
            self._mujoco.mj_step(self._model, self._data)
            self._add_forces()
        self.forces /= SUBSTEPS

    def _add_forces(self):
        along = np.zeros(6)
        for k, contact in enumerate(self._data.contact):
            self._mujoco.mj_contactForce(self._model, self._data, k, along)
            force = contact.frame.reshape(3, 3).T @ along[:3]  # on the second body
            for geom, sign in zip(contact.geom, (-1, 1), strict=True):
                if geom in self._feet:
                    self.forces[self._feet[geom]] += sign * force
