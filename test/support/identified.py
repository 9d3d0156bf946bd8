"""Robots with parameters other than described, and their recordings."""

import numpy as np

from dynamics_node.algorithms import inertial_parameters
from dynamics_node.identification import USUAL, RegressorModel
from dynamics_node.identification.consistent import nearby_bodies
from dynamics_node.symbolic import inertia_of_pseudo, pseudo_inertia

TIME = np.arange(0.0, 12.0, 0.01)
JOINTS = (("viscous", 0.1, 1.0), ("coulomb", 0.1, 1.0), ("offset", -0.2, 0.2), ("rotor", 0.05, 0.3))


class Truth:
    """A robot whose bodies differ from the description, with friction, and its recordings."""

    def __init__(self, robot, seed=0, backend="numpy", terms=USUAL):
        self.robot = robot
        self.linear = RegressorModel(robot, terms, backend)
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
        """{kind: (rows, ...)}: sums of sines; moving: indices of the moving joints, default all."""
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


def torque_rmse(truth, parameters, recording):
    """RMS of torque errors, per joint."""
    W = truth.linear.matrix(*(recording[kind] for kind in ("q", "qd", "qdd")))
    return np.sqrt(np.mean((W @ parameters - recording["tau"]) ** 2, axis=0))


def in_chunks(recording, size=700):
    def chunks():
        for start in range(0, len(recording["time"]), size):
            yield {kind: rows[start : start + size] for kind, rows in recording.items()}

    return chunks


def damaged(recording, kind, change):
    rows = recording[kind].copy()
    change(rows)
    return recording | {kind: rows}


def as_measured(truth, recording, seed=0, noise=0.3, lasts=0.3):
    """A recording with the errors of real ones: noise with a correlation time of `lasts` (s), and friction with presliding,
    Stribeck effect and load dependence."""
    time, qd, tau = (recording[kind] for kind in ("time", "qd", "tau"))
    step = np.median(np.diff(time))
    last, white = (
        np.exp(-step / lasts),
        np.random.default_rng(seed).normal(size=(300 + len(time), qd.shape[1])),
    )
    colored, sticks = np.zeros_like(white), np.zeros_like(qd)
    for k in range(1, len(white)):
        colored[k] = last * colored[k - 1] + np.sqrt(1.0 - last**2) * white[k]
    for k in range(1, len(qd)):
        way = np.abs(qd[k]) * step / 0.05
        sticks[k] = np.clip(sticks[k - 1] + way * (np.tanh(qd[k] / 0.01) - sticks[k - 1]), -1.0, 1.0)
    sign = np.tanh(qd / 0.01)
    rubs = 0.6 * (sticks - sign) + 0.6 * np.exp(-((qd / 0.15) ** 2)) * sign + 0.03 * np.abs(tau) * sign
    return recording | {"tau": tau + rubs + noise * colored[300:]}
