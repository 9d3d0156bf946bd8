"""Parameters as fields of a frozen dataclass: names, types, limits and conversion of values."""

from collections.abc import Collection, Iterable
from dataclasses import field, fields
from typing import Any, NamedTuple, TypeVar

import numpy as np

from dynamics_node.errors import InputError
from dynamics_node.robot.validate import HUGE
from dynamics_node.text import LONGEST_WORD, nearest

Kind = TypeVar("Kind")
HARMLESS = "harmless if a file sets it for other nodes, under /**"
Strings = tuple[str, ...]  # types of fields
Numbers = tuple[float, ...]


def parameter(
    default: Any,
    description: str,
    choices: tuple[str, ...] = (),
    bounds: tuple[float, float] | None = None,
    entries: tuple[float, float] = (-HUGE, HUGE),
    read_only: bool = False,
    or_zero: bool = False,
) -> Any:
    """A field of the dataclass. bounds: of a number, which may also be 0 if `or_zero`; entries: bounds of
    each number of a list. Divisors and squares are bounded away from zero.

    read_only: can be set only at start. File names are read only, because anybody on the network can set the
    others.
    """
    metadata = {"description": description, "choices": choices, "bounds": bounds, "entries": entries}
    return field(default=default, metadata={**metadata, "read_only": read_only, "or_zero": or_zero})


class Parameter(NamedTuple):
    """A parameter of the node, with lists for tuples. kind: its type in the dataclass."""

    name: str
    field: str
    kind: Any
    default: Any
    description: str
    choices: tuple[str, ...]
    bounds: tuple[float, float] | None
    entries: tuple[float, float]
    read_only: bool
    or_zero: bool

    @property
    def is_list(self) -> bool:
        return self.kind in (Strings, Numbers)


def parameters_of(kind: type, groups: tuple[str, ...]) -> tuple[Parameter, ...]:
    """The fields of a dataclass. Fields of a group have a dot: `fixed_joints` is the parameter
    `fixed.joints`."""
    return tuple(_parameter(entry, groups) for entry in fields(kind))


def read_fields(kind: type[Kind], parameters: tuple[Parameter, ...], values: dict[str, Any]) -> Kind:
    """A `kind` from {parameter name: value}. Raises ValueError with the name of the parameter and the
    reason."""
    return kind(**{p.field: _checked(p, values[p.name]) for p in parameters})


def unknown_names(given: Iterable[str], known: Collection[str]) -> list[str]:
    """A warning for each given name that is not known, with similar names; `qos_overrides.*` are of ROS.

    The client library merges the sections of parameter files: names under /** that are of other nodes look
    the same."""
    lines = []
    for name in sorted(set(given).difference(known)):
        if not name.startswith("qos_overrides."):
            near = nearest(name, known)
            similar = f"; similar: {', '.join(near)}" if near else ""
            lines.append(f"unknown parameter {name[:LONGEST_WORD]!r} is ignored{similar}; {HARMLESS}")
    return lines


def _parameter(entry, groups) -> Parameter:
    group = next((group for group in groups if entry.name.startswith(f"{group}_")), "")
    name = f"{group}.{entry.name.removeprefix(f'{group}_')}" if group else entry.name
    default = list(entry.default) if isinstance(entry.default, tuple) else entry.default
    return Parameter(name, entry.name, entry.type, default, **entry.metadata)


def _checked(parameter, value):
    if parameter.is_list:
        value = tuple(entry for entry in value or () if entry != "")
    if parameter.kind == Numbers:
        _check_numbers(parameter, np.array(value, dtype=float))
    for text in value if isinstance(value, tuple) else (value,):
        if isinstance(text, str) and not _is_text(text):
            raise InputError(f"{parameter.name} {text[:50]!r} has a zero or an unpaired surrogate")
    if parameter.choices and value not in parameter.choices:
        raise InputError(f"{parameter.name} must be one of {', '.join(parameter.choices)}, not {value!r}")
    if parameter.bounds:
        low, high = parameter.bounds
        if not low <= value <= high and not (parameter.or_zero and value == 0):
            zero = " or 0" * parameter.or_zero
            raise InputError(f"{parameter.name} must be between {low:g} and {high:g}{zero}, not {value!r}")
    return value


def _check_numbers(parameter, values):
    if not np.isfinite(values).all():
        raise InputError(f"{parameter.name} has entries that are not finite: {values.tolist()}")
    low, high = parameter.entries
    if outside := [value for value in values.tolist() if not low <= value <= high]:
        raise InputError(
            f"{parameter.name} must have entries between {low:g} and {high:g}, not {outside[0]:g}"
        )


def _is_text(value):
    """Whether a text has neither zeros, which end a path, nor unpaired surrogates, which cannot be
    encoded."""
    return "\0" not in value and not any("\ud800" <= c <= "\udfff" for c in value)


def as_declared(parameter: Parameter, value):
    """The value in the type of the parameter; None gives the default.

    Integers are accepted as numbers, also in lists and in the text of a list (`ros2 param set` passes
    `[0, 0, -9.81]` as text). Raises ValueError with the name of the parameter for other types.
    """
    if value is None:
        return parameter.default
    read, expected = _READERS[parameter.kind]
    try:
        return read(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{parameter.name} must be {expected}, not {value!r}") from None


def _only(kind):
    def read(value):
        if not isinstance(value, kind):
            raise TypeError
        return value

    return read


def _number(value):
    if isinstance(value, bool):
        raise TypeError
    return float(_only((int, float))(value))


def _numbers(value):
    if isinstance(value, str):
        inside = value.strip().removeprefix("[").removesuffix("]")
        return [float(entry) for entry in inside.split(",")]
    return [_number(entry) for entry in value]


def _strings(value):
    if isinstance(value, str):
        raise TypeError
    return [_only(str)(entry) for entry in value]


_READERS = {
    bool: (_only(bool), "true or false"),
    str: (_only(str), "a text"),
    float: (_number, "a number"),
    Numbers: (_numbers, "a list of numbers"),
    Strings: (_strings, "a list of texts, as [a, b]"),
}
