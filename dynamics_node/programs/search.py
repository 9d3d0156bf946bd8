"""ordering 'best' of a factor graph: the one whose Program costs least.

All named orderings are tried; in small graphs the best one is improved by moving single variables (paper 1,
section IV-D, proposes a search there).
"""

import contextlib
import hashlib
import json
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dynamics_node.graph import (
    ORDERINGS,
    Ordering,
    SingularPivotError,
    chosen_ordering,
    custom_ordering,
    plan_elimination,
)
from dynamics_node.loops.mechanism import Mechanism, tree_of
from dynamics_node.model import Model
from dynamics_node.problem import Problem
from dynamics_node.program import Program
from dynamics_node.programs.cost import cost
from dynamics_node.programs.eliminated import economical_graph, plan_program

SMALL = 24  # variables: an arm of 8 joints
TRIALS = 100
WORTH_TRYING = 3  # entries of a Bayes net, beside the fewest, up to which a Program is made of it
_SEARCH = 2  # counted up when other orderings are found


class Found(NamedTuple):
    """An ordering, and the Program of it."""

    ordering: Ordering
    program: Program

    @property
    def cost(self):
        return cost(self.program)


class Memory(NamedTuple):
    """Where notes are kept by name: read(name) gives bytes, or None when there are none."""

    read: Callable[[str], bytes | None]
    write: Callable[[str, bytes], None]


FORGETFUL = Memory(lambda name: None, lambda name, content: None)


def best_ordering(robot: Model | Mechanism, problem: Problem, parameters=(), memory=FORGETFUL) -> Found:
    """The cheapest ordering. What was found once is remembered.

    Raises SingularPivotError when none of ORDERINGS can be followed.
    """
    search = _Search(robot, problem, tuple(parameters))
    note = f"ordering-{_identity(robot, problem, parameters)}.json"
    known = search.read(memory.read(note))
    if known is not None:
        return known
    best = search.best()
    memory.write(note, search.written(best.ordering))
    return best


class _Search:
    """Orderings of one graph and what their Programs cost."""

    def __init__(self, robot, problem, parameters):
        self._robot, self._problem, self._parameters = robot, problem, parameters
        self._graph = economical_graph(robot, problem, parameters)

    def best(self):
        """The cheapest of the named orderings, and in small graphs what can be made of it."""
        plans, refusal = {}, None
        for name in ORDERINGS:
            ordering = chosen_ordering(name, self._robot, self._problem, self._graph)
            try:
                plans[ordering] = plan_elimination(self._graph, ordering.variables)
            except SingularPivotError as error:
                refusal = error
        if not plans:
            assert refusal is not None
            raise refusal
        least = min(plan.size for plan in plans.values())
        near = {ordering: plan for ordering, plan in plans.items() if plan.size <= WORTH_TRYING * least}
        best = min((self._found(*pair) for pair in near.items()), key=lambda each: each.cost)
        return self._improved(best) if len(self._graph.variables) <= SMALL else best

    def read(self, note):
        """Found of a note, None when there is none, or nothing sensible in it."""
        try:
            name, variables = json.loads(note or b"null")
            return self._evaluated(str(name), custom_ordering(variables, self._graph).variables)
        except (ValueError, TypeError):
            return None

    @staticmethod
    def written(ordering):
        """The note of an ordering."""
        return json.dumps([ordering.name, [str(variable) for variable in ordering.variables]]).encode()

    def _evaluated(self, name, variables):
        """Found of an ordering. Raises SingularPivotError."""
        return self._found(Ordering(name, variables), plan_elimination(self._graph, variables))

    def _found(self, ordering, plan):
        program = plan_program(self._robot, self._problem, plan, parameters=self._parameters)
        return Found(ordering, program)

    def _improved(self, best):
        """The best of TRIALS moves of one variable, each from the best so far; always the same ones."""
        random = np.random.default_rng(0)
        for _ in range(TRIALS):
            order = list(best.ordering.variables)
            variable = order.pop(int(random.integers(len(order))))
            order.insert(int(random.integers(len(order) + 1)), variable)
            with contextlib.suppress(SingularPivotError):
                found = self._evaluated("searched", tuple(order))
                best = min(best, found, key=lambda each: each.cost)
        return best


def _identity(robot, problem, parameters):
    """Hash of all that the search depends on."""
    model = tree_of(robot)
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
