"""A step in time with contacts, limits and dry friction, at the level of velocities and impulses (Moreau,
Stewart and Trinkle): what a solver of impulses needs, and what it does with them.

The rows are three for every contact and surface of the ground, the normal last, and one for every joint with
limits or dry friction. Without impulses the rows end the step with the velocities v; impulses p add A p, with
A the Delassus matrix (algorithms/force_propagation.py). Damping and springs act at the end of the step: they
add to the rotor inertias. The solver is code (codegen/contact_solver.py); everything else is a Program.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.aba import accelerations_and_torques, inward
from dynamics_node.algorithms.force_propagation import apparent_matrix, forces_at_joints
from dynamics_node.algorithms.frame_kinematics import body_poses
from dynamics_node.algorithms.ground import place_above
from dynamics_node.algorithms.integrators import displaced, rates_of_all
from dynamics_node.algorithms.rates import rates_at
from dynamics_node.algorithms.recursion import joint_motions, outward
from dynamics_node.algorithms.reduced_frames import economical_robot, with_inputs
from dynamics_node.algorithms.rnea import body_motions, body_wrenches
from dynamics_node.robot.transforms import joint_transforms
from dynamics_node.symbolic import Halves, matvec, skew, split, trace, transform_origin, transform_rotation

FAR = 1e9  # rad or m: a limit that is none


class Touch(NamedTuple):
    """A contact that can touch a surface of the ground: numbers of both."""

    contact: int
    surface: int


class StepRows(NamedTuple):
    """The rows of a step: touches, three each; then coordinates, one each. friction (touches,): coefficients;
    restitution (touches,); dry (coordinates,): friction, N m or N."""

    touches: tuple[Touch, ...]
    coordinates: tuple[int, ...]
    friction: np.ndarray
    restitution: np.ndarray
    dry: np.ndarray

    @property
    def size(self):
        return 3 * len(self.touches) + len(self.coordinates)


class ContactStep(NamedTuple):
    """halves: the Programs of a step, see `split`; the second has the impulses (rows,) and returns q and qd.

    The first returns A, the lower triangle of the Delassus matrix row by row; velocity (rows,) without
    impulses; approach (touches,): normal velocities at the start; gap (touches,): distances, over dt; steep
    (touches of terrains,): more than 1e-3 where there is no result; low, high (coordinates,): velocities that
    reach the limits within the step."""

    halves: Halves
    rows: StepRows


def step_rows(robot, contacts, ground, friction, limits) -> StepRows:
    """The StepRows of contacts and surfaces. friction, limits: whether joints have theirs."""
    touches = [Touch(c, s) for c in range(len(contacts)) for s in range(len(ground))]
    coordinates, dry = [], []
    for joint in robot.independent_joints:
        if joint.type.is_scalar and joint.masters is None:
            v = int(np.arange(robot.nv)[joint.v][0])
            bounded = limits and np.isfinite([joint.limits.lower, joint.limits.upper]).any()
            force = robot.friction[robot.independent[v]] if friction else 0.0
            if bounded or force:
                coordinates.append(v)
                dry.append(force)
    mu = [_coefficient(contacts[touch.contact], ground[touch.surface]) for touch in touches]
    e = [ground[touch.surface].restitution for touch in touches]
    return StepRows(tuple(touches), tuple(coordinates), np.array(mu), np.array(e), np.array(dry))


def _coefficient(contact, surface):
    own = contact.friction if contact.friction is not None else surface.friction
    return float(min(own, surface.friction))


def contact_step(robot, contacts, ground, friction=True, limits=True, loops=()) -> ContactStep:
    """The ContactStep of a robot. loops: places in qd of PD loops; the first half then has an input
    loop_inertia (loops,), what the ends of steps add to the inertias of their joints."""
    rows = step_rows(robot, contacts, ground, friction, limits)
    own, _ = economical_robot(robot)

    def function(q, qd, tau, dt, gravity, impulses, loop_inertia=()):
        damped, tau = _with_losses(own, q, qd, tau, dt) if friction else (own, tau)
        if loops:
            damped = _with_inertia(damped, loops, loop_inertia)
        return _step(own, damped, q, qd, tau, dt, gravity, impulses, contacts, ground, rows, limits)

    inputs = {"q": (robot.nq,), "qd": (robot.nv,), "tau": (robot.nv,)}
    inputs |= {"loop_inertia": (len(loops),)} if loops else {}
    program = trace(function, inputs | {"dt": (), "gravity": (3,), "impulses": (rows.size,)})
    return ContactStep(split(program, "impulses", ("q", "qd")), rows)


def _step(robot, damped, q, qd, tau, dt, gravity, impulses, contacts, ground, rows, limits):
    """damped: the robot with the inertia of what acts at the end of the step."""
    tree, rates = damped.tree, rates_at(damped, q, qd, explicit=True)
    X_up, changes = joint_transforms(tree, q), rates.accelerations(np.zeros(robot.nv))
    motions = body_motions(tree, X_up, rates.qd, changes, gravity)
    pA = body_wrenches(tree, motions)
    free = [True] * len(robot.clusters)
    solutions = inward(damped, X_up, rates.G, pA, changes, tau, free)
    places, sides = _touching(tree, X_up, contacts, ground, rows.touches)
    velocities = outward(tree, X_up, joint_motions(tree, rates.qd))
    points = [sum(P.T @ velocities[body] for body, P in side.items()) for side in sides]
    now = np.concatenate([*points, qd[list(rows.coordinates)]])
    forces = forces_at_joints(
        damped, X_up, solutions, [dict(side) for side in sides], [3] * len(sides), rows.coordinates
    )
    products = apparent_matrix(solutions, forces, [given.u for given in solutions])
    A = products[:-1, :-1]
    loaded = [
        given._replace(u=dt * given.u + F @ impulses) for given, F in zip(solutions, forces, strict=True)
    ]
    zero = np.zeros(robot.nv, dtype=object)
    change, _ = accelerations_and_torques(damped, X_up, loaded, zero, zero)
    after = qd + change
    low, high = _to_limits(robot, q, dt, rows.coordinates, limits)
    return {
        "A": A[np.tril_indices(len(A))],
        "velocity": now + dt * products[:-1, -1],
        "approach": now[2 : 3 * len(sides) : 3],
        "gap": np.array([place.gap for place in places], dtype=object) / dt,
        "steep": np.array([place.loss for place in places if place.loss is not None], dtype=object),
        "low": low,
        "high": high,
        "q": displaced(robot, q, dt * rates_of_all(robot, q, after)),
        "qd": after,
    }


def _touching(tree, X_up, contacts, ground, touches):
    """Of every touch, its Place on the ground, and {body: P (6, 3)}, the wrenches on the body in its axes by
    unit forces along those of the Place."""
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


def _to_limits(robot, q, dt, coordinates, limits):
    """Velocities (coordinates,) that reach the lower and the upper limits within the step."""
    joints = {int(np.arange(robot.nv)[j.v][0]): j for j in robot.independent_joints if j.type.is_scalar}
    ends = []
    for side, far in (("lower", -FAR), ("upper", FAR)):
        bounds = [getattr(joints[v].limits, side) if limits else far for v in coordinates]
        bounds = [bound if np.isfinite(bound) else far for bound in bounds]
        places = [q[joints[v].q][0] for v in coordinates]
        ends.append(np.array([(b - x) / dt for b, x in zip(bounds, places, strict=True)], dtype=object))
    return ends


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
