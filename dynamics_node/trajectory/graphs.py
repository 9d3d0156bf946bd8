"""Graphs of the standard problems (paper 2, Figs. 2 to 4, and estimation)."""

from typing import Literal, get_args

from dynamics_node.functions.choices import require_known
from dynamics_node.trajectory.robot_factors import (
    acceleration_constraint,
    bias_of,
    equality,
    euler,
    forward_dynamics,
    inverse_dynamics,
    position_constraint,
    prior_factor,
    random_walk,
    simpson,
    trapezoidal,
    velocity_constraint,
)
from dynamics_node.trajectory.systems import System
from dynamics_node.trajectory.trajectory_graph import TrajectoryGraph

Rule = Literal["euler", "trapezoidal", "simpson"]
Coordinates = Literal["independent", "dependent"]
RULES: tuple[str, ...] = get_args(Rule)
COORDINATES: tuple[str, ...] = get_args(Coordinates)


def forward_graph(
    system: System, rule="trapezoidal", coordinates="independent", soft=False, friction=False
) -> TrajectoryGraph:
    """q, qd, qdd for the torque `tau` (nv,), which is data.

    rule: one of RULES; simpson also reads `tau_middle` (nv,). coordinates: directions with integrator rows:
    'independent', or 'dependent' for all, which is over-determined for loops. soft: as in the paper (Figs. 2
    and 3, Table 2): accelerations of these directions follow from a factor with a variance, and the factor
    `equality q` of all directions damps the motion. friction: passive joint torques act, unless soft;
    tangents of dry friction are data. Raises ValueError for other values.
    """
    directions = _integrated(system, coordinates)
    passive = system.passive if friction else None
    factors = [*_closed(system, 2), *_integrators(system, rule, directions, passive)]
    if soft:
        factors += [forward_dynamics(system, directions, known=("tau",)), equality(system.q)]
    else:
        factors.append(inverse_dynamics(system, "qdd", known=("tau",), passive=passive))
    if not soft or coordinates == "independent":
        factors += _closed(system, 3)[2:]
    return TrajectoryGraph((system.q, system.qd, system.qdd), tuple(factors))


def inverse_graph(system: System, stage=4) -> TrajectoryGraph:
    """tau of a motion given by `prior q`, `prior qd` and `prior qdd`, in the paper's four stages: 1
    positions; 2 with rates and integrators; 3 with rate constraints; 4 with torques. Priors are on the
    independent directions. In stage 2, priors on rates are on all directions, because nothing else damps a
    chain of trapezoids. `equality q` is on all directions."""
    known = (system.q, system.qd, system.qdd)[: 1 if stage == 1 else 3]
    factors = [prior_factor(system.q, system.independent)]
    factors += [prior_factor(x, None if stage == 2 else system.independent) for x in known[1:]]
    factors += [equality(system.q), *_closed(system, 1 if stage < 3 else 3)]
    if stage > 1:
        factors += _integrators(system, "trapezoidal", None if stage == 2 else system.independent)
    if stage < 4:
        return TrajectoryGraph(known, tuple(factors))
    factors.append(inverse_dynamics(system, "tau", unknown=("tau",)))
    return TrajectoryGraph((*known, system.torque()), tuple(factors))


def estimation_graph(
    system: System,
    readings,
    external_torque=True,
    rule="trapezoidal",
    coordinates="independent",
    determines="qdd",
) -> TrajectoryGraph:
    """q, qd, qdd and, if requested, `external_torque` (nv,), from sensor readings.

    readings: factors of robot_factors; their biases are also variables, with random walks. The motor torque
    is data, `tau` (nv,), as commanded, or a variable if a reading measures it. determines: what the equations
    of motion determine: 'qdd', or 'external_torque' with accelerations as random walks. rule: euler or
    trapezoidal.
    """
    directions = _integrated(system, coordinates)
    external = [system.torque("external_torque")] if external_torque else []
    biases = [bias for factor in readings if (bias := bias_of(factor)) is not None]
    motors = [system.torque()] if any("tau" in factor.now for factor in readings) else []
    unknown = tuple(x.name for x in (*motors, *external))
    factors = [
        *_closed(system, 3),
        inverse_dynamics(system, determines, known=() if motors else ("tau",), unknown=unknown),
        *_integrators(system, rule, directions),
        *([] if determines == "qdd" else [random_walk(system.qdd, directions)]),
        *(random_walk(x) for x in (*external, *biases)),
        *readings,
    ]
    variables = (system.q, system.qd, system.qdd, *motors, *external, *biases)
    return TrajectoryGraph(variables, tuple(factors))


def _closed(system, derivatives):
    """The first `derivatives` constraints of positions, velocities and accelerations; none for a tree."""
    kinds = (position_constraint, velocity_constraint, acceleration_constraint)
    return [kind(system) for kind in kinds[:derivatives]] if system.dependent else []


def _integrated(system, coordinates):
    require_known("coordinates", coordinates, COORDINATES)
    return system.independent if coordinates == "independent" else tuple(range(len(system.directions)))


def _integrators(system, rule, directions, passive=None):
    require_known("rule", rule, RULES)
    if rule == "simpson":
        return [simpson(system, directions, passive)]
    one = {"euler": euler, "trapezoidal": trapezoidal}[rule]
    return [one(x, directions) for x in (system.q, system.qd)]
