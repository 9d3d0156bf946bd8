"""Recordings of ROS 1 and ROS 2 -> their JointStates, read through `rosbags`: no ROS needed.

Every rosbag2 format since Foxy: sqlite3 and mcap, with definitions of messages inside or not, split,
compressed by file or by message, a file alone, a folder whose metadata.yaml was never written. A JointState
has been the same in all of them, so what a recording says about other types is not looked at.
"""

import contextlib
import heapq
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path, PurePath

import yaml

from dynamics_node.io.names import TableError, require

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
        parts = _listed(path)
    else:
        parts = _found(path)
    for part in parts:
        _check_part(part)
    return parts


def _listed(folder):
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
        listed = ", ".join(p.name for p in files[:12])
        raise TableError(f"{folder} holds several recordings: {listed}: name one")
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
