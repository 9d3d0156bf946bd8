"""Options of commands that read recordings: topic, joints with other names, cut-off of derivatives; and what
becomes of the joints that --joints leaves out."""

import sys
from typing import get_args

from dynamics_node.cli.robot import read_robot
from dynamics_node.io import CUTOFF, USUAL_CUTOFF, TableError, Velocities, position_ranges
from dynamics_node.text import listed

STILL = 1e-3  # rad or m: a joint whose positions differ by less stands still


def add_recording(parser):
    """--topic and --joints-map."""
    parser.add_argument("--topic", help="of the recording, if it has several with JointStates")
    parser.add_argument(
        "--joints-map", nargs="+", default=[], metavar="THEIRS=OURS",
        help="joints that the recording calls otherwise than the description: shoulder=joint1, or, with a "
        "star for what stays, 'fer_*=panda_*'",
    )  # fmt: skip


def joints_map(options):
    """{their name: our name}"""
    pairs = [entry.partition("=") for entry in options.joints_map]
    for theirs, sign, _ in pairs:
        if not sign:
            raise TableError(f"--joints-map takes THEIRS=OURS, not {theirs!r}")
    if len({theirs for theirs, _, _ in pairs}) != len(pairs):
        raise TableError("--joints-map names a joint of the recording twice")
    return {theirs: ours for theirs, _, ours in pairs}


def add_derivatives(parser):
    """--cutoff and --velocities, of commands that always differentiate what is not recorded."""
    parser.add_argument(
        "--cutoff", type=float, metavar="HZ",
        help="velocities and accelerations that are not recorded are derivatives below this "
        f"({CUTOFF:g}, or a quarter of the states a second)",
    )  # fmt: skip
    parser.add_argument(
        "--velocities", choices=get_args(Velocities), default="better",
        help="recorded ones, derivatives of positions, or what has less noise (better)",
    )  # fmt: skip


def cutoff(options):
    """As `open_table` takes it."""
    return USUAL_CUTOFF if options.cutoff is None else options.cutoff


def as_recorded(robot, options, paths):
    """The robot in which joints that --joints leaves out are where recordings have them: those that move are
    joints of it, the others are held at their recorded position, or at zero where none is recorded. robot:
    that of the options, which is returned where recordings make no difference. Raises TableError naming
    joints that move where this is impossible."""
    if options.joints is None:
        return robot
    others = _left_out(robot, options)
    ranges = [position_ranges(path, others, options.topic, joints_map=joints_map(options)) for path in paths]
    every = {name: [own[name] for own in ranges if name in own] for name in others}
    low = {name: min(least for least, _ in own) for name, own in every.items() if own}
    high = {name: max(most for _, most in own) for name, own in every.items() if own}
    moving = [name for name in low if high[name] - low[name] > STILL]
    held = {name: 0.5 * (low[name] + high[name]) for name in low if name not in moving}
    held = {name: position for name, position in held.items() if abs(position) > STILL}
    if not moving and not held:
        return robot
    for path, own in zip(paths, ranges, strict=True):
        if missing := [name for name in moving if name not in own]:
            raise TableError(
                f"{path} has no positions of {listed(missing)}, which move in other recordings and are not "
                "among --joints"
            )
    if moving and robot.constrained:
        raise TableError(
            f"{listed(moving)} move in the recording, but --joints leaves them out: name all joints that move"
        )
    if moving:
        of = listed(options.joints)
        print(f"dynamics: {listed(moving)} move as recorded; torques are those of {of}", file=sys.stderr)
    if held:
        told = listed([f"{name} at {position:.4g}" for name, position in held.items()])
        print(f"dynamics: held where the recordings have it: {told}", file=sys.stderr)
    return read_robot(options, joints=[*options.joints, *moving], positions=held)


def _left_out(robot, options):
    """Names of joints with one coordinate that --joints leaves out."""
    own = {joint.name for joint in robot.tree.independent_joints}
    every = read_robot(options, joints=None).tree
    return [
        joint.name for joint in every.independent_joints if joint.type.is_scalar and joint.name not in own
    ]


def torques_of(robot, moved):
    """`measured` of `open_table`, of the robot that `as_recorded` returns for another one."""
    return True if moved is robot else tuple(robot.v_names)
