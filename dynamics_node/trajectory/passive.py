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
        slope = self._dry(at + STEP * 1j).imag / STEP
        return self._dry(at) - slope * at, slope

    def _dry(self, qd):
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
    """Tangents along a simulation. middle: also for the data `..._middle` at half a step, for Simpson's
    rule."""

    def __init__(self, passive: PassiveTorques, middle: bool):
        self._passive, self._middle = passive, middle
        self._least = TOUCHING * np.maximum(passive.coulomb + passive.creep, 1e-300)

    def start(self, qd):
        """Data of the first step, at rates qd (n,)."""
        qd = self._passive.map @ qd
        return self._named(self._passive.tangent(qd, qd), "") | (
            self._named(self._passive.tangent(qd, qd), "_middle") if self._middle else {}
        )

    def settle(self, lag) -> int:
        """Move the tangents of the newest step until they touch. Returns the iterations of `lag`. Raises
        NotConverged and as `lag.solve`."""
        iterations, before = 0, [row.copy() for _, _, row in self._places(lag.steps)]
        for _ in range(MOST_TANGENTS):
            places, touching = self._places(lag.steps), True
            for k, (ending, number, qd) in enumerate(places):
                views = lag.steps.views
                torque, slope = views[f"friction{ending}"][number], views[f"friction_slope{ending}"][number]
                touching &= bool(np.all(np.abs(torque + slope * qd - self._passive._dry(qd)) <= self._least))
                torque[:], slope[:] = self._passive.tangent(qd, before[k])
                before[k] = qd.copy()
            if touching:
                return iterations
            iterations += lag.solve()
        raise NotConverged(f"the friction did not converge within {MOST_TANGENTS} tangents")

    def _places(self, steps):
        """[(suffix of the data names, row number, rates of the axles)]"""
        last, axles = len(steps) - 1, self._passive.map
        places = [("", last, axles @ steps["qd"][last])]
        if self._middle and last:
            (v, v_next), (a, a_next) = steps["qd"][last - 1 :], steps["qdd"][last - 1 :]
            middle = 0.5 * (v + v_next) + 0.125 * steps["dt"][last - 1] * (a - a_next)
            places.append(("_middle", last - 1, axles @ middle))
        return places

    @staticmethod
    def _named(tangent, ending):
        return dict(zip((f"friction{ending}", f"friction_slope{ending}"), tangent, strict=True))
