"""What a kernel is called with, how its text can be written, and how its arrays and numbers
are written.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from dynamics_node.codegen.printer.dialect import Dialect
from dynamics_node.codegen.runner import UNIT_TOLERANCE, returned
from dynamics_node.symbolic import Program

MOST_NUMBERS = 64  # of an input that is the same in all states, which are handed over by value
SHARED_MEMORY = 48 * 1024  # bytes of a block that rows may take; others are read as they lie


class Variant(NamedTuple):
    """How a kernel is written; results are the same bits, but for exact_reciprocal on CUDA.

    layout: of an array of all states, 'rows' (count, size), staged through shared memory, or 'columns' (size,
    count), where neighbors read what lies side by side. block: threads, one a state; exact_reciprocal: to
    the nearest number (in C they always are).
    """

    precision: Literal["float", "double"] = "float"
    layout: Literal["rows", "columns"] = "columns"
    block: int = 128
    exact_reciprocal: bool = False

    @property
    def dtype(self):
        return np.dtype(np.float32 if self.precision == "float" else np.float64)

    @property
    def dialect(self) -> Dialect:
        """How operations of `fused` are written, in the words of dialects.h."""
        return Dialect("real", _OPERATIONS, self.precision == "float", "v")


class KernelArgument(NamedTuple):
    """An argument of a kernel.

    kind: count: int, how many states there are; array: an input (count, size) or (size, count), by the
    layout; same: a pointer to `size` numbers for all states; number: the entry `position` of an input that is
    the same in all states; output: as array.
    """

    name: str
    kind: Literal["count", "array", "same", "number", "output"]
    size: int = 1
    position: int = 0


class KernelSource(NamedTuple):
    """name: of the function; shared: bytes of shared memory in which a block stages rows."""

    name: str
    text: str
    arguments: tuple[KernelArgument, ...]
    shared: int
    variant: Variant

    @property
    def most_states(self) -> int:
        """Of one launch: an index is an int."""
        return (2**31 - 1) // max(argument.size for argument in self.arguments) - self.variant.block

    def blocks(self, count: int) -> int:
        """For so many states: one for each part of them."""
        return -(-count // self.variant.block)


def arguments(program: Program, same) -> tuple[KernelArgument, ...]:
    """The count; every input: an array, or where it is among `same` its numbers, one pointer if there are
    more than MOST_NUMBERS; every output that a call gives (not health)."""
    listed = [KernelArgument("count", "count")]
    for name, shape in program.inputs.items():
        size = int(np.prod(shape, dtype=int))
        if name not in same:
            listed.append(KernelArgument(name, "array", size))
        elif size <= MOST_NUMBERS:
            listed += [KernelArgument(name, "number", 1, k) for k in range(size)]
        else:
            listed.append(KernelArgument(name, "same", size))
    sizes = {name: int(np.prod(shape, dtype=int)) for name, shape in returned(program).items()}
    return (*listed, *(KernelArgument(name, "output", size) for name, size in sizes.items()))


class Place(NamedTuple):
    """An array of all states in the text. name: its pointer; size: numbers of a state; staged: whether blocks
    copy their rows to shared memory."""

    name: str
    size: int
    layout: str
    staged: bool = False

    @property
    def stride(self):
        """Between the rows of staged states: no multiple of 4, so that two neighbors at most use the same
        bank. An odd one would leave none, and cost more: a division in every copy."""
        return self.size + (self.size % 4 == 0)

    def entry(self, k):
        """An entry of the state, number `state` of all and THREAD of its block; k: a number or text."""
        if self.layout == "columns":
            return f"{self.name}[{k} * count + state]"
        if self.staged:
            return f"{self.name}_shared[THREAD * {self.stride} + {k}]"
        return f"{self.name}[state * {self.size} + {k}]"

    def shared(self, block):
        """Numbers of shared memory."""
        return self.stride * block if self.staged else 0

    def declared(self, block):
        """The line of its shared memory."""
        return f"  SHARED real {self.name}_shared[{self.shared(block)}];"

    def copies(self, block, way):
        """Lines that copy the rows of a block, way: 'input' or 'output'; neighbors copy what lies side by
        side. Written out, for compilers unroll such loops by halves."""
        for k in range(self.size):
            at = f"THREAD + {k * block}" if k else "THREAD"
            there = at if self.stride == self.size else f"{at} + ({at}) / {self.size}"
            here, shared = f"{self.name}[first * {self.size} + {at}]", f"{self.name}_shared[{there}]"
            copy = f"{shared} = {here}" if way == "input" else f"{here} = {shared}"
            yield f"    if ({at} < own * {self.size}) {copy};"


def placed(arrays, variant):
    """{key: Place} of arrays {key: (name, size)}: of rows as many are staged as shared memory holds, the
    first ones first; the others are read as they lie, through the cache."""
    left = SHARED_MEMORY if variant.layout == "rows" else 0
    places = {}
    for key, (name, size) in arrays.items():
        place = Place(name, size, variant.layout, staged=True)
        needed = place.shared(variant.block) * variant.dtype.itemsize
        fits = needed <= left
        left -= needed if fits else 0
        places[key] = place._replace(staged=fits)
    return places


_OPERATIONS = {
    "add": "{} + {}",
    "mul": "MUL({}, {})",
    "fma": "FMA({}, {}, {})",
    "reciprocal": "reciprocal({})",
}
SHORT = 8  # numbers of an output that are not worth a loop


class Arrays:
    """owner: (input, entry) of every number of the inputs; first: {input: number of its first entry};
    pointer: {input: its name}; places: {('input' or 'output', name): Place} of all arrays of states;
    quaternions: where among the numbers of inputs that differ from state to state one begins."""

    def __init__(self, program: Program, variant: Variant, same: frozenset, quaternions: tuple):
        self.variant, self.dialect, self.same = variant, variant.dialect, same
        self.sizes = {name: int(np.prod(shape, dtype=int)) for name, shape in program.inputs.items()}
        self.owner = [(name, k) for name, size in self.sizes.items() for k in range(size)]
        self.first = {name: n - k for n, (name, k) in enumerate(self.owner)}
        self.pointer = {name: f"x{k}" for k, name in enumerate(self.sizes)}
        outputs = {
            ("output", name): (f"y{k}", program.outputs[name].size)
            for k, name in enumerate(returned(program))
        }
        inputs = {
            ("input", name): (self.pointer[name], size)
            for name, size in self.sizes.items()
            if name not in same
        }
        self.places = placed(outputs | inputs, variant)
        self.quaternions = [k for k in quaternions if self.owner[k][0] not in same]

    def no_unit(self, a: str, b: str, c: str, d: str) -> str:
        """The line that tells whether four numbers are no quaternion of unit length."""
        square = f"FMA({a}, {a}, FMA({b}, {b}, FMA({c}, {c}, MUL({d}, {d}))))"
        return f"bad |= EXCEEDS({square} - 1, {self.dialect.literal(UNIT_TOLERANCE)});"

    def no_results(self) -> Iterator[str]:
        """Lines at the end: a bad state has NaN for all outputs."""
        yield "if (bad) {"
        for (kind, _), place in self.places.items():
            if kind == "output":
                rolled = "ROLLED " if place.size > SHORT else ""
                yield f"  {rolled}for (int k = 0; k < {place.size}; ++k) {place.entry('k')} = NO_NUMBER;"
        yield "}"
