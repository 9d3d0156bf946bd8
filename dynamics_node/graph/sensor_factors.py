"""Readings of sensors as rows of the linear system (paper 4, eq. 17): one function per kind of sensor.

Notation: X takes motion vectors from a body to the sensor on it, so its transposed inverse takes wrenches
there. A contains gravity (the root's acceleration is -g), so the reading of an accelerometer, its proper
acceleration, depends on A alone.
"""

from typing import NamedTuple

import numpy as np

from dynamics_node.graph.contact_factors import Touched
from dynamics_node.graph.factors import (
    LinearFactor,
    Variable,
    acceleration,
    joint_acceleration,
    torque,
    wrench,
)
from dynamics_node.robot import Robot
from dynamics_node.robot.contacts import Contact
from dynamics_node.robot.sensors import WRENCH, Sensor
from dynamics_node.robot.subtree import subtree
from dynamics_node.robot.transforms import FactoredTransforms, Transforms
from dynamics_node.symbolic import (
    cross_force,
    inverse_motion_transform,
    matvec,
    motion_transform,
    product,
    rpy_rotation,
    skew,
    transpose,
)


class Site(NamedTuple):
    """The state for sensors: the tree, X_up and V (..., nbodies, 6) of its bodies, the root's acceleration
    (..., 6), the contacts of the problem, and the same at the state."""

    tree: Robot
    X_up: Transforms | FactoredTransforms
    velocities: np.ndarray
    root_acceleration: np.ndarray
    contacts: tuple[Contact, ...]
    touched: tuple[Touched, ...]


class SensorRows(NamedTuple):
    """sum blocks x + known = reading; blocks {variable: (rows, dim)}, known (..., rows) or zero."""

    body: int
    blocks: dict[Variable, np.ndarray]
    known: np.ndarray | float = 0.0


def sensor_factor(site: Site, sensor: Sensor, reading) -> LinearFactor:
    """The factor of a sensor; reading (..., rows), all rows of it."""
    body, blocks, known = _ROWS[sensor.kind](site, sensor)
    return LinearFactor(f"{sensor.kind} sensor", body, blocks, reading - known)


def sensor_transform(tree, link, xyz, rpy):
    """X (6, 6) of motion vectors from the body of a link to a sensor with this pose on the link."""
    return product(motion_transform(_rotation(rpy), np.array(xyz)), tree.frame(link).X)


def _rotation(rpy):
    """E, exact for right angles."""
    E = rpy_rotation(np.array(rpy)).T
    nearest = np.round(E)
    return np.where(np.abs(E - nearest) < 1e-14, nearest, E)


# --- rows of each kind --------------------------------------------------------------------------------------


def _torque(site, sensor):
    body, joint = _joint(site, sensor.joint)
    return SensorRows(body, {torque(body, joint.type.nv): np.eye(joint.type.nv)})


def _acceleration(site, sensor):
    """The acceleration of a joint; an explicit one moves with its masters."""
    body, joint = _joint(site, sensor.joint)
    if joint.masters is None:
        return SensorRows(body, {joint_acceleration(body, joint.type.nv): np.eye(joint.type.nv)})
    owners = [_joint(site, name)[0] for name in joint.masters.names]
    weights = zip(owners, joint.masters.weights, strict=True)
    return SensorRows(body, {joint_acceleration(owner): np.array([[weight]]) for owner, weight in weights})


def _force_torque(site, sensor):
    """F of the joint. For a fixed joint, the wrench for the motion of its links: I A + V x* I V + sum_c X_c^T
    F_c - f_ext over these links and the bodies on them. With the sign of the sensor."""
    child_side = subtree(site.tree, sensor.joint)
    X = sensor_transform(site.tree, child_side.link, sensor.xyz, sensor.rpy)
    to_sensor = sensor.sign * transpose(inverse_motion_transform(X))
    if not site.tree.frames[child_side.link].fixed_joint:
        return SensorRows(child_side.body, {wrench(child_side.body): to_sensor})
    blocks = {wrench(c): to_sensor @ transpose(site.X_up.matrix(c)) for c in child_side.children}
    for force, P in _forces_on(site, child_side.links):
        blocks[force] = -product(to_sensor, P)
    if child_side.body < 0:
        return SensorRows(
            child_side.body, blocks, matvec(product(to_sensor, child_side.inertia), site.root_acceleration)
        )
    V = site.velocities[..., child_side.body, :]
    blocks[acceleration(child_side.body)] = product(to_sensor, child_side.inertia)
    return SensorRows(
        child_side.body, blocks, matvec(to_sensor, cross_force(V, matvec(child_side.inertia, V)))
    )


def _accelerometer(site, sensor):
    """The linear half of X A + w x v, the classical acceleration of its origin (RBDA 2.51)."""
    body, X = _on_link(site, sensor)
    V = matvec(X, site.velocities[..., body, :])
    return SensorRows(body, {acceleration(body): X[3:]}, matvec(skew(V[..., :3]), V[..., 3:]))


def _angular_acceleration(site, sensor):
    body, X = _on_link(site, sensor)
    return SensorRows(body, {acceleration(body): X[:3]})


def _gyro(site, sensor):
    body, X = _on_link(site, sensor)
    return SensorRows(body, {}, matvec(X[:3], site.velocities[..., body, :]))


def _imu(site, sensor):
    turning, linear = _gyro(site, sensor), _accelerometer(site, sensor)
    blocks = {x: np.concatenate([np.zeros((3, x.dim)), block]) for x, block in linear.blocks.items()}
    return SensorRows(linear.body, blocks, np.concatenate([turning.known, linear.known], axis=-1))


def _wrench(site, sensor):
    body, X = _on_link(site, sensor)
    to_sensor = transpose(inverse_motion_transform(X))[[WRENCH.index(row) for row in sensor.rows]]
    forces = ((force, product(to_sensor, P)) for force, P in _forces_on(site, [sensor.link]))
    return SensorRows(body, {force: block for force, block in forces if np.any(block != 0)})


_ROWS = {
    "torque": _torque,
    "acceleration": _acceleration,
    "force_torque": _force_torque,
    "accelerometer": _accelerometer,
    "angular_acceleration": _angular_acceleration,
    "gyro": _gyro,
    "imu": _imu,
    "wrench": _wrench,
}


def _joint(site, name):
    return next((i, body.joint) for i, body in enumerate(site.tree.bodies) if body.joint.name == name)


def _on_link(site, sensor):
    return site.tree.frame(sensor.link).body, sensor_transform(site.tree, sensor.link, sensor.xyz, sensor.rpy)


def _forces_on(site, links):
    """(lambda, P) of the contacts of links of a body."""
    for contact, (force, sides, *_) in zip(site.contacts, site.touched, strict=True):
        for link in {contact.link, contact.other} & set(links):
            yield force, sides[site.tree.frame(link).body]
