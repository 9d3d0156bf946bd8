"""dynamics export: functions of a robot as source code for other systems."""

from pathlib import Path
from typing import get_args

from dynamics_node.algorithms import QUANTITIES
from dynamics_node.algorithms.quantities import Reference
from dynamics_node.cli.options import UsageError, contacts_of
from dynamics_node.cli.parser import add_command
from dynamics_node.cli.values import folder_to_write, one_of
from dynamics_node.codegen.export import DTYPES, TARGETS
from dynamics_node.functions import build, build_loop_solver, export_functions
from dynamics_node.robot.inertial_parameters import PARAMETERS

_OPTIONS = ("link", "links", "joint", "reference", "forward_joints", "contacts")


def add_export(commands):
    parser = add_command(
        commands,
        "export",
        export,
        "Export functions as source code for other systems.",
        "panda.urdf --function inverse_dynamics -o panda_c",
        "panda.urdf --function forward_dynamics,mass_matrix --target casadi --derivatives",
        "solo12.urdf --floating-base --function forward_dynamics --contacts feet.yaml",
        "panda.urdf --function frame_jacobian --link panda_hand --precision float32 --no-libm",
        parameters=True,
    )
    text = "quantities of docs/reference/quantities.md (default: inverse_dynamics)"
    parser.add_list("--function", text, "NAME,...", one_of(*QUANTITIES))
    parser.add_choice("--target", TARGETS, default="c")
    parser.add_switch("--derivatives", "export first derivatives, too")
    parser.add_switch("--second-derivatives", "export first and second derivatives, too")
    parser.add_choice("--precision", DTYPES, default="float64")
    text = "inertia, armature: arguments of the functions in place of constants (default: none)"
    parser.add_list("--runtime-parameters", text, "NAME,...", one_of(*PARAMETERS))
    parser.add_switch("--no-libm", "compute sine and cosine without <math.h>")
    parser.add_value("--name", "prefix of all names (default: the robot's name)")
    parser.add_value("--link", "of quantities of a link, such as frame_jacobian")
    parser.add_list("--links", "of quantities of links", "LINK,...")
    parser.add_value("--joint", "of sensor_wrench")
    parser.add_choice("--reference", get_args(Reference), "axes of frame_jacobian and others")
    text = "of hybrid_dynamics: joints whose torque is known"
    parser.add_list("--forward-joints", text, "JOINT,...")
    text = "YAML file of contacts, for forward_dynamics, impact_dynamics and others"
    parser.add_value("--contacts", text, "FILE", type=Path)
    text = "folder of the files (default: exported)"
    parser.add_value("-o --output", text, "FOLDER", type=folder_to_write, default=Path("exported"))


def export(robot, options, printer):
    """Build, differentiate and write."""
    wanted = list(dict.fromkeys(options.function or ["inverse_dynamics"]))
    given = {option: getattr(options, option) for option in _OPTIONS if getattr(options, option) is not None}
    _check(wanted, given)
    if options.contacts is not None:
        given["contacts"] = contacts_of(robot, options)
    functions = []
    for name in wanted:
        choices = {option: value for option, value in given.items() if option in QUANTITIES[name].options}
        with printer.progress(name):
            functions.append(_built(robot, name, options, choices))
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
