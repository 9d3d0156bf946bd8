"""The measured state of a robot: joints and floating base, with timeouts. Without ROS."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dynamics_node.errors import ClosureError
from dynamics_node.node.building.build_job import ServedRobot
from dynamics_node.node.core.settings import Settings
from dynamics_node.node.errors import (
    DIFFERENTIATE,
    GIVE_ODOM,
    LEAVE_OUT,
    NO_STATES,
    BadMessage,
    NoOutput,
)
from dynamics_node.node.state.coordinates import coordinates_of
from dynamics_node.node.state.joint_memory import (
    LARGEST,
    JointMemory,
    all_possible,
    possible,
    require_possible,
)
from dynamics_node.robot import Robot
from dynamics_node.robot.joint_names import proposed_pair
from dynamics_node.symbolic import UNIT, quaternion_product, transform_origin, transform_rotation
from dynamics_node.symbolic.lie_groups import rotation_quaternion
from dynamics_node.text import listed


class Base(NamedTuple):
    """Root link: pose x y z qx qy qz qw, twist (angular, linear) in its axes; ns of stamp and reception."""

    pose: np.ndarray
    twist: np.ndarray
    stamp: int
    received: int


def read_base(model: Robot, pose, twist, stamp, now, link="") -> Base:
    """Base of a robot from numbers: pose of the floating link in root axes, twist in link axes. link: its
    name, or ''. Raises BadMessage for another link and for an invalid pose or twist."""
    body = model.tree.bodies[0]
    if link not in ("", body.name):
        raise BadMessage(f"child_frame_id {link!r} is not the floating link {body.name!r}")
    pose, twist = np.array(pose, dtype=float), np.array(twist, dtype=float)
    if not (possible(pose).all() and possible(twist).all()):
        raise BadMessage(f"pose or twist of the base is not finite, or above {LARGEST:g}")
    norm = np.linalg.norm(pose[3:])
    if abs(norm - 1) > UNIT:
        raise BadMessage(f"quaternion of the base has norm {norm:.9g}, not 1")
    if not np.array_equal(body.X_tree, np.eye(6)):
        pose = _from_frame(body.X_tree, pose)
    return Base(pose, twist, stamp, now)


def _from_frame(X, pose):
    """A pose expressed in the frame at X (6, 6) of its previous frame."""
    E, origin = transform_rotation(X), transform_origin(X)
    turned = quaternion_product(rotation_quaternion(E), pose[3:])
    return np.concatenate([E @ (pose[:3] - origin), turned])


class Filtered(NamedTuple):
    """Velocity, its variance and acceleration of the independent scalar joints, at `time`, s."""

    time: float
    velocity: np.ndarray
    variance: np.ndarray
    acceleration: np.ndarray


class RobotState:
    """The state of one robot from its topics."""

    def __init__(self, robot: ServedRobot, settings: Settings):
        self.coordinates = coordinates_of(robot)
        self.joints = JointMemory(self.coordinates.joints, self.coordinates.independent)
        self.base: Base | None = None
        self.filtered: Filtered | None = None
        self._rates = robot.rates
        self._model, self._refusal = robot.model, _unsupported(robot.model)
        self._floats = robot.model.floating_base
        self.apply(settings)

    def apply(self, settings: Settings):
        """Apply settings."""
        self._settings = settings
        self._timeout = int(settings.joint_state_timeout * 1e9)

    def replace(self, robot: ServedRobot):
        """Replace the robot by one with the same joints; the measured state is kept."""
        self.coordinates = coordinates_of(robot).resumed(self.coordinates)
        self._model = robot.model
        if robot.rates is not None and self._rates is not None:
            robot.rates.resume(self._rates)
        self._rates = robot.rates

    def reset(self):
        """Clear the state."""
        self.joints.reset()
        self.base = self.filtered = None
        if self._rates is not None:
            self._rates.reset()

    def read_base(self, pose, twist, stamp, now, link="") -> Base:
        """See the function read_base."""
        return read_base(self._model, pose, twist, stamp, now, link)

    def vectors_now(self, steady_now, with_velocity=True, with_base=True):
        """q (nq,), qd (nv,) of the latest messages; without the base, it is at zero. Raises NoOutput if
        incomplete or stale."""
        position, velocity = self.joints_now(steady_now, with_velocity)
        if self.coordinates.scalar_only:
            return position, velocity
        return self.vectors(position, velocity, self.base_now(steady_now) if with_base else None)

    def joints_now(self, steady_now, with_velocity=True):
        """Position and velocity (joints,) of the scalar joints. Raises NoOutput if incomplete or stale."""
        self.require_supported()
        if self.joints.oldest(steady_now) < steady_now - self._timeout:
            raise self._outdated(steady_now)
        return self.joints.position, self._velocity(with_velocity)

    def base_now(self, steady_now) -> Base | None:
        """The floating base, None for a fixed one. Raises NoOutput if it is missing or stale."""
        if not self._floats:
            return None
        if self.base is None:
            raise NoOutput("floating base, but no odom message yet", remedy=GIVE_ODOM)
        if steady_now - self.base.received > self._timeout:
            raise NoOutput(f"odom older than {self._timeout * 1e-9:g} s", True)
        return self.base

    def last_position(self):
        """q (nq,) of the latest messages, of any age. Raises NoOutput before the first complete state."""
        self.require_supported()
        if self.joints.missing() or (self._floats and self.base is None):
            raise NoOutput("no complete state yet")
        return self.vectors(self.joints.position, self.joints.position, self.base)[0]

    def require_fresh(self, steady_now):
        """Raise NoOutput if the measured state has become stale during a computation."""
        if self.joints.oldest(steady_now) < steady_now - self._timeout:
            raise self._outdated(steady_now)
        self.base_now(steady_now)

    def require_supported(self):
        """Raise NoOutput for a robot whose state no topic contains."""
        if self._refusal:
            raise NoOutput(self._refusal)

    def vectors(self, position, velocity, base: Base | None):
        """q (nq,) and qd (nv,) from the scalar joints and the base. Raises NoOutput if loops cannot be
        closed."""
        at = self.coordinates
        if at.scalar_only:
            return position, velocity
        q, qd = at.position(position), np.zeros(self._model.nv)
        qd[at.independent_v] = velocity[at.independent]
        if base is not None:
            q[:7], qd[:6] = base.pose, base.twist
        elif self._floats:
            q[6] = 1.0
        try:
            return at.close(q), qd
        except ClosureError as error:
            raise NoOutput(str(error)) from None

    def filtered_now(self) -> Filtered:
        """Filtered rates at the newest joint state. Raises NoOutput before the second state."""
        now = self.joints.seconds
        if self.filtered is None or self.filtered.time != now:
            rates = self._rates
            if rates is None:
                raise NoOutput("the filter of the positions is being built")
            if not rates.step(now, self.joints.position[self.coordinates.independent]):
                raise NoOutput("the filter needs a second position")
            filtered = (rates.velocity, rates.velocity_variance, rates.acceleration)
            self.filtered = Filtered(now, *(array.copy() for array in filtered))
        return self.filtered

    def _outdated(self, steady_now) -> NoOutput:
        """The error for joints without a state, or with stale ones."""
        joints = self.joints
        if missing := joints.missing():
            remedy = NO_STATES if joints.never_received() else LEAVE_OUT
            return NoOutput(f"never seen: {listed(missing)}{self._other_names(missing)}", remedy=remedy)
        stale = joints.stale(steady_now, self._timeout)
        return NoOutput(f"joint states older than {self._timeout * 1e-9:g} s: {listed(stale)}", True)

    def _other_names(self, missing):
        """Suggested joint_names.* if joint states have unknown joints."""
        if self._settings.joint_names_from:
            return ""
        return _name_pair_hint(self.joints.strangers, tuple(missing))

    def _velocity(self, wanted):
        source = self._settings.velocity_source
        if source == "zero" or not wanted:
            return np.zeros(len(self.joints.names))
        velocity = self.joints.velocity if source == "message" else self._computed_velocity(source)
        if all_possible(needed := velocity[self.coordinates.independent]):
            return velocity
        try:
            require_possible("velocity", self.coordinates.independent_names, needed)
        except BadMessage as error:
            raise NoOutput(error) from None
        absent = listed(self.joints.joints_without(velocity))
        if source == "message":
            raise NoOutput(
                f"no velocity in joint_states for {absent} (velocity_source: message)", remedy=DIFFERENTIATE
            )
        raise NoOutput(f"two positions are needed to differentiate: {absent}")

    def _computed_velocity(self, source):
        if source == "differentiate":
            return self.joints.differentiated()
        velocity = np.full(len(self.joints.names), np.nan)
        velocity[self.coordinates.independent] = self.filtered_now().velocity
        return velocity


def _unsupported(model):
    """Reason why no topic can contain the state of an independent joint, '' if all can."""
    for number, joint in enumerate(model.independent_joints):
        if joint.type.is_free and number > 0:
            return f"floating joint {joint.name!r} is not at the root: no topic contains its state"
        if not (joint.type.is_scalar or joint.type.is_free):
            owner = f"{joint.kind} joint {joint.name!r}"
            return f"{owner} has several coordinates; joint_states has one number per joint"
    return ""


@lru_cache(maxsize=16)
def _name_pair_hint(strangers, missing):
    """Suggested joint_names.*, "" if no names match; cached, because every state without output needs it."""
    if (pair := proposed_pair(strangers, missing)) is None:
        return ""
    theirs, ours = pair
    fix = f"set joint_names.from ['{theirs}'] and joint_names.to ['{ours}']"
    return f", but received {listed(strangers)}: {fix}"
