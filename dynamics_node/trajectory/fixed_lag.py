"""Fixed-lag smoothing: the last steps of a trajectory, and the information of older ones about the first."""

from functools import lru_cache

import numpy as np

from dynamics_node.codegen import make_runner
from dynamics_node.errors import InputError, NotConverged
from dynamics_node.symbolic import Program, trace
from dynamics_node.trajectory.gauss_newton import Sweeps, covariances, require_solvable, run
from dynamics_node.trajectory.step_elimination import packed, packed_prior
from dynamics_node.trajectory.trajectory_graph import Prior, Steps, TrajectoryGraph


def require_lag(lag_steps):
    """Raise InputError for anything but a number of steps, or None for all."""
    if lag_steps is not None and not (isinstance(lag_steps, int) and lag_steps > 0):
        raise InputError(f"lag_steps must be a positive number of steps, or None, not {lag_steps!r}")


class FixedLag:
    """The last `window` steps of a trajectory: lag.append(dt=..., ...) adds a step.

    If there are more than `window`, the oldest step is eliminated. Its information and that of all earlier
    steps about the next one is kept as a quadratic around the estimate at that time (paper 2, sec. 5:
    fixed-lag smoother; Dellaert and Kaess 2017, sec. 6.2).

    prior: of the first step. tolerance: of the change of any step; a larger change needs another iteration,
    whose change is about its square; iterations: at most. observable: raise if factors do not determine a
    direction up to rounding; in a simulation such directions are unstable motions and harmless. least:
    information added about every direction of the step after an eliminated one, as if measured at its
    estimate. In a simulation the propagated information becomes ever more ill-conditioned (condition 1e12
    after a second of a falling arm) until iterations fail; a solution without errors does not change. Raises
    CompileError for backend c without a compiler, ValueError for a window of less than two steps.
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
            raise InputError(f"window must be at least 2 steps, not {window}")
        self.graph, self.window, self.backend = graph, window, backend
        self.tolerance, self.iterations, self.observable = tolerance, iterations, observable
        self._predict = _prediction(graph, backend)
        self._known, self._at = packed_prior(graph, prior), prior.stored(graph)
        self._least = packed(least * np.eye(len(graph.free)), np.zeros(len(graph.free)))
        self._rows = graph.steps(window).rows
        self._x = [row[: graph.stored] for row in self._rows]
        self._x[0][:] = self._at
        self._eliminated = self._at.copy()
        self._begin(0)

    def __len__(self):
        return len(self.steps)

    @property
    def steps(self) -> Steps:
        """Steps of the window, oldest first: to read, or to write late readings before `solve`."""
        return self._sweeps.steps

    @property
    def outputs(self):
        """Outputs of `forward_program` at every step in the last iteration."""
        return self._sweeps.outputs

    def append(self, **numbers) -> int:
        """Add a step and `solve`. numbers: data and weights of the new step by their names in a row
        (graph.row), default those of the previous step; initial values of variables, default predicted from
        their rates. Returns the number of iterations. Raises as `solve`."""
        full = len(self) == self.window
        self.extend(**numbers)
        return self._solve(full)

    def extend(self, **numbers):
        """The first half of `append`: add the step without solving."""
        if self._now + 1 == self.window:
            self._forget()
        else:
            self._begin(self._now + 2)
        now, views = self._now, self._views
        if now:
            self._rows[now] = self._rows[now - 1]
            before, last = self._x[now - 2] if now > 1 else self._eliminated, self._x[now - 1]
            run(self._predict, before, last, views["dt"][now - 1], self._x[now])
        for name, value in numbers.items():
            views[name][now] = value
        self._sweeps.link()

    def solve(self) -> int:
        """Iterate until no step changes by more than the tolerance. Returns the number of iterations.

        Raises NotConverged, SingularPosition and Unobservable; the steps are then those of the last
        iteration.
        """
        return self._solve(False)

    def _solve(self, untouched):
        """As `solve`. untouched: the first step is unchanged since `_forget`."""
        change = np.inf
        for iteration in range(1, self.iterations + 1):
            if untouched and iteration == 1:
                good = self._sweeps.eliminate_behind(self._known)
            else:
                good = self._sweeps.eliminate(self._known, self._at)
            if not good:
                require_solvable(self.graph, self.outputs, self.observable)
            change = self._sweeps.substitute()
            if change <= self.tolerance:
                return iteration
        raise NotConverged(f"after {self.iterations} iterations a step still changed by {change:.3g}")

    def covariance(self, first=0) -> np.ndarray:
        """Covariance (steps, columns, columns) of all directions at every step of the window from row `first`
        on."""
        self._sweeps.eliminate(self._known, self._at)
        return covariances(self.graph, {name: rows[first:] for name, rows in self.outputs.items()})

    def adopt(self, other: "FixedLag"):
        """Copy the steps and the prior of another window of the same graph and length."""
        self._rows[:], self._known[:] = other._rows, other._known
        self._at[:], self._eliminated[:] = other._at, other._eliminated

    # --- the window ----------------------------------------------------------------------------------------

    def _begin(self, count):
        self._sweeps = Sweeps(Steps(self.graph, self._rows[: count + 1]), self.backend, self.observable)
        self._now, self._views = count - 1, self._sweeps.steps.views

    def _forget(self):
        """Eliminate the oldest step; its information about the next one is kept."""
        np.add(self._sweeps.behind(self._known, self._at), self._least, out=self._known)
        self._eliminated[:], self._at[:] = self._x[0], self._x[1]
        self._rows[:-2] = self._rows[1:-1]


@lru_cache(maxsize=16)  # graphs
def _prediction(graph, backend):
    return make_runner(prediction_program(graph), backend)


def prediction_program(graph: TrajectoryGraph) -> Program:
    """before, stored: the variables of two steps, dt (1,) -> later: their values after dt, from their rates
    and the derivatives of these. A rate without a derivative changes as before; other variables are
    constant."""
    places, start = {}, 0
    for variable in graph.variables:
        places[variable.name] = slice(start, start + variable.size)
        start += variable.size
    rates = {variable.name: variable.rate for variable in graph.variables}

    def function(before, stored, dt):
        half = 0.5 * dt[0]
        predicted: dict[str, np.ndarray] = {}
        for variable in reversed(sorted(graph.variables, key=lambda v: _order(rates, v.name))):
            x = stored[places[variable.name]]
            if variable.rate in places:
                rate = stored[places[variable.rate]]
                x = variable.moved(x, half * (rate + predicted[variable.rate]))
            elif variable.name in rates.values():
                x = x + (x - before[places[variable.name]])
            predicted[variable.name] = x
        return {"later": np.concatenate([predicted[variable.name] for variable in graph.variables])}

    return trace(function, {"before": (graph.stored,), "stored": (graph.stored,), "dt": (1,)})


def _order(rates, name):
    """Order of the time derivative: positions 0, velocities 1, accelerations 2."""
    return next((1 + _order(rates, other) for other, rate in rates.items() if rate == name), 0)
