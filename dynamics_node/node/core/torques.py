"""Compensated torques, joint friction and limits."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.joint_friction import JointFriction
from dynamics_node.functions import ExternalWrenchEstimate
from dynamics_node.io.motion_files import JointLimits
from dynamics_node.node.core.contact_loads import ContactLoads
from dynamics_node.node.core.settings import DescriptionSettings, Settings
from dynamics_node.node.state.coordinates import JointCoordinates
from dynamics_node.robot import Robot
from dynamics_node.trajectory.motion_limits import effort_limits_of


class Result(NamedTuple):
    """State and torques over the coordinates of the tree. clamped: names of joints at their limit; wrenches:
    estimates of a sensor problem, exerted by the environment ON a link; loads: None without contacts."""

    q: np.ndarray
    qd: np.ndarray
    qdd: np.ndarray
    tau: np.ndarray
    clamped: tuple[str, ...] = ()
    wrenches: tuple[ExternalWrenchEstimate, ...] = ()
    loads: ContactLoads | None = None


class Torques:
    """The parameters compensate.*, friction.*, effort_limits* and limits_file applied to one robot."""

    def __init__(self, model: Robot, coordinates: JointCoordinates, settings: Settings, limits: JointLimits):
        """limits: of limits_file."""
        self._coordinates, self._settings = coordinates, settings
        self._joints = joint_friction(model, settings)
        self._limits = effort_limits_of(_efforts(coordinates, settings), coordinates.names, limits)
        self._depends_on_velocity = bool(self._limits.slope.any())
        self._range = self._limits.ranges(np.zeros(len(coordinates.names)))

    @property
    def reads_velocity(self) -> bool:
        """Whether the compensation depends on velocities."""
        return self._settings.compensate_coriolis or self._settings.compensate_friction

    def compensation(self, solver: Callable[..., tuple], q, qd, qdd, f_ext, gravity):
        """Torques (nv,) of the parts that compensate.* enables, and what else the solver returns."""
        settings = self._settings
        tau, *others = solver(
            q,
            qd if settings.compensate_coriolis else 0.0 * qd,
            qdd if settings.compensate_inertia else 0.0 * qdd,
            f_ext=f_ext,
            gravity=gravity if settings.compensate_gravity else 0.0 * gravity,
        )
        return (tau + self.friction(q, qd) if settings.compensate_friction else tau), *others

    def result(self, q, qd, qdd, tau) -> Result:
        """The state and the torques of all joints, clamped to the limits."""
        coordinates, at = self._coordinates, self._coordinates.v_at
        spread = coordinates.spread(q, qd, qdd, tau)
        tau, rates = (spread.tau, spread.qd) if coordinates.scalar_only else (spread.tau[at], spread.qd[at])
        low, high = self._range
        if self._depends_on_velocity:  # a motor that is switched off has no torque at any velocity
            low, high = self._limits.ranges(rates)
            low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
        over = (tau > high) | (tau < low)
        if True not in over.tolist():
            return Result(*spread)
        clamped = spread.tau.copy()
        clamped[at] = np.clip(tau, low, high)
        names = tuple(coordinates.names[k] for k in np.flatnonzero(over))
        return Result(spread.q, spread.qd, spread.qdd, clamped, names)

    def friction(self, q, qd):
        """Torques (nv,) that overcome friction, springs and offsets of all joints, reduced to the independent
        ones."""
        if self._coordinates.scalar_only:
            return self._joints(q, qd)
        return self._coordinates.gather(q, self._joints(q, self._coordinates.tree_rates(q, qd)))


def joint_friction(model: Robot, settings: DescriptionSettings) -> JointFriction:
    """Friction, springs and offsets of the joints, with the parameters friction.*."""
    return JointFriction(model.tree, *friction_of(model, settings))


def friction_of(model: Robot, settings: DescriptionSettings):
    """(viscous, coulomb), each (axles,): of the parameters friction.*, else of the URDF."""
    tree = model.tree
    viscous, coulomb = tree.damping.copy(), tree.friction.copy()
    at = {joint.name: joint.v for joint in tree.independent_joints}
    rows = zip(settings.friction_joints, settings.friction_viscous, settings.friction_coulomb, strict=True)
    for name, of_viscous, of_coulomb in rows:
        viscous[at[name]], coulomb[at[name]] = of_viscous, of_coulomb
    return viscous, coulomb


def _efforts(coordinates, settings):
    """Torque limit (joints,) of each joint by effort_limits."""
    if settings.effort_limits == "list":
        return np.array(settings.effort_limits_list)
    if settings.effort_limits == "none":
        return np.full(len(coordinates.joints), np.inf)
    return np.array([joint.limits.effort or np.inf for joint in coordinates.joints])
