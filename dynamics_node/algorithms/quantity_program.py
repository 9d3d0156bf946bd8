"""Quantities of a robot as Programs."""

from typing import Any

import numpy as np

from dynamics_node.algorithms.dynamics_programs import dynamics_programs
from dynamics_node.algorithms.health import health, health_limits
from dynamics_node.algorithms.pivots import weak_coordinates
from dynamics_node.algorithms.quantities import QUANTITIES
from dynamics_node.algorithms.reduced_frames import economical_program
from dynamics_node.robot import Robot, state_shapes


def quantity_program(robot: Robot, name: str, parameters=(), wrenches=False, **options) -> Any:
    """The Program of a quantity of QUANTITIES, in the way that takes the fewest operations. Arguments and
    errors as of `quantity_programs`."""
    programs = quantity_programs(robot, name, parameters, wrenches, **options)
    return min(programs.values(), key=lambda program: program.length)


def quantity_programs(robot: Robot, name: str, parameters=(), wrenches=False, **options) -> dict[str, Any]:
    """{what it is, for people: the Program} of the ways to compute a quantity: inputs and outputs as in
    QUANTITIES, f_ext if there are `wrenches`, then parameters and health as of `dynamics_programs`.

    options: those of the quantity, by keyword. Raises ValueError for an unknown name, KeyError for an unknown
    link or joint."""
    if name not in QUANTITIES:
        raise ValueError(f"unknown quantity {name!r}; there are {', '.join(QUANTITIES)}")
    quantity = QUANTITIES[name]
    if quantity.problem is not None:
        problem = quantity.problem(robot, **options)
        if quantity.write is None:
            return dynamics_programs(robot, problem, wrenches, parameters)
        return {"derived": quantity.write(robot, problem, wrenches, parameters)}
    robot = quantity.seen(robot, options)
    every = np.full(robot.nv, quantity.inverts)
    watched = weak_coordinates(robot, every)
    limits = np.concatenate([health_limits(robot, watched), quantity.limits])
    reads = state_shapes(robot, quantity.reads + ("f_ext",) * (wrenches and quantity.wrenches))

    def program(way):
        def function(own, q, qd=None, **arrays):
            rates = quantity.rates(own, q, qd)
            results = way(own, rates, q, *arrays.values(), **options)
            found = dict(zip(quantity.returns, results, strict=not quantity.limits))
            if len(limits):
                more = results[-1] if quantity.limits else ()
                found["health"] = np.concatenate([health(own, q, rates, every, watched), more])
            return found

        return economical_program(
            robot, reads, function, parameters, limits, quantity.regrouped, quantity.reframed
        )

    return {description: program(way) for description, way in quantity.ways(robot).items()}
