"""The recursions, run by numpy."""

from dataclasses import dataclass, replace

import numpy as np

from dynamics_node.algorithms import aba, mass_matrix_dynamics, rnea
from dynamics_node.model import Model
from dynamics_node.problem import Problem


@dataclass(frozen=True, eq=False)
class RecursiveEngine:
    """RNEA where every torque is asked, else ABA or the mass matrix; with mimic joints the mass matrix."""

    model: Model
    problem: Problem
    by_mass_matrix: bool = False

    def with_model(self, model):
        """The same for a Model of other inertias or rotor inertias."""
        return replace(self, model=model)

    def prepare(self, batches):
        """Nothing is left to do."""

    @property
    def description(self):
        if self.problem.kind == "inverse":
            return "rnea"
        return "crba + solve" if self.by_mass_matrix else "aba"

    def __call__(self, q, qd, qdd, tau, f_ext, gravity):
        if self.problem.kind == "inverse":
            return qdd, rnea(self.model, q, qd, qdd, f_ext, gravity)
        solve = mass_matrix_dynamics if self.by_mass_matrix else aba
        forward = np.array(self.problem.forward)
        return solve(self.model, q, qd, tau, qdd, forward, f_ext, gravity)


def recursive_engines(model: Model, problem: Problem) -> list[RecursiveEngine]:
    """All that can solve the problem; numpy runs the first one fastest."""
    if problem.kind == "inverse":
        return [RecursiveEngine(model, problem)]
    by_mass_matrix = RecursiveEngine(model, problem, by_mass_matrix=True)
    return [by_mass_matrix] if model.has_mimic else [RecursiveEngine(model, problem), by_mass_matrix]
