"""Options of commands from the signatures and NumPy docstrings of the functions that they call."""

import argparse
import inspect
import re
from typing import Any, Literal, get_args, get_origin

from dynamics_node.cli.values import names, numbers, positive

SECTION = re.compile(r"\n\n[A-Z][\w ]*\n-{3,}\n")
ENTRY = re.compile(r"^(\w[\w, ]*?)(?: : .*)?\n((?:    .*\n|\n)+)", re.MULTILINE)


def summary_of(function) -> str:
    """The first line of a docstring."""
    return (inspect.getdoc(function) or "").partition("\n")[0]


def first_sentences(function) -> dict[str, str]:
    """{parameter: the first sentence about it}, without its full stop."""
    text = (inspect.getdoc(function) or "").partition("\nParameters\n----------\n")[2]
    sentences: dict[str, str] = {}
    for parameters, lines in ENTRY.findall(SECTION.split(text)[0] + "\n"):
        sentence = re.split(r"\.(?:\s|$)", " ".join(lines.split()))[0]
        if sentence[1:2].islower():
            sentence = sentence[0].lower() + sentence[1:]
        sentences |= dict.fromkeys(parameters.split(", "), sentence)
    return sentences


def arguments_of(options, function) -> dict[str, Any]:
    """The values of the options of `add_documented`; without lists that are not given."""
    values = {name: getattr(options, name) for name in options.documented[function]}
    return {k: v for k, v in values.items() if v is not None or not options.documented[function][k]}


def keywords_of(parameter):
    """Keywords of `add_argument` for a parameter, by its annotation."""
    kinds = get_args(parameter.annotation) or (parameter.annotation,)
    default = None if parameter.default is parameter.empty else parameter.default
    if get_origin(parameter.annotation) is Literal:
        return {"choices": kinds, "default": default}
    if bool in kinds:
        return {"action": argparse.BooleanOptionalAction if default else "store_true", "default": default}
    if float in kinds and get_origin(parameter.annotation) is not tuple:
        return {"type": positive, "default": default, "metavar": "X"}
    if int in kinds:
        return {"type": int, "default": default, "metavar": "N"}
    if parameter.annotation is str:
        return {"default": default}
    kind, metavar = (numbers, "X,...") if {complex, float} & {*kinds} else (names, "NAME,...")
    return {"action": "extend", "type": kind, "default": default, "metavar": metavar}


def default_text(default, sentence):
    """The words about a default that a sentence does not mention."""
    if default is None or default is False or "default" in sentence:
        return ""
    values = default if isinstance(default, tuple | list) else [default]
    words = ["on" if v is True else f"{v:g}" if isinstance(v, float) else str(v) for v in values]
    return f" (default: {','.join(words)})"
