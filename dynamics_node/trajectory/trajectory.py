"""The result of a trajectory problem: plain arrays by name, from the numbers of its steps."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from dynamics_node.display import titled
from dynamics_node.errors import TrajectoryError
from dynamics_node.symbolic import interpret
from dynamics_node.trajectory.factor import NEXT, residual_program
from dynamics_node.trajectory.systems import System
from dynamics_node.trajectory.trajectory_graph import Steps, weights_of

KINDS = {
    "q": "position",
    "qd": "velocity",
    "qdd": "acceleration",
    "tau": "torque",
    "external_torque": "external torque",
}
ROWS = ("time", *KINDS, "contact_forces", "iterations")
SIGMAS = 2.0  # half-width of a band in standard deviations


class Curve(NamedTuple):
    """One coordinate over time. kind: position, velocity, ...; values (count,); band (count,): two standard
    deviations, or None."""

    name: str
    kind: str
    unit: str
    values: np.ndarray
    band: np.ndarray | None = None


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Trajectory:
    """A motion of a robot with its torques: arrays over time.

    `simulate`, `inverse_trajectory` and `smooth` return it.

    Attributes
    ----------
    name : str
        Name of the robot.
    q_names, v_names : tuple of str
        Names of the coordinates (nq) and of the independent joints (nv).
    units : dict
        {kind: unit of every coordinate}, for kinds 'q', 'qd', 'qdd', 'tau' and 'external_torque'.
    time : ndarray (count,)
        Times, s.
    q : ndarray (count, nq)
        Positions of all joints, closed, rad or m.
    qd, qdd : ndarray (count, nv)
        Rates and accelerations of the independent joints.
    tau : ndarray (count, nv)
        Torques of the independent joints, N m or N.
    external_torque : ndarray (count, nv) or None
        Torques of the environment, if estimated, N m or N.
    contact_forces : ndarray (count, 3 touches) or None
        Forces of contacts, of a simulation with them, N: see ContactRollout.
    std : dict
        {kind: (count, coordinates)}: standard deviations of an estimate.
    covariance : dict
        {kind: (count, nv, nv)}: covariances of an estimate, for the independent joints.
    residuals : dict
        {factor: (count,)}: largest error of the factor at every step. Its unit is that of the factor, for
        example m of an open loop, or N m in the equations of motion.
    iterations : ndarray (count,) or int
        Iterations of the least-squares solver.
    steps : Steps or None
        The numbers of every variable, also those of dependent joints.

    Examples
    --------
    >>> from dynamics_demo.robots import geared_chain
    >>> arm = dn.parse_robot(geared_chain(1))  # a link on a geared motor
    >>> dn.simulate(arm, [1.0], steps=10, dt=0.01, backend="numpy")
    Trajectory 'geared_chain': 11 states, 0 to 0.1 s
      joints           j1
      q                (11, 1), at most 1.043
      qd               (11, 1), at most 0.8794
      qdd              (11, 1), at most 9.265
      tau              (11, 1), at most 0
      residuals        trapezoidal q, trapezoidal qd, dynamics
    """

    name: str
    q_names: tuple[str, ...]
    v_names: tuple[str, ...]
    units: dict[str, tuple[str, ...]]
    time: np.ndarray
    q: np.ndarray
    qd: np.ndarray
    qdd: np.ndarray
    tau: np.ndarray
    external_torque: np.ndarray | None = None
    contact_forces: np.ndarray | None = None
    std: dict[str, np.ndarray] = field(default_factory=dict)
    covariance: dict[str, np.ndarray] = field(default_factory=dict)
    residuals: dict[str, np.ndarray] = field(default_factory=dict)
    iterations: Any = 0
    steps: Any = None

    def __len__(self):
        return len(self.time)

    def __repr__(self):
        rows = {
            kind: None if array is None else f"{array.shape}, at most {np.abs(array).max(initial=0.0):.4g}"
            for kind, array in ((kind, getattr(self, kind)) for kind in KINDS)
        }
        span = f", {self.time[0]:.6g} to {self.time[-1]:.6g} s" if len(self) else ""
        return titled(
            f"Trajectory {self.name!r}: {len(self)} states{span}",
            joints=self.v_names,
            **rows,
            std=list(self.std) or None,
            residuals=list(self.residuals) or None,
        )

    @property
    def nq(self) -> int:
        """Number of positions."""
        return len(self.q_names)

    @property
    def nv(self) -> int:
        """Number of coordinates of the independent joints."""
        return len(self.v_names)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays of all existing kinds, {kind: (count, coordinates)}: the content of a table."""
        kinds = {kind: getattr(self, kind) for kind in KINDS}
        arrays = {kind: array for kind, array in kinds.items() if array is not None}
        return arrays | {f"{kind}_std": array for kind, array in self.std.items()}

    def names(self, kind: str) -> tuple[str, ...]:
        """Names of the coordinates of a kind.

        Parameters
        ----------
        kind : str
            'q', 'qd', 'qdd', 'tau' or 'external_torque'; or one of them with '_std'.

        Returns
        -------
        tuple of str
            `q_names` for positions, `v_names` for other kinds.
        """
        return self.q_names if kind in ("q", "q_std") else self.v_names

    def thinned(self, most: int) -> "Trajectory":
        """Keep evenly spaced states.

        Parameters
        ----------
        most : int
            Largest number of states.

        Returns
        -------
        Trajectory
            The states, without `steps`.
        """
        return self._taken(slice(None, None, -(-len(self) // most) or 1))

    def first(self, count: int) -> "Trajectory":
        """Keep the first states.

        Parameters
        ----------
        count : int
            Number of states.

        Returns
        -------
        Trajectory
            The states, without `steps`.
        """
        return self._taken(slice(count))

    def _taken(self, part):
        rows = {name: _rows(getattr(self, name), part) for name in ROWS}
        for name in ("std", "covariance", "residuals"):
            rows[name] = {key: array[part] for key, array in getattr(self, name).items()}
        return replace(self, **rows, steps=None)

    def curves(self, kinds: Iterable[str] = tuple(KINDS)) -> list[Curve]:
        """Curves of all coordinates, for plots.

        Parameters
        ----------
        kinds : iterable of str
            Some of 'q', 'qd', 'qdd', 'tau' and 'external_torque'; default all that exist.

        Returns
        -------
        list of Curve
            One curve a coordinate: name, kind, unit, values (count,), and band (count,) or None. The band is
            two standard deviations.
        """
        curves = []
        for kind in kinds:
            array, std = getattr(self, kind), self.std.get(kind)
            if array is None:
                continue
            for k, (name, unit) in enumerate(zip(self.names(kind), self.units[kind], strict=True)):
                band = None if std is None else SIGMAS * std[:, k]
                curves.append(Curve(name, KINDS[kind], unit, array[:, k], band))
        return curves


def _rows(array, part):
    return array[part] if isinstance(array, np.ndarray) and array.ndim else array


# --- results ------------------------------------------------------------------------------------------------


def trajectory_of(system: System, time, steps: Steps, **more) -> Trajectory:
    """The Trajectory of the current steps; torques if the graph has them. more: further fields."""
    independent, views = list(system.independent), steps.views
    count = len(steps)
    return Trajectory(
        name=system.name,
        q_names=system.q_names,
        v_names=system.torque_names,
        units=system.units,
        time=time[:count],
        q=views["q"].copy(),
        qd=views["qd"][:, independent],
        qdd=views["qdd"][:, independent],
        tau=views["tau"].copy(),
        external_torque=views["external_torque"].copy() if "external_torque" in views else None,
        residuals=residuals(steps),
        steps=steps,
        **more,
    )


class SolvedSteps:
    """Steps that a FixedLag solves one after the other, until a BatchSolver may solve all of them. done:
    number of finished steps; iterations: of every step, or of all."""

    def __init__(self, steps: Steps):
        self.steps, self.done = steps, 0
        self.iterations: Any = np.zeros(len(steps), dtype=int)

    def take(self, lag, k, iterations) -> slice:
        """Copy the window of a FixedLag whose newest step, k, is solved. Returns its steps."""
        rows = lag.steps.rows[:-1]
        part = slice(k + 1 - len(rows), k + 1)
        self.steps.rows[part], self.iterations[k], self.done = rows, iterations, k + 1
        return part

    def improve(self, solver, known, **choices):
        """Solve all steps at once. Raises as BatchSolver."""
        solution = solver.solve(self.steps, known, **choices)
        self.steps, self.iterations = solution.steps, solution.iterations

    def trajectory(self, system: System, time, **more) -> Trajectory:
        """The Trajectory of the finished steps."""
        steps = Steps(self.steps.graph, self.steps.rows[: self.done + 1])
        iterations = self.iterations[: self.done] if np.ndim(self.iterations) else self.iterations
        return trajectory_of(system, time, steps, iterations=iterations, **more)


def joined(motions: Sequence[Trajectory]) -> Trajectory:
    """Trajectories of one robot with the same kinds, one after the other, without `steps`; times stay."""
    first, *others = motions
    if not others:
        return first
    rows: dict[str, Any] = {name: _joined([getattr(motion, name) for motion in motions]) for name in ROWS}
    for name in ("std", "covariance", "residuals"):
        parts = [getattr(motion, name) for motion in motions]
        rows[name] = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    return replace(first, **rows, steps=None)


def _joined(parts):
    if parts[0] is None:
        return None
    is_array = isinstance(parts[0], np.ndarray) and parts[0].ndim
    return np.concatenate(parts) if is_array else sum(parts)


def residuals(steps: Steps) -> dict[str, np.ndarray]:
    """{factor: (count,)}: its largest error at every step, in its own units, from the numbers alone; 0 if its
    weight is zero."""
    largest = {}
    for factor in steps.graph.factors:
        places = {name: steps[name] for name in (*factor.now, *factor.data)}
        places |= {name + NEXT: np.roll(steps[name], -1, axis=0) for name in factor.after}
        program = residual_program(factor, steps.graph.variables)
        errors = np.abs(interpret(program, **places)["residual"])
        if not factor.exact:
            errors = np.where(steps[weights_of(factor.name)] > 0, errors, 0.0)
        if factor.after:
            errors[-1:] = 0.0  # the last step has no next one
        largest[factor.name] = errors.max(axis=1)
    return largest


def located(error: TrajectoryError, place: str, motion: Trajectory | None) -> TrajectoryError:
    """The error with its location and the Trajectory so far."""
    error.args = (f"{place}: {error}",)
    error.solution = motion
    return error
