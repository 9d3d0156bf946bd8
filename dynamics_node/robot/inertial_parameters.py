"""The parameters of a Robot that may change at fixed geometry: inertias, with payloads and tools, and rotor
inertias."""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.errors import InputError
from dynamics_node.robot.bodies import Frame
from dynamics_node.robot.robot import Robot
from dynamics_node.robot.subtree import central_moments, subtree
from dynamics_node.robot.validate import HUGE, principal_moments
from dynamics_node.robot.wrong_calls import explains_wrong_calls
from dynamics_node.symbolic import (
    inverse_motion_transform,
    product,
    spatial_inertia,
    transformed_inertia,
    transpose,
)

PARAMETERS = ("inertia", "armature")


@explains_wrong_calls
def with_parameters(robot: Robot, inertias: np.ndarray, armature: np.ndarray) -> Robot:
    """Return the Robot with other inertias of its bodies and rotors.

    Parameters
    ----------
    robot : Robot
        The robot, which stays as it is.
    inertias : array_like (nbodies, 6, 6)
        Spatial inertias about the origins of the body frames, angular part first, kg m^2, kg m and kg. They
        may be symbols.
    armature : array_like (axles,)
        Rotor inertias, kg m^2 or kg, in the order of `Robot.armature`. They may be symbols.

    Returns
    -------
    Robot
        The robot with these inertias. `with_inertias` of a Function accepts it without a new build, if the
        changed ones are among its `runtime_parameters`.

    Examples
    --------
    >>> heavier = dn.with_parameters(robot, 1.1 * robot.inertias, robot.armature)
    >>> round(heavier.mass / robot.mass, 6)
    1.1
    """
    bodies, shared = [], iter(armature[len(armature) - len(robot.shared_joints) :])
    for body, inertia in zip(robot.bodies, inertias, strict=True):
        joint = body.joint
        if joint.masters is not None:  # the rotor of a joint with one master counts at the master
            rotor = next(shared) if len(joint.masters.names) > 1 else 0.0
        else:
            rotor = 0.0 if joint.type.is_free else armature[joint.v.start]
        joint = replace(joint, armature=rotor)
        bodies.append(replace(body, joint=joint, inertia=inertia))
    actuators = (replace(own, armature=next(shared)) if own.coupled else own for own in robot.actuators)
    return replace(robot, bodies=tuple(bodies), actuators=tuple(actuators))


def generic_parameters(robot: Robot, names) -> Robot:
    """The Robot with random generic values of the named PARAMETERS, so that a plan does not depend on
    accidental zeros."""
    random = np.random.default_rng(21)
    A = random.normal(size=(robot.nbodies, 3, 3))
    moments = product(A, transpose(A)) + np.eye(3)
    inertias = spatial_inertia(
        random.uniform(1, 2, robot.nbodies), random.normal(size=(robot.nbodies, 3)), moments
    )
    return with_parameters(
        robot,
        inertias if "inertia" in names else robot.inertias,
        np.ones(len(robot.armature)) if "armature" in names else robot.armature,
    )


@explains_wrong_calls
def with_payload(
    robot: Robot, link: str, mass: float, com: ArrayLike, inertia_com: ArrayLike | None = None
) -> Robot:
    """Return the Robot with a rigid payload fixed to a link.

    Parameters
    ----------
    robot : Robot
        The robot, which stays as it is.
    link : str
        The link, which may be fixed to another one. On a link that is fixed to the root, the payload has no
        effect.
    mass : float
        Mass of the payload, kg; positive.
    com : array_like (3,)
        Its center of mass in link axes, m.
    inertia_com : array_like (3, 3), optional
        Its moments of inertia about the center of mass in link axes, kg m^2; by default those of a point
        mass, zero.

    Returns
    -------
    Robot
        The robot with its payload.

    Raises
    ------
    KeyError
        For an unknown link.
    ValueError
        For wrong shapes, a mass that is not positive, moments of inertia that no body has, and numbers that
        are not finite.

    See Also
    --------
    identify_payload : the payload of recordings.

    Examples
    --------
    >>> loaded = dn.with_payload(robot, "panda_hand", 2.0, com=[0, 0, 0.1], inertia_com=0.01 * np.eye(3))
    >>> round(loaded.mass - robot.mass, 6)
    2.0
    >>> still = np.zeros((3, robot.nv))  # q, qd, qdd
    >>> for each in robot, loaded:  # torques of three joints
    ...     print(dn.build(each, "inverse_dynamics", backend="numpy")(*still)[[1, 3, 5]].round(1))
    [-4.  -3.3  2.3]
    [-5.8 -3.2  4. ]
    """
    frame = robot.frame(link)
    payload = spatial_inertia(mass, *_checked_payload(mass, com, inertia_com))
    return with_more(robot, frame, payload)


@explains_wrong_calls
def with_tool(
    robot: Robot,
    joint: str,
    mass: float,
    com: ArrayLike,
    xyz: ArrayLike = (0, 0, 0),
    rpy: ArrayLike = (0, 0, 0),
) -> Robot:
    """Return the Robot whose tool has another mass and center of mass.

    The tool is everything fixed to the child link of a joint. Its moments of inertia about the center of mass
    stay those of the description.

    Parameters
    ----------
    robot : Robot
        The robot, which stays as it is.
    joint : str
        The joint of the tool, often the fixed joint of a force/torque sensor.
    mass : float
        Mass of the tool, kg; positive.
    com : array_like (3,)
        Its center of mass in the axes of the sensor, m.
    xyz, rpy : array_like (3,)
        Pose of the sensor in the child link: position, m, and angles about fixed axes as in URDF, rad.

    Returns
    -------
    Robot
        The robot with this tool.

    Raises
    ------
    KeyError
        For an unknown joint.
    ValueError
        For a mass that is not positive, a center of mass that is not finite, and a tool fixed to the root.

    See Also
    --------
    identify_tool : mass and center of mass from readings of a force/torque sensor.

    Examples
    --------
    >>> tooled = dn.with_tool(robot, "panda_joint8", 0.8, com=[0.0, 0.0, 0.05])
    >>> round(tooled.mass - robot.mass, 2)  # the hand of the description has 0.76 kg
    0.04
    """
    com = np.asarray(com, dtype=float)
    if not (np.isfinite(mass) and mass > 0 and com.shape == (3,) and np.isfinite(com).all()):
        raise InputError(f"tool: it needs a positive mass and a center of mass, not {mass:g} and {com}")
    tool = subtree(robot, joint)
    if tool.body < 0:
        raise InputError(f"joint {joint!r} is fixed to the root: nothing moves its tool")
    X = tool.sensor(xyz, rpy)
    back = inverse_motion_transform(X)
    described = transformed_inertia(back, tool.inertia)
    wanted = spatial_inertia(mass, com, central_moments(described))
    X_link = product(X, inverse_motion_transform(tool.X))
    return with_more(robot, robot.frames[tool.link], transformed_inertia(X_link, wanted - described))


def with_more(robot: Robot, frame: Frame, inertia) -> Robot:
    """The Robot with a spatial inertia (6, 6), in link axes about its origin, added to a link. A link fixed
    to the root never moves: the Robot stays the same."""
    if frame.body < 0:
        return robot
    bodies = list(robot.bodies)
    body = bodies[frame.body]
    bodies[frame.body] = replace(body, inertia=body.inertia + transformed_inertia(frame.X, inertia))
    heavier = replace(frame, inertia=frame.inertia + inertia)
    return replace(robot, bodies=tuple(bodies), frames={**robot.frames, frame.name: heavier})


def _checked_payload(mass, com, inertia_com):
    com = np.asarray(com, dtype=float)
    inertia_com = np.zeros((3, 3)) if inertia_com is None else np.asarray(inertia_com, dtype=float)
    for name, array, shape in (("com", com, (3,)), ("inertia_com", inertia_com, (3, 3))):
        if array.shape != shape:
            raise InputError(f"payload: {name} must have shape {shape}, not {array.shape}")
    if not (np.isfinite(mass) and np.isfinite(com).all() and np.isfinite(inertia_com).all()):
        raise InputError("payload: mass, com or inertia is not finite")
    if mass <= 0:
        raise InputError(f"payload: mass {mass:g} is not positive")
    reach = np.abs(com).max()
    if max(mass, reach, np.abs(inertia_com).max()) >= HUGE or mass * max(reach, reach**2) >= HUGE:
        raise InputError(f"payload: mass, com or inertia exceeds {HUGE:g}")
    moments = principal_moments(inertia_com)
    slack = 1e-9 * max(1.0, moments[2])
    if moments[0] < -slack or moments[2] > moments[0] + moments[1] + slack:
        listed = ", ".join(f"{m:.3g}" for m in moments)
        raise InputError(
            f"payload: principal moments {listed} are impossible: none may be negative or "
            "exceed the sum of the others"
        )
    return com, inertia_com


def changed_parameters(one: Robot, other: Robot) -> set[str]:
    """The PARAMETERS in which two Robots of one geometry differ."""
    values = {"inertia": (one.inertias, other.inertias), "armature": (one.armature, other.armature)}
    return {name for name, (a, b) in values.items() if not np.array_equal(a, b)}


def same_geometry(one: Robot, other: Robot) -> bool:
    """True if two Robots differ in inertias, rotor inertias and gravity at most."""
    return (
        one.q_names == other.q_names
        and len(one.bodies) == len(other.bodies)
        and all(
            a.parent == b.parent
            and np.array_equal(a.X_tree, b.X_tree)
            and np.array_equal(a.joint.S, b.joint.S)
            and (a.joint.kind, a.joint.v, a.joint.masters, a.joint.offset)
            == (b.joint.kind, b.joint.v, b.joint.masters, b.joint.offset)
            for a, b in zip(one.bodies, other.bodies, strict=True)
        )
        and np.array_equal(one.axle_map, other.axle_map)
    )
