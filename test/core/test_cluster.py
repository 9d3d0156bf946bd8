"""Functions, tables and recordings on a cluster by dask: two processes return what one machine returns."""

import os
import pickle
import signal
from time import sleep

import numpy as np
import pytest
from bags import write_bag
from identified import TIME, Truth
from robots import ROBOTS, random_states
from state_tables import columns_of, load_zarr, save_zarr
from tolerances import error

import dynamics_node as dn
from dynamics_node.cli import main
from dynamics_node.io import Tasks, read_table

dask = pytest.importorskip("dask", reason="clusters: pip install 'dask[array]' distributed")
da = pytest.importorskip("dask.array", reason="clusters: pip install 'dask[array]' distributed")
distributed = pytest.importorskip("distributed", reason="clusters: pip install 'dask[array]' distributed")

pyarrow = pytest.importorskip("pyarrow", reason="tables: pip install pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

AGREEMENT = 1e-13  # chunks may use vector code, rows scalar code


@pytest.fixture(scope="session")
def client():
    """Of a cluster of two processes."""
    with (
        distributed.LocalCluster(2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        client.wait_for_workers(2, timeout=100)  # on busy cores they start one by one
        yield client


@pytest.fixture(scope="module")
def panda():
    return ROBOTS["panda7"].model()


# --- functions on dask arrays -------------------------------------------------------------------------------

CALLS = {
    "inverse": lambda model: dn.build(model, dn.inverse_dynamics(model)),
    "forward": lambda model: dn.build(model, dn.forward_dynamics(model)),
    "hybrid": lambda model: dn.build(model, dn.hybrid_dynamics(model, ["FL_KFE"]), backend="numpy"),
    "derivatives": lambda model: dn.build(model, dn.inverse_dynamics(model)).derivatives("numpy"),
    "frame": lambda model: dn.build(model, "frame_pose", link="FL_FOOT", backend="numpy"),
    "energy": lambda model: dn.build(model, "kinetic_energy", backend="numpy"),
    "float32": lambda model: dn.build(model, "mass_matrix", precision="float32"),
}


@pytest.mark.parametrize("name", CALLS)
def test_functions_on_dask_arrays(name):
    """All results of all chunks, whatever the chunks, are those of a call."""
    model = ROBOTS["solo12"].model()
    function = CALLS[name](model)
    q, qd, u, _ = random_states(model, 60, seed=62)
    arrays = (q, qd, u, u)[: len(function.runner.inputs) - len(function.defaults)]
    expected = function(*arrays)
    chunks = [(25, 5), (10, -1), (60, -1), 7]
    lazy = function.dask(*(da.from_array(a, chunks=c) for a, c in zip(arrays, chunks, strict=False)))
    assert type(lazy) is (da.Array if isinstance(expected, np.ndarray) else type(expected))
    several = (lambda results: (results,)) if isinstance(expected, np.ndarray) else tuple
    for result, array in zip(several(lazy), several(expected), strict=True):
        assert (result.shape, result.dtype) == (array.shape, array.dtype)
        assert result.numblocks[0] > 2 and set(result.numblocks[1:]) <= {1}
        tolerance = 1e-5 if name == "float32" else AGREEMENT
        np.testing.assert_allclose(result.compute(scheduler="sync"), array, rtol=tolerance, atol=tolerance)


def test_arrays_of_a_batch_broadcast(panda):
    function = dn.build(panda, "inverse_dynamics", f_ext=True, backend="numpy")
    q, qd, u, f_ext = random_states(panda, 24, seed=64)
    gravity = np.array([0.0, 1.0, -9.0])
    q = q.reshape(6, 4, 7)
    lazy = function.dask(da.from_array(q, chunks=(4, 3, 7)), qd[0], qdd=u[:4], gravity=gravity)
    assert lazy.shape == (6, 4, 7) and lazy.chunks[:2] == ((4, 2), (3, 1))
    expected = function(q, qd[0], u[:4], gravity=gravity)
    assert error(lazy.compute(scheduler="sync"), expected).max() <= AGREEMENT
    assert function.dask(q[0, 0], qd[0], u[0]).compute(scheduler="sync").shape == (7,)
    some = da.from_array(q.reshape(-1, 7), chunks=5)
    unknown = some[some[:, 0] > 0]  # of unknown length
    assert (
        error(
            function.dask(unknown, qd[0], u[0]).compute(scheduler="sync"),
            function(q[q[..., 0] > 0], qd[0], u[0]),
        ).max()
        <= AGREEMENT
    )


def test_states_without_result_are_nan_or_raise_in_their_chunk(panda):
    function = dn.build(panda, "gravity_torque", backend="numpy")
    q = np.zeros((10, 7))
    q[6, 2] = np.inf
    chunks = da.from_array(q, chunks=(4, 7))
    tau = function.dask(chunks, errors="nan").compute(scheduler="sync")
    assert np.flatnonzero(np.isnan(tau).any(axis=1)).tolist() == [6]
    with pytest.raises(dn.InputError, match="panda_joint3"):
        function.dask(chunks).compute(scheduler="sync")


def test_invalid_arguments_raise_before_anything_is_computed(panda):
    function = dn.build(panda, "inverse_dynamics", backend="numpy")
    q = da.zeros((10, 7), chunks=(5, 7))
    for arrays, named, raised, words in (
        ((q, q, q[:, :6]), {}, dn.InputError, r"qdd must .*\(\.\.\., 7\)"),
        ((q, q[:3], q), {}, dn.InputError, r"broadcast: q \(10,\), qd \(3,\)"),
        ((q, None, q), {}, dn.InputError, "qd"),
        ((q, q), {}, TypeError, "2 arguments"),
        ((q, q, q), {"tau": q}, TypeError, "tau"),
        ((q, q, q), {"errors": "skip"}, dn.InputError, "skip"),
    ):
        with pytest.raises(raised, match=words):
            function.dask(*arrays, **named)


def test_tasks_share_the_function(client, panda):
    """What the scheduler sends has the function once, not with every task."""
    function = dn.build(panda, "mass_matrix")
    q = random_states(panda, 4000, seed=65)[0]
    total = function.dask(da.from_array(q, chunks=(100, 7)), errors="nan").sum(axis=0)
    assert error(client.compute(total).result(timeout=100), function(q).sum(axis=0)).max() <= AGREEMENT
    (optimized,) = dask.optimize(total)
    tasks = [len(distributed.protocol.pickle.dumps(task)) for task in dict(optimized.dask).values()]
    assert len(tasks) > 40 and sum(tasks) < q.nbytes + len(pickle.dumps(function)) + 3000 * len(tasks)


def test_errors_of_a_cluster_keep_their_type_and_text(client):
    program = dn.trace(lambda x: {"y": 1.0 / x[0]}, {"x": (1,)})
    inverse = dn.compile(program, backend="numpy", name="inverse")
    lazy = inverse.dask(da.from_array(np.arange(4.0)[:, None], chunks=(2, 1)))
    with pytest.raises(dn.SolutionError, match="no finite solution"):
        client.compute(lazy).result(timeout=100)


def test_killed_worker_of_a_cluster_is_replaced(client, panda):
    """After one of two workers is killed, the other repeats its part."""
    q, qd, u, _ = random_states(panda, 40_000, seed=63)
    function = dn.build(panda, dn.inverse_dynamics(panda))
    lazy = function.dask(da.from_array(q, chunks=(500, -1)), da.from_array(qd, chunks=(500, -1)), u)
    workers = client.run(os.getpid)
    assert len(set(workers.values())) == 2
    result = client.compute(lazy)
    os.kill(next(iter(workers.values())), signal.SIGKILL)
    assert error(result.result(timeout=100), function(q, qd, u)).max() <= AGREEMENT


# --- dynamics evaluate --------------------------------------------------------------------------------------


@pytest.fixture
def run(client, tmp_path, capsys):
    """run(command, *arguments): exit code and stderr of a command with --cluster, of an arm with two joints."""

    def of(command, *arguments):
        where = [] if "--cluster" in arguments else ["--cluster", client.scheduler.address]
        robot = str(ROBOTS["double_pendulum"].file)
        return main([command, robot, *map(str, arguments), *where]), capsys.readouterr().err

    return of


@pytest.fixture(scope="module")
def pendulum():
    return ROBOTS["double_pendulum"].model()


def save_states(path, model, rows, seed, **changed):
    """A .parquet file with groups of 100 rows."""
    q, qd, qdd, _ = random_states(model, rows, seed)
    arrays = {"q": q, "qd": qd, "qdd": qdd, "time": 0.01 * np.arange(rows)} | changed
    parquet.write_table(
        pyarrow.table(columns_of(arrays, model.v_names, model.q_names)), path, row_group_size=100
    )


def written(path):
    """The columns (rows, columns) of a table."""
    table = parquet.read_table(path)
    return np.array([table[name].to_numpy() for name in table.column_names]).T


def evaluated_here(table, *options):
    """The columns (rows, 3) that `dynamics evaluate` writes without a cluster."""
    out = table.parent / "here.parquet"
    assert main(["evaluate", str(ROBOTS["double_pendulum"].file), str(table), "-o", str(out), *options]) == 0
    return written(out)


def test_parts_of_a_table_by_tasks(run, tmp_path, pendulum):
    qd = np.zeros((1000, 2))
    qd[734, 1] = np.nan
    save_states(tmp_path / "states.parquet", pendulum, 1000, 66, qd=qd)
    code, said = run("evaluate", tmp_path / "states.parquet", "-o", tmp_path / "tau.parquet", "--chunk", 4)
    assert code == 0 and f"1 row is NaN (first: row 734 of {tmp_path / 'states.parquet'})" in said
    parts = sorted(path.name for path in (tmp_path / "tau.parquet").iterdir())
    assert parts == [f"{k}-states.parquet" for k in range(5)]  # of 200 rows: at most 64 chunks
    there, here = written(tmp_path / "tau.parquet"), evaluated_here(tmp_path / "states.parquet")
    assert there.shape == (1000, 3)
    np.testing.assert_allclose(there, here, rtol=AGREEMENT, atol=AGREEMENT)


def save_group(path, model, rows, others=170, **changed):
    """Arrays of a Zarr group with chunks of 100 rows of q, and of `others`, which it returns."""
    q, qd, qdd, _ = random_states(model, rows, 67)
    arrays = {"q": q, "qd": qd, "qdd": qdd, "time": 0.01 * np.arange(rows)} | changed
    save_zarr(path, arrays, {name: 100 if name == "q" else others for name in arrays})
    return arrays


def test_chunks_of_a_zarr_group_by_tasks(run, tmp_path, pendulum):
    """Every chunk of the results is written by one task; results in Parquet are the same."""
    qd = np.zeros((950, 2))
    qd[734, 1] = np.nan
    save_group(table := tmp_path / "states.zarr", pendulum, 950, qd=qd)
    code, said = run("evaluate", table, "-o", tmp_path / "tau.zarr", "--chunk", 4)
    assert code == 0 and f"1 row is NaN (first: row 734 of {table})" in said
    there, here = load_zarr(tmp_path / "tau.zarr"), evaluated_here(table)
    there = np.column_stack([there["time"], there["tau"]])
    assert len(list((tmp_path / "tau.zarr" / "tau" / "c").iterdir())) == 10
    np.testing.assert_allclose(there, here, rtol=AGREEMENT, atol=AGREEMENT)
    assert run("evaluate", table, "-o", tmp_path / "tau.parquet", "--chunk", 4)[0] == 0
    assert len(list((tmp_path / "tau.parquet").iterdir())) == 5  # of 200 rows: at most 64 chunks
    assert np.array_equal(written(tmp_path / "tau.parquet"), there, equal_nan=True)


def test_failed_task_leaves_no_zarr_group(run, tmp_path, pendulum):
    save_group(table := tmp_path / "states.zarr", pendulum, 950)
    (table / "qdd" / "c" / "4" / "0").write_bytes(b"nonsense")
    code, said = run("evaluate", table, "-o", tmp_path / "tau.zarr", "--chunk", 4)
    assert code == 3 and f"{table} has an array qdd that cannot be read" in said
    while len(list(tmp_path.iterdir())) > 1:  # others end later
        sleep(0.01)


def test_folders_and_recordings_by_tasks(run, tmp_path, pendulum):
    """A folder of tables is one table, whose parts are in order; every recording is a task of its own."""
    (folder := tmp_path / "states.parquet").mkdir()
    for k in (10, 2):
        save_states(folder / f"part.{k}.parquet", pendulum, 300, k)
    assert run("evaluate", folder, "-o", tmp_path / "tau.parquet")[0] == 0
    there = written(tmp_path / "tau.parquet")
    assert len(there) == 600
    np.testing.assert_allclose(there, evaluated_here(folder), rtol=AGREEMENT, atol=AGREEMENT)
    for name, size in (("one", 0.3), ("two", 0.6)):
        q = size * np.sin(0.01 * np.arange(600))[:, None] * np.ones(2)
        messages = [("/joint_states", pendulum.joint_names, row, [], []) for row in q]
        write_bag(tmp_path / name, messages, 10_000_000 * np.arange(1, 601))
    bags, out = (tmp_path / "one", tmp_path / "two"), tmp_path / "both.parquet"
    code, said = run("evaluate", *bags, "--differentiate", "-o", out)
    assert code == 0 and said.count("derivatives of the recorded positions below 10 Hz") == 1
    for bag, part in zip(bags, np.split(written(out), 2), strict=True):
        alone = evaluated_here(bag, "--differentiate")
        np.testing.assert_allclose(part, alone, rtol=AGREEMENT, atol=AGREEMENT)


def test_failed_task_names_its_file(run, tmp_path, pendulum):
    """Nothing is left of the output."""
    for k in range(4):
        save_states(tmp_path / f"run{k}.parquet", pendulum, 100, k)
    table = parquet.read_table(tmp_path / "run2.parquet").drop_columns([f"q.{pendulum.q_names[0]}"])
    parquet.write_table(table, tmp_path / "run2.parquet")
    out = tmp_path / "new" / "tau.parquet"
    out.parent.mkdir()
    code, said = run("evaluate", *sorted(tmp_path.glob("run*")), "-o", out)
    assert code == 3 and f"{tmp_path / 'run2.parquet'} has no column" in said
    assert not out.exists()


def test_wrong_usage_of_a_cluster(run, tmp_path, pendulum, monkeypatch):
    monkeypatch.setattr("dynamics_node.io.cluster.TIMEOUT", 0.5)
    save_states(table := tmp_path / "run.parquet", pendulum, 100, 1)
    save_group(group := tmp_path / "run.zarr", pendulum, 100)
    new, old = tmp_path / "tau.parquet", tmp_path / "old.parquet"
    old.mkdir()
    for arguments, words in (
        ((table, "-o", tmp_path / "tau.npz"), "NAME.parquet"),
        ((table, "--compare"), "compare without it"),
        ((table, "-o", old), "exists"),
        ((table, "-o", tmp_path / "tau.zarr"), "of one NAME.zarr"),
        ((group, "-o", tmp_path / "tau.zarr", "--differentiate"), "leave out --cluster"),
        ((table, "-o", new, "--cluster", "tcp://127.0.0.1:9"), "dask scheduler"),
        ((table, "-o", new, "--cluster", "nothing://here"), "dask scheduler"),
    ):
        code, said = run("evaluate", *arguments)
        assert code == 2 and words in said.splitlines()[-1], said
    robot = str(ROBOTS["double_pendulum"].file)
    assert main(["evaluate", robot, str(table), str(table), "-o", str(new)]) == 2


# --- dynamics identify --------------------------------------------------------------------------------------


def dies_once(item, folder):
    """A task whose worker is killed."""
    if item == 3 and not (folder / "died").exists():
        (folder / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * item


def test_tasks_of_a_killed_worker_are_repeated(client, tmp_path):
    done = []
    results = Tasks(client).map(dies_once, range(8), str, done.append, folder=tmp_path)
    assert list(results) == [0, 2, 4, 6, 8, 10, 12, 14] == sorted(done)


def test_identification_of_recordings_by_tasks(run, tmp_path, pendulum):
    """Every number equals that of one machine."""
    truth = Truth(pendulum)
    files = [tmp_path / f"run{k}.parquet" for k in range(3)]
    for k, file in enumerate(files):
        time = TIME[: 400 + 300 * k]
        columns = columns_of(truth.recording(k, time=time), pendulum.v_names, pendulum.q_names)
        parquet.write_table(pyarrow.table(columns), file)
    robot = str(ROBOTS["double_pendulum"].file)
    method = ("--method", "robust", "--terms", "inertia,viscous")
    assert main(["identify", robot, *map(str, files), *method, "-o", str(tmp_path / "here")]) == 0
    code, said = run("identify", *files, *method, "-o", tmp_path / "there")
    assert code == 0, said
    for name in ("report.yaml", "parameters.yaml", "report.html"):
        assert (tmp_path / "there" / name).read_text() == (tmp_path / "here" / name).read_text(), name


def test_errors_and_warnings_of_recordings_name_their_file(run, tmp_path, pendulum):
    recording = Truth(pendulum).recording(1, time=TIME[:600])
    for name, time in (("good", TIME[:600]), ("again", np.tile(TIME[:300], 2)), ("late", TIME[:600])):
        columns = columns_of(recording | {"time": time}, pendulum.v_names, pendulum.q_names)
        if name == "late":
            columns["tau.joint1"] = np.full(600, "x")
        parquet.write_table(pyarrow.table(columns), tmp_path / f"{name}.parquet")
    files = [tmp_path / f"{name}.parquet" for name in ("good", "again", "late")]
    code, said = run("identify", *files[:2], "-o", tmp_path / "out")
    assert code in (0, 1) and said.count(f"{files[1]}: time jumps back") == 1
    code, said = run("identify", *files, "-o", tmp_path / "other")
    assert code == 3 and said.splitlines()[-1].startswith(f"dynamics: {files[2]}: column 'tau.joint1'")


# --- recipes of docs/how-to/cluster.md ----------------------------------------------------------------------


def test_workers_read_and_write_a_zarr_group(client, tmp_path, pendulum):
    """What they write is a table."""
    kinds, inverse = ("q", "qd", "qdd"), dn.build(pendulum, "inverse_dynamics")
    arrays = save_group(table := tmp_path / "states.zarr", pendulum, 950, others=100)
    states = [da.from_zarr(str(table), component=name) for name in kinds]
    tau = inverse.dask(*states, errors="nan")
    written = tau.to_zarr(str(tmp_path / "torques.zarr"), component="tau", compute=False)
    client.compute(written).result(timeout=100)
    expected = inverse(*(arrays[kind] for kind in kinds))
    there = read_table(tmp_path / "torques.zarr", pendulum, ["tau"], needed=["tau"])["tau"]
    assert error(there, expected).max() <= AGREEMENT


def test_checks_of_many_trajectories(client, pendulum):
    """The robot is a task: a worker gets it once."""
    here = dn.load_robot(ROBOTS["double_pendulum"].file)
    robot = client.submit(dn.load_robot, ROBOTS["double_pendulum"].file)
    motions = [
        {"joint_names": here.v_names, "points": [
            {"time_from_start": t, "positions": [t * size, 0.0], "velocities": [0.0, 0.0]} for t in (0.0, 1.0)
        ]}
        for size in np.linspace(0.1, 3.0, 30)
    ]  # fmt: skip

    def check(motion, robot):
        checked = dn.check_trajectory(robot, motion, limits={"joint1": {"max_velocity": 2.5}})
        return checked.feasible, checked.tau

    there = client.gather(client.map(check, motions, robot=robot))
    assert {feasible for feasible, _ in there} == {True, False}
    for (feasible, tau), motion in zip(there, motions, strict=True):
        expected = check(motion, here)
        assert feasible == expected[0] and error(tau, expected[1]).max() <= AGREEMENT


def test_rollouts_of_pieces(client, pendulum):
    forward = dn.build(pendulum, "forward_dynamics")
    tau = np.random.default_rng(0).normal(size=(64, 20, 2))
    start, rest = np.zeros(2), np.zeros(2)

    def rolled(tau, forward):
        return forward.rollout(start, rest, tau, dt=0.01).q

    pieces = client.map(rolled, np.array_split(tau, 4), forward=forward, pure=False)
    expected = forward.rollout(start, rest, tau, dt=0.01).q
    assert error(np.concatenate(client.gather(pieces)), expected).max() <= AGREEMENT
