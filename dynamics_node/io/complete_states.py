"""What a table does not tell: refused, differentiated, or zero, and said in a note."""

import contextlib
import math
from dataclasses import replace

import numpy as np

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
from dynamics_node.io.tables import Table, TableError, needed, read_by
from dynamics_node.text import listed

_NAMES = {"qd": "velocities", "qdd": "accelerations", "tau": "efforts"}
_ZERO = {
    "qd": "velocities{} are taken as zero",
    "qdd": "accelerations are taken as zero: the torques are those of gravity and velocities; "
    "--differentiate adds those of acceleration",
}


def complete(
    path, table: Table, model, problem, measured, zero_velocity, cutoff, velocities="recorded"
) -> Table:
    """The table with all that the problem reads, or what is left to be zero told in its notes. cutoff,
    velocities: as of `open_table`.

    Raises TableError for missing efforts, for velocities that nobody gives, and when there is nothing to
    differentiate by.
    """
    for kind in needed(problem, measured):
        if kind not in table.kinds:
            some = 0 < len(table.without.get(kind, [])) < model.nv
            advice = "; name the joints to go on with by --joints" if some else ""
            raise TableError(f"{path} has no {_NAMES[kind]}{_of(table, kind)}{advice}")
    missing = [kind for kind in read_by(problem) if kind not in table.kinds]
    if zero_velocity and cutoff is not None:
        raise TableError("velocities are zero or differentiated: choose --zero-velocity or --differentiate")
    if "qd" in missing and not zero_velocity and cutoff is None:
        raise TableError(
            f"{path} has no velocities{_of(table, 'qd')}: --differentiate takes them from the positions, "
            "--zero-velocity takes them as zero"
        )
    if cutoff is not None:
        return _differentiated(path, table, model, missing, cutoff, velocities)
    zero = [kind for kind in ("qd", "qdd") if kind in missing or (kind == "qd" and table.without.get("qd"))]
    return replace(table, notes=tuple(_ZERO[kind].format(_of(table, kind)) for kind in zero))


def _of(table, kind):
    """Of which joints, where it is not all."""
    names = table.without.get(kind, [])
    return f" of {listed(names, 12)}" if names else ""


def _differentiated(path, table, model, missing, cutoff, velocities):
    if cutoff != USUAL_CUTOFF and not (math.isfinite(cutoff) and cutoff > 0):
        raise TableError(f"--cutoff must be a positive number of Hz, not {cutoff:g}")
    if not missing and velocities != "positions":
        return replace(table, notes=("nothing is differentiated: velocities and accelerations are recorded",))
    if not table.timed:
        raise TableError(f"{path} has no time to differentiate by: a column, or array, `time` in s")
    slow = ""
    if cutoff == USUAL_CUTOFF:
        with _named(path):
            cutoff = usual_cutoff(table.chunks())
        slow = (
            f", a quarter of the states a second, of which {CUTOFF:g} Hz need more" if cutoff < CUTOFF else ""
        )
    source, why = _source(table, model, missing, cutoff, velocities)
    missing = ["qd", "qdd"] if source == "q" else missing
    orders = {kind: order for order, kind in enumerate(("qd", "qdd"), 1 if source == "q" else 0)}
    wanted = _derivatives(path, model, source, {kind: orders[kind] for kind in missing})
    told = " and ".join(_NAMES[kind] for kind in missing)
    note = (
        f"{told} are derivatives of the recorded {'positions' if source == 'q' else 'velocities'} below "
        f"{cutoff:g} Hz{slow} (Butterworth of order {ORDER}, forwards and backwards: no delay), NaN in the "
        f"{END / cutoff:.2g} s beside the ends and gaps of the recording{why}"
    )
    chunks = table.chunks
    return replace(
        table,
        kinds=tuple(dict.fromkeys((*table.kinds, *missing))),
        chunks=lambda: _of_file(path, differentiated(chunks(), wanted, cutoff)),
        notes=(note,),
        cutoff=cutoff,
    )


def _source(table, model, missing, cutoff, velocities):
    """What is differentiated, and why it is not what is recorded."""
    if "qd" in missing or velocities == "positions":
        return "q", ""
    scalar = all(joint.type.is_scalar for joint in model.independent_joints)
    if velocities == "recorded" or not scalar:
        return "qd", ""
    noisy = noisy_velocities(next(iter(table.chunks()), None), model, cutoff)
    told = [f"{name} {'steps of' if step else 'noise of'} {size:.2g}" for name, size, step in noisy]
    if not told:
        return "qd", ""
    of = listed(told)
    return "q", f". Recorded velocities are left: positions tell them better ({of}); --velocities recorded"


@contextlib.contextmanager
def _named(path):
    """Errors name the file."""
    try:
        yield
    except TableError as error:
        told = str(error)
        raise TableError(told if told.startswith(str(path)) else f"{path}: {told}") from None


def _of_file(path, chunks):
    with _named(path):
        yield from chunks


def _derivatives(path, model, source, orders):
    """Which columns to differentiate, and how often."""
    if source == "qd":
        return Derivatives("qd", np.arange(model.nv), np.zeros(model.nv, dtype=bool), orders)
    if others := [joint for joint in model.independent_joints if not joint.type.is_scalar]:
        name = "a floating base" if model.floating_base else f"{others[0].kind} joint {others[0].name!r}"
        lacking = [f"qd.{model.v_names[k]}" for k in range(others[0].v.start, others[0].v.stop)]
        raise TableError(
            f"{path} has no velocities: those of {name} do not come from its pose here, but from "
            f"{', '.join(lacking)}"
        )
    q_at = {joint.name: joint.q.start for joint in model.tree.independent_joints}
    joints = model.independent_joints
    columns = np.array([q_at[joint.name] for joint in joints], dtype=int)
    return Derivatives("q", columns, np.array([j.type.wraps for j in joints], dtype=bool), orders)
