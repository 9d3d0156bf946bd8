"""A Program as the text of a kernel, in the words of dialects.h: what one thread computes, around it the
kernel.
"""

from collections import defaultdict
from functools import cache, cached_property
from importlib.resources import files

from dynamics_node.codegen.printer.dialect import Values
from dynamics_node.codegen.printer.kernel_arguments import (
    MOST_NUMBERS,
    Arrays,
    KernelSource,
    Variant,
    arguments,
)
from dynamics_node.codegen.runner import limits_in, returned
from dynamics_node.symbolic import Program
from dynamics_node.symbolic.fused import Fused, fused
from dynamics_node.symbolic.program import HEALTH
from dynamics_node.symbolic.sines import DOUBLE, SINGLE, horner, without

NAME = "states"
PLAIN = Variant()


def kernel(program: Program, variant: Variant = PLAIN, same=(), quaternions=()) -> KernelSource:
    """The kernel of a Program, of which every thread computes a state; a bad one has NaN for all
    outputs: see ThreadLines.

    same: names of inputs that are the same in all states: the caller looks whether they are finite and of
    unit length; quaternions: where among all entries of the inputs four numbers of unit length begin.
    """
    state = ThreadLines(fused(program), variant, frozenset(same), tuple(quaternions))
    taken = arguments(program, same)
    places = state.places.values()
    text = "\n".join([*head(variant), _declared(state, taken), *_phases(state), ""])
    shared = sum(place.shared(variant.block) for place in places) * variant.dtype.itemsize
    return KernelSource(NAME, text, taken, shared, variant)


def head(variant: Variant) -> list[str]:
    """What stands before a kernel in a Variant: its numbers, and the words of all dialects."""
    numbers = {
        "FLOAT64": int(variant.precision == "double"),
        "WIDTH": variant.block,
        "EXACT_RECIPROCAL": int(variant.exact_reciprocal),
    }
    return [*(f"#define {name} {number}" for name, number in numbers.items()), *_library(variant.precision)]


@cache
def _library(precision):
    numbers, literal = SINGLE if precision == "float" else DOUBLE, Variant(precision).dialect.literal
    macros = {
        "LARGE": literal(numbers.largest),
        "QUARTERS_PER_RADIAN": literal(numbers.quarters_per_radian),
        "REDUCED(x, n)": without(numbers.fused, literal, "FMA(n, -({part}), {x})"),
        "SINE(z)": horner(numbers.sine, literal, "FMA(z, {rest}, {c})"),
        "COSINE(z)": horner(numbers.cosine, literal, "FMA(z, {rest}, {c})"),
    }
    dialects, sines = (files(__package__).joinpath(name).read_text() for name in ("dialects.h", "sincos.h"))
    return [dialects, *(f"#define {name} {text}" for name, text in macros.items()), sines]


def _declared(state, taken):
    """The line that names the arguments."""
    written = {
        "count": lambda a: "const int count",
        "array": lambda a: f"const real *restrict {state.pointer[a.name]}",
        "same": lambda a: f"const real *restrict {state.pointer[a.name]}",
        "number": lambda a: f"const real v{state.first[a.name] + a.position}",
        "output": lambda a: f"real *restrict {state.places['output', a.name].name}",
    }
    return f"KERNEL {NAME}({', '.join(written[a.kind](a) for a in taken)})"


def _phases(state):
    """The kernel around the lines of one state: rows are copied in before and out behind."""
    block = state.variant.block
    staged = {key: place for key, place in state.places.items() if place.staged}
    copies = {
        way: [line for (kind, _), place in staged.items() if kind == way for line in place.copies(block, way)]
        for way in ("input", "output")
    }
    states = ["  const int own = count - first < WIDTH ? count - first : WIDTH;"] if staged else []
    return [
        "{",
        *(place.declared(block) for place in staged.values()),
        "  EACH_BLOCK(count) {",
        "  const int first = BLOCK * WIDTH;",
        *states,
        *(["  EACH_THREAD {", *copies["input"], "  }", "  BARRIER;"] if copies["input"] else []),
        "  EACH_THREAD {",
        "    const int state = first + THREAD;",
        "    if (state < count) {",
        *(f"    {line}" for line in state.lines()),
        "    }",
        "  }",
        *(["  BARRIER;", "  EACH_THREAD {", *copies["output"], "  }"] if copies["output"] else []),
        "  }",
        "}",
    ]


class ThreadLines(Arrays):
    """Inputs are read where they are used first, outputs written as soon as they are there. A state is bad
    when an angle is beyond what sine and cosine can do, a quaternion is not of unit length, health is beyond
    its limits, or an input or output is not finite; all its outputs are then NaN.

    Value n of the Program is v{n} in the text.
    """

    def __init__(self, fused: Fused, variant: Variant, same: frozenset, quaternions: tuple):
        super().__init__(fused.program, variant, same, quaternions)
        self.fused, self.program = fused, fused.program
        given = [self.dialect.local(k) for k in range(self.program.input_size)]
        self._values = Values(self.program, self.dialect, given)
        self._known: set[int] = set()  # inputs that have been read
        self._watched: set[tuple[int, str]] = set()  # values, and up to where they are looked at

    def lines(self):
        """All lines, in order."""
        yield "int bad = 0;"
        yield from self._looked_at()
        for operation in self.fused.operations:
            for operand in operation.operands:
                yield from self._read(operand.value)
            yield from self._computed(operation)
            for value in operation.values:
                yield from self._stored(value)
        for value in [*self._stores, *self._health]:
            yield from self._read(value)
            yield from self._stored(value)
        yield from self.no_results()

    # --- values -------------------------------------------------------------------------------------------

    def _read(self, value):
        """The line that reads an input, unless it has been read."""
        if value >= self.program.input_size or value in self._known:
            return
        self._known.add(value)
        name, k = self.owner[value]
        if name not in self.same:
            yield f"const real v{value} = {self.places['input', name].entry(k)};"
        elif self.sizes[name] > MOST_NUMBERS:
            yield f"const real v{value} = {self.pointer[name]}[{k}];"

    def _computed(self, operation):
        if operation.kind != "sincos":
            yield self.dialect.line(operation, self._values.text)
            return
        angle = operation.operands[0].value
        yield from self._watch(angle, "LARGE")
        names = self.dialect.pair(operation.values)
        called = "sincos_of" if len(operation.operands) == 1 else "sincos_of_sum"
        operands = ", ".join(map(self._values.text, operation.operands))
        yield f"real {names[0]}, {names[1]};"
        yield f"{called}({operands}, &{names[0]}, &{names[1]});"

    @cached_property
    def _stores(self):
        """{value: [(place and entry of an output, Operand)]}, what is to be written when it is there."""
        stores = defaultdict(list)
        for name, operands in self.fused.outputs.items():
            if place := self.places.get(("output", name)):
                for k, operand in enumerate(operands):
                    stores[operand.value].append((place.entry(k), operand))
        return stores

    def _stored(self, value):
        """Lines that write a value to all outputs it is, and look whether it is finite and healthy."""
        for entry, operand in self._stores.pop(value, ()):
            yield f"{entry} = {self._values.text(operand)};"
            if value not in self._visible:
                yield from self._watch(value, "MOST")
        for operand, limit in self._health.pop(value, ()):
            yield f"bad |= !({self._values.text(operand)} <= {self.dialect.literal(limit)});"

    # --- what a bad state is ------------------------------------------------------------------------------

    def _watch(self, value, most):
        """The line that tells whether a value is beyond what it may be."""
        constant = self.program.input_size <= value < self.program.first_operation
        if not constant and self._watched.isdisjoint({(value, most), (value, "LARGE")}):
            self._watched.add((value, most))
            yield f"bad |= EXCEEDS(v{value}, {most});"

    def _looked_at(self):
        """Quaternions, and inputs that may be infinite while all outputs are finite."""
        for k in self.quaternions:
            for value in range(k, k + 4):
                yield from self._read(value)
            yield self.no_unit(*(f"v{value}" for value in range(k, k + 4)))
        for value, (name, _) in enumerate(self.owner):
            if value not in self._visible and value not in self._stores and name not in self.same:
                yield from self._read(value)
                yield from self._watch(value, "MOST")

    @cached_property
    def _visible(self):
        """Values that, not finite, leave an output not finite that is computed from them, or an angle: only
        reciprocals hide what is infinite, and nothing hides NaN."""
        outputs = (self.fused.outputs[name] for name in returned(self.program))
        written = {operand.value for operands in outputs for operand in operands}
        visible: set[int] = set()
        for operation in reversed(self.fused.operations):
            seen = any(value in written or value in visible for value in operation.values)
            if operation.kind == "sincos" or (seen and operation.kind != "reciprocal"):
                visible.update(operand.value for operand in operation.operands)
        return visible

    @cached_property
    def _health(self):
        """{value: [(Operand, limit)]}"""
        watched = defaultdict(list)
        limits = limits_in(self.program, self.variant.dtype)
        for operand, limit in zip(self.fused.outputs.get(HEALTH, ()) if limits else (), limits, strict=True):
            watched[operand.value].append((operand, limit))
        return watched
