"""What pushes on the robot, from joint states with efforts. Without ROS."""

from typing import NamedTuple

import numpy as np

from dynamics_node.functions import ExternalWrenchEstimate, InputError, SolutionError
from dynamics_node.node.core.errors import NoOutput
from dynamics_node.node.state.joint_memory import all_finite
from dynamics_node.text import listed

GIVE_EFFORT = "the driver must report measured efforts in joint_states, or set observer.enabled:=false"
NO_OBSERVER = "there is no observer of this robot: it is being built, or the log says why not"


class ExternalTorque(NamedTuple):
    """torques (nv,) that the environment exerts; wrench: None without observer.link, and where the joint
    torques do not determine it; contact: whether the alarm is on."""

    torques: np.ndarray
    wrench: ExternalWrenchEstimate | None
    contact: bool


def external_torque(core, steady_now) -> ExternalTorque | None:
    """What the newest joint state says, None for one that says nothing new. Raises NoOutput when it is
    incomplete or stale."""
    observer = core.robot.observer
    if observer is None:
        raise NoOutput(NO_OBSERVER)
    q, qd = core.state.vectors_now(steady_now)
    tau = measured_torques(core, q) - core.torques.friction(q, qd)
    gravity, now, before = core.gravity(steady_now), core.joints.seconds, observer.time
    try:
        if not observer.step(now, q, qd, tau, gravity, _velocity_variance(core)):
            _require_often(now, before, observer.options.longest_gap)
            return None
    except (InputError, SolutionError) as error:
        raise NoOutput(error) from None
    return ExternalTorque(observer.torque, observer.external_wrench, observer.contact)


def _velocity_variance(core):
    """(nv,), None for what the options say: of filtered velocities."""
    if core.settings.velocity_source != "filter":
        return None
    std = core.robot.observer.options.velocity_std
    variance = np.broadcast_to(np.square(std), (core.model.nv,)).copy()
    variance[core.coordinates.own_v] = core.state.filtered_now().variance
    return variance


def _require_often(now, before, longest):
    if before is not None and now - before > longest:
        raise NoOutput(f"joint states {now - before:.3g} s apart, where at most {longest:g} s will do")


def measured_torques(core, q):
    """tau (nv,) of the efforts in joint_states. Raises NoOutput, joints by name, where there are none."""
    at, effort = core.coordinates, core.joints.effort
    if all_finite(effort):
        return at.collect(q, effort)
    needed = at.efforts_needed(np.ones(core.model.nv, dtype=bool))
    lacking = needed[~np.isfinite(effort[needed])]
    if lacking.size:
        names = [at.names[k] for k in lacking]
        raise NoOutput(f"no effort in joint_states for {listed(names)}", remedy=GIVE_EFFORT)
    return at.collect(q, np.nan_to_num(effort))


def told(core) -> str:
    """For people: whether somebody touches the robot, and what of the wrench the joints do not tell."""
    observer = core.robot.observer
    if observer is None:
        return NO_OBSERVER
    touched = "contact" if observer.contact else "no contact"
    if observer.identified:
        return touched
    names = observer.unidentified(core.state.last_position())
    return f"{touched}; at this position joints do not tell {', '.join(names)} at {observer.options.link!r}"
