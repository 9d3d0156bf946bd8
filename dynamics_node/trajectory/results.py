"""What a trajectory comes to: plain arrays by name."""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

KINDS = {
    "q": "position",
    "qd": "velocity",
    "qdd": "acceleration",
    "tau": "torque",
    "external_torque": "external torque",
}
ROWS = ("time", *KINDS, "iterations")
SIGMAS = 2.0  # standard deviations that a band is wide, to both sides


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
    """A trajectory. time (count,) s; q (count, nq): all positions, closed; qd, qdd, tau (count, nv): of the
    independent joints, as everywhere; external_torque (count, nv): where it was estimated.

    q_names, v_names: of the coordinates. units: {kind: of every coordinate}. std: {kind: (count,
    coordinates)}, standard deviations of an estimate; covariance: {kind: (count, n, n)} of the independent
    joints.
    residuals: {factor: (count,)}, its largest error in its own units: m that a loop is open, N m that the
    equations of motion are wrong by. iterations (count,) or one for all: of the least squares. steps: the
    numbers of every variable, also those of dependent joints.
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
        """{kind: (count, coordinates)} of all that there is: what a table holds."""
        kinds = {kind: getattr(self, kind) for kind in KINDS}
        found = {kind: array for kind, array in kinds.items() if array is not None}
        return found | {f"{kind}_std": array for kind, array in self.std.items()}

    def names(self, kind) -> tuple[str, ...]:
        """Of the coordinates of a kind."""
        return self.q_names if kind in ("q", "q_std") else self.v_names

    def thinned(self, most) -> "Trajectory":
        """At most so many rows, evenly taken; without `steps`."""
        return self._taken(slice(None, None, -(-len(self) // most) or 1))

    def first(self, count) -> "Trajectory":
        """The first rows; without `steps`."""
        return self._taken(slice(count))

    def _taken(self, part):
        rows = {name: _rows(getattr(self, name), part) for name in ROWS}
        for name in ("std", "covariance", "residuals"):
            rows[name] = {key: array[part] for key, array in getattr(self, name).items()}
        return replace(self, **rows, steps=None)

    def curves(self, kinds=tuple(KINDS)) -> list[Curve]:
        """Of every coordinate of these kinds that are there."""
        found = []
        for kind in kinds:
            array, std = getattr(self, kind), self.std.get(kind)
            if array is None:
                continue
            for k, (name, unit) in enumerate(zip(self.names(kind), self.units[kind], strict=True)):
                band = None if std is None else SIGMAS * std[:, k]
                found.append(Curve(name, KINDS[kind], unit, array[:, k], band))
        return found


def _rows(array, part):
    return array[part] if isinstance(array, np.ndarray) and array.ndim else array


def units_of(robot) -> dict[str, tuple[str, ...]]:
    """{kind: unit of every coordinate} of a Robot: rad and N m where it turns, m and N where it
    slides, 1 of quaternions."""
    positions: list[str] = []
    for joint in robot.tree.independent_joints:
        at = joint.type.quaternion
        turning = ["rad" if at is None else "1"] * joint.type.nq
        positions += ["m" if k in joint.type.lengths else unit for k, unit in enumerate(turning)]
    turns = [t for joint in robot.independent_joints for t in _turning(joint)]
    per = {
        kind: tuple(f"{'rad' if t else 'm'}/{s}" for t in turns) for kind, s in (("qd", "s"), ("qdd", "s²"))
    }
    torques = tuple("N m" if t else "N" for t in turns)
    return {"q": tuple(positions), **per, "tau": torques, "external_torque": torques}


def _turning(joint):
    """Which of its velocities are angular."""
    return joint.S[:3].any(axis=0)[: joint.v.stop - joint.v.start].tolist()
