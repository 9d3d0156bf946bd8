"""A robot on legs in MuJoCo, whose drives are PD controllers. Without ROS."""

import numpy as np

from dynamics_demo.legged_robots import CYCLE, FRICTION, Legged
from dynamics_demo.panda import specification

TIMESTEP = 2.5e-4  # s, of the simulation
RADIUS = 1e-3  # m, of the balls of point feet, and half of the thickness of soles
IMU_PLACE, IMU_AXES = (0.05, -0.03, 0.02), (0.5, 0.5, 0.5, 0.5)  # on the base: m, quaternion w x y z
STIFF = (4e-3, 1.0)  # time constant, s, and damping ratio of the ground


def _add_drive(mujoco, spec, joint, stiffness, damping):
    """A motor whose torque is its control, less stiffness times position and damping times velocity."""
    spec.add_actuator(
        target=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT, gaintype=mujoco.mjtGain.mjGAIN_FIXED,
        gainprm=[1.0] + [0.0] * 9, biastype=mujoco.mjtBias.mjBIAS_AFFINE,
        biasprm=[0.0, -stiffness, -damping] + [0.0] * 7,
    )  # fmt: skip


class LeggedSimulation:
    """The robot at rest at the start (nq,) of a motion. Raises ImportError with the installation command.

    cycle: of control, s.
    pose: of the base, x y z qx qy qz qw; twist: (angular, linear) in its axes; q, qd (n,) of the joints;
    wrenches (feet, 6): of the ground on the feet at their origins, moment first, in axes of soles, and in
    those of the world on points; the mean of the last cycle; imu: angular velocity and specific force at
    IMU_PLACE in IMU_AXES."""

    def __init__(self, legged: Legged, joints, start, cycle=CYCLE):
        mujoco, spec = specification(legged.urdf())
        self._mujoco, self._soles = mujoco, bool(legged.half_lengths)
        spec.body(legged.base).add_freejoint()
        grip = {"friction": [FRICTION, 0, 0], "condim": 3}
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[2, 2, 0.1], contype=0, **grip)
        kind = mujoco.mjtGeom.mjGEOM_BOX if self._soles else mujoco.mjtGeom.mjGEOM_SPHERE
        for foot in legged.feet:
            spec.body(foot).add_geom(
                name=foot, type=kind, size=[*legged.half_lengths, RADIUS] if self._soles else [RADIUS, 0, 0],
                pos=[0, 0, RADIUS], mass=0.0, solref=STIFF, conaffinity=0, **grip,
            )  # fmt: skip
        spec.body(legged.base).add_site(name="imu", pos=IMU_PLACE, quat=IMU_AXES)
        for sensor in (mujoco.mjtSensor.mjSENS_GYRO, mujoco.mjtSensor.mjSENS_ACCELEROMETER):
            spec.add_sensor(type=sensor, objtype=mujoco.mjtObj.mjOBJ_SITE, objname="imu")
        self._gains, self._substeps = legged.gains_of(joints), round(cycle / TIMESTEP)
        for joint, gains in zip(joints, self._gains.T, strict=True):
            _add_drive(mujoco, spec, joint, *gains)
        self._model = model = spec.compile()
        model.opt.timestep = TIMESTEP
        model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        model.opt.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
        self._data = data = mujoco.MjData(model)
        self._at = [model.joint(name).dofadr[0] for name in joints]
        self._q_at = [model.joint(name).qposadr[0] for name in joints]
        self._feet = [model.body(foot).id for foot in legged.feet]
        data.qpos[:7] = start[[0, 1, 2, 6, 3, 4, 5]]
        data.qpos[self._q_at] = start[7:]
        self.wrenches = np.zeros((len(legged.feet), 6))
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

    @property
    def imu(self):
        return self._data.sensordata.copy()

    def step(self, torque, q, qd):
        """Advance by a cycle. The drives follow q and qd (n,) and add torques (n,)."""
        stiffness, damping = self._gains
        self._data.ctrl[:] = torque + stiffness * q + damping * qd
        self.wrenches[:] = 0.0
        for _ in range(self._substeps):
            self._mujoco.mj_step(self._model, self._data)
            self._add_wrenches()
        self.wrenches /= self._substeps

    def _add_wrenches(self):
        data, bodies = self._data, self._feet
        self._mujoco.mj_rnePostConstraint(self._model, data)
        moments, forces = np.split(data.cfrc_ext[bodies], 2, axis=1)  # in axes of the world
        if self._soles:
            arms = data.subtree_com[self._model.body_rootid[bodies]] - data.xpos[bodies]
            R = data.xmat[bodies].reshape(-1, 3, 3)
            pairs = np.stack([moments + _cross(arms, forces), forces], axis=1)
            self.wrenches += (pairs @ R).reshape(-1, 6)
        else:
            self.wrenches[:, 3:] += forces


def _cross(a, b):
    """Products (k, 3): `np.cross` takes four times as long for a few."""
    return a[:, [1, 2, 0]] * b[:, [2, 0, 1]] - a[:, [2, 0, 1]] * b[:, [1, 2, 0]]
