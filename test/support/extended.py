"""Forward dynamics with contacts in extended precision: Gauss' principle by singular values, from Programs that are
interpreted with numpy.longdouble, and one-sided Jacobi rotations."""

from functools import cached_property

import numpy as np

import dynamics_node as dn
from dynamics_node.symbolic import cross_motion, interpret, rpy_rotation, skew

LONG = np.longdouble


def singular_values(H):
    """U, s, V of H (m, n) = U s V^T, by Jacobi rotations of the rows: small ones are as accurate as large ones."""
    W, U = np.array(H, dtype=LONG), np.eye(len(H), dtype=LONG)
    for _ in range(60):
        turned = False
        for i in range(len(W)):
            for j in range(i + 1, len(W)):
                a, b, c = W[i] @ W[i], W[j] @ W[j], W[i] @ W[j]
                if abs(c) <= 4 * np.finfo(LONG).eps * np.sqrt(a * b):
                    continue
                turned = True
                t = 2 * c / (a - b + np.copysign(np.hypot(a - b, 2 * c), a - b))
                cos = 1 / np.sqrt(1 + t * t)
                for X in (W, U):
                    X[i], X[j] = cos * (X[i] + t * X[j]), cos * (X[j] - t * X[i])
        if not turned:
            break
    else:
        raise AssertionError("no convergence")
    sizes = np.sqrt((W * W).sum(axis=1))
    return U.T, sizes, (W / np.where(sizes > 0, sizes, 1)[:, None]).T


def cholesky(M):
    L = np.zeros_like(M)
    for k in range(len(M)):
        L[k, k] = np.sqrt(M[k, k] - L[k, :k] @ L[k, :k])
        L[k + 1 :, k] = (M[k + 1 :, k] - L[k + 1 :, :k] @ L[k, :k]) / L[k, k]
    return L


def forward_solved(L, b):
    x = np.array(b, dtype=LONG)
    for k in range(len(L)):
        x[k] = (x[k] - L[k, :k] @ x[:k]) / L[k, k]
    return x


def backward_solved(L, b):
    return forward_solved(L[::-1, ::-1].T, b[::-1])[::-1]


class Extended:
    """A robot with points and surfaces as contacts."""

    def __init__(self, robot, contacts, units):
        self.robot, self.contacts, self.units = robot, contacts, units

    @cached_property
    def _programs(self):
        links = sorted({link for c in self.contacts for link in (c.link, c.other) if link})
        names = ("frame_pose", "frame_jacobian", "frame_jacobian_bias")
        programs = {(n, link): self._program(n, link=link) for n in names for link in links}
        return programs | {(n, ""): self._program(n) for n in ("mass_matrix", "inverse_dynamics")}

    def _program(self, name, **options):
        return dn.build(self.robot, name, backend="numpy", **options).program

    def of(self, name, link, state):
        program = self._programs[name, link]
        inputs = {key: np.asarray(state[key], dtype=LONG) for key in program.inputs}
        found = list(interpret(program, **inputs).values())
        found = found[:-1] if program.limits else found
        assert all(array.dtype == LONG for array in found)
        return found[0] if len(found) == 1 else found

    def forward(self, q, qd, tau, on, accelerations, rank):
        """qdd, forces (rows,) in the axes of the contacts, and singular values relative to the size of H; on, accelerations
        (rows,)."""
        state = {"q": q, "qd": qd, "qdd": np.zeros_like(qd), "gravity": self.robot.gravity}
        M, h = self.of("mass_matrix", "", state), self.of("inverse_dynamics", "", state)
        J, b = (np.concatenate(x) for x in zip(*(self._rows(c, state) for c in self.contacts), strict=True))
        L, scale = cholesky(M), self.units * on
        H = np.stack([forward_solved(L, row) for row in scale[:, None] * J])
        free = backward_solved(L, forward_solved(L, tau - h))
        U, sizes, V = singular_values(H)
        size = np.sqrt((H * H).sum())
        kept = sizes > rank * size
        U, V, kept_sizes = U[:, kept], V[:, kept], sizes[kept]
        pushed = (U.T @ (scale * (J @ free + b - accelerations))) / kept_sizes
        return free - backward_solved(L, V @ pushed), -scale * (U @ (pushed / kept_sizes)), sizes / size

    def _rows(self, contact, state):
        R, p, J, b = self._point(contact.link, contact.xyz, state)
        if contact.kind == "surface":
            axes = R @ rpy_rotation(contact.rpy)
        else:
            z = np.array(contact.normal)
            x = np.eye(3)[np.argmin(np.round(np.abs(z), 6))]
            x = x - (x @ z) * z
            x /= np.linalg.norm(x)
            axes = np.stack([x, np.cross(z, x), z], axis=1)
            axes = self._point(contact.other, np.zeros(3), state)[0] @ axes if contact.other else axes
        if contact.other:
            other, origin, *_ = self._point(contact.other, np.zeros(3), state)
            _, _, J_other, b_other = self._point(contact.other, other.T @ (p - origin), state)
            qd = state["qd"]
            J, b = J - J_other, b - b_other + cross_motion(J @ qd, J_other @ qd)
        turn = np.kron(np.eye(2), axes.T)
        return (turn @ J)[-len(contact.rows) :], (turn @ b)[-len(contact.rows) :]

    def _point(self, link, xyz, state):
        R, p = self.of("frame_pose", link, state)
        J, b = self.of("frame_jacobian", link, state), self.of("frame_jacobian_bias", link, state)
        x, (w, v) = R @ xyz, np.split(J @ state["qd"], 2)
        b = np.concatenate([b[:3], b[3:] - np.cross(w, v) + np.cross(b[:3], x)])
        return R, p + x, np.concatenate([J[:3], J[3:] - skew(x) @ J[:3]]), b
