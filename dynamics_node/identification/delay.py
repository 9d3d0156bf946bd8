"""Whether torques come later than positions: a delay of all joints, from how the torques that fit change."""

import numpy as np

from dynamics_node.identification.base_parameters import BaseParameters
from dynamics_node.identification.linear import LinearModel
from dynamics_node.identification.solve import told_inverse

ENOUGH = 20  # rows of a stretch
LATE = 0.003  # s of a delay that counts
CERTAIN = 6.0  # standard deviations
WORTH = 0.03  # of squared residuals that a delay has to explain
FAR = 0.05  # s in one step at most
ROUNDS = 3
LEAST = 1e-9  # of a torque: a residual that is not larger counts as that


def about_delay(linear: LinearModel, base: BaseParameters, stretches):
    """Sentences about stretches of rows in a row {kind: (n, ...)}, those without times left out.

    Torques are fitted, and what is left of them to the rate at which the fitted ones change, on trial."""
    stretches = [own for own in stretches if "time" in own and len(own["time"]) > ENOUGH]
    if not stretches:
        return []
    Ws = [base.reduced(linear.matrix(own["q"], own["qd"], own["qdd"])) for own in stretches]
    taus = [own["tau"] - linear.known(own["q"], own["qd"], own["qdd"]) for own in stretches]
    size = np.concatenate(taus).std(axis=0)
    spread, late = np.maximum(size, LEAST * max(1.0, size.max())), 0.0
    for _ in range(ROUNDS):
        parts = [_shifted(W, tau, own["time"], late) for W, tau, own in zip(Ws, taus, stretches, strict=True)]
        W, tau = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        x, left = _solved(W, tau, spread)
        spread = np.maximum(np.sqrt(np.mean(left**2, axis=0)), LEAST * spread)
        falling = [
            -np.gradient(part[0] @ x, own["time"], axis=0) for part, own in zip(parts, stretches, strict=True)
        ]
        more, certain, worth = _lateness(W, left, np.concatenate(falling), spread)
        if not late and (abs(more) < CERTAIN * certain or worth < WORTH):
            return []
        late += float(np.clip(more, -FAR, FAR))
    if abs(late) < LATE:
        return []
    return [f"torques are {1e3 * abs(late):.0f} ms {'behind' if late > 0 else 'ahead of'} the positions"]


def _shifted(W, tau, time, late):
    """The regressor of a time `late` before each torque."""
    if not late:
        return W, tau
    at = np.clip(np.interp(time - late, time, np.arange(len(time))), 0, len(time) - 1)
    low = np.minimum(at.astype(int), len(time) - 2)
    share = (at - low)[:, None, None]
    return (1.0 - share) * W[low] + share * W[low + 1], tau


def _solved(W, tau, spread):
    A, b = (W / spread[:, None]).reshape(-1, W.shape[-1]), (tau / spread).ravel()
    x = told_inverse(A.T @ A) @ (A.T @ b)
    return x, tau - W @ x


def _lateness(W, left, falling, spread):
    """s, its standard deviation, and the share of what is left that it explains."""
    A = (W / spread[:, None]).reshape(-1, W.shape[-1])
    b, d = ((rows / spread).ravel() for rows in (left, falling))
    d = d - A @ (told_inverse(A.T @ A) @ (A.T @ d))
    size = max(float(d @ d), 1e-300)
    late = float(d @ b) / size
    rest = float(np.sum((b - late * d) ** 2))
    return late, np.sqrt(rest / len(b) / size), late**2 * size / max(float(b @ b), 1e-300)
