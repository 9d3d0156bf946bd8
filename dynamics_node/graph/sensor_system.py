"""Sensor problem -> rows: the exact dynamics, and what sensors read (paper 4, eqs. 14 and 17)."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.recursion import joint_motions, outward, root_acceleration
from dynamics_node.algorithms.spanning import sampled_rates
from dynamics_node.algorithms.transforms import joint_transforms
from dynamics_node.graph.factor_graph import joint_values
from dynamics_node.graph.factors import LinearFactor
from dynamics_node.graph.loop_factors import with_blocks
from dynamics_node.graph.robot_graph import robot_factors
from dynamics_node.graph.sensor_factors import Site, contact_block, sensor_factor, zero_factor
from dynamics_node.graph.variables import Variable, external_wrench, torque
from dynamics_node.robot.sensor_problem import SensorProblem, deviations
from dynamics_node.robot.sensors import ExternalWrench


class SensorSystem(NamedTuple):
    """The rows of a sensor problem at states.

    exact: the dynamics, then assumptions and sensors without noise. noisy: of one sensor each, with their
    covariances (rows, rows), the names of their rows (`labels`) and of the sensor. exact_labels: names of
    rows of exact sensors, by the number of their factor.
    """

    exact: tuple[LinearFactor, ...]
    noisy: tuple[LinearFactor, ...]
    covariances: tuple[np.ndarray, ...]
    labels: tuple[tuple[str, ...], ...]
    sensors: tuple[str, ...]
    exact_labels: dict[int, tuple[str, ...]]

    @property
    def variables(self) -> tuple[Variable, ...]:
        """All unknowns, those of the dynamics first."""
        return tuple(dict.fromkeys(x for factor in (*self.exact, *self.noisy) for x in factor.blocks))


def sensor_system(robot, problem: SensorProblem, q, qd, readings, gravity=None, kept=None) -> SensorSystem:
    """The rows at closed q (..., nq), qd (..., nv), readings (..., m) in the order of `problem.readings`;
    gravity (..., 3) in place of the model's; kept as of `robot_factors`. On symbols loops need
    `spanned_measured_system`."""
    rates = sampled_rates(robot, q, qd).qd
    return spanned_measured_system(robot, problem, q, rates, readings, gravity, kept)


def spanned_measured_system(
    robot, problem: SensorProblem, q, rates, readings, gravity=None, kept=None
) -> SensorSystem:
    """The same from the velocities of all joints, rates (..., nv of the tree): on symbols, too."""
    site = site_of(robot, problem, q, rates, gravity)
    exact = [*_dynamics(robot, problem, q, rates, gravity, kept), *_no_wrench(site, problem)]
    noisy, covariances, names, owners, exact_names = [], [], [], [], {}
    for sensor, labels, at in zip(problem.sensors, problem.labels, problem.places, strict=True):
        if not labels:
            continue
        reading = _known_value(sensor, labels) if at is None else readings[..., at]
        factor = sensor_factor(site, sensor, reading)
        std = deviations(sensor, len(labels))
        known, uncertain = np.flatnonzero(std == 0).tolist(), np.flatnonzero(std > 0).tolist()
        if known:
            exact_names[len(exact)] = tuple(labels[row] for row in known)
            exact.append(_rows(factor, known))
        if uncertain:
            noisy.append(_rows(factor, uncertain))
            owners.append(sensor.name)
            names.append(tuple(labels[row] for row in uncertain))
            covariances.append(
                np.diag(std[uncertain] ** 2) if sensor.covariance is None else np.array(sensor.covariance)
            )
    rows = (tuple(exact), tuple(noisy), tuple(covariances))
    return SensorSystem(*rows, tuple(names), tuple(owners), exact_names)


def sensor_values(robot, problem: SensorProblem, values):
    """qdd, tau (..., nv), f_ext (..., nbodies, 6) from the values of all variables, {variable: array}."""
    some = next(iter(values.values()))
    batch, dtype = some.shape[:-1], some.dtype
    zero = np.zeros((*batch, robot.nv), dtype)
    qdd, tau = joint_values(robot, values, zero, zero)
    f_ext = np.zeros((*batch, robot.nbodies, 6), dtype)
    for number, contact in enumerate(problem.contacts):
        if contact.rows:
            body, block = contact_block(robot.tree, contact)
            f_ext[..., body, :] += values[external_wrench(number, len(contact.rows))] @ block.T
    return qdd, tau, f_ext


def site_of(robot, problem: SensorProblem, q, rates, gravity=None) -> Site:
    """Where the sensors sit at q (..., nq) and the velocities of all joints, rates (..., nv of the tree)."""
    tree = robot.tree
    X_up = joint_transforms(tree, q)
    velocities = outward(tree, X_up, joint_motions(tree, rates))
    return Site(tree, X_up, velocities, root_acceleration(tree, gravity), problem.contacts)


def _dynamics(robot, problem, q, rates, gravity, kept):
    """The equations of motion with every external wrench unknown; torques that nothing exerts are gone."""
    tree = robot.tree
    factors = robot_factors(robot, q, rates, None, gravity, kept)
    touched = _touched(tree, problem)
    undriven = _undriven(robot)
    for factor in factors:
        if factor.kind == "wrench":
            factor = with_blocks(factor, touched.get(factor.body, {}))
        yield replace(factor, blocks={x: B for x, B in factor.blocks.items() if x not in undriven})


def _known_value(sensor, labels):
    return np.broadcast_to(np.array(sensor.value, dtype=float), (len(labels),))


def _touched(tree, problem):
    """{body: {W: block}} of eq. (6): F - ... + f_ext = ..."""
    found: dict[int, dict] = {}
    for number, contact in enumerate(problem.contacts):
        if contact.rows:
            body, block = contact_block(tree, contact)
            found.setdefault(body, {})[external_wrench(number, len(contact.rows))] = block
    return found


def _undriven(robot):
    """Torques that are zero: of floating joints, and of the dependent joints of loops."""
    tree = robot.tree
    own = {joint.name for joint in robot.independent_joints}
    bodies = enumerate(tree.bodies)
    return {
        torque(i, body.joint.type.nv)
        for i, body in bodies
        if body.joint.masters is None and (body.joint.type.is_free or body.joint.name not in own)
    }


def _no_wrench(site, problem):
    numbers = {contact.link: number for number, contact in enumerate(problem.contacts)}
    records = [sensor for sensor in problem.sensors if isinstance(sensor, ExternalWrench)]
    factors = (zero_factor(site, sensor, numbers[sensor.link]) for sensor in records)
    return [factor for factor in factors if factor is not None]


def _rows(factor, rows):
    if rows == list(range(factor.rows)):
        return factor
    blocks = {x: block[..., rows, :] for x, block in factor.blocks.items()}
    return replace(factor, blocks=blocks, rhs=factor.rhs[..., rows])
