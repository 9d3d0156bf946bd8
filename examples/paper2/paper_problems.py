"""Simulation and inverse dynamics as paper 2 formulates them, for mechanisms in any coordinates.

`coordinates`: directions with integrators, 'independent', or 'dependent' for all, which is over-determined.
`soft`: accelerations of these directions follow from a factor with a variance (Figs. 2 and 3, Table 2), and
the equality of consecutive positions damps the motion. Inverse dynamics has the four stages of Fig. 4.
"""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from dynamics_node.errors import NotConverged
from dynamics_node.trajectory import (
    BatchSolver,
    FixedLag,
    Trajectory,
    TrajectoryGraph,
    prior,
    prior_factor,
    random_walk,
    trapezoidal,
)
from dynamics_node.trajectory.factor import TrajectoryFactor
from dynamics_node.trajectory.graphs import inverse_graph
from dynamics_node.trajectory.inverse_problem import INTEGRATED as BALANCED
from dynamics_node.trajectory.inverse_problem import STDS, vague_prior
from dynamics_node.trajectory.robot_factors import constraints, inverse_dynamics
from dynamics_node.trajectory.simulation import EXACT, INTEGRATED, KEPT, STARTED
from dynamics_node.trajectory.systems import System
from dynamics_node.trajectory.trajectory import trajectory_of
from dynamics_node.trajectory.trajectory_graph import weights_of

DIFFERENCES = (1e-1, 1e1)  # of qd, qdd of dependent coordinates in stage 2, from position differences
LOOSE = 1e-3  # tolerance of the stages before the last one


@dataclass(frozen=True, eq=False, kw_only=True)
class PlanarSystem(System):
    """A System with its forward dynamics: q, qd, tau (nv,) -> qdd (n,), on symbols."""

    forward: object


@cache
def forward_graph(system: PlanarSystem, coordinates="independent", soft=False) -> TrajectoryGraph:
    """q, qd, qdd for the torque `tau` (nv,), which is data."""
    everything = tuple(range(len(system.directions)))
    directions = system.independent if coordinates == "independent" else everything
    positions, velocities, *accelerations = constraints(system)
    factors = [positions, velocities, *(trapezoidal(x, directions) for x in (system.q, system.qd))]
    if soft:
        factors += [_soft_dynamics(system, directions), _equality(system.q)]
    else:
        factors.append(inverse_dynamics(system, "qdd", known=("tau",)))
    if not soft or coordinates == "independent":
        factors += accelerations
    return TrajectoryGraph((system.q, system.qd, system.qdd), tuple(factors))


def _soft_dynamics(system, directions):
    """qdd - FD(q, qd, tau), with a variance: f_dyn of the paper."""
    chosen = list(directions)
    return TrajectoryFactor(
        name="dynamics",
        residual=lambda q, qd, qdd, tau: (qdd - system.forward(q, qd, tau))[chosen],
        rows=tuple(system.directions[k] for k in chosen),
        now=("q", "qd", "qdd"),
        data={"tau": (len(system.independent),)},
    )


def _equality(x):
    return replace(random_walk(x), name=f"equality {x.name}")


def simulate(system, q0, *, steps, dt, tau=0.0, rates=0.0, coordinates="independent", window=2) -> Trajectory:
    """The motion from q0 at rates (n,), under torques tau, (nv,) or (steps + 1, nv)."""
    graph, count = forward_graph(system, coordinates), steps + 1
    taus = np.broadcast_to(tau, (count, len(system.independent)))
    start = {"q": np.array(q0), "qd": rates + np.zeros(len(system.directions))}
    known = prior(graph, start, {"q": STARTED, "qd": STARTED})
    lag = FixedLag(graph, window, known, tolerance=EXACT, observable=False, least=KEPT)
    solution = graph.steps(count)
    weights = {weights_of(factor.name): 1.0 / INTEGRATED for factor in graph.weighted}
    for k in range(count):
        lag.append(dt=dt, tau=taus[k], **weights)
        solution.rows[k + 1 - len(lag) : k + 1] = lag.steps.rows[: len(lag)]
    return trajectory_of(system, dt * np.arange(count), solution)


# --- inverse dynamics ---------------------------------------------------------------------------------------


@cache
def stage_graph(system: System, stage) -> TrajectoryGraph:
    """1: positions; 2: with rates and integrators of all directions; 3: with rate constraints; 4: with
    torques. In stage 2 all rates have priors, because nothing else damps a chain of trapezoids."""
    if stage == 4:
        return inverse_graph(system)
    motion = (system.q, system.qd, system.qdd)[: 1 if stage == 1 else 3]
    directions = None if stage == 2 else system.independent
    factors = [prior_factor(system.q, system.independent)]
    factors += [prior_factor(x, directions) for x in motion[1:]]
    factors += constraints(system)[: 1 if stage < 3 else 3]
    factors += [trapezoidal(x, directions) for x in motion[:2]] if stage > 1 else []
    return TrajectoryGraph(motion, tuple(factors))


def inverse_trajectory(system, time, z, zd, zdd, q0) -> Trajectory:
    """Torques that move the independent coordinates along z, zd, zdd (count, nv), from near q0 on."""
    own, count = list(system.independent), len(time)
    curve = np.zeros((3, count, len(system.directions)))
    curve[0] = q0
    curve[:, :, own] = z, zd, zdd
    steps = None
    for stage in (1, 2, 3, 4):
        steps = _prepared(system, stage, time, curve, steps)
        steps = _along(steps) if stage == 1 else _at_once(steps)
    return trajectory_of(system, time, steps)


def _prepared(system, stage, time, curve, before):
    """Steps of a stage, initialized from the previous one."""
    steps = stage_graph(system, stage).steps(len(time))
    steps["dt"][:, 0] = np.diff(time, append=2 * time[-1] - time[-2])
    rest = list(system.dependent)
    if stage == 2:  # rates of dependent coordinates from the positions of stage 1
        qd = np.gradient(before["q"], time, axis=0)
        curve[1][:, rest], curve[2][:, rest] = qd[:, rest], np.gradient(qd, time, axis=0)[:, rest]
    for name, values, std in zip(("q", "qd", "qdd"), curve, STDS, strict=True):
        if name in steps.graph.columns:
            variances = np.full(steps[f"weights prior {name}"].shape[1], std**2)
            if stage == 2 and name != "q":
                variances[rest] = DIFFERENCES[name == "qdd"] ** 2
            steps[f"prior {name}"][:] = values
            steps.weigh(f"prior {name}", variances)
            steps[name][:] = before[name] if before is not None and name in before.graph.columns else values
    for name in ("trapezoidal q", "trapezoidal qd") if stage > 1 else ():
        steps.weigh(name, BALANCED**2)
    return steps


def _along(steps):
    """Solve step by step, each started from the previous one, so that loops stay on their branch."""
    lag = FixedLag(steps.graph, 2, vague_prior(steps), iterations=50)
    solution = steps.copy()
    for k in range(len(steps)):
        lag.append(**{name: steps[name][k] for name in ("dt", "prior q", "weights prior q")})
        solution["q"][k] = lag.steps["q"][-1]
    return solution


def _at_once(steps):
    """Solve the last stage to convergence, the others loosely."""
    solver, known = BatchSolver(steps.graph), vague_prior(steps)
    if "tau" in steps.graph.columns:
        return solver.solve(steps, known).steps
    try:
        return solver.solve(steps, known, iterations=10, tolerance=LOOSE).steps
    except NotConverged as error:
        return error.solution.steps
