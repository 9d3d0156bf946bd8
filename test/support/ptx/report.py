"""What a run counted."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Access:
    """One instruction that loads from or stores to global or shared memory.

    requests: how often a warp asked (of numbers wider than 4 bytes in shared memory: a part of it that
    moves 128 bytes); pieces: sectors of 32 bytes in global memory, wavefronts in shared memory, that
    answered.
    """

    text: str
    space: str
    requests: int = 0
    pieces: int = 0

    @property
    def ratio(self):
        """Sectors or wavefronts a request."""
        return self.pieces / self.requests


@dataclass
class Report:
    """accesses by the instruction's place in the code; warps that split at a branch; barriers that all
    threads passed; issued: how often a warp executed an instruction, by its name and
    modifiers."""

    accesses: dict[int, Access] = field(default_factory=dict)
    divergent: int = 0
    barriers: int = 0
    issued: Counter[str] = field(default_factory=Counter)

    def count(self, at, instruction, space, requests, pieces):
        access = self.accesses.setdefault(at, Access(instruction.text, space))
        access.requests += requests
        access.pieces += pieces

    def of(self, space):
        """The accesses to `global` or `shared` memory."""
        return [access for access in self.accesses.values() if access.space == space]

    def ratio(self, space):
        """Sectors or wavefronts a request over all accesses to a space; 0 where there are none."""
        found = self.of(space)
        return sum(a.pieces for a in found) / max(1, sum(a.requests for a in found))
