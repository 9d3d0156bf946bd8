"""Text from other sources, made safe for logs, diagnostics and replies."""

import difflib
import re

from dynamics_node.errors import InputError

LONGEST_LINE, LONGEST_WORD = 500, 100  # characters
_NUMBER = re.compile(r"[-+]?((\d+(\.\d*)?|\.\d+)(e[-+]?\d+)?|inf(inity)?|nan)", re.ASCII | re.IGNORECASE)


def number(text: str) -> float:
    """A decimal number in ASCII. Raises ValueError; `float` also reads 1_000 and digits of other scripts."""
    if not _NUMBER.fullmatch(text.strip()):
        raise InputError(f"{one_line(text, 40)!r} is not a number")
    return float(text)


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


def similar(name, names) -> str:
    """A hint at the known names: the similar ones, or all of them if there are none."""
    return close_to(name, names) or f"there are {', '.join(names)}"


def close_to(name, names) -> str:
    """A hint at the known names that are similar; empty if there are none."""
    near = nearest(name, names)
    return f"did you mean {' or '.join(near)}?" if near else ""


def nearest(name, names) -> list[str]:
    """Up to three known names that are similar, the most similar one first."""
    return difflib.get_close_matches(str(name)[:LONGEST_WORD], list(names))


def one_line(text: object, longest: int = LONGEST_LINE) -> str:
    """Text on one line without control characters, cut to `longest`.

    Names come from the network. A line feed in one would forge a line of the log; an escape sequence or a
    change of direction would hide one. Unprintable characters are escaped as in Python.
    """
    text = str(text)
    more = len(text) - longest
    text = printable(text[:longest], "")
    return f"{text} ... ({more} more characters)" if more > 0 else text
