"""Torques of damping, dry friction, springs and offsets of joints."""

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.algorithms.rates import sampled_rates
from dynamics_node.errors import InputError
from dynamics_node.robot import Robot
from dynamics_node.robot.wrong_calls import explains_wrong_calls

SMOOTHING = 0.01  # rad/s or m/s; range in which dry friction changes its sign
CREEP = 0.1  # rad/s or m/s; range in which friction of lubricated gears grows


def smooth_friction(qd, viscous, coulomb, smoothing=SMOOTHING, creep=None):
    """Torques against friction at rates qd (..., n), in N m or N: viscous qd + coulomb tanh(qd / smoothing) +
    creep tanh(qd / 0.1), with coefficients (n,)."""
    tau = viscous * qd
    for force, width in ((coulomb, smoothing), (creep, CREEP)):
        if force is not None and np.any(force):  # the most expensive part, and many robots have none
            tau = tau + force * np.tanh(qd / width)
    return tau


class JointFriction:
    """Torques of friction, springs and offsets of a tree's joints. viscous, coulomb (axles,): in place of
    those of the description; any: whether one is nonzero."""

    def __init__(self, tree: Robot, viscous=None, coulomb=None):
        self._viscous = tree.damping if viscous is None else viscous
        self._coulomb = tree.friction if coulomb is None else coulomb
        self._creep, self._spring, self._offset = tree.creep, tree.springs, tree.torque_offsets
        joints = [joint for joint in tree.independent_joints if joint.type.is_scalar]
        sprung = [joint for joint in joints if self._spring[joint.v.start]]
        self._q_at, self._v_at = [j.q.start for j in sprung], [j.v.start for j in sprung]
        self._shared, self._map = tree.shared_joints, tree.axle_map
        parts = (self._viscous, self._coulomb, tree.creep, self._spring, self._offset)
        self.any = any(part.any() for part in parts)

    def __call__(self, q, qd):
        """(..., nv of the tree) at positions (..., nq) and velocities (..., nv of the tree)."""
        rates = qd @ self._map.T if self._shared else qd
        tau = smooth_friction(rates, self._viscous, self._coulomb, creep=self._creep) + self._offset
        tau[..., self._v_at] += self._spring[self._v_at] * q[..., self._q_at]
        for k, joint in enumerate(self._shared, len(self._spring) - len(self._shared)):
            tau[..., k] += self._spring[k] * (joint.position(q)[..., 0] - joint.offset)
        return tau @ self._map if self._shared else tau

    def viscous(self, qd):
        """The part (..., nv of the tree) that is proportional to velocities (..., nv of the tree)."""
        if not self._shared:
            return qd * self._viscous
        return (qd @ self._map.T * self._viscous) @ self._map

    def independent(self, robot: Robot, q, qd):
        """Torques (..., nv) at the independent joints of a robot with this tree, at closed positions."""
        rates = sampled_rates(robot, q, qd)
        return rates.independent(self(q, rates.qd))


def selected_friction(robot: Robot, friction: bool | JointFriction) -> JointFriction | None:
    """The given one, for True that of the description; None without any. Raises ValueError."""
    if not isinstance(friction, bool | np.bool_ | JointFriction):
        raise InputError(f"friction must be True or False, not {friction!r}")
    if not isinstance(friction, JointFriction):
        return selected_friction(robot, JointFriction(robot.tree)) if friction else None
    return friction if friction.any else None


@explains_wrong_calls
def friction_torque(robot: Robot, q: ArrayLike, qd: ArrayLike) -> np.ndarray:
    """Return the torques against damping, dry friction, springs and offsets of the joints.

    The coefficients are `<dynamics damping friction>` of the URDF, and those of a file from `identify`.
    `simulate` includes them by default; inverse and forward dynamics do not.

    Parameters
    ----------
    robot : Robot
        A tree, or a robot with loops.
    q : array_like (..., nq)
        Closed positions, rad or m.
    qd : array_like (..., nv)
        Velocities of the independent joints, rad/s or m/s. Leading axes broadcast.

    Returns
    -------
    ndarray (..., nv)
        Torques at the independent joints, N m or N; all joints of a loop contribute. Dry friction F acts as
        F tanh(qd / 0.01), with qd in rad/s or m/s. NaN at singular positions.

    Examples
    --------
    >>> from dynamics_demo.robots import five_bar
    >>> robot = dn.parse_robot(five_bar())
    >>> q, qd, tau = dn.first_closed(robot), np.ones(2), np.zeros(2)
    >>> inverse = dn.build(robot, "inverse_dynamics", backend="numpy")
    >>> forward = dn.build(robot, "forward_dynamics", backend="numpy")
    >>> motors = inverse(q, qd, 0 * qd) + dn.friction_torque(robot, q, qd)
    >>> qdd = forward(q, qd, motors - dn.friction_torque(robot, q, qd))
    >>> bool(np.allclose(qdd, 0, atol=1e-9))
    True
    """
    q, qd = (np.asarray(array, dtype=float) for array in (q, qd))
    batch = np.broadcast_shapes(q.shape[:-1], qd.shape[:-1])
    q, qd = (np.broadcast_to(array, (*batch, array.shape[-1])) for array in (q, qd))
    return JointFriction(robot.tree).independent(robot, q, qd)
