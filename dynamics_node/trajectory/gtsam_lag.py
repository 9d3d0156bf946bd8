"""A trajectory as it comes, by GTSAM: a fixed-lag smoother, and ISAM2."""

from abc import ABC, abstractmethod

import numpy as np

from dynamics_node.codegen import make
from dynamics_node.graph.gtsam import require_gtsam
from dynamics_node.trajectory.errors import NotConverged
from dynamics_node.trajectory.fixed_lag import prediction_program
from dynamics_node.trajectory.graph import Prior, Steps, TrajectoryGraph
from dynamics_node.trajectory.gtsam_factors import Window, known_by
from dynamics_node.trajectory.gtsam_newton import GaussNewton


class _Growing(ABC):
    """Steps that come one by one, at most `most` at a time. Raises ImportError without GTSAM."""

    def __init__(self, graph: TrajectoryGraph, most: int, prior: Prior, tolerance, iterations):
        require_gtsam()
        if most < 2:
            raise ValueError(f"a window has two steps or more, not {most}")
        self.graph, self.window = graph, most
        self.tolerance, self.iterations = tolerance, iterations
        self._known, self._predict = known_by(graph, prior), make(prediction_program(graph))
        self._rows = graph.steps(most).rows
        for name, value in prior.values.items():
            Steps(graph, self._rows)[name][0] = value
        self._begin(0)

    def __len__(self):
        return len(self.steps)

    @property
    def steps(self) -> Steps:
        """Those of the window, oldest first: to read, and to write readings that came late; then `solve`."""
        return self._now.steps

    def append(self, **numbers) -> int:
        """As of FixedLag."""
        self.extend(**numbers)
        return self.solve()

    def extend(self, **numbers):
        """As of FixedLag."""
        if len(self) == self.window:
            self._forget()
        else:
            self._begin(len(self) + 1)
        now, x = len(self) - 1, self._rows[:, : self.graph.stored]
        if now:
            self._rows[now] = self._rows[now - 1]
            arrays = x[max(0, now - 2)], x[now - 1], self.steps["dt"][now - 1]
            found, _ = self._predict.run(1, [array[None].copy() for array in arrays])
            x[now] = found[0][0]
        for name, value in numbers.items():
            self.steps[name][now] = value

    @abstractmethod
    def solve(self) -> int:
        """Iterations that were made."""

    def _begin(self, count):
        self._now = Window(Steps(self.graph, self._rows[: count + 1]), self._known)

    def _forget(self):
        raise ValueError(f"there is room for {self.window} steps")


class GtsamFixedLag(_Growing):
    """As FixedLag. The oldest step is eliminated by GTSAM, too."""

    def __init__(
        self,
        graph: TrajectoryGraph,
        window: int,
        prior: Prior,
        tolerance=1e-5,
        iterations=15,
        observable=True,
        least=0.0,
    ):
        super().__init__(graph, window, prior, tolerance, iterations)
        self.observable, self.least = observable, least

    def solve(self) -> int:
        """As FixedLag.solve."""
        made = self._newton.run(self.iterations, self.tolerance)
        if self.observable:
            self._newton.refuse_weak()
        return made

    def covariance(self) -> np.ndarray:
        """As FixedLag.covariance."""
        return self._newton.covariance()

    def _begin(self, count):
        super()._begin(count)
        self._newton = GaussNewton(self._now)

    def _forget(self):
        self._known = self._now.known = self._newton.forgotten(self.least)
        self._rows[:-2] = self._rows[1:-1]


class Isam2(_Growing):
    """A trajectory that grows, by gtsam.ISAM2. `append` is as of FixedLag, but nothing is forgotten: most is
    how many steps there may be; and what a step was told when the next one came stays as it is. tolerance: of
    a change since a variable was linearised."""

    def __init__(self, graph: TrajectoryGraph, most: int, prior: Prior, tolerance=1e-7, iterations=50):
        super().__init__(graph, most, prior, tolerance, iterations)
        gtsam = require_gtsam()
        params = gtsam.ISAM2Params()
        params.setFactorization("QR")
        params.setRelinearizeThreshold(tolerance)
        params.relinearizeSkip = 1
        self._isam = gtsam.ISAM2(params)
        self._told = Window(Steps(graph, self._rows[:1]), self._known)  # where the steps were when they came

    def solve(self) -> int:
        """Updates that were made until no variable was linearised again. Raises NotConverged."""
        self._isam.update(*self._new())
        made = again = 1
        while again and made < self.iterations:
            again, made = self._isam.update().getVariablesRelinearized(), made + 1
        self.steps.rows[:-1] = self._told.steps.rows[:-1]
        self._now.move(self._isam.calculateBestEstimate().atVector)
        if again:
            raise NotConverged(f"after {made} updates ISAM2 still linearises {again} variables again")
        return made

    def covariance(self) -> np.ndarray:
        """As FixedLag.covariance."""
        return GaussNewton(self._now).covariance()

    def _new(self):
        """gtsam.NonlinearFactorGraph and gtsam.Values of the steps that ISAM2 does not know."""
        before, told = len(self._told.steps), self._told
        rows = np.vstack([told.steps.rows[:before], self.steps.rows[before:]])
        told.steps = Steps(self.graph, rows)
        factors = require_gtsam().NonlinearFactorGraph()
        for step in range(before, len(self)):
            for factor in (*(told.links(step - 1) if step else [told.first()]), *told.factors(step)):
                factors.push_back(factor)
        return factors, told.still(range(before, len(self)))
