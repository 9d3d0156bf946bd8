"""dynamics export: functions of a robot as source code for other systems."""

from pathlib import Path
from typing import get_args

from dynamics_node.algorithms import QUANTITIES
from dynamics_node.cli.options import (
    UsageError,
    add_command,
    add_output,
    add_parameters,
    add_strict,
    folder_to_write,
    names,
    one_of,
)
from dynamics_node.codegen.export import DTYPES, TARGETS
from dynamics_node.functions import build, build_loop_solver, export_functions
from dynamics_node.functions.choices import Reference
from dynamics_node.robot.inertial_parameters import PARAMETERS

_OPTIONS = ("link", "links", "joint", "reference", "forward_joints")


def add_export(commands):
    parser = add_command(
        commands, "export", export, "Export functions as source code for other systems.",
        [
            "panda.urdf --function inverse_dynamics -o panda_c",
            "panda.urdf --function forward_dynamics,mass_matrix --target casadi --derivatives",
            "panda.urdf --function frame_jacobian --link panda_hand --precision single --no-libm",
        ],
    )  # fmt: skip
    add_strict(parser)
    add_parameters(parser)
    parser.add_argument(
        "--function", action="extend", type=one_of(*QUANTITIES), metavar="NAME,...",
        help="quantities of docs/reference/quantities.md (default: inverse_dynamics)",
    )  # fmt: skip
    parser.add_argument("--target", choices=TARGETS, default="c", help="(default: c)")
    parser.add_argument("--derivatives", action="store_true", help="export first derivatives, too")
    parser.add_argument(
        "--second-derivatives", action="store_true", help="export first and second derivatives, too"
    )
    parser.add_argument("--precision", choices=tuple(DTYPES), default="double", help="(default: double)")
    parser.add_argument(
        "--runtime-parameters", action="extend", type=one_of(*PARAMETERS), metavar="NAME,...",
        help="inertia, armature: arguments of the functions in place of constants (default: none)",
    )  # fmt: skip
    parser.add_argument("--no-libm", action="store_true", help="compute sine and cosine without <math.h>")
    parser.add_argument("--name", help="prefix of all names (default: the robot's name)")
    parser.add_argument("--link", help="of quantities of a link, such as frame_jacobian")
    parser.add_argument(
        "--links", action="extend", type=names, metavar="LINK,...", help="of quantities of links"
    )
    parser.add_argument("--joint", help="of sensor_wrench")
    parser.add_argument("--reference", choices=get_args(Reference), help="axes of frame_jacobian and others")
    parser.add_argument(
        "--forward-joints", action="extend", type=names, metavar="JOINT,...",
        help="of hybrid_dynamics: joints whose torque is known",
    )  # fmt: skip
    add_output(
        parser, folder_to_write, "folder of the files (default: exported)", metavar="FOLDER",
        default=Path("exported"),
    )  # fmt: skip


def export(robot, options, printer):
    """Build, differentiate and write."""
    wanted = list(dict.fromkeys(options.function or ["inverse_dynamics"]))
    given = {option: getattr(options, option) for option in _OPTIONS if getattr(options, option) is not None}
    _check(wanted, given)
    functions = []
    for name in wanted:
        own = {option: value for option, value in given.items() if option in QUANTITIES[name].options}
        with printer.progress(name):
            functions.append(_built(robot, name, options, own))
    closing = [build_loop_solver(robot, "numpy").step] if robot.constrained else []
    with printer.progress("writing"):
        paths = export_functions(
            functions, options.output, options.target, name=options.name, precision=options.precision,
            derivatives=options.derivatives, second_derivatives=options.second_derivatives,
            libm=not options.no_libm, undifferentiated=closing,
        )  # fmt: skip
    for function in functions:
        arguments = [name for name in function.runner.inputs if name != "gravity"]  # a constant of the code
        arguments += [name for name in options.runtime_parameters or () if name not in arguments]
        printer.line(f"{function.signature.name}: {', '.join(arguments)}")
    for path in paths:
        printer.written(path)


def _check(wanted, given):
    """Raise UsageError for options that no function has, or that one lacks."""
    for option in given:
        if not any(option in QUANTITIES[name].options for name in wanted):
            raise UsageError(f"{_flag(option)}: {', '.join(wanted)} has no such option")
    for name in wanted:
        if missing := [option for option in QUANTITIES[name].needs if option not in given]:
            raise UsageError(f"{name} needs {', '.join(map(_flag, missing))}")


def _flag(option):
    return f"--{option.replace('_', '-')}"


def _built(robot, name, options, given):
    """The Function. Raises UsageError for an unknown link or joint."""
    try:
        return build(
            robot, name, backend="numpy", runtime_parameters=options.runtime_parameters or (), **given
        )
    except KeyError as error:
        raise UsageError(f"{name}: {error.args[0]}") from None
