"""Markdown of what the code says of its interfaces: parameters, topics, services, messages, commands.

Without Sphinx, so that tests compare pages with it. `interfaces.py` has the directives that print it.
"""

import argparse
import re
import runpy
from pathlib import Path

from dynamics_node.node.core.parameters import Numbers, Strings

INTERFACES = Path(__file__).parents[2] / "dynamics_interfaces"
PAGE = re.compile(r"docs/([\w/-]+)\.md")  # in texts of the code
TYPES = {str: "string", bool: "bool", float: "double", Strings: "string[]", Numbers: "double[]"}


def table(head, rows):
    """Lines of a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines]


# --- parameters ---------------------------------------------------------------------------------------------


def parameters(node):
    """The table of a node's parameters."""
    if node == "dynamics_node":
        from dynamics_node.node.core.settings import PARAMETERS
    else:
        from dynamics_node.node.estimator.estimator_settings import PARAMETERS
    return table(("Parameter", "Meaning"), map(_parameter_row, PARAMETERS))


def _parameter_row(parameter):
    default = parameter.default
    if isinstance(default, bool | float):
        default = str(default).lower()
    default_text = "empty" if default in ("", []) else f"`{default}`"
    facts = [
        TYPES[parameter.kind],
        f"default {default_text}",
        _values(parameter),
        "read only" * parameter.read_only,
    ]
    text = PAGE.sub(r"{doc}`/\1`", parameter.description.rstrip("."))
    return f"`{parameter.name}`", f"{text}.<br>{'; '.join(filter(None, facts))}"


def _values(parameter):
    if parameter.choices:
        return "one of " + ", ".join(f"`{choice}`" for choice in parameter.choices)
    if parameter.bounds:
        low, high = parameter.bounds
        return f"{low:g} to {high:g}" + (", or 0" if parameter.or_zero else "")
    return ""


# --- launch files -------------------------------------------------------------------------------------------


def launch(name):
    """The table of the arguments of launch/NAME.launch.py."""
    from dynamics_node.node.launching import SOURCES

    path = INTERFACES.parent / "launch" / f"{name}.launch.py"
    texts = {name: text for name, (_, text) in SOURCES.items()}
    texts |= {name: text for name, (_, text) in runpy.run_path(str(path))["PARAMETERS"].items()}
    return table(("Argument", "Meaning"), ((f"`{name}`", f"{text}.") for name, text in texts.items()))


# --- topics -------------------------------------------------------------------------------------------------


def topics(node, direction):
    """Rows (name, type, QoS) of a node, "published" or "subscribed"."""
    from dynamics_node.node.estimator import estimator_node
    from dynamics_node.node.ros import inputs, outputs

    rows = {
        ("dynamics_node", "published"): (
            *outputs.OUTPUTS,
            *outputs.ESTIMATED_CONTACTS,
            *outputs.EXTERNAL_TORQUES,
            *outputs.READINGS,
        ),
        ("dynamics_node", "subscribed"): inputs.INPUTS,
        ("dynamics_estimator", "published"): estimator_node.ESTIMATES,
        ("dynamics_estimator", "subscribed"): (
            inputs.DESCRIPTION,
            *estimator_node.COMMANDS,
            estimator_node.STATES,
        ),
    }[node, direction]
    return [(row.topic, _message(row.kind), _quality(getattr(row, "qos", inputs.RELIABLE))) for row in rows]


def _message(kind):
    return f"{kind.__module__.split('.')[0]}/{kind.__name__}"


def _quality(qos):
    durability = qos.durability.name.lower().replace("_", " ")
    words = [qos.reliability.name.lower().replace("_", " "), f"depth {qos.depth}"]
    return ", ".join([*words, durability] if durability == "transient local" else words)


def topic_table(node, direction, meanings):
    """The table of a node's topics, with the meaning of each from lines `topic: meaning`.

    A line `topic [type, QoS]: meaning` is of a topic that is in no table of the code. Raises ValueError for a
    topic that the code or the lines lack.
    """
    known = {name: (kind, quality) for name, kind, quality in topics(node, direction)}
    rows = []
    for line in filter(None, meanings):
        match = re.fullmatch(r"(\S+)(?: \[(\S+), ([^]]+)\])?: (.*)", line)
        if match is None:
            raise ValueError(f"no `topic: meaning`: {line!r}")
        name, kind, quality, meaning = match.groups()
        if kind is None and name not in known:
            raise ValueError(f"{node} has no {direction} topic {name}")
        kind, quality = (kind, quality) if kind else known.pop(name)
        rows.append((f"`{name}`", f"{meaning}<br>{kind}; {quality}"))
    if known:
        raise ValueError(f"{node}: topics without a meaning: {', '.join(known)}")
    return table(("Topic", "Meaning, type, quality of service"), rows)


# --- services and messages ----------------------------------------------------------------------------------


def service_name(kind):
    """`InverseDynamics` -> `inverse_dynamics`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind).lower()


def services():
    """Every service of dynamics_interfaces with its fields."""
    for path in sorted(INTERFACES.glob("srv/*.srv")):
        yield from (
            f"## `~/{service_name(path.stem)}`",
            "",
            f"Type `dynamics_interfaces/srv/{path.stem}`:",
            "",
        )
        yield from ("```bash", path.read_text().rstrip(), "```", "")  # whose comments look alike


def messages():
    """Every message of dynamics_interfaces with its fields."""
    for path in sorted(INTERFACES.glob("msg/*.msg")):
        yield from (f"### `dynamics_interfaces/msg/{path.stem}`", "")
        yield from ("```bash", path.read_text().rstrip(), "```", "")  # whose comments look alike


# --- the command line ---------------------------------------------------------------------------------------


def command_line():
    """Every command of `dynamics`, with its options."""
    from dynamics_node.cli.commands import EXIT_CODES, make_parser

    yield from ("## Exit codes", "", *table(("Code", "Meaning"), EXIT_CODES.items()), "")
    for name, parser in _commands(make_parser()).items():
        yield from (
            f"## `dynamics {name}`",
            "",
            f"{parser.description or ''}",
            "",
            "```text",
            _usage(parser),
            "```",
            "",
        )
        rows = [_option(own) for own in parser._actions if not isinstance(own, argparse._HelpAction)]
        yield from (*table(("Argument", "Meaning"), rows), "")
        if parser.epilog:
            yield from ("```bash", parser.epilog.strip("\n"), "```", "")


def _commands(parser):
    (action,) = (own for own in parser._actions if isinstance(own, argparse._SubParsersAction))
    return action.choices


def _usage(parser):
    parser.formatter_class = lambda prog: argparse.HelpFormatter(prog, width=76)
    return parser.format_usage().removeprefix("usage: ").rstrip()


def _option(action):
    name = action.metavar if isinstance(action.metavar, str) else None
    name = name or ("{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper())
    flags = ", ".join(f"`{flag}`" for flag in action.option_strings)
    value = "" if action.nargs == 0 else f"`{name}`"
    text = (action.help or "") % {**vars(action), "prog": "dynamics"}
    return " ".join(filter(None, (flags, value))), PAGE.sub(r"{doc}`/\1`", text)
