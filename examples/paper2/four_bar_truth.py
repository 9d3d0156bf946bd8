"""The paper's four-bar by dense algebra, as reference of its trajectories.

Natural coordinates (x1, y1, x2, y2) of P1 and P2, in which a rod has a constant mass matrix; accelerations
from [M K^T; K 0] [qdd; -forces] = [Q; -dK/dt qd], integrated by SciPy's DOP853.
"""

import numpy as np

A, D = np.array([0.0, 0.0]), np.array([4.0, 0.0])
LENGTHS, MASSES = (1.0, 2.0, 13.0**0.5), (1.0, 2.0, 4.0)
GRAVITY = np.array([0.0, -9.8])
START = np.array([1.0, 0.0, 1.0, 2.0])
RTOL, ATOL = 1e-12, 1e-13


def mass_and_weight():
    """M (4, 4) and Q (4,) of rods A P1, P1 P2 and P2 D: m/3 at their ends, m/6 between them."""
    crank, coupler, rocker = MASSES
    M = np.array([[crank + coupler, coupler / 2], [coupler / 2, coupler + rocker]]) / 3
    return np.kron(M, np.eye(2)), np.concatenate(
        [0.5 * (crank + coupler) * GRAVITY, 0.5 * (coupler + rocker) * GRAVITY]
    )


M, Q = mass_and_weight()


def _rods(q):
    """(3, 4): K of half the squared lengths."""
    P1, P2 = q[:2], q[2:]
    zero = np.zeros(2)
    return np.array([[*(P1 - A), *zero], [*(P1 - P2), *(P2 - P1)], [*zero, *(P2 - D)]])


def _turning(q):
    """(4,): generalized force of a unit torque at the crank."""
    return np.array([-q[1], q[0], 0.0, 0.0]) / LENGTHS[0] ** 2


def acceleration(q, qd, torque=0.0):
    """qdd (4,)."""
    K = _rods(q)
    system = np.block([[M, K.T], [K, np.zeros((3, 3))]])
    known = np.concatenate([Q + torque * _turning(q), -_rods_rate(qd) @ qd])
    return np.linalg.solve(system, known)[:4]


def _rods_rate(qd):
    """dK/dt (3, 4), linear in qd: K without its constant terms."""
    v1, v2 = qd[:2], qd[2:]
    zero = np.zeros(2)
    return np.array([[*v1, *zero], [*(v1 - v2), *(v2 - v1)], [*zero, *v2]])


def free_motion(time):
    """q, qd (count, 4) of the mechanism that falls from rest at START."""
    from scipy.integrate import solve_ivp

    def rate(t, x):
        return np.concatenate([x[4:], acceleration(x[:4], x[4:])])

    start = np.concatenate([START, np.zeros(4)])
    solution = solve_ivp(rate, (time[0], time[-1]), start, "DOP853", time, rtol=RTOL, atol=ATOL)
    return solution.y[:4].T, solution.y[4:].T


def crank_torque(q, qd, theta_acceleration):
    """Torque at the crank, N m, for a given acceleration, at closed q, qd (4,)."""
    K = _rods(q)
    row = _turning(q)  # of theta: its acceleration is row @ qdd; the centripetal part is radial
    system = np.block(
        [
            [M, K.T, -row[:, None]],
            [K, np.zeros((3, 4))],
            [row[None], np.zeros((1, 4))],
        ]
    )
    known = np.concatenate([Q, -_rods_rate(qd) @ qd, [theta_acceleration]])
    return float(np.linalg.solve(system, known)[-1])
