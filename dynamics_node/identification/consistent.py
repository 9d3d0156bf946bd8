"""Parameters that bodies can have, fitted to what is known of the base parameters.

A body of positive density has a positive definite pseudo-inertia J, and the other way round (Wensing, Kim,
Slotine 2018), which is linear in its ten parameters. What torques do not tell is kept near the described J0
by the divergence tr(J0^-1 J) - log det(J0^-1 J) - 4, which no choice of frames or units changes and which
is the squared distance from J0, halved, near it (Lee, Wensing, Park 2019); it is infinite where J is no
body's any more. With the squares of what torques tell, that is a convex function, whose minimum Newton's
method finds: the divergence weighs much first and less and less (the path of interior-point methods).

Of a description that is grossly wrong J0 is no place to stay near to: as long as torques fit clearly better,
what was found takes its place (the proximal point method).
"""

import numpy as np

from dynamics_node.algorithms import inertias_of_parameters
from dynamics_node.identification.base_parameters import BaseParameters
from dynamics_node.identification.linear import LinearModel
from dynamics_node.identification.solve import Solution
from dynamics_node.spatial import pseudo_inertia

DOUBT = 1.0  # of a described J, relative: a standard deviation
FASTER = 5.0  # by which the divergence weighs less from step to step on the path
STEPS = 60  # of Newton's method at most, at each weight
DONE = 1e-9  # half the square of Newton's decrement, in weights: how far the minimum is below
NEAR = 0.1  # of parameters, likewise, where the next weight may follow
PASSES = 20  # from J0 to J0 at most
CLEARLY = 0.8  # of the misfit, that a pass must reach to be worth it
NEEDED = 0.5  # of the misfit, that is left when bodies are not as described at all
UNKNOWN = 1.0, 0.1  # kg and m of radius of gyration of those
ROUNDING = 1e-14  # of the largest eigenvalue, below which the least is none
FLOOR = 1e-6  # of the largest eigenvalue: what a description lacks to be a body
BOUNDED = ("rotor", "viscous", "coulomb", "creep")  # terms that cannot be negative
_BASIS = pseudo_inertia(inertias_of_parameters(np.eye(10)))  # J = sum of parameters times these (10, 4, 4)


def nearby_bodies(J):
    """Positive definite pseudo-inertias (..., 4, 4) near those given: eigenvalues that are too small are
    raised."""
    values, vectors = np.linalg.eigh(J)
    raised = np.maximum(values, FLOOR * values[..., -1:])
    return vectors @ (raised[..., None] * np.swapaxes(vectors, -1, -2))


def consistent_parameters(linear: LinearModel, base: BaseParameters, solution: Solution, doubt=DOUBT):
    """(p,): parameters that bodies can have, friction and rotor inertias not negative, whose base values
    fit the solution. doubt: how far the described bodies may be off, relative: what torques tell only
    vaguely follows the description so much the more as it is smaller. Bodies described without mass keep
    what they have, unless torques cannot be explained so; where they cannot at all, nothing is believed of
    the described bodies."""
    p, misfit = _fitted(linear, base, solution, doubt, linear.described)
    massless = linear.described[linear.places("inertia")].reshape(-1, 10)[:, 0] <= 0
    for unknown in (massless, np.ones_like(massless)):
        if misfit > base.count and unknown.any():
            start = _unknown(linear, unknown)
            other, beside = _fitted(linear, base, solution, doubt, start)
            if beside < NEEDED * misfit:
                p, misfit = other, beside
    return p


def consistent_body(x, information, described, doubt=DOUBT):
    """(10,): parameters of one body that fit x (10,), of which `information` (10, 10) is known. described
    (10,): the body that counts where nothing is known; doubt: how far it may be off, relative."""
    own, none = np.arange(10)[None], np.zeros(0, dtype=int)
    return _Fit(described, own, none, none, (np.eye(10), x, information), doubt).not_negative()


def _unknown(linear, which):
    """The described parameters (p,), of bodies `which` (bodies,) those of some round body."""
    mass, radius = UNKNOWN
    described = linear.described.copy()
    inertias = described[linear.places("inertia")].reshape(-1, 10)
    inertias[which] = [mass, 0, 0, 0, *mass * radius**2 * np.array([1, 0, 1, 0, 0, 1])]
    return described


def _fitted(linear, base, solution, doubt, described):
    """The parameters (p,) near `described`, and how far they miss: half the sum of squares."""
    places = np.arange(len(described))
    shaped = places[linear.places("inertia")].reshape(-1, 10)
    own, joints = shaped[described[shaped][:, 0] > 0], np.setdiff1d(places, shaped)
    bounded = np.concatenate([places[linear.places(term)] for term in BOUNDED])
    known = (base.combinations, solution.x, solution.information)
    fit = _Fit(described, own, joints, bounded, known, doubt)
    p = fit.not_negative()
    misfit = fit.misfit(p)
    for _ in range(PASSES):
        if misfit <= base.count:
            break
        fit.J0 = nearby_bodies(_pseudo(p[fit.own]))
        better = fit.not_negative()
        if fit.misfit(better) > CLEARLY * misfit:
            break
        p, misfit = better, fit.misfit(better)
    return p, misfit


class _Fit:
    """The function to be minimised, of the parameters `own` of bodies (bodies, 10) and of joints. known: K, x
    and A of (K p - x)^T A (K p - x) / 2; bounded: places of what cannot be negative."""

    def __init__(self, described, own, joints, bounded, known, doubt):
        self.described, self.own, self.free = described.copy(), own, joints
        self.bounded, self.least = bounded, 1.0 / doubt**2
        self.J0 = nearby_bodies(_pseudo(self.described[own]))
        self.K, self.x, self.A = known

    def not_negative(self):
        """(p,): the minimum, where those of joints that must not be negative are not."""
        while True:
            p, negative = self._minimum()
            if not len(negative):
                return p
            self.described[negative] = 0.0
            self.free = np.setdiff1d(self.free, negative)

    def _minimum(self):
        """(p,), where parameters of joints `free` are fitted; and those of them that came out negative and
        must not."""
        free = self.free
        moving = np.concatenate([self.own.ravel(), free])
        p = self.described.copy()
        p[self.own] = np.einsum("aij,bij->ba", _dual(), self.J0)
        K = self.K[:, moving]
        quadratic = K.T @ self.A @ K
        weight = max(self.least, self.misfit(p) / max(1, moving.size))
        while True:
            self._newton(p, moving, quadratic, K, weight)
            if weight <= self.least:
                return p, free[(p[free] < 0) & np.isin(free, self.bounded)]
            weight = max(self.least, weight / FASTER)

    def _newton(self, p, moving, quadratic, K, weight):
        """The minimum for a weight of the divergence, in place."""
        count = self.own.size
        inverse0 = np.linalg.inv(self.J0)
        for _ in range(STEPS):
            inverse = np.linalg.inv(_pseudo(p[self.own]))
            H, gradient = quadratic.copy(), K.T @ (self.A @ (self.K @ p - self.x))
            gradient[:count] += weight * np.einsum("bij,aji->ba", inverse0 - inverse, _BASIS).ravel()
            turned = np.einsum("bij,ajk->baik", inverse, _BASIS)
            curvature = weight * np.einsum("baik,bcki->bac", turned, turned)
            for k, block in enumerate(curvature):
                H[10 * k : 10 * k + 10, 10 * k : 10 * k + 10] += block
            step = -_solved(H, gradient)
            decrement = -0.5 * gradient @ step
            if decrement <= weight * (DONE if weight <= self.least else NEAR * len(p)):
                return
            length = self._length(p, moving, step, gradient, weight)
            if not length:  # as far as rounding allows
                return
            p[moving] += length * step

    def _length(self, p, moving, step, gradient, weight):
        """How far to go along a step: to a body, and downhill."""
        length, before, slope = 1.0, self._cost(p, weight), gradient @ step
        while length > 1e-12:
            ahead = p.copy()
            ahead[moving] += length * step
            if self._cost(ahead, weight) <= before + 0.1 * length * slope:
                return length
            length *= 0.5
        return 0.0

    def misfit(self, p):
        off = self.K @ p - self.x
        return 0.5 * off @ self.A @ off

    def _cost(self, p, weight):
        J = _pseudo(p[self.own])
        values = np.linalg.eigvalsh(J)
        if np.any(values[:, 0] <= ROUNDING * values[:, -1]):
            return np.inf
        ratio = np.linalg.solve(self.J0, J)
        divergence = np.trace(ratio, axis1=1, axis2=2) - np.linalg.slogdet(ratio)[1] - 4.0
        return self.misfit(p) + weight * divergence.sum()


def _pseudo(parameters):
    return np.einsum("ba,aij->bij", parameters, _BASIS)


def _dual():
    """(10, 4, 4): what tells the parameters of a J, sum of all products."""
    flat = _BASIS.reshape(10, 16)
    return np.linalg.pinv(flat.T).reshape(10, 4, 4)


def _solved(H, gradient):
    """H^-1 gradient; what nothing tells of the joints stays."""
    scale = 1.0 / np.sqrt(np.maximum(np.diagonal(H), 1e-300))
    scaled = H * np.outer(scale, scale) + 1e-14 * np.eye(len(H))
    return scale * np.linalg.solve(scaled, scale * gradient)
