"""An elimination ordering of the factor graph as a Program, for trees and for robots with loops; the cheapest
ordering.

The plan is made in the frames of the Program: blocks that vanish in the robot's own frames need not vanish
there, and vice versa. If pivots may become weak, the last entry of health measures the loss
(graph/elimination.py); its limit comes from runs of the Program.

Ordering 'best' has the Program with the least cost. The search tries all named orderings. In small graphs it
improves the best one by moving single variables (paper 1, section IV-D, proposes a search there).
"""

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.contact_dynamics import CONTACT_LIMITS, touch_at
from dynamics_node.algorithms.dynamics_programs import cost, problem_program
from dynamics_node.algorithms.first_positions import closed_samples
from dynamics_node.algorithms.health import TRIED, health_limit, usual_size
from dynamics_node.algorithms.reduced_frames import economical_robot, parameter_values
from dynamics_node.codegen.cache import source_digest
from dynamics_node.errors import SingularPivotError
from dynamics_node.graph.contact_factors import ContactState, forces_of_contacts
from dynamics_node.graph.elimination import Plan, eliminate_watched, growth, plan_elimination
from dynamics_node.graph.factor_graph import FactorGraph, joint_values
from dynamics_node.graph.ordering import (
    Ordering,
    chosen_ordering,
    custom_ordering,
    filled,
    generic_graph,
    plan_of,
    possible_plans,
    stacked,
)
from dynamics_node.graph.robot_graph import build_graph, build_spanned_graph
from dynamics_node.robot import Problem, Robot
from dynamics_node.robot.inertial_parameters import generic_parameters
from dynamics_node.robot.reframe import regroup
from dynamics_node.symbolic import Program

SMALL = 24  # variables: an arm of 8 joints
TRIALS = 100
MOSTLY = 0.75  # of the contacts are active at the states of a test run
WORTH_TRYING = 3  # entries of a Bayes net relative to the fewest; a larger one gets no Program
_COUNTED_BY = (
    "dynamics_node.graph",
    "dynamics_node.algorithms",
    "dynamics_node.robot",
    "dynamics_node.symbolic",
)


def elimination_program(
    robot: Robot,
    problem: Problem,
    ordering: str | Ordering | Iterable[str],
    wrenches=False,
    parameters=(),
) -> Program:
    """The Program of an ordering: one of ORDERINGS by name, an Ordering, or names of variables. Other
    arguments, inputs and outputs as in `dynamics_programs`.

    Raises ValueError for an unknown ordering, SingularPivotError (naming the variable) for an impossible one.
    """
    ordering = ordering if isinstance(ordering, (str, Ordering)) else tuple(ordering)
    return _traced(robot, problem, ordering, bool(wrenches), tuple(parameters))


@lru_cache(maxsize=32)  # a build needs it to choose an ordering and to compile it
def _traced(robot, problem, ordering, wrenches, parameters):
    graph = economical_graph(robot, problem, parameters)
    chosen = chosen_ordering(ordering, robot, problem, graph)
    plan = plan_of(problem, graph, chosen.variables)
    return plan_program(robot, problem, plan, wrenches, parameters)


def economical_graph(robot: Robot, problem: Problem, parameters=()) -> FactorGraph:
    """`generic_graph` in the frames of the Program; also with generic values of `parameters`, none of which
    is zero by chance."""
    own, _ = economical_robot(robot)
    graph = generic_graph(own, problem)
    if not parameters:
        return graph
    other = own.with_tree(regroup(generic_parameters(own.tree, parameters)))
    return stacked(generic_graph(other, problem), graph)


def plan_program(
    robot: Robot, problem: Problem, plan: Plan, wrenches=False, parameters=(), tried=True
) -> Program:
    """The Program of a Plan of `economical_graph`. tried: False skips the limits, for counting operations
    only."""
    if plan.safe or not tried:
        usual = {step.variable: 2.0 for step in plan.steps if not step.pivot.safe}
        return _plan_program(robot, problem, plan, usual, wrenches, parameters)
    states = _Tried(robot, problem, plan, parameters)
    program = _plan_program(robot, problem, plan, states.weakness(), wrenches, parameters)
    return replace(program, limits=(*program.limits[:-1], states.limit(program)))


def _plan_program(robot, problem, plan, usual, wrenches, parameters):
    """usual: {variable: typical weakness of its pivot}, for pivots that may be weak; their health has no
    limit yet."""
    forward, zero = np.array(problem.forward, dtype=bool), np.zeros(robot.nv)

    def method(own, rates, q, known, f_ext, gravity, *of_contacts):
        qdd, tau = np.where(forward, zero, known), np.where(forward, known, zero)
        contacts = ContactState(*of_contacts) if of_contacts else None
        graph = build_spanned_graph(own, problem, q, rates.qd, qdd, tau, f_ext, gravity, contacts)
        net, weakness = eliminate_watched(graph, plan)
        values = net.solve()
        qdd, tau = joint_values(own, values, qdd, tau)
        unknowns = np.where(forward, qdd, tau)
        losses = np.array([growth(weakness, usual)] if usual else [])
        if not of_contacts:
            return (unknowns, losses) if usual else unknowns
        touch = touch_at(own.tree, q, problem.contacts, of_contacts[0])
        health = np.concatenate([touch.invalid(), losses])
        return unknowns, forces_of_contacts(own.tree, problem, values, q), health

    limits = [*(CONTACT_LIMITS[1:] if problem.contacts else ()), *[np.inf] * bool(usual)]
    return problem_program(robot, problem, method, wrenches, parameters, limits)


class _Tried:
    """A run of a Plan at random states."""

    def __init__(self, robot, problem, plan, parameters):
        random = np.random.default_rng(23)
        self._own, _ = economical_robot(robot)
        names = tuple(problem.returns(robot))
        self._results = [names[:-1], names[-1:]] if problem.contacts else [names]
        self._plan = plan
        rates = random.uniform(-1, 1, (3, TRIED, robot.nv))
        self._state = dict(zip(("qd", "qdd", "tau"), rates, strict=True)) | {
            "q": closed_samples(self._own, TRIED, random),
            "f_ext": np.zeros((TRIED, robot.nbodies, 6)),
            "gravity": robot.gravity,
            **parameter_values(robot, parameters),
        }
        contacts = self._touched(problem, random) if problem.contacts else None
        q, qd, qdd, tau = (self._state[name] for name in ("q", "qd", "qdd", "tau"))
        graph = build_graph(self._own, problem, q, qd, qdd, tau, contacts=contacts)
        blocks = [factor.blocks for factor in economical_graph(robot, problem, parameters).factors]
        self._graph = filled(graph, blocks)

    def _touched(self, problem, random):
        """The contacts at the states, most of them active."""
        active = (random.uniform(size=(TRIED, len(problem.contacts))) < MOSTLY).astype(float)
        accelerations = random.uniform(-1, 1, (TRIED, len(problem.rows.names)))
        self._state |= {"active": active, "contact_accelerations": accelerations}
        return ContactState(active, accelerations)

    def weakness(self):
        """{variable: typical weakness of its pivot}."""
        _, weakness = eliminate_watched(self._graph, self._plan)
        return {x: usual_size(value) for x, value in weakness.items()}

    def limit(self, program):
        """See `health_limit`."""
        state = {name: self._state[name] for name in program.inputs}
        return health_limit(program, state, self._results)


class OrderedProgram(NamedTuple):
    """An ordering and its Program."""

    ordering: Ordering
    program: Program

    @property
    def cost(self):
        return cost(self.program)


class Memory(NamedTuple):
    """A store of notes by name: read(name) returns bytes, or None if there are none."""

    read: Callable[[str], bytes | None]
    write: Callable[[str, bytes], None]


FORGETFUL = Memory(lambda name: None, lambda name, content: None)


def best_ordering(robot: Robot, problem: Problem, parameters=(), memory=FORGETFUL) -> OrderedProgram:
    """The cheapest ordering. The result of a search is cached.

    Raises SingularPivotError if none of ORDERINGS is possible.
    """
    search = _OrderingSearch(robot, problem, tuple(parameters))
    note = f"ordering-{search.identity()}.json"
    ordering = search.read(memory.read(note))
    if ordering is None:
        ordering = search.best()
        memory.write(note, _written(ordering))
    return OrderedProgram(ordering, elimination_program(robot, problem, ordering, parameters=parameters))


class _OrderingSearch:
    """Orderings of one graph and the costs of their Programs."""

    def __init__(self, robot, problem, parameters):
        self._robot, self._problem, self._parameters = robot, problem, parameters
        self._graph = economical_graph(robot, problem, parameters)

    def read(self, note):
        """The Ordering of a note, None if there is none or it is invalid."""
        try:
            name, variables = json.loads(note or b"null")
            ordering = Ordering(str(name), custom_ordering(variables, self._graph).variables)
            plan_elimination(self._graph, ordering.variables)
        except (ValueError, TypeError):
            return None
        return ordering

    def best(self):
        """The cheapest of the named orderings, improved by a search in small graphs."""
        plans = possible_plans(self._robot, self._problem, self._graph)
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
                cost = self._cost(plan_elimination(self._graph, tuple(order)))
                if cost < least:
                    best, least = Ordering("searched", tuple(order)), cost
        return best

    def identity(self):
        """Hash of all that the search depends on, also of the code that counts operations."""
        robot = self._robot.tree
        joints = [body.joint for body in robot.bodies]
        numbers = [
            robot.inertias,
            robot.armature,
            robot.axle_map,
            *(body.X_tree for body in robot.bodies),
            *(joint.S for joint in joints),
        ]
        structure = (robot.parents, [joint.v for joint in joints], [str(f) for f in self._graph.factors])
        text = repr((source_digest(*_COUNTED_BY), structure, self._problem, self._parameters, SMALL, TRIALS))
        content = text.encode() + b"".join(np.ascontiguousarray(n).tobytes() for n in numbers)
        return hashlib.sha256(content).hexdigest()


def _written(ordering):
    """The note of an ordering."""
    return json.dumps([ordering.name, [str(variable) for variable in ordering.variables]]).encode()
