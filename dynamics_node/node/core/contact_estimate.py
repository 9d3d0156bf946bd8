"""The active contacts and their forces from measured efforts."""

from typing import NamedTuple

import numpy as np

from dynamics_node.errors import InputError, SolutionError
from dynamics_node.node.core.contact_loads import ContactLoads
from dynamics_node.node.core.external_torque import measured_torques, require_often, velocity_variance
from dynamics_node.node.errors import NoOutput
from dynamics_node.text import listed

NO_OBSERVER = "the observer of the contacts is being built"
LESS_NOISE = "set observer.velocity_std and torque_std to the noise, or lower contact_estimation.bandwidth"
GIVE_EFFORT = "publish measured efforts in joint_states, or set contact_source:=given"


class ContactEstimate(NamedTuple):
    """q (nq,) of the sample, as in ContactObserver; loads: the estimated set and forces, without a
    residual."""

    q: np.ndarray
    loads: ContactLoads


def estimate_contacts(core, steady_now) -> ContactEstimate | None:
    """Update the active contacts from the newest joint state, None if that is no newer than the last. Raises
    NoOutput if the state is incomplete or stale; the active contacts stay."""
    observer = core.robot.contact_observer
    if observer is None:
        raise NoOutput(NO_OBSERVER)
    by_imu = observer.imu is not None
    q, qd = core.state.vectors_now(steady_now, with_base=not by_imu)
    base = {"imu": core.contact_imu(steady_now)} if by_imu else {"gravity": core.gravity(steady_now)}
    tau = measured_torques(core, q, GIVE_EFFORT) - core.torques.friction(q, qd)
    now, before = core.joints.seconds, observer.time
    if before is None:
        observer.reset(core.active.flags)
    try:
        if not observer.step(now, q, qd, tau, velocity_variance=velocity_variance(core, observer), **base):
            require_often(now, before, observer.options.longest_gap)
            return None
    except (InputError, SolutionError) as error:
        raise NoOutput(error) from None
    core.active.flags = observer.active.copy()
    return ContactEstimate(observer.q, ContactLoads(core.active.flags, observer.contact_forces, np.zeros(6)))


def uncertainty(core) -> NoOutput | None:
    """Why some contacts are not decided, None if all are."""
    unclear = core.robot.contact_observer.unclear
    return NoOutput(f"forces at {listed(unclear)} are too uncertain", remedy=LESS_NOISE) if unclear else None


def estimate_status(core) -> str:
    """The estimated normal forces."""
    observer = core.robot.contact_observer
    if observer is None or observer.time is None:
        return ""
    return ", ".join(f"{name} {force:.3g} N" for name, force in observer.normal_forces.items())
