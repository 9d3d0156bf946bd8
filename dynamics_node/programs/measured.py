"""A measured problem as a Program: any sensors in place of torques or accelerations that are known.

Rows and columns are permuted once, in the frames of the Program (graph/markowitz.py, graph/estimate.py). The
last entry of health tells what digits pivots that vary lose; its limit is found by trying the Program.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from dynamics_node.graph.estimate import Estimate, EstimatePlan, estimate, plan_estimate, refined, spread
from dynamics_node.graph.measured import MeasuredSystem, measured_values, spanned_measured_system
from dynamics_node.loops import health as loops_health
from dynamics_node.loops.first_positions import closed_samples
from dynamics_node.loops.health import loop_health
from dynamics_node.loops.mechanism import Mechanism, tree_of, with_tree
from dynamics_node.loops.rates import explicit_rates
from dynamics_node.model import Model
from dynamics_node.model.parameters import generic_parameters
from dynamics_node.model.regroup import regroup
from dynamics_node.model.sample import sample_positions
from dynamics_node.problem.measured import Measured
from dynamics_node.program import Program, interpret, trace
from dynamics_node.programs.economical import economical, parameter_shapes, parameter_values, with_inputs
from dynamics_node.sensors import ForceTorque
from dynamics_node.spatial import matvec, transpose

STATES, TRIED = 6, 32
ERROR = 1e-10  # of a result that its health lets pass, beside the largest entry
ROUNDING = 1e-15  # of results of which nothing is lost
RESULTS = ("qdd", "tau", "f_ext")


def measured_program(robot: Model | Mechanism, problem: Measured, parameters=(), wrenches=False) -> Program:
    """The Program of a measured problem: inputs and outputs are those that it reads and returns, then health.

    parameters: of 'inertia' and 'armature', those that are inputs, see `parameter_values`; wrenches: are
    among what it returns already. Raises NoPivotError where sensors leave something undetermined at generic
    states, RedundantError where exact rows imply each other.
    """
    return _Writing(robot, problem, tuple(parameters)).program()


def regroups(problem: Measured):
    """Whether base parameters serve: where no wrench at a joint is read, which alone would tell."""
    return not any(isinstance(sensor, ForceTorque) for sensor in problem.sensors)


class _Writing:
    """What is known before a Program is written."""

    def __init__(self, robot, problem, parameters):
        self.robot, self.problem, self.parameters = robot, problem, parameters
        self.regrouped = regroups(problem)
        self.own, self.T = economical(robot, self.regrouped)
        generic, _ = self.system(self.generic(), STATES, seed=20)
        self.labels = [label for labels in generic.labels for label in labels]
        self.plan: EstimatePlan = plan_estimate(generic)

    def generic(self):
        """The robot with parameters that are zero nowhere by chance."""
        if not self.parameters:
            return self.own
        tree = generic_parameters(tree_of(self.own), self.parameters)
        return with_tree(self.own, regroup(tree) if self.regrouped else tree)

    def program(self):
        tried, state = self.system(self.own, TRIED, seed=23)
        first = estimate(self.plan, tried)
        self.sizes = {k: float(np.median(np.abs(pivot))) for k, pivot in first.lu.pivots.items()}
        self.usual = {k: _median(found) for k, found in first.lu.weakness(self.sizes).items()}
        self.leverage = _median(first.leverage) if self.plan.redundant else None
        if not self.usual and self.leverage is None and not isinstance(self.robot, Mechanism):
            return self.traced(())
        limits = loops_health.HEALTHY.tolist() if isinstance(self.robot, Mechanism) else []
        program = self.traced((*limits, np.inf))
        return replace(program, limits=(*limits, self.limit(program, tried, state)))

    def system(self, own, count, seed) -> tuple[MeasuredSystem, dict]:
        """Of a robot in the frames of the Program, at `count` random states; and the states."""
        random = np.random.default_rng(seed)
        sample = closed_samples if isinstance(self.robot, Mechanism) else sample_positions
        q = sample(own, count, random)
        qd = random.uniform(-1, 1, (count, self.robot.nv))
        readings = random.uniform(-1, 1, (count, len(self.problem.readings)))
        rates = own.spanning(q, qd)[1] if isinstance(self.robot, Mechanism) else qd
        system = spanned_measured_system(own, self.problem, q, rates, readings, self.robot.gravity)
        return system, {
            "q": q,
            "qd": qd,
            "readings": readings,
            "gravity": self.robot.gravity,
            **parameter_values(self.robot, self.parameters, regrouped=self.regrouped),
        }

    def traced(self, limits):
        reads = self.problem.reads(self.robot) | parameter_shapes(self.robot, self.parameters)
        return trace(partial(self.function, health=bool(limits)), reads, limits)

    def function(self, q, qd, readings, gravity, health, inertia=None, armature=None):
        own = with_inputs(self.own, inertia, armature, self.regrouped)
        judged, rates = np.zeros(0), qd
        if isinstance(self.robot, Mechanism):
            G, _, condition = explicit_rates(own, q, qd)
            judged, rates = loop_health(own, q, condition), G @ qd
        system = spanned_measured_system(own, self.problem, q, rates, readings, gravity)
        found = estimate(self.plan, system, responses=bool(self.problem.covariance))
        qdd, tau, f_ext = self.results(found.values)
        results = {"qdd": qdd, "tau": tau, "f_ext": f_ext}
        results["residuals"] = self.of_readings(found.residuals)
        results["chi_square"] = found.chi_square
        for name in self.problem.covariance:
            results[f"{name}_covariance"] = self.covariance(name, found.gain)
        if health:
            results["health"] = np.append(judged, self.growth(found))
        return results

    def results(self, values):
        """qdd, tau and f_ext, in the robot's own frames."""
        qdd, tau, f_ext = measured_values(self.own, self.problem, values)
        return qdd, tau, matvec(transpose(self.T), f_ext)

    def covariance(self, name, gain):
        """Of qdd or tau (nv, nv), of f_ext (nbodies, 6, 6)."""
        if name != "f_ext":
            return spread(self.plan, gain, lambda values: self.results(values)[RESULTS.index(name)])
        found = np.zeros((self.robot.nbodies, 6, 6), dtype=object)
        for body in {tree_of(self.robot).frame(contact.link).body for contact in self.problem.contacts}:
            found[body] = spread(self.plan, gain, lambda values, i=body: self.results(values)[2][i])
        return found

    def of_readings(self, residuals):
        """Those of all noisy rows -> (m,) of the readings; what is known beforehand is not read."""
        number = {label: k for k, label in enumerate(self.problem.readings)}
        found = np.zeros(len(number), dtype=object)
        for k, label in enumerate(self.labels):
            if label in number:
                found[number[label]] = residuals[k]
        return found

    def growth(self, found: Estimate):
        """What digits are lost by, squared: the product over all that may lose some, beside what is usual."""
        total = 1.0
        for number, value in found.lu.weakness(self.sizes).items():
            total = total * (1.0 + value * (1.0 / self.usual[number]))
        if self.leverage is not None:
            leverage = found.leverage * (1.0 / self.leverage)
            total = total * (1.0 + leverage * leverage)
        return total

    def limit(self, program, tried, state):
        """Of the last entry of health: what it is where a result misses the refined one by ERROR."""
        found = interpret(program, **state)
        missed = np.full(TRIED, ROUNDING)
        for name, right in zip(RESULTS, self.results(refined(self.plan, tried)), strict=True):
            axes = tuple(range(1, right.ndim))
            size = np.maximum(np.abs(right).max(axis=axes, initial=0.0), 1e-6)
            missed = np.maximum(missed, np.abs(found[name] - right).max(axis=axes, initial=0.0) / size)
        return float((ERROR / np.nanmax(missed / np.sqrt(found["health"][:, -1]))) ** 2)


def _median(values):
    """What is usual; 1 where that is nothing."""
    return float(np.nanmedian(values)) or 1.0
