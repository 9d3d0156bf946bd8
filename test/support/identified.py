"""Robots that are not as described, and what they record."""

import numpy as np

from dynamics_node.algorithms import inertial_parameters
from dynamics_node.identification import USUAL, LinearModel
from dynamics_node.identification.consistent import nearby_bodies
from dynamics_node.spatial import inertia_of_pseudo, pseudo_inertia

TIME = np.arange(0.0, 12.0, 0.01)
JOINTS = (("viscous", 0.1, 1.0), ("coulomb", 0.1, 1.0), ("offset", -0.2, 0.2), ("rotor", 0.05, 0.3))


class Truth:
    """A robot whose bodies are not as described, with friction, and what it records."""

    def __init__(self, robot, seed=0, backend="numpy", terms=USUAL):
        self.robot = robot
        self.linear = LinearModel(robot, terms, backend)
        self.parameters = parameters = self.linear.described.copy()
        random = np.random.default_rng(seed)
        places, joints = self.linear.places("inertia"), len(self.linear.joints)
        L = np.linalg.cholesky(nearby_bodies(pseudo_inertia(self.robot.inertias)))
        L = L @ (np.eye(4) + 0.2 * random.normal(size=(self.robot.nbodies, 4, 4)))
        parameters[places] = inertial_parameters(inertia_of_pseudo(L @ np.swapaxes(L, 1, 2))).ravel()
        for term, low, high in JOINTS:
            if term in terms:
                parameters[self.linear.places(term)] = random.uniform(low, high, joints)

    def recording(self, seed, noise=0.05, moving=None, time=TIME):
        """{kind: (rows, ...)}: sums of sines; moving: numbers of the joints that do."""
        random = np.random.default_rng(seed)
        nv = self.robot.nv
        q, qd, qdd = np.zeros((3, len(time), nv))
        moves = np.ones(nv) if moving is None else np.isin(np.arange(nv), moving)
        for k in range(1, 6):
            w, (a, b) = 0.2 * np.pi * k, 0.5 * moves * random.normal(size=(2, nv)) / np.sqrt(k)
            s, c = np.sin(w * time)[:, None], np.cos(w * time)[:, None]
            q, qd, qdd = q + a * s + b * c, qd + w * (a * c - b * s), qdd - w * w * (a * s + b * c)
        tau = self.linear.matrix(q, qd, qdd) @ self.parameters
        tau = tau + noise * random.normal(size=tau.shape)
        return {"q": q, "qd": qd, "qdd": qdd, "tau": tau, "time": time}


def in_chunks(recording, size=700):
    def chunks():
        for start in range(0, len(recording["time"]), size):
            yield {kind: rows[start : start + size] for kind, rows in recording.items()}

    return chunks


def damaged(recording, kind, change):
    rows = recording[kind].copy()
    change(rows)
    return recording | {kind: rows}
