"""Between the independent joints and all joints of the tree: qd = G yd, qdd = G ydd + g, and G^T back (paper
3, sec. III). Of a tree G is the identity, and nothing is multiplied."""

from typing import Any

import numpy as np

from dynamics_node.symbolic import matvec, symmetric, transpose


class Projection:
    """By a matrix G (..., nv of the tree, nv)."""

    G: Any

    def independent(self, tau):
        """Torques (..., nv of the tree) of all joints -> those (..., nv) that act at the independent ones."""
        return matvec(transpose(self.G), tau)

    def rows(self, matrix):
        """Rows of the joints of the tree -> rows of the independent ones."""
        return transpose(self.G) @ matrix

    def columns(self, matrix):
        """Columns of the joints of the tree -> columns of the independent ones."""
        return matrix @ self.G

    def congruence(self, matrix):
        """G^T M G of a symmetric matrix."""
        return symmetric(self.columns(self.rows(matrix)))

    def squares(self, sizes):
        """Sums of sizes (..., nv of the tree), weighted with the squares of G: (..., nv)."""
        return matvec(transpose(self.G * self.G), sizes)


class Identity(Projection):
    """Of a tree: its joints are the independent ones. qd (..., nv): as they are."""

    condition = 1.0

    def __init__(self, nv, qd=None):
        self.G, self.qd = np.eye(nv), qd

    def accelerations(self, qdd):
        """qdd (..., nv)."""
        return qdd

    def turning(self, p):
        """dG/dt is zero."""
        return 0.0

    def along_change(self, matrix):
        """dG/dt is zero."""
        return 0.0

    def back_along_change(self, matrix):
        """dG/dt is zero."""
        return 0.0

    def _same(self, array):
        return array

    independent = rows = columns = congruence = squares = _same
