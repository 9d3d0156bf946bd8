"""A robot with another tool: everything fixed to the child link of a joint."""

import numpy as np
from numpy.typing import ArrayLike

from dynamics_node.errors import InputError
from dynamics_node.robot.inertial_parameters import with_more
from dynamics_node.robot.robot import Robot
from dynamics_node.robot.subtree import central_moments, subtree
from dynamics_node.symbolic import inverse_motion_transform, product, spatial_inertia, transformed_inertia


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
