"""The recursions, run by NumPy."""

from dataclasses import dataclass, replace

import numpy as np

from dynamics_node.algorithms import aba, mass_matrix_dynamics, rnea
from dynamics_node.model import Model
from dynamics_node.problem import Problem


@dataclass(frozen=True, eq=False)
class Recursion:
    """RNEA where every torque is asked, else ABA; with mimic joints the mass matrix."""

    model: Model
    problem: Problem

    def with_model(self, model):
        """The recursion for a Model that differs in inertias or rotor inertias only."""
        return replace(self, model=model)

    @property
    def description(self):
        if self.problem.kind == "inverse":
            return "rnea"
        return "crba + solve" if self.model.has_mimic else "aba"

    def __call__(self, q, qd, qdd=None, tau=None, gravity=None, f_ext=None):
        """{'qdd', 'tau'}, complete, or 'tau' alone of inverse dynamics."""
        if self.problem.kind == "inverse":
            return {"tau": rnea(self.model, q, qd, qdd, f_ext, gravity)}
        solve = mass_matrix_dynamics if self.model.has_mimic else aba
        qdd = np.zeros_like(qd) if qdd is None else qdd
        found = solve(self.model, q, qd, tau, qdd, np.array(self.problem.forward), f_ext, gravity)
        return dict(zip(("qdd", "tau"), found, strict=True))
