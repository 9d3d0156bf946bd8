"""A step in time with contacts, limits and dry friction, at the level of velocities and impulses (Moreau,
Stewart and Trinkle): what a solver of impulses needs, and what it does with them.

The rows are three for every contact and surface of the ground, the normal last, and one for every joint with
limits or dry friction, also if it follows others. Without impulses the rows end the step with the velocities
v; impulses p add A p, with A the Delassus matrix (algorithms/force_propagation.py). Damping and springs act
at the end of the step: they add to the rotor inertias. The solver is code (codegen/contact_solver.py);
everything else is a Program.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.aba import accelerations_and_torques, inward
from dynamics_node.algorithms.force_propagation import apparent_matrix, forces_at_joints
from dynamics_node.algorithms.frame_kinematics import body_poses
from dynamics_node.algorithms.ground import place_above
from dynamics_node.algorithms.integrators import (
    in_new_axes,
    moved_straight,
    rates_of_all,
    turning_of_axes,
)
from dynamics_node.algorithms.rates import rates_at
from dynamics_node.algorithms.recursion import joint_motions, outward
from dynamics_node.algorithms.reduced_frames import economical_robot, with_inputs
from dynamics_node.algorithms.rnea import body_motions, body_wrenches
from dynamics_node.robot.transforms import joint_transforms
from dynamics_node.symbolic import (
    SplitProgram,
    matvec,
    skew,
    split,
    trace,
    transform_origin,
    transform_rotation,
)

FAR = 1e9  # rad or m: a limit that is none
EARLY = ("A", "velocity", "approach", "gap", "steep", "low", "high")


class Touch(NamedTuple):
    """A contact that can touch a surface of the ground: numbers of both."""

    contact: int
    surface: int


class JointRow(NamedTuple):
    """A joint with limits or dry friction: its body; limits of its position, rad or m; friction, N m or N."""

    body: int
    lower: float
    upper: float
    dry: float


class StepRows(NamedTuple):
    """The rows of a step: touches, three each; then joints, one each, those with dry friction first. friction
    (touches,): coefficients; restitution (touches,)."""

    touches: tuple[Touch, ...]
    joints: tuple[JointRow, ...]
    friction: np.ndarray
    restitution: np.ndarray

    @property
    def size(self):
        return 3 * len(self.touches) + len(self.joints)

    @property
    def always(self):
        """The number of rows that act in every step: all but joints that have limits alone."""
        return 3 * len(self.touches) + int(np.count_nonzero(self.dry))

    @property
    def dry(self):
        """(joints,): friction, N m or N."""
        return np.array([row.dry for row in self.joints])


class ContactStep(NamedTuple):
    """parts: the Programs of a step, two, or four where joints have limits alone; see `split`.

    The first returns A, the lower triangle of the Delassus matrix of the rows that always act, row by row;
    velocity (always,) without impulses; approach (touches,): normal velocities at the start; gap (touches,):
    distances, over dt; steep (touches of terrains,): more than 1e-3 where there is no result; low, high
    (joints,): velocities that reach the limits within the step. The second has their impulses (always,), and
    returns q, qd, and reached (joints with limits alone,), their velocities.

    Where these pass no limit, that is the step: the impulses of the other rows are zero. Else the third
    returns A_more, the rest of the triangle, and velocity_more; the fourth has all_impulses (rows,), and
    returns all_q and all_qd."""

    parts: SplitProgram
    rows: StepRows


def step_rows(robot, contacts, ground, friction, limits) -> StepRows:
    """The StepRows of contacts and surfaces. friction, limits: whether joints have theirs."""
    touches = [Touch(c, s) for c in range(len(contacts)) for s in range(len(ground))]
    mu = [_coefficient(contacts[touch.contact], ground[touch.surface]) for touch in touches]
    e = [ground[touch.surface].restitution for touch in touches]
    joints = sorted(_joint_rows(robot.tree, friction, limits), key=lambda row: not row.dry)
    return StepRows(tuple(touches), tuple(joints), np.array(mu), np.array(e))


def _joint_rows(tree, friction, limits):
    """JointRows of all joints, also of those that follow others. The friction of a joint with one master
    counts at the master."""
    shared = {joint.name: tree.nv + k for k, joint in enumerate(tree.shared_joints)}
    for number, body in enumerate(tree.bodies):
        joint = body.joint
        if joint.type.is_scalar:
            axle = joint.v.start if joint.masters is None else shared.get(joint.name)
            dry = float(tree.friction[axle]) if friction and axle is not None else 0.0
            ends = (-np.inf, np.inf)
            if limits and joint.type.bounded:
                ends = joint.limits.lower, joint.limits.upper
            if dry or np.isfinite(ends).any():
                yield JointRow(number, *ends, dry)


def _coefficient(contact, surface):
    own = contact.friction if contact.friction is not None else surface.friction
    return float(min(own, surface.friction))


def contact_step(robot, contacts, ground, friction=True, limits=True, loops=()) -> ContactStep:
    """The ContactStep of a robot. loops: places in qd of PD loops; the first half then has an input
    loop_inertia (loops,), what the ends of steps add to the inertias of their joints."""
    rows = step_rows(robot, contacts, ground, friction, limits)
    own, _ = economical_robot(robot)

    def function(q, qd, tau, dt, gravity, impulses, all_impulses=(), loop_inertia=()):
        damped, tau = _with_losses(own, q, qd, tau, dt) if friction else (own, tau)
        ends = [_to_limits(robot.tree, q, dt, rows.joints, end) for end in ("lower", "upper")]
        if loops:
            damped = _with_inertia(damped, loops, loop_inertia)
        given = q, qd, tau, dt, gravity
        return _step(own, damped, given, (impulses, all_impulses), contacts, ground, rows, ends)

    inputs: dict[str, tuple[int, ...]] = {"q": (robot.nq,), "qd": (robot.nv,), "tau": (robot.nv,)}
    inputs |= {"loop_inertia": (len(loops),)} if loops else {}
    inputs |= {"dt": (), "gravity": (3,), "impulses": (rows.always,)}
    late: list[tuple[str, ...]] = [("impulses",)]
    outputs = [EARLY, ("q_after", "qd_after", "reached")]
    if rows.always < rows.size:
        inputs["all_impulses"] = (rows.size,)
        late += [(), ("all_impulses",)]
        outputs += [("A_more", "velocity_more"), ("all_q", "all_qd")]
    return ContactStep(split(trace(function, inputs), late, outputs), rows)


def _step(robot, damped, given, impulses, contacts, ground, rows, limits):
    """damped: the robot with the inertia of what acts at the end of the step; limits: see `_to_limits`."""
    q, qd, tau, dt, gravity = given
    tree, rates = damped.tree, rates_at(damped, q, qd, explicit=True)
    X_up, changes = joint_transforms(tree, q), rates.accelerations(np.zeros(robot.nv))
    motions = body_motions(tree, X_up, rates.qd, changes, gravity)
    pA = body_wrenches(tree, motions)
    free = [True] * len(robot.clusters)
    solutions = inward(damped, X_up, rates.G, pA, changes, tau, free)
    places, sides = _touching(tree, X_up, contacts, ground, rows.touches)
    turning = dt * turning_of_axes(tree, rates.qd)
    velocities = outward(tree, X_up, joint_motions(tree, rates.qd + turning))
    points = [sum(P.T @ velocities[body] for body, P in side.items()) for side in sides]
    along = [tree.bodies[row.body].joint.rate(np.eye(tree.nv))[:, 0] for row in rows.joints]
    now = np.concatenate([*points, np.array([direction @ rates.qd for direction in along], dtype=object)])
    units = [
        (row.body, rates.independent(direction)) for row, direction in zip(rows.joints, along, strict=True)
    ]
    forces = forces_at_joints(
        damped, X_up, solutions, [dict(side) for side in sides], [3] * len(sides), units
    )
    products = apparent_matrix(solutions, forces, [given.u for given in solutions])
    A, velocity, n = products[:-1, :-1], now + dt * products[:-1, -1], rows.always
    triangle = A[np.tril_indices(len(A))]
    first = n * (n + 1) // 2

    def after(impulses):
        loads = [F[:, : len(impulses)] @ impulses for F in forces]
        loaded = [s._replace(u=dt * s.u + load) for s, load in zip(solutions, loads, strict=True)]
        zero = np.zeros(robot.nv, dtype=object)
        change = accelerations_and_torques(damped, X_up, loaded, zero, zero)[0]
        qd_after = qd + turning[robot.independent] + change
        q_after = moved_straight(robot, q, dt * rates_of_all(robot, q, qd_after))
        return q_after, in_new_axes(robot, q, q_after, qd_after)

    q_after, qd_after = after(impulses[0])
    reached = [rates.independent(direction) @ qd_after for direction in along[n - 3 * len(sides) :]]
    more = {}
    if n < rows.size:
        more = {"A_more": triangle[first:], "velocity_more": velocity[n:]}
        more["all_q"], more["all_qd"] = after(impulses[1])
    return {
        "A": triangle[:first],
        "velocity": velocity[:n],
        "approach": now[2 : 3 * len(sides) : 3],
        "gap": np.array([place.gap for place in places], dtype=object) / dt,
        "steep": np.array([place.loss for place in places if place.loss is not None], dtype=object),
        "low": limits[0],
        "high": limits[1],
        "q_after": q_after,
        "qd_after": qd_after,
        "reached": np.array(reached, dtype=object),
        **more,
    }


def _touching(tree, X_up, contacts, ground, touches):
    """Of every touch, its SurfacePoint, and {body: P (6, 3)}, the wrenches on the body in its axes by unit
    forces along those of the SurfacePoint."""
    frames = [tree.frame(contact.link) for contact in contacts]
    poses = body_poses(tree, X_up, {frame.body for frame in frames})
    places, sides = [], []
    for c, s in touches:
        frame, radius = frames[c], contacts[c].radius or 0.0
        E, p = poses[frame.body]
        own = transform_origin(frame.X) + transform_rotation(frame.X).T @ np.array(contacts[c].xyz)
        place = place_above(ground[s], p + matvec(E.T, own), radius)
        forces = E @ place.axes.T
        point = own - radius * forces[:, 2] if radius else own
        places.append(place)
        sides.append({frame.body: np.concatenate([skew(point) @ forces, forces])})
    return places, sides


def _to_limits(tree, q, dt, rows, end):
    """Velocities (rows,) that reach the lower or upper limits within the step. tree: in its own frames."""
    velocities = []
    for row in rows:
        bound = getattr(row, end)
        bound = bound if np.isfinite(bound) else np.copysign(FAR, bound)
        velocities.append((bound - tree.bodies[row.body].joint.position(q)[0]) / dt)
    return np.array(velocities, dtype=object)


def _with_losses(robot, q, qd, tau, dt):
    """The robot with dt damping + dt^2 stiffness more rotor inertia, and tau less the torques of damping,
    springs and offsets at the start of the step, with those of springs at its end."""
    tree = robot.tree
    more = dt * tree.damping + dt * dt * tree.springs
    if not any(x.any() for x in (tree.damping, tree.springs, tree.torque_offsets)):
        return robot, tau
    rates = rates_at(robot, q, qd, explicit=True)
    axles = tree.axle_map @ rates.qd
    positions = np.zeros(len(tree.axle_map), dtype=object)
    for joint in tree.independent_joints:
        if joint.type.is_scalar:
            positions[joint.v] = q[joint.q]
    for k, joint in enumerate(tree.shared_joints, len(positions) - len(tree.shared_joints)):
        positions[k] = joint.position(q)[0] - joint.offset
    lost = tree.damping * axles + tree.springs * (positions + dt * axles) + tree.torque_offsets
    lost = rates.independent(tree.axle_map.T @ lost)
    return with_inputs(robot, None, np.array(tree.armature + more, dtype=object)), tau - lost


def _with_inertia(robot, coordinates, inertia):
    """The robot with more rotor inertia at some of its coordinates."""
    armature = np.array(robot.tree.armature, dtype=object)
    armature[robot.independent[list(coordinates)]] += inertia
    return with_inputs(robot, None, armature)
