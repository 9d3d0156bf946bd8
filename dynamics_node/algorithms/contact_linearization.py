"""The equations of dynamics with contacts at a state, linearized: what `contact_derivatives` solves."""

from functools import partial

import numpy as np

from dynamics_node.algorithms.contact_equations import accelerations_along, contact_equations
from dynamics_node.algorithms.rates import rates_at, tangent
from dynamics_node.algorithms.recursion import inward, joint_forces, joint_motions, outward, rotor_torques
from dynamics_node.algorithms.reduced_frames import economical_program
from dynamics_node.algorithms.rnea import body_motions, body_wrenches
from dynamics_node.robot import state_shapes
from dynamics_node.robot.transforms import joint_transforms
from dynamics_node.symbolic import derivative_name, interpret, jacobian

_RESULTS, _BY = ("tau", "gaps", "forces"), ("q", "qd", "qdd", "components")


class ByPrograms:
    """By differentiated Programs, for any robot.

    tau (nv,): torques at accelerations and forces; gaps (rows,): accelerations of contacts along P, less the
    given ones; forces (rows,): in the axes of the contacts. M, J (rows, nv) and turn (rows, rows) are their
    derivatives by accelerations and components of forces along P."""

    def __init__(self, robot, contacts, staging, parameters):
        self._robot, self._staging, self._given = robot, staging, staging.arrays
        self._names = [name for name in staging.arrays if name not in ("qdd", "tau", "active")]
        size = sum(len(contact.rows) for contact in contacts)
        self._still = np.zeros(size)
        reads = {name: self._given[name].shape for name in self._names if name not in parameters}
        reads |= {"qdd": (robot.nv,), "components": (size,)}
        self._equations = economical_program(robot, reads, partial(_equations, contacts), parameters)
        self._derived = jacobian(self._equations, _RESULTS, _BY)
        self._velocities = economical_program(
            robot, state_shapes(robot, ("q", "qd")), partial(_velocities, contacts)
        )
        self._T = staging.alone(partial(tangent, robot), self._given["q"])

    def start(self, qdd):
        """tau and gaps without forces."""
        tau, gaps, self.M, self.J, self.turn = self._staging.alone(self._at_start, qdd, *self._arrays())
        return tau, gaps

    def move(self, qdd, components):
        """To accelerations qdd (nv,) and forces."""
        at = self._staging.alone(self._at, qdd, components, self._T, *self._arrays())
        self._by_position, self._by_velocity, self.turning = at

    def by_position(self):
        """The derivatives of tau (nv, nv) and gaps (rows, nv)."""
        return self._by_position

    def by_velocity(self):
        return self._by_velocity

    def velocities(self, rates):
        """The derivatives (rows, nv) by position of the velocities of contacts at constant rates (nv,)."""
        return self._staging.alone(self._derived_velocities, self._given["q"], rates, self._T)

    def _arrays(self):
        return [self._given[name] for name in self._names]

    def _named(self, arrays):
        return dict(zip(self._names, arrays, strict=True))

    def _at_start(self, qdd, *arrays):
        state = self._named(arrays) | {"qdd": qdd, "components": self._still}
        values, D = interpret(self._equations, **state), interpret(self._derived, **state)
        pairs = (("tau", "qdd"), ("gaps", "qdd"), ("forces", "components"))
        return values["tau"], values["gaps"], *(D[derivative_name(*pair)] for pair in pairs)

    def _at(self, qdd, components, T, *arrays):
        D = interpret(self._derived, **self._named(arrays), qdd=qdd, components=components)
        by_position = {name: D[derivative_name(name, "q")] @ T for name in _RESULTS}
        by_velocity = tuple(D[derivative_name(name, "qd")] for name in ("tau", "gaps"))
        return (by_position["tau"], by_position["gaps"]), by_velocity, by_position["forces"]

    def _derived_velocities(self, q, rates, T):
        derived = jacobian(self._velocities, ["velocities"], ["q"])
        return interpret(derived, q=q, qd=rates)[derivative_name("velocities", "q")] @ T


def _equations(contacts, robot, q, qd, qdd, components, gravity, contact_accelerations, f_ext=None):
    """{name: array} of _RESULTS."""
    tree, rates = robot.tree, rates_at(robot, q, qd, explicit=True)
    X_up, changes = joint_transforms(tree, q), rates.accelerations(qdd)
    motions = body_motions(tree, X_up, rates.qd, changes, gravity)
    equations = contact_equations(tree, X_up, contacts)
    f = body_wrenches(tree, motions) - (0.0 if f_ext is None else f_ext)
    ends = np.cumsum([equation.size for equation in equations])[:-1]
    parts = list(zip(equations, np.split(components, ends), strict=True))
    goals = zip(equations, np.split(contact_accelerations, ends), strict=True)
    for equation, part in parts:
        for body, P in equation.sides:
            f[body] = f[body] - P @ part
    torques = joint_forces(tree, inward(tree, X_up, f)) + rotor_torques(tree, changes)
    along = accelerations_along(tree, X_up, motions, rates.qd, gravity, equations)
    return {
        "tau": rates.independent(torques),
        "gaps": along - np.concatenate([equation.inward(goal) for equation, goal in goals]),
        "forces": np.concatenate([equation.outward(part) for equation, part in parts]),
    }


def _velocities(contacts, robot, q, qd):
    tree, rates = robot.tree, rates_at(robot, q, qd, explicit=True)
    X_up = joint_transforms(tree, q)
    V = outward(tree, X_up, joint_motions(tree, rates.qd))
    equations = contact_equations(tree, X_up, contacts)
    along = [sum(P.T @ V[body] for body, P in equation.sides) for equation in equations]
    return {"velocities": np.concatenate(along)}
