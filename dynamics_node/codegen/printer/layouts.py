"""Where the numbers of a state are: the two layouts, and which arrays are staged."""

from typing import NamedTuple


class Place(NamedTuple):
    """An array of all states in the text. name: its pointer; size: numbers of a state; staged: whether blocks
    copy their rows to shared memory."""

    name: str
    size: int
    layout: str
    staged: bool = False

    @property
    def stride(self):
        """Between the rows of staged states: no multiple of 4, so that two neighbours at most use the same
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
        """Lines that copy the rows of a block, way: 'input' or 'output'; neighbours copy what lies side by
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
    left = variant.shared_memory if variant.layout == "rows" else 0
    found = {}
    for key, (name, size) in arrays.items():
        place = Place(name, size, variant.layout, staged=True)
        needed = place.shared(variant.block) * variant.dtype.itemsize
        fits = needed <= left
        left -= needed if fits else 0
        found[key] = place._replace(staged=fits)
    return found
