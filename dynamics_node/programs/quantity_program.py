"""Quantities of a robot as Programs, with loops or without."""

import numpy as np

from dynamics_node.algorithms import pivots
from dynamics_node.algorithms.pivots import dynamics_health, weak_coordinates
from dynamics_node.loops import health as loops_health
from dynamics_node.loops import pivots as loops_pivots
from dynamics_node.loops.health import loop_health
from dynamics_node.loops.mechanism import Mechanism
from dynamics_node.model import Model
from dynamics_node.problem import state_shapes
from dynamics_node.program import Program
from dynamics_node.programs.economical import economical_program
from dynamics_node.programs.quantities import QUANTITIES


def quantity_program(robot: Model | Mechanism, name: str, parameters=(), **options) -> Program:
    """The Program of a quantity of QUANTITIES, in the way that takes the fewest operations. Arguments and
    errors as of `quantity_programs`."""
    programs = quantity_programs(robot, name, parameters, **options)
    return min(programs.values(), key=lambda program: len(program.ops))


def quantity_programs(robot: Model | Mechanism, name: str, parameters=(), **options) -> dict[str, Program]:
    """{what it is, for people: the Program} of the ways to compute a quantity: inputs and outputs as in
    QUANTITIES, then parameters and health as of `dynamics_programs`.

    options: those of the quantity, by keyword. Raises ValueError for an unknown name, KeyError for an unknown
    link or joint."""
    if name not in QUANTITIES:
        raise ValueError(f"unknown quantity {name!r}; there are {', '.join(QUANTITIES)}")
    quantity = QUANTITIES[name]
    if quantity.write is not None:
        return {"derived": quantity.write(robot, parameters, **options)}
    robot = quantity.seen(robot, options)
    if isinstance(robot, Mechanism):
        if quantity.inverts:
            options["watched"] = loops_pivots.weak_coordinates(robot)
        ways = {way: _of_clusters(function) for way, function in quantity.clusters.items()}
        limits = loops_health.HEALTHY
    else:
        watched = weak_coordinates(robot) if quantity.inverts else np.zeros(robot.nv, dtype=bool)
        ways = {"tree": _of_tree(quantity.tree, watched)}
        limits = pivots.HEALTHY if watched.any() else np.zeros(0)
    reads = state_shapes(robot, quantity.reads)

    def program(way):
        def function(own, **arrays):
            results, health = way(own, *arrays.values(), **options)
            found = dict(zip(quantity.returns, results, strict=True))
            return found | ({"health": health} if len(limits) else {})

        return economical_program(
            robot, reads, function, parameters, limits, quantity.regrouped, quantity.reframed
        )

    return {description: program(way) for description, way in ways.items()}


def _of_tree(function, watched):
    """Results and health of a quantity of a Model; watched (nv,) as in `dynamics_health`."""

    def way(model, q, *arrays, **options):
        results = function(model, q, *arrays, **options)
        if not watched.any():
            return results, None
        every = np.ones(model.nv, dtype=bool)
        return results, dynamics_health(model, q, every, watched)

    return way


def _of_clusters(function):
    """Results and health of a quantity of a Mechanism."""

    def way(mechanism, q, *arrays, **options):
        results, condition = function(mechanism, q, *arrays, **options)
        return results, loop_health(mechanism, q, condition)

    return way
