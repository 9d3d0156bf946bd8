"""The result of a trajectory problem: plain arrays by name, from the numbers of its steps."""

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from dynamics_node.robot import Robot
from dynamics_node.symbolic import Program, interpret, trace
from dynamics_node.trajectory.errors import TrajectoryError
from dynamics_node.trajectory.factor import NEXT, Factor, Variable
from dynamics_node.trajectory.graphs import forward_graph, inverse_graph
from dynamics_node.trajectory.systems import System, robot_system
from dynamics_node.trajectory.trajectory_graph import Steps, weights_of

KINDS = {
    "q": "position",
    "qd": "velocity",
    "qdd": "acceleration",
    "tau": "torque",
    "external_torque": "external torque",
}
ROWS = ("time", *KINDS, "iterations")
SIGMAS = 2.0  # half-width of a band in standard deviations


class Curve(NamedTuple):
    """One coordinate over time. kind: position, velocity, ...; values (count,); band (count,): two standard
    deviations, or None."""

    name: str
    kind: str
    unit: str
    values: np.ndarray
    band: np.ndarray | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Trajectory:
    """A trajectory: arrays over time.

    Attributes
    ----------
    q_names, v_names : tuple of str
        Names of the coordinates.
    units : dict
        {kind: unit of every coordinate}.
    time : array (count,)
        s.
    q : array (count, nq)
        All positions, closed.
    qd, qdd, tau : array (count, nv)
        Of the independent joints.
    external_torque : array (count, nv) or None
        If estimated.
    std : dict
        {kind: (count, coordinates)}, standard deviations of an estimate.
    covariance : dict
        {kind: (count, n, n)} of the independent joints.
    residuals : dict
        {factor: (count,)}, its largest error in its own units, such as m of an open loop or N m in the
        equations of motion.
    iterations : array (count,) or int
        Of the least-squares solver.
    steps : Steps or None
        The numbers of every variable, also those of dependent joints.
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
    std: dict[str, np.ndarray] = field(default_factory=dict)
    covariance: dict[str, np.ndarray] = field(default_factory=dict)
    residuals: dict[str, np.ndarray] = field(default_factory=dict)
    iterations: Any = 0
    steps: Any = None

    def __len__(self):
        return len(self.time)

    @property
    def nq(self):
        return len(self.q_names)

    @property
    def nv(self):
        return len(self.v_names)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """{kind: (count, coordinates)} of all existing arrays: the content of a table."""
        kinds = {kind: getattr(self, kind) for kind in KINDS}
        arrays = {kind: array for kind, array in kinds.items() if array is not None}
        return arrays | {f"{kind}_std": array for kind, array in self.std.items()}

    def names(self, kind) -> tuple[str, ...]:
        """Names of the coordinates of a kind."""
        return self.q_names if kind in ("q", "q_std") else self.v_names

    def thinned(self, most) -> "Trajectory":
        """At most `most` evenly spaced rows; without `steps`."""
        return self._taken(slice(None, None, -(-len(self) // most) or 1))

    def first(self, count) -> "Trajectory":
        """The first `count` rows; without `steps`."""
        return self._taken(slice(count))

    def _taken(self, part):
        rows = {name: _rows(getattr(self, name), part) for name in ROWS}
        for name in ("std", "covariance", "residuals"):
            rows[name] = {key: array[part] for key, array in getattr(self, name).items()}
        return replace(self, **rows, steps=None)

    def curves(self, kinds=tuple(KINDS)) -> list[Curve]:
        """Curves of all coordinates of these kinds."""
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


# --- of steps -----------------------------------------------------------------------------------------------


RobotOrSystem = Robot | System


@lru_cache(maxsize=16)  # robots: code compiled for a graph belongs to its System
def system_of(robot: RobotOrSystem) -> System:
    """A System itself, or the one of a Robot."""
    return robot if isinstance(robot, System) else robot_system(robot)


@lru_cache(maxsize=32)
def graph_of(system: System, kind, *choices):
    """The graph of a `forward` or `inverse` problem, cached by its choices."""
    make = forward_graph if kind == "forward" else inverse_graph
    return make(system, *choices)


# --- results ------------------------------------------------------------------------------------------------


def trajectory_of(system: System, time, steps: Steps, **more) -> Trajectory:
    """The Trajectory of the current steps; torques if the graph has them. more: further fields."""
    own, views = list(system.independent), steps.views
    count = len(steps)
    return Trajectory(
        name=system.name,
        q_names=system.q_names,
        v_names=system.torque_names,
        units=system.units,
        time=time[:count],
        q=views["q"].copy(),
        qd=views["qd"][:, own],
        qdd=views["qdd"][:, own],
        tau=views["tau"].copy(),
        external_torque=views["external_torque"].copy() if "external_torque" in views else None,
        residuals=residuals(steps),
        steps=steps,
        **more,
    )


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


@lru_cache(maxsize=256)
def residual_program(factor: Factor, variables: tuple[Variable, ...]) -> Program:
    """The residual of a factor."""
    sizes = {variable.name: (variable.size,) for variable in variables}
    shapes = {name: sizes[name] for name in factor.now} | {name + NEXT: sizes[name] for name in factor.after}
    return trace(lambda **arrays: {"residual": factor.residual(**arrays)}, shapes | factor.data)


def located(error: TrajectoryError, place: str, motion: Trajectory | None) -> TrajectoryError:
    """The error with its location and the Trajectory so far."""
    error.args = (f"{place}: {error}",)
    error.solution = motion
    return error
