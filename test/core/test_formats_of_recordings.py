"""Recordings as recorders of today split and compress them, and identification from several formats together."""

import numpy as np
import pytest
import yaml
from bags import write_bag, write_split_bag
from identified import Truth
from two_links import ARM, NAMES

import dynamics_node as dn
from dynamics_node.cli import main
from dynamics_node.tables import TableError, open_table

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
    model = dn.parse_model(ARM)
    table = open_table(path, model, dn.forward_dynamics(model), chunk=25)
    chunks = list(table.chunks())
    for kind, own in zip(("q", "qd", "tau"), states, strict=True):
        assert np.array_equal(np.concatenate([chunk[kind] for chunk in chunks]), own)


@pytest.mark.parametrize("chunks", ["zstd", "lz4"])
def test_chunks_of_mcap(tmp_path, states, messages, chunks):
    """As presets of `ros2 bag record` for less storage write them."""
    write_bag(tmp_path / "bag", messages, plugin="MCAP", compression="STORAGE", chunks=chunks)
    (file,) = (tmp_path / "bag").glob("*.mcap")
    assert chunks.encode() in file.read_bytes()
    for path in (tmp_path / "bag", file):
        check(path, states)


@pytest.mark.parametrize("plugin", ["SQLITE3", "MCAP"])
@pytest.mark.parametrize("version", [6, 7])
def test_metadata_of_iron(tmp_path, states, messages, plugin, version):
    """Between Humble's and Jazzy's: without the distribution, at first without hashes of types."""
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
    with_stamps = {"version": version, "plugin": plugin, "compression": compression}
    write_split_bag(tmp_path / "bag", parts, **with_stamps)
    assert len(list((tmp_path / "bag").iterdir())) == 4
    check(tmp_path / "bag", states)


def test_a_part_that_is_compressed_and_missing(tmp_path, messages):
    write_split_bag(tmp_path / "bag", [messages[:20], messages[20:]], plugin="MCAP", compression="FILE")
    (tmp_path / "bag" / "bag_1.mcap.zstd").unlink()
    with pytest.raises(TableError, match=r"metadata.yaml lists bag_1.mcap.zstd, which the folder has not"):
        check(tmp_path / "bag", [])


# --- identification -----------------------------------------------------------------------------------------


def theirs(name):
    return f"left/{name}"


def as_csv(path, part):
    columns = {"time": part["time"]}
    columns |= {
        f"{kind}.{theirs(name)}": part[kind][:, k] for kind in ("q", "tau") for k, name in enumerate(NAMES)
    }
    np.savetxt(
        path, np.column_stack(list(columns.values())), "%.17g", ",", header=",".join(columns), comments=""
    )


def as_parquet(path, part):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"time": part["time"]}
    columns |= {
        f"{kind}.{theirs(name)}": part[kind][:, k] for kind in ("q", "tau") for k, name in enumerate(NAMES)
    }
    parquet.write_table(pyarrow.table(columns), path)


def as_npz(path, part):
    np.savez(path, **{kind: part[kind] for kind in ("q", "tau", "time")})


def as_bag(path, part, **choices):
    names = [theirs(name) for name in reversed(NAMES)]
    rows = zip(part["q"][:, ::-1], part["tau"][:, ::-1], strict=True)
    write_bag(path, [(TOPIC, names, q, [], tau) for q, tau in rows], np.round(1e9 * part["time"]), **choices)


FORMATS = {
    "run.csv": as_csv,
    "run.parquet": as_parquet,
    "sqlite": as_bag,
    "mcap": lambda path, part: as_bag(path, part, plugin="MCAP", version=9),
    "packed": lambda path, part: as_bag(path, part, plugin="MCAP", compression="MESSAGE"),
}


@pytest.fixture(scope="module")
def parts():
    """Recordings of a time each."""
    arm = Truth(dn.parse_model(ARM))
    return [arm.recording(k, time=np.arange(0.0, 6.0, 0.01) + 100.0 * k) for k in range(len(FORMATS))]


def identified(folder, files, *options):
    """The report of `dynamics identify`."""
    (folder / "robot.urdf").write_text(ARM)
    out = folder / "out"
    assert main(["identify", str(folder / "robot.urdf"), *map(str, files), "-o", str(out), *options]) == 0
    return yaml.safe_load((out / "report.yaml").read_text())


def test_recordings_of_many_formats_together(tmp_path, parts):
    """What they tell is what tables of NumPy tell."""
    files, plain = [], []
    for (name, write), part in zip(FORMATS.items(), parts, strict=True):
        write(tmp_path / name, part)
        as_npz(tmp_path / f"{name}.npz", part)
        files.append(tmp_path / name)
        plain.append(tmp_path / f"{name}.npz")
    found = identified(tmp_path, files, "--joints-map", "left/*=*")
    right = identified(tmp_path, plain)
    assert found["states"] == right["states"] == 5 * 570
    rows = zip(found["base_parameters"], right["base_parameters"], strict=True)
    assert all(abs(one["value"] - other["value"]) <= 1e-4 * other["std"] for one, other in rows)
    page = (tmp_path / "out" / "report.html").read_text()
    assert all(f"{name}.npz: velocities and accelerations are derivatives" in page for name in FORMATS)


def test_names_that_nobody_has_are_told_with_a_map(tmp_path, parts, capsys):
    as_bag(tmp_path / "bag", parts[0])
    (tmp_path / "robot.urdf").write_text(ARM)
    arguments = ["identify", str(tmp_path / "robot.urdf"), str(tmp_path / "bag"), "-o", str(tmp_path / "out")]
    assert main(arguments) == 1
    assert "--joints-map 'left/*=*'" in capsys.readouterr().err
    assert main([*arguments, "--joints-map", "right/*=*"]) == 1
    assert "but of left/joint1, left/joint2" in capsys.readouterr().err
