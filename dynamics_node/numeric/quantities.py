"""Quantities of a robot, run by NumPy."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from dynamics_node.algorithms import (
    bias,
    carried_wrench,
    crba,
    link_jacobian,
    momentum,
    operational_space_inertia,
)
from dynamics_node.loops.mechanism import Mechanism
from dynamics_node.loops.momentum import mechanism_momentum
from dynamics_node.loops.numeric import (
    mechanism_bias,
    mechanism_carried_wrench,
    mechanism_jacobian,
    mechanism_mass_matrix,
    mechanism_operational_space_inertia,
)
from dynamics_node.model import Model
from dynamics_node.problem import Shapes

# name: (of a Model, of a Mechanism), functions of (robot, arrays, options) -> array or arrays
FUNCTIONS: dict[str, tuple[Callable, Callable]] = {
    "mass_matrix": (crba, mechanism_mass_matrix),
    "bias": (bias, mechanism_bias),
    "momentum": (momentum, mechanism_momentum),
    "link_jacobian": (link_jacobian, mechanism_jacobian),
    "operational_space_inertia": (operational_space_inertia, mechanism_operational_space_inertia),
    "carried_wrench": (carried_wrench, mechanism_carried_wrench),
}
RETURNS = {
    "momentum": ("momentum", "rate"),
    "link_jacobian": ("jacobian",),
    "operational_space_inertia": ("inverse_inertia", "jacobian"),
    "carried_wrench": ("wrench",),
}


@dataclass(frozen=True, eq=False)
class NumericQuantity:
    """name: of FUNCTIONS; options: those of the quantity; model: as its `view` shows it. Raises KeyError for
    an unknown link."""

    model: Model | Mechanism
    name: str
    options: dict = field(default_factory=dict)

    def __post_init__(self):
        for link in self._links:
            self.model.frame(link)

    @property
    def _links(self):
        link = self.options.get("link")
        return self.options.get("links", () if link is None else (link,))

    @property
    def returns(self) -> Shapes:
        """{name: shape} of the results."""
        nv, rows = self.model.nv, 6 * len(self._links)
        shapes = {
            "mass_matrix": (nv, nv),
            "bias": (nv,),
            "momentum": (nv,),
            "rate": (nv,),
            "jacobian": (rows, nv),
            "inverse_inertia": (rows, rows),
            "wrench": (6,),
        }
        return {name: shapes[name] for name in RETURNS.get(self.name, (self.name,))}

    @property
    def description(self):
        return self.name

    def with_model(self, model):
        """The quantity of a robot that differs in inertias or rotor inertias only."""
        return replace(self, model=model)

    def __call__(self, **arrays):
        """See the package."""
        of_tree, of_loops = FUNCTIONS[self.name]
        function = partial(of_loops if isinstance(self.model, Mechanism) else of_tree, self.model)
        found = function(**arrays, **self.options)
        return dict(zip(self.returns, found if isinstance(found, tuple) else (found,), strict=True))
