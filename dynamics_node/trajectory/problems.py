"""What simulation, inversion and estimation share: systems, graphs, and Trajectories of Steps."""

from functools import lru_cache

import numpy as np

from dynamics_node.robot import Robot
from dynamics_node.symbolic import Program, interpret, trace
from dynamics_node.trajectory.errors import TrajectoryError
from dynamics_node.trajectory.factor import NEXT, Factor
from dynamics_node.trajectory.graph import Steps, weights_of
from dynamics_node.trajectory.graphs import forward_graph, inverse_graph
from dynamics_node.trajectory.results import Trajectory
from dynamics_node.trajectory.systems import System, robot_system
from dynamics_node.trajectory.variables import Variable

RobotOrSystem = Robot | System


@lru_cache(maxsize=16)  # of the robots at hand: what is compiled for a graph belongs to its System
def system_of(robot: RobotOrSystem) -> System:
    """A System itself, that of a Robot."""
    return robot if isinstance(robot, System) else robot_system(robot)


@lru_cache(maxsize=32)
def graph_of(system: System, kind, *choices):
    """The graph of a 'forward' or 'inverse' problem, the same one for the same choices."""
    make = forward_graph if kind == "forward" else inverse_graph
    return make(system, *choices)


# --- results ------------------------------------------------------------------------------------------------


def trajectory_of(system: System, time, steps: Steps, **more) -> Trajectory:
    """The Trajectory that the steps hold now; torques where the graph has them. more: fields of it."""
    own, views = list(system.independent), steps.views
    count = len(steps)
    return Trajectory(
        name=system.name,
        q_names=system.q_names,
        v_names=system.torque_names,
        units=system.units,
        time=time[:count],
        q=views["q"].copy(),
        qd=views["qd"][:, own],
        qdd=views["qdd"][:, own],
        tau=views["tau"].copy(),
        external_torque=views["external_torque"].copy() if "external_torque" in views else None,
        residuals=residuals(steps),
        steps=steps,
        **more,
    )


def residuals(steps: Steps) -> dict[str, np.ndarray]:
    """{factor: (count,)}: its largest error at every step, in its own units, from the numbers alone; 0 where
    it has no weight."""
    found = {}
    for factor in steps.graph.factors:
        places = {name: steps[name] for name in (*factor.now, *factor.data)}
        places |= {name + NEXT: np.roll(steps[name], -1, axis=0) for name in factor.after}
        program = residual_program(factor, steps.graph.variables)
        errors = np.abs(interpret(program, **places)["residual"])
        if not factor.exact:
            errors = np.where(steps[weights_of(factor.name)] > 0, errors, 0.0)
        if factor.after:
            errors[-1:] = 0.0  # there is no step behind
        found[factor.name] = errors.max(axis=1)
    return found


@lru_cache(maxsize=256)
def residual_program(factor: Factor, variables: tuple[Variable, ...]) -> Program:
    """The residual of a factor alone."""
    sizes = {variable.name: (variable.size,) for variable in variables}
    shapes = {name: sizes[name] for name in factor.now} | {name + NEXT: sizes[name] for name in factor.after}
    return trace(lambda **arrays: {"residual": factor.residual(**arrays)}, shapes | factor.data)


def told_at(error: TrajectoryError, place: str, motion: Trajectory | None) -> TrajectoryError:
    """The error, with where it was and the Trajectory so far."""
    error.args = (f"{place}: {error}",)
    error.solution = motion
    return error
