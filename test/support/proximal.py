"""Accelerations at singular positions by proximal steps (the method of multipliers) in extended precision.

Mass matrix, torques and constraints are Pinocchio's. No rank is decided: multipliers of dependent constraints are
never unique, and accelerations converge nevertheless.
"""

import numpy as np

LONG = np.longdouble
MU = LONG(1e-5)
STEPS = 20


def cholesky(A):
    """L of A = L L^T, for a definite A (n, n) in extended precision, which LAPACK lacks."""
    L = np.zeros_like(A)
    for j in range(len(A)):
        L[j:, j] = A[j:, j] - L[j:, :j] @ L[j, :j]
        L[j:, j] /= np.sqrt(L[j, j])
    return L


def solve(L, b):
    """x of L L^T x = b."""
    y, x = np.array(b), np.zeros_like(b)
    for j in range(len(b)):
        y[j] = (y[j] - L[j, :j] @ y[:j]) / L[j, j]
    for j in reversed(range(len(b))):
        x[j] = (y[j] - L[j + 1 :, j] @ x[j + 1 :]) / L[j, j]
    return x


def least(M, c, A, b):
    """(x, multipliers): x minimizes 1/2 x^T M x + c^T x subject to A x = b, and M x + c = A^T multipliers."""
    M, c, A, b = (np.asarray(array, dtype=LONG) for array in (M, c, A, b))
    multipliers = np.zeros(len(b), dtype=LONG)
    augmented = cholesky(M + A.T @ A / MU)
    for _ in range(STEPS):
        x = solve(augmented, A.T @ (multipliers + b / MU) - c)
        multipliers = multipliers + (b - A @ x) / MU
    return x, multipliers


class Proximal:
    """A state of a LoopOracle. q (nq,), in our coordinates; all else in those of Pinocchio."""

    def __init__(self, oracle, q, f_ext=None):
        self.oracle, self.q, self.f_ext, self.n = oracle, q, f_ext, oracle.pin.nv
        self.own = np.eye(self.n)[oracle.own]
        self.M = oracle.mass_matrix_of_all(q)
        self.K = oracle.rows(q, np.zeros(self.n))[0]

    def rates(self, qd):
        """Rates of all joints with the least kinetic energy."""
        A, b = np.vstack([self.K, self.own]), np.concatenate([np.zeros(len(self.K)), qd])
        return least(self.M, np.zeros(self.n), A, b)[0].astype(float)

    def accelerations(self, rates, forward, qdd, tau):
        """Accelerations of all joints and torques of the independent ones, with those of `forward` known."""
        known = self.own[~forward]
        A = np.vstack([self.K, known])
        b = np.concatenate([self.oracle.rows(self.q, rates)[1], qdd[~forward]])
        c = (
            self.oracle.torques_of_all(self.q, rates, np.zeros(self.n), self.f_ext)
            - self.own[forward].T @ tau[forward]
        )
        a, multipliers = least(self.M, c, A, b)
        torques = np.array(tau, dtype=float)
        torques[~forward] = multipliers[len(self.K) :]
        return a.astype(float), torques
