"""Some rows of as many as come."""

import numpy as np

MOST = 4000


class Thinned:
    """Every n-th row, n doubling when there are more than `most`: at least a half of it is kept. every: n."""

    def __init__(self, most=MOST):
        self._kept: list[np.ndarray] = []
        self._most, self._seen, self.every = most, 0, 1

    def add(self, rows):
        """rows (k, width)"""
        self._kept += [row.copy() for row in rows[-self._seen % self.every :: self.every]]
        self._seen += len(rows)
        while len(self._kept) > self._most:
            self._kept, self.every = self._kept[::2], 2 * self.every

    def rows(self, width):
        """(kept, width)"""
        return np.array(self._kept).reshape(-1, width)
