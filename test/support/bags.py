"""Recordings in the format of every ROS 2 distribution since Dashing, by rosbags or, for old formats, by hand."""

import sqlite3

import numpy as np
import pytest
import yaml

try:
    import lz4.frame
except ImportError:  # of rosbags
    lz4 = None

JOINT_STATE = "sensor_msgs/msg/JointState"
PERIOD = 1_000_000  # ns

TOPICS = {  # columns of the table of topics, by the version of the schema
    1: "id INTEGER PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL, serialization_format TEXT NOT NULL",
}
TOPICS[2] = TOPICS[3] = TOPICS[1] + ", offered_qos_profiles TEXT NOT NULL"
MESSAGES = (
    "CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER NOT NULL, timestamp INTEGER NOT NULL, "
    "data BLOB NOT NULL); CREATE INDEX timestamp_idx ON messages (timestamp ASC);"
)
QOS = """- history: 3
  depth: 0
  reliability: 1
  durability: 2
  deadline: {sec: 2147483647, nsec: 4294967295}
  lifespan: {sec: 2147483647, nsec: 4294967295}
  liveliness: 1
  liveliness_lease_duration: {sec: 2147483647, nsec: 4294967295}
  avoid_ros_namespace_conventions: false"""


def typestore():
    typesys = pytest.importorskip("rosbags.typesys", reason="bags: pip install rosbags")
    return typesys.get_typestore(typesys.Stores.ROS2_JAZZY)


def joint_state(store, names, position, velocity, effort, stamp):
    """A JointState with a stamp in ns."""
    types = store.types
    time = types["builtin_interfaces/msg/Time"](stamp // 10**9, stamp % 10**9)
    arrays = (np.array(a, dtype=float) for a in (position, velocity, effort))
    return types[JOINT_STATE](types["std_msgs/msg/Header"](time, ""), list(names), *arrays)


def serialized(store, messages, stamps=None, first=0):
    """(topic, received, CDR) of messages (topic, names, position, velocity, effort), one per millisecond.

    first: milliseconds before the first one; stamps (ns): by default 5 s after reception.
    """
    for k, (topic, *content) in enumerate(messages, first):
        stamp = 5 * 10**9 + PERIOD * k if stamps is None else int(stamps[k - first])
        message = joint_state(store, *content, stamp)
        yield topic, PERIOD * k, bytes(store.serialize_cdr(message, JOINT_STATE))


def write_bag(
    path, messages, stamps=None, *, version=8, plugin="SQLITE3", compression=None, chunks="zstd", first=0
):
    """A folder as written by Jazzy; messages: see `serialized`; compression: None, FILE, MESSAGE or STORAGE, of mcap
    chunks by zstd or lz4."""
    rosbag2 = pytest.importorskip("rosbags.rosbag2", reason="bags: pip install rosbags")
    store = typestore()
    writer = rosbag2.Writer(path, version=version, storage_plugin=rosbag2.StoragePlugin[plugin])
    if compression:
        writer.set_compression(rosbag2.CompressionMode[compression], rosbag2.CompressionFormat.ZSTD)
    with writer:
        if chunks == "lz4":
            writer.storage.compression, writer.storage.compressor = "lz4", lz4.frame.compress
        connections = {}
        for topic, received, data in serialized(store, messages, stamps, first):
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, JOINT_STATE, typestore=store)
            writer.write(connections[topic], received, data)


def write_split_bag(path, parts, **choices):
    """A folder with one file per part (a list of messages), as written by a recorder with a size limit."""
    path.mkdir()
    about, count = {}, 0
    for k, messages in enumerate(parts):
        own = path.parent / f"{path.name}_part{k}"
        write_bag(own, messages, first=count, **choices)
        about = yaml.safe_load((own / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
        (name,) = about["relative_file_paths"]
        (own / name).rename(path / name.replace(f"_part{k}", f"_{k}"))
        count += about["message_count"]
    names = [name.replace(f"_part{k}", f"_{j}") for j in range(len(parts))]
    about |= {"relative_file_paths": names, "message_count": count}
    about["topics_with_message_count"][0]["message_count"] = count
    if "files" in about:
        about["files"] = [about["files"][0] | {"path": name} for name in names]
    (path / "metadata.yaml").write_text(yaml.safe_dump({"rosbag2_bagfile_information": about}))


def write_old_bag(path, messages, schema, version, splits=1):
    """A folder with sqlite3 files as written by Dashing (schema 1), Foxy and Galactic (2) and Humble (3), without
    message definitions. version: of metadata.yaml; None: without that file."""
    path.mkdir()
    rows = list(serialized(typestore(), messages))
    names = [f"{path.name}_{k}.db3" for k in range(splits)]
    for k, name in enumerate(names):
        _write_database(path / name, rows[k * len(rows) // splits : (k + 1) * len(rows) // splits], schema)
    if version is not None:
        (path / "metadata.yaml").write_text(_metadata(rows, names, version))


def _write_database(path, rows, schema):
    topics = sorted({topic for topic, _, _ in rows})
    with sqlite3.connect(path) as database:
        if schema >= 3:
            database.executescript(
                "CREATE TABLE schema(schema_version INTEGER PRIMARY KEY, ros_distro TEXT NOT NULL);"
                "CREATE TABLE metadata(id INTEGER PRIMARY KEY, metadata_version INTEGER NOT NULL, "
                f"metadata TEXT NOT NULL); INSERT INTO schema VALUES ({schema}, 'humble');"
            )
        database.executescript(f"CREATE TABLE topics({TOPICS[schema]});" + MESSAGES)
        for k, topic in enumerate(topics, 1):
            values = [k, topic, JOINT_STATE, "cdr", *([QOS] if schema >= 2 else [])]
            database.execute(f"INSERT INTO topics VALUES ({','.join('?' * len(values))})", values)
        database.executemany(
            "INSERT INTO messages(topic_id, timestamp, data) VALUES (?, ?, ?)",
            [(1 + topics.index(topic), received, data) for topic, received, data in rows],
        )
    database.close()


def _metadata(rows, names, version):
    """metadata.yaml of one of the versions 1 to 5."""
    topics = []
    for name in sorted({topic for topic, _, _ in rows}):
        about = {"name": name, "type": JOINT_STATE, "serialization_format": "cdr"}
        if version >= 4:
            about["offered_qos_profiles"] = QOS
        count = sum(topic == name for topic, _, _ in rows)
        topics.append({"topic_metadata": about, "message_count": count})
    content = {
        "version": version,
        "storage_identifier": "sqlite3",
        "relative_file_paths": names,
        "duration": {"nanoseconds": rows[-1][1] - rows[0][1]},
        "starting_time": {"nanoseconds_since_epoch": rows[0][1]},
        "message_count": len(rows),
        "topics_with_message_count": topics,
    }
    if version >= 3:
        content |= {"compression_format": "", "compression_mode": ""}
    return yaml.safe_dump({"rosbag2_bagfile_information": content})
