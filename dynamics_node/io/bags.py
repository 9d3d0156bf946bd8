"""Recordings of ROS 1 and ROS 2 -> their JointStates as a table of states, through `rosbags`: no ROS needed.

Supports every rosbag2 format since Foxy: sqlite3 and mcap, with or without message definitions, split,
compressed by file or by message, single files, and folders without metadata.yaml. JointState is the same in
all of them, so the recorded definitions of other types are ignored.
"""

import contextlib
import heapq
import itertools
import re
from collections.abc import Iterator
from pathlib import Path, PurePath

import numpy as np
import yaml

from dynamics_node.errors import ClosureError, TableError
from dynamics_node.functions import build_loop_solver
from dynamics_node.io.tables import Table, columns, joints_option, require
from dynamics_node.robot.joint_names import JointBuffer, Pairs, proposed_pair, renamed
from dynamics_node.text import listed

JOINT_STATE = "sensor_msgs/msg/JointState"
MAX_BYTES = 1 << 20  # of a JointState, enough for 16,000 joints
STORAGE = (".db3", ".mcap")
_RECOVER = {
    ".mcap": "`mcap recover FILE -o WHOLE.mcap` repairs a truncated file",
    ".db3": "`sqlite3 FILE .recover | sqlite3 WHOLE.db3` recovers the readable part",
}


def joint_state_topics(path: Path) -> tuple[dict[str, int], dict[str, str]]:
    """{topic with JointStates: messages} and {any other topic: its type}. Raises TableError."""
    with _as_table_error(path), _opened(path) as (readers, _):
        counts: dict[str, int] = {}
        others: dict[str, str] = {}
        for connection in (c for reader in readers for c in reader.connections):
            if connection.msgtype == JOINT_STATE:
                counts[connection.topic] = counts.get(connection.topic, 0) + connection.msgcount
            else:
                others[connection.topic] = connection.msgtype
        return dict(sorted(counts.items())), others


def joint_states(path: Path, topic: str) -> Iterator:
    """(message, reception time in ns) of every JointState on a topic, in order of reception. Raises
    TableError."""
    with _as_table_error(path), _opened(path) as (readers, deserialize):
        streams = [
            reader.messages([c for c in reader.connections if (c.topic, c.msgtype) == (topic, JOINT_STATE)])
            for reader in readers
            if any((c.topic, c.msgtype) == (topic, JOINT_STATE) for c in reader.connections)
        ]
        merged = heapq.merge(*streams, key=lambda item: item[1])
        for number, (_, received, data) in enumerate(merged, 1):
            try:
                message = deserialize(data, JOINT_STATE)
            except Exception as error:
                reason = _first_line(error)
                raise TableError(f"{path}: message {number} on {topic} is no JointState: {reason}") from None
            yield message, received


@contextlib.contextmanager
def _as_table_error(path):
    """Convert any exception of a library about a damaged file to a TableError with a remedy."""
    try:
        yield
    except TableError:
        raise
    except Exception as error:
        suffixes = {path.suffix} if path.is_file() else {p.suffix for p in path.iterdir()}
        hints = [hint for suffix, hint in _RECOVER.items() if suffix in suffixes]
        reason = "; ".join([_first_line(error).rstrip("."), *hints])
        raise TableError(f"{path} cannot be read as a recording: {reason}") from None


def _first_line(error):
    return (str(error).strip() or type(error).__name__).splitlines()[0]


@contextlib.contextmanager
def _opened(path):
    """(readers of all parts, deserializer)"""
    require("rosbags")
    from rosbags import rosbag1, rosbag2
    from rosbags.typesys import Stores, get_typestore

    ros1, ros2 = get_typestore(Stores.ROS1_NOETIC), get_typestore(Stores.ROS2_FOXY)
    with contextlib.ExitStack() as stack:
        if path.suffix == ".bag":
            yield [stack.enter_context(rosbag1.Reader(path))], ros1.deserialize_ros1
        else:
            with _plain_databases():
                readers = [stack.enter_context(rosbag2.Reader(part)) for part in _parts(path)]
            yield readers, ros2.deserialize_cdr


COMPUTED = (
    "SELECT tables.name, info.name FROM sqlite_master AS tables, pragma_table_xinfo(tables.name) AS info "
    "WHERE tables.type = 'table' AND info.hidden <> 0"
)
EVERY = 100_000  # steps between two checks
FUNCTIONS = {"count", "length", "max", "min"}  # of queries of a database
STEPS = 10_000_000, 100  # of SQLite's machine: allowed for a database, and for each of its bytes


@contextlib.contextmanager
def _plain_databases():
    """Databases that are opened within the block are read as tables of a limited effort: a view, a computed
    column or a join may be endless. Reading raises TableError."""
    hooks = require("apsw").connection_hooks
    hooks.append(_restrict)
    try:
        yield
    finally:
        hooks.remove(_restrict)


def _restrict(connection):
    import apsw

    steps = 0
    most = STEPS[0] + STEPS[1] * Path(connection.filename).stat().st_size

    def authorize(action, first, second, database, view):
        function = action == apsw.SQLITE_FUNCTION and second.lower() not in FUNCTIONS
        if view or function or action in (apsw.SQLITE_RECURSIVE, apsw.SQLITE_CREATE_VTABLE):
            what = f"view {view!r}" if view else f"function {second!r}" if function else "recursion"
            raise TableError(
                f"{connection.filename} has the {what} in place of a table: this is no recording"
            )
        return apsw.SQLITE_OK

    def count():
        nonlocal steps
        steps += EVERY
        if steps > most:
            raise TableError(f"{connection.filename} needs more than {most:.1g} steps to be read")
        return False

    for table, column in connection.execute(COMPUTED):
        raise TableError(
            f"{connection.filename} computes column {column!r} of {table!r}: this is no recording"
        )
    connection.authorizer = authorize
    connection.set_progress_handler(count, EVERY)


def _parts(path):
    """Files of a ROS 2 recording, or its folder if they are compressed."""
    if path.name == "metadata.yaml":
        path = path.parent
    if path.is_file():
        parts = [path]
    elif (path / "metadata.yaml").exists():
        parts = _files_of_metadata(path)
    else:
        parts = _storage_files(path)
    for part in parts:
        _check_part(part)
    return parts


def _files_of_metadata(folder):
    """Files listed in metadata.yaml."""
    text = (folder / "metadata.yaml").read_text(encoding="utf-8")
    try:
        about = yaml.safe_load(text)["rosbag2_bagfile_information"]
        names = [PurePath(name).name for name in about["relative_file_paths"]]
    except (yaml.YAMLError, KeyError, TypeError):
        raise TableError(
            f"{folder / 'metadata.yaml'} is damaged: remove it, or name the .db3 or .mcap file"
        ) from None
    missing = [name for name in names if not (folder / name).exists()]
    if missing:
        raise TableError(f"{folder}: metadata.yaml lists {', '.join(missing)}, missing in the folder")
    compressed = (about.get("compression_mode") or "none").lower() != "none"
    return [folder] if compressed else [folder / name for name in names]


def _storage_files(folder):
    """Files of an interrupted recording without metadata.yaml."""
    files = sorted(p for p in folder.iterdir() if p.suffix in STORAGE)
    compressed = sorted(p.name for p in folder.iterdir() if p.suffix == ".zstd")
    if not files and compressed:
        raise TableError(
            f"{folder}: {compressed[0]} is compressed and there is no metadata.yaml: unzstd it first"
        )
    if not files:
        raise TableError(f"{folder} contains no metadata.yaml, .db3 or .mcap file")
    if len({re.sub(r"_\d+$", "", p.stem) for p in files}) > 1:
        names = listed((p.name for p in files), 12)
        raise TableError(f"{folder} contains several recordings: {names}: name one")
    return files


def _check_part(path):
    """Raise TableError for files that would be read only in part, or not at all."""
    log = path.with_name(path.name + "-wal")
    if path.suffix == ".db3" and log.exists() and log.stat().st_size:
        raise TableError(
            f"{path} was not closed, {log} has its last rows: merge them "
            f"with sqlite3 {path.name} 'PRAGMA wal_checkpoint(TRUNCATE)'"
        )
    if path.suffix == ".db3" and path.is_file():
        _check_lengths(path)
    if path.suffix == ".zstd":
        raise TableError(f"{path} is compressed: name its folder with metadata.yaml, or unzstd it first")
    if path.is_file() and path.suffix not in STORAGE:
        raise TableError(
            f"{path} is neither a table (.npz, .csv, .parquet, .zarr) nor a recording (.db3, .mcap, .bag, a "
            "folder)"
        )


def _check_lengths(path):
    """Raise TableError for an oversized JointState, before the reader copies it three times."""
    query = (
        "SELECT topics.name, max(length(data)) FROM messages JOIN topics ON topic_id = topics.id "
        "WHERE topics.type = ? GROUP BY topics.id"
    )
    apsw = require("apsw")
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    with contextlib.closing(apsw.Connection(f"{path.resolve().as_uri()}?mode=ro", flags)) as database:
        for topic, length in database.execute(query, (JOINT_STATE,)):
            if length > MAX_BYTES:
                raise TableError(f"{path}: a JointState on {topic} has {length} bytes, more than {MAX_BYTES}")


# --- their JointStates as a table ---------------------------------------------------------------------------


_SEARCHED = 1000  # messages searched for velocities and efforts, from the first with all positions


def read_bag(path, robot, chunk, topic=None, pairs: Pairs = (), zero_velocity=False, efforts=None) -> Table:
    """One row per JointState once all joints are known; joints keep their values until the next message with
    them.

    Velocities and efforts are included if all joints have them, or the joints `efforts`; zero_velocity: use
    zero for missing velocities. For a robot with loops, the independent joints are sufficient: the others
    follow, on the branch of the previous row; rows that cannot be closed are NaN. Raises TableError.
    """
    if robot.floating_base:
        pose, twist, wrench = (_base_columns(robot, kind) for kind in ("q", "qd", "tau"))
        raise TableError(
            f"{path}: JointStates have no pose of a floating base: provide a table of states, with its "
            f"pose in {pose}, its twist in {twist} and, among efforts, its wrench in {wrench}, zero "
            "without contact"
        )
    for joint in robot.independent_joints:
        if not joint.type.is_scalar:
            owner = f"{joint.kind} joint {joint.name!r}"
            raise TableError(f"{path}: JointStates have no position of {owner}: provide a table of states")
    counts, others = joint_state_topics(path)
    topic = _topic(path, topic, counts, others)
    without = _look(path, topic, _Latest(robot, pairs, efforts=efforts))
    still = without["qd"] if zero_velocity else []
    recorded = tuple(kind for kind in ("qd", "tau") if not without[kind] or (kind == "qd" and zero_velocity))

    def chunks():
        return _chunks(path, topic, robot, _Latest(robot, pairs, still, efforts), recorded, chunk)

    return Table(counts[topic], ("q", *recorded, "time"), chunks, without)


class _Latest(JointBuffer):
    """Latest values of the scalar joints of a robot. still: joints whose velocity is zero, regardless of the
    messages; efforts: joints whose torques are needed, default all independent ones.

    Positions of dependent joints are those of the last message, or NaN. missing_kinds: kinds not yet received
    for some joint; others: names in the messages that are not joints of the robot.
    """

    def __init__(self, robot, pairs: Pairs = (), still=(), efforts=None):
        scalar = [joint for joint in robot.tree.independent_joints if joint.type.is_scalar]
        super().__init__((joint.name for joint in scalar), pairs)
        self.independent = [joint.name for joint in robot.independent_joints]
        number = {name: k for k, name in enumerate(self.names)}
        self._independent = np.array([number[name] for name in self.independent], dtype=int)
        self._still = [number[name] for name in still]
        self._dependent = sorted({*number.values()}.difference(self._independent))
        self._nq, self._q_at = robot.nq, [joint.q.start for joint in scalar]
        needed = {
            "q": self.independent,
            "qd": self.independent,
            "tau": self.independent if efforts is None else efforts,
        }
        self._waiting = {kind: {number[name] for name in names} for kind, names in needed.items()}
        self.missing_kinds, self.others = set(self._waiting), set[str]()

    def update(self, message):
        """Process a JointState. Raises TableError if it has duplicate joints."""
        try:
            layout = self.layout(message.name)
        except ValueError as error:
            raise TableError(str(error)) from None
        self.others.update(layout.strangers)
        self.position[self._dependent] = np.nan
        fields = (message.position, message.velocity, message.effort)
        whole = [values if len(values) == len(message.name) else None for values in fields]
        self.merge(layout.source, layout.target, *whole)
        self.velocity[self._still] = 0.0
        for kind in tuple(self.missing_kinds):
            values = self._values(kind)
            self._waiting[kind] = {k for k in self._waiting[kind] if not np.isfinite(values[k])}
            if not self._waiting[kind]:
                self.missing_kinds.remove(kind)

    def without(self, kind):
        """Names of the needed joints without a finite value of a kind in any message."""
        return [self.names[k] for k in sorted(self._waiting[kind])]

    def vector(self, kind):
        """q (nq,), qd or tau (nv,)."""
        if kind != "q":
            return self._values(kind)[self._independent]
        q = np.full(self._nq, np.nan)
        q[self._q_at] = self.position
        return q

    def _values(self, kind):
        return {"q": self.position, "qd": self.velocity, "tau": self.effort}[kind]


def positions_of(path, names, topic=None, pairs: Pairs = ()):
    """(joint, positions (k,)) of those among `names` that JointStates contain. Raises TableError."""
    topic = _topic(path, topic, *joint_state_topics(path))
    positions: dict[str, list[float]] = {name: [] for name in names}
    for message, _ in joint_states(path, topic):
        if len(message.position) == len(message.name):
            for name, value in zip(message.name, message.position, strict=True):
                if (ours := renamed(name, pairs)) in positions:
                    positions[ours].append(value)
    return ((name, np.array(values)) for name, values in positions.items())


def _base_columns(robot, kind):
    """Column names of a floating base, which come first."""
    names = columns(robot, kind)[: 7 if kind == "q" else 6]
    return f"{names[0]} ... {names[-1]}"


def _topic(path, topic, counts, others):
    """The requested topic, or the only one with JointStates."""
    full = [name for name, count in counts.items() if count]
    there = listed([f"{name} ({count} messages)" for name, count in counts.items()], 12)
    if topic is None and len(full) == 1:
        return full[0]
    if topic is not None and topic not in counts:
        kind = f", it is a {others[topic]}" if topic in others else ""
        raise TableError(f"{path} has no topic {topic} with {JOINT_STATE}{kind}: there is {there or 'none'}")
    if not counts:
        there = listed([f"{name} ({kind})" for name, kind in others.items()], 12)
        raise TableError(f"{path} has no topic with {JOINT_STATE}; there is {there or 'no topic at all'}")
    if topic in full:
        return topic
    if topic is not None or not full:
        raise TableError(f"{path} has no message on {topic or ', '.join(counts)}")
    raise TableError(f"{path} has several topics with {JOINT_STATE}: choose one with --topic: {there}")


def _look(path, topic, latest):
    """{kind: joints without it}. Raises TableError if some joints have no positions."""
    messages = joint_states(path, topic)
    for message, _ in messages:
        latest.update(message)
        if "q" not in latest.missing_kinds:
            break
    else:
        raise TableError(f"{path}: {_missing(topic, latest)}")
    for message, _ in itertools.islice(messages, _SEARCHED):
        if not latest.missing_kinds:
            break
        latest.update(message)
    return {kind: latest.without(kind) for kind in ("qd", "tau")}


def _missing(topic, latest):
    """Message about joints without positions, which may only have other names."""
    missing, others = latest.without("q"), sorted(latest.others)
    message = f"no JointState on {topic} has a position of {listed(missing, 12)}"
    there = [name for name in latest.independent if name not in missing]
    if not others:
        return message + (f"; to use only the available ones: {joints_option(there)}" if there else "")
    pair = proposed_pair(others, missing)
    advice = f"--joints-map '{'='.join(pair)}'" if pair else "map them by --joints-map THEIRS=OURS,..."
    if not pair and there:
        advice += f", or use only the available ones: {joints_option(there)}"
    return f"{message}, but of {listed(others, 12)}: {advice}"


def _chunks(path, topic, robot, latest, recorded, chunk):
    position = _closed_positions(robot) if robot.constrained else lambda q: q
    needed, rows = {"q", *recorded}, []
    for message, received in joint_states(path, topic):
        latest.update(message)
        if not latest.missing_kinds.isdisjoint(needed):
            continue
        values = [latest.vector(kind) for kind in recorded]
        rows.append((position(latest.vector("q")), *values, _stamp(message, received)))
        if len(rows) == chunk:
            yield _packed(rows, recorded)
            rows = []
    if rows:
        yield _packed(rows, recorded)


def _closed_positions(robot):
    """A function that closes the loops of successive positions, on the branch of the previous one."""
    closing, last = build_loop_solver(robot), None

    def closed(q):
        nonlocal last
        try:
            last, _ = closing.following(q, last)
        except ClosureError:
            return np.full(robot.nq, np.nan)
        return last

    return closed


def _stamp(message, received):
    """Time stamp in s, or the reception time if there is none."""
    stamp = message.header.stamp
    return stamp.sec + 1e-9 * stamp.nanosec or 1e-9 * received


def _packed(rows, recorded):
    columns = zip(*rows, strict=True)
    return {kind: np.array(column) for kind, column in zip(("q", *recorded, "time"), columns, strict=True)}
