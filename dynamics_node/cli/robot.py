"""What every command shares: the robot, and the problem."""

from dynamics_node.algorithms import load_robot
from dynamics_node.robot import KINDS, ModelError, named


def robot_command(commands, name, run, text):
    """A parser of a command on a robot description."""
    parser = commands.add_parser(name, help=text, description=text)
    robot_choices(parser)
    parser.add_argument("--strict", action="store_true", help="refuse implausible inertias")
    parser.set_defaults(run=run, read=read_robot)
    return parser


def robot_choices(parser):
    """Arguments that say which robot, of which much is left to move."""
    parser.add_argument("urdf", help="robot description: a URDF file")
    parser.add_argument(
        "--floating-base", action="store_true", help="the root link moves freely (default: it is fixed)"
    )
    parser.add_argument(
        "--joints",
        nargs="+",
        metavar="JOINT",
        help="these move, the others are held at zero, or move as a recording has them",
    )
    parser.add_argument("--loops", metavar="FILE", help="YAML file of loops beside the description")


def add_parameters(parser):
    """--parameters"""
    parser.add_argument(
        "--parameters",
        metavar="FILE",
        help="inertias and friction in place of the description's: of identify",
    )


def read_robot(options, **choices):
    """The Robot of the options of `robot_command`; choices: of
    `load_robot`, in place of --joints. Raises ModelError with the file's name."""
    try:
        return load_robot(
            options.urdf,
            loops_file=options.loops,
            parameters_file=getattr(options, "parameters", None),
            floating_base=options.floating_base,
            strict=options.strict,
            **({"joints": options.joints} | choices),
        )
    except ModelError as error:
        raise ModelError(f"{options.urdf}: {error}") from None


def add_problem(parser, default="forward"):
    """Options for one problem, with hybrid ones."""
    parser.add_argument(
        "--problem",
        choices=KINDS,
        default=default,
        help=f"inverse: torques; forward: accelerations; hybrid: of each some ({default})",
    )
    parser.add_argument(
        "--forward-joints",
        nargs="+",
        default=[],
        metavar="JOINT",
        help="hybrid: joints whose torque is known and whose acceleration is asked",
    )


def read_problem(model, options):
    """The Problem of the options of `add_problem`."""
    if options.forward_joints and options.problem != "hybrid":
        raise ValueError("--forward-joints is for --problem hybrid")
    if options.problem == "hybrid" and not options.forward_joints:
        raise ValueError("--problem hybrid needs --forward-joints: those whose acceleration is asked")
    return named(options.problem, model, options.forward_joints)
