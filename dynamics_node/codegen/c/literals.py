"""Pieces of C text: numbers and indices only, no name of a robot gets here."""

import numpy as np

from dynamics_node.symbolic import Op

VECTOR = 8  # doubles to whose multiples arrays are filled up: the widest vector
LANES = 4  # doubles in a vector of sincos.c, of one state: wider ones slow down numbers around them
STACK_BYTES = 64 * 1024  # of an array that are asked of a stack: that of a thread may have 512 KiB
OPERATIONS = {Op.ADD: "{} + {}", Op.SUB: "{} - {}", Op.MUL: "{} * {}", Op.RECIPROCAL: "1 / {}", Op.NEG: "-{}"}


def literal(value, suffix=""):
    """A number as C writes it, exactly."""
    text = float(value).hex() + suffix
    return f"({text})" if value < 0 else text


def table(kind, name, array):
    """Lines that define a constant array of one or two axes; one entry more, for C has no empty arrays."""
    array = np.asarray(array)
    write = literal if kind == "double" else str
    if array.ndim == 1:
        return [f"static const {kind} {name}[] = {{{', '.join([*map(write, array.tolist()), '0'])}}};"]
    rows = [", ".join(map(write, row)) for row in array.tolist()]
    lines = [f"  {{{row}}}," for row in rows if row]
    return [f"static const {kind} {name}[][{array.shape[1] + 1}] = {{", *lines, "  {0}", "};"]


def memory(kind, name, size):
    """Line that defines a local array of numbers or vectors; a large one is the thread's, and stays."""
    storage = "static _Thread_local " if size * (8 * VECTOR if kind == "vector" else 8) > STACK_BYTES else ""
    return f"  {storage}{kind} {name}[{size}] __attribute__((aligned(64)));"
