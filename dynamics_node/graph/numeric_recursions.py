"""The recursions of a tree, run by NumPy."""

from dataclasses import dataclass, replace

import numpy as np

from dynamics_node.algorithms.dynamics_programs import dynamics_methods
from dynamics_node.algorithms.projection import Identity
from dynamics_node.robot import Problem, Robot


@dataclass(frozen=True, eq=False)
class Recursion:
    """The first of `dynamics_methods`."""

    model: Robot
    problem: Problem

    def with_model(self, model):
        """The recursion for a Robot that differs in inertias or rotor inertias only."""
        return replace(self, model=model)

    @property
    def description(self):
        return next(iter(dynamics_methods(self.model, self.problem)))

    def __call__(self, q, qd, qdd=None, tau=None, gravity=None, f_ext=None):
        """{'qdd', 'tau'}, complete, or 'tau' alone of inverse dynamics."""
        method = dynamics_methods(self.model, self.problem)[self.description]
        forward, zero = np.array(self.problem.forward, dtype=bool), np.zeros_like(qd)
        qdd, tau = zero if qdd is None else qdd, zero if tau is None else tau
        known = np.where(forward, tau, qdd)
        asked = method(self.model, Identity(self.model.nv, qd), q, known, f_ext, gravity)
        complete = {"qdd": np.where(forward, asked, qdd), "tau": np.where(forward, tau, asked)}
        return {name: complete[name] for name in self.problem.returns(self.model)}
