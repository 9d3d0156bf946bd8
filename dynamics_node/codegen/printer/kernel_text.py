"""A Program as the text of a kernel, in the words of dialects.h."""

from functools import cache
from importlib.resources import files

from dynamics_node.codegen.printer.arguments import Argument, Kernel, Variant, arguments
from dynamics_node.codegen.printer.state import State
from dynamics_node.codegen.printer.sweeps import Sweeps
from dynamics_node.symbolic import Program, Rolled
from dynamics_node.symbolic.fused import fused

NAME = "states"
PLAIN = Variant()


def kernel(program: Program | Rolled, variant: Variant = PLAIN, same=(), quaternions=()) -> Kernel:
    """The kernel of a Program, of which every thread computes a state, of a Rolled one state after the other;
    a bad one has NaN for all outputs: see State and Sweeps.

    same: names of inputs that are the same in all states: the caller looks whether they are finite and of
    unit length; quaternions: where among all entries of the inputs four numbers of unit length begin.
    """
    if isinstance(program, Rolled):
        return _of_sweeps(program, variant, same, quaternions)
    state = State(fused(program), variant, frozenset(same), tuple(quaternions))
    taken = arguments(program, same)
    places = state.places.values()
    text = "\n".join([*head(variant), _declared(state, taken), *_phases(state), ""])
    shared = sum(place.shared(variant.block) for place in places) * variant.dtype.itemsize
    return Kernel(NAME, text, taken, shared, variant)


def _of_sweeps(program, variant, same, quaternions):
    """Blocks keep what sweeps leave, and no rows in shared memory."""
    sweeps = Sweeps(program, variant, frozenset(same), tuple(quaternions))
    lines, scratch = [*sweeps.lines()], sweeps.size * variant.block
    taken = (*arguments(program, same), Argument("scratch", "scratch", scratch))
    text = "\n".join(
        [
            *head(variant),
            *sweeps.tables(lines),
            _declared(sweeps, taken),
            "{",
            "  WITH_SPILLS",
            "  EACH_BLOCK(1) {",
            "  EACH_THREAD {",
            f"    real *const own = scratch + BLOCK * {scratch} + THREAD;",
            "    ROLLED for (int state = BLOCK * WIDTH + THREAD; state < count; state += BLOCKS * WIDTH) {",
            *(f"    {line}" for line in lines),
            "    }",
            "  }",
            "  }",
            "}",
            "",
        ]
    )
    return Kernel(NAME, text, taken, 0, variant, scratch)


def head(variant: Variant) -> list[str]:
    """What stands before a kernel in a Variant: its numbers, and the words of all dialects."""
    numbers = {
        "FLOAT64": int(variant.precision == "double"),
        "WIDTH": variant.block,
        "LEAST_BLOCKS": variant.least_blocks,
        "EXACT_RECIPROCAL": int(variant.exact_reciprocal),
        "SPILL_TO_SHARED": int(variant.spill_to_shared),
    }
    return [*(f"#define {name} {number}" for name, number in numbers.items()), *_library()]


@cache
def _library():
    return [files(__package__).joinpath(name).read_text() for name in ("dialects.h", "sincos.h")]


def _declared(state, taken):
    """The line that names the arguments."""
    written = {
        "count": lambda a: "const int count",
        "array": lambda a: f"const real *restrict {state.pointer[a.name]}",
        "same": lambda a: f"const real *restrict {state.pointer[a.name]}",
        "number": lambda a: f"const real v{state.first[a.name] + a.position}",
        "output": lambda a: f"real *restrict {state.places['output', a.name].name}",
        "scratch": lambda a: "real *restrict scratch",
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
    own = ["  const int own = count - first < WIDTH ? count - first : WIDTH;"] if staged else []
    return [
        "{",
        "  WITH_SPILLS",
        *(place.declared(block) for place in staged.values()),
        "  EACH_BLOCK(count) {",
        "  const int first = BLOCK * WIDTH;",
        *own,
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
