"""Which torques are asked for: the parts that are compensated, joint friction, and limits."""

from collections.abc import Callable

import numpy as np

from dynamics_node.algorithms import friction_torque
from dynamics_node.loops import Mechanism, tree_of
from dynamics_node.model import Model
from dynamics_node.node.coordinates import Coordinates
from dynamics_node.node.described import DescriptionSettings
from dynamics_node.node.settings import Settings


class Torques:
    """What the parameters compensate.*, friction.* and effort_limits* ask of one robot."""

    def __init__(self, model: Model | Mechanism, coordinates: Coordinates, settings: Settings):
        self._coordinates, self._settings = coordinates, settings
        self._friction = friction_of(model, settings)
        self._limits = _limits(model, settings)

    @property
    def reads_velocity(self) -> bool:
        """Whether what is compensated depends on velocities."""
        return self._settings.compensate_coriolis or self._settings.compensate_friction

    def compensation(self, solver: Callable[..., np.ndarray], q, qd, qdd, f_ext, gravity):
        """Torques (nv,) of the parts that compensate.* names."""
        settings = self._settings
        tau = solver(
            q,
            qd if settings.compensate_coriolis else 0.0 * qd,
            qdd if settings.compensate_inertia else 0.0 * qdd,
            f_ext,
            gravity=gravity if settings.compensate_gravity else 0.0 * gravity,
        )
        return tau + self.friction(q, qd) if settings.compensate_friction else tau

    def clamped(self, tau):
        """Torques (nv of the tree,) within the limits, and the names of the joints where they were not."""
        at = self._coordinates.v_at
        over = np.abs(tau if self._coordinates.scalar_only else tau[at]) > self._limits
        if not over.any():
            return tau, ()
        tau = tau.copy()
        tau[at] = np.clip(tau[at], -self._limits, self._limits)
        return tau, tuple(self._coordinates.names[k] for k in np.flatnonzero(over))

    def friction(self, q, qd):
        """Torques (nv,) that overcome friction: at every joint, then what they do at the independent ones."""
        if self._coordinates.scalar_only:
            return friction_torque(qd, *self._friction)
        rates = self._coordinates.spread(q, qd, 0.0 * qd, 0.0 * qd).qd
        return self._coordinates.gather(q, friction_torque(rates, *self._friction))


def friction_of(model: Model | Mechanism, settings: DescriptionSettings):
    """(viscous, coulomb), each (nv of the tree,): the URDF's, and the parameters' where they name a joint."""
    tree = tree_of(model)
    viscous, coulomb = tree.damping.copy(), tree.friction.copy()
    at = {joint.name: joint.v for joint in tree.independent_joints}
    rows = zip(settings.friction_joints, settings.friction_viscous, settings.friction_coulomb, strict=True)
    for name, own_viscous, own_coulomb in rows:
        viscous[at[name]], coulomb[at[name]] = own_viscous, own_coulomb
    return viscous, coulomb


def _limits(model, settings):
    """The largest torque (joints,) at each scalar joint."""
    if settings.effort_limits == "list":
        return np.array(settings.effort_limits_list)
    tree = tree_of(model)
    scalar = [j.v.start for j in tree.independent_joints if j.type.is_scalar]
    if settings.effort_limits == "none":
        return np.full(len(scalar), np.inf)
    return tree.effort_limits[scalar]
