"""PTX text -> Kernels: parameters, registers, places of arrays, instructions and labels."""

import re
from typing import NamedTuple

import numpy as np

from .faults import Fault

TYPES = {
    **{f"{kind}{bits}": np.dtype(f"u{bits // 8}") for kind in "bu" for bits in (8, 16, 32, 64)},
    **{f"s{bits}": np.dtype(f"i{bits // 8}") for bits in (8, 16, 32, 64)},
    "f32": np.dtype("f4"),
    "f64": np.dtype("f8"),
    "pred": np.dtype("?"),
}

_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*\((.*?)\)([^{]*)\{(.*?)\n\}", re.S)
_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+([\w$]+)(\[\d+\])?")
_REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+(%[\w$]+)(?:<(\d+)>)?$")
_ARRAY = re.compile(r"(?:\.\w+\s+)?\.(shared|local)\s+\.align\s+(\d+)\s+\.(\w+)\s+([\w$]+)(?:\[(\d*)\])?$")
_OUTSIDE = re.compile(r"\.extern\s+\.shared\s+\.align\s+(\d+)\s+\.\w+\s+([\w$]+)\[\]")
_TABLE = re.compile(
    r"^\.(?:global|const)\s+\.align\s+\d+\s+\.b8\s+([\w$]+)\[(\d+)\](?:\s*=\s*\{([^}]*)\})?;", re.M
)
_INSTRUCTION = re.compile(r"(?:@(!?)(%[\w$]+)\s+)?([\w.:]+)\s*(.*)$", re.S)
_OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+")
_PLACE = re.compile(r"\[\s*(%?[\w$]+)\s*(?:\+\s*(-?\d+))?\s*\]$")


class Instruction(NamedTuple):
    """`@!%p1 ld.global.f32 %f1, [%rd2+4]`: guard %p1, negated, name ld, modifiers (global, f32), two
    operands; words: ld.global.f32."""

    guard: str | None
    negated: bool
    name: str
    modifiers: tuple[str, ...]
    operands: tuple[str, ...]
    text: str
    words: str

    @property
    def type(self):
        """dtype of the last modifier."""
        if not self.modifiers or self.modifiers[-1] not in TYPES:
            raise Fault(f"not known: {self.text}")
        return TYPES[self.modifiers[-1]]


class Arrays:
    """Arrays of one space, laid one behind the other: places in bytes by name, and the size of all."""

    def __init__(self):
        self.places, self.size = {}, 0

    def add(self, name, align, size):
        start = -(-self.size // align) * align
        self.places[name], self.size = start, start + size


class Kernel(NamedTuple):
    """One entry of a module; `most` is how many threads of a block it is compiled for, None for any number;
    tables: constants of the module, bytes by name."""

    name: str
    parameters: dict[str, np.dtype]
    most: int | None
    registers: dict[str, np.dtype]
    shared: Arrays
    local: Arrays
    code: tuple[Instruction, ...]
    labels: dict[str, int]
    tables: dict[str, bytes]


def parse(text):
    """{name: Kernel} of a module."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    outside = [(name, int(align)) for align, name in _OUTSIDE.findall(text)]
    tables = {name: _table(int(size), numbers) for name, size, numbers in _TABLE.findall(text)}
    return {entry[1]: _kernel(*entry.groups(), outside, tables) for entry in _ENTRY.finditer(text)}


def _table(size, numbers):
    """What is not said is zero."""
    said = bytes(int(number) for number in numbers.split(",") if number.strip())
    return said.ljust(size, b"\0")


def _kernel(name, parameters, directives, body, outside, tables):
    most = re.search(r"\.maxntid\s+(\d+)", directives)
    registers, spaces, code, labels = {}, {"shared": Arrays(), "local": Arrays()}, [], {}
    for statement in re.split(r";|\n(?=\s*[$\w]+:)|(?<=:)\s*\n", body):
        statement = " ".join(statement.split())
        while label := re.match(r"([$\w]+):\s*", statement):
            labels[label[1]] = len(code)
            statement = statement[label.end() :]
        if statement.startswith("."):
            _declare(statement, registers, spaces)
        elif statement:
            code.append(_instruction(statement))
    for extern, align in outside:
        spaces["shared"].add(extern, align, 0)
    found = _parameters(name, parameters)
    return Kernel(
        name, found, int(most[1]) if most else None, registers, *spaces.values(), tuple(code), labels, tables
    )


def _parameters(kernel, text):
    """Types of the parameters by name, in order."""
    found = {}
    for kind, name, array in _PARAMETER.findall(text):
        if array:
            raise Fault(f"{kernel}: parameter {name} is a structure or an array, which nothing here passes")
        found[name] = TYPES[kind]
    return found


def _declare(statement, registers, spaces):
    if found := _REGISTERS.match(statement):
        kind, name, count = found.groups()
        names = [name] if count is None else [f"{name}{k}" for k in range(int(count))]
        registers.update(dict.fromkeys(names, TYPES[kind]))
    elif found := _ARRAY.match(statement):
        space, align, kind, name, count = found.groups()
        size = TYPES[kind].itemsize * int(count or 1)
        spaces[space].add(name, int(align), size)
    elif not statement.startswith((".pragma", ".loc")):
        raise Fault(f"not known: {statement}")


def _instruction(statement):
    negation, guard, name, operands = _INSTRUCTION.match(statement).groups()
    words = name.replace("::", ".")
    name, *modifiers = words.split(".")
    found = tuple(_OPERAND.findall(operands))
    return Instruction(guard, negation == "!", name, tuple(modifiers), found, statement, words)


def place(operand):
    """`[%rd2+4]` -> ('%rd2', 4)."""
    found = _PLACE.match(operand)
    if not found:
        raise Fault(f"not known: the place {operand}")
    return found[1], int(found[2] or 0)


def names(operand):
    """`{%f1, %f2}` -> ['%f1', '%f2']; `%f1` -> ['%f1']."""
    return [name.strip() for name in operand.strip("{}").split(",")]
