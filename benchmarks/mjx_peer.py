"""MJX, MuJoCo's dynamics written in JAX, of a robot's tree: `pip install mujoco-mjx`.

Only those functions of MJX run that a result needs, in float64. There are no contacts, limits, constraints,
sensors, actuators, damping and geometry.
"""

import jax
import mujoco
from mujoco import mjx
from mujoco.mjx._src.smooth import solve_m  # public only with a sum of external forces
from robots import mujoco_tree

# XLA's new emitters of fused operations repeat them. On a CPU the time grows exponentially with the length of
# a chain, to 65 times that of the older ones for 7 joints, and batches take minutes to compile (JAX 0.10).
OPTIONS = {"xla_cpu_use_fusion_emitters": False}


class Mjx:
    """Functions of arrays of JAX, of one state; dt in s. To be compiled with OPTIONS."""

    def __init__(self, robot, dt=0.01):
        jax.config.update("jax_enable_x64", True)  # first: the model's arrays would be float32
        self.tree = mujoco_tree(robot)
        options = self.tree.model.opt
        options.timestep = dt
        for part in ("CONSTRAINT", "CONTACT", "EULERDAMP"):
            options.disableflags |= getattr(mujoco.mjtDisableBit, f"mjDSBL_{part}")
        self._model, self._data = mjx.put_model(self.tree.model), mjx.make_data(self.tree.model)

    def inverse_dynamics(self, q, qd, qdd):
        data = mjx.rne(self._model, self._moving(q, qd).replace(qacc=qdd), flg_acc=True)
        return data.qfrc_bias + self._model.dof_armature * qdd

    def forward_dynamics(self, q, qd, tau):
        return self._accelerated(q, qd, tau).qacc

    def rollout(self, q, qd, tau):
        """Positions (steps, nq) after steps of semi-implicit Euler; tau (steps, nv)."""

        def step(state, tau):
            data = mjx.euler(self._model, self._accelerated(*state, tau))
            return (data.qpos, data.qvel), data.qpos

        return jax.lax.scan(step, (q, qd), tau)[1]

    def _moving(self, q, qd):
        data = self._data.replace(qpos=q, qvel=qd)
        for part in (mjx.kinematics, mjx.com_pos, mjx.com_vel):
            data = part(self._model, data)
        return data

    def _accelerated(self, q, qd, tau):
        data = self._moving(q, qd)
        for part in (mjx.crb, mjx.factor_m, mjx.rne):
            data = part(self._model, data)
        return data.replace(qacc=solve_m(self._model, data, tau - data.qfrc_bias))
