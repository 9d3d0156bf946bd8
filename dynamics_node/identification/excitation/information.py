"""The base regressor of a motion and criteria of its information matrix, with exact derivatives."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dynamics_node.algorithms import quantity_program
from dynamics_node.algorithms.joint_friction import CREEP
from dynamics_node.functions import compile
from dynamics_node.identification.base_parameters import BaseParameters
from dynamics_node.identification.regressor_model import RegressorModel
from dynamics_node.symbolic import gradient, interpret, trace

STATE = ("q", "qd", "qdd")


@dataclass(frozen=True, eq=False)
class Regressor:
    """The base regressor of a tree in parameter units sizes (base parameters,), each torque divided by its
    noise (nv,). smoothing: rad/s or m/s (nv,), width of the sign change of Coulomb friction. It is wider than
    in reality, so that the time of a reversal between two samples has a derivative."""

    linear: RegressorModel
    base: BaseParameters
    sizes: np.ndarray
    noise: np.ndarray
    smoothing: np.ndarray

    def matrix(self, q, qd, qdd):
        """(states, nv, base parameters) of states (states, nv)."""
        W = np.empty((len(q), self.linear.robot.nv, self.base.count))
        W[..., self._inertial] = self._function(q, qd, qdd)
        for column, (term, at) in self._of_joints:
            W[..., column] = 0.0
            W[:, at, column] = self._joint_term(term, at, q, qd, qdd)[0]
        return W * self._scale

    def pulled(self, weights, q, qd, qdd):
        """Derivatives by q, qd and qdd, each (states, nv), of the sum of weights * matrix."""
        weights = weights * self._scale
        inertial_weights = np.ascontiguousarray(weights[..., self._inertial])
        slopes = [np.array(part) for part in self._gradient(q, qd, qdd, inertial_weights)]
        for column, (term, at) in self._of_joints:
            _, kind, slope = self._joint_term(term, at, q, qd, qdd)
            if kind is not None:
                slopes[STATE.index(kind)][:, at] += weights[:, at, column] * slope
        return slopes

    def _joint_term(self, term, at, q, qd, qdd):
        """Values (states,), the array that they depend on, and their derivative."""
        if term == "offset":
            return 1.0, None, 0.0
        if term in ("coulomb", "creep"):
            width = self.smoothing[at] if term == "coulomb" else CREEP
            value = np.tanh(qd[:, at] / width)
            return value, "qd", (1.0 - value**2) / width
        kind = {"rotor": "qdd", "viscous": "qd", "spring": "q"}[term]
        return {"q": q, "qd": qd, "qdd": qdd}[kind][:, at], kind, 1.0

    def information(self, q, qd, qdd):
        """Information (r, r) of one sample of every torque, averaged over states (states, nv), with the
        friction model of `identify`."""
        W = self.base.reduced(self.linear.matrix(q, qd, qdd)) * self._scale
        rows = W.reshape(-1, self.base.count)
        return rows.T @ rows / len(W)

    @cached_property
    def _scale(self):
        """(nv, base parameters)"""
        return self.sizes / self.noise[:, None]

    @cached_property
    def _places(self):
        """For every base parameter, its column among the inertial ones, or (term, coordinate)."""
        inertial = self.linear.places("inertia")
        places: list = []
        for column in self.base.chosen.tolist():
            if inertial.start <= column < inertial.stop:
                places.append(column - inertial.start)
            else:
                joint, _, term = self.base.names[column].rpartition(".")
                candidate = next(candidate for candidate in self.linear.joints if candidate.name == joint)
                places.append((term, candidate.v.start))
        return places

    @cached_property
    def _inertial(self):
        return [k for k, place in enumerate(self._places) if not isinstance(place, tuple)]

    @cached_property
    def _of_joints(self):
        return [(k, place) for k, place in enumerate(self._places) if isinstance(place, tuple)]

    @cached_property
    def _program(self):
        """q, qd, qdd -> W, the inertial columns of the base."""
        robot = self.linear.robot
        whole = quantity_program(robot, "joint_torque_regressor")
        columns = [self._places[k] for k in self._inertial]

        def chosen(**state):
            outputs = interpret(whole, **state, gravity=robot.gravity.astype(object))
            return {"W": outputs["regressor"][:, columns]}

        return trace(chosen, {name: whole.inputs[name] for name in STATE})

    @cached_property
    def _function(self):
        return compile(self._program, self.linear.backend, "base_regressor")

    @cached_property
    def _gradient(self):
        """Gradient of the sum of weights * W."""
        program = self._program

        def weighted(weights, **state):
            return {"sum": (weights * interpret(program, **state)["W"]).sum()}

        summed = trace(weighted, program.inputs | {"weights": program.outputs["W"].shape})
        return compile(gradient(summed, "sum", STATE), self.linear.backend, "base_regressor_gradient")


POWER = 8.0  # exponent of the norm that smoothly approximates the extreme eigenvalues
LEAST = 1e-14  # fraction of the largest eigenvalue: smaller ones are rounding errors


def volume(information):
    """-log det / size, the mean log variance, and its derivative (r, r): D-optimality (Kiefer and Wolfowitz
    1959)."""
    values, vectors = _spectrum(information)
    size = len(values)
    return -np.log(values).sum() / size, -(vectors / values) @ vectors.T / size


def roundness(information):
    """Logarithm of the condition number of the regressor, and its derivative (r, r). The extreme eigenvalues
    are replaced by norms with exponent POWER, which are differentiable even for multiple eigenvalues."""
    values, vectors = _spectrum(information)
    large, small = (values / values[-1]) ** POWER, (values[0] / values) ** POWER
    norms = np.log(values[-1] / values[0]) + np.log(large.sum() * small.sum()) / POWER
    slope = 0.5 * (large / large.sum() - small / small.sum()) / values
    return 0.5 * norms, (vectors * slope) @ vectors.T


def _spectrum(information):
    values, vectors = np.linalg.eigh(information)
    return np.maximum(values, LEAST * max(values[-1], 1e-300)), vectors
