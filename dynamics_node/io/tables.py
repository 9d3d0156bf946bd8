"""Tables of states: chunks of rows, the names of their columns, and .npz files, which are read at once."""

import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from dynamics_node.errors import TableError
from dynamics_node.optional import required

# --- names of columns ---------------------------------------------------------------------------------------


KINDS = ("q", "qd", "qdd", "tau")


def columns(robot, kind):
    """Names of the columns of a kind."""
    coordinates = robot.q_names if _of_positions(kind) else robot.v_names
    return [f"{kind}.{name}" for name in coordinates]


def width(robot, kind):
    return robot.nq if _of_positions(kind) else robot.nv


def _of_positions(kind):
    """Whether a kind has the coordinates of q, such as q_std."""
    return kind == "q" or kind.startswith("q_")


def joints_option(names, most=12):
    """The option --joints with these names."""
    return f"--joints {','.join(names[:most])}{',...' if len(names) > most else ''}"


def read_by(problem):
    """All kinds that the problem reads."""
    return ("q", "qd", "qdd") if problem.kind == "inverse" else ("q", "qd", "tau")


def needed(problem, measured=False):
    """Required kinds; measured: including torques for comparison. For the others, see `complete`."""
    return ("q", "tau") if measured or problem.kind == "forward" else ("q",)


def wanted(problem, measured=False):
    """Kinds to read from a table."""
    return tuple(dict.fromkeys((*read_by(problem), *needed(problem, measured), "time")))


def require(package):
    """An optional package. Raises TableError with the installation command."""
    try:
        return required(package, "this")
    except ImportError as error:
        raise TableError(str(error)) from None


# --- tables -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """Rows of states in chunks, never all in memory.

    rows: upper bound of their number, None if unknown before reading; kinds: those of q, qd, qdd, tau and
    time in every chunk; chunks(): iterator of {kind: array (k, coordinates), time: (k,)}; without: for an
    incomplete kind, the joints without it; notes: how these were handled, as sentences; cutoff: Hz, of
    derivatives, None if there are none.
    """

    rows: int | None
    kinds: tuple[str, ...]
    chunks: Callable[[], Iterator[dict[str, np.ndarray]]]
    without: dict[str, list[str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    cutoff: float | None = None

    @property
    def timed(self) -> bool:
        """Whether there is a time."""
        return "time" in self.kinds


# --- recordings of a table ----------------------------------------------------------------------------------


BACK = 0.1  # s: a later row is earlier by more than this in another recording; by less, it is out of order
LASTING = 3  # rows in succession that are


class RecordingWarning(UserWarning):
    """Rows of a recording that are not used as one might expect; the message names the file and the row."""


def recordings(time) -> list[slice]:
    """The recordings within a time (count,): another one starts where time jumps back and stays back."""
    time = np.asarray(time, dtype=float)
    if len(time) <= LASTING:
        return [slice(0, len(time))]
    later = np.lib.stride_tricks.sliding_window_view(time[1:], LASTING).max(axis=1)
    starts = np.flatnonzero(later < time[:-LASTING] - BACK) + 1
    ends = [0, *starts.tolist(), len(time)]
    return [slice(*pair) for pair in pairwise(ends)]


def later(time):
    """Mask (count,) of rows later than all previous ones: time stamps may repeat or go back."""
    return time > np.fmax.accumulate(np.concatenate([[-np.inf], time]))[:-1]


def checked(path, table: Table) -> Table:
    """The table, which warns once of every other recording in it. Its chunks raise TableError if there are no
    rows."""
    warned: set[int] = set()

    def chunks():
        rows, last = 0, np.zeros(0)
        for chunk in table.chunks():
            if table.timed:
                time = np.concatenate([last, chunk["time"]])
                for part in recordings(time)[1:]:
                    row = rows - len(last) + part.start
                    if row not in warned:
                        warn_of_recording(path, row, time[part.start] - time[part.start - 1])
                    warned.add(row)
                last = time[-LASTING:]
            rows += len(chunk["q"])
            yield chunk
        if not rows:
            raise TableError(f"{path} has no rows")

    return replace(table, chunks=chunks)


def warn_of_recording(path, row, step):
    """Warn of a recording that starts at a row."""
    message = f"{path}: time jumps back by {-step:.3g} s at row {row}, where another recording starts"
    warnings.warn(message, RecordingWarning, stacklevel=3)


# --- .npz files ---------------------------------------------------------------------------------------------


BROKEN = (OSError, EOFError, ValueError, MemoryError, zlib.error, zipfile.BadZipFile)


def read_npz(path, names, needed, chunk) -> Table:
    """names: {kind: its columns}. Raises TableError for a wrong type or shape."""
    if not zipfile.is_zipfile(path):
        raise TableError(f"{path} is not an .npz file of numbers")
    try:
        with np.load(path) as archive:
            there = sorted(archive.files)
            arrays = {kind: archive[kind] for kind in names if kind in there}
    except BROKEN as error:
        raise TableError(f"{path} is not an .npz file of numbers: {error}") from None
    rows = same_rows(path, arrays, there, names, needed)

    def chunks():
        for start in range(0, rows, chunk):
            part = slice(start, start + chunk)
            yield {kind: np.array(array[part], dtype=float, order="C") for kind, array in arrays.items()}

    return Table(rows, tuple(arrays), chunks)


def same_rows(path, arrays, there, names, needed) -> int:
    """The number of rows of all arrays. there: names of all in the file. Raises TableError for a missing one,
    a wrong type or shape."""
    for kind in needed:
        if kind not in arrays:
            raise TableError(f"{path} has no {kind}; there are {', '.join(there) or 'no arrays'}")
    rows = next((array.shape[0] for array in arrays.values() if array.ndim), 0)
    for kind, array in arrays.items():
        wanted = (rows,) if kind == "time" else (rows, len(names[kind]))
        if array.shape != wanted:
            columns = "" if kind == "time" else f": {', '.join(names[kind][:12])}"
            raise TableError(f"{path}: {kind} must have shape {wanted}, not {array.shape}{columns}")
        if array.dtype.kind not in "fiu":
            raise TableError(f"{path}: {kind} must be numeric, not {array.dtype}")
    return rows
