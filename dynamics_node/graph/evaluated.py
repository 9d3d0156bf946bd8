"""A system of symbols at given states, with the structure it has as symbols."""

from dataclasses import replace
from itertools import accumulate

import numpy as np

from dynamics_node.graph.sensor_system import SensorSystem
from dynamics_node.symbolic import Expression, interpret, trace


def at_states(function, reads, state) -> SensorSystem:
    """The system that function(**symbols) gives, as numbers at states {input: (count, *shape)}; what is the
    same at all of them has no leading axis. reads: {input: shape}."""
    traced: list[SensorSystem] = []

    def flat(**symbols):
        traced.append(function(**symbols))
        return {"all": np.concatenate([np.ravel(array) for array in _arrays(traced[0])])}

    values = interpret(trace(flat, reads), **state)["all"]
    starts = iter(accumulate((array.size for array in _arrays(traced[0])), initial=0))

    def numbers(array):
        start = next(starts)
        found = values[:, start : start + array.size].reshape(-1, *array.shape)
        return found if any(isinstance(x, Expression) for x in np.ravel(array)) else found[0]

    def evaluated(factor):
        return replace(
            factor, blocks={x: numbers(B) for x, B in factor.blocks.items()}, rhs=numbers(factor.rhs)
        )

    exact, noisy = (tuple(map(evaluated, factors)) for factors in (traced[0].exact, traced[0].noisy))
    return traced[0]._replace(exact=exact, noisy=noisy)


def _arrays(system):
    """Blocks and right-hand sides, factor by factor."""
    for factor in (*system.exact, *system.noisy):
        yield from (np.asarray(array) for array in (*factor.blocks.values(), factor.rhs))
