"""Placements of every body in its parent, R and t, as the elements of scans.

A motion vector V = (w; v) of the parent is seen from the body as Ad V with w' = R^T w, v' = R^T (v - t x
w); a wrench F = (n; f) on the body is seen from the parent as Ad^T F. Twelve numbers instead of the 36 of
Ad, and a product costs 36 multiplications instead of 216 (Yang, Wu, Pan, sec. III; RBDA 2.24).
"""

from typing import Any, NamedTuple

from dynamics_node.symbolic import matvec, skew


class Poses(NamedTuple):
    """R (..., n, 3, 3) from body axes to the parent's, t (..., n, 3) the body's origin in the parent; xp: the
    array module."""

    xp: Any
    R: Any
    t: Any

    def at(self, bodies):
        """Those of some bodies, a slice or numbers."""
        return Poses(self.xp, self.R[..., bodies, :, :], self.t[..., bodies, :])

    def after(self, before):
        """Placements in the grandparent, `before` being those of the parents: Ad Ad_before."""
        return Poses(self.xp, before.R @ self.R, before.t + matvec(before.R, self.t))

    def forward(self, V):
        """Ad V: motion vectors (..., n, 6) of the parents, seen from the bodies."""
        w, v = V[..., :3], V[..., 3:]
        back = self.xp.swapaxes(self.R, -1, -2)
        slid = v - cross(self.xp, self.t, w)
        return self.xp.concatenate([matvec(back, w), matvec(back, slid)], axis=-1)

    def backward(self, F):
        """Ad^T F: wrenches (..., n, 6) on the bodies, seen from the parents."""
        f = matvec(self.R, F[..., 3:])
        n = matvec(self.R, F[..., :3]) + cross(self.xp, self.t, f)
        return self.xp.concatenate([n, f], axis=-1)

    def matrices(self):
        """Ad (..., n, 6, 6)."""
        xp, E = self.xp, self.xp.swapaxes(self.R, -1, -2)
        top = xp.concatenate([E, xp.zeros_like(E)], axis=-1)
        return xp.concatenate([top, xp.concatenate([-E @ skew(self.t, xp), E], axis=-1)], axis=-2)


class Matrices(NamedTuple):
    """General elements X (..., n, k, k): those of articulated bodies."""

    xp: Any
    X: Any

    def at(self, bodies):
        return Matrices(self.xp, self.X[..., bodies, :, :])

    def after(self, before):
        return Matrices(self.xp, self.X @ before.X)

    def forward(self, x):
        return matvec(self.X, x)

    def backward(self, x):
        return matvec(self.xp.swapaxes(self.X, -1, -2), x)


class Same(NamedTuple):
    """Elements that change nothing: scans with them are sums along the tree."""

    xp: Any

    def at(self, bodies):
        return self

    def after(self, before):
        return self

    def forward(self, x):
        return x.copy()  # what is added to must not be what is read

    def backward(self, x):
        return x.copy()


def cross(xp, a, b):
    """a x b of (..., 3)."""
    (ax, ay, az), (bx, by, bz) = (tuple(v[..., k] for k in range(3)) for v in (a, b))
    return xp.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], axis=-1)
