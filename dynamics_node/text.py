"""Text: what other sources sent made safe for logs, and the `repr` of records."""

import html
from dataclasses import fields

import numpy as np

LONGEST = 500  # characters
SMALL = 9  # entries of an array that `repr` prints in full
WIDE = 100  # characters of a line of `repr`


def printable(text: object, allowed="\n\t") -> str:
    """The text with control characters, except those allowed, escaped as in Python."""
    text = str(text)
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in allowed else c.encode("unicode_escape").decode() for c in text
    )


def listed(names, most=6) -> str:
    """The first names, and the number of others: 'a, b and 3 more'."""
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


class Printable:
    """A stream to which `printable` text is written."""

    def __init__(self, stream):
        self._stream = stream

    def write(self, text):
        return self._stream.write(printable(text))

    def flush(self):
        self._stream.flush()


def one_line(text: object, longest: int = LONGEST) -> str:
    """Text on one line without control characters, cut to `longest`.

    Names come from the network. A line feed in one would forge a line of the log; an escape sequence or a
    change of direction would hide one. Unprintable characters are escaped as in Python.
    """
    text = str(text)
    more = len(text) - longest
    text = printable(text[:longest], "")
    return f"{text} ... ({more} more characters)" if more > 0 else text


# --- repr ---------------------------------------------------------------------------------------------------


def titled(title: str, **rows: object) -> str:
    """A repr of a few lines: the title, then name and value of every row that is not None."""
    width = max(map(len, rows), default=0)
    lines = [f"  {name:{width}}  {brief(value)}" for name, value in rows.items() if value is not None]
    return "\n".join([title, *lines])


def fields_of(record) -> str:
    """The repr of a NamedTuple or dataclass: a line for every field, large arrays by their shape."""
    names = getattr(record, "_fields", None) or [own.name for own in fields(record) if own.repr]
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
