"""Recordings of a Panda with and without a payload on its hand; torques by Pinocchio."""

import numpy as np
from environments import COM as PLACE
from environments import HAND, MASS, MOMENTS, load
from oracle import Oracle
from robots import ROBOTS

COM = np.array(PLACE)
REST = np.array([0.3, -0.6, 0.2, -2.0, 0.1, 1.6, 0.7])
OFFSET = np.array([0.4, -0.8, 0.5, 0.3, -0.2, 0.1, 0.2])  # N m, not in the description
COULOMB = np.array([0.8, 0.7, 0.6, 0.5, 0.3, 0.2, 0.2])
TRUTH = {"mass": MASS, "com": COM, "inertia": MOMENTS}
TIME = np.arange(0.0, 8.0, 0.02)


def parameters():
    """(10,) of the payload, about the origin of the hand."""
    c = COM
    moments = MOMENTS + MASS * (c @ c * np.eye(3) - np.outer(c, c))
    return np.array([MASS, *(MASS * c), *moments[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]])


def motion(seed, moving=range(7), time=TIME):
    """q, qd, qdd (k, 7): sums of sines in the joints `moving`; the others rest."""
    random, moves = np.random.default_rng(seed), np.isin(np.arange(7), list(moving))
    q, qd, qdd = np.zeros((3, len(time), 7))
    for k in range(1, 6):
        w, (a, b) = 0.25 * np.pi * k, 0.35 * moves * random.normal(size=(2, 7)) / np.sqrt(k)
        s, c = np.sin(w * time)[:, None], np.cos(w * time)[:, None]
        q, qd, qdd = q + a * s + b * c, qd + w * (a * c - b * s), qdd - w * w * (a * s + b * c)
    return REST + q, qd, qdd


def torques(q, qd, qdd, payload=True):
    """(k, 7) by Pinocchio, without friction; payload: with the payload on the hand."""
    oracle = Oracle(ROBOTS["panda7"], ROBOTS["panda7"].model())
    if payload:
        load(oracle, HAND)
    return np.array([oracle.inverse(*state) for state in zip(q, qd, qdd, strict=True)])


def rubbing(qd):
    """Torque offsets and Coulomb friction."""
    return OFFSET + COULOMB * np.tanh(qd / 0.01)


def recording(q, qd, qdd, tau, time=TIME):
    """A recording of one chunk, in the form that `identify` reads."""
    return lambda: iter([{"q": q, "qd": qd, "qdd": qdd, "tau": tau, "time": time[: len(q)]}])
