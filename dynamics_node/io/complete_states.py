"""Missing quantities of a table: rejected, differentiated, or zero, with a note."""

import contextlib
import math
from dataclasses import replace

import numpy as np

from dynamics_node.errors import TableError
from dynamics_node.io.differentiate import (
    CUTOFF,
    END,
    ORDER,
    USUAL_CUTOFF,
    Derivatives,
    differentiated,
    noisy_velocities,
    usual_cutoff,
)
from dynamics_node.io.tables import Table, needed, read_by
from dynamics_node.text import listed

_NAMES = {"qd": "velocities", "qdd": "accelerations", "tau": "efforts"}
_ZERO = {
    "qd": "velocities{} are taken as zero",
    "qdd": "accelerations are taken as zero: torques include gravity and velocity terms; "
    "--differentiate adds inertial terms",
}


def complete(
    path, table: Table, robot, problem, measured, zero_velocity, cutoff, velocities="recorded"
) -> Table:
    """The table with all quantities that the problem reads; notes list those that remain zero. cutoff,
    velocities: as in `open_table`.

    Raises TableError for missing efforts, for missing velocities without a substitute, and if there is no
    time for differentiation.
    """
    for kind in needed(problem, measured):
        if kind not in table.kinds:
            some = 0 < len(table.without.get(kind, [])) < robot.nv
            advice = "; select the joints with efforts by --joints" if some else ""
            raise TableError(f"{path} has no {_NAMES[kind]}{_of(table, kind)}{advice}")
    missing = [kind for kind in read_by(problem) if kind not in table.kinds]
    if zero_velocity and cutoff is not None:
        raise TableError("velocities are zero or differentiated: choose --zero-velocity or --differentiate")
    if "qd" in missing and not zero_velocity and cutoff is None:
        raise TableError(
            f"{path} has no velocities{_of(table, 'qd')}: --differentiate computes them from the positions, "
            "--zero-velocity sets them to zero"
        )
    if cutoff is not None:
        return _differentiated(path, table, robot, missing, cutoff, velocities)
    zero = [kind for kind in ("qd", "qdd") if kind in missing or (kind == "qd" and table.without.get("qd"))]
    return replace(table, notes=tuple(_ZERO[kind].format(_of(table, kind)) for kind in zero))


def _of(table, kind):
    """Text naming the affected joints, if not all."""
    names = table.without.get(kind, [])
    return f" of {listed(names, 12)}" if names else ""


def _differentiated(path, table, robot, missing, cutoff, velocities):
    if cutoff != USUAL_CUTOFF and not (math.isfinite(cutoff) and cutoff > 0):
        raise TableError(f"--cutoff must be a positive number of Hz, not {cutoff:g}")
    if not missing and velocities != "positions":
        return replace(table, notes=("nothing is differentiated: velocities and accelerations are recorded",))
    if not table.timed:
        raise TableError(f"{path} has no time for differentiation: add a column, or array, `time` in s")
    slow = ""
    if cutoff == USUAL_CUTOFF:
        with _named(path):
            cutoff = usual_cutoff(table.chunks())
        slow = (
            f", a quarter of the sampling rate, because {CUTOFF:g} Hz need a higher rate"
            if cutoff < CUTOFF
            else ""
        )
    source, why = _source(table, robot, missing, cutoff, velocities)
    missing = ["qd", "qdd"] if source == "q" else missing
    orders = {kind: order for order, kind in enumerate(("qd", "qdd"), 1 if source == "q" else 0)}
    wanted = _derivatives(path, robot, source, {kind: orders[kind] for kind in missing})
    quantities = " and ".join(_NAMES[kind] for kind in missing)
    note = (
        f"{quantities} are derivatives of the recorded {'positions' if source == 'q' else 'velocities'} "
        f"below {cutoff:g} Hz{slow} (zero-phase Butterworth of order {ORDER}), NaN "
        f"within {END / cutoff:.2g} s of the ends and gaps of the recording{why}"
    )
    chunks = table.chunks
    return replace(
        table,
        kinds=tuple(dict.fromkeys((*table.kinds, *missing))),
        chunks=lambda: _of_file(path, differentiated(chunks(), wanted, cutoff)),
        notes=(note,),
        cutoff=cutoff,
    )


def _source(table, robot, missing, cutoff, velocities):
    """The kind to differentiate, and the reason if it differs from the recorded kind."""
    if "qd" in missing or velocities == "positions":
        return "q", ""
    scalar = all(joint.type.is_scalar for joint in robot.independent_joints)
    if velocities == "recorded" or not scalar:
        return "qd", ""
    noisy = noisy_velocities(next(iter(table.chunks()), None), robot, cutoff)
    noise = [f"{name} {'steps of' if step else 'noise of'} {size:.2g}" for name, size, step in noisy]
    if not noise:
        return "qd", ""
    joints = listed(noise)
    return (
        "q",
        f". Recorded velocities are not used because positions are less noisy ({joints}); "
        "--velocities recorded keeps them",
    )


@contextlib.contextmanager
def _named(path):
    """Add the file to error messages."""
    try:
        yield
    except TableError as error:
        message = str(error)
        raise TableError(message if message.startswith(str(path)) else f"{path}: {message}") from None


def _of_file(path, chunks):
    with _named(path):
        yield from chunks


def _derivatives(path, robot, source, orders):
    """Columns to differentiate, and their orders."""
    if source == "qd":
        return Derivatives("qd", np.arange(robot.nv), np.zeros(robot.nv, dtype=bool), orders)
    if nonscalar := [joint for joint in robot.independent_joints if not joint.type.is_scalar]:
        name = (
            "a floating base" if robot.floating_base else f"{nonscalar[0].kind} joint {nonscalar[0].name!r}"
        )
        missing = [f"qd.{robot.v_names[k]}" for k in range(nonscalar[0].v.start, nonscalar[0].v.stop)]
        raise TableError(
            f"{path} has no velocities: those of {name} cannot be differentiated from its pose; provide "
            f"{', '.join(missing)}"
        )
    q_at = {joint.name: joint.q.start for joint in robot.tree.independent_joints}
    joints = robot.independent_joints
    columns = np.array([q_at[joint.name] for joint in joints], dtype=int)
    return Derivatives("q", columns, np.array([j.type.wraps for j in joints], dtype=bool), orders)
