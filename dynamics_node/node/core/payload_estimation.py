"""Estimation of the payload of a link from measured efforts."""

from typing import Any

import numpy as np

from dynamics_node.algorithms import inertial_parameters
from dynamics_node.errors import InputError, SolutionError
from dynamics_node.estimation import Payload, PayloadEstimator
from dynamics_node.node.building.build_job import NO_PAYLOAD, ServedRobot
from dynamics_node.node.core.external_torque import measured_torques
from dynamics_node.node.core.settings import Settings
from dynamics_node.node.errors import BadMessage, NoOutput
from dynamics_node.robot.inertial_parameters import changed_parameters, same_geometry
from dynamics_node.symbolic import spatial_inertia

ROBOT_REBUILT = "the robot was rebuilt with other parameters: start again"


class PayloadEstimation:
    """Payload estimation of a Core. link: of the last estimate; running: whether states are added; reason:
    why the newest state was skipped, or why the estimation stopped."""

    def __init__(self):
        self.link = self.reason = self.pending = ""
        self.running = False
        self._estimator: PayloadEstimator | None = None
        self._payload_parameters: np.ndarray | None = None
        self._model: Any = None  # the robot without payloads
        self._built_link: str | None = None  # link of the functions of the last robot
        self._unavailable = ""  # why the robot has no such functions

    def apply(self, settings: Settings, robot: ServedRobot):
        """Apply settings, which may be newer than the robot during a rebuild. A robot with a new link starts
        an estimate."""
        self._friction = settings.payload_estimation_friction
        self._horizon = settings.payload_estimation_horizon
        there = robot.payload.link if robot.payload is not None else None
        self._unavailable = next((note for note in robot.notes if note.startswith(NO_PAYLOAD)), "")
        if self._estimator is not None:
            self._estimator.horizon = self._horizon
        wanted = settings.payload_estimation_link
        if there is not None and there == wanted and (there != self._built_link or there == self.pending):
            self._begin(robot)
        elif self.running and not wanted:
            self.stop("payload_estimation.link is empty")
        elif self.running and not _same(self._model, robot.model):
            self.stop(ROBOT_REBUILT)
        if there is not None or not wanted:
            self._built_link = there

    def start(self, robot: ServedRobot, link: str) -> bool:
        """Start a new estimate; returns False if the functions for the link are still being built."""
        self.stop()
        self.pending = link
        if robot.payload is None or robot.payload.link != link:
            return False
        self._begin(robot)
        return True

    def _begin(self, robot):
        functions = robot.payload
        self._estimator, self._payload_parameters = PayloadEstimator(functions, self._horizon), None
        self._model, self.link, self.pending = robot.model, functions.link, ""
        self._built_link = functions.link
        self.running, self.reason = True, ""

    def stop(self, reason=""):
        """Stop adding states."""
        self._built_link = self.pending or self._built_link
        self.running, self.reason, self.pending = False, reason, ""

    def gather(self, core, steady_now):
        """Add the newest joint state."""
        estimator, functions = self._estimator, core.robot.payload
        if estimator is None or functions is None or functions.link != self.link:
            return  # its functions are being built
        if functions is not estimator.functions:
            estimator.use(functions)
            self._payload_parameters = _inertial_parameters(core.payloads.get(self.link))
        try:
            q, qd = core.state.vectors_now(steady_now)
            tau = measured_torques(core, q) - core.torques.friction(q, qd)
            gravity, parameters = core.gravity(steady_now), self._payload_parameters
            estimator.step(core.joints.seconds, q, qd, tau, gravity, parameters)
        except (NoOutput, InputError, SolutionError) as reason:
            estimator.interrupt()
            self.reason = str(reason)
        else:
            self.reason = estimator.trouble

    def estimate(self, link: str) -> Payload:
        """The payload of a link, '' for the last one. Raises BadMessage with the reason for no estimate."""
        link = link or self.pending or self.link
        if self._estimator is None or link != self.link:
            raise BadMessage(self._why_not(link))
        if not self._estimator.samples:
            reason = f": {self.reason}" if self.reason else "; let the robot move"
            raise BadMessage(f"no samples of {link!r} yet{reason}")
        return self._estimator.estimate(self._friction)

    def _why_not(self, link):
        if not link:
            return "no estimation was started: name a link"
        if self._unavailable:
            return self._unavailable
        if link == self.pending:
            return f"the estimator of {link!r} is being built"
        return f"no estimation was started at {link!r}" + (f", only at {self.link!r}" if self.link else "")

    @property
    def samples(self) -> int:
        """Number of states in the estimate."""
        return self._estimator.samples if self._estimator is not None else 0

    def status(self) -> str:
        """For the diagnostics."""
        if self._unavailable:
            return self._unavailable
        if self.pending:
            return f"{self.pending}: being built"
        if not self.link:
            return "off"
        status = f"{self.link}: {self.samples} samples" + ("" if self.running else ", stopped")
        return f"{status}; {self.reason}" if self.reason else status


def _same(one, other):
    """Whether two robots have the same geometry and inertial parameters."""
    a, b = one.tree, other.tree
    return same_geometry(a, b) and not changed_parameters(a, b)


def _inertial_parameters(payload):
    """Parameters (10,) of a payload (mass, com, inertia about it), None without one."""
    return None if payload is None else inertial_parameters(spatial_inertia(*map(np.asarray, payload)))
