"""The support region: where the center of mass may stay while the robot rests on its contacts.

The forces x of contacts that carry a robot of weight 1 determine the horizontal place of its center of mass:
it is the linear map C x (Bretl and Lall, 2008). The region is the image of all x within their cones that
balance the robot. It is convex. Linear programs find its extreme points in some directions; where an edge
between two points leaves out more than a tolerance, another point is inserted.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.algorithms.contact_dynamics import PlacedContacts, why_no_forces
from dynamics_node.algorithms.contact_equations import contact_equations
from dynamics_node.algorithms.contact_qp import ForceVariables
from dynamics_node.algorithms.frame_kinematics import body_poses
from dynamics_node.algorithms.wheels import LEANING
from dynamics_node.errors import InputError, SolutionError
from dynamics_node.functions.checks import finite, positive, require_flags, require_unit_quaternions
from dynamics_node.robot import Robot
from dynamics_node.robot.contacts import Contact, valid_contacts
from dynamics_node.robot.transforms import joint_transforms
from dynamics_node.robot.wrong_calls import explains_wrong_calls
from dynamics_node.symbolic import skew

EXCESS = 1e-6  # outside of a cone, relative to the weight
FACES = 16  # of the pyramid around a cone at first
MOST_PROGRAMS = 100
OPTIONS = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


@explains_wrong_calls
def support_region(
    robot: Robot,
    q: ArrayLike,
    contacts: Contact | Iterable[Contact],
    active: ArrayLike | None = None,
    *,
    tolerance: float = 1e-3,
) -> np.ndarray:
    """Compute the region in which the center of mass may stay while the robot is at rest.

    The contacts stay where they are at q, and hold the robot within their cones of friction and areas of
    surfaces. Joints are as strong as necessary.

    Parameters
    ----------
    robot : Robot
        A robot with a floating base; its gravity points along -z.
    q : array_like (nq,)
        A position.
    contacts : Contact or iterable of Contact
        Its contacts. Those between two of its links hold nothing.
    active : array_like (contacts,), optional
        1 for contacts that touch, 0 for others. By default all touch.
    tolerance : float
        Greatest distance between the polygon, which lies inside, and the boundary of the region, m.

    Returns
    -------
    ndarray (vertices, 2)
        Vertices of a convex polygon in x and y of the world, m, counterclockwise. One foot has one vertex,
        two have the two ends of a segment.

    Raises
    ------
    ContactError
        For a contact at an unknown link or at one that is fixed; the message names it.
    InputError
        For an invalid argument, or a region without bounds, such as that of grips.
    SolutionError
        If the contacts hold the robot nowhere.

    References
    ----------
    Bretl and Lall, "Testing Static Equilibrium for Legged Robots", IEEE Transactions on Robotics, 2008.

    Examples
    --------
    >>> from dynamics_demo.robots import quadruped
    >>> legs = dn.parse_robot(quadruped(), floating_base=True)
    >>> shanks = ("fl_shank", "fr_shank", "hl_shank", "hr_shank")
    >>> feet = [dn.Contact(shank, xyz=(0, 0, -0.2), friction=0.7) for shank in shanks]
    >>> dn.support_region(legs, legs.neutral(), feet, active=[1, 1, 1, 0]).round(3)
    array([[-0.19 ,  0.111],
           [ 0.19 , -0.111],
           [ 0.19 ,  0.111]])
    """
    contacts = valid_contacts(robot, contacts)
    position = finite("q", q, (robot.nq,))
    for joint, place in robot.quaternions:
        require_unit_quaternions(joint, position[None, place])
    touch = np.ones(len(contacts)) if active is None else finite("active", active, (len(contacts),))
    require_flags("active", touch, (touch.shape, [contact.name for contact in contacts]))
    if not robot.floating_base:
        raise InputError(f"{robot.name} has no floating base: its root holds it, not its contacts")
    if robot.gravity[:2].any() or not robot.gravity[2] < 0.0:
        raise InputError(f"gravity must point along -z, not {robot.gravity}: turn q and the normals instead")
    tolerance = positive("tolerance", tolerance, "m")
    touching = [contact for contact, on in zip(contacts, touch, strict=True) if on]
    if not touching:
        raise SolutionError("no contact is active, so nothing holds the robot")
    return _Region(robot, position, touching).polygon(tolerance)


class _Region:
    """The linear programs of a region. x is relative to the weight."""

    def __init__(self, robot, q, contacts):
        self._variables = v = ForceVariables(contacts)
        wrenches = _wrenches(robot.tree, q, contacts) @ v.spread
        self._place = np.array([-wrenches[1], wrenches[0]])
        self._balance = wrenches[[3, 4, 5, 2]]
        angles = np.arange(FACES) * (2 * np.pi / FACES)
        self._planes = [v.wedges]
        for cone in range(len(v.normals)):
            self._add(np.full(FACES, cone), np.stack([np.cos(angles), np.sin(angles)], axis=1))

    def _add(self, cones, directions):
        """Planes that touch the cones (k,) in directions (k, 2)."""
        v, at = self._variables, np.arange(len(cones))
        rows = np.zeros((len(cones), v.size))
        rows[at[:, None], v.tangents[cones]] = directions
        rows[at, v.normals[cones]] = -v.friction[cones]
        self._planes.append(rows)

    def extreme(self, direction):
        """The point (2,) of the region that is the farthest in a direction."""
        from scipy.optimize import linprog  # costs more than everything else of the import

        v = self._variables
        bounds = [(0.0 if j < v.nnormals else None, None) for j in range(v.size)]
        for _ in range(MOST_PROGRAMS):
            rows = np.concatenate(self._planes)
            equations = self._balance, [0.0, 0.0, 1.0, 0.0]
            limits = np.zeros(len(rows))
            found = linprog(
                -direction @ self._place, rows, limits, *equations, bounds, method="highs", options=OPTIONS
            )
            if found.status == 3:
                raise InputError("the contacts hold the center of mass everywhere: the region has no bounds")
            if found.status == 2:
                raise SolutionError("no forces of these contacts hold the robot at rest")
            if found.status:
                raise SolutionError(f"the linear program of the support region fails: {found.message}")
            tangents = found.x[v.tangents]
            lengths = np.sqrt((tangents * tangents).sum(axis=1))
            outside = np.flatnonzero(lengths - v.friction * found.x[v.normals] > EXCESS)
            if not outside.size:
                return self._place @ found.x
            self._add(outside, tangents[outside] / lengths[outside, None])
        raise SolutionError(f"the support region needs more than {MOST_PROGRAMS} linear programs at a vertex")

    def polygon(self, tolerance):
        """Vertices (k, 2), counterclockwise."""
        first = [self.extreme(np.array(d)) for d in ((-1.0, 0.0), (0.0, -1.0), (1.0, 0.0), (0.0, 1.0))]
        vertices = []
        for start, end in zip(first, [*first[1:], first[0]], strict=True):
            vertices += [start, *self._between(start, end, tolerance)]
        return np.array(_corners(vertices, 1e-3 * tolerance))

    def _between(self, start, end, tolerance):
        """Vertices between two, counterclockwise."""
        length = np.hypot(*(end - start))
        if length <= tolerance:
            return []
        outward = np.array([end[1] - start[1], start[0] - end[0]]) / length
        vertex = self.extreme(outward)
        if outward @ (vertex - start) <= tolerance:
            return []
        return [
            *self._between(start, vertex, tolerance),
            vertex,
            *self._between(vertex, end, tolerance),
        ]


def _wrenches(tree, q, contacts):
    """(6, rows): moments about the origin of the world and forces, by unit forces of the contacts."""
    X_up = joint_transforms(tree, q)
    equations = contact_equations(tree, X_up, contacts)
    poses = body_poses(tree, X_up, {body for e in equations for body, _ in e.sides} - {-1})
    columns = [np.zeros((6, 0))]
    if PlacedContacts(contacts, equations, np.ones(len(contacts))).invalid() > LEANING:
        raise SolutionError(why_no_forces(tree, contacts, q, np.ones(len(contacts))))
    for equation in equations:
        total = np.zeros((6, equation.size))
        for body, P in equation.sides:
            E, p = poses[body]
            moments, forces = E.T @ P[:3], E.T @ P[3:]
            total += np.concatenate([moments + skew(p) @ forces, forces])
        columns.append(total if equation.turn is None else total @ equation.turn.T)
    return np.concatenate(columns, axis=1).astype(float)


def _corners(points, least):
    """The points at which a convex polygon turns, without repetitions."""
    middle = np.mean(points, axis=0)
    _, _, (along, across) = np.linalg.svd(np.array(points) - middle)
    if np.ptp(points @ across) <= least:  # a point or a segment
        ends = [points[k] for k in (np.argmin(points @ along), np.argmax(points @ along))]
        return ends if np.ptp(points @ along) > least else ends[:1]
    kept = list(points)
    for k in reversed(range(len(points))):
        before, after = kept[k - 1], kept[(k + 1) % len(kept)]
        chord, step = after - before, kept[k] - before
        length = np.hypot(*chord)
        if abs(chord[0] * step[1] - chord[1] * step[0]) <= least * length:
            kept.pop(k)
    return kept
