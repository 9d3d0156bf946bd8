"""What a link carries, from recordings with accelerations."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from dynamics_node.estimation.payload import (
    STILL,
    Payload,
    described_on,
    felt_parameters,
    payload_of,
    require_bearing,
)
from dynamics_node.estimation.payload_sums import PayloadSums, fitted, friction_columns
from dynamics_node.functions import build
from dynamics_node.identification.base_parameters import base_parameters
from dynamics_node.identification.checks.recording_check import RecordingCheck
from dynamics_node.identification.identify import Chunks, IdentificationError
from dynamics_node.identification.regressor_model import RegressorModel
from dynamics_node.robot import Robot

ROWS = 2000  # in memory at a time, as regressors


def identify_payload(
    robot: Robot,
    link: str,
    recordings: Iterable[Chunks],
    *,
    tare: Iterable[Chunks] = (),
    friction=True,
    torque_std=None,
    advance: Callable[[int], object] | None = None,
    backend="auto",
    measured: Sequence[str] | None = None,
) -> Payload:
    """What a link carries, from recordings of a robot, with loops or without, on a fixed base.

    recordings: callables that give chunks {q (k, nq), qd, qdd, tau (k, nv), maybe time}, as of `identify`;
    tare: others with nothing on the link, which tell what the model lacks without it; that is taken off, as
    far as payloads could explain it, and friction is that of both. friction: an offset, Coulomb and viscous
    friction of every coordinate are estimated, too, beside those that are described; False takes these as
    they are. torque_std: N m or N, of one torque, a number or (nv,); by default as residuals show it.
    advance(rows): called on the way. measured: names of the coordinates whose torques count, all by default.

    Raises KeyError for an unknown link, ValueError for one that no joint bears and for a floating base,
    IdentificationError where no row can be used.
    """
    require_bearing(robot, link)
    warnings: list[str] = []
    linear = RegressorModel(robot, backend=backend, measured=None if measured is None else tuple(measured))
    rows_of = _Rows(robot, link, backend, linear.counts)
    base = base_parameters(linear)
    empty, sums, samples = PayloadSums(robot.nv), PayloadSums(robot.nv), 0
    for own, chunks in [(empty, one) for one in tare] + [(sums, one) for one in recordings]:
        check = RecordingCheck(linear, base)
        for chunk in chunks():
            chunk = chunk | {"tau": linear.torques(chunk["tau"])}
            check.add(chunk)
            count = rows_of.add(own, chunk)
            samples += count if own is sums else 0
            if advance:
                advance(len(chunk["qd"]))
        which = "tare: " if own is empty else ""
        warnings += [which + told for told in check.warnings()]
    if not samples:
        raise IdentificationError("; ".join(["no row can be used", *warnings]))
    found = fitted(sums, friction, torque_std, empty if empty.count else None, rows_of.moved)
    felt = felt_parameters(robot, rows_of.regressor)
    return payload_of(link, found, felt, samples, tuple(warnings), described_on(robot, link))


class _Rows:
    """What sums get of recordings, by accelerations."""

    def __init__(self, robot, link, backend, counts):
        self._counts = counts
        self._low, self._high = np.full(robot.nq, np.inf), np.full(robot.nq, -np.inf)
        self.regressor = build(robot, "joint_torque_regressor", backend=backend, link=link)
        self._nominal = build(robot, "inverse_dynamics", backend=backend)
        self._friction = RegressorModel(robot, ("viscous", "coulomb"), backend)

    def add(self, sums, chunk):
        """How many rows count."""
        arrays = [np.asarray(chunk[kind], dtype=float) for kind in ("q", "qd", "qdd", "tau")]
        arrays[-1] = np.where(self._counts, arrays[-1], 0.0)
        good = np.flatnonzero(np.all([np.isfinite(array).all(axis=1) for array in arrays], axis=0))
        if len(good):
            self._low = np.minimum(self._low, arrays[0][good].min(axis=0))
            self._high = np.maximum(self._high, arrays[0][good].max(axis=0))
        for start in range(0, len(good), ROWS):
            q, qd, qdd, tau = (np.ascontiguousarray(array[good[start : start + ROWS]]) for array in arrays)
            W = self.regressor(q, qd, qdd)
            known = self._nominal(q, qd, qdd)
            if self._friction.described.any():
                known = known + self._friction.matrix(q, qd, qdd) @ self._friction.described
            rows = np.concatenate([W, friction_columns(qd), (tau - known)[..., None]], axis=-1)
            sums.add(np.where(self._counts[:, None], rows, 0.0))
        return len(good)

    @property
    def moved(self):
        """Whether some joint did, by more than noise."""
        return bool(np.any(self._high - self._low > STILL))
