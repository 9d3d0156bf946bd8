"""What a kernel is called with, and the ways in which its text can be written."""

from typing import Literal, NamedTuple

import numpy as np

from dynamics_node.codegen.results import returned
from dynamics_node.symbolic import Program, Rolled

GRAVITY = "gravity"  # what is no number of a body, and read by none by its index
MOST_NUMBERS = 64  # of an input that is the same in all states, which are handed over by value
SHARED_MEMORY = 48 * 1024  # bytes of a block, where nothing more is asked for


class Variant(NamedTuple):
    """One way to write a kernel; of any, results are the same bits, but for exact_reciprocal on CUDA.

    layout: of an array of all states, 'rows' (count, size), staged through shared memory, or 'columns' (size,
    count), where neighbours read what lies side by side. block: threads, one a state; least_blocks: that a
    processor shall hold at a time, 0 for any; spill_to_shared: what does not fit into registers goes to
    shared memory first (CUDA); exact_reciprocal: to the nearest number (in C they always are);
    shared_memory: bytes of a block that rows may take, others are read as they lie.
    """

    precision: Literal["float", "double"] = "float"
    layout: Literal["rows", "columns"] = "columns"
    block: int = 128
    least_blocks: int = 0
    spill_to_shared: bool = False
    exact_reciprocal: bool = False
    shared_memory: int = SHARED_MEMORY

    @property
    def dtype(self):
        return np.dtype(np.float32 if self.precision == "float" else np.float64)


class Argument(NamedTuple):
    """An argument of a kernel.

    kind: count: int, how many states there are; array: an input (count, size) or (size, count), by the
    layout; same: a pointer to `size` numbers for all states; number: the entry `position` of an input that is
    the same in all states; output: as array; scratch: a pointer to numbers that a block keeps for itself,
    `size` a block.
    """

    name: str
    kind: Literal["count", "array", "same", "number", "output", "scratch"]
    size: int = 1
    position: int = 0


class Kernel(NamedTuple):
    """name: of the function; shared: bytes of shared memory in which a block stages rows; scratch: numbers
    of global memory that a block keeps for itself, 0 for none. With scratch there may be fewer blocks than
    states need: each computes one after the other.
    """

    name: str
    text: str
    arguments: tuple[Argument, ...]
    shared: int
    variant: Variant
    scratch: int = 0

    @property
    def most_states(self) -> int:
        """Of one launch: an index is an int."""
        sizes = (argument.size for argument in self.arguments if argument.kind != "scratch")
        return (2**31 - 1) // max(sizes) - self.variant.block

    def blocks(self, count: int) -> int:
        """For so many states: one for each part of them, or as many as indices of scratch allow."""
        needed = -(-count // self.variant.block)
        return min(needed, (2**31 - 1) // self.scratch) if self.scratch else needed


def arguments(program: Program | Rolled, same) -> tuple[Argument, ...]:
    """The count; every input: an array, or where it is among `same` its numbers, one pointer if there are
    more than MOST_NUMBERS, or loops read them; every output that a call gives (not health)."""
    found = [Argument("count", "count")]
    for name, shape in program.inputs.items():
        size = int(np.prod(shape, dtype=int))
        if name not in same:
            found.append(Argument(name, "array", size))
        elif size <= MOST_NUMBERS and (isinstance(program, Program) or name == GRAVITY):
            found += [Argument(name, "number", 1, k) for k in range(size)]
        else:
            found.append(Argument(name, "same", size))
    sizes = {name: int(np.prod(shape, dtype=int)) for name, shape in returned(program).items()}
    return (*found, *(Argument(name, "output", size) for name, size in sizes.items()))
