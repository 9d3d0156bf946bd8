"""A trajectory as it comes: the last steps, and what the older ones have told about the first of them."""

import numpy as np

from dynamics_node.backends import make
from dynamics_node.program import trace
from dynamics_node.trajectory.batch import SINGULAR, WEAK, free_covariances, spread
from dynamics_node.trajectory.elimination import unpacked
from dynamics_node.trajectory.errors import NotConverged, SingularPosition, Unobservable
from dynamics_node.trajectory.graph import Prior, Steps, TrajectoryGraph
from dynamics_node.trajectory.sweeps import Sweeps


class FixedLag:
    """The last `window` steps of a trajectory: lag.append(dt=..., ...) makes one step more.

    When there are more than `window`, the oldest is eliminated for good: what it and all before it know
    about the next one is kept as a quadratic around where that was then (paper 2, sec. 5: fixed-lag smoother;
    Dellaert and Kaess 2017, sec. 6.2). prior: of the first step. tolerance: of a change of any step, after
    which the next one would be its square; iterations: at most. Raises CompileError for backend c without a
    compiler.
    """

    def __init__(
        self, graph: TrajectoryGraph, window: int, prior: Prior, backend="auto", tolerance=1e-7, iterations=15
    ):
        if window < 1:
            raise ValueError(f"a window has one step or more, not {window}")
        self.graph, self.window, self.backend = graph, window, backend
        self.tolerance, self.iterations = tolerance, iterations
        self._prior, self._predict = prior, make(prediction_program(graph), backend)
        self._rows = graph.steps(window).rows
        self._count, self._sweeps = 0, None

    def __len__(self):
        return self._count

    @property
    def steps(self) -> Steps:
        """Those of the window, oldest first: to read, and to write readings that came late; then `solve`."""
        return self._sweeps.steps if self._sweeps is not None else Steps(self.graph, self._rows[:1])

    def append(self, **numbers) -> int:
        """One step more, and `solve`. numbers: by their names in a row (graph.row) data and weights of the new
        step, those that are not given are as of the step before; variables, to begin with: those not given
        are predicted from their rates. Iterations that were made. Raises as `solve`."""
        self.extend(**numbers)
        return self.solve()

    def extend(self, **numbers):
        """The first half of `append`: the step is there, and nothing is solved."""
        if self._count == self.window:
            self._forget()
        else:
            self._begin(self._count + 1)
        now = self._count - 1
        if now:
            self._rows[now] = self._rows[now - 1]
            self._predicted(now)
        else:
            for name, value in self._prior.values.items():
                self.steps[name][0] = value
        views = self._sweeps.steps.views
        for name, value in numbers.items():
            views[name][now] = value
        self._sweeps.link()

    def solve(self) -> int:
        """Iterations that were made until no step changed by more than the tolerance.

        Raises NotConverged, SingularPosition and Unobservable; the steps are then as the last iteration left
        them.
        """
        change = np.inf
        for iteration in range(1, self.iterations + 1):
            self._sweeps.eliminate(*self._prior.known(self.graph, self.steps))
            self._check()
            change = self._sweeps.substitute()
            if change <= self.tolerance:
                return iteration
            if not change < np.inf:
                break
        raise NotConverged(f"after {self.iterations} iterations a step still changed by {change:.3g}")

    def covariance(self) -> np.ndarray:
        """(steps, columns, columns) of all directions at every step of the window."""
        sweeps = Sweeps(self.steps.copy(), self.backend, information=True)
        sweeps.eliminate(*self._prior.known(self.graph, self.steps))
        free = free_covariances(sweeps.found["information"], sweeps.found["gain"])
        return spread(self.graph, free, sweeps.found["slopes"])

    @property
    def found(self):
        """What `forward_program` left at every step in the last iteration."""
        return self._sweeps.found

    # --- the window ----------------------------------------------------------------------------------------

    def _begin(self, count):
        self._count = count
        self._sweeps = Sweeps(Steps(self.graph, self._rows[: count + 1]), self.backend)

    def _forget(self):
        """The oldest step goes; the prior is what it knows about the next one."""
        carry = self._sweeps.behind(*self._prior.known(self.graph, self.steps))
        H, g = unpacked(self.graph, carry)
        at = {v.name: self.steps[v.name][min(1, self._count - 1)].copy() for v in self.graph.variables}
        self._prior = Prior(at, H, g.copy())
        self._rows[:-2] = self._rows[1:-1]

    def _predicted(self, now):
        steps = self.steps
        x = self._rows[now - 1, : self.graph.stored]
        if self._predict.solve(x, steps["dt"][now - 1], self._rows[now, : self.graph.stored]) is not None:
            found, _ = self._predict.run(1, [x[None].copy(), steps["dt"][now - 1][None].copy()])
            self._rows[now, : self.graph.stored] = found[0][0]

    def _check(self):
        found = self._sweeps.found
        if not found["condition"].max() <= SINGULAR:
            raise SingularPosition("the exact equations are singular at a step of the window")
        if not found["pivots"].min() >= WEAK:
            weak = np.flatnonzero(~(found["pivots"] >= WEAK).all(axis=0))
            names = [self.graph.column_names[self.graph.free[k]] for k in weak]
            raise Unobservable(f"nothing tells {', '.join(names)}", names)


def prediction_program(graph: TrajectoryGraph):
    """stored: the variables of a step, dt (1,) -> stored: where they are after dt by their rates and the rates
    of those; what has no rate stays."""
    places, start = {}, 0
    for variable in graph.variables:
        places[variable.name] = slice(start, start + variable.size)
        start += variable.size
    rates = {variable.name: variable.rate for variable in graph.variables}

    def function(stored, dt):
        found = []
        for variable in graph.variables:
            x, h = stored[places[variable.name]], dt[0]
            if variable.rate in places:
                step = h * stored[places[variable.rate]]
                if rates[variable.rate] in places:
                    step = step + 0.5 * h * h * stored[places[rates[variable.rate]]]
                x = variable.moved(x, step)
            found.append(x)
        return {"stored": np.concatenate(found)}

    return trace(function, {"stored": (graph.stored,), "dt": (1,)})
