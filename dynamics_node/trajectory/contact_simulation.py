"""Simulation with contacts, limits and dry friction: steps of a rollout, as a Trajectory."""

import numpy as np

from dynamics_node.errors import NotConverged
from dynamics_node.functions.build import build
from dynamics_node.trajectory.trajectory import Trajectory, located

SWEEPS = 50  # of the solver; a single state costs little, and begins every step anew


def simulate_with_contacts(robot, system, start, time, dt, drive, backend, progress, **choices) -> Trajectory:
    """The Trajectory from start {'q', 'qd' of all directions}; drive: see `simulate`; choices: of `rollout`.

    Raises NotConverged, with the Trajectory so far, at a step without a finite result."""
    forward, independent = build(robot, "forward_dynamics", backend=backend), list(system.independent)
    states = {name: [array] for name, array in start.items()}
    tau, forces = [drive(0, states)], list[np.ndarray]()
    for k in range(1, len(time)):
        tau.append(drive(k, states))
        state = states["q"][-1], states["qd"][-1][independent]
        step = forward.rollout(*state, tau[-1][None], dt, sweeps=SWEEPS, **choices)
        if not (np.isfinite(step.q[-1]).all() and np.isfinite(step.qd[-1]).all()):
            place = f"{system.name}, at {time[k]:.6g} s"
            error = NotConverged("the step has no finite result: shorten dt")
            raise located(error, place, _trajectory(system, time, dt, states, tau, forces))
        rates = np.zeros(len(system.directions))
        rates[independent] = step.qd[-1]
        states["q"].append(step.q[-1])
        states["qd"].append(rates)
        forces.append(step.contact_forces[-1])
        if progress:
            progress(k)
    return _trajectory(system, time, dt, states, tau, forces)


def _trajectory(system, time, dt, states, tau, forces) -> Trajectory:
    """Accelerations and forces are means of the step to a state; those of the first state are zero."""
    count = len(states["q"])
    qd = np.array(states["qd"])[:, list(system.independent)]
    forces = np.array([np.zeros_like(forces[0]), *forces]) if forces else np.zeros((count, 0))
    return Trajectory(
        name=system.name,
        q_names=system.q_names,
        v_names=system.torque_names,
        units=system.units,
        time=time[:count],
        q=np.array(states["q"]),
        qd=qd,
        qdd=np.diff(qd, axis=0, prepend=qd[:1]) / dt,
        tau=np.array(tau[:count]),
        contact_forces=forces,
    )
