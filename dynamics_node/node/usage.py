"""The text of --help of the nodes. Without ROS."""

import sys
import textwrap

WIDTH = 100
INDENT = 26  # of descriptions


def help_requested(arguments=None) -> bool:
    """Whether -h or --help precedes the arguments of ROS. arguments: default those of the process."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    mine = words[: words.index("--ros-args")] if "--ros-args" in words else words
    return "-h" in mine or "--help" in mine


def usage(executable: str, parameters, names, config: str) -> str:
    """The usage of a node. parameters: its table; names: of those to list; config: its parameter file."""
    table = {parameter.name: parameter for parameter in parameters}
    lines = [
        f"usage: ros2 run dynamics_node {executable} [--ros-args -p NAME:=VALUE ... --params-file FILE]",
        "",
        "the most important parameters:",
    ]
    for name in names:
        text = f"{table[name].description} (default: {_written(table[name].default)})"
        label = f"  {name:{INDENT - 2}}"
        lines += textwrap.wrap(text, WIDTH, initial_indent=label, subsequent_indent=" " * INDENT)
    lines += ["", f"all parameters: config/{config}; documentation: docs/index.rst of the repository"]
    return "\n".join(lines)


def _written(default) -> str:
    """The value as a parameter file has it."""
    return str(default).lower() if isinstance(default, bool) else repr(default).replace("'", '"')
