"""Sensor problems at call time: weighted least squares under the exact dynamics, by NumPy, and sensors that
disagree.

min |N z - r|^2 over E z = e, N and r divided by standard deviations. By the null space of E (Golub and Van
Loan, Matrix Computations, sec. 6.2.3), then QR with pivots over rows in the order of their size, which is
stable for weights of any size (Cox and Higham, BIT 38, 1998).

The remaining sum of squares, in standard deviations, has a chi-square distribution if every sensor has its
standard deviation. Its decrease without one sensor follows from the residuals (deletion of observations:
Belsley, Kuh, Welsch 1980, sec. 2.1). A sensor with few checks by others has leverage: its residual is small
even if it is wrong (`judge`).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dynamics_node.graph.contact_factors import leaning_wheels
from dynamics_node.graph.factors import entry_names
from dynamics_node.graph.sensor_system import Reduced, SensorSystem, reduced, sensor_system, sensor_values
from dynamics_node.robot import Robot, SensorProblem
from dynamics_node.robot.sensor_problem import RESULTS

ZERO = 1e-9  # singular values relative to the largest, for rows and columns of length about 1
CHUNK = 64  # states whose rows are in memory together
OPEN = 1e-7  # smallest relative entry of an open direction
_REPORT_ORDER = ("lambda", "qdd", "tau", "C", "F", "A")
FALSE_ALARMS = 0.001  # of states at which sensors have their standard deviations
UNCHECKED = 1e-9  # variance of a residual, relative to that of its reading
PER_ROW = 2.0  # required decrease of chi-square for each row that is left out (Akaike 1974)
AS_GOOD = 1e-6  # relative difference of chi-square of equal explanations


class Space(NamedTuple):
    """The directions that rows determine. scale (n,): of the unknowns; particular (n, rows): solutions of the
    exact rows for unit right-hand sides; free (n, k): directions left open by them, `open` (n, l) those also
    left open by the noisy rows; ranks of the exact rows and of all. repeated (rows, j): combinations of exact
    rows that are redundant."""

    scale: np.ndarray
    particular: np.ndarray
    free: np.ndarray
    open: np.ndarray
    exact_rank: int
    rank: int
    repeated: np.ndarray


class Fit(NamedTuple):
    """z (n,) and its covariance (n, n) as root (n, k): root @ root.T; residual (m,): r - N z in standard
    deviations; hat (m, k), of orthonormal columns: residual = (1 - hat hat^T) r, within the exact rows."""

    z: np.ndarray
    root: np.ndarray
    residual: np.ndarray
    hat: np.ndarray


def space(E, N) -> Space:
    """E (p, n) exact rows, N (m, n) noisy ones; weights do not matter."""
    E, N, scale = _equilibrated(E, N)
    n = len(scale)
    lengths = _lengths(E)
    U, sizes, V = np.linalg.svd(E / lengths[:, None])
    exact_rank = int((sizes > ZERO).sum())
    particular = (V[:exact_rank].T / sizes[:exact_rank]) @ (U[:, :exact_rank].T / lengths)
    free = V[exact_rank:].T
    seen = (N / _lengths(N)[:, None]) @ free
    _, sizes, W = np.linalg.svd(seen, full_matrices=len(seen) < seen.shape[1])  # avoids an unused (m, m)
    noisy_rank = int((sizes > ZERO).sum())
    left = free @ W[noisy_rank:].T
    assert particular.shape == (n, len(E))
    return Space(
        scale,
        scale[:, None] * particular,
        free,
        scale[:, None] * left,
        exact_rank,
        exact_rank + noisy_rank,
        U[:, exact_rank:],
    )


def determined_by(rows, of: Space) -> int:
    """Number of open directions that additional rows (m, n) would determine."""
    rows = rows * of.scale
    left = of.open / of.scale[:, None]
    seen = (rows / _lengths(rows)[:, None]) @ left
    return int((np.linalg.svd(seen, compute_uv=False) > ZERO).sum()) if seen.size else 0


def solve(E, e, N, r, of: Space) -> Fit:
    """E z = e exactly, N z = r (m,) with variance 1. of: their `space`, without open directions."""
    from scipy.linalg import qr, solve_triangular

    z = of.particular @ e
    z = z + of.particular @ (e - E @ z)
    basis = of.scale[:, None] * of.free
    M, d = N @ basis, r - N @ z
    order = np.argsort(-np.abs(M).max(axis=1, initial=0.0), kind="stable")
    Q, R, pivots = qr(M[order], mode="economic", pivoting=True)
    hat = np.empty_like(Q)
    hat[order] = Q
    root = basis[:, pivots] @ solve_triangular(R, np.eye(len(R))) if len(R) else basis
    step = root @ (hat.T @ d)
    residual = d - hat @ (hat.T @ d)
    return Fit(z + step, root, residual, hat)


def _equilibrated(E, N):
    """Rows with columns of comparable size, and the scale of the columns."""
    together = np.concatenate([E, N])
    together = together / _lengths(together)[:, None]
    size = np.abs(together).max(axis=0, initial=0.0)
    scale = 1.0 / np.where(size > 0, size, 1.0)
    return E * scale, N * scale, scale


def _lengths(rows):
    lengths = np.linalg.norm(rows, axis=1)
    return np.where(lengths > 0, lengths, 1.0)


@dataclass(frozen=True, eq=False)
class SensorLeastSquares:
    """Weighted least squares for a sensor problem; states that are not determined have no result."""

    robot: Robot
    problem: SensorProblem
    description = "least squares"

    def __call__(self, q, qd, readings, gravity=None):
        """{name: array} of the problem's results, from q (count, nq), qd (count, nv), readings (count, m)."""
        returns = self.problem.returns(self.robot)
        results = {name: np.full((len(q), *shape), np.nan) for name, shape in returns.items()}
        for start in range(0, len(q), CHUNK):
            at = slice(start, start + CHUNK)
            g = gravity[at] if np.ndim(gravity) == 2 else gravity
            for k, state in enumerate(
                solved(self.robot, self.problem, q[at], qd[at], readings[at], g), start
            ):
                if state.fit is not None:
                    for name, value in self._results(state).items():
                        results[name][k] = value
        return results

    def _results(self, state):
        z, root = state.fit.z, state.fit.root
        results = {}
        for name, affine in zip(RESULTS, state.results, strict=True):
            results[name] = affine[0] + np.tensordot(z, affine[1:], 1)
            if name in self.problem.covariance:
                moved = np.tensordot(root.T, affine[1:], 1)
                results[f"{name}_covariance"] = _covariance(moved)
        results["residuals"] = self._residuals(state)
        results["chi_square"] = state.fit.residual @ state.fit.residual
        return results

    @cached_property
    def _places(self):
        return {name: k for k, name in enumerate(self.problem.readings)}

    def _residuals(self, state):
        """(m,): readings minus their estimates; zero for exact ones."""
        residuals = np.zeros(len(self.problem.readings))
        for labels, rows in zip(state.labels, state.noisy, strict=True):
            left = rows.b - rows.A @ state.fit.z
            for label, value in zip(labels, left, strict=True):
                if label in self._places:
                    residuals[self._places[label]] = value
        return residuals


def _covariance(moved):
    """(nv, nv), or body by body (nbodies, 6, 6), from the effects of unit errors: (k, nv) or (k, nbodies,
    6)."""
    return np.einsum("k...i,k...j->...ij", moved, moved)


class State(NamedTuple):
    """One state, solved if its `space` has no open directions. results: qdd, tau, f_ext, each (1 + n,
    *shape): at z = 0 and derivatives by z; noisy: Rows of every noisy factor, names of their rows (`labels`)
    and sensors; roots: divisors to standard deviations."""

    reduced: Reduced
    results: tuple[np.ndarray, ...]
    noisy: list
    labels: tuple[tuple[str, ...], ...]
    sensors: tuple[str, ...]
    roots: list[np.ndarray]
    space: Space
    fit: Fit | None


def solved(robot, problem: SensorProblem, q, qd, readings, gravity=None):
    """The State at each of q (count, nq) ..."""
    system = sensor_system(robot, problem, q, qd, readings, gravity)
    few = reduced(system)
    results = affine_results(robot, system, few)
    leaning = np.broadcast_to(leaning_wheels(system.contacts), len(q))
    roots = [np.linalg.inv(np.linalg.cholesky(covariance)) for covariance in system.covariances]
    for k in range(len(q)):
        E, e = stacked(few.exact, k, few.size)
        noisy = [type(rows)(_at(rows.A, k, 2), _at(rows.b, k, 1)) for rows in few.noisy]
        determined = space(E, stacked(noisy, None, few.size)[0])
        fit = None
        if not (leaning[k] or determined.open.size or determined.repeated.size):
            weighted = [type(rows)(W @ rows.A, W @ rows.b) for W, rows in zip(roots, noisy, strict=True)]
            N, r = stacked(weighted, None, few.size)
            fit = solve(E, e, N, r, determined)
        at_state = tuple(_at(array, k, array.ndim - 1) for array in results)
        yield State(few, at_state, noisy, system.labels, system.sensors, roots, determined, fit)


def affine_results(robot, system: SensorSystem, few: Reduced):
    """qdd, tau, f_ext, each (count, 1 + n, *shape)."""
    columns = {x: np.swapaxes(value, -1, -2) for x, value in few.values.items()}
    alike = (
        contact._replace(sides={body: P[..., None, :, :] for body, P in contact.sides.items()})
        for contact in system.contacts
    )
    return sensor_values(robot, system._replace(contacts=tuple(alike)), columns)


def stacked(rows, state, size):
    """A (rows, size) and b (rows,) of several Rows, at one state; None: they have only one."""
    if state is not None:
        rows = [(_at(one.A, state, 2), _at(one.b, state, 1)) for one in rows]
    A = np.concatenate([np.zeros((0, size)), *(one[0] for one in rows)])
    return A, np.concatenate([np.zeros(0), *(one[1] for one in rows)])


def _at(array, k, axes):
    """The array at a state, if it has states."""
    return array[k] if array.ndim > axes else array


def repeated(system: SensorSystem, few: Reduced, determined: Space) -> tuple[str, ...]:
    """Exact sensors, or other exact factors, that others imply."""
    names_of_repeated, top = [], 0
    names = {id(system.exact[number]): labels for number, labels in system.exact_labels.items()}
    for factor in few.exact_factors:
        again = np.abs(determined.repeated[top : top + factor.rows]).max(axis=1, initial=0.0) > OPEN
        labels = names.get(id(factor), ())
        names_of_repeated += [label for label, is_so in zip(labels, again, strict=bool(labels)) if is_so]
        if again.any() and not labels:
            names_of_repeated.append(factor.name)
        top += factor.rows
    return tuple(names_of_repeated)


def unobservable(robot, problem: SensorProblem, few: Reduced, determined: Space, state=0) -> tuple[str, ...]:
    """Names of the open entries at a state: external wrenches, then accelerations and torques of joints, then
    forces of constraints."""
    open_names: list[str] = []
    if not determined.open.size:
        return ()
    directions = determined.open / determined.scale[:, None]  # orthonormal
    for x, value in sorted(few.values.items(), key=lambda pair: _REPORT_ORDER.index(pair[0].kind)):
        if x.kind in _REPORT_ORDER[:4]:
            by_z = _at(value, state, 2)[:, 1:] * determined.scale
            left = np.abs(by_z @ directions).max(axis=1)
            size = np.linalg.norm(by_z, axis=1)
            words = entry_names(robot, problem, x)
            open_names += [word for word, is_open in zip(words, left > OPEN * size, strict=True) if is_open]
    return tuple(open_names)


class Suspect(NamedTuple):
    """sensor: its name; explains: decrease of chi-square without it; checked: number of its rows that others
    check."""

    sensor: str
    explains: float
    checked: int


class Judgement(NamedTuple):
    """Consistency of the sensors at one state. limit: chi-square exceeds it by chance at one of 1000 states;
    suspects: sensors that others check, the most suspicious first."""

    chi_square: float
    degrees_of_freedom: int
    limit: float
    suspects: tuple[Suspect, ...]

    @property
    def consistent(self) -> bool:
        return self.chi_square <= self.limit

    @property
    def culprits(self) -> tuple[str, ...]:
        """The sensor that explains a contradiction best, and equally good ones; empty without a
        contradiction."""
        if self.consistent or not self.suspects:
            return ()
        best = _merit(self.suspects[0]) - AS_GOOD * self.chi_square
        return tuple(suspect.sensor for suspect in self.suspects if _merit(suspect) >= best)

    def __str__(self):
        size = f"chi-square {self.chi_square:.4g} of {self.degrees_of_freedom} degrees of freedom"
        if self.consistent:
            return f"sensors agree: {size}, limit {self.limit:.4g}"
        first, *others = self.culprits
        left = max(0.0, self.chi_square - self.suspects[0].explains)
        also = f"; {', '.join(map(repr, others))} would explain it as well" if others else ""
        return (
            f"sensors contradict each other: {size}, limit {self.limit:.4g}; most likely {first!r} is wrong, "
            f"without which {left:.4g} is left{also}"
        )


def chi_square_limit(degrees_of_freedom: int, false_alarms=FALSE_ALARMS) -> float:
    """The value that chi-square exceeds with this probability; 0 without degrees of freedom."""
    from scipy.special import chdtri

    return float(chdtri(degrees_of_freedom, false_alarms)) if degrees_of_freedom else 0.0


def judge(robot, problem: SensorProblem, q, qd, readings, gravity=None) -> Judgement | None:
    """The Judgement of one state q (nq,), qd (nv,), readings (m,); None if it is not determined."""
    (state,) = solved(robot, problem, q[None], qd[None], readings[None], gravity)
    if state.fit is None:
        return None
    residual, hat = state.fit.residual, state.fit.hat
    suspects, top = [], 0
    for labels, sensor in zip(state.labels, state.sensors, strict=True):
        at = slice(top, top + len(labels))
        suspects.append(_suspect(sensor, residual[at], hat[at]))
        top += len(labels)
    degrees = len(residual) - hat.shape[1]
    checked = sorted((s for s in suspects if s.checked), key=_merit, reverse=True)
    chi_square = float(residual @ residual) if degrees else 0.0
    return Judgement(chi_square, degrees, chi_square_limit(degrees), tuple(checked))


def _suspect(sensor, residual, hat) -> Suspect:
    """A sensor; without its rows chi-square decreases by r^T (1 - H)^+ r, with r and H of these rows."""
    sizes, directions = np.linalg.eigh(np.eye(len(residual)) - hat @ hat.T)
    checked = sizes > UNCHECKED
    explains = ((directions[:, checked].T @ residual) ** 2 / sizes[checked]).sum()
    return Suspect(sensor, float(explains), int(checked.sum()))


def _merit(suspect) -> float:
    return suspect.explains - PER_ROW * suspect.checked
