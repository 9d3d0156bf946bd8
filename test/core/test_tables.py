"""Tables of states from every kind of file: the same results as one call, in bounded memory."""

import tracemalloc
import zipfile

import numpy as np
import pytest
from bags import write_bag
from commands import exit_code
from robots import PANDA, ROBOTS, data_folder, random_states
from state_tables import columns_of, load_zarr, save_columns, save_zarr
from tolerances import error

import dynamics_node as dn
from dynamics_demo.oracles import DRIVEN, PASSIVE, FiveBarOracle
from dynamics_demo.robots import UPRIGHT, five_bar
from dynamics_node.cli import main
from dynamics_node.errors import TableError
from dynamics_node.io import evaluate, open_table, table_writer

pytest.importorskip("pyarrow", reason="tables: pip install pyarrow")
csv = pytest.importorskip("pyarrow.csv")
parquet = pytest.importorskip("pyarrow.parquet")

ROWS = 1000
SEVEN = ",".join(f"q.panda_joint{k}" for k in range(1, 8))
AGREEMENT = 1e-13  # chunks may use vector code, rows scalar code


@pytest.fixture(scope="module")
def panda():
    return ROBOTS["panda7"].model()


def states(model, rows=ROWS):
    q, qd, u, _ = random_states(model, rows, seed=61)
    return {"q": q, "qd": qd, "qdd": u, "tau": u, "time": np.linspace(0, 1, rows)}


def save(path, model, arrays):
    if path.suffix == ".npz":
        np.savez(path, **arrays)
    elif path.suffix == ".zarr":
        save_zarr(path, arrays)
    else:
        save_columns(path, columns_of(arrays, model.v_names, model.q_names))


def load(path, kind, model):
    if path.suffix == ".npz":
        return np.load(path)[kind], np.load(path)["time"]
    if path.suffix == ".zarr":
        return tuple(load_zarr(path)[name] for name in (kind, "time"))
    table = parquet.read_table(path) if path.suffix == ".parquet" else csv.read_csv(path)
    assert table.column_names == ["time", *(f"{kind}.{n}" for n in model.v_names)]
    columns = [table[name].to_numpy() for name in table.column_names]
    return np.stack(columns[1:], axis=1), columns[0]


@pytest.mark.parametrize("name", ["panda7", "solo12"])
@pytest.mark.parametrize(
    ("source", "target"),
    [(".npz", ".csv"), (".csv", ".parquet"), (".parquet", ".npz"), (".zarr", ".zarr")],
)
@pytest.mark.parametrize("kind", ["inverse", "forward"])
def test_table_is_evaluated(tmp_path, name, source, target, kind):
    model, arrays = ROBOTS[name].model(), states(ROBOTS[name].model())
    problem = getattr(dn, f"{kind}_dynamics")(model)
    solver = dn.build(model, problem)
    expected = solver(arrays["q"], arrays["qd"], arrays["qdd"])
    arrays["q"][[7, 300]] = np.nan
    save(tmp_path / f"in{source}", model, arrays)
    table = open_table(tmp_path / f"in{source}", model, problem, chunk=128)
    result, progress = {"inverse": "tau", "forward": "qdd"}[kind], []
    with table_writer(tmp_path / f"out{target}", model, result, table.timed) as write:
        summary = evaluate(solver, table, write, progress.append)
    results, time = load(tmp_path / f"out{target}", result, model)
    bad = np.isin(np.arange(ROWS), [7, 300])
    assert summary == (ROWS, 2, 7) and sum(progress) == ROWS and np.allclose(time, arrays["time"])
    assert np.isnan(results[bad]).all() and error(results[~bad], expected[~bad]).max() <= AGREEMENT
    assert {path.name for path in tmp_path.iterdir()} == {f"in{source}", f"out{target}"}


def torques(table, solver, tmp_path):
    with table_writer(tmp_path / "out.npz", solver.robot, "tau", table.timed) as write:
        evaluate(solver, table, write)
    with np.load(tmp_path / "out.npz") as results:
        assert set(results.files) == ({"tau", "time"} if table.timed else {"tau"})
        return results["tau"]


def test_missing_columns_are_reported(tmp_path, panda):
    """Zero velocities need an option; zero accelerations are reported in a note."""
    arrays, inverse = states(panda), dn.inverse_dynamics(panda)
    save(tmp_path / "in.npz", panda, {"q": arrays["q"]})
    with pytest.raises(TableError, match="in.npz has no velocities: --differentiate .* --zero-velocity"):
        open_table(tmp_path / "in.npz", panda, inverse)
    table = open_table(tmp_path / "in.npz", panda, inverse, zero_velocity=True)
    assert [note.partition(" are")[0] for note in table.notes] == ["velocities", "accelerations"]
    tau = torques(table, dn.build(panda, inverse), tmp_path)
    assert (
        error(
            tau, dn.evaluate(panda, "nonlinear_effects", arrays["q"], np.zeros((ROWS, 7)), backend="numpy")
        ).max()
        <= 1e-12
    )
    save(tmp_path / "all.npz", panda, arrays)
    assert open_table(tmp_path / "all.npz", panda, inverse).notes == ()
    save(tmp_path / "tau.npz", panda, {k: arrays[k] for k in ("q", "tau")})
    with pytest.raises(TableError, match="no velocities"):
        open_table(tmp_path / "tau.npz", panda, dn.forward_dynamics(panda))


def test_memory_is_bounded(tmp_path, panda):
    """A table of 45 MB is processed in chunks of 0.4 MB; arrays of an .npz file are read whole."""
    pytest.importorskip("pyarrow", reason="tables: pip install pyarrow")
    arrays = states(panda, 200_000)
    save(tmp_path / "in.parquet", panda, {k: arrays[k] for k in ("q", "qd", "qdd", "time")})
    solver = dn.build(panda, dn.inverse_dynamics(panda))
    solver(*(arrays[k][:100] for k in ("q", "qd", "qdd")))
    del arrays
    tracemalloc.start()
    table = open_table(tmp_path / "in.parquet", panda, solver.problem, chunk=2048)
    with table_writer(tmp_path / "out.npz", panda, "tau", table.timed) as write:
        evaluate(solver, table, write)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3e6


@pytest.mark.parametrize(
    ("name", "arrays", "words"),
    [
        ("no.npz", None, "no such file"),
        ("in.npz", {"qd": np.zeros((3, 7))}, "^[^:]*in.npz has no q; there are qd$"),
        ("in.npz", {"q": np.zeros((3, 6))}, r"q must have shape \(3, 7\), not \(3, 6\): q.panda_joint1"),
        (
            "in.npz",
            {"q": np.zeros((3, 7)), "qd": np.zeros((2, 7))},
            r"qd must have shape \(3, 7\), not \(2, 7\)",
        ),
        ("in.npz", {"q": np.full((3, 7), "x")}, "q must be numeric, not <U1"),
        ("in.csv", "a,b\n1,2\n", "has no column 'q.panda_joint1'; there are a, b"),
        ("in.csv", "", "in.csv is empty: its first line must have the names of the columns"),
        ("in.csv", "time;q.panda_joint1;q.panda_joint2\n0;1;2\n", "its columns by ';'; use commas"),
        ("in.parquet", "nonsense", "in.parquet: "),
        ("in.npz", "nonsense", "is not an .npz file of numbers"),
    ],
)
def test_invalid_tables_are_rejected(tmp_path, panda, name, arrays, words):
    path = tmp_path / name
    if isinstance(arrays, str):
        path.write_text(arrays)
    elif arrays is not None:
        np.savez(path, **arrays)
    with pytest.raises(TableError, match=words):
        list(open_table(path, panda, dn.inverse_dynamics(panda)).chunks())


def test_array_with_a_negative_number_of_rows_is_rejected(tmp_path, panda):
    with zipfile.ZipFile(tmp_path / "in.npz", "w") as archive:
        for kind in ("q", "qd", "qdd"):
            with archive.open(f"{kind}.npy", "w") as member:
                header = {"descr": "<f8", "fortran_order": False, "shape": (-1, 7)}
                np.lib.format.write_array_header_1_0(member, header)
    with pytest.raises(TableError, match="in.npz is not an .npz file of numbers"):
        open_table(tmp_path / "in.npz", panda, dn.inverse_dynamics(panda))


def test_columns_without_numbers_and_missing_efforts_are_named(tmp_path, panda):
    names = [f"q.{name}" for name in panda.q_names]
    (tmp_path / "in.csv").write_text(",".join(names) + "\n" + ",".join("x" * 7) + "\n")
    with pytest.raises(TableError, match="column 'q.panda_joint1' must be numeric: 'x'"):
        list(open_table(tmp_path / "in.csv", panda, dn.inverse_dynamics(panda), zero_velocity=True).chunks())
    save(tmp_path / "in.parquet", panda, {"q": np.zeros((3, 7))})
    with pytest.raises(TableError, match="has no column 'tau.panda_joint1'"):
        open_table(tmp_path / "in.parquet", panda, dn.forward_dynamics(panda))


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("1,2,3", "in.csv: a row has 3 entries instead of 7: 1, 2, 3"),
        ("1,2,3,4,5,6,x", "in.csv: column 'q.panda_joint7' must be numeric: 'x'"),
    ],
)
def test_invalid_rows_of_a_csv_are_named(tmp_path, panda, row, words):
    (tmp_path / "in.csv").write_text(f"{SEVEN}\n1,2,3,4,5,6,7\n{row}\n")
    with pytest.raises(TableError, match=words):
        list(open_table(tmp_path / "in.csv", panda, dn.inverse_dynamics(panda), zero_velocity=True).chunks())


def test_empty_entries_of_a_csv_are_nan(tmp_path, panda):
    path = tmp_path / "in.csv"
    path.write_text(f"{SEVEN}\n0,1,2,3,4,5,6\n0,,2,NaN, N/A ,null,6\n\n")
    (chunk,) = open_table(path, panda, dn.inverse_dynamics(panda), zero_velocity=True).chunks()
    expected = [np.arange(7.0), [0, np.nan, 2, np.nan, np.nan, np.nan, 6]]
    assert np.array_equal(chunk["q"], expected, equal_nan=True)


def names_of(kind, model):
    return [f"{kind}.{name}" for name in model.v_names]


def test_missing_column_is_reported_with_unused_columns(tmp_path, panda):
    """The message lists unused columns, not the valid first ones."""
    path, torques = tmp_path / "in.csv", names_of("torque", panda)
    names = ["time", *names_of("q", panda), *names_of("qd", panda), *torques]
    path.write_text(",".join(names) + "\n" + ",".join("0" * len(names)) + "\n")
    message = f"no column 'tau.panda_joint1'; there are {', '.join(torques)} .* tau.JOINT and time"
    with pytest.raises(TableError, match=message):
        open_table(path, panda, dn.inverse_dynamics(panda), measured=True)
    path.write_text("time,q.panda_joint1\n0,0\n")
    with pytest.raises(
        TableError, match="no column 'q.panda_joint2'; there are q.panda_joint1; .*: --joints panda_joint1$"
    ):
        open_table(path, panda, dn.inverse_dynamics(panda))


@pytest.mark.parametrize("head", ["# {}", "#{}", "{} "])
def test_header_formats_are_accepted(tmp_path, panda, head):
    """numpy.savetxt prepends a #; other programs add a blank after commas."""
    path, rows = tmp_path / "in.csv", np.arange(30.0).reshape(2, 15)
    names = ["time", *names_of("q", panda), *names_of("qd", panda)]
    lines = [head.format(", ".join(names)), *(", ".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    (chunk,) = open_table(path, panda, dn.inverse_dynamics(panda)).chunks()
    assert np.array_equal(chunk["time"], rows[:, 0]) and np.array_equal(chunk["qd"], rows[:, 8:])


def write_some(path, model, then=lambda: None):
    with table_writer(path, model, "tau", False) as write:
        write(np.zeros((2, 7)), None)
        then()


def test_failed_writes_leave_no_file(tmp_path, panda):
    with pytest.raises(TableError, match=r"results are written to .npz, .csv, .parquet"):
        write_some(tmp_path / "out.txt", panda)
    for suffix in ("csv", "npz", "parquet", "zarr"):
        with pytest.raises(ZeroDivisionError):
            write_some(tmp_path / f"out.{suffix}", panda, lambda: 1 / 0)
    assert not list(tmp_path.iterdir())
    with pytest.raises(TableError, match="cannot write .*out.npz"):
        write_some(tmp_path / "nowhere" / "out.npz", panda)


# --- bags ---------------------------------------------------------------------------------------------------


def test_bag_is_evaluated(tmp_path, panda, capsys):
    arrays, order = states(panda, 300), np.random.default_rng(0).permutation(7)
    names = [panda.joint_names[k] for k in order]
    rows = [
        ("/joint_states", names, arrays["q"][k][order], arrays["qd"][k][order], arrays["tau"][k][order])
        for k in range(300)
    ]
    write_bag(tmp_path / "bag", rows)
    joints = ["--joints", ",".join(panda.joint_names)]
    run = ["evaluate", str(data_folder() / PANDA), *joints, str(tmp_path / "bag"), "--no-friction"]
    assert main([*run, "--output", str(tmp_path / "tau.csv")]) == 0
    assert "300 states in" in capsys.readouterr().out
    tau, time = load(tmp_path / "tau.csv", "tau", panda)
    assert (
        error(tau, dn.evaluate(panda, "nonlinear_effects", arrays["q"], arrays["qd"], backend="numpy")).max()
        <= 1e-10
    )
    assert np.allclose(time, 5 + 1e-3 * np.arange(300))
    assert main([*run, "--output", str(tmp_path / "qdd.npz"), "--problem", "forward", "--chunk", "100"]) == 0
    expected = dn.build(panda, dn.forward_dynamics(panda))(arrays["q"], arrays["qd"], arrays["tau"])
    assert error(np.load(tmp_path / "qdd.npz")["qdd"], expected).max() <= 1e-9


def test_bag_with_partial_messages(tmp_path, panda):
    names, q = list(panda.joint_names), states(panda, 4)["q"]
    write_bag(tmp_path / "bag", [
        ("/arm", names[:4], q[0][:4], [], []), ("/arm", names[4:], q[0][4:], [], []),
        ("/arm", names[:1], q[1][:1], [], []), ("/other", names, q[2], [], []),
    ])  # fmt: skip
    inverse = dn.inverse_dynamics(panda)
    (chunk,) = open_table(tmp_path / "bag", panda, inverse, topic="/arm", zero_velocity=True).chunks()
    assert np.array_equal(chunk["q"], [q[0], [q[1][0], *q[0][1:]]]) and not chunk["qd"].any()
    with pytest.raises(TableError, match="has no efforts of panda_joint1, panda_joint2"):
        open_table(tmp_path / "bag", panda, dn.forward_dynamics(panda), topic="/arm")
    quadruped = ROBOTS["solo12"].model()
    with pytest.raises(TableError, match="no pose of a floating base"):
        open_table(tmp_path / "bag", quadruped, dn.inverse_dynamics(quadruped))
    (tmp_path / "file.txt").write_text("nothing")
    with pytest.raises(TableError, match="neither a table .* nor a recording"):
        open_table(tmp_path / "file.txt", panda, inverse)


def test_bag_of_a_robot_with_loops(tmp_path, capsys):
    """One message has the passive joints, which selects the assembly; an unreachable position is reported and skipped."""
    oracle = FiveBarOracle(five_bar(UPRIGHT))
    phase = np.linspace(0, 3, 200)[:, None] + [0, 1]
    driven, rates = [1.9, 1.2] + 0.3 * np.sin(phase), 0.3 * np.cos(phase)
    driven[120] = [3.1, 0.0]  # the elbows are too far apart
    names, side = [*DRIVEN, *PASSIVE], -1.0
    passive = oracle.passive(driven[0], side)
    rows = [("/joint_states", names, [*driven[0], *passive], [*rates[0], 0, 0], [])]
    rows += [("/joint_states", DRIVEN, q, qd, []) for q, qd in zip(driven[1:], rates[1:], strict=True)]
    write_bag(tmp_path / "bag", rows)
    (tmp_path / "robot.urdf").write_text(five_bar(UPRIGHT))
    run = ["evaluate", str(tmp_path / "robot.urdf"), str(tmp_path / "bag")]
    assert main([*run, "--output", str(tmp_path / "tau.npz"), "--chunk", "150"]) == 0
    message = capsys.readouterr().err
    assert "1 row is NaN (first: row 120)" in message
    torques_of_states = np.load(tmp_path / "tau.npz")["tau"]
    for k, tau in enumerate(torques_of_states):
        if k != 120:
            q = oracle.closed(driven[k], side)
            assert error(tau, oracle.torques_of(q, rates[k], np.zeros(2))) <= 1e-9


def test_evaluate_reports_invalid_states_and_options(tmp_path, panda, capsys):
    arrays = states(panda, 100)
    arrays["qd"][5] = np.inf
    save(tmp_path / "in.npz", panda, arrays)
    robot = [str(data_folder() / PANDA), "--joints", ",".join(panda.joint_names)]
    run = ["evaluate", *robot, str(tmp_path / "in.npz"), "--output"]
    assert main([*run, str(tmp_path / "out.npz"), "--precision", "float32"]) == 0
    assert "1 row is NaN (first: row 5)" in capsys.readouterr().err
    for wrong, words in (
        (["out.txt"], ".npz, .csv"),
        (["out.npz", "--chunk", "0"], "--chunk: '0' is not a whole number from 1 on"),
    ):
        assert exit_code([*run, tmp_path / wrong[0], *wrong[1:]]) == 2
        assert words in capsys.readouterr().err


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("dtype", ["f8", "f4", ">f8", "i4"])
def test_column_major_arrays_are_read(tmp_path, panda, save, dtype):
    arrays = {kind: (10 * rows).astype(dtype) for kind, rows in states(panda).items()}
    save(tmp_path / "in.npz", **{kind: np.asfortranarray(rows) for kind, rows in arrays.items()})
    for chunk in (1, 96, ROWS, 2 * ROWS):
        table = open_table(tmp_path / "in.npz", panda, dn.inverse_dynamics(panda), chunk, measured=True)
        assert table.rows == ROWS
        chunks = list(table.chunks())
        assert [len(own["q"]) for own in chunks[:-1]] == [chunk] * (len(chunks) - 1)
        for kind, rows in arrays.items():
            assert np.array_equal(np.concatenate([own[kind] for own in chunks]), rows)


@pytest.mark.parametrize("suffix", [".csv", ".npz", ".parquet", ".zarr"])
def test_tables_without_rows_are_no_input(suffix, tmp_path, capsys):
    """Every command that reads a table names the file, and replaces no output."""
    robot = str(ROBOTS["double_pendulum"].file)
    model = dn.load_robot(robot)
    path, out = str(tmp_path / f"none{suffix}"), tmp_path / "out.npz"
    arrays = {"time": np.zeros(0)} | {kind: np.zeros((0, 2)) for kind in ("q", "qd", "qdd", "tau")}
    save(tmp_path / f"none{suffix}", model, arrays)
    out.write_bytes(b"old")
    for arguments in (
        ["evaluate", robot, path, "-o", str(out)],
        ["evaluate", robot, path, "--differentiate", "-o", str(out)],
        ["smooth", robot, path, "-o", str(out)],
        ["inverse-trajectory", robot, path, "-o", str(out)],
        ["simulate", robot, "--torques", path, "-o", str(out)],
        ["check", robot, path],
        ["identify", robot, path, "-o", str(tmp_path / "identified")],
        ["payload", robot, path, "--link", "link2"],
    ):
        assert main(arguments) == 3, arguments
        error = capsys.readouterr().err
        assert error.splitlines()[-1] == f"dynamics: {path} has no rows", arguments
    assert out.read_bytes() == b"old" and not (tmp_path / "identified").exists()
