"""ordering 'best' of a factor graph that becomes a Program: the one whose Program costs least.

All named orderings are tried; in small graphs the best one is improved by moving single variables (paper 1,
section IV-D, proposes a search there).
"""

import contextlib
import hashlib
import json

import numpy as np

from dynamics_node.backends.c import CompileError
from dynamics_node.backends.c.cache import read_entry, write_entry
from dynamics_node.backends.c.render import renderer
from dynamics_node.backends.compiled import cost
from dynamics_node.backends.numeric_elimination import NumericElimination
from dynamics_node.backends.traced import problem_program
from dynamics_node.graph import (
    ORDERINGS,
    Ordering,
    custom_ordering,
    generic_graph,
    named_ordering,
    plan_elimination,
)
from dynamics_node.graph.elimination import SingularPivotError
from dynamics_node.model.parameters import generic_parameters

SMALL = 24  # variables: an arm of 8 joints
TRIALS = 100


def best_straight_line(model, problem, parameters=()) -> NumericElimination | None:
    """The engine of the cheapest ordering that is a straight line, None when no ordering is. What was found
    once is remembered beside the compiled code."""
    search = _Search(model, problem, parameters)
    known = search.remembered()
    if known is not None:
        return known
    best = _searched(search, model, problem)
    if best is not None:
        search.remember(best.ordering)
    return best


def _searched(search, model, problem):
    found = [search.evaluated(named_ordering(name, model, problem, search.graph)) for name in ORDERINGS]
    candidates = [pair for pair in found if pair is not None]
    if not candidates:
        return None
    best = min(candidates, key=lambda pair: pair[0])
    if len(search.graph.variables) <= SMALL:
        best = search.improved(best)
    return best[1]


class _Search:
    """Orderings of one graph and what their Programs cost."""

    def __init__(self, model, problem, parameters):
        self._model, self._problem, self._parameters = model, problem, parameters
        self.graph = generic_graph(generic_parameters(model, parameters), problem)
        self._note = f"ordering-{_identity(model, problem, parameters)}.json"

    def remembered(self):
        """The engine of the ordering that was found before, None when there is none (or nothing sensible)."""
        try:
            name, variables = json.loads(read_entry(self._note) or b"null")
            found = self.evaluated(Ordering(str(name), custom_ordering(variables, self.graph).variables))
        except (ValueError, TypeError, CompileError):
            return None
        return found[1] if found is not None else None

    def remember(self, ordering):
        """Keep it for the next time, where there is a place."""
        with contextlib.suppress(CompileError):
            text = json.dumps([ordering.name, [str(variable) for variable in ordering.variables]])
            write_entry(self._note, text.encode())

    def evaluated(self, ordering):
        """(cost, engine), None when the ordering is no straight line."""
        try:
            plan = plan_elimination(self.graph, ordering.variables)
        except SingularPivotError:
            return None
        if not plan.safe:
            return None
        engine = NumericElimination(self._model, self._problem, ordering, plan)
        return cost(problem_program(engine, parameters=self._parameters)), engine

    def improved(self, best):
        """The best of TRIALS moves of one variable, each from the best so far; always the same ones."""
        random = np.random.default_rng(0)
        for _ in range(TRIALS):
            order = list(best[1].ordering.variables)
            variable = order.pop(int(random.integers(len(order))))
            order.insert(int(random.integers(len(order) + 1)), variable)
            found = self.evaluated(Ordering("searched", tuple(order)))
            if found is not None and found[0] < best[0]:
                best = found
        return best


def _identity(model, problem, parameters):
    """Hash of all that the search depends on."""
    joints = [body.joint for body in model.bodies]
    numbers = [
        model.inertias,
        model.armature,
        *(body.X_tree for body in model.bodies),
        *(j.S for j in joints),
    ]
    text = repr((renderer(), model.parents, [j.v for j in joints], problem, parameters, SMALL, TRIALS))
    return hashlib.sha256(
        text.encode() + b"".join(np.ascontiguousarray(n).tobytes() for n in numbers)
    ).hexdigest()
