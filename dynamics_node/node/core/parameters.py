"""Parameters as the fields of a frozen dataclass: names, types, limits, and values as people write them."""

from dataclasses import field, fields
from typing import Any, NamedTuple, TypeVar

import numpy as np

from dynamics_node.robot.validate import HUGE

Kind = TypeVar("Kind")
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
    """A field of the dataclass. bounds: of a number, which may be 0 as well if `or_zero`; entries: bounds of
    each number of a list. What is divided by or squared is bounded away from zero.

    read_only: settable at the start alone. Files are: whoever is on the network may set the others.
    """
    told = {"description": description, "choices": choices, "bounds": bounds, "entries": entries}
    return field(default=default, metadata={**told, "read_only": read_only, "or_zero": or_zero})


class Parameter(NamedTuple):
    """A field as ROS sees it: lists in place of tuples. kind: its type in the dataclass."""

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
    """The fields of a dataclass; of those that begin with a group, `held_joints` is the parameter
    `held.joints`."""
    return tuple(_parameter(own, groups) for own in fields(kind))


def read_fields(kind: type[Kind], parameters: tuple[Parameter, ...], values: dict[str, Any]) -> Kind:
    """A `kind` from {parameter name: value}. Raises ValueError with the parameter's name and the reason."""
    return kind(**{p.field: _checked(p, values[p.name]) for p in parameters})


def _parameter(own, groups) -> Parameter:
    group = next((group for group in groups if own.name.startswith(f"{group}_")), "")
    name = f"{group}.{own.name.removeprefix(f'{group}_')}" if group else own.name
    default = list(own.default) if isinstance(own.default, tuple) else own.default
    return Parameter(name, own.name, own.type, default, **own.metadata)


def _checked(parameter, value):
    if parameter.is_list:
        value = tuple(entry for entry in value or () if entry != "")
    if parameter.kind == Numbers:
        _check_numbers(parameter, np.array(value, dtype=float))
    for text in value if isinstance(value, tuple) else (value,):
        if isinstance(text, str) and not _is_text(text):
            raise ValueError(f"{parameter.name} {text[:50]!r} has a character that no name or path has")
    if parameter.choices and value not in parameter.choices:
        raise ValueError(f"{parameter.name} {value!r} is none of {', '.join(parameter.choices)}")
    if parameter.bounds:
        low, high = parameter.bounds
        if not low <= value <= high and not (parameter.or_zero and value == 0):
            told = f"{parameter.name} {value!r} is not between {low:g} and {high:g}"
            raise ValueError(told + ", nor 0" * parameter.or_zero)
    return value


def _check_numbers(parameter, values):
    if not np.isfinite(values).all():
        raise ValueError(f"{parameter.name} has an entry that is not finite: {values.tolist()}")
    low, high = parameter.entries
    if beyond := [value for value in values.tolist() if not low <= value <= high]:
        raise ValueError(f"{parameter.name} has {beyond[0]:g}, which is not between {low:g} and {high:g}")


def _is_text(value):
    """Without zeros, which end a path, and halves of characters, which no encoding has."""
    return "\0" not in value and not any("\ud800" <= c <= "\udfff" for c in value)


def as_declared(parameter: Parameter, value):
    """The value in the type of the parameter's default; None, when nobody gave one, is the default.

    Integers are taken for numbers, also in lists and in a text that is a list (`ros2 param set` makes one of
    `[0, 0, -9.81]`). Raises ValueError with the parameter's name for what is of another type.
    """
    if value is None:
        return parameter.default
    read, expected = _READERS[parameter.kind]
    try:
        return read(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{parameter.name} is {expected}, not {value!r}") from None


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
