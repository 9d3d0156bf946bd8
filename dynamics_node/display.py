"""The `repr` of robots, functions and results: a few short lines, and tables for notebooks."""

import html
from dataclasses import fields
from typing import TypeVar

import numpy as np

from dynamics_node.text import listed

T = TypeVar("T")
SMALL = 9  # entries of an array that is printed in full
WIDE = 100  # characters of a value


def titled(title: str, **rows: object) -> str:
    """A repr of a few lines: the title, then name and value of every row that is not None."""
    width = max(map(len, rows), default=0)
    lines = [f"  {name:{width}}  {brief(value)}" for name, value in rows.items() if value is not None]
    return "\n".join([title, *lines])


def with_field_repr(record: type[T]) -> type[T]:
    """The class of a NamedTuple or dataclass, with a repr of a line for every field."""
    record.__repr__ = _by_field  # type: ignore[method-assign]
    return record


def _by_field(record) -> str:
    names = getattr(record, "_fields", None) or [field.name for field in fields(record) if field.repr]
    return titled(type(record).__name__, **{name: getattr(record, name) for name in names})


def brief(value: object) -> str:
    """The value on one line of at most WIDE characters."""
    if isinstance(value, np.ndarray):
        if value.size > SMALL:
            return f"array {value.shape}"
        text = np.array2string(value, precision=4, suppress_small=True, separator=", ", max_line_width=10**6)
        return " ".join(text.split())
    if isinstance(value, float):
        return f"{value:.4g}"
    text = (listed(value) if isinstance(value, list | tuple) else str(value)).partition("\n")[0]
    return text if len(text) <= WIDE else text[: WIDE - 4] + " ..."


def html_table(head, rows, caption="") -> str:
    """An HTML table for notebooks."""
    lines = [f"<table><caption>{html.escape(caption)}</caption>"]
    for tag, row in [("th", head), *(("td", row) for row in rows)]:
        lines.append("<tr>" + "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in row) + "</tr>")
    return "\n".join([*lines, "</table>"])
