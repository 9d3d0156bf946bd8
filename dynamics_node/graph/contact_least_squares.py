"""Dynamics with contacts on arrays of NumPy, for states at which contacts are neither redundant nor regular.

With M = L L^T of the free coordinates, H = J L^-T of the active rows and its singular values, accelerations
take the error of H, not of H H^T as in a Program. A direction whose singular value is below RANK times the
size of H counts as redundant. Then forces are the shortest, and contradictory accelerations are met by
least squares, as in algorithms/contact_dynamics.py.
"""

from dataclasses import dataclass, replace

import numpy as np

from dynamics_node.algorithms.contact_dynamics import PlacedContacts, base_coordinates
from dynamics_node.algorithms.contact_equations import accelerations_along, contact_equations
from dynamics_node.algorithms.frame_kinematics import body_jacobians
from dynamics_node.algorithms.quantity_methods import inverse_dynamics, mass_matrix
from dynamics_node.algorithms.rates import sampled_rates
from dynamics_node.algorithms.rnea import body_motions
from dynamics_node.algorithms.wheels import LEANING
from dynamics_node.robot import Problem, Robot
from dynamics_node.robot.transforms import joint_transforms

RANK = 1e-6


@dataclass(frozen=True, eq=False)
class ContactLeastSquares:
    """Unknowns of a Problem with contacts, state by state."""

    robot: Robot
    problem: Problem
    description = "contacts by singular values"

    def with_inertias(self, robot):
        """The algorithm for a robot that differs in inertias or rotor inertias only."""
        return replace(self, robot=robot)

    def __call__(self, **arrays):
        """{name: (count, *shape)} of what the Problem returns."""
        shapes = self.problem.reads(self.robot, wrenches=True)
        states = [
            self._at(**{name: a if a.ndim == len(shapes[name]) else a[k] for name, a in arrays.items()})
            for k in range(len(arrays["q"]))
        ]
        return {name: np.stack([state[name] for state in states]) for name in states[0]}

    def _at(self, q, qd, active, contact_accelerations, qdd=None, tau=None, f_ext=None, gravity=None):
        robot, forward = self.robot, np.array(self.problem.forward)
        zero = np.zeros(robot.nv)
        prescribed = zero if qdd is None else np.where(forward, 0.0, qdd)
        rates = sampled_rates(robot, q, qd)
        (M,) = mass_matrix(robot, rates, q)
        touch, sides, moving = self._contacts(q, rates, prescribed, active)
        J = sides.sum(axis=0)
        if touch.invalid() > LEANING:
            return {name: np.full(shape, np.nan) for name, shape in self.problem.returns(robot).items()}
        short = inverse_dynamics(robot, rates, q, prescribed, f_ext, gravity) - (0.0 if tau is None else tau)
        scale = touch.units * touch.active
        if self.problem.kind == "inverse":
            base = base_coordinates(robot)
            components = scale * _shortest(sides[:, :, base] * scale[:, None], short[base])
            accelerations = prescribed
        else:
            gaps = scale * (moving - touch.along_equations(contact_accelerations))
            at = np.flatnonzero(forward)
            sides = sides[:, :, at] * scale[:, None]
            changes, forces = _stopped(M[np.ix_(at, at)], sides, short[at], gaps)
            accelerations, components = prescribed.copy(), scale * forces
            accelerations[at] = changes
        torques = M @ (accelerations - prescribed) + short - J.T @ components
        torques = np.where(forward, 0.0, torques) + (0.0 if tau is None else tau)
        results = {"qdd": accelerations, "tau": torques, "contact_forces": touch.along_axes(components)}
        return {name: results[name] for name in self.problem.returns(robot)}

    def _contacts(self, q, rates, prescribed, active):
        """The PlacedContacts, the parts of J (2, rows, nv) along P of the two sides, and the accelerations
        (rows,) along P of coordinates that accelerate with `prescribed` (nv,)."""
        tree = self.robot.tree
        X_up = joint_transforms(tree, q)
        touch = PlacedContacts(
            self.problem.contacts, contact_equations(tree, X_up, self.problem.contacts), active
        )
        bodies, rows = body_jacobians(tree, X_up), []
        for equation in touch.equations:
            J = np.zeros((2, equation.size, tree.nv))
            for side, (body, P) in zip(J, equation.sides, strict=False):
                columns, own = bodies[body]
                side[:, columns] = P.T @ own
            rows.append(J)
        still = np.zeros(3)
        motions = body_motions(tree, X_up, rates.qd, rates.accelerations(prescribed), still)
        moving = accelerations_along(tree, X_up, motions, rates.qd, still, touch.equations)
        return touch, rates.columns(np.concatenate(rows, axis=1)), moving


def _stopped(M, sides, short, gaps):
    """Accelerations a (n,) and the shortest forces f with M a + short = J^T f and J a + gaps = 0, J being the
    sum of `sides`."""
    if not len(M):
        return np.zeros(0), np.zeros(sides.shape[1])
    L = np.linalg.cholesky(M)
    free = -np.linalg.solve(M, short)
    U, sizes, V = _regular(np.stack([np.linalg.solve(L, side.T).T for side in sides]))
    pushed = (U.T @ (sides.sum(axis=0) @ free + gaps)) / sizes
    return free - np.linalg.solve(L.T, V @ pushed), -U @ (pushed / sizes)


def _shortest(sides, right):
    """The shortest least-squares solution x of J^T x = right, J being the sum of `sides`."""
    U, sizes, V = _regular(sides)
    return U @ ((V.T @ right) / sizes)


def _regular(sides):
    """U, s, V of the part U s V^T of a matrix, the sum of `sides`, in directions that are not redundant. What
    is small beside every side counts as zero, too."""
    U, sizes, V = np.linalg.svd(sides.sum(axis=0), full_matrices=False)
    kept = sizes > RANK * np.sqrt((sides * sides).sum())
    return U[:, kept], sizes[kept], V[kept].T
