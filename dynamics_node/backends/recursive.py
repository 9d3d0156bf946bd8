"""The recursions, run by numpy."""

from dataclasses import dataclass, replace

import numpy as np

from dynamics_node.algorithms import aba, mass_matrix_dynamics, rnea
from dynamics_node.model import Model
from dynamics_node.problem import Problem


@dataclass(frozen=True, eq=False)
class RecursiveEngine:
    """RNEA where every torque is asked, else ABA; with mimic joints the mass matrix."""

    model: Model
    problem: Problem
    straight_line = True  # nothing is decided at run time: it can be traced
    regroups = True  # no body's inertia is read alone: base parameters will do

    def with_model(self, model):
        """The same for a Model of other inertias or rotor inertias."""
        return replace(self, model=model)

    @property
    def description(self):
        if self.problem.kind == "inverse":
            return "rnea"
        return "crba + solve" if self.model.has_mimic else "aba"

    def __call__(self, q, qd, qdd, tau, f_ext, gravity):
        if self.problem.kind == "inverse":
            return qdd, rnea(self.model, q, qd, qdd, f_ext, gravity)
        solve = mass_matrix_dynamics if self.model.has_mimic else aba
        forward = np.array(self.problem.forward)
        return solve(self.model, q, qd, tau, qdd, forward, f_ext, gravity)
