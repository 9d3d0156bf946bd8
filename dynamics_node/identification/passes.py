"""Passes over recordings: a task for each of them, here or on a cluster, whose results are added in order."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dynamics_node.identification.checks.recording_check import RecordingCheck
from dynamics_node.identification.checks.sample import RecordingSample
from dynamics_node.identification.regressor_model import RegressorModel
from dynamics_node.identification.summary import ResidualSampler
from dynamics_node.identification.sums import Sums
from dynamics_node.io import Tasks

Chunks = Callable[[], Iterator[dict[str, np.ndarray]]]  # {kind: (k, ...)} with q, qd, qdd, tau and maybe time
Progress = Callable[[str, int | None], contextlib.AbstractContextManager[Callable[[int], object]]]


class CheckedRecording(NamedTuple):
    """What RecordingCheck has of a recording."""

    warnings: list[str]
    sample: RecordingSample
    rows: int
    late: float


class RecordingSums(NamedTuple):
    """Sums and samples of one recording; rows: of which the filter may have kept less."""

    sums: Sums
    sampler: ResidualSampler
    rows: int


@dataclass(frozen=True)
class Passes:
    """passes(stage, total, task, **shared): results of task(chunks, advance, **shared) in the order of the
    recordings. names: of the recordings, for errors of tasks; tasks: of a cluster, None: here."""

    recordings: Sequence[Chunks]
    names: Sequence[str]
    progress: Progress
    tasks: Tasks | None = None

    def __call__(self, stage: str, total: int | None, task: Callable, **shared) -> Iterator[Any]:
        with self.progress(stage, total) as advance:
            if self.tasks is None:
                for chunks in self.recordings:
                    yield task(chunks, advance, **shared)
                return
            items = list(zip(self.names, self.recordings, strict=True))
            yield from self.tasks.map(
                _of_item, items, lambda item: item[0], lambda result: advance(result.rows),
                task=task, **shared,
            )  # fmt: skip


def _of_item(item, task, **shared):
    return task(item[1], _ignore, **shared)


def _ignore(rows):
    pass


def check_recording(chunks: Chunks, advance, linear: RegressorModel, base) -> CheckedRecording:
    """A task: RecordingCheck of all rows."""
    check = RecordingCheck(linear, base)
    for chunk in measured_chunks(linear, chunks):
        check.add(chunk)
        advance(len(chunk["qd"]))
    return CheckedRecording(check.warnings(), check.sample, check.rows, check.late)


def sum_recording(chunks: Chunks, advance, linear: RegressorModel, base, cutoff, fit=None) -> RecordingSums:
    """A task: Sums and a ResidualSampler of all rows."""
    sums, sampler, rows = Sums(linear, base, cutoff), ResidualSampler(linear.robot), 0
    for chunk in measured_chunks(linear, chunks):
        sums.add(chunk, fit)
        sampler.add(chunk)
        rows += len(chunk["qd"])
        advance(len(chunk["qd"]))
    return RecordingSums(sums, sampler, rows)


def measured_chunks(linear: RegressorModel, chunks: Chunks):
    """Chunks of a recording, with NaN for unused torques."""
    return (chunk | {"tau": np.where(linear.counts, chunk["tau"], np.nan)} for chunk in chunks())
