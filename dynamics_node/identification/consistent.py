"""Physically consistent parameters, fitted to the estimated base parameters.

A body has positive density if and only if its pseudo-inertia J, which is linear in its ten parameters, is
positive definite (Wensing, Kim, Slotine 2018). Poorly excited parameters stay near the described J0: their
prior is the divergence tr(J0^-1 J) - log det(J0^-1 J) - 4. It does not depend on frames or units, equals half
the squared distance near J0 (Lee, Wensing, Park 2019), and is infinite for inconsistent J. The sum of the
prior and the squared errors is convex and is minimized by Newton's method. The weight of the divergence
starts large and decreases along the path, as in interior-point methods.

Friction, offsets, springs and rotor inertias have normal priors about the described values. Nonnegative
parameters have a logarithmic barrier whose final weight is at rounding level; values that only the barrier
keeps positive are set to zero.

If the description is grossly wrong, J0 is a poor prior. As long as the torques fit clearly better, the
estimate replaces J0 (proximal point method).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms import inertias_of_parameters
from dynamics_node.identification.base_parameters import BaseParameters
from dynamics_node.identification.regression import column_scale, solve_definite_scaled
from dynamics_node.identification.regressor_model import RegressorModel
from dynamics_node.identification.sums import Solution
from dynamics_node.symbolic import pseudo_inertia

PRIOR_STD = 1.0  # of a described J: relative standard deviation
WEIGHT_DECREASE = 5.0  # factor by which the weight of the divergence decreases per step of the path
STEPS = 60  # of Newton's method at each weight, at most
CONVERGED = 1e-9  # half the squared Newton decrement, in weights: distance to the minimum
NEAR = 0.01  # likewise, per parameter: the next weight may follow
PASSES = 20  # proximal point iterations at most
CLEARLY = 0.8  # fraction of the misfit: a pass must fall below it to count
REJECTED = 0.5  # fraction of the misfit: below it, the described bodies are rejected
UNKNOWN = 1.0, 0.1  # kg, and m of radius of gyration, of undescribed bodies
ROUNDING = 1e-14  # fraction of the largest eigenvalue: a smaller one counts as zero
FLOOR = 1e-6  # fraction of the largest eigenvalue: minimum for described inertias
BOUNDED = ("rotor", "viscous", "coulomb", "creep")  # nonnegative terms
BARRIER = 1e-10  # final weight, in half squared standard deviations
BARRIER_DECREASE = 100.0  # factor by which the barrier alone decreases per step
EDGE = 0.9  # fraction of the distance to the feasible boundary, at most per step
SLACK = 1e-14  # fraction of the cost: rounding error
VAGUE = 1e4  # sizes: default standard deviation of the prior of joint parameters
TINY = 1e-9  # smallest standard deviation of a prior
OFFSET = 0.1  # fraction of a torque: prior of its offset
FAINT = 1e-3  # fraction of the largest torque: smaller ones are raised to it
SLOW = 0.1  # fraction of the velocity limit
ORDINARY = {"rotor": 1.0, "viscous": 0.1, "spring": 0.3}  # rad/s^2, rad/s if there is no limit, rad
_BASIS = pseudo_inertia(inertias_of_parameters(np.eye(10)))  # J = sum of parameters times these (10, 4, 4)


def nearby_bodies(J):
    """Positive definite pseudo-inertias (..., 4, 4) near the given ones: small eigenvalues are raised."""
    values, vectors = np.linalg.eigh(J)
    raised = np.maximum(values, FLOOR * values[..., -1:])
    return vectors @ (raised[..., None] * np.swapaxes(vectors, -1, -2))


class ConsistentParameters(NamedTuple):
    """parameters (p,): physically consistent estimate; described (p,): mean of the prior, equal to the
    description as far as it can explain the torques."""

    parameters: np.ndarray
    described: np.ndarray


@dataclass(frozen=True, eq=False)
class ConsistentFit:
    """Physically consistent parameters, with nonnegative friction and rotor inertias, for a Solution.

    prior_std: relative standard deviation of the described bodies; the smaller it is, the more strongly
    poorly excited parameters are pulled toward the description. prior (p,): standard deviations of joint
    parameters about their described values, vague by default; its body entries are ignored.
    """

    linear: RegressorModel
    base: BaseParameters
    prior_std: float = PRIOR_STD
    prior: np.ndarray | None = None

    def parameters(self, solution: Solution) -> ConsistentParameters:
        """Bodies described without mass keep their values unless the torques contradict them. If the
        description cannot explain the torques at all, all described bodies are discarded."""
        linear = self.linear
        p, misfit = self._near(solution, linear.described)
        fit = ConsistentParameters(p, linear.described)
        massless = linear.described[linear.places("inertia")].reshape(-1, 10)[:, 0] <= 0
        for unknown in (massless, np.ones_like(massless)):
            if misfit > self.base.count and unknown.any():
                described = self._unknown(unknown)
                other, other_misfit = self._near(solution, described)
                if other_misfit < REJECTED * misfit:
                    fit, misfit = ConsistentParameters(other, described), other_misfit
        return fit

    def refitted(self, fit: ConsistentParameters, solution: Solution):
        """Base values (r,) of `parameters` for other data of the same robot, started from `fit`."""
        return self.base.values(self._near(solution, fit.described, fit.parameters)[0])

    def _unknown(self, which):
        """The described parameters (p,), with those of the bodies `which` (bodies,) replaced by a sphere-like
        one."""
        mass, radius = UNKNOWN
        described = self.linear.described.copy()
        inertias = described[self.linear.places("inertia")].reshape(-1, 10)
        inertias[which] = [mass, 0, 0, 0, *mass * radius**2 * np.array([1, 0, 1, 0, 0, 1])]
        return described

    def _near(self, solution, described, start=None):
        """The parameters (p,) near `described`, and their misfit: half the sum of squares."""
        linear, base = self.linear, self.base
        places = np.arange(len(described))
        shaped = places[linear.places("inertia")].reshape(-1, 10)
        bodies, joints = shaped[described[shaped][:, 0] > 0], np.setdiff1d(places, shaped)
        bounded = np.concatenate([places[linear.places(term)] for term in BOUNDED])
        known = (base.combinations, solution.x, solution.information)
        prior = VAGUE * linear.sizes if self.prior is None else self.prior
        cost = _Cost(described, bodies, joints, bounded, known, self.prior_std, prior)
        p = cost.minimum(start)
        misfit = cost.misfit(p)
        for _ in range(PASSES):
            if misfit <= base.count:
                break
            cost.J0 = nearby_bodies(_pseudo(p[cost.bodies]))
            better = cost.minimum()
            if cost.misfit(better) > CLEARLY * misfit:
                break
            p, misfit = better, cost.misfit(better)
        return p, misfit


def joint_prior(linear: RegressorModel, base: BaseParameters, S, count):
    """Standard deviations (p,) of joint parameters about their described values, from S and count of `Sums`.

    A friction, spring or rotor term may produce a torque up to the largest average torque. This holds at the
    recorded velocity, angle or acceleration, or at a typical one if that is larger. An offset may be a tenth
    of it, so that torque without reversal counts as friction. A described value may be off by its own size.
    """
    sizes = np.sqrt(np.einsum("jkk->jk", S) / np.maximum(count, 1.0)[:, None])
    torque = np.maximum(sizes[:, -1], FAINT * sizes[:, -1].max(initial=0.0))
    places, prior = {int(k): at for at, k in enumerate(base.chosen)}, np.array(linear.sizes)
    for term in (term for term in linear.terms if term != "inertia"):
        for joint, k in zip(linear.joints, np.arange(len(prior))[linear.places(term)].tolist(), strict=True):
            affected, scale = base.dependence[:, k], 1.0
            if term in ORDINARY:
                fast = SLOW * joint.limits.velocity if term == "viscous" else 0.0
                least = fast if np.isfinite(fast) and fast > 0 else ORDINARY[term]
                scale = max(least, sizes[affected, places[k]].max(initial=0.0) if k in places else 0.0)
            most = (OFFSET if term == "offset" else 1.0) * torque[affected].max(initial=0.0) / scale
            prior[k] = max(most, abs(linear.described[k]), TINY)
    return prior


def consistent_body(x, information, described, prior_std=PRIOR_STD):
    """Parameters (10,) of one consistent body that fit x (10,) with its `information` (10, 10). described
    (10,): mean of the prior; prior_std: its relative standard deviation."""
    bodies, none = np.arange(10)[None], np.zeros(0, dtype=int)
    known = np.eye(10), x, information
    return _Cost(described, bodies, none, none, known, prior_std, np.ones(10)).minimum()


class _Cost:
    """The cost as a function of the parameters of `bodies` (bodies, 10) and of `joints`. known: K, x and A of
    (K p - x)^T A (K p - x) / 2; bounded: indices of nonnegative parameters; prior (p,): standard deviations
    of joint parameters about their described values."""

    def __init__(self, described, bodies, joints, bounded, known, prior_std, prior):
        self.described, self.bodies = described.copy(), bodies
        self.bounded, self.least = bounded, 1.0 / prior_std**2
        self.J0 = nearby_bodies(_pseudo(self.described[bodies]))
        self.K, self.x, self.A = known
        self.moving = np.concatenate([bodies.ravel(), joints])
        K = self.K[:, self.moving]
        self.quadratic = K.T @ self.A @ K
        self.stiff = np.zeros(len(described))
        self.stiff[joints] = 1.0 / prior[joints] ** 2
        self.place = np.searchsorted(joints, bounded) + bodies.size  # of `bounded` in `moving`
        curvature = np.diagonal(self.quadratic)[self.place] + self.stiff[bounded]
        self.unit = column_scale(curvature)  # (bounded,): one standard deviation

    def minimum(self, near=None):
        """Minimizer (p,); parameters that only the barrier keeps positive are zero. near (p,): starting
        point."""
        p = self.described.copy() if near is None else near.copy()
        weight = self.least
        if near is None:
            p[self.bodies] = np.einsum("aij,bij->ba", _dual(), self.J0)
            weight = max(weight, self.misfit(p) / max(1, self.moving.size))
        p[self.bounded] = np.maximum(p[self.bounded], np.sqrt(weight) * self.unit)
        barrier = weight
        least = BARRIER
        while True:
            least = max(least, SLACK * self.misfit(p)) if weight <= self.least else least
            last = weight <= self.least and barrier <= least
            converged = self._newton(p, weight, barrier, last)
            if last:
                break
            slower = WEIGHT_DECREASE if weight > self.least else BARRIER_DECREASE if converged else np.inf
            barrier, weight = max(barrier / slower, least), max(self.least, weight / WEIGHT_DECREASE)
        p[self.bounded[p[self.bounded] < np.sqrt(least) * self.unit]] = 0.0
        return p

    def _newton(self, p, weight, barrier, end):
        """Minimize in place for given weights of divergence and barrier, approximately before the `end`.
        Returns whether it converged."""
        count = self.bodies.size
        inverse0 = np.linalg.inv(self.J0)
        near = NEAR * len(p) * (weight if weight > self.least else barrier)
        for _ in range(STEPS):
            inverse = np.linalg.inv(_pseudo(p[self.bodies]))
            H, gradient = self.quadratic.copy(), self.K[:, self.moving].T @ (self.A @ (self.K @ p - self.x))
            gradient[:count] += weight * np.einsum("bij,aji->ba", inverse0 - inverse, _BASIS).ravel()
            gradient += (self.stiff * (p - self.described))[self.moving]
            gradient[self.place] -= barrier / p[self.bounded]
            turned = np.einsum("bij,ajk->baik", inverse, _BASIS)
            curvature = weight * np.einsum("baik,bcki->bac", turned, turned)
            for k, block in enumerate(curvature):
                H[10 * k : 10 * k + 10, 10 * k : 10 * k + 10] += block
            H[np.diag_indices(len(H))] += self.stiff[self.moving]
            H[self.place, self.place] += barrier / p[self.bounded] ** 2
            step = -solve_definite_scaled(H, gradient)
            decrement = -0.5 * gradient @ step
            if decrement <= max(weight * CONVERGED if end else near, SLACK * self.misfit(p)):
                return True
            length = self._length(p, step, gradient, weight, barrier)
            if not length:  # rounding prevents further progress
                return True
            p[self.moving] += length * step
        return False

    def _length(self, p, step, gradient, weight, barrier):
        """Step length that stays feasible and decreases the cost."""
        before, slope = self._cost(p, weight, barrier), gradient @ step
        slack, length = SLACK * abs(before), min(1.0, EDGE * self._room(p, step))
        while length > 1e-12:
            ahead = p.copy()
            ahead[self.moving] += length * step
            if self._cost(ahead, weight, barrier) <= before + 0.1 * length * slope + slack:
                return length
            length *= 0.5
        return 0.0

    def _room(self, p, step):
        """Number of steps to the feasible boundary."""
        half = np.linalg.inv(np.linalg.cholesky(_pseudo(p[self.bodies])))
        change = half @ _pseudo(step[: self.bodies.size].reshape(-1, 10)) @ np.swapaxes(half, -1, -2)
        falls = np.append(-np.linalg.eigvalsh(change).ravel(), -step[self.place] / p[self.bounded])
        return 1.0 / max(falls.max(initial=0.0), 1e-300)

    def misfit(self, p):
        off = self.K @ p - self.x
        return 0.5 * off @ self.A @ off

    def _cost(self, p, weight, barrier):
        J, above = _pseudo(p[self.bodies]), p[self.bounded]
        values = np.linalg.eigvalsh(J)
        if np.any(values[:, 0] <= ROUNDING * values[:, -1]) or np.any(above <= 0):
            return np.inf
        ratio = np.linalg.solve(self.J0, J)
        divergence = np.trace(ratio, axis1=1, axis2=2) - np.linalg.slogdet(ratio)[1] - 4.0
        prior = 0.5 * np.sum(self.stiff * (p - self.described) ** 2)
        return self.misfit(p) + prior + weight * divergence.sum() - barrier * np.log(above).sum()


def _pseudo(parameters):
    return np.einsum("ba,aij->bij", parameters, _BASIS)


def _dual():
    """(10, 4, 4): each parameter is the sum of its products with a J."""
    flat = _BASIS.reshape(10, 16)
    return np.linalg.pinv(flat.T).reshape(10, 4, 4)
