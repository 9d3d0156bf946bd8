"""Shared options of commands, and the robots and recordings that they name."""

import contextlib
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

from dynamics_node.algorithms import first_closed
from dynamics_node.errors import InputError, ModelError, TableError, UnknownNameError
from dynamics_node.io import (
    USUAL_CUTOFF,
    Table,
    Tasks,
    open_table,
    position_ranges,
)
from dynamics_node.output_files import is_protected
from dynamics_node.robot import inverse_dynamics, load_robot, named
from dynamics_node.robot.contacts import load_contacts, valid_contacts
from dynamics_node.robot.joint_names import Pairs, name_pairs
from dynamics_node.robot.loading import named_error
from dynamics_node.text import listed

STATIONARY = 1e-3  # rad or m: joints with a smaller range do not move


class UsageError(InputError):
    """Options that do not go together, or a value that an option does not take."""


# --- files of options ---------------------------------------------------------------------------------------


INPUTS = (
    "urdf",
    "input",
    "trajectory",
    "recordings",
    "tare",
    "sensors",
    "loops",
    "parameters",
    "limits",
    "torques",
    "contacts",
)
OUTPUTS = ("output", "plot", "animate", "page", "repair")


def input_paths(options):
    """Paths that the options name as inputs."""
    values = [getattr(options, name, None) for name in INPUTS]
    lists = [value if isinstance(value, list) else [value] for value in values if value]
    return [Path(path) for paths in lists for path in paths]


def reject_overwritten_inputs(options):
    """Raise UsageError for an output that is a file of `protecting`; `options.writes`: files of a folder."""
    for name in OUTPUTS:
        path = getattr(options, name, None)
        for file in () if path is None else [path, *(path / file for file in getattr(options, "writes", ()))]:
            if is_protected(file):
                raise UsageError(f"--{name} {file} is an input: name another file")


# --- objects of options -------------------------------------------------------------------------------------


def read_robot(options, **choices):
    """The Robot of the options of `add_command`; choices: of `load_robot`, in place of --joints. Raises
    as `errors_of_description`."""
    with errors_of_description(options):
        return load_robot(
            options.urdf,
            xacro_arguments=xacro_arguments(options, options.urdf),
            trusted_folder=options.trusted_folder,
            loops_file=options.loops,
            parameters_file=getattr(options, "parameters", None),
            floating_base=options.floating_base,
            strict=getattr(options, "strict", False),
            **({"joints": options.joints} | choices),
        )


def xacro_arguments(options, path):
    """{name: value} of --xacro for a description: None without it, and for a file of another format if the
    command also reads a xacro file. Raises UsageError for another form."""
    pairs = [entry.partition(":=") for entry in options.xacro or ()]
    for name, sign, _ in pairs:
        if not sign or not name:
            raise UsageError(f"--xacro takes NAME:=VALUE, not {name!r}")
    if not _is_xacro(path) and any(map(_is_xacro, (options.urdf, getattr(options, "input", None)))):
        return None
    return {name: value for name, _, value in pairs} or None


def _is_xacro(path):
    return isinstance(path, str | Path) and Path(path).suffix == ".xacro"


@contextlib.contextmanager
def errors_of_description(options):
    """Raise UsageError for an unknown name in --joints, and other ModelErrors with the file's name."""
    try:
        yield
    except UnknownNameError as error:
        raise UsageError(f"--joints: {error}") from None
    except ModelError as error:
        raise named_error(error, options.urdf) from None


def read_problem(robot, options):
    """The Problem of the options of `add_problem`."""
    if options.forward_joints and options.problem != "hybrid":
        raise UsageError("--forward-joints requires --problem hybrid")
    if options.problem == "hybrid" and not options.forward_joints:
        raise UsageError("--problem hybrid needs --forward-joints: the joints with unknown acceleration")
    try:
        problem = named(options.problem, robot, options.forward_joints or [])
    except ValueError as error:
        raise UsageError(f"--forward-joints: {error}") from None
    return replace(problem, contacts=contacts_of(robot, options))


def contacts_of(robot, options):
    """The contacts of the file --contacts, () without the option. Raises UsageError if it has none, OSError
    and ContactError."""
    if (path := getattr(options, "contacts", None)) is None:
        return ()
    if not (contacts := load_contacts(path)):
        raise UsageError(f"--contacts: {path} has no contact; leave the option out")
    return valid_contacts(robot, contacts)


def joints_map(options):
    """{recorded name: our name}"""
    return dict(pairs_of("--joints-map", options.joints_map))


def pairs_of(option, entries) -> Pairs:
    """The pairs of names of an option THEIRS=OURS,... Raises UsageError."""
    for entry in entries or ():
        if "=" not in entry:
            raise UsageError(f"{option} takes THEIRS=OURS, not {entry!r}")
    try:
        return name_pairs(tuple(entry.split("=", 1)) for entry in entries or ())
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


def require_links(robot, option, links):
    """Raise UsageError for unknown links."""
    if unknown := [link for link in links if link not in robot.frames]:
        names = listed(map(repr, unknown))
        raise UsageError(f"{option}: unknown link {names}; the robot has: {listed(robot.frames)}")


def closed_position(robot, option, given):
    """A closed position (nq,); given: positions of all joints, of the independent ones, or None for zero.
    Raises UsageError for another count, and numbers that are not finite."""
    q = robot.neutral() if given is None else np.array(given, dtype=float)
    wanted = f"{option} needs {robot.nq} numbers"
    if len(q) not in (robot.nq, robot.nv):
        some = f", or the {robot.nv} of the independent joints" if robot.nv < robot.nq else ""
        raise UsageError(f"{wanted}{some}, not {len(q)}: {', '.join(robot.q_names)}")
    names = robot.q_names if len(q) == robot.nq else robot.v_names
    for name, value in zip(names, q, strict=True):
        if not np.isfinite(value):
            raise UsageError(f"{option}: {name} is {value}")
    if len(q) < robot.nq:
        q, independent = robot.neutral(), q
        for name, value in zip(names, independent, strict=True):
            if name not in robot.q_names:
                raise UsageError(f"{wanted}: {', '.join(robot.q_names)}")
            q[robot.q_names.index(name)] = value
    return first_closed(robot, q)


def cutoff(options):
    """The argument of `open_table`."""
    return USUAL_CUTOFF if options.cutoff is None else options.cutoff


def as_recorded(robot, options, paths, printer):
    """The robot in which joints that --joints leaves out are where recordings have them.

    Joints that move are joints of it; others are fixed at their recorded position, or at zero if none is
    recorded. robot: that of the options, returned if recordings make no difference. Raises TableError naming
    joints that move, where this is impossible.
    """
    if options.joints is None:
        return robot
    others, pairs = _omitted(robot, options), joints_map(options)
    files = {path: position_ranges(path, others, options.topic, joints_map=pairs) for path in paths}
    moving, fixed = _recorded(others, files.values())
    if not moving and not fixed:
        return robot
    for path, ends in files.items():
        if missing := [name for name in moving if name not in ends]:
            raise TableError(
                f"{path} has no positions of {listed(missing)}, which move in other recordings and are not "
                "among --joints"
            )
    if moving and robot.constrained:
        raise TableError(
            f"{listed(moving)} move in the recording, but are not among --joints: list all moving joints"
        )
    if moving:
        printer.note(f"{listed(moving)} move as recorded; torques are those of {listed(options.joints)}")
    if fixed:
        positions = listed([f"{name} at {position:.4g}" for name, position in fixed.items()])
        printer.note(f"fixed at their recorded position: {positions}")
    return read_robot(options, joints=[*options.joints, *moving], positions=fixed)


def _recorded(names, files):
    """Names of joints that move in recordings, and {name: position} of others that are not at zero. files:
    {name: lowest and highest position} of each recording, rad or m."""
    moving, fixed = [], {}
    for name in names:
        ends = [position for ranges in files for position in ranges.get(name, ())]
        if ends and max(ends) - min(ends) > STATIONARY:
            moving.append(name)
        elif ends and abs(middle := 0.5 * (min(ends) + max(ends))) > STATIONARY:
            fixed[name] = middle
    return moving, fixed


def _omitted(robot, options):
    """Names of joints with one coordinate that --joints leaves out."""
    known = {joint.name for joint in robot.tree.independent_joints}
    every = read_robot(options, joints=None).tree.independent_joints
    return [joint.name for joint in every if joint.type.is_scalar and joint.name not in known]


def open_recordings(robot, options, printer, *groups, tasks: Tasks | None = None):
    """For commands with `add_derivatives`: the robot `as_recorded`; the tables of each group of recordings,
    whose notes are printed; and `measured` for computations with them, None for all coordinates. tasks: of a
    cluster that opens them."""
    moved = as_recorded(robot, options, [path for group in groups for path in group], printer)
    measured = torques_of(robot, moved)
    choices = {
        "robot": moved,
        "problem": inverse_dynamics(moved),
        "topic": options.topic,
        "joints_map": joints_map(options),
        "measured": measured,
        "cutoff": cutoff(options),
        "velocities": options.velocities,
    }
    paths = [path if tasks is None else path.absolute() for group in groups for path in group]
    each = tasks.map(_open, paths, str, choices=choices) if tasks else (_open(p, choices) for p in paths)
    opened: list[Table] = []
    for path, table in zip(paths, each, strict=True):
        for note in table.notes:
            printer.note(f"{path}: {note}")
        opened.append(table)
    left = iter(opened)
    tables = [list(islice(left, len(group))) for group in groups]
    return moved, tables, None if measured is True else measured


def _open(path, choices):
    """A task."""
    return open_table(path, **choices)


def total_rows(tables):
    """Rows of all tables; None if unknown before reading."""
    counts = [table.rows for table in tables]
    return None if None in counts else sum(counts)


def torques_of(robot, moved):
    """`measured` of `open_table`, for the robot that `as_recorded` returns in place of another one."""
    return True if moved is robot else tuple(robot.v_names)
