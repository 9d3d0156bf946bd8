"""Options of commands that read recordings: topic, joints with other names, cut-off of derivatives."""

from typing import get_args

from dynamics_node.tables import CUTOFF, USUAL_CUTOFF, TableError, Velocities


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
