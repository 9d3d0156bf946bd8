"""What the launch files make of their arguments; no launch is needed to import it."""

import shlex
from pathlib import Path


def refuse_unknown(file, command_line, known):
    """Raise ValueError for an argument `name:=value` that the launch file does not have.

    launch itself says nothing about one that nobody reads. Only where `file` is the one on the command
    line: included by another, its arguments may be the other's.
    """
    names = [Path(word).name for word in command_line]
    if Path(file).name not in names:
        return
    words = command_line[names.index(Path(file).name) + 1 :]
    given = [word.partition(":=")[0] for word in words if ":=" in word]
    if unknown := [name for name in given if name not in known]:
        plural = "s" if len(unknown) > 1 else ""
        raise ValueError(
            f"{Path(file).name} has no argument{plural} {', '.join(unknown)}; it has {', '.join(known)}"
        )


def list_text(text):
    """`a, b` or `[a, b]` as the latter."""
    return text if text.strip().startswith("[") else f"[{text}]"


def xacro_mappings(text):
    """{name: value} of `name:=value other:="two words"`, as xacro itself takes them on its command line.

    Raises ValueError for what is no such word.
    """
    mappings = {}
    for word in shlex.split(text):
        name, assigned, value = word.partition(":=")
        if not (name and assigned):
            raise ValueError(f"xacro_args: {word!r} is not name:=value")
        mappings[name] = value
    return mappings


def description_parameters(path, xacro_args):
    """{parameter: value} that carries a robot description file; {} without one."""
    if not path:
        return {}
    if Path(path).suffix != ".xacro":
        return {"robot_description_file": path}
    import xacro  # only for those who need it: sudo apt install ros-$ROS_DISTRO-xacro

    return {"robot_description": xacro.process_file(path, mappings=xacro_mappings(xacro_args)).toxml()}
