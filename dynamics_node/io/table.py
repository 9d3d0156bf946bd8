"""What all kinds of tables have in common."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Table:
    """Rows of states in chunks, never all in memory.

    rows: how many there are at most, None when only reading tells; kinds: what every chunk has, of q, qd,
    qdd, tau and time; chunks(): iterator of {kind: array (k, coordinates), time: (k,)}; without: of a kind
    that is not there, or not from everybody, the joints that do not tell it; notes: what was done about it,
    in sentences; cutoff: Hz, below which what is there are derivatives, None where there is none.
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
