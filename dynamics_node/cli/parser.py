"""The parser of a command, with the options that commands share."""

import argparse
import inspect
from typing import get_args

from dynamics_node.cli.documented import default_text, first_sentences, keywords_of, summary_of
from dynamics_node.cli.options import read_robot
from dynamics_node.cli.values import names, positive
from dynamics_node.io import CUTOFF, Velocities
from dynamics_node.robot import KINDS

RECORDING = (
    "a table (.npz, .csv, .parquet, .zarr) or a recording (a rosbag2 folder, .db3, .mcap, a ROS 1 .bag)"
)
USUAL = f"(default: {CUTOFF:g} Hz, or a quarter of the sampling rate if that is lower)"


class Command(argparse.ArgumentParser):
    """The parser of a command. flags: separated by spaces; to: a group of arguments of the parser."""

    def error(self, message):
        """One line, and where the options are; the usage is up to twelve lines."""
        self.exit(2, f"{self.prog}: {message}; options: {self.prog} --help\n")

    def add_value(self, flags, text, metavar=None, to=None, **more):
        """An option with a value."""
        (to or self).add_argument(*flags.split(), help=text, metavar=metavar, **more)

    def add_switch(self, flags, text, to=None):
        """An option without a value."""
        (to or self).add_argument(*flags.split(), action="store_true", help=text)

    def add_list(self, flag, text, metavar, type=names, to=None):
        """An option whose values are separated by commas; it may be repeated."""
        (to or self).add_argument(flag, action="extend", type=type, help=text, metavar=metavar)

    def add_choice(self, flag, choices, text="", default=None):
        """An option with one of a few values."""
        usual = "" if default is None else f"(default: {default})"
        self.add_argument(flag, choices=tuple(choices), default=default, help=f"{text} {usual}".strip())

    def add_documented(self, function, names, **more):
        """Options for parameters of a function: defaults are those of the signature, help texts the first
        sentences of the docstring. more: {parameter: metavar, or keywords of `add_argument`}."""
        sentences, parameters = first_sentences(function), inspect.signature(function).parameters
        lists: dict[str, bool] = {}
        for name in names.split():
            keywords, changed = keywords_of(parameters[name]), more.get(name, {})
            keywords |= changed if isinstance(changed, dict) else {"metavar": changed}
            text = sentences[name] + default_text(keywords.get("default"), sentences[name])
            if lists.setdefault(name, keywords.get("action") == "extend"):
                keywords["default"] = None  # values are added to it
            self.add_argument(f"--{name.replace('_', '-')}", help=text.replace("%", "%%"), **keywords)
        documented = self.get_default("documented") or {}
        self.set_defaults(documented=documented | {function: lists})

    def add_friction(self):
        """--friction, --no-friction: one switch for the losses of joints."""
        has_file = "--parameters" in self._option_string_actions
        text = (
            f"damping, dry friction, springs and offsets of the joints{', also of --parameters' * has_file}"
        )
        action = argparse.BooleanOptionalAction
        self.add_argument("--friction", action=action, default=True, help=f"{text} (default: on)")

    def add_problem(self):
        """--problem and --forward-joints."""
        self.add_choice("--problem", KINDS, "torques, accelerations, or some of each", "forward")
        text = "joints of a hybrid problem whose torque is known and whose acceleration is computed"
        self.add_list("--forward-joints", text, "JOINT,...")

    def add_recording(self):
        """--topic and --joints-map."""
        self.add_value("--topic", "topic of a recording that has several with JointStates")
        text = (
            "joints that the recording names differently: shoulder=joint1, or with a star for the part that "
            "stays, 'fer_*=panda_*'"
        )
        self.add_list("--joints-map", text, "THEIRS=OURS,...")

    def add_derivatives(self):
        """--cutoff and --velocities, of commands that always differentiate what is not recorded."""
        text = f"cut-off of the low-pass for derivatives of positions and velocities {USUAL}"
        self.add_value("--cutoff", text, "HZ", type=positive)
        text = "velocities: as recorded, derivatives of positions, or those with less noise"
        self.add_choice("--velocities", get_args(Velocities), text, "better")


def add_command(
    commands, name, run, about, *examples, read=None, parameters=False, recorded=False
) -> Command:
    """The Command of a robot. about: one sentence, or the function whose docstring begins with it; examples:
    lines of the epilog; read: what run(read(options), options, printer) gets, the Robot unless given;
    parameters: whether a file of them is an option; recorded: whether it reads motions."""
    parser = commands.add_parser(
        name,
        description=about if isinstance(about, str) else summary_of(about),
        epilog="examples:\n" + "\n".join(f"  dynamics {name} {line}" for line in examples),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("urdf", help="robot description: a file in URDF, xacro or MJCF")
    parser.set_defaults(run=run, read=read or read_robot, usage_error=parser.error)
    robot, printing = map(parser.add_argument_group, ("robot", "printing"))
    text = "let the root link move freely (default: it is fixed)"
    parser.add_switch("--floating-base", text, to=robot)
    others = "are fixed at zero, or move as the recording has them" if recorded else "are fixed at zero"
    text = f"joints that move; the others {others} (default: all)"
    parser.add_list("--joints", text, "JOINT,...", to=robot)
    parser.add_list("--xacro", "arguments of xacro files", "NAME:=VALUE,...", to=robot)
    text = "folder from which MJCF may include files and read meshes (default: that of the description)"
    parser.add_value("--trusted-folder", text, "FOLDER", to=robot)
    parser.add_value("--loops", "YAML file with the loops of the robot", "FILE", to=robot)
    if read is None:
        parser.add_switch("--strict", "reject implausible inertias", to=robot)
    if parameters:
        text = "inertias and friction in place of the description's, as `dynamics identify` writes them"
        parser.add_value("--parameters", text, "FILE", to=robot)
    parser.add_switch("--json", "print one JSON object in place of text", to=printing)
    parser.add_switch("-q --quiet", "print results and errors alone, no notes or progress", to=printing)
    parser.add_switch("-v --verbose", "print times of stages, and tracebacks of errors", to=printing)
    return parser
