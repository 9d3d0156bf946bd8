"""Reference motions: the four-bar of paper 2 from its energy as a function of the crank angle, robots by
implicit rules."""

import numpy as np

import dynamics_node as dn

END = np.array([4.0, 0.0])  # of the rocker, on the ground
GRAVITY = 9.8
MASSES = (1.0, 2.0, 4.0)  # kg, of thin rods: crank, coupler, rocker


def positions(z):
    """P1, P2 (2,) at the angle z."""
    P1 = np.array([np.cos(z), np.sin(z)])
    gap = END - P1
    square = gap @ gap
    along = (square - 9.0) / (2 * square)
    return P1, P1 + along * gap + np.sqrt(4.0 / square - along * along) * _across(gap)


def rates(z):
    """dP1/dz, dP2/dz, and their derivatives by z."""
    P1, P2 = positions(z)
    K = np.array([P2 - P1, P2 - END])
    a, da = _across(P1), -P1
    b = np.linalg.solve(K, [K[0] @ a, 0.0])
    db = np.linalg.solve(K, [K[0] @ da - (b - a) @ (b - a), -b @ b])
    return a, b, da, db


def torque(z, zd, zdd):
    """N m at the crank: M zdd + 1/2 dM/dz zd^2 + dV/dz."""
    M, half, weight = _energy(z)
    return M * zdd + half * zd * zd + weight


def fall(duration, start=0.0):
    """t -> z, zd (2, ...) of the four-bar after release at rest, by DOP853."""
    from scipy.integrate import solve_ivp

    def rate(_, state):
        M, half, weight = _energy(state[0])
        return [state[1], -(half * state[1] ** 2 + weight) / M]

    options = {"method": "DOP853", "rtol": 1e-12, "atol": 1e-12, "dense_output": True}
    return solve_ivp(rate, (0.0, duration), [start, 0.0], **options).sol


def natural(z, zd):
    """x and y of P1 and P2 (count, 4) and their rates; z, zd (count,)."""
    q = [np.concatenate(positions(one)) for one in z]
    return np.array(q), np.array([w * np.concatenate(rates(one)[:2]) for one, w in zip(z, zd, strict=True)])


def trapezoids(robot, q, dt, count):
    """Positions (count, nq) of a robot after release at rest, by the trapezoidal rule over our forward
    dynamics.

    Iteration solves the implicit equations; loops are closed at every step.
    """
    forward = dn.build(robot, "forward_dynamics")
    loops = robot.constrained
    own = robot.independent if loops else np.arange(robot.nv)
    tau, qd, positions_of_steps = np.zeros(robot.nv), np.zeros(robot.nv), [q]
    qdd = forward(q, qd, tau)
    for _ in range(count - 1):
        target, rate, change = q.copy(), qd, qdd
        for _ in range(50):
            before, rate = rate, qd + 0.5 * dt * (qdd + change)
            target[own] = q[own] + 0.5 * dt * (qd + rate)
            target = dn.close_loops(robot, target) if loops else target
            change = forward(target, rate, tau)
            if np.abs(rate - before).max() < 1e-13:
                break
        q, qd, qdd = target, rate, change
        positions_of_steps.append(q)
    return np.array(positions_of_steps)


def _energy(z):
    """The effective mass at the crank, half its derivative by z, and the derivative of the potential."""
    a, b, da, db = rates(z)
    still = np.zeros(2)
    M = half = weight = 0.0
    for mass, u, v, du, dv in zip(
        MASSES, (still, a, b), (a, b, still), (still, da, db), (da, db, still), strict=True
    ):
        M += mass / 3 * (u @ u + u @ v + v @ v)
        half += mass / 6 * (2 * u @ du + du @ v + u @ dv + 2 * v @ dv)
        weight += mass * GRAVITY * 0.5 * (u[1] + v[1])
    return M, half, weight


def _across(d):
    return np.array([-d[1], d[0]])
