"""The node without ROS: messages in as plain values, torques or a reason for silence out."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from dynamics_node.algorithms import friction_torque
from dynamics_node.loops import ClosureError, Mechanism, tree_of
from dynamics_node.model import Model
from dynamics_node.model.names import proposed_pair
from dynamics_node.model.parameters import with_payload
from dynamics_node.node.build_job import Robot
from dynamics_node.node.coordinates import coordinates_of
from dynamics_node.node.environment import ExternalWrenches, Tilt
from dynamics_node.node.joint_memory import BadMessage, JointMemory, all_finite
from dynamics_node.node.reference import Reference, Sample
from dynamics_node.node.settings import Settings
from dynamics_node.solver import InputError, SolutionError, Solver
from dynamics_node.spatial import UNIT, transform_origin, transform_rotation

NO_STATES = "nothing has come on the topic joint_states"
LEAVE_OUT = "the parameter joints can leave out what nobody reports, joint_names.* pair other names"
DIFFERENTIATE = "velocity_source:=differentiate takes them from the positions, zero leaves them out"
GIVE_ODOM = "publish odom, or set floating_base:=false if the base stands still"


class Silence(Exception):
    """Why there is nothing to publish. stale: the input was good once; remedy: what may help, for people."""

    def __init__(self, reason, stale=False, remedy=""):
        super().__init__(reason)
        self.stale, self.remedy = stale, remedy


NO_DESCRIPTION = Silence(
    "no robot description yet",
    remedy="publish it on the topic robot_description, or give robot_description_file",
)


class Result(NamedTuple):
    """State and torques over the coordinates of the tree; clamped: names of the limited joints."""

    q: np.ndarray
    qd: np.ndarray
    qdd: np.ndarray
    tau: np.ndarray
    clamped: tuple[str, ...] = ()


class Base(NamedTuple):
    """Root link: pose x y z qx qy qz qw, twist (angular, linear) in its axes; ns of stamp and reception."""

    pose: np.ndarray
    twist: np.ndarray
    stamp: int
    received: int


class Live(NamedTuple):
    """What another Core of the same robot needs to compute the same: see Core.live and Core.follow."""

    joints: JointMemory
    base: Base | None
    tilt: Tilt | None
    payloads: dict[str, tuple]
    branch: object


def read_base(pose, twist, stamp, now) -> Base:
    """Base from numbers. Raises BadMessage when they are no pose and twist."""
    pose, twist = np.array(pose, dtype=float), np.array(twist, dtype=float)
    if not (np.isfinite(pose).all() and np.isfinite(twist).all()):
        raise BadMessage("pose or twist of the base is not finite")
    norm = np.linalg.norm(pose[3:])
    if abs(norm - 1) > UNIT:
        raise BadMessage(f"quaternion of the base has norm {norm:.9g}, not 1")
    return Base(pose, twist, stamp, now)


def _from_frame(X, pose):
    """A pose as seen from the frame at X (6, 6) of the one that it was seen from."""
    E, origin = transform_rotation(X), transform_origin(X)
    turned = Rotation.from_matrix(E) * Rotation.from_quat(pose[3:])
    return np.concatenate([E @ (pose[:3] - origin), turned.as_quat()])


class Core:
    """One robot being served."""

    def __init__(self, robot: Robot, settings: Settings):
        self.robot = self.unloaded = robot
        self.payloads: dict[str, tuple] = {}
        self.coordinates = coordinates_of(robot)
        followers = [body.joint.name for body in tree_of(robot.model).bodies if body.joint.mimic is not None]
        self.joints = JointMemory(self.coordinates.joints, self.coordinates.own, followers)
        self.wrenches = ExternalWrenches(robot.model)
        self.base: Base | None = None
        self.tilt: Tilt | None = None
        self.reference: Reference | None = None
        self.apply(settings)
        self._refusal = _unsupported(robot.model)

    @property
    def model(self) -> Model | Mechanism:
        return self.robot.model

    @property
    def solver(self) -> Solver:
        return self.robot.solver

    def apply(self, settings: Settings):
        """Take over settings that need no rebuilding."""
        self.settings = settings
        self.timeout = int(settings.joint_state_timeout * 1e9)
        self.reference_timeout = int(settings.reference_timeout * 1e9)
        self.wrench_timeout = int(settings.wrench_timeout * 1e9)
        self.imu_timeout = int(settings.imu_timeout * 1e9)
        self._gravity = np.array(settings.gravity)
        self.friction = _friction(self.model, settings)
        self.limits = _limits(self.model, settings)
        self.kind = self.solver.problem.kind  # settings.problem may be ahead, while a build is under way
        velocity_matters = settings.compensate_coriolis or settings.compensate_friction
        self.reads_velocity = self.kind != "inverse" or velocity_matters
        self.coordinates.drive(settings.driven_joints, settings.driven_weights)
        number = {name: k for k, name in enumerate(self.coordinates.names)}
        self.command_index = np.array([number[name] for name in settings.command_joints], dtype=int)

    def replace(self, robot: Robot, settings: Settings):
        """The same joints solved another way: nothing measured is lost."""
        self.unloaded = robot
        self.coordinates = coordinates_of(robot).resumed(self.coordinates)
        self._load({link: p for link, p in self.payloads.items() if link in robot.model.frames})
        self.wrenches = self.wrenches.on(robot.model)
        self.apply(settings)

    def read_base(self, pose, twist, stamp, now, link="") -> Base:
        """Base of the floating link: its pose in root axes, its twist in its own. link: its name, '' is the
        same. Raises BadMessage for another link and for what is no pose and twist."""
        body = tree_of(self.model).bodies[0]
        if link not in ("", body.name):
            raise BadMessage(f"child_frame_id {link!r} is not the floating link {body.name!r}")
        base = read_base(pose, twist, stamp, now)
        if np.array_equal(body.X_tree, np.eye(6)):
            return base
        return base._replace(pose=_from_frame(body.X_tree, base.pose))

    def live(self) -> Live:
        """What was measured, what is carried, and how loops are assembled."""
        return Live(self.joints, self.base, self.tilt, self.payloads, self.coordinates.branch)

    def follow(self, live: Live):
        """Take over what another Core of the same robot knows."""
        self.joints, self.base, self.tilt = live.joints, live.base, live.tilt
        self.coordinates.branch = live.branch
        if live.payloads != self.payloads:
            self._load(live.payloads)

    def set_payload(self, link, mass, com, inertia_com):
        """Attach a payload in place of the last one on this link; mass 0 takes it off. Raises KeyError for an
        unknown link and ValueError for a payload that no body can be; then nothing has changed."""
        self.model.frame(link)
        others = {name: payload for name, payload in self.payloads.items() if name != link}
        self._load(others if mass == 0 else {**others, link: (mass, com, inertia_com)})

    def _load(self, payloads):
        model = self.unloaded.model
        for link, payload in payloads.items():
            model = with_payload(model, link, *payload)
        self.robot = self.unloaded.with_model(model) if payloads else self.unloaded
        self.payloads = payloads

    def gravity(self, steady_now):
        """Free fall (3,) in root axes, m/s^2. Raises Silence when an IMU is to tell it but is silent."""
        gravity = self._last_gravity()
        if gravity is not self._gravity and steady_now - self.tilt.received > self.imu_timeout:
            raise Silence(f"imu older than {self.imu_timeout * 1e-9:g} s", True)
        return gravity

    def _last_gravity(self):
        if self.settings.gravity_source == "parameter":
            return self._gravity
        if self.tilt is None:
            raise Silence("no imu message yet (gravity_source: imu)")
        return np.linalg.norm(self._gravity) * self.tilt.direction

    def serves(self, model: Model):
        """True when a model has the same joints, so that what is remembered stays valid."""
        return (model.q_names, model.v_names) == (self.model.q_names, self.model.v_names)

    def solve(self, ros_now, steady_now) -> Result:
        """Result for the latest input; ros_now() gives ns of ROS time. Raises Silence."""
        sample = None
        if self.reference is not None:
            sample = self.reference.at(ros_now, steady_now, self.reference_timeout)
        if self.settings.state_source == "reference":
            q, qd = self._reference_state(sample, steady_now)
        else:
            q, qd = self.measured_state(steady_now, self.reads_velocity)
        qdd, tau = self._known(sample, q)
        f_ext = self.wrenches.f_ext(steady_now, self.wrench_timeout)
        return self._solved(q, qd, qdd, tau, f_ext, self.gravity(steady_now))

    def gravity_torques(self) -> Result:
        """What holds the last position still, or zeros: the outputs of on_stale. Raises Silence."""
        self.require_supported()
        if self.joints.missing() or (self.model.floating_base and self.base is None):
            raise Silence("there was never a complete state")
        q, _ = self.vectors(self.joints.position, self.joints.position, self.base)
        zero = np.zeros(self.model.nv)
        tau = zero
        if self.settings.on_stale == "gravity":
            try:
                tau = self.robot.inverse(q, zero, zero, gravity=self._last_gravity())
            except (InputError, SolutionError) as error:
                raise Silence(str(error)) from None
        return self._result(q, zero, zero, tau)

    def measured_state(self, steady_now, with_velocity=True):
        """q, qd of the latest messages. Raises Silence when incomplete or stale."""
        position, velocity = self.measured_joints(steady_now, with_velocity)
        return self.vectors(position, velocity, self.fresh_base(steady_now))

    def measured_joints(self, steady_now, with_velocity=True):
        """Position and velocity of the scalar joints. Raises Silence when incomplete or stale."""
        self.require_supported()
        self._require_fresh_joints(steady_now)
        return self.joints.position, self._velocity(with_velocity)

    def require_fresh(self, steady_now):
        """Raise Silence when what was measured is too old, by now, for what was computed from it."""
        if self.settings.state_source == "measured":
            self._require_fresh_joints(steady_now)
            self.fresh_base(steady_now)

    def _require_fresh_joints(self, steady_now):
        joints = self.joints
        if joints.oldest(steady_now) < steady_now - self.timeout:
            if missing := joints.missing():
                remedy = NO_STATES if joints.untold() else LEAVE_OUT
                raise Silence(f"never seen: {listed(missing)}{self._other_names(missing)}", remedy=remedy)
            stale = joints.stale(steady_now, self.timeout)
            raise Silence(f"joint states older than {self.timeout * 1e-9:g} s: {listed(stale)}", True)

    def _other_names(self, missing):
        """What may help when joint states have joints that we do not know."""
        if self.settings.joint_names_from:
            return ""
        return _pair_told(self.joints.strangers, tuple(missing))

    def fresh_base(self, steady_now) -> Base | None:
        """The floating base, None for a fixed one. Raises Silence when it is missing or stale."""
        if not self.model.floating_base:
            return None
        if self.base is None:
            raise Silence("floating base, but no odom message yet", remedy=GIVE_ODOM)
        if steady_now - self.base.received > self.timeout:
            raise Silence(f"odom older than {self.timeout * 1e-9:g} s", True)
        return self.base

    def vectors(self, position, velocity, base: Base | None):
        """q and qd from the scalar joints and the base. Raises Silence when loops cannot be closed."""
        at = self.coordinates
        if at.scalar_only:
            return position, velocity
        q, qd = np.zeros(self.model.nq), np.zeros(self.model.nv)
        q[at.q_at], qd[at.own_v] = position, velocity[at.own]
        if base is not None:
            q[:7], qd[:6] = base.pose, base.twist
        try:
            return at.close(q), qd
        except ClosureError as error:
            raise Silence(str(error)) from None

    def require_supported(self):
        """Raise Silence for a robot that no topic carries the state of."""
        if self._refusal:
            raise Silence(self._refusal)

    def _velocity(self, wanted):
        source = self.settings.velocity_source
        if source == "zero" or not wanted:
            return np.zeros(len(self.joints.names))
        velocity = self.joints.velocity if source == "message" else self.joints.differentiated()
        if all_finite(velocity[self.coordinates.own]):
            return velocity
        absent = listed(self.joints.without(velocity))
        if source == "message":
            raise Silence(
                f"no velocity in joint_states for {absent} (velocity_source: message)", remedy=DIFFERENTIATE
            )
        raise Silence(f"two positions are needed to differentiate: {absent}")

    def _reference_state(self, sample: Sample | None, steady_now):
        self.require_supported()
        if sample is None:
            raise Silence("no reference in force (state_source: reference)", self.reference is not None)
        if absent := self.joints.without(sample.positions):
            raise Silence(f"reference without position of {listed(absent)}")
        if self.reads_velocity and (absent := self.joints.without(sample.velocities)):
            raise Silence(f"reference without velocity of {listed(absent)}")
        return self.vectors(sample.positions, np.nan_to_num(sample.velocities), self.fresh_base(steady_now))

    def _known(self, sample: Sample | None, q):
        """qdd (0 where nobody says) and tau (of the reference, else measured)."""
        qdd, at = np.zeros(self.model.nv), self.coordinates
        if sample is not None:
            qdd[at.own_v] = np.nan_to_num(sample.accelerations[at.own])
        if self.kind == "inverse":
            return qdd, None
        effort = self.joints.effort
        if sample is not None:
            effort = np.where(np.isnan(sample.effort), effort, sample.effort)
        needed = at.efforts_needed(self.solver.problem.forward)
        lacking = needed[~np.isfinite(effort[needed])]
        if lacking.size:
            names = [at.names[k] for k in lacking]
            raise Silence(f"no effort in joint_states or reference for {listed(names)}")
        return qdd, at.collect(q, np.nan_to_num(effort))

    def _solved(self, q, qd, qdd, tau, f_ext, gravity):
        try:
            if self.kind == "inverse":
                tau = self._compensation(q, qd, qdd, f_ext, gravity)
            elif self.kind == "forward":
                qdd = self.solver(q, qd, tau, f_ext, gravity=gravity)
            else:
                qdd, tau = self.solver(q, qd, qdd, tau, f_ext, gravity=gravity)
        except (InputError, SolutionError) as error:
            raise Silence(str(error)) from None
        return self._result(q, qd, qdd, tau)

    def _result(self, q, qd, qdd, tau):
        spread = self.coordinates.spread(q, qd, qdd, tau)
        tau, clamped = self._clamp(spread.tau)
        return Result(spread.q, spread.qd, spread.qdd, tau, clamped)

    def _compensation(self, q, qd, qdd, f_ext, gravity):
        """Torques of what compensate.* names."""
        settings = self.settings
        tau = self.solver(
            q,
            qd if settings.compensate_coriolis else 0.0 * qd,
            qdd if settings.compensate_inertia else 0.0 * qdd,
            f_ext,
            gravity=gravity if settings.compensate_gravity else 0.0 * gravity,
        )
        return tau + self._friction_torques(q, qd) if settings.compensate_friction else tau

    def _friction_torques(self, q, qd):
        """At every joint, then what they do at the independent ones."""
        rates = self.coordinates.spread(q, qd, 0.0 * qd, 0.0 * qd).qd
        return self.coordinates.gather(q, friction_torque(rates, *self.friction))

    def _clamp(self, tau):
        at = self.coordinates.v_at
        over = np.abs(tau if self.coordinates.scalar_only else tau[at]) > self.limits
        if not over.any():
            return tau, ()
        tau = tau.copy()
        tau[at] = np.clip(tau[at], -self.limits, self.limits)
        return tau, tuple(self.joints.names[k] for k in np.flatnonzero(over))


def _friction(model, settings):
    """(viscous, coulomb), each (nv of the tree,): the URDF's, and the parameters' where they name a joint."""
    tree = tree_of(model)
    viscous, coulomb = tree.damping.copy(), tree.friction.copy()
    at = {joint.name: joint.v for joint in tree.independent_joints}
    rows = zip(settings.friction_joints, settings.friction_viscous, settings.friction_coulomb, strict=True)
    for name, own_viscous, own_coulomb in rows:
        viscous[at[name]], coulomb[at[name]] = own_viscous, own_coulomb
    return viscous, coulomb


def _limits(model, settings):
    if settings.effort_limits == "list":
        return np.array(settings.effort_limits_list)
    tree = tree_of(model)
    scalar = [j.v.start for j in tree.independent_joints if j.type.is_scalar]
    if settings.effort_limits == "none":
        return np.full(len(scalar), np.inf)
    return tree.effort_limits[scalar]


def _unsupported(model):
    """Which independent joint no topic tells of; '' when there is none. Others follow from these."""
    for number, joint in enumerate(model.independent_joints):
        if joint.type.is_free and number > 0:
            return f"floating joint {joint.name!r} is not at the root: no topic carries its state"
        if not (joint.type.is_scalar or joint.type.is_free):
            owner = f"{joint.kind} joint {joint.name!r}"
            return f"{owner} has several coordinates, and joint_states cannot carry them"
    return ""


@lru_cache(maxsize=16)
def _pair_told(strangers, missing):
    """Said again and again while the node is silent, found once."""
    if (pair := proposed_pair(strangers, missing)) is None:
        return ""
    theirs, ours = pair
    told = f"but {listed(strangers)}: joint_names.from ['{theirs}'] and joint_names.to ['{ours}'] pair them"
    return f", {told}"


def listed(names):
    """The first five names, and how many more."""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more
