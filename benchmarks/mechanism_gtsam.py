"""Fixed-lag smoothing as paper 2 has it: gtsam.BatchFixedLagSmoother, whose Levenberg-Marquardt linearises
custom factors, exact ones with a small standard deviation, by QR. They call our compiled Programs.

With its default tolerances, 1e-5, a Panda's positions are wrong by 8e-6 rad after 300 steps of 1 ms, with
these by 2e-9; Gauss-Newton with constraints is wrong by 1e-15.
"""

import numpy as np

from dynamics_node.codegen import make
from dynamics_node.trajectory.fixed_lag import prediction_program
from dynamics_node.trajectory.gtsam_factors import Window, known_by

SOFT = 1e-6
RELATIVE, ABSOLUTE = 1e-9, 1e-15  # of the cost


class PaperSmoother:
    """Steps of a graph, at most `count`, that are told the same numbers."""

    def __init__(self, graph, window, prior, count, numbers):
        import gtsam

        self.gtsam, self.graph = gtsam, graph
        self.window = Window(graph.steps(count), known_by(graph, prior))
        for name, value in (prior.values | numbers).items():
            self.window.steps[name][:] = value
        params = gtsam.LevenbergMarquardtParams()
        params.setLinearSolverType("MULTIFRONTAL_QR")
        params.setRelativeErrorTol(RELATIVE)
        params.setAbsoluteErrorTol(ABSOLUTE)
        self.smoother = gtsam.BatchFixedLagSmoother(window - 1, params)
        self.predict = make(prediction_program(graph))
        self.done = self.iterations = 0

    def append(self):
        """One step more."""
        now, factors, stored = self.done, self.gtsam.NonlinearFactorGraph(), self.graph.stored
        if now:
            arrays = self.stored(max(0, now - 2)), self.stored(now - 1), self.window.steps["dt"][now - 1]
            found, _ = self.predict.run(1, [array[None] for array in arrays])
            self.window.steps.rows[now, :stored] = found[0][0]
        for factor in self.window.links(now - 1) if now else [self.window.first()]:
            factors.push_back(factor)
        for factor in self.window.factors(now, SOFT):
            factors.push_back(factor)
        stamps = {key: float(now) for key in self.window.keys(now)}
        result = self.smoother.update(factors, self.window.still([now]), stamps)
        self.iterations += result.getIterations()
        self.done += 1

    def stored(self, step):
        """(stored,): the variables of a step of the window, as they are estimated."""
        at, steps = self.smoother.calculateEstimateVector, self.window.steps
        found = [
            variable.moved(steps[variable.name][step], at(self.window.key(variable.name, step)))
            for variable in self.window.variables
        ]
        return np.concatenate(found)
