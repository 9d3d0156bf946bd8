"""Sensor problems at call time: weighted least squares under the exact dynamics, by NumPy."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dynamics_node.graph.least_squares import Fit, Space, solve, space
from dynamics_node.graph.reduced import Reduced, reduced
from dynamics_node.graph.sensor_system import SensorSystem, sensor_system, sensor_values
from dynamics_node.graph.variable_names import in_words
from dynamics_node.robot import Robot, SensorProblem

CHUNK = 64  # states whose rows are in memory together
OPEN = 1e-7  # entries of what is left open that count, beside what they could be


@dataclass(frozen=True, eq=False)
class SensorLeastSquares:
    """See the package; states at which something is not determined have no result."""

    model: Robot
    problem: SensorProblem
    description = "least squares"

    def with_inertias(self, model):
        """The same for a robot of other inertias or rotor inertias."""
        return replace(self, model=model)

    def __call__(self, q, qd, readings, gravity=None):
        """{name: array} of all that the problem returns, from q (count, nq), qd (count, nv), readings (count,
        m)."""
        returns = self.problem.returns(self.model)
        found = {name: np.full((len(q), *shape), np.nan) for name, shape in returns.items()}
        for start in range(0, len(q), CHUNK):
            at = slice(start, start + CHUNK)
            g = gravity[at] if np.ndim(gravity) == 2 else gravity
            for k, state in enumerate(
                solved(self.model, self.problem, q[at], qd[at], readings[at], g), start
            ):
                if state.fit is not None:
                    for name, value in self._results(state).items():
                        found[name][k] = value
        return found

    def _results(self, state):
        z, root = state.fit.z, state.fit.root
        names = ("qdd", "tau", "f_ext")
        found = {}
        for name, affine in zip(names, state.results, strict=True):
            found[name] = affine[0] + np.tensordot(z, affine[1:], 1)
            if name in self.problem.covariance:
                moved = np.tensordot(root.T, affine[1:], 1)
                found[f"{name}_covariance"] = _covariance(moved)
        found["residuals"] = self._residuals(state)
        found["chi_square"] = state.fit.residual @ state.fit.residual
        return found

    @cached_property
    def _places(self):
        return {name: k for k, name in enumerate(self.problem.readings)}

    def _residuals(self, state):
        """(m,): readings minus what the estimate says they should be; of exact ones zero."""
        found = np.zeros(len(self.problem.readings))
        for labels, rows in zip(state.labels, state.noisy, strict=True):
            left = rows.b - rows.A @ state.fit.z
            for label, value in zip(labels, left, strict=True):
                if label in self._places:
                    found[self._places[label]] = value
        return found


def _covariance(moved):
    """(nv, nv), or body by body (nbodies, 6, 6), of what unit errors move: (k, nv) or (k, nbodies, 6)."""
    return np.einsum("k...i,k...j->...ij", moved, moved)


class State(NamedTuple):
    """One state, solved where its `space` leaves nothing open. results: qdd, tau, f_ext, each (1 + n,
    *shape): at z = 0 and by z; noisy: Rows of every noisy factor, names of their rows (`labels`) and sensors,
    and roots: what divides them by their standard deviations."""

    reduced: Reduced
    results: tuple[np.ndarray, ...]
    noisy: list
    labels: tuple[tuple[str, ...], ...]
    sensors: tuple[str, ...]
    roots: list[np.ndarray]
    space: Space
    fit: Fit | None


def solved(robot, problem: SensorProblem, q, qd, readings, gravity=None):
    """The State of every one of some states, q (count, nq) ..."""
    system = sensor_system(robot, problem, q, qd, readings, gravity)
    few = reduced(system)
    results = affine_results(robot, problem, few)
    roots = [np.linalg.inv(np.linalg.cholesky(covariance)) for covariance in system.covariances]
    for k in range(len(q)):
        E, e = stacked(few.exact, k, few.size)
        noisy = [type(rows)(_at(rows.A, k, 2), _at(rows.b, k, 1)) for rows in few.noisy]
        determined = space(E, stacked(noisy, None, few.size)[0])
        fit = None
        if not determined.open.size and not determined.repeated.size:
            weighted = [type(rows)(W @ rows.A, W @ rows.b) for W, rows in zip(roots, noisy, strict=True)]
            N, r = stacked(weighted, None, few.size)
            fit = solve(E, e, N, r, determined)
        own = tuple(_at(array, k, array.ndim - 1) for array in results)
        yield State(few, own, noisy, system.labels, system.sensors, roots, determined, fit)


def affine_results(robot, problem, few: Reduced):
    """qdd, tau, f_ext, each (count, 1 + n, *shape)."""
    columns = {x: np.swapaxes(value, -1, -2) for x, value in few.values.items()}
    return sensor_values(robot, problem, columns)


def stacked(rows, state, size):
    """A (rows, size) and b (rows,) of several Rows, at one state; None: they are of one."""
    if state is not None:
        rows = [(_at(one.A, state, 2), _at(one.b, state, 1)) for one in rows]
    A = np.concatenate([np.zeros((0, size)), *(one[0] for one in rows)])
    return A, np.concatenate([np.zeros(0), *(one[1] for one in rows)])


def _at(array, k, axes):
    """The array at a state, if it has states."""
    return array[k] if array.ndim > axes else array


def repeated(system: SensorSystem, few: Reduced, determined: Space) -> tuple[str, ...]:
    """Exact sensors, or what else is taken as exact, that others say already."""
    found, top = [], 0
    names = {id(system.exact[number]): labels for number, labels in system.exact_labels.items()}
    for factor in few.exact_factors:
        again = np.abs(determined.repeated[top : top + factor.rows]).max(axis=1, initial=0.0) > OPEN
        labels = names.get(id(factor), ())
        found += [label for label, is_so in zip(labels, again, strict=bool(labels)) if is_so]
        if again.any() and not labels:
            found.append(factor.name)
        top += factor.rows
    return tuple(found)


def unobservable(robot, problem: SensorProblem, few: Reduced, determined: Space, state=0) -> tuple[str, ...]:
    """In words what is left open at a state, what is asked first: joints, external wrenches, then torques."""
    found: list[str] = []
    if not determined.open.size:
        return ()
    directions = determined.open / determined.scale[:, None]  # orthonormal
    for x, value in sorted(few.values.items(), key=lambda pair: _ASKED.index(pair[0].kind)):
        if x.kind in _ASKED[:4]:
            by_z = _at(value, state, 2)[:, 1:] * determined.scale
            left = np.abs(by_z @ directions).max(axis=1)
            size = np.linalg.norm(by_z, axis=1)
            words = in_words(robot, problem, x)
            found += [word for word, is_open in zip(words, left > OPEN * size, strict=True) if is_open]
    return tuple(found)


_ASKED = ("W", "qdd", "tau", "C", "F", "A")
