"""Values as people write them, in the type that the parameter has: 100 is a number as 100.0 is."""

from dynamics_node.node.core.table import Numbers, Parameter, Strings


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
