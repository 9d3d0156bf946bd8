"""Recordings of ROS 1 and ROS 2 -> their JointStates as a table of states, through `rosbags`: no ROS needed.

Every rosbag2 format since Foxy: sqlite3 and mcap, with definitions of messages inside or not, split,
compressed by file or by message, a file alone, a folder whose metadata.yaml was never written. A JointState
has been the same in all of them, so what a recording says about other types is not looked at.
"""

import contextlib
import heapq
import itertools
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path, PurePath

import numpy as np
import yaml

from dynamics_node.algorithms import ClosureError
from dynamics_node.functions import build_loop_solver
from dynamics_node.io.tables import Table, TableError, columns, joints_option, require
from dynamics_node.robot.joint_names import JointBuffer, Pairs, proposed_pair, renamed
from dynamics_node.text import listed

JOINT_STATE = "sensor_msgs/msg/JointState"
MAX_BYTES = 1 << 20  # of a JointState, which is then one of 16,000 joints
STORAGE = (".db3", ".mcap")
_RECOVER = {
    ".mcap": "`mcap recover FILE -o WHOLE.mcap` repairs one that was cut off",
    ".db3": "`sqlite3 FILE .recover | sqlite3 WHOLE.db3` saves what is left of it",
}


def joint_state_topics(path: Path) -> tuple[dict[str, int], dict[str, str]]:
    """{topic with JointStates: messages} and {any other topic: its type}. Raises TableError."""
    with _damage(path), _opened(path) as (readers, _):
        counts: dict[str, int] = {}
        others: dict[str, str] = {}
        for connection in (c for reader in readers for c in reader.connections):
            if connection.msgtype == JOINT_STATE:
                counts[connection.topic] = counts.get(connection.topic, 0) + connection.msgcount
            else:
                others[connection.topic] = connection.msgtype
        return dict(sorted(counts.items())), others


def joint_states(path: Path, topic: str) -> Iterator:
    """(message, ns when it was received) of every JointState on a topic, in that order. Raises TableError."""
    with _damage(path), _opened(path) as (readers, deserialize):
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
def _damage(path):
    """What a library makes of a damaged file can be any exception: a TableError, with what helps."""
    try:
        yield
    except TableError:
        raise
    except Exception as error:
        suffixes = {path.suffix} if path.is_file() else {p.suffix for p in path.iterdir()}
        hints = [hint for suffix, hint in _RECOVER.items() if suffix in suffixes]
        told = "; ".join([_first_line(error).rstrip("."), *hints])
        raise TableError(f"{path} cannot be read as a recording: {told}") from None


def _first_line(error):
    return (str(error).strip() or type(error).__name__).splitlines()[0]


@contextlib.contextmanager
def _opened(path):
    """(readers of all parts, function that deserializes)"""
    require("rosbags")
    from rosbags import rosbag1, rosbag2
    from rosbags.typesys import Stores, get_typestore

    ros1, ros2 = get_typestore(Stores.ROS1_NOETIC), get_typestore(Stores.ROS2_FOXY)
    with contextlib.ExitStack() as stack:
        if path.suffix == ".bag":
            yield [stack.enter_context(rosbag1.Reader(path))], ros1.deserialize_ros1
        else:
            readers = [stack.enter_context(rosbag2.Reader(part)) for part in _parts(path)]
            yield readers, ros2.deserialize_cdr


def _parts(path):
    """The files of a recording of ROS 2; its folder itself where compression hides them."""
    if path.name == "metadata.yaml":
        path = path.parent
    if path.is_file():
        parts = [path]
    elif (path / "metadata.yaml").exists():
        parts = _files_of_metadata(path)
    else:
        parts = _found(path)
    for part in parts:
        _check_part(part)
    return parts


def _files_of_metadata(folder):
    """What metadata.yaml tells."""
    text = (folder / "metadata.yaml").read_text(encoding="utf-8")
    try:
        about = yaml.safe_load(text)["rosbag2_bagfile_information"]
        names = [PurePath(name).name for name in about["relative_file_paths"]]
    except (yaml.YAMLError, KeyError, TypeError):
        raise TableError(
            f"{folder / 'metadata.yaml'} is damaged: name the .db3 or .mcap file itself, or take it away"
        ) from None
    missing = [name for name in names if not (folder / name).exists()]
    if missing:
        raise TableError(f"{folder}: metadata.yaml lists {', '.join(missing)}, which the folder has not")
    compressed = (about.get("compression_mode") or "none").lower() != "none"
    return [folder] if compressed else [folder / name for name in names]


def _found(folder):
    """The files of a recording that was not ended, so that its metadata.yaml was never written."""
    files = sorted(p for p in folder.iterdir() if p.suffix in STORAGE)
    compressed = sorted(p.name for p in folder.iterdir() if p.suffix == ".zstd")
    if not files and compressed:
        raise TableError(
            f"{folder}: {compressed[0]} is compressed and there is no metadata.yaml: unzstd it first"
        )
    if not files:
        raise TableError(f"{folder} holds no metadata.yaml, .db3 or .mcap file")
    if len({re.sub(r"_\d+$", "", p.stem) for p in files}) > 1:
        names = listed((p.name for p in files), 12)
        raise TableError(f"{folder} holds several recordings: {names}: name one")
    return files


def _check_part(path):
    """Refuse what would be read as a part of itself, or not at all."""
    log = path.with_name(path.name + "-wal")
    if path.suffix == ".db3" and log.exists() and log.stat().st_size:
        raise TableError(
            f"{path} was not closed, {log} holds what came last: "
            f"sqlite3 {path.name} 'PRAGMA wal_checkpoint(TRUNCATE)' takes it in"
        )
    if path.suffix == ".db3" and path.is_file():
        _check_lengths(path)
    if path.suffix == ".zstd":
        raise TableError(f"{path} is compressed: name its folder with metadata.yaml, or unzstd it first")
    if path.is_file() and path.suffix not in STORAGE:
        raise TableError(
            f"{path} is neither a table (.npz, .csv, .parquet) nor a recording (.db3, .mcap, .bag, a folder)"
        )


def _check_lengths(path):
    """Raise TableError for a JointState that is far too long, before the reader copies it three times."""
    query = (
        "SELECT topics.name, max(length(data)) FROM messages JOIN topics ON topic_id = topics.id "
        "WHERE topics.type = ? GROUP BY topics.id"
    )
    with contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
        for topic, length in database.execute(query, (JOINT_STATE,)):
            if length > MAX_BYTES:
                raise TableError(f"{path}: a JointState on {topic} has {length} bytes, more than {MAX_BYTES}")


# --- their JointStates as a table ---------------------------------------------------------------------------


_LOOK = 1000  # messages from the first with all positions on, in which velocities and efforts are looked for


def read_bag(path, model, chunk, topic=None, pairs: Pairs = (), zero_velocity=False, efforts=None) -> Table:
    """A row for every JointState since all joints are known, which keep what they had until another message
    has it.

    Velocities and efforts are there when all joints tell them, or the joints `efforts` theirs; zero_velocity:
    velocities that nobody tells are zero. Of a robot with loops the independent joints are enough: the others
    follow, on the branch of the row before; rows that cannot be closed are NaN. Raises TableError.
    """
    if model.floating_base:
        pose, twist, wrench = (_base_columns(model, kind) for kind in ("q", "qd", "tau"))
        raise TableError(
            f"{path}: JointStates do not tell where a floating base is: make a table of states, with its "
            f"pose in {pose}, its twist in {twist} and, of efforts, the wrench on it in {wrench}, zeros "
            "where nothing touches it"
        )
    for joint in model.independent_joints:
        if not joint.type.is_scalar:
            owner = f"{joint.kind} joint {joint.name!r}"
            raise TableError(
                f"{path}: JointStates do not carry the position of {owner}: make a table of states"
            )
    counts, others = joint_state_topics(path)
    topic = _topic(path, topic, counts, others)
    without = _look(path, topic, _Latest(model, pairs, efforts=efforts))
    still = without["qd"] if zero_velocity else []
    told = tuple(kind for kind in ("qd", "tau") if not without[kind] or (kind == "qd" and zero_velocity))

    def chunks():
        return _chunks(path, topic, model, _Latest(model, pairs, still, efforts), told, chunk)

    return Table(counts[topic], ("q", *told, "time"), chunks, without)


class _Latest(JointBuffer):
    """What the messages so far have of the scalar joints of a robot. still: joints whose velocity is zero
    whatever comes; efforts: joints whose torques are needed, all independent ones by default.

    Positions of dependent joints are the last message's or NaN: they follow from the others. untold: kinds
    that no message has had yet of some joint; others: names in the messages that are none of the robot's.
    """

    def __init__(self, robot, pairs: Pairs = (), still=(), efforts=None):
        scalar = [joint for joint in robot.tree.independent_joints if joint.type.is_scalar]
        super().__init__((joint.name for joint in scalar), pairs)
        self.tellers = [joint.name for joint in robot.independent_joints]
        number = {name: k for k, name in enumerate(self.names)}
        self._own = np.array([number[name] for name in self.tellers], dtype=int)
        self._still = [number[name] for name in still]
        self._dependent = sorted({*number.values()}.difference(self._own))
        self._nq, self._q_at = robot.nq, [joint.q.start for joint in scalar]
        needed = {"q": self.tellers, "qd": self.tellers, "tau": self.tellers if efforts is None else efforts}
        self._waiting = {kind: {number[name] for name in names} for kind, names in needed.items()}
        self.untold, self.others = set(self._waiting), set[str]()

    def update(self, message):
        """Take in a JointState. Raises TableError when it has a joint twice."""
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
        for kind in tuple(self.untold):
            values = self._values(kind)
            self._waiting[kind] = {k for k in self._waiting[kind] if not np.isfinite(values[k])}
            if not self._waiting[kind]:
                self.untold.remove(kind)

    def without(self, kind):
        """Names of the needed joints that no message has had a kind of: NaN is no value."""
        return [self.names[k] for k in sorted(self._waiting[kind])]

    def vector(self, kind):
        """q (nq,), qd or tau (nv,)."""
        if kind != "q":
            return self._values(kind)[self._own]
        q = np.full(self._nq, np.nan)
        q[self._q_at] = self.position
        return q

    def _values(self, kind):
        return {"q": self.position, "qd": self.velocity, "tau": self.effort}[kind]


def positions_of(path, names, topic=None, pairs: Pairs = ()):
    """(joint, positions (k,)) of those among `names` that JointStates tell. Raises TableError."""
    topic = _topic(path, topic, *joint_state_topics(path))
    found: dict[str, list[float]] = {name: [] for name in names}
    for message, _ in joint_states(path, topic):
        if len(message.position) == len(message.name):
            for name, value in zip(message.name, message.position, strict=True):
                if (ours := renamed(name, pairs)) in found:
                    found[ours].append(value)
    return ((name, np.array(values)) for name, values in found.items())


def _base_columns(model, kind):
    """Names of the columns of a floating base, which come first."""
    own = columns(model, kind)[: 7 if kind == "q" else 6]
    return f"{own[0]} ... {own[-1]}"


def _topic(path, topic, counts, others):
    """The topic asked for, or the only one with JointStates."""
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
    """{kind: joints that do not tell it}. Raises TableError when some positions are never told."""
    messages = joint_states(path, topic)
    for message, _ in messages:
        latest.update(message)
        if "q" not in latest.untold:
            break
    else:
        raise TableError(f"{path}: {_missing(topic, latest)}")
    for message, _ in itertools.islice(messages, _LOOK):
        if not latest.untold:
            break
        latest.update(message)
    return {kind: latest.without(kind) for kind in ("qd", "tau")}


def _missing(topic, latest):
    """What to say about joints without positions: another name may be all."""
    missing, others = latest.without("q"), sorted(latest.others)
    told = f"no JointState on {topic} tells the position of {listed(missing, 12)}"
    there = [name for name in latest.tellers if name not in missing]
    if not others:
        return told + (f"; to go on with those that are there: {joints_option(there)}" if there else "")
    pair = proposed_pair(others, missing)
    advice = f"--joints-map '{'='.join(pair)}'" if pair else "--joints-map THEIRS=OURS ... makes pairs"
    if not pair and there:
        advice += f", or go on with those that are there: {joints_option(there)}"
    return f"{told}, but of {listed(others, 12)}: {advice}"


def _chunks(path, topic, model, latest, told, chunk):
    position = _closed_positions(model) if model.constrained else lambda q: q
    needed, found = {"q", *told}, []
    for message, received in joint_states(path, topic):
        latest.update(message)
        if not latest.untold.isdisjoint(needed):
            continue
        values = [latest.vector(kind) for kind in told]
        found.append((position(latest.vector("q")), *values, _stamp(message, received)))
        if len(found) == chunk:
            yield _packed(found, told)
            found = []
    if found:
        yield _packed(found, told)


def _closed_positions(mechanism):
    """A function of one position after the other that closes the loops, on the branch of the one before."""
    closing, last = build_loop_solver(mechanism), None

    def closed(q):
        nonlocal last
        try:
            last, _ = closing.following(q, last)
        except ClosureError:
            return np.full(mechanism.nq, np.nan)
        return last

    return closed


def _stamp(message, received):
    """s; when the message was received if it has no stamp."""
    stamp = message.header.stamp
    return stamp.sec + 1e-9 * stamp.nanosec or 1e-9 * received


def _packed(rows, told):
    columns = zip(*rows, strict=True)
    return {kind: np.array(column) for kind, column in zip(("q", *told, "time"), columns, strict=True)}
