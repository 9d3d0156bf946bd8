"""Parameters that bodies can have, fitted to what is known of the base parameters.

A body of positive density has a positive definite pseudo-inertia J, and the other way round (Wensing, Kim,
Slotine 2018), which is linear in its ten parameters. What torques do not tell is kept near the described J0
by the divergence tr(J0^-1 J) - log det(J0^-1 J) - 4, which no choice of frames or units changes and which
is the squared distance from J0, halved, near it (Lee, Wensing, Park 2019); it is infinite where J is no
body's any more. With the squares of what torques tell, that is a convex function, whose minimum Newton's
method finds: the divergence weighs much first and less and less (the path of interior-point methods).

Friction, offsets, springs and rotor inertias have a normal prior about what is described. Those that cannot
be negative have a logarithmic barrier, whose weight ends where rounding begins: what it alone keeps above
zero is zero.

Of a description that is grossly wrong J0 is no place to stay near to: as long as torques fit clearly better,
what was found takes its place (the proximal point method).
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms import inertias_of_parameters
from dynamics_node.identification.base_parameters import BaseParameters
from dynamics_node.identification.regression import column_scale, solve_definite_scaled
from dynamics_node.identification.regressor_model import RegressorModel
from dynamics_node.identification.sums import Solution
from dynamics_node.symbolic import pseudo_inertia

PRIOR_STD = 1.0  # of a described J, relative: a standard deviation
FASTER = 5.0  # by which the divergence weighs less from step to step on the path
STEPS = 60  # of Newton's method at most, at each weight
DONE = 1e-9  # half the square of Newton's decrement, in weights: how far the minimum is below
NEAR = 0.01  # of parameters, likewise, where the next weight may follow
PASSES = 20  # from J0 to J0 at most
CLEARLY = 0.8  # of the misfit, that a pass must reach to be worth it
NEEDED = 0.5  # of the misfit, that is left when bodies are not as described at all
UNKNOWN = 1.0, 0.1  # kg and m of radius of gyration of those
ROUNDING = 1e-14  # of the largest eigenvalue, below which the least is none
FLOOR = 1e-6  # of the largest eigenvalue: what a description lacks to be a body
BOUNDED = ("rotor", "viscous", "coulomb", "creep")  # terms that cannot be negative
BARRIER = 1e-10  # in the end, in halves of squares of standard deviations
STEEPER = 100.0  # by which the barrier alone falls from step to step
EDGE = 0.9  # of the way to where a body is none or a friction is zero, at most in a step
SLACK = 1e-14  # of the function: rounding
VAGUE = 1e4  # sizes: standard deviation of the prior of friction and such by default
NOTHING = 1e-9  # least standard deviation of a prior
OFFSET = 0.1  # of a torque, that its offset may be
FAINT = 1e-3  # of the largest torque: a smaller one counts as that
SLOW = 0.1  # of the largest velocity
ORDINARY = {"rotor": 1.0, "viscous": 0.1, "spring": 0.3}  # rad/s^2, rad/s without a limit, rad
_BASIS = pseudo_inertia(inertias_of_parameters(np.eye(10)))  # J = sum of parameters times these (10, 4, 4)


def nearby_bodies(J):
    """Positive definite pseudo-inertias (..., 4, 4) near those given: eigenvalues that are too small are
    raised."""
    values, vectors = np.linalg.eigh(J)
    raised = np.maximum(values, FLOOR * values[..., -1:])
    return vectors @ (raised[..., None] * np.swapaxes(vectors, -1, -2))


class Believed(NamedTuple):
    """parameters (p,): that bodies can have; described (p,): near which they are, those of the description as
    far as torques can be explained so."""

    parameters: np.ndarray
    described: np.ndarray


def consistent_parameters(
    linear: RegressorModel, base: BaseParameters, solution: Solution, prior_std=PRIOR_STD, prior=None
) -> Believed:
    """Parameters that bodies can have, friction and rotor inertias not negative, whose base values fit the
    solution.

    prior_std: how far the described bodies may be off, relative: what torques tell only vaguely follows the
    description so much the more as it is smaller. prior (p,): standard deviations of the others about what is
    described, vague by default; entries of bodies do not count. Bodies described without mass keep what they
    have, unless torques cannot be explained so; where they cannot at all, nothing is believed of the
    described bodies."""
    prior = VAGUE * linear.sizes if prior is None else prior
    p, misfit = _fitted(linear, base, solution, prior_std, prior, linear.described)
    found = Believed(p, linear.described)
    massless = linear.described[linear.places("inertia")].reshape(-1, 10)[:, 0] <= 0
    for unknown in (massless, np.ones_like(massless)):
        if misfit > base.count and unknown.any():
            start = _unknown(linear, unknown)
            other, beside = _fitted(linear, base, solution, prior_std, prior, start)
            if beside < NEEDED * misfit:
                found, misfit = Believed(other, start), beside
    return found


def refitted(
    found: Believed,
    linear: RegressorModel,
    base: BaseParameters,
    solution: Solution,
    prior_std=PRIOR_STD,
    prior=None,
):
    """(p,): `consistent_parameters` of other data of the same robot, near the same description."""
    prior = VAGUE * linear.sizes if prior is None else prior
    return _fitted(linear, base, solution, prior_std, prior, found.described, found.parameters)[0]


def joint_prior(linear: RegressorModel, base: BaseParameters, S, count):
    """(p,): standard deviations of what joints have about what is described, from S and count of their
    `Sums`.

    A friction, spring or rotor may make a torque as large as the largest that is measured on average, at the
    velocity, angle or acceleration of the recording, or at what is ordinary where that is more; an offset a
    tenth of it, so that what does not reverse is friction. What is described may be off by itself."""
    sizes = np.sqrt(np.einsum("jkk->jk", S) / np.maximum(count, 1.0)[:, None])
    torque = np.maximum(sizes[:, -1], FAINT * sizes[:, -1].max(initial=0.0))
    places, prior = {int(k): at for at, k in enumerate(base.chosen)}, np.array(linear.sizes)
    for term in (term for term in linear.terms if term != "inertia"):
        for joint, k in zip(linear.joints, np.arange(len(prior))[linear.places(term)].tolist(), strict=True):
            felt, moved = base.felt[:, k], 1.0
            if term in ORDINARY:
                fast = SLOW * joint.limits.velocity if term == "viscous" else 0.0
                least = fast if np.isfinite(fast) and fast > 0 else ORDINARY[term]
                moved = max(least, sizes[felt, places[k]].max(initial=0.0) if k in places else 0.0)
            most = (OFFSET if term == "offset" else 1.0) * torque[felt].max(initial=0.0) / moved
            prior[k] = max(most, abs(linear.described[k]), NOTHING)
    return prior


def consistent_body(x, information, described, prior_std=PRIOR_STD):
    """(10,): parameters of one body that fit x (10,), of which `information` (10, 10) is known. described
    (10,): the body that counts where nothing is known; prior_std: how far it may be off, relative."""
    own, none = np.arange(10)[None], np.zeros(0, dtype=int)
    return _Fit(described, own, none, none, (np.eye(10), x, information), prior_std, np.ones(10)).minimum()


def _unknown(linear, which):
    """The described parameters (p,), of bodies `which` (bodies,) those of some round body."""
    mass, radius = UNKNOWN
    described = linear.described.copy()
    inertias = described[linear.places("inertia")].reshape(-1, 10)
    inertias[which] = [mass, 0, 0, 0, *mass * radius**2 * np.array([1, 0, 1, 0, 0, 1])]
    return described


def _fitted(linear, base, solution, prior_std, prior, described, near=None):
    """The parameters (p,) near `described`, and how far they miss: half the sum of squares."""
    places = np.arange(len(described))
    shaped = places[linear.places("inertia")].reshape(-1, 10)
    own, joints = shaped[described[shaped][:, 0] > 0], np.setdiff1d(places, shaped)
    bounded = np.concatenate([places[linear.places(term)] for term in BOUNDED])
    known = (base.combinations, solution.x, solution.information)
    fit = _Fit(described, own, joints, bounded, known, prior_std, prior)
    p = fit.minimum(near)
    misfit = fit.misfit(p)
    for _ in range(PASSES):
        if misfit <= base.count:
            break
        fit.J0 = nearby_bodies(_pseudo(p[fit.own]))
        better = fit.minimum()
        if fit.misfit(better) > CLEARLY * misfit:
            break
        p, misfit = better, fit.misfit(better)
    return p, misfit


class _Fit:
    """The function to be minimised, of the parameters `own` of bodies (bodies, 10) and of joints. known: K, x
    and A of (K p - x)^T A (K p - x) / 2; bounded: places of what cannot be negative; prior (p,): standard
    deviations of the parameters of joints about those described."""

    def __init__(self, described, own, joints, bounded, known, prior_std, prior):
        self.described, self.own = described.copy(), own
        self.bounded, self.least = bounded, 1.0 / prior_std**2
        self.J0 = nearby_bodies(_pseudo(self.described[own]))
        self.K, self.x, self.A = known
        self.moving = np.concatenate([own.ravel(), joints])
        K = self.K[:, self.moving]
        self.quadratic = K.T @ self.A @ K
        self.stiff = np.zeros(len(described))
        self.stiff[joints] = 1.0 / prior[joints] ** 2
        self.place = np.searchsorted(joints, bounded) + own.size  # of `bounded` in `moving`
        curvature = np.diagonal(self.quadratic)[self.place] + self.stiff[bounded]
        self.unit = column_scale(curvature)  # (bounded,): one standard deviation

    def minimum(self, near=None):
        """(p,): where the barrier alone keeps a parameter from zero, zero. near (p,): not far from it."""
        p = self.described.copy() if near is None else near.copy()
        weight = self.least
        if near is None:
            p[self.own] = np.einsum("aij,bij->ba", _dual(), self.J0)
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
            slower = FASTER if weight > self.least else STEEPER if converged else np.inf
            barrier, weight = max(barrier / slower, least), max(self.least, weight / FASTER)
        p[self.bounded[p[self.bounded] < np.sqrt(least) * self.unit]] = 0.0
        return p

    def _newton(self, p, weight, barrier, end):
        """The minimum for weights of the divergence and of the barrier, in place, about it before the end;
        and whether that was reached."""
        count = self.own.size
        inverse0 = np.linalg.inv(self.J0)
        near = NEAR * len(p) * (weight if weight > self.least else barrier)
        for _ in range(STEPS):
            inverse = np.linalg.inv(_pseudo(p[self.own]))
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
            if decrement <= max(weight * DONE if end else near, SLACK * self.misfit(p)):
                return True
            length = self._length(p, step, gradient, weight, barrier)
            if not length:  # as far as rounding allows
                return True
            p[self.moving] += length * step
        return False

    def _length(self, p, step, gradient, weight, barrier):
        """How far to go along a step: to a body, and downhill."""
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
        """How many steps lead to where a body is none any more, or a bounded parameter is zero."""
        half = np.linalg.inv(np.linalg.cholesky(_pseudo(p[self.own])))
        change = half @ _pseudo(step[: self.own.size].reshape(-1, 10)) @ np.swapaxes(half, -1, -2)
        falls = np.append(-np.linalg.eigvalsh(change).ravel(), -step[self.place] / p[self.bounded])
        return 1.0 / max(falls.max(initial=0.0), 1e-300)

    def misfit(self, p):
        off = self.K @ p - self.x
        return 0.5 * off @ self.A @ off

    def _cost(self, p, weight, barrier):
        J, above = _pseudo(p[self.own]), p[self.bounded]
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
    """(10, 4, 4): what tells the parameters of a J, sum of all products."""
    flat = _BASIS.reshape(10, 16)
    return np.linalg.pinv(flat.T).reshape(10, 4, 4)
