"""Recordings as current recorders split and compress them, and identification from several formats."""

import contextlib
import sqlite3

import numpy as np
import pytest
import yaml
from bags import JOINT_STATE, write_bag, write_split_bag
from identified import Truth
from two_links import ARM, NAMES

import dynamics_node as dn
from dynamics_node.algorithms import smooth_friction
from dynamics_node.cli import main
from dynamics_node.errors import TableError
from dynamics_node.identification import RegressorModel
from dynamics_node.io import open_table
from dynamics_node.robot import load_robot

ROWS = 60
TOPIC = "/joint_states"


@pytest.fixture(scope="module")
def states():
    """q, qd, tau of a few rows."""
    return np.random.default_rng(1).normal(size=(3, ROWS, 2))


@pytest.fixture
def messages(states):
    return [(TOPIC, NAMES, *row) for row in zip(*states, strict=True)]


def check(path, states):
    model = dn.parse_robot(ARM)
    table = open_table(path, model, dn.forward_dynamics(model), chunk=25)
    chunks = list(table.chunks())
    for kind, own in zip(("q", "qd", "tau"), states, strict=True):
        assert np.array_equal(np.concatenate([chunk[kind] for chunk in chunks]), own)


@pytest.mark.parametrize("chunks", ["zstd", "lz4"])
def test_chunks_of_mcap(tmp_path, states, messages, chunks):
    """The storage presets of `ros2 bag record` write these."""
    write_bag(tmp_path / "bag", messages, plugin="MCAP", compression="STORAGE", chunks=chunks)
    (file,) = (tmp_path / "bag").glob("*.mcap")
    assert chunks.encode() in file.read_bytes()
    for path in (tmp_path / "bag", file):
        check(path, states)


@pytest.mark.parametrize("plugin", ["SQLITE3", "MCAP"])
@pytest.mark.parametrize("version", [6, 7])
def test_metadata_of_iron(tmp_path, states, messages, plugin, version):
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
    check(tmp_path / "bag", states)


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("plugin", ["SQLITE3", "MCAP"])
@pytest.mark.parametrize("compression", [None, "MESSAGE", "FILE"])
def test_split_files(tmp_path, states, messages, version, plugin, compression):
    parts = [messages[:20], messages[20:21], messages[21:]]
    options = {"version": version, "plugin": plugin, "compression": compression}
    write_split_bag(tmp_path / "bag", parts, **options)
    assert len(list((tmp_path / "bag").iterdir())) == 4
    check(tmp_path / "bag", states)


def test_missing_compressed_part_raises(tmp_path, messages):
    write_split_bag(tmp_path / "bag", [messages[:20], messages[20:]], plugin="MCAP", compression="FILE")
    (tmp_path / "bag" / "bag_1.mcap.zstd").unlink()
    with pytest.raises(TableError, match=r"metadata.yaml.*bag_1.mcap.zstd"):
        check(tmp_path / "bag", [])


# --- identification -----------------------------------------------------------------------------------------


def recorded_name(name):
    return f"left/{name}"


def as_csv(path, part):
    columns = {"time": part["time"]}
    columns |= {
        f"{kind}.{recorded_name(name)}": part[kind][:, k]
        for kind in ("q", "tau")
        for k, name in enumerate(NAMES)
    }
    np.savetxt(
        path, np.column_stack(list(columns.values())), "%.17g", ",", header=",".join(columns), comments=""
    )


def as_parquet(path, part):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"time": part["time"]}
    columns |= {
        f"{kind}.{recorded_name(name)}": part[kind][:, k]
        for kind in ("q", "tau")
        for k, name in enumerate(NAMES)
    }
    parquet.write_table(pyarrow.table(columns), path)


def as_npz(path, part):
    np.savez(path, **{kind: part[kind] for kind in ("q", "tau", "time")})


def as_bag(path, part, **options):
    names = [recorded_name(name) for name in reversed(NAMES)]
    rows = zip(part["q"][:, ::-1], part["tau"][:, ::-1], strict=True)
    write_bag(path, [(TOPIC, names, q, [], tau) for q, tau in rows], np.round(1e9 * part["time"]), **options)


FORMATS = {
    "run.csv": as_csv,
    "run.parquet": as_parquet,
    "sqlite": as_bag,
    "mcap": lambda path, part: as_bag(path, part, plugin="MCAP", version=9),
    "packed": lambda path, part: as_bag(path, part, plugin="MCAP", compression="MESSAGE"),
}


@pytest.fixture(scope="module")
def parts():
    """Recordings with disjoint spans of time."""
    arm = Truth(dn.parse_robot(ARM))
    return [arm.recording(k, time=np.arange(0.0, 6.0, 0.01) + 100.0 * k) for k in range(len(FORMATS))]


def report_of(folder, files, *options):
    """The report of `dynamics identify`."""
    (folder / "robot.urdf").write_text(ARM)
    out = folder / "out"
    assert main(["identify", str(folder / "robot.urdf"), *map(str, files), "-o", str(out), *options]) == 0
    return yaml.safe_load((out / "report.yaml").read_text())


def test_recordings_of_many_formats_together(tmp_path, parts):
    """The result is that of NumPy tables."""
    files, plain = [], []
    for (name, write), part in zip(FORMATS.items(), parts, strict=True):
        write(tmp_path / name, part)
        as_npz(tmp_path / f"{name}.npz", part)
        files.append(tmp_path / name)
        plain.append(tmp_path / f"{name}.npz")
    report = report_of(tmp_path, files, "--joints-map", "left/*=*")
    expected = report_of(tmp_path, plain)
    assert report["states"] == expected["states"] == 5 * 570
    rows = zip(report["base_parameters"], expected["base_parameters"], strict=True)
    assert all(
        abs(fitted["value"] - reference["value"]) <= 1e-4 * reference["std"] for fitted, reference in rows
    )
    page = (tmp_path / "out" / "report.html").read_text()
    assert all(f"{name}.npz: velocities and accelerations are derivatives" in page for name in FORMATS)


def test_unknown_names_error_suggests_a_map(tmp_path, parts, capsys):
    as_bag(tmp_path / "bag", parts[0])
    (tmp_path / "robot.urdf").write_text(ARM)
    arguments = ["identify", str(tmp_path / "robot.urdf"), str(tmp_path / "bag"), "-o", str(tmp_path / "out")]
    assert main(arguments) == 3
    assert "--joints-map 'left/*=*'" in capsys.readouterr().err
    assert main([*arguments, "--joints-map", "right/*=*"]) == 3
    assert "but of left/joint1, left/joint2" in capsys.readouterr().err


# --- floating bases -----------------------------------------------------------------------------------------

FLYING = ARM.replace(
    '<link name="base"/>',
    '<link name="base"><inertial><origin xyz="0.05 0 0"/><mass value="3"/><inertia ixx="0.2" ixy="0" ixz="0" '
    'iyy="0.3" iyz="0" izz="0.25"/></inertial></link>',
)


class Flight:
    """The arm on a free base, with other bodies than described."""

    def __init__(self):
        self.robot = dn.parse_robot(FLYING, floating_base=True)
        self.linear = RegressorModel(self.robot, backend="numpy")
        self.truth = 1.2 * self.linear.described
        for term in ("viscous", "coulomb", "offset"):
            self.truth[self.linear.places(term)] += 0.3

    def recording(self, seed, count=2000, step=0.005):
        """Twists of sines and the poses that follow. The torques, with the wrench on the base, produce the motion."""
        random = np.random.default_rng(seed)
        time = step * np.arange(count)
        phases = np.multiply.outer(time, random.uniform(1, 7, (5, 8))) + random.uniform(0, 6, (5, 8))
        sizes = random.normal(size=(5, 8))
        qd = (sizes * np.sin(phases)).sum(axis=1)
        q = np.tile(self.robot.neutral(), (count, 1))
        q[:, 7:] = step * np.cumsum(qd[:, 6:], axis=0)
        move = self.robot.independent_joints[0].type.moved
        for k in range(1, count):
            q[k, :7] = move(q[k - 1, :7], 0.5 * step * (qd[k - 1, :6] + qd[k, :6]))
        qdd = np.gradient(qd, step, axis=0, edge_order=2)
        tau = self.linear.matrix(q, qd, qdd) @ self.truth + 0.02 * random.normal(size=qd.shape)
        return {"time": time, "q": q, "qd": qd, "tau": tau, "qdd": qdd}


def columns_of(model, recording, kinds):
    names = {"q": model.q_names, "qd": model.v_names, "tau": model.v_names}
    columns = {"time": recording["time"]}
    return columns | {
        f"{kind}.{n}": recording[kind][:, k] for kind in kinds for k, n in enumerate(names[kind])
    }


def save(path, columns):
    np.savetxt(
        path, np.column_stack(list(columns.values())), "%.17g", ",", header=",".join(columns), comments=""
    )


def test_identification_of_a_floating_base(tmp_path):
    pytest.importorskip("pyarrow", reason="csv: pip install 'dynamics_node[tables]'")
    flight = Flight()
    (tmp_path / "robot.urdf").write_text(FLYING)
    save(tmp_path / "run.csv", columns_of(flight.robot, flight.recording(1), ("q", "qd", "tau")))
    arguments = ["identify", str(tmp_path / "robot.urdf"), str(tmp_path / "run.csv"), "--floating-base"]
    assert main([*arguments, "-o", str(tmp_path / "out")]) == 0
    fitted = load_robot(
        tmp_path / "robot.urdf", parameters_file=tmp_path / "out" / "parameters.yaml", floating_base=True
    )
    unseen = flight.recording(2, 300)
    state = [unseen[kind] for kind in ("q", "qd", "qdd")]
    tau = dn.build(fitted, dn.inverse_dynamics(fitted), backend="numpy")(*state) + fitted.torque_offsets
    tau += smooth_friction(unseen["qd"], fitted.damping, fitted.friction)
    expected = flight.linear.matrix(*state) @ flight.truth
    assert np.all(np.std(tau - expected, axis=0) < 0.01 * np.std(expected, axis=0) + 0.02)
    assert abs(fitted.inertias[:, 5, 5].sum() - 7.2) < 0.01  # the mass of the whole robot


def test_missing_columns_of_a_floating_base_raise(tmp_path, states, messages):
    flight, recording = Flight(), Flight().recording(1, 50)
    write_bag(tmp_path / "bag", messages)
    problem = dn.inverse_dynamics(flight.robot)
    with pytest.raises(TableError) as excinfo:
        open_table(tmp_path / "bag", flight.robot, problem, measured=True, cutoff=10.0)
    for first, last in (("q.floating_base.x", "q.floating_base.qw"), ("qd.floating_base.angular.x", "qd.floating_base.linear.z"),
                        ("tau.floating_base.angular.x", "tau.floating_base.linear.z")):  # fmt: skip
        assert f"{first} ... {last}" in str(excinfo.value)
    np.savez(tmp_path / "run.npz", **{kind: recording[kind] for kind in ("q", "tau", "time")})
    with pytest.raises(TableError, match=r"provide qd.floating_base.angular.x, .* qd.floating_base.linear.z"):
        open_table(tmp_path / "run.npz", flight.robot, problem, measured=True, cutoff=10.0)
    pytest.importorskip("pyarrow", reason="csv: pip install 'dynamics_node[tables]'")
    whole = columns_of(flight.robot, recording, ("q", "qd", "tau"))
    for absent in ("q.floating_base.qw", "tau.floating_base.linear.z"):
        save(tmp_path / "run.csv", {name: column for name, column in whole.items() if name != absent})
        with pytest.raises(TableError, match=f"column '{absent}'"):
            open_table(tmp_path / "run.csv", flight.robot, problem, measured=True, cutoff=10.0)


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
    pytest.importorskip("rosbags", reason="bags: pip install rosbags")
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
