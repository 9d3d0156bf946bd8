"""Quantities of a tree, run by NumPy."""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from dynamics_node.algorithms.first_positions import closed_samples
from dynamics_node.algorithms.projection import Identity
from dynamics_node.algorithms.quantities import QUANTITIES
from dynamics_node.robot import Robot, Shapes, state_shapes


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
        return {name: np.shape(array) for name, array in self(**state).items()}

    @property
    def description(self):
        return self.name

    def with_model(self, model):
        """The quantity of a robot that differs in inertias or rotor inertias only."""
        return replace(self, model=model)

    def __call__(self, q, qd=None, **arrays):
        """See the package."""
        quantity = QUANTITIES[self.name]
        results = quantity.way(self.model, Identity(self.model.nv, qd), q, *arrays.values(), **self.options)
        return dict(zip(quantity.returns, results, strict=True))
