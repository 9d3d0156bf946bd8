"""Rows of the table of quantities by NumPy: of a tree over a batch, of a robot with loops state by state."""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from dynamics_node.algorithms.dynamics_programs import dynamics_methods
from dynamics_node.algorithms.first_positions import closed_samples
from dynamics_node.algorithms.quantities import QUANTITIES
from dynamics_node.algorithms.rates import rates_at
from dynamics_node.robot import Problem, Robot, Shapes, state_shapes


def by_states(function, robot, q, **arrays):
    """function(q=, **arrays) -> {name: array} of one state, of every state of a batch q (count, nq); what has
    the axes of one state is the same for all."""
    shapes = state_shapes(robot, arrays)
    results = [
        function(q=one, **{n: a if a.ndim == len(shapes[n]) else a[k] for n, a in arrays.items()})
        for k, one in enumerate(q)
    ]
    return {name: np.stack([np.asarray(r[name], dtype=float) for r in results]) for name in results[0]}


@dataclass(frozen=True, eq=False)
class NumericQuantity:
    """name: of QUANTITIES; options: those of the quantity; model: as its `view` shows it. Raises KeyError for
    an unknown link."""

    model: Robot
    name: str
    options: dict = field(default_factory=dict)

    def __post_init__(self):
        _ = self.returns

    @cached_property
    def returns(self) -> Shapes:
        """{name: shape} of the results."""
        random = np.random.default_rng(1)
        shapes = state_shapes(self.model, QUANTITIES[self.name].reads)
        state = {name: random.uniform(-1.0, 1.0, shape) for name, shape in shapes.items()}
        state["q"] = closed_samples(self.model, 1, random)[0]
        return {name: np.shape(array) for name, array in self._at(**state).items()}

    @property
    def description(self):
        return self.name

    def with_inertias(self, model):
        """The quantity of a robot that differs in inertias or rotor inertias only."""
        return replace(self, model=model)

    def __call__(self, q, **arrays):
        """See the package."""
        if self.model.constrained or QUANTITIES[self.name].write is not None:
            return by_states(self._at, self.model, q, **arrays)
        return self._at(q, **arrays)

    def _at(self, q, qd=None, **arrays):
        quantity = QUANTITIES[self.name]
        assert quantity.way is not None
        rates = quantity.rates(self.model, q, qd)
        results = quantity.way(self.model, rates, q, *arrays.values(), **self.options)
        found = dict(zip(quantity.returns, results, strict=not quantity.limits))
        if quantity.limits:
            good = np.asarray(results[-1], dtype=float)[..., None] <= quantity.limits[0]
            found = {name: np.where(good, array, np.nan) for name, array in found.items()}
        return found


@dataclass(frozen=True, eq=False)
class Recursion:
    """The first of `dynamics_methods`; of a robot with loops the one that takes numbers."""

    model: Robot
    problem: Problem

    def with_inertias(self, model):
        """The recursion for a Robot that differs in inertias or rotor inertias only."""
        return replace(self, model=model)

    @property
    def description(self):
        names = [*dynamics_methods(self.model, self.problem)]
        return names[-1 if self.model.constrained else 0]

    def __call__(self, q, qd, qdd=None, tau=None, gravity=None, f_ext=None):
        """{'qdd', 'tau'}, complete, or 'tau' alone of inverse dynamics."""
        if self.model.constrained:
            given = {"qd": qd, "qdd": qdd, "tau": tau, "gravity": gravity, "f_ext": f_ext}
            given = {name: array for name, array in given.items() if array is not None}
            return by_states(self._at, self.model, q, **given)
        return self._at(q, qd, qdd, tau, gravity, f_ext)

    def _at(self, q, qd, qdd=None, tau=None, gravity=None, f_ext=None):
        method = dynamics_methods(self.model, self.problem)[self.description]
        forward, zero = np.array(self.problem.forward, dtype=bool), np.zeros_like(qd)
        qdd, tau = zero if qdd is None else qdd, zero if tau is None else tau
        known = np.where(forward, tau, qdd)
        rates = rates_at(self.model, q, qd, explicit=True)
        asked = method(self.model, rates, q, known, f_ext, gravity)
        complete = {"qdd": np.where(forward, asked, qdd), "tau": np.where(forward, tau, asked)}
        return {name: complete[name] for name in self.problem.returns(self.model)}
