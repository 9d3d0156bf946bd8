"""Sensor problem -> rows: the exact dynamics, and the readings of sensors (paper 4, eqs. 14 and 17); the same
in few unknowns.

Accelerations A, wrenches F and torques have equations of their own with an identity block (paper 1, eqs.
(5)-(7)); in the order of the recursions each follows from those before. Free variables are joint
accelerations, forces of contacts and of loops; the other rows are conditions on these (`reduced`).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.rates import sampled_rates
from dynamics_node.algorithms.recursion import joint_motions, outward, root_acceleration
from dynamics_node.graph.contact_factors import Touched, touched
from dynamics_node.graph.elimination import chosen_rows
from dynamics_node.graph.factor_graph import joint_values
from dynamics_node.graph.factors import (
    ACCELERATION,
    TORQUE,
    WRENCH,
    LinearFactor,
    Variable,
    torque,
    with_blocks,
)
from dynamics_node.graph.robot_graph import robot_factors
from dynamics_node.graph.sensor_factors import Site, sensor_factor
from dynamics_node.robot.sensor_problem import SensorProblem, deviations
from dynamics_node.robot.transforms import joint_transforms
from dynamics_node.symbolic import matvec

CANCELLED = 1e-12  # coefficients relative to the terms of their sum
_SOLVED = {"acceleration": ACCELERATION, "wrench": WRENCH, "torque": TORQUE}


class SensorSystem(NamedTuple):
    """The rows of a sensor problem at states.

    exact: the dynamics, then assumptions and sensors without noise. noisy: one factor for each sensor, with
    their covariances (rows, rows), the names of their rows (`labels`) and of the sensor. exact_labels: names
    of rows of exact sensors, by the number of their factor. contacts: with their unknown forces.
    """

    exact: tuple[LinearFactor, ...]
    noisy: tuple[LinearFactor, ...]
    covariances: tuple[np.ndarray, ...]
    labels: tuple[tuple[str, ...], ...]
    sensors: tuple[str, ...]
    exact_labels: dict[int, tuple[str, ...]]
    contacts: tuple[Touched, ...]

    @property
    def variables(self) -> tuple[Variable, ...]:
        """All unknowns, those of the dynamics first."""
        return tuple(dict.fromkeys(x for factor in (*self.exact, *self.noisy) for x in factor.blocks))


def sensor_system(
    robot, problem: SensorProblem, q, qd, readings, gravity=None, selected=None
) -> SensorSystem:
    """The rows at closed q (..., nq), qd (..., nv), readings (..., m) in the order of `problem.readings`;
    gravity (..., 3) in place of the model's; selected as in `robot_factors`. On symbols loops need
    `spanned_sensor_system`."""
    rates = sampled_rates(robot, q, qd).qd
    return spanned_sensor_system(robot, problem, q, rates, readings, gravity, selected)


def spanned_sensor_system(
    robot, problem: SensorProblem, q, rates, readings, gravity=None, selected=None
) -> SensorSystem:
    """`sensor_system` from the velocities of all joints, rates (..., nv of the tree), also on symbols."""
    site = site_of(robot, problem, q, rates, gravity)
    exact = [*_dynamics(robot, site.touched, q, rates, gravity, selected)]
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
            exact.append(chosen_rows(factor, known))
        if uncertain:
            noisy.append(chosen_rows(factor, uncertain))
            owners.append(sensor.name)
            names.append(tuple(labels[row] for row in uncertain))
            covariances.append(
                np.diag(std[uncertain] ** 2) if sensor.covariance is None else np.array(sensor.covariance)
            )
    rows = (tuple(exact), tuple(noisy), tuple(covariances))
    return SensorSystem(*rows, tuple(names), tuple(owners), exact_names, site.touched)


def sensor_values(robot, system: SensorSystem, values):
    """qdd, tau (..., nv), f_ext (..., nbodies, 6) from the values of all variables, {variable: array}."""
    some = next(iter(values.values()))
    batch, dtype = some.shape[:-1], some.dtype
    zero = np.zeros((*batch, robot.nv), dtype)
    qdd, tau = joint_values(robot, values, zero, zero)
    f_ext = np.zeros((*batch, robot.nbodies, 6), dtype)
    for contact in system.contacts:
        for body, P in contact.sides.items():
            f_ext[..., body, :] += matvec(P, values[contact.force])
    return qdd, tau, f_ext


def site_of(robot, problem: SensorProblem, q, rates, gravity=None) -> Site:
    """The Site of sensors at q (..., nq) and the velocities of all joints, rates (..., nv of the tree)."""
    tree = robot.tree
    X_up = joint_transforms(tree, q)
    velocities = outward(tree, X_up, joint_motions(tree, rates))
    of_contacts = problem.contacts, touched(tree, problem.contacts, q)
    return Site(tree, X_up, velocities, root_acceleration(tree, gravity), *of_contacts)


def _dynamics(robot, contacts, q, rates, gravity, selected):
    """The equations of motion with forces of contacts; torques that are always zero are left out."""
    factors = robot_factors(robot, q, rates, None, gravity, selected)
    undriven = _undriven(robot)
    for factor in factors:
        if factor.kind == "wrench":
            on_it = {t.force: t.sides[factor.body] for t in contacts if factor.body in t.sides}
            factor = with_blocks(factor, on_it)
        yield replace(factor, blocks={x: B for x, B in factor.blocks.items() if x not in undriven})


def _known_value(sensor, labels):
    return np.broadcast_to(np.array(sensor.value, dtype=float), (len(labels),))


def _undriven(robot):
    """Torques that are zero: of floating joints, and of the dependent joints of loops."""
    tree = robot.tree
    independent = {joint.name for joint in robot.independent_joints}
    bodies = enumerate(tree.bodies)
    return {
        torque(i, body.joint.type.nv)
        for i, body in bodies
        if body.joint.masters is None and (body.joint.type.is_free or body.joint.name not in independent)
    }


class Rows(NamedTuple):
    """A z = b: A (..., rows, n), b (..., rows)."""

    A: np.ndarray
    b: np.ndarray


class Reduced(NamedTuple):
    """free: the variables in z (n,); values: {variable: (..., dim, 1 + n)}, at z = 0 and derivatives by z;
    exact: the remaining exact rows, one Rows for each factor, with the factors; noisy: of every noisy
    factor."""

    free: tuple[Variable, ...]
    values: Mapping[Variable, np.ndarray]
    exact: tuple[Rows, ...]
    exact_factors: tuple[LinearFactor, ...]
    noisy: tuple[Rows, ...]

    @property
    def size(self):
        return sum(x.dim for x in self.free)


def reduced(system: SensorSystem) -> Reduced:
    """The same problem in the free variables, for floats."""
    equations = {x: factor for factor in system.exact if (x := _solved_variable(factor)) is not None}
    free = tuple(x for x in system.variables if x not in equations)
    batch = np.broadcast_shapes(*(factor.rhs.shape[:-1] for factor in (*system.exact, *system.noisy)))
    values = _selected(free, batch)
    for x in sorted(equations, key=recursion_order):
        A, b = factor_rows(equations[x], values, without=x)
        values[x] = np.concatenate([b[..., None], -A], axis=-1)
    others = tuple(factor for factor in system.exact if _solved_variable(factor) is None)
    exact = tuple(Rows(*factor_rows(factor, values)) for factor in others)
    noisy = tuple(Rows(*factor_rows(factor, values)) for factor in system.noisy)
    return Reduced(free, values, exact, others, noisy)


def _solved_variable(factor) -> Variable | None:
    """The variable with an identity block in an equation of the dynamics, if it occurs."""
    if factor.kind not in _SOLVED:
        return None
    variable = Variable(_SOLVED[factor.kind], factor.body, factor.rows)
    return variable if variable in factor.blocks else None


def recursion_order(variable):
    """A from the root to the tips, F back, torques, then free variables."""
    kinds = (ACCELERATION, WRENCH, TORQUE)
    place = kinds.index(variable.kind) if variable.kind in kinds else len(kinds)
    return place, -variable.body if variable.kind == WRENCH else variable.body


def _selected(free, batch):
    """{variable: itself}"""
    n, start, selected = sum(x.dim for x in free), 0, {}
    for x in free:
        value = np.zeros((*batch, x.dim, 1 + n))
        value[..., 1 + start : 1 + start + x.dim] = np.eye(x.dim)
        selected[x] = value
        start += x.dim
    return selected


def factor_rows(factor, values, without=None):
    """A (..., rows, n) and b (..., rows) of a factor in the free variables; without: a variable to leave out.
    Coefficients that cancel to rounding are zero."""
    n = next(iter(values.values())).shape[-1] if values else 1
    total, size = np.zeros((factor.rows, n)), np.zeros((factor.rows, n))
    for x, block in factor.blocks.items():
        if x != without:
            total = total + block @ values[x]
            size = size + np.abs(block) @ np.abs(values[x])
    A = np.where(np.abs(total) > CANCELLED * size, total, 0.0)[..., 1:]
    return A, factor.rhs - total[..., 0]
