"""What measured efforts tell: external torques, and the payload of a link."""

from typing import Any, NamedTuple

import numpy as np

from dynamics_node.algorithms import inertial_parameters
from dynamics_node.estimation import Payload, PayloadEstimator
from dynamics_node.functions import ExternalWrenchEstimate, InputError, SolutionError
from dynamics_node.node.building.build_job import NO_PAYLOAD, ServedRobot
from dynamics_node.node.core.settings import Settings
from dynamics_node.node.errors import BadMessage, NoOutput
from dynamics_node.node.state.coordinates import Coordinates
from dynamics_node.node.state.joint_memory import all_finite
from dynamics_node.robot.inertial_parameters import changed_parameters, same_geometry
from dynamics_node.symbolic import spatial_inertia
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
    everywhere = np.ones(core.model.nv, dtype=bool)
    return torques_of(core.coordinates, q, core.joints.effort, everywhere, "joint_states", GIVE_EFFORT)


def torques_of(coordinates: Coordinates, q, efforts, forward, source, remedy=""):
    """tau (nv,) of efforts (joints,), NaN where unknown, for a problem that asks for accelerations where
    forward (nv,) is true. Raises NoOutput with the joints that lack one, its source and a remedy."""
    if all_finite(efforts):
        return coordinates.collect(q, efforts)
    needed = coordinates.efforts_needed(forward)
    lacking = needed[~np.isfinite(efforts[needed])]
    if lacking.size:
        names = [coordinates.names[k] for k in lacking]
        raise NoOutput(f"no effort in {source} for {listed(names)}", remedy=remedy)
    return coordinates.collect(q, np.nan_to_num(efforts))


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


ANEW = "the robot was built anew with other numbers: start again"


class PayloadEstimation:
    """Of a Core. link: of which states were gathered last; running: whether they are; reason: why the newest
    one does not count, or why it has ended."""

    def __init__(self):
        self.link = self.reason = self.awaited = ""
        self.running = False
        self._recursive: PayloadEstimator | None = None
        self._carried: np.ndarray | None = None
        self._model: Any = None  # of the robot that bears it, without payloads
        self._there: str | None = None  # link of the functions that were seen last
        self._refusal = ""  # why the robot has none

    def apply(self, settings: Settings, robot: ServedRobot):
        """Take over settings, which may be ahead of the robot while it is built anew. A link that has come
        with them is begun with."""
        self._friction = settings.payload_estimation_friction
        self._horizon = settings.payload_estimation_horizon
        there = robot.payload.link if robot.payload is not None else None
        self._refusal = next((note for note in robot.notes if note.startswith(NO_PAYLOAD)), "")
        if self._recursive is not None:
            self._recursive.horizon = self._horizon
        wanted = settings.payload_estimation_link
        if there is not None and there == wanted and (there != self._there or there == self.awaited):
            self._begin(robot)
        elif self.running and not wanted:
            self.stop("payload_estimation.link is empty")
        elif self.running and not _same(self._model, robot.model):
            self.stop(ANEW)
        if there is not None or not wanted:
            self._there = there

    def start(self, robot: ServedRobot, link: str) -> bool:
        """Forget what was gathered and begin, if the robot has what is needed: else it is waited for."""
        self.stop()
        self.awaited = link
        if robot.payload is None or robot.payload.link != link:
            return False
        self._begin(robot)
        return True

    def _begin(self, robot):
        own = robot.payload
        self._recursive, self._carried = PayloadEstimator(own, self._horizon), None
        self._model, self.link, self.awaited = robot.model, own.link, ""
        self._there = own.link
        self.running, self.reason = True, ""

    def stop(self, reason=""):
        """Gather no more."""
        self._there = self.awaited or self._there
        self.running, self.reason, self.awaited = False, reason, ""

    def gather(self, core, steady_now):
        """Let the newest joint state count."""
        own, functions = self._recursive, core.robot.payload
        if own is None or functions is None or functions.link != self.link:
            return  # compiled code is on its way
        if functions is not own.functions:
            own.use(functions)
            self._carried = _parameters(core.payloads.get(self.link))
        try:
            q, qd = core.state.vectors_now(steady_now)
            tau = measured_torques(core, q) - core.torques.friction(q, qd)
            own.step(core.joints.seconds, q, qd, tau, core.gravity(steady_now), self._carried)
        except (NoOutput, InputError, SolutionError) as reason:
            own.interrupt()
            self.reason = str(reason)
        else:
            self.reason = own.trouble

    def found(self, link: str) -> Payload:
        """What a link carries, '' for the last one. Raises ValueError, which says why it cannot be told."""
        link = link or self.awaited or self.link
        if self._recursive is None or link != self.link:
            raise BadMessage(self._why_not(link))
        if not self._recursive.samples:
            reason = f": {self.reason}" if self.reason else "; let the robot move"
            raise BadMessage(f"no state of {link!r} counts yet{reason}")
        return self._recursive.estimate(self._friction)

    def _why_not(self, link):
        if not link:
            return "nothing was started: name a link"
        if self._refusal:
            return self._refusal
        if link == self.awaited:
            return f"what estimates at {link!r} is being built"
        return f"nothing was started at {link!r}" + (f", but at {self.link!r}" if self.link else "")

    @property
    def samples(self) -> int:
        """States that count."""
        return self._recursive.samples if self._recursive is not None else 0

    def status(self) -> str:
        """For the diagnostics."""
        if self._refusal:
            return self._refusal
        if self.awaited:
            return f"{self.awaited}: being built"
        if not self.link:
            return "off"
        told = f"{self.link}: {self.samples} states" + ("" if self.running else ", stopped")
        return f"{told}; {self.reason}" if self.reason else told


def _same(one, other):
    """Whether two robots differ in nothing that torques depend on."""
    a, b = one.tree, other.tree
    return same_geometry(a, b) and not changed_parameters(a, b)


def _parameters(payload):
    """(10,) of a payload (mass, com, inertia about it), None without."""
    return None if payload is None else inertial_parameters(spatial_inertia(*map(np.asarray, payload)))
