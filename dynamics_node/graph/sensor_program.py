"""A sensor problem as a Program: sensors in place of known torques or accelerations.

Rows and columns are permuted once, in the frames of the Program (graph/pivot_search.py, graph/estimate.py).
The equations are used as they are and in finer parts (graph/finer.py), and the shorter Program is chosen. The
last entry of health measures the loss of digits of varying pivots; its limit comes from runs of the Program.
"""

from dataclasses import replace
from functools import partial
from itertools import accumulate

import numpy as np

from dynamics_node.algorithms.first_positions import closed_samples
from dynamics_node.algorithms.health import TRIED, health, health_limit, health_limits, usual_size
from dynamics_node.algorithms.rates import rates_at
from dynamics_node.algorithms.reduced_frames import (
    economical_robot,
    parameter_shapes,
    robot_values,
    with_inputs,
)
from dynamics_node.algorithms.wheels import LEANING
from dynamics_node.graph.elimination import growth
from dynamics_node.graph.estimate import (
    EstimatePlan,
    SystemSolution,
    choose_basis,
    estimate,
    plan_estimate,
    spread,
)
from dynamics_node.graph.finer import finer
from dynamics_node.graph.sensor_system import (
    SensorSystem,
    sensor_system,
    sensor_values,
    spanned_sensor_system,
)
from dynamics_node.robot import Robot
from dynamics_node.robot.inertial_parameters import generic_parameters
from dynamics_node.robot.reframe import regroup
from dynamics_node.robot.sensor_problem import RESULTS, SensorProblem
from dynamics_node.robot.sensors import ForceTorque
from dynamics_node.symbolic import Expression, Program, interpret, matvec, trace, transpose

STATES = 6


def at_states(function, reads, state) -> SensorSystem:
    """The system of function(**symbols), as numbers at states {input: (count, *shape)}; arrays equal at all
    states have no leading axis. reads: {input: shape}."""
    traced: list[SensorSystem] = []

    def flat(**symbols):
        traced.append(function(**symbols))
        return {"all": np.concatenate([np.ravel(array) for array in _arrays(traced[0])])}

    values = interpret(trace(flat, reads), **state)["all"]
    starts = iter(accumulate((array.size for array in _arrays(traced[0])), initial=0))

    def numbers(array):
        start = next(starts)
        numbers_at = values[:, start : start + array.size].reshape(-1, *array.shape)
        return numbers_at if any(isinstance(x, Expression) for x in np.ravel(array)) else numbers_at[0]

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


def sensor_program(robot: Robot, problem: SensorProblem, parameters=()) -> Program:
    """The Program of a sensor problem: its inputs and outputs, then health.

    parameters: those of 'inertia' and 'armature' that are inputs, see `parameter_values`. Raises
    NoPivotError if sensors do not determine generic states, RedundantError if exact rows imply each other.
    """
    write = partial(_Writing, robot, problem, tuple(parameters))
    fine = write(fine=True)
    if not fine.plan.lu.fill:
        return fine.program()
    writings = (fine, write(fine=False))
    fewest = min(writing.plan.lu.weak for writing in writings)
    programs = [writing.program() for writing in writings if writing.plan.lu.weak == fewest]
    return min(programs, key=lambda program: len(program.ops))


def regroups(problem: SensorProblem):
    """Whether base parameters suffice: no sensor reads the wrench at a joint."""
    return not any(isinstance(sensor, ForceTorque) for sensor in problem.sensors)


class _Writing:
    """The data for writing a Program. fine: from the equations of graph/finer.py, which cost less without
    fill-in."""

    def __init__(self, robot, problem, parameters, fine):
        self.robot, self.problem, self.parameters, self.fine = robot, problem, parameters, fine
        self.regrouped = regroups(problem)
        self.wheels = any(contact.kind == "wheel" for contact in problem.contacts)
        self.reframed, self.T = economical_robot(robot, self.regrouped)
        self.reads = problem.reads(robot) | parameter_shapes(robot, parameters)
        generic = self.generic()
        state = self.states(generic, STATES, seed=20)
        coarse = sensor_system(generic, problem, state["q"], state["qd"], state["readings"])
        self.labels = [label for labels in coarse.labels for label in labels]
        numbers = at_states(self.system, self.reads, state)
        self.plan: EstimatePlan = plan_estimate(numbers, choose_basis(coarse))

    def generic(self):
        """The robot with generic parameters, without accidental zeros."""
        if not self.parameters:
            return self.reframed
        tree = generic_parameters(self.reframed.tree, self.parameters)
        return self.reframed.with_tree(regroup(tree) if self.regrouped else tree)

    def program(self):
        state = self.states(self.reframed, TRIED, seed=23)
        tried = at_states(self.system, self.reads, state)
        first = estimate(self.plan, tried)
        self.sizes = {k: usual_size(np.abs(pivot)) for k, pivot in first.lu.pivots.items()}
        self.usual = {k: usual_size(weakness) for k, weakness in first.lu.weakness(self.sizes).items()}
        self.leverage = usual_size(first.leverage) if self.plan.redundant else None
        limits = [*health_limits(self.robot).tolist(), *[LEANING] * self.wheels]
        if not self.usual and self.leverage is None and not limits:
            return self.traced(())
        program = self.traced((*limits, np.inf))
        return replace(program, limits=(*limits, health_limit(program, state, [(name,) for name in RESULTS])))

    def states(self, robot, count, seed):
        """{input: array} of a robot in the frames of the Program, at `count` random states."""
        random = np.random.default_rng(seed)
        state = {
            "q": closed_samples(robot, count, random),
            "qd": random.uniform(-1, 1, (count, self.robot.nv)),
        }
        state["readings"] = random.uniform(-1, 1, (count, len(self.problem.readings)))
        values = robot_values(robot.tree)
        return state | {"gravity": self.robot.gravity} | {name: values[name] for name in self.parameters}

    def system(self, q, qd, readings, gravity, inertia=None, armature=None) -> SensorSystem:
        """On symbols."""
        robot = with_inputs(self.reframed, inertia, armature, self.regrouped)
        rates = rates_at(robot, q, qd, explicit=True).qd
        system = spanned_sensor_system(robot, self.problem, q, rates, readings, gravity)
        return finer(system, robot.tree, q, rates, gravity) if self.fine else system

    def traced(self, limits):
        return trace(partial(self.function, with_health=bool(limits)), self.reads, limits)

    def function(self, q, qd, with_health, **arrays):
        system = self.system(q, qd, **arrays)
        solution = estimate(self.plan, system, responses=bool(self.problem.covariance))
        results = dict(zip(RESULTS, self.results(system, solution.values), strict=True))
        results["residuals"] = self.of_readings(solution.residuals)
        results["chi_square"] = solution.chi_square
        for name in self.problem.covariance:
            results[f"{name}_covariance"] = self.covariance(name, system, solution.gain)
        if with_health:
            closed = health(self.reframed, q, rates_at(self.reframed, q, qd, explicit=True))
            leaning = [sum(contact.leaning for contact in system.contacts)] * self.wheels
            results["health"] = np.concatenate([closed, leaning, [self.growth(solution)]])
        return results

    def results(self, system, values):
        """qdd, tau and f_ext, in the robot's own frames."""
        qdd, tau, f_ext = sensor_values(self.reframed, system, values)
        return qdd, tau, matvec(transpose(self.T), f_ext)

    def covariance(self, name, system, gain):
        """Covariance of qdd or tau (nv, nv), or of f_ext (nbodies, 6, 6)."""
        if name != "f_ext":
            return spread(self.plan, gain, lambda values: self.results(system, values)[RESULTS.index(name)])
        covariance = np.zeros((self.robot.nbodies, 6, 6), dtype=object)
        for body in {body for contact in system.contacts for body in contact.sides}:
            covariance[body] = spread(
                self.plan, gain, lambda values, i=body: self.results(system, values)[2][i]
            )
        return covariance

    def of_readings(self, residuals):
        """Residuals of all noisy rows -> (m,) of the readings; values known in advance are not read."""
        number = {label: k for k, label in enumerate(self.problem.readings)}
        by_reading = np.zeros(len(number), dtype=object)
        for k, label in enumerate(self.labels):
            if label in number:
                by_reading[number[label]] = residuals[k]
        return by_reading

    def growth(self, solution: SystemSolution):
        """The squared loss of digits: the product over all weak parts, relative to the usual values."""
        total = growth(solution.lu.weakness(self.sizes), self.usual)
        if self.leverage is not None:
            leverage = solution.leverage * (1.0 / self.leverage)
            total = total * (1.0 + leverage * leverage)
        return total
