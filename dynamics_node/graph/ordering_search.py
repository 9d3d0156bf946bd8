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

from dynamics_node.algorithms.program_cost import cost
from dynamics_node.graph.eliminated_program import economical_graph, elimination_program, plan_program
from dynamics_node.graph.elimination import SingularPivotError, plan_elimination
from dynamics_node.graph.generic import chosen_ordering
from dynamics_node.graph.ordering import ORDERINGS, Ordering, custom_ordering
from dynamics_node.robot import Problem, Robot
from dynamics_node.symbolic import Program

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


def best_ordering(robot: Robot, problem: Problem, parameters=(), memory=FORGETFUL) -> Found:
    """The cheapest ordering. What was found once is remembered.

    Raises SingularPivotError when none of ORDERINGS can be followed.
    """
    search = _Search(robot, problem, tuple(parameters))
    note = f"ordering-{search.identity()}.json"
    ordering = search.read(memory.read(note))
    if ordering is None:
        ordering = search.best()
        memory.write(note, _written(ordering))
    return Found(ordering, elimination_program(robot, problem, ordering, parameters=parameters))


class _Search:
    """Orderings of one graph and what their Programs cost."""

    def __init__(self, robot, problem, parameters):
        self._robot, self._problem, self._parameters = robot, problem, parameters
        self._graph = economical_graph(robot, problem, parameters)

    def read(self, note):
        """The Ordering of a note, None when there is none, or nothing sensible in it."""
        try:
            name, variables = json.loads(note or b"null")
            ordering = Ordering(str(name), custom_ordering(variables, self._graph).variables)
            plan_elimination(self._graph, ordering.variables)
        except (ValueError, TypeError):
            return None
        return ordering

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
        most = WORTH_TRYING * min(plan.size for plan in plans.values())
        costs = {ordering: self._cost(plan) for ordering, plan in plans.items() if plan.size <= most}
        best = min(costs, key=costs.__getitem__)
        return self._improved(best, costs[best]) if len(self._graph.variables) <= SMALL else best

    def _cost(self, plan):
        parameters = self._parameters
        return cost(plan_program(self._robot, self._problem, plan, parameters=parameters, tried=False))

    def _improved(self, best, least):
        """The best of TRIALS moves of one variable, each from the best so far; always the same ones."""
        random = np.random.default_rng(0)
        for _ in range(TRIALS):
            order = list(best.variables)
            variable = order.pop(int(random.integers(len(order))))
            order.insert(int(random.integers(len(order) + 1)), variable)
            with contextlib.suppress(SingularPivotError):
                found = self._cost(plan_elimination(self._graph, tuple(order)))
                if found < least:
                    best, least = Ordering("searched", tuple(order)), found
        return best

    def identity(self):
        """Hash of all that the search depends on."""
        model = self._robot.tree
        joints = [body.joint for body in model.bodies]
        numbers = [
            model.inertias,
            model.armature,
            *(body.X_tree for body in model.bodies),
            *(joint.S for joint in joints),
        ]
        structure = (model.parents, [joint.v for joint in joints], [str(f) for f in self._graph.factors])
        text = repr((_SEARCH, structure, self._problem, self._parameters, SMALL, TRIALS))
        content = text.encode() + b"".join(np.ascontiguousarray(n).tobytes() for n in numbers)
        return hashlib.sha256(content).hexdigest()


def _written(ordering):
    """The note of an ordering."""
    return json.dumps([ordering.name, [str(variable) for variable in ordering.variables]]).encode()
