"""A trajectory as it comes: the last steps, and the information of the older ones about the first of them."""

from functools import lru_cache

import numpy as np

from dynamics_node.codegen import make
from dynamics_node.symbolic import Program, trace
from dynamics_node.trajectory.errors import NotConverged
from dynamics_node.trajectory.gauss_newton import Sweeps, covariances, refuse_bad, run
from dynamics_node.trajectory.step_elimination import packed, packed_prior
from dynamics_node.trajectory.trajectory_graph import Prior, Steps, TrajectoryGraph


class FixedLag:
    """The last `window` steps of a trajectory: lag.append(dt=..., ...) makes one step more.

    When there are more than `window`, the oldest is eliminated for good: what it and all before it know
    about the next one is kept as a quadratic around where that was then (paper 2, sec. 5: fixed-lag smoother;
    Dellaert and Kaess 2017, sec. 6.2). prior: of the first step. tolerance: of a change of any step, beyond
    which one iteration more is made: the change would then be about its square; iterations: at most.
    observable: whether directions that nothing tells, to rounding, are refused; of a simulation they are what
    the motion itself makes unsure, and nothing is lost. least: information added about every direction of
    the step behind one that is eliminated, as if it had been measured where it is: in a simulation what is
    carried becomes ever more uneven (of a dropped arm a condition of 1e12 in a second), until iterations come
    to no end; a solution without errors does not change. Raises CompileError for backend c without a
    compiler, ValueError for a window of less than two steps.
    """

    def __init__(
        self,
        graph: TrajectoryGraph,
        window: int,
        prior: Prior,
        backend="auto",
        tolerance=1e-5,
        iterations=15,
        observable=True,
        least=0.0,
    ):
        if window < 2:
            raise ValueError(f"a window has two steps or more, not {window}")
        self.graph, self.window, self.backend = graph, window, backend
        self.tolerance, self.iterations, self.observable = tolerance, iterations, observable
        self._predict = _prediction(graph, backend)
        self._known, self._at = packed_prior(graph, prior), prior.stored(graph)
        self._least = packed(least * np.eye(len(graph.free)), np.zeros(len(graph.free)))
        self._rows = graph.steps(window).rows
        self._x = [row[: graph.stored] for row in self._rows]
        self._x[0][:] = self._at
        self._gone = self._at.copy()
        self._begin(0)

    def __len__(self):
        return len(self.steps)

    @property
    def steps(self) -> Steps:
        """Those of the window, oldest first: to read, and to write readings that came late; then `solve`."""
        return self._sweeps.steps

    @property
    def found(self):
        """What `forward_program` left at every step in the last iteration."""
        return self._sweeps.found

    def append(self, **numbers) -> int:
        """One step more, and `solve`. numbers: by their names in a row (graph.row) data and weights of the
        new step, those that are not given are as of the step before; variables, to begin with: those not
        given are predicted from their rates. Iterations that were made. Raises as `solve`."""
        full = len(self) == self.window
        self.extend(**numbers)
        return self._solve(full)

    def extend(self, **numbers):
        """The first half of `append`: the step is there, and nothing is solved."""
        if self._now + 1 == self.window:
            self._forget()
        else:
            self._begin(self._now + 2)
        now, views = self._now, self._views
        if now:
            self._rows[now] = self._rows[now - 1]
            before, last = self._x[now - 2] if now > 1 else self._gone, self._x[now - 1]
            run(self._predict, before, last, views["dt"][now - 1], self._x[now])
        for name, value in numbers.items():
            views[name][now] = value
        self._sweeps.link()

    def solve(self) -> int:
        """Iterations that were made until no step changed by more than the tolerance.

        Raises NotConverged, SingularPosition and Unobservable; the steps are then as the last iteration left
        them.
        """
        return self._solve(False)

    def _solve(self, untouched):
        """As `solve`. untouched: the first step is still where what is known of it was left by `_forget`."""
        change = np.inf
        for iteration in range(1, self.iterations + 1):
            if untouched and iteration == 1:
                good = self._sweeps.eliminate_behind(self._known)
            else:
                good = self._sweeps.eliminate(self._known, self._at)
            if not good:
                refuse_bad(self.graph, self.found, self.observable)
            change = self._sweeps.substitute()
            if change <= self.tolerance:
                return iteration
        raise NotConverged(f"after {self.iterations} iterations a step still changed by {change:.3g}")

    def covariance(self, first=0) -> np.ndarray:
        """(steps, columns, columns) of all directions at every step of the window from row `first` on."""
        self._sweeps.eliminate(self._known, self._at)
        return covariances(self.graph, {name: rows[first:] for name, rows in self.found.items()})

    # --- the window ----------------------------------------------------------------------------------------

    def _begin(self, count):
        self._sweeps = Sweeps(Steps(self.graph, self._rows[: count + 1]), self.backend, self.observable)
        self._now, self._views = count - 1, self._sweeps.steps.views

    def _forget(self):
        """The oldest step goes; what it knows about the next one stays."""
        np.add(self._sweeps.behind(self._known, self._at), self._least, out=self._known)
        self._gone[:], self._at[:] = self._x[0], self._x[1]
        self._rows[:-2] = self._rows[1:-1]


@lru_cache(maxsize=16)  # of the graphs at hand
def _prediction(graph, backend):
    return make(prediction_program(graph), backend)


def prediction_program(graph: TrajectoryGraph) -> Program:
    """before, stored: the variables of two steps, dt (1,) -> later: where they are after dt by their rates
    and the rates of those. What is a rate and has none goes on changing as it did; anything else stays."""
    places, start = {}, 0
    for variable in graph.variables:
        places[variable.name] = slice(start, start + variable.size)
        start += variable.size
    rates = {variable.name: variable.rate for variable in graph.variables}

    def function(before, stored, dt):
        half = 0.5 * dt[0]
        found: dict[str, np.ndarray] = {}
        for variable in reversed(sorted(graph.variables, key=lambda v: _order(rates, v.name))):
            x = stored[places[variable.name]]
            if variable.rate in places:
                own = stored[places[variable.rate]]
                x = variable.moved(x, half * (own + found[variable.rate]))
            elif variable.name in rates.values():
                x = x + (x - before[places[variable.name]])
            found[variable.name] = x
        return {"later": np.concatenate([found[variable.name] for variable in graph.variables])}

    return trace(function, {"before": (graph.stored,), "stored": (graph.stored,), "dt": (1,)})


def _order(rates, name):
    """How often a variable is the rate of another: positions 0, velocities 1, accelerations 2."""
    return next((1 + _order(rates, other) for other, rate in rates.items() if rate == name), 0)
