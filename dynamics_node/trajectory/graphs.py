"""Graphs of the standard problems (paper 2, Figs. 2 and 4, and estimation)."""

from dynamics_node.trajectory.robot_factors import (
    bias_of,
    constraints,
    inverse_dynamics,
    prior_factor,
    random_walk,
    trapezoidal,
)
from dynamics_node.trajectory.systems import System
from dynamics_node.trajectory.trajectory_graph import TrajectoryGraph


def forward_graph(system: System, friction=False) -> TrajectoryGraph:
    """q, qd, qdd for the torque `tau` (nv,), which is data. friction: passive joint torques act; tangents of
    dry friction are data."""
    passive = system.passive if friction else None
    dynamics = inverse_dynamics(system, "qdd", known=("tau",), passive=passive)
    factors = (*constraints(system), *_integrators(system), dynamics)
    return TrajectoryGraph((system.q, system.qd, system.qdd), factors)


def inverse_graph(system: System) -> TrajectoryGraph:
    """tau of a motion given by `prior q`, `prior qd` and `prior qdd` of the independent directions."""
    motion = (system.q, system.qd, system.qdd)
    priors = [prior_factor(x, system.independent) for x in motion]
    dynamics = inverse_dynamics(system, "tau", unknown=("tau",))
    factors = (*priors, *constraints(system), *_integrators(system), dynamics)
    return TrajectoryGraph((*motion, system.torque()), factors)


def estimation_graph(system: System, readings, external_torque=True, determines="qdd") -> TrajectoryGraph:
    """q, qd, qdd and, if requested, `external_torque` (nv,), from sensor readings.

    readings: factors of robot_factors; their biases are also variables, with random walks. The motor torque
    is data, `tau` (nv,), as commanded, or a variable if a reading measures it. determines: what the equations
    of motion determine: 'qdd', or 'external_torque' with accelerations as random walks.
    """
    external = [system.torque("external_torque")] if external_torque else []
    biases = [bias for factor in readings if (bias := bias_of(factor)) is not None]
    motors = [system.torque()] if any("tau" in factor.now for factor in readings) else []
    unknown = tuple(x.name for x in (*motors, *external))
    factors = [
        *constraints(system),
        inverse_dynamics(system, determines, known=() if motors else ("tau",), unknown=unknown),
        *_integrators(system),
        *([] if determines == "qdd" else [random_walk(system.qdd, system.independent)]),
        *(random_walk(x) for x in (*external, *biases)),
        *readings,
    ]
    variables = (system.q, system.qd, system.qdd, *motors, *external, *biases)
    return TrajectoryGraph(variables, tuple(factors))


def _integrators(system):
    return [trapezoidal(x, system.independent) for x in (system.q, system.qd)]
