"""ordering 'best' of a factor graph: the one whose Program costs least.

All named orderings are tried; in small graphs the best one is improved by moving single variables (paper 1,
section IV-D, proposes a search there).
"""

import hashlib
import json
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dynamics_node.graph import (
    ORDERINGS,
    Ordering,
    Plan,
    SingularPivotError,
    custom_ordering,
    generic_graph,
    named_ordering,
    plan_elimination,
)
from dynamics_node.model import Model
from dynamics_node.model.parameters import generic_parameters
from dynamics_node.problem import Problem
from dynamics_node.program import Program
from dynamics_node.programs.cost import cost
from dynamics_node.programs.eliminated import elimination_program

SMALL = 24  # variables: an arm of 8 joints
TRIALS = 100
_SEARCH = 2  # counted up when other orderings are found


class Found(NamedTuple):
    """An ordering, its plan, and the Program of it."""

    ordering: Ordering
    plan: Plan
    program: Program

    @property
    def cost(self):
        return cost(self.program)


class Memory(NamedTuple):
    """Where notes are kept by name: read(name) gives bytes, or None when there are none."""

    read: Callable[[str], bytes | None]
    write: Callable[[str, bytes], None]


FORGETFUL = Memory(lambda name: None, lambda name, content: None)


def best_ordering(robot: Model, problem: Problem, parameters=(), memory=FORGETFUL) -> Found | None:
    """The cheapest ordering whose pivots are safe, None when those of no ordering are. What was found once is
    remembered."""
    search = _Search(robot, problem, tuple(parameters))
    note = f"ordering-{_identity(robot, problem, parameters)}.json"
    known = search.read(memory.read(note))
    if known is not None:
        return known
    best = search.best()
    if best is not None:
        memory.write(note, search.written(best.ordering))
    return best


class _Search:
    """Orderings of one graph and what their Programs cost."""

    def __init__(self, robot, problem, parameters):
        self._robot, self._problem, self._parameters = robot, problem, parameters
        self._graph = generic_graph(generic_parameters(robot, parameters), problem)

    def best(self):
        """The cheapest of the named orderings, and in small graphs what can be made of it."""
        named = [named_ordering(name, self._robot, self._problem, self._graph) for name in ORDERINGS]
        found = [each for each in map(self.evaluated, named) if each is not None]
        if not found:
            return None
        best = min(found, key=lambda each: each.cost)
        return self._improved(best) if len(self._graph.variables) <= SMALL else best

    def read(self, note):
        """Found of a note, None when there is none, or nothing sensible in it."""
        try:
            name, variables = json.loads(note or b"null")
            return self.evaluated(Ordering(str(name), custom_ordering(variables, self._graph).variables))
        except (ValueError, TypeError):
            return None

    @staticmethod
    def written(ordering):
        """The note of an ordering."""
        return json.dumps([ordering.name, [str(variable) for variable in ordering.variables]]).encode()

    def evaluated(self, ordering):
        """Found of an ordering, None when its pivots are not safe."""
        try:
            plan = plan_elimination(self._graph, ordering.variables)
        except SingularPivotError:
            return None
        if not plan.safe:
            return None
        program = elimination_program(self._robot, self._problem, plan, parameters=self._parameters)
        return Found(ordering, plan, program)

    def _improved(self, best):
        """The best of TRIALS moves of one variable, each from the best so far; always the same ones."""
        random = np.random.default_rng(0)
        for _ in range(TRIALS):
            order = list(best.ordering.variables)
            variable = order.pop(int(random.integers(len(order))))
            order.insert(int(random.integers(len(order) + 1)), variable)
            found = self.evaluated(Ordering("searched", tuple(order)))
            if found is not None and found.cost < best.cost:
                best = found
        return best


def _identity(model, problem, parameters):
    """Hash of all that the search depends on."""
    joints = [body.joint for body in model.bodies]
    numbers = [
        model.inertias,
        model.armature,
        *(body.X_tree for body in model.bodies),
        *(joint.S for joint in joints),
    ]
    text = repr((_SEARCH, model.parents, [j.v for j in joints], problem, tuple(parameters), SMALL, TRIALS))
    return hashlib.sha256(
        text.encode() + b"".join(np.ascontiguousarray(n).tobytes() for n in numbers)
    ).hexdigest()
