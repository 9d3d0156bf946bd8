"""What every command shares: the robot, and the problem."""

from dynamics_node.loops import load_robot
from dynamics_node.problem import forward_dynamics, hybrid_dynamics, inverse_dynamics


def robot_command(commands, name, run, text):
    """A parser of a command on a robot description."""
    parser = commands.add_parser(name, help=text, description=text)
    parser.add_argument("urdf", help="robot description")
    parser.add_argument("--floating-base", action="store_true")
    parser.add_argument(
        "--joints", nargs="+", metavar="JOINT", help="these move, the others are held at zero"
    )
    parser.add_argument("--loops", metavar="FILE", help="YAML file of loops beside the description")
    parser.add_argument("--strict", action="store_true", help="refuse implausible inertias")
    parser.set_defaults(run=run)
    return parser


def read_robot(options):
    """The Model, or the Mechanism of a robot with loops, of the options of `robot_command`."""
    return load_robot(
        options.urdf,
        loops_file=options.loops,
        floating_base=options.floating_base,
        joints=options.joints,
        strict=options.strict,
    )


def add_problem(parser, default="forward"):
    """Options for one problem, with hybrid ones."""
    parser.add_argument("--problem", choices=("inverse", "forward", "hybrid"), default=default)
    parser.add_argument("--forward-joints", nargs="+", default=[], metavar="JOINT")


def read_problem(model, options):
    """The Problem of the options of `add_problem`."""
    if options.problem == "hybrid":
        return hybrid_dynamics(model, options.forward_joints)
    return {"inverse": inverse_dynamics, "forward": forward_dynamics}[options.problem](model)
