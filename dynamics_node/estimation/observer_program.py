"""One cycle of the external-torque observer as a Program: settings, state and outputs.

With p = M qd and dp/dt = tau + rate + tau_ext (algorithms/energy_and_momentum.py), every step of length dt
measures the external torque: y = (p - p_before) / dt - mean(tau + rate), by the trapezoidal rule. The
estimate r is the exponentially weighted mean of all y. Its weights are corrected at the start, so that it is
unbiased from the first step on; with p^ it would be r = K (p - p^) of De Luca and Mattone (2003); Haddadin,
De Luca and Albu-Schaeffer, Robot collisions (2017). Noise n of velocities and w of torques, white from sample
to sample, enters linearly, so that its covariance is exact. The newest step k contributes g M n and h w, with
a the weight of y, g = a / dt, h = a / 2; older steps contribute S,

    S' = (1 - a) S (1 - a) + alpha N alpha + eta^2 R_tau,    alpha = (1 - a) g_before - g,
    cov(r) = S' + g N g + h^2 R_tau + R_model,               eta = (1 - a) h_before + h,

where N = M R_qd M of the previous and of this step. R_model is that of a constant error. The effect of
velocity noise on `rate` is neglected: about 1e-2 N m in an arm; in a floating base mass times speed times the
noise of the turning rate, which its torque noise must include.

Contacts appear in the innovations of a Kalman filter of p without external torques, which are white without
contact. The innovations of each joint are decorrelated and averaged over several windows at once, with the
variance D of the average; sum Z^2 / D is chi-square distributed with nv degrees of freedom at every step
(MEWMA: Lowry et al. 1992).
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.contact_qp import torques_by_forces
from dynamics_node.algorithms.health import health, health_limits
from dynamics_node.algorithms.quantity_methods import generalized_momentum, jacobian, mass_matrix
from dynamics_node.algorithms.rates import rates_at
from dynamics_node.algorithms.reduced_frames import economical_program
from dynamics_node.algorithms.wheels import LEANING
from dynamics_node.robot import Robot, Shapes, state_shapes
from dynamics_node.symbolic import Program, half_solved, inverse_congruence, solve_definite, symmetric

# Of variances, (N m)^2 or N^2: above them, the wrench is unidentified
LARGEST_GROWTH, LARGEST_VARIANCE = 1e6, 1e8
_MATRICES = ("noise", "S", "P")  # symmetric matrices of ObserverState
LARGEST_FORCE = 100.0  # weights of the robot, of STANDARD_GRAVITY
STANDARD_GRAVITY = 9.81  # m/s^2
WEAKEST = 1e-12  # 1/N^2 and relative: least information of a wrench, which keeps its equations solvable


class ObserverState(NamedTuple):
    """State between steps. From the last step: p, drive = tau + rate, noise N, weight a, gain g. From the
    estimate: r, total (of the weights), S. From contact detection: p^ and its covariance P; Z, D (windows,
    nv)."""

    p: np.ndarray
    drive: np.ndarray
    noise: np.ndarray
    weight: np.ndarray
    gain: np.ndarray
    r: np.ndarray
    total: np.ndarray
    S: np.ndarray
    predicted: np.ndarray
    P: np.ndarray
    Z: np.ndarray
    D: np.ndarray

    def packed(self):
        """All arrays as one (state_size,), with the lower triangles of symmetric matrices."""
        lower = np.tril_indices(len(self.p))
        parts = {name: getattr(self, name)[lower] for name in _MATRICES}
        return np.concatenate([np.ravel(part) for part in self._replace(**parts)])


class ObserverSettings(NamedTuple):
    """Constants, (nv,) each: bandwidth, rad/s; variances of torque, (N m)^2, of one sample and of a constant
    error; drift, (N m)^2 s: its density in contact detection. lasting (1,): correlation time of velocity
    errors, s; rates (windows,): of the windows, 1/s; levels (windows,): inverse thresholds of their sums of
    squares."""

    bandwidth: np.ndarray
    torque_variance: np.ndarray
    model_variance: np.ndarray
    drift: np.ndarray
    lasting: np.ndarray
    rates: np.ndarray
    levels: np.ndarray


def begin_program(robot: Robot, windows: int, parameters=()) -> Program:
    """q, qd, tau, gravity, velocity_variance (nv,) -> state, after the first sample."""
    reads = _reads(robot)

    def function(reframed, q, qd, tau, gravity, velocity_variance):
        p, rate, M, health = _dynamics(reframed, q, qd, gravity)
        N, zero, empty = _propagated(M, velocity_variance), 0.0 * M[0], np.zeros((windows, robot.nv))
        state = ObserverState(p, tau + rate, N, zero, zero, zero, zero, 0.0 * M, p, N, empty, empty)
        return {"state": state.packed()} | health

    return economical_program(robot, reads, function, parameters, health_limits(robot))


def cycle_program(robot: Robot, windows: int, link=None, components=range(6), parameters=()) -> Program:
    """q, qd, tau, gravity, velocity_variance (nv,), dt (1,), settings, state -> state, torque (nv,),
    torque_covariance (nv, nv), statistics (windows + 1,), and for a link wrench (6,), wrench_covariance (6,
    6).

    statistics: the sums of squares divided by their levels, then the ambiguity of the wrench: the growth of
    its variances caused by separating components, and these variances, relative to their limits. components:
    of the wrench, moment first, in link axes at its origin; the others are zero.
    """
    nv = robot.nv
    reads = _reads(robot) | {
        "dt": (1,),
        "settings": (4 * nv + 1 + 2 * windows,),
        "state": (state_size(nv, windows),),
    }

    def function(reframed, q, qd, tau, gravity, velocity_variance, dt, settings, state):
        p, rate, M, health = _dynamics(reframed, q, qd, gravity)
        settings, before = _settings_of(settings, nv), _unpacked(state, nv, windows)
        now = before._replace(p=p, drive=tau + rate, noise=_propagated(M, velocity_variance))
        now, covariance = _estimated(before, now, settings, dt[0])
        now, statistics = _detected(before, now, settings, dt[0])
        outputs = {"state": now.packed(), "torque": now.r, "torque_covariance": covariance}
        ambiguity = 0.0
        if link is not None:
            J = _jacobian(reframed, q, link)[list(components)]
            outputs["wrench"], outputs["wrench_covariance"], ambiguity = _wrench(
                J, now.r, covariance, components
            )
        return outputs | {"statistics": np.append(statistics, ambiguity)} | health

    return economical_program(robot, reads, function, parameters, health_limits(robot))


def contact_cycle_program(robot: Robot, contacts, parameters=(), accelerated=False) -> Program:
    """The inputs of `cycle_program` without windows -> state, contact_forces (rows,), and their variances
    (rows,).

    The forces f meet J^T f = r best, in the metric of the covariance of r. Their standard deviation is
    LARGEST_FORCE weights before r is known, so that redundant ones have a result. accelerated: gravity is
    measured in a frame that moves with the base; the variances (3,) of its noise, in axes of the base, white
    from sample to sample, are the last settings.
    """
    nv, count = robot.nv, sum(len(contact.rows) for contact in contacts)
    sizes = {"settings": (4 * nv + 1 + 3 * accelerated,), "state": (state_size(nv, 0),)}
    reads = _reads(robot) | {"dt": (1,)} | sizes
    wheels = [LEANING] * any(contact.kind == "wheel" for contact in contacts)
    known = (LARGEST_FORCE * robot.mass * STANDARD_GRAVITY) ** -2

    def function(reframed, q, qd, tau, gravity, velocity_variance, dt, settings, state):
        p, rate, M, health = _dynamics(reframed, q, qd, gravity)
        settings, gravity_variance = settings[: 4 * nv + 1], settings[4 * nv + 1 :]
        settings, before = _settings_of(settings, nv), _unpacked(state, nv, 0)
        now = before._replace(p=p, drive=tau + rate, noise=_propagated(M, velocity_variance))
        weight = M[:, 3:6]  # gravity acts as an acceleration of the base
        noise = (weight * gravity_variance) @ weight.T if accelerated else 0.0
        now, covariance = _estimated(before, now, settings, dt[0], noise)
        explicit = rates_at(reframed, q, explicit=True)
        F, leaning = torques_by_forces(reframed, explicit, q, contacts, np.ones(len(contacts)))
        products = inverse_congruence(covariance, np.concatenate([F.T, now.r[None]]))
        information = products[:-1, :-1] + known * np.eye(count)
        right = np.concatenate([products[:-1, -1:], np.eye(count)], axis=1)
        solved = solve_definite(information, right)
        outputs = {"contact_forces": solved[:, 0], "variances": np.diag(solved[:, 1:])}
        if wheels:
            health = {"health": np.append(health.get("health", np.zeros(0)), leaning)}
        return {"state": now.packed()} | outputs | health

    return economical_program(robot, reads, function, parameters, [*health_limits(robot), *wheels])


def state_size(nv, windows):
    """Number of state variables."""
    return sum(int(np.prod(shape)) for shape in _shapes(nv, windows))


def views(state, nv, windows) -> ObserverState:
    """The parts of `state` (state_size,) as views, with the lower triangles of symmetric matrices."""
    return ObserverState(*_split(state, _shapes(nv, windows)))


# --- the robot ----------------------------------------------------------------------------------------------


def _reads(robot) -> Shapes:
    return state_shapes(robot, ("q", "qd", "tau", "gravity")) | {"velocity_variance": (robot.nv,)}


def _dynamics(robot, q, qd, gravity):
    """p, rate, M, and {health} for robots with loops."""
    rates = rates_at(robot, q, qd)
    p, rate = generalized_momentum(robot, rates, q, gravity)
    (M,) = mass_matrix(robot, rates_at(robot, q, explicit=True), q)
    return p, rate, symmetric(M), {"health": health(robot, q, rates)} if robot.constrained else {}


def _jacobian(robot, q, link):
    return jacobian(robot, rates_at(robot, q, explicit=True), q, link, "body")[0]


def _propagated(M, variance):
    return symmetric((M * variance) @ M)


# --- the estimate -------------------------------------------------------------------------------------------


def _estimated(before, now, settings, dt, noise=0.0):
    """ObserverState with its estimate, and the covariance of the estimate. noise (nv, nv): covariance of
    torques of one sample in addition to torque_variance."""
    share = _share(settings.bandwidth * dt)
    total = before.total + share * (1.0 - before.total)
    a = share / total
    measurement = (now.p - before.p) / dt - 0.5 * (now.drive + before.drive)
    keep, gain = 1.0 - a, a / dt
    alpha, eta = keep * before.gain - gain, 0.5 * (keep * before.weight + a)
    S = np.outer(keep, keep) * before.S + np.outer(alpha, alpha) * before.noise
    S = symmetric(S + np.diag(eta * eta * settings.torque_variance) + np.outer(eta, eta) * noise)
    fresh = np.diag(0.25 * a * a * settings.torque_variance + settings.model_variance)
    fresh = fresh + np.outer(0.5 * a, 0.5 * a) * noise
    covariance = symmetric(S + np.outer(gain, gain) * now.noise + fresh)
    r = before.r + a * (measurement - before.r)
    return now._replace(r=r, total=total, S=S, weight=a, gain=gain), covariance


def _share(x):
    """1 - exp(-x), with the exponential to third order: between 0 and 1 for all x > 0."""
    rise = x * (1.0 + x * (1.0 / 2 + x * (1.0 / 6)))
    return rise / (1.0 + rise)


def _detected(before, now, settings, dt):
    """ObserverState after a step of the contact filter, and the statistics."""
    predicted = before.predicted + 0.5 * dt * (now.drive + before.drive)
    P = before.P + np.diag(dt * (dt * settings.torque_variance + settings.drift))
    right = np.concatenate([(now.p - predicted)[:, None], P], axis=1)
    lasting = 2.0 * settings.lasting[0] / dt  # white noise with the same density at low frequency
    noise = (1.0 + lasting) * now.noise
    _, pivots, half = half_solved(P + noise, right)
    pivots = np.array(pivots, dtype=object)
    innovations, gains = half[:, 0], half[:, 1:]
    scaled = gains * (1.0 / pivots)[:, None]
    share = _share(settings.rates * dt)[:, None]
    Z = before.Z + share * (innovations - before.Z)
    D = (1.0 - share) * ((1.0 - share) * before.D) + share * share * pivots
    now = now._replace(
        predicted=predicted + scaled.T @ innovations, P=symmetric(P - gains.T @ scaled), Z=Z, D=D
    )
    return now, settings.levels * (Z * Z / D).sum(axis=1)


def _wrench(J, r, covariance, components):
    """Weighted least squares of J^T w = r: w, its covariance, and its ambiguity."""
    products = inverse_congruence(covariance, np.concatenate([J, r[None]]))
    known = np.array(products[:-1, :-1])
    size = np.diag(known).copy()
    known[np.diag_indices(len(known))] = size * (1.0 + WEAKEST) + WEAKEST
    inverse = symmetric(solve_definite(known, np.eye(len(known))))
    wrench, spread = np.zeros(6, dtype=object), np.zeros((6, 6), dtype=object)
    wrench[list(components)] = inverse @ products[-1, :-1]
    spread[np.ix_(components, components)] = inverse
    variances = np.diag(inverse)
    return (
        wrench,
        spread,
        variances @ size * (1.0 / LARGEST_GROWTH) + variances.sum() * (1.0 / LARGEST_VARIANCE),
    )


# --- numbers in a row ---------------------------------------------------------------------------------------


def _shapes(nv, windows):
    """Shapes of the parts of ObserverState, with triangles of matrices as vectors."""
    vector, triangle = (nv,), (nv * (nv + 1) // 2,)
    shapes = {name: triangle if name in _MATRICES else vector for name in ObserverState._fields}
    return list((shapes | dict.fromkeys(("Z", "D"), (windows, nv))).values())


def _split(numbers, shapes):
    sizes = [int(np.prod(shape)) for shape in shapes]
    parts = np.split(numbers, np.cumsum(sizes)[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def _settings_of(numbers, nv):
    windows = ((len(numbers) - 4 * nv - 1) // 2,)
    return ObserverSettings(*_split(numbers, [(nv,)] * 4 + [(1,), windows, windows]))


def _unpacked(numbers, nv, windows):
    parts = views(numbers, nv, windows)
    return parts._replace(**{name: _full(getattr(parts, name), nv) for name in _MATRICES})


def _full(triangle, nv):
    matrix = np.zeros((nv, nv), dtype=object)
    rows, columns = np.tril_indices(nv)
    matrix[rows, columns] = matrix[columns, rows] = triangle
    return matrix
