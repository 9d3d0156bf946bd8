"""Motions with contacts, by Runge-Kutta steps in the coordinates of positions."""

import numpy as np

from dynamics_node.robot.state_arrays import tangent_map


def rolled(robot, forward, q, qd, tau, active, duration=1.0, steps=1000):
    """q, qd after the duration, at constant torques; forward: forward dynamics with contacts."""
    dt, n = duration / steps, robot.nq
    places = list(robot.quaternion_places)

    def rates(x):
        qdd, _ = forward(x[:n], x[n:], tau, active)
        return np.concatenate([tangent_map(robot, x[:n]) @ x[n:], qdd])

    def unit(x):
        for at in places:
            x[at : at + 4] /= np.linalg.norm(x[at : at + 4])
        return x

    x = np.concatenate([q, qd])
    for _ in range(steps):
        k = [rates(x)]
        for part in (0.5, 0.5, 1.0):
            k.append(rates(unit(x + part * dt * k[-1])))
        x = unit(x + dt / 6.0 * (k[0] + 2 * k[1] + 2 * k[2] + k[3]))
    return x[:n], x[n:]
