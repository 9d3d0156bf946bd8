"""Passive torques in a simulation: damping, friction, springs and offsets of joints.

Damping, springs and offsets are linear in positions and rates and part of the equations of motion. Dry
friction, F tanh(qd / smoothing), is replaced by its tangent; `DryFriction` moves the tangent until it touches
at the rates of the solution (Newton's method).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dynamics_node.algorithms import smooth_friction
from dynamics_node.errors import NotConverged
from dynamics_node.robot import Robot, Shapes

TOUCHING = 1e-10  # error of a tangent, relative to the largest friction of its joint
MOST_TANGENTS = 60  # per step
STEP = 1e-20  # imaginary, for the derivative of the friction


@dataclass(frozen=True, eq=False)
class PassiveTorques:
    """Coefficients (axles,), SI units: viscous, coulomb and creep as in `smooth_friction`, spring with rest
    position 0, offset. map: rates of axles from directions of a System, see Robot.axle_map. positions: q ->
    (axles,), on symbols, 0 for axles without a position."""

    viscous: np.ndarray
    coulomb: np.ndarray
    creep: np.ndarray
    spring: np.ndarray
    offset: np.ndarray
    map: np.ndarray
    positions: Callable

    @property
    def has_dry_friction(self) -> bool:
        return bool(self.coulomb.any() or self.creep.any())

    @property
    def data(self) -> Shapes:
        """The tangent of the dry friction at a step: its torque at rate zero, and its slope."""
        shape = (len(self.viscous),)
        return {"friction": shape, "friction_slope": shape} if self.has_dry_friction else {}

    def torque(self, q, qd, friction=0.0, friction_slope=0.0):
        """Torques (n,) along the directions that the drives must overcome, on symbols."""
        rates = self.map @ qd
        torques = (
            (self.viscous + friction_slope) * rates + friction + self.spring * self.positions(q) + self.offset
        )
        return self.map.T @ torques

    def tangent(self, qd, before):
        """(torque at rate zero, slope) of the dry friction at rates qd (axles,). Joints whose rate changed
        its sign since `before` get the tangent at rate zero, from which Newton's method cannot cycle."""
        at = np.where(qd * before < 0.0, 0.0, qd)
        slope = self.dry(at + STEP * 1j).imag / STEP
        return self.dry(at) - slope * at, slope

    def dry(self, qd):
        """Dry friction (axles,) at rates qd (axles,)."""
        return smooth_friction(qd, 0.0, self.coulomb, creep=self.creep)


def passive_torques(tree: Robot) -> PassiveTorques | None:
    """PassiveTorques of a tree, None if there are none."""
    parts = tree.damping, tree.friction, tree.creep, tree.springs, tree.torque_offsets
    scalar = [joint for joint in tree.independent_joints if joint.type.is_scalar]

    def positions(q):
        angles = np.zeros(len(tree.axle_map), dtype=object)
        for joint in scalar:
            angles[joint.v] = q[joint.q]
        for k, joint in enumerate(tree.shared_joints, tree.nv):
            angles[k] = joint.position(q)[0] - joint.offset  # included in the torque at position zero
        return angles

    return PassiveTorques(*parts, tree.axle_map, positions) if any(part.any() for part in parts) else None


class DryFriction:
    """Tangents along a simulation."""

    def __init__(self, passive: PassiveTorques):
        self._passive = passive
        self._least = TOUCHING * np.maximum(passive.coulomb + passive.creep, 1e-300)

    def start(self, qd):
        """Data of the first step, at rates qd (n,)."""
        rates = self._passive.map @ qd
        return dict(zip(self._passive.data, self._passive.tangent(rates, rates), strict=True))

    def settle(self, lag) -> int:
        """Move the tangent of the newest step until it touches. Returns the iterations of `lag`. Raises
        NotConverged and as `lag.solve`."""
        iterations = 0
        torque, slope = (lag.steps[name][-1] for name in self._passive.data)
        before = self._passive.map @ lag.steps["qd"][-1]
        for _ in range(MOST_TANGENTS):
            rates = self._passive.map @ lag.steps["qd"][-1]
            touching = np.abs(torque + slope * rates - self._passive.dry(rates)) <= self._least
            torque[:], slope[:] = self._passive.tangent(rates, before)
            if touching.all():
                return iterations
            before = rates
            iterations += lag.solve()
        raise NotConverged(f"the friction did not converge within {MOST_TANGENTS} tangents")
