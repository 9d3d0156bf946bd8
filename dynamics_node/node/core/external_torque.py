"""Torques of measured efforts, and the external torques that they imply."""

from typing import NamedTuple

import numpy as np

from dynamics_node.errors import InputError, SolutionError
from dynamics_node.functions import ExternalWrenchEstimate
from dynamics_node.node.errors import NoOutput
from dynamics_node.node.state.coordinates import JointCoordinates
from dynamics_node.node.state.joint_memory import all_possible, possible
from dynamics_node.text import listed

GIVE_EFFORT = "publish measured efforts in joint_states, or set observer.enabled:=false"
NO_OBSERVER = "this robot has no observer: it is being built, or it failed (see the log)"


class ExternalTorque(NamedTuple):
    """torques (nv,) exerted by the environment; wrench: None without observer.link, or if joint torques do
    not determine it; contact: whether the alarm is on."""

    torques: np.ndarray
    wrench: ExternalWrenchEstimate | None
    contact: bool


def external_torque(core, steady_now) -> ExternalTorque | None:
    """The estimate at the newest joint state, None if that is no newer than the last. Raises NoOutput if the
    state is incomplete or stale."""
    observer = core.robot.observer
    if observer is None:
        raise NoOutput(NO_OBSERVER)
    q, qd = core.state.vectors_now(steady_now)
    tau = measured_torques(core, q) - core.torques.friction(q, qd)
    gravity, now, before = core.gravity(steady_now), core.joints.seconds, observer.time
    try:
        if not observer.step(now, q, qd, tau, gravity, velocity_variance(core, observer)):
            require_often(now, before, observer.options.longest_gap)
            return None
    except (InputError, SolutionError) as error:
        raise NoOutput(error) from None
    return ExternalTorque(observer.torque, observer.external_wrench, observer.contact)


def velocity_variance(core, observer):
    """Variance (nv,) of filtered velocities; None selects the observer options."""
    if core.settings.velocity_source != "filter":
        return None
    std = observer.options.velocity_std
    variance = np.broadcast_to(np.square(std), (core.model.nv,)).copy()
    variance[core.coordinates.independent_v] = core.state.filtered_now().variance
    return variance


def require_often(now, before, longest):
    """Raise NoOutput if two samples, s, are too far apart for an observer."""
    if before is not None and now - before > longest:
        raise NoOutput(
            f"joint states are {now - before:.3g} s apart; the observer needs at most {longest:g} s"
        )


def measured_torques(core, q, remedy=GIVE_EFFORT):
    """tau (nv,) of the efforts in joint_states. Raises NoOutput with the joints that have none."""
    everywhere = np.ones(core.model.nv, dtype=bool)
    return torques_of(core.coordinates, q, core.joints.effort, everywhere, "joint_states", remedy)


def torques_of(coordinates: JointCoordinates, q, efforts, forward, source, remedy=""):
    """tau (nv,) of efforts (joints,), NaN if unknown. forward (nv,): coordinates whose acceleration the
    problem computes, which need an effort. Raises NoOutput with the joints that have none."""
    if all_possible(efforts):
        return coordinates.collect(q, efforts)
    needed = coordinates.efforts_needed(forward)
    missing = needed[~possible(efforts[needed])]
    if missing.size:
        names = [coordinates.names[k] for k in missing]
        raise NoOutput(f"no effort in {source} for {listed(names)}", remedy=remedy)
    return coordinates.collect(q, np.where(possible(efforts), efforts, 0.0))


def contact_status(core) -> str:
    """Whether there is contact, and the wrench components that joint torques do not determine."""
    observer = core.robot.observer
    if observer is None:
        return NO_OBSERVER
    touched = "contact" if observer.contact else "no contact"
    if observer.identified:
        return touched
    names = observer.unidentified(core.state.last_position())
    return f"{touched}; not observable at this position: {', '.join(names)} at {observer.options.link!r}"
