"""Passive torques in a simulation: damping, friction, springs and offsets of joints.

Damping, springs and offsets are linear in positions and rates and stand in the equations of motion. Dry
friction, F tanh(qd / smoothing), is replaced by its tangent; `DryFriction` moves the tangent until it touches
at the rates of the solution (Newton's method).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dynamics_node.algorithms import smooth_friction
from dynamics_node.robot import Robot, Shapes
from dynamics_node.trajectory.errors import NotConverged

TOUCHING = 1e-10  # error of a tangent, beside the largest friction of its joint
MOVES = 60  # of the tangents at a step
STEP = 1e-20  # imaginary, for the derivative of the friction


@dataclass(frozen=True, eq=False)
class PassiveTorques:
    """Coefficients (axles,), SI units: viscous, coulomb and creep as of `smooth_friction`, spring at rest at
    position 0, offset. map: rates of axles from directions of a System, see Robot.axle_map. positions: q ->
    (axles,), 0 where an axle has none, on symbols."""

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
        """Along the directions (n,), what the drives overcome, on symbols."""
        rates = self.map @ qd
        own = (
            (self.viscous + friction_slope) * rates + friction + self.spring * self.positions(q) + self.offset
        )
        return self.map.T @ own

    def tangent(self, qd, before):
        """(torque at rate zero, slope) of the dry friction at rates qd (axles,). A joint whose rate changed
        its sign since `before` gets the tangent at rate zero: from there Newton's method cannot cycle."""
        at = np.where(qd * before < 0.0, 0.0, qd)
        slope = self._dry(at + STEP * 1j).imag / STEP
        return self._dry(at) - slope * at, slope

    def _dry(self, qd):
        return smooth_friction(qd, 0.0, self.coulomb, creep=self.creep)


def passive_torques(tree: Robot) -> PassiveTorques | None:
    """Those of a tree, None where it has none."""
    parts = tree.damping, tree.friction, tree.creep, tree.springs, tree.torque_offsets
    scalar = [joint for joint in tree.independent_joints if joint.type.is_scalar]

    def positions(q):
        found = np.zeros(len(tree.axle_map), dtype=object)
        for joint in scalar:
            found[joint.v] = q[joint.q]
        for k, joint in enumerate(tree.shared_joints, tree.nv):
            found[k] = joint.position(q)[0] - joint.offset  # which is part of the torque at position zero
        return found

    return PassiveTorques(*parts, tree.axle_map, positions) if any(part.any() for part in parts) else None


class DryFriction:
    """Tangents along a simulation. middle: data `..._middle` of half a step, which Simpson's rule reads."""

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
        """Move the tangents of the newest step until they touch. Iterations of `lag` that were made. Raises
        NotConverged and as `lag.solve`."""
        made, before = 0, [row.copy() for _, _, row in self._places(lag.steps)]
        for _ in range(MOVES):
            places, touching = self._places(lag.steps), True
            for k, (ending, number, qd) in enumerate(places):
                views = lag.steps.views
                torque, slope = views[f"friction{ending}"][number], views[f"friction_slope{ending}"][number]
                touching &= bool(np.all(np.abs(torque + slope * qd - self._passive._dry(qd)) <= self._least))
                torque[:], slope[:] = self._passive.tangent(qd, before[k])
                before[k] = qd.copy()
            if touching:
                return made
            made += lag.solve()
        raise NotConverged(f"the friction did not settle in {MOVES} tangents")

    def _places(self, steps):
        """[(ending of the data's names, number of the row, rates of the axles there)]"""
        last, axles = len(steps) - 1, self._passive.map
        found = [("", last, axles @ steps["qd"][last])]
        if self._middle and last:
            (v, v_next), (a, a_next) = steps["qd"][last - 1 :], steps["qdd"][last - 1 :]
            middle = 0.5 * (v + v_next) + 0.125 * steps["dt"][last - 1] * (a - a_next)
            found.append(("_middle", last - 1, axles @ middle))
        return found

    @staticmethod
    def _named(tangent, ending):
        return dict(zip((f"friction{ending}", f"friction_slope{ending}"), tangent, strict=True))
