"""Options of commands that read recordings: the topic, and joints with other names."""

from dynamics_node.tables import TableError


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
