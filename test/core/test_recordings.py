"""Recordings of every format since Dashing are read; errors name the file."""

import contextlib
import shutil
import sqlite3
from itertools import pairwise

import numpy as np
import pytest
import yaml
from bags import JOINT_STATE, PERIOD, write_bag, write_old_bag, write_split_bag
from robots import PANDA_JOINTS, ROBOTS, random_states
from state_tables import columns_of, save_columns
from two_links import ARM

import dynamics_node as dn
from dynamics_node.cli import main
from dynamics_node.errors import TableError
from dynamics_node.io import open_table

ROWS = 60


@pytest.fixture(scope="module")
def panda():
    return ROBOTS["panda7"].model()


@pytest.fixture(scope="module")
def states(panda):
    q, qd, tau, _ = random_states(panda, ROWS, seed=71)
    return q, qd, tau


@pytest.fixture
def messages(states):
    return [("/joint_states", PANDA_JOINTS, *row) for row in zip(*states, strict=True)]


def read(path, model, problem="inverse", **choices):
    """{kind: array} of a whole table."""
    table = open_table(path, model, getattr(dn, f"{problem}_dynamics")(model), chunk=25, **choices)
    chunks = list(table.chunks())
    return {kind: np.concatenate([chunk[kind] for chunk in chunks]) for kind in chunks[0]}


def check(path, model, states):
    table = read(path, model, "forward")
    assert all(np.array_equal(table[k], s) for k, s in zip(("q", "qd", "tau"), states, strict=True))
    assert np.allclose(table["time"], 5 + 1e-3 * np.arange(ROWS), atol=1e-9, rtol=0)


@pytest.mark.parametrize(
    ("schema", "version"),
    [(1, 1), (1, 2), (2, 3), (2, 4), (3, 5), (1, None), (2, None), (3, None)],
    ids=lambda x: f"{x}",
)
@pytest.mark.parametrize("splits", [1, 12])
def test_bags_without_definitions(tmp_path, panda, states, messages, schema, version, splits):
    """Bags of Dashing to Humble, also split into files, and without metadata.yaml after a crash."""
    write_old_bag(tmp_path / "bag", messages, schema, version, splits)
    check(tmp_path / "bag", panda, states)


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("plugin", ["SQLITE3", "MCAP"])
@pytest.mark.parametrize("compression", [None, "MESSAGE", "FILE"])
@pytest.mark.parametrize("ends", [(0, ROWS), (0, 20, 21, ROWS)])
def test_current_bags(tmp_path, panda, states, messages, version, plugin, compression, ends):
    """In one file, and split."""
    parts = [messages[start:stop] for start, stop in pairwise(ends)]
    write_split_bag(tmp_path / "bag", parts, version=version, plugin=plugin, compression=compression)
    assert len(list((tmp_path / "bag").iterdir())) == len(parts) + 1
    check(tmp_path / "bag", panda, states)
    check(tmp_path / "bag" / "metadata.yaml", panda, states)


@pytest.mark.parametrize("chunks", ["zstd", "lz4"])
def test_chunks_of_mcap(tmp_path, panda, states, messages, chunks):
    """The storage presets of `ros2 bag record` write these."""
    write_bag(tmp_path / "bag", messages, plugin="MCAP", compression="STORAGE", chunks=chunks)
    (file,) = (tmp_path / "bag").glob("*.mcap")
    assert chunks.encode() in file.read_bytes()
    for path in (tmp_path / "bag", file):
        check(path, panda, states)


@pytest.mark.parametrize("plugin", ["SQLITE3", "MCAP"])
@pytest.mark.parametrize("version", [6, 7])
def test_metadata_of_iron(tmp_path, panda, states, messages, plugin, version):
    """Versions between Humble's and Jazzy's: without the distribution, and in version 6 without type hashes."""
    write_bag(tmp_path / "bag", messages, plugin=plugin)
    path = tmp_path / "bag" / "metadata.yaml"
    about = yaml.safe_load(path.read_text())["rosbag2_bagfile_information"]
    about["version"] = version
    about.pop("ros_distro", None)
    for topic in about["topics_with_message_count"]:
        if version == 6:
            topic["topic_metadata"].pop("type_description_hash", None)
    path.write_text(yaml.safe_dump({"rosbag2_bagfile_information": about}))
    check(tmp_path / "bag", panda, states)


@pytest.mark.parametrize("plugin", ["SQLITE3", "MCAP"])
def test_bare_files_and_folders_without_metadata(tmp_path, panda, states, messages, plugin):
    write_bag(tmp_path / "bag", messages, plugin=plugin)
    (tmp_path / "bag" / "metadata.yaml").unlink()
    (file,) = (tmp_path / "bag").iterdir()
    check(tmp_path / "bag", panda, states)
    check(file, panda, states)


def test_bare_file_of_humble(tmp_path, panda, states, messages):
    write_old_bag(tmp_path / "bag", messages, 3, None)
    check(tmp_path / "bag" / "bag_0.db3", panda, states)


def test_invalid_definitions_of_other_topics_are_ignored(tmp_path, panda, states, messages):
    """Unparsable definitions and definitions with another hash are ignored."""
    write_bag(tmp_path / "bag", messages)
    with sqlite3.connect(tmp_path / "bag" / "bag.db3") as database:
        for name in ("odd_msgs/msg/Odd", "sensor_msgs/msg/Imu"):
            definition = (name, "ros2msg", "strange{", "RIHS01_00")
            database.execute(
                "INSERT INTO message_definitions(topic_type, encoding, encoded_message_definition, "
                "type_description_hash) VALUES (?, ?, ?, ?)",
                definition,
            )
            database.execute(
                "INSERT INTO topics(name, type, serialization_format, offered_qos_profiles, type_description_hash)"
                " VALUES (?, ?, 'cdr', '', 'RIHS01_00')",
                ("/odd", name),
            )
    database.close()
    (tmp_path / "bag" / "metadata.yaml").unlink()
    check(tmp_path / "bag", panda, states)


# --- invalid recordings -------------------------------------------------------------------------------------


def empty_folder(folder, messages):
    folder.mkdir()


def two_recordings(folder, messages):
    for name in ("monday", "tuesday"):
        write_old_bag(folder.parent / name, messages, 2, None)
    folder.mkdir()
    for name in ("monday", "tuesday"):
        shutil.copy(folder.parent / name / f"{name}_0.db3", folder)


def broken_metadata(folder, messages):
    write_old_bag(folder, messages, 2, 4)
    (folder / "metadata.yaml").write_text("")


def missing_part(folder, messages):
    write_old_bag(folder, messages, 2, 4, splits=3)
    (folder / "bag_1.db3").unlink()


def missing_compressed_part(folder, messages):
    write_split_bag(folder, [messages[:20], messages[20:]], plugin="MCAP", compression="FILE")
    (folder / "bag_1.mcap.zstd").unlink()


def empty_database(folder, messages):
    folder.mkdir()
    (folder / "bag_0.db3").touch()


def cut_mcap(folder, messages):
    write_bag(folder, messages, plugin="MCAP")
    (folder / "metadata.yaml").unlink()
    file = folder / "bag.mcap"
    file.write_bytes(file.read_bytes()[:-500])


def open_log(folder, messages):
    write_old_bag(folder, messages, 3, None)
    (folder / "bag_0.db3-wal").write_bytes(b"what came last")


def compressed_alone(folder, messages):
    write_bag(folder, messages, compression="FILE")
    (folder / "metadata.yaml").unlink()


def no_messages(folder, messages):
    write_old_bag(folder, messages, 2, 4)
    with sqlite3.connect(folder / "bag_0.db3") as database:
        database.execute("DELETE FROM messages")
    database.close()


def garbage_messages(folder, messages):
    write_old_bag(folder, messages, 2, None)
    with sqlite3.connect(folder / "bag_0.db3") as database:
        database.execute("UPDATE messages SET data = x'00010000ffffffffff' WHERE id = 30")
    database.close()


def long_message(folder, messages):
    write_old_bag(folder, messages, 2, None)
    with sqlite3.connect(folder / "bag_0.db3") as database:
        database.execute("UPDATE messages SET data = zeroblob(2000000) WHERE id = 30")
    database.close()


def damaged_pages(folder, messages):
    write_old_bag(folder, messages, 2, None)
    file = folder / "bag_0.db3"
    data = bytearray(file.read_bytes())
    data[len(data) // 2 :] = b"\xff" * (len(data) - len(data) // 2)
    file.write_bytes(data)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (empty_folder, "contains no metadata.yaml, .db3 or .mcap file"),
        (two_recordings, "contains several recordings: monday_0.db3, tuesday_0.db3: name one"),
        (broken_metadata, "metadata.yaml.*name the .db3 or .mcap file"),
        (missing_part, "bag_1.db3"),
        (missing_compressed_part, "metadata.yaml.*bag_1.mcap.zstd"),
        (empty_database, "cannot be read as a recording"),
        (cut_mcap, "mcap recover"),
        (open_log, "bag_0.db3-wal.*wal_checkpoint"),
        (compressed_alone, "unzstd"),
        (no_messages, "no message on /joint_states"),
        (garbage_messages, "message 30 on /joint_states is no JointState"),
        (long_message, "a JointState on /joint_states has 2000000 bytes, more than 1048576"),
        (damaged_pages, "cannot be read"),
    ],
)
def test_invalid_recordings_raise_errors(tmp_path, panda, messages, make, words):
    make(tmp_path / "bag", messages)
    with pytest.raises(TableError, match=words) as raised:
        read(tmp_path / "bag", panda)
    assert "bag" in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("log.txt", "nothing", "neither a table .* nor a recording"),
        ("log.bag", "nothing", "cannot be read as a recording"),
        ("log.mcap", "", "seems to be empty"),
        ("log.db3", "nothing", "cannot be read as a recording"),
        ("log.npz", "", "not an .npz file of numbers"),
    ],
)
def test_other_files_raise_errors(tmp_path, panda, name, content, words):
    (tmp_path / name).write_text(content)
    with pytest.raises(TableError, match=words):
        read(tmp_path / name, panda)


ENDLESS = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT"
COLUMNS = "id INTEGER, name TEXT, type TEXT, serialization_format TEXT"
TABLE_OF_MESSAGES = "CREATE TABLE messages(id INTEGER, topic_id INTEGER, timestamp INTEGER, data BLOB);"
TOPIC = f"INSERT INTO topics VALUES (1, '/joint_states', '{JOINT_STATE}', 'cdr');"
HOSTILE = {
    "endless topics": f"CREATE VIEW topics AS {ENDLESS} i AS id, '/j' AS name, '{JOINT_STATE}' AS type FROM r;"
    + TABLE_OF_MESSAGES,
    "endless messages": f"CREATE TABLE topics({COLUMNS}); {TOPIC} CREATE VIEW messages AS {ENDLESS} i AS id, "
    "1 AS topic_id, i AS timestamp, zeroblob(100) AS data FROM r;",
    "endless schema": f"CREATE TABLE topics({COLUMNS}); {TOPIC} {TABLE_OF_MESSAGES} CREATE VIEW schema AS "
    f"{ENDLESS} i AS schema_version FROM r WHERE i < 0;",
    "endless definitions": f"CREATE TABLE topics({COLUMNS}); {TOPIC} {TABLE_OF_MESSAGES} CREATE TABLE "
    f"schema(schema_version INTEGER); INSERT INTO schema VALUES (4); CREATE VIEW message_definitions AS {ENDLESS} "
    "i AS id, 'x' AS topic_type, 'ros2msg' AS encoding, '' AS encoded_message_definition, '' AS "
    "type_description_hash FROM r;",
    "gigabytes": f"CREATE TABLE topics({COLUMNS}); {TOPIC} CREATE TABLE messages(id INTEGER, topic_id INTEGER, "
    "timestamp INTEGER, data BLOB AS (zeroblob(900000000))); INSERT INTO messages VALUES (1, 1, 1);",
    "many pairs": f"CREATE TABLE topics({COLUMNS}); {TABLE_OF_MESSAGES}"
    + 3000 * TOPIC
    + 3000 * "INSERT INTO messages VALUES (1, 1, 1, x'00');",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_database_of_endless_or_costly_rows_is_no_recording(kind, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("dynamics_node.io.bags.STEPS", (100_000, 100))
    path, robot = tmp_path / "hostile.db3", tmp_path / "arm.urdf"
    robot.write_text(ARM)
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.executescript(f"BEGIN; {HOSTILE[kind]} COMMIT;")
    assert main(["evaluate", str(robot), str(path), "-o", str(tmp_path / "out.npz")]) == 3
    error = capsys.readouterr().err.splitlines()[-1]
    expected = (
        "steps"
        if kind == "many pairs"
        else "computes column 'data'"
        if kind == "gigabytes"
        else "in place of a table"
    )
    assert "hostile.db3" in error and expected in error and set(tmp_path.iterdir()) == {path, robot}


def test_ambiguous_topics_are_listed(tmp_path, panda, states, messages):
    other = [("/tcp", *rest) for _, *rest in messages[:3]]
    write_bag(tmp_path / "bag", messages + other)
    with pytest.raises(TableError, match=r"choose one with --topic: /joint_states \(60 messages\), /tcp \(3"):
        read(tmp_path / "bag", panda)
    with pytest.raises(TableError, match=r"no topic /typo.*/joint_states \(60 messages\), /tcp \(3"):
        read(tmp_path / "bag", panda, topic="/typo")
    table = read(tmp_path / "bag", panda, topic="/joint_states")
    assert np.array_equal(table["q"], states[0])


# --- missing velocities -------------------------------------------------------------------------------------


def test_missing_velocities_are_named(tmp_path, panda, states):
    q, qd, _ = states
    write_bag(tmp_path / "none", [("/j", PANDA_JOINTS, row, [], []) for row in q])
    with pytest.raises(TableError, match="no velocities of panda_joint1, .*: --differentiate .* --zero-vel"):
        read(tmp_path / "none", panda)
    assert not read(tmp_path / "none", panda, zero_velocity=True)["qd"].any()
    mixed = [("/j", PANDA_JOINTS[:5], q[k, :5], qd[k, :5], []) for k in range(10)]
    mixed += [("/j", PANDA_JOINTS[5:], q[k, 5:], [0.5, np.nan], []) for k in range(10)]
    write_bag(tmp_path / "some", mixed)
    with pytest.raises(TableError, match="no velocities of panda_joint7: "):
        read(tmp_path / "some", panda)
    table = read(tmp_path / "some", panda, zero_velocity=True)
    assert np.array_equal(table["qd"][-1], [*qd[9, :5], 0.5, 0])


def test_leading_nan_velocities_are_skipped(tmp_path, panda, states):
    """Leading NaN velocities, as from a starting joint_state_broadcaster, are skipped; later ones stay NaN."""
    q, qd, _ = states
    rows = [
        ("/j", PANDA_JOINTS, q[k], np.full(7, np.nan) if k in (0, 1, 5) else qd[k], []) for k in range(10)
    ]
    write_bag(tmp_path / "bag", rows)
    table = read(tmp_path / "bag", panda)
    assert np.array_equal(table["q"], q[2:10]) and np.isnan(table["qd"][3]).all()
    assert np.isfinite(table["qd"][[0, 1, 2, 4]]).all()


# --- other names --------------------------------------------------------------------------------------------


def test_joints_with_another_prefix(tmp_path, panda, states):
    theirs = [name.replace("panda", "fer") for name in PANDA_JOINTS]
    rows = [("/j", [*theirs, "wheel"], [*q, 1], [*qd, 1], [*u, 1]) for q, qd, u in zip(*states, strict=True)]
    write_bag(tmp_path / "bag", rows)
    words = (
        "a position of panda_joint1, .*panda_joint7, but of fer_joint1.*: --joints-map 'fer_\\*=panda_\\*'"
    )
    with pytest.raises(TableError, match=words):
        read(tmp_path / "bag", panda)
    for joints_map in ({"fer_*": "panda_*"}, dict(zip(theirs, PANDA_JOINTS, strict=True))):
        assert np.array_equal(read(tmp_path / "bag", panda, joints_map=joints_map)["q"], states[0])
    with pytest.raises(TableError, match="'wheel' and 'fer_joint1' both|'fer_joint1' and 'wheel'"):
        read(tmp_path / "bag", panda, joints_map={"fer_*": "panda_*", "wheel": "panda_joint1"})
    with pytest.raises(TableError, match="needs one star on both sides"):
        read(tmp_path / "bag", panda, joints_map={"fer_*": "panda_"})


def test_joints_without_a_likely_name(tmp_path, panda):
    write_bag(tmp_path / "bag", [("/j", ["shoulder", "elbow"], [0, 0], [], [])])
    with pytest.raises(TableError, match="but of elbow, shoulder: .*--joints-map THEIRS=OURS"):
        read(tmp_path / "bag", panda)


def test_columns_with_another_prefix(tmp_path, panda, states):
    theirs = [name.replace("panda", "fer") for name in PANDA_JOINTS]
    save_columns(tmp_path / "in.csv", columns_of({"q": states[0], "qd": states[1]}, theirs))
    with pytest.raises(TableError, match="--joints-map 'fer_\\*=panda_\\*'"):
        read(tmp_path / "in.csv", panda)
    table = read(tmp_path / "in.csv", panda, joints_map={"fer_*": "panda_*"})
    assert np.array_equal(table["q"], states[0]) and np.array_equal(table["qd"], states[1])


# --- derivatives --------------------------------------------------------------------------------------------


def test_bag_of_ros_1(tmp_path, panda, states, messages):
    rosbag1 = pytest.importorskip("rosbags.rosbag1", reason="bags: pip install rosbags")
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS1_NOETIC)
    types = store.types
    with rosbag1.Writer(tmp_path / "log.bag") as writer:
        connection = writer.add_connection("/joint_states", JOINT_STATE, typestore=store)
        for k, (_, names, *arrays) in enumerate(messages):
            time = types["builtin_interfaces/msg/Time"](5, PERIOD * k)
            header = types["std_msgs/msg/Header"](k, time, "")
            message = types[JOINT_STATE](header, list(names), *arrays)
            writer.write(connection, PERIOD * k, store.serialize_ros1(message, JOINT_STATE))
    check(tmp_path / "log.bag", panda, states)


def test_tables_are_differentiated_too(tmp_path, panda):
    time = np.arange(0, 2, 0.002)
    q = np.sin(time)[:, None] * np.arange(1, 8)
    np.savez(tmp_path / "in.npz", q=q, time=time)
    table = read(tmp_path / "in.npz", panda, cutoff=10.0)
    keep = np.isfinite(table["qdd"]).all(axis=1)
    assert keep.sum() == len(time) - 150 and np.abs(table["qdd"] + q)[keep].max() < 0.0125 * 7
    np.savez(tmp_path / "no_time.npz", q=q)
    with pytest.raises(TableError, match="no_time.npz has no time for differentiation"):
        read(tmp_path / "no_time.npz", panda, cutoff=10.0)
    with pytest.raises(TableError, match="choose --zero-velocity or --differentiate"):
        read(tmp_path / "in.npz", panda, cutoff=10.0, zero_velocity=True)
    for cutoff in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(TableError, match="--cutoff must be a positive number"):
            read(tmp_path / "in.npz", panda, cutoff=cutoff)


def test_floating_base_needs_its_twist(tmp_path):
    model = ROBOTS["solo12"].model()
    time = np.arange(0, 2, 0.002)
    q = np.tile(model.neutral(), (len(time), 1))
    qd = np.sin(time)[:, None] * np.ones(model.nv)
    np.savez(tmp_path / "in.npz", q=q, qd=qd, time=time)
    qdd = read(tmp_path / "in.npz", model, cutoff=10.0)["qdd"]
    keep = np.isfinite(qdd).all(axis=1)
    assert keep.any() and np.abs(qdd - np.cos(time)[:, None])[keep].max() < 0.01
    np.savez(tmp_path / "in.npz", q=q, time=time)
    with pytest.raises(TableError, match="a floating base cannot be differentiated from its pose"):
        read(tmp_path / "in.npz", model, cutoff=10.0)
