"""The arrays of a kernel: what they are called, and what every kernel asks of them."""

from collections.abc import Iterator

import numpy as np

from dynamics_node.codegen.printer.arguments import Variant
from dynamics_node.codegen.printer.layouts import placed
from dynamics_node.codegen.printer.operations import literal
from dynamics_node.codegen.results import UNIT_TOLERANCE, returned
from dynamics_node.symbolic import Program, Rolled

SHORT = 8  # numbers of an output that are not worth a loop


class Arrays:
    """owner: (input, entry) of every number of the inputs; first: {input: number of its first entry};
    pointer: {input: its name}; places: {('input' or 'output', name): Place} of all arrays of states;
    quaternions: where among the numbers of inputs that differ from state to state one begins."""

    def __init__(self, program: Program | Rolled, variant: Variant, same: frozenset, quaternions: tuple):
        self.variant, self.same = variant, same
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
        return f"bad |= BEYOND({square} - 1, {literal(UNIT_TOLERANCE, self.variant)});"

    def no_results(self) -> Iterator[str]:
        """Lines at the end: a bad state has NaN for all outputs."""
        yield "if (bad) {"
        for (kind, _), place in self.places.items():
            if kind == "output":
                rolled = "ROLLED " if place.size > SHORT else ""
                yield f"  {rolled}for (int k = 0; k < {place.size}; ++k) {place.entry('k')} = NO_NUMBER;"
        yield "}"
