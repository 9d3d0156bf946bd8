"""A factor of a trajectory: an error of the variables of a step, and of the step after it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from dynamics_node.robot import Shapes
from dynamics_node.symbolic import Program, derivative_name, interpret, jacobian, trace
from dynamics_node.trajectory.losses import Loss
from dynamics_node.trajectory.variables import Variable

NEXT = "_next"


@dataclass(frozen=True, eq=False, kw_only=True)
class Factor:
    """An error that is near zero, or exactly zero, at every step of a trajectory.

    residual: function of named arrays of symbols -> (rows,): the variables `now` of a step by their names,
    those of the step after it, `after`, with `_next` behind the name, and `data`, {name: shape}, numbers
    that are told at every step (factors that name the same data share them). rows: names of the rows, for
    people. determines: of an exact factor the direction (variable, number) of its own step that each row
    determines when all others are known; empty: the factor has a variance at every step. definite: the
    Jacobian by what is determined is symmetric and positive definite, as a mass matrix. loss: of outliers.
    """

    name: str
    residual: Callable
    rows: tuple[str, ...]
    now: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    data: Shapes = field(default_factory=dict)
    determines: tuple[tuple[str, int], ...] = ()
    definite: bool = False
    loss: Loss | None = None

    def __post_init__(self):
        if self.exact and len(self.determines) != len(self.rows):
            raise ValueError(
                f"factor {self.name!r}: {len(self.rows)} rows determine {len(self.determines)} directions"
            )
        if self.exact and (self.after or self.loss):
            raise ValueError(f"factor {self.name!r}: an exact factor is of one step and has no loss")

    @property
    def exact(self):
        return bool(self.determines)

    @property
    def variables(self):
        """(name of the variable, 0 of its step or 1 of the next one, name of the argument)"""
        return (
            *((name, 0, name) for name in self.now),
            *((name, 1, name + NEXT) for name in self.after),
        )


@lru_cache(maxsize=512)
def factor_program(factor: Factor, variables: tuple[Variable, ...]) -> Program:
    """The arguments of `residual` -> residual (rows,), and for every variable its Jacobian, (rows, tangent),
    an output `by ARGUMENT`. variables: those that the factor names, in any order."""
    known = {variable.name: variable for variable in variables}
    places = {argument: known[name] for name, _, argument in factor.variables}
    shapes = {argument: (variable.size,) for argument, variable in places.items()} | factor.data
    value = trace(lambda **arrays: {"residual": factor.residual(**arrays)}, shapes)
    if value.outputs["residual"].shape != (len(factor.rows),):
        raise ValueError(f"factor {factor.name!r}: {value.outputs['residual'].shape} rows, not {factor.rows}")
    derived = jacobian(value, ["residual"], list(places))

    def function(**arrays):
        found = {"residual": interpret(value, **arrays)["residual"]}
        by = interpret(derived, **arrays)
        for argument, variable in places.items():
            J = by[derivative_name("residual", argument)]
            found[f"by {argument}"] = J @ variable.tangent_map(arrays[argument]) + np.zeros(1)
        return found

    return trace(function, shapes)
