"""Planar mechanisms of test/support/trajectory_cases.py by Lagrange's equations in their independent coordinates
alone: positions in closed form, rigid bodies by their centers of mass."""

import numpy as np

STEP, FINE = 1e-3, 1e-30


def unit(theta):
    return np.array([np.cos(theta), np.sin(theta)])


def four_bar_position(z):
    P1, D = unit(z[0]), np.array([4.0, 0.0])
    gap = D - P1
    square = gap @ gap
    along = (4.0 - 13.0 + square) / (2 * square)
    across = np.sqrt(4.0 / square - along * along)
    P2 = P1 + along * gap + across * np.array([-gap[1], gap[0]])
    return np.concatenate([P1, P2, z])


def slides_position(z):
    """z: the crank's angle, x of S."""
    P, S = 0.7 * unit(z[0]), np.array([z[1], 1.0 + 0.0 * z[1]])
    d = P - S
    return np.concatenate([P, S, S + 2.5 * d / np.sqrt(d @ d), z[:1]])


def across(d):
    return np.array([-d[1], d[0]])


def four_bar_bodies(q):
    """(mass, inertia, center of mass, direction) of every body."""
    A, D, P1, P2 = np.zeros(2), np.array([4.0, 0.0]), q[0:2], q[2:4]
    rods = ((1.0, 1.0, A, P1), (2.0, 2.0, P1, P2), (4.0, np.sqrt(13.0), P2, D))
    return [(m, m * L**2 / 12, (a + b) / 2, (b - a) / L) for m, L, a, b in rods]


def slides_bodies(q):
    P, S, E = q[0:2], q[2:4], q[4:6]
    x, y = P / 0.7, across(P / 0.7)
    rod = (0.9, 0.9 * 2.5**2 / 12, (S + E) / 2, (E - S) / 2.5)
    return [(1.3, 0.2, 0.3 * x + 0.1 * y, x), rod, (0.4, 0.0, S, x)]


KNOWN = {
    "paper": (four_bar_position, four_bar_bodies, np.array([0.0, -9.8])),
    "slides": (slides_position, slides_bodies, np.array([0.3, -9.81])),
}


def inertia_and_potential(name, z):
    """The mass matrix and the gradient of the potential, by complex steps."""
    position, bodies, gravity = KNOWN[name]
    n = len(z)
    moved = [bodies(position(z + 1j * FINE * e)) for e in np.eye(n)]
    M, gradient = np.zeros((n, n)), np.zeros(n)
    for k, (mass, inertia, _, direction) in enumerate(bodies(position(z))):
        velocity = np.array([own[k][2].imag / FINE for own in moved])
        turning = np.array([across(direction) @ own[k][3].imag / FINE for own in moved])
        M += mass * velocity @ velocity.T + inertia * np.outer(turning, turning)
        gradient -= mass * velocity @ gravity
    return M, gradient


def forward(name, z, zd, tau):
    """zdd of M zdd + dM/dt zd - 1/2 d(zd M zd)/dz + dV/dz = tau; five-point derivatives of M."""
    M, gradient = inertia_and_potential(name, z)
    by = [_derivative(lambda s, e=e: inertia_and_potential(name, z + s * e)[0]) for e in np.eye(len(z))]
    change = sum(rate * dM for rate, dM in zip(zd, by, strict=True))
    return np.linalg.solve(M, tau - gradient - change @ zd + 0.5 * np.array([zd @ dM @ zd for dM in by]))


def _derivative(f):
    h = STEP
    return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)
