"""Two dask workers against one: the time of the same work, and the bytes that every worker moves.

Workers are processes with one thread, pinned to one core each, on this machine. Functions read arrays made
on the workers and are reduced there. Tables and recordings lie in Parquet files, which are not counted. The
best of some rounds counts, after one that imports and compiles.
"""

import contextlib
import gc
import io
import os
import shutil
import socket
import struct
import tempfile
import time
from pathlib import Path

import dask
import dask.array as da
import distributed
import harness
import numpy as np
import pyarrow as pa
import pyarrow.parquet
from robots import robot, robot_file

import dynamics_node as dn
from dynamics_node.cli import main as dynamics

ROUNDS = 3
STATES, CHUNK = 4_000_000, 100_000
ROWS, GROUP = 2_000_000, 100_000  # of the table
RECORDINGS, SAMPLES = 8, 60_000
TARGET = 0.6  # of the time of one worker


def function_of(model):
    """Largest torques and their derivatives at random states."""
    inverse = dn.build(model, "inverse_dynamics")
    derivatives = inverse.derivatives()

    def run(client, name):
        function = {"torques": inverse, "derivatives": derivatives}[name]
        states = da.random.default_rng(0).uniform(-1, 1, (STATES, 21), chunks=(CHUNK, 21))
        q, qd, qdd = (states[:, k : k + 7] for k in (0, 7, 14))
        results = function.dask(q, qd, qdd, errors="nan")
        results = results if isinstance(results, tuple) else (results,)
        client.compute([abs(result).max(axis=0) for result in results], sync=True)

    return run


def save_table(path, model, rows, group, torques=False, seed=0):
    """Sines at 1 kHz."""
    random, t = np.random.default_rng(seed), 1e-3 * np.arange(rows)[:, None]
    w, a, phase = random.uniform([[0.5], [0.3], [0.0]], [[3.0], [1.0], [6.0]], (3, model.nv))
    angle = w * t + phase
    arrays = {"q": a * np.sin(angle), "qd": a * w * np.cos(angle), "qdd": -a * w * w * np.sin(angle)}
    if torques:
        arrays["tau"] = dn.evaluate(model, "inverse_dynamics", *arrays.values()) + 0.1 * arrays["qd"]
        arrays["tau"] += 0.05 * random.normal(size=(rows, model.nv))
    columns = {
        f"{kind}.{name}": x[:, k] for kind, x in arrays.items() for k, name in enumerate(model.v_names)
    }
    pyarrow.parquet.write_table(pa.table({"time": t[:, 0], **columns}), path, row_group_size=group)


def command(*words):
    def run(client, out):
        shutil.rmtree(out, ignore_errors=True)
        with contextlib.redirect_stdout(io.StringIO()):
            where = ["-o", str(out), "--cluster", client.scheduler.address, "--quiet"]
            code = dynamics([*map(str, words), *where])
        assert code == 0, code

    return run


def pinned(dask_worker):
    """All threads of a worker, and those that they start, on one core."""
    core = sorted(os.sched_getaffinity(0))[int(dask_worker.name) % os.cpu_count()]
    for thread in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(thread.name), {core})


def moved():
    """Bytes that the open TCP connections of a worker have sent and received: of Linux's struct tcp_info."""
    total = np.zeros(2, dtype=np.int64)
    for one in gc.get_objects():
        if isinstance(one, socket.socket) and one.fileno() >= 0 and one.type == socket.SOCK_STREAM:
            with contextlib.suppress(OSError):  # no TCP
                total += struct.unpack_from(
                    "QQ", one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256), 120
                )
    return total


def measured(workers, jobs):
    """{name: (least seconds, bytes that each worker sent and received in one round)}"""
    found = {}
    with (
        distributed.LocalCluster(
            workers, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.run(pinned)
        for name, job in jobs.items():
            times, bytes_moved = [], []
            for _ in range(ROUNDS + 1):
                before = client.run(moved)
                begin = time.perf_counter()
                job(client)
                times.append(time.perf_counter() - begin)
                after = client.run(moved)
                bytes_moved = [after[worker] - before[worker] for worker in after]
            found[name] = min(times[1:]), bytes_moved
    return found


def main():
    save = harness.arguments("dask_workers").parse_args().save
    model, urdf, rows = robot("panda"), robot_file("panda"), []
    with tempfile.TemporaryDirectory() as folder, dask.config.set({"logging.distributed": "error"}):
        folder = Path(folder)
        joints = ("--joints", ",".join(model.joint_names))
        save_table(folder / "states.parquet", model, ROWS, GROUP)
        for k in range(RECORDINGS):
            save_table(folder / f"run{k}.parquet", model, SAMPLES, GROUP, torques=True, seed=k)
        runs = sorted(folder.glob("run*.parquet"))
        evaluate = command("evaluate", urdf, folder / "states.parquet", *joints, "--chunk", "4096")
        identify = command("identify", urdf, *runs, *joints, "--terms", "inertia,viscous")
        functions = function_of(model)
        jobs = {
            f"torques of {1e-6 * STATES:g} million states": lambda client: functions(client, "torques"),
            f"derivatives of {1e-6 * STATES:g} million states": lambda client: functions(
                client, "derivatives"
            ),
            f"evaluate, {1e-6 * ROWS:g} million rows": lambda client: evaluate(
                client, folder / "tau.parquet"
            ),
            f"identify, {RECORDINGS} recordings of {1e-3 * SAMPLES:g} s": lambda client: identify(
                client, folder / "out"
            ),
        }
        alone, both = measured(1, jobs), measured(2, jobs)
    for name, (seconds, workers) in both.items():
        one = alone[name][0]
        rows.append(
            harness.Row(f"{name}, two workers", seconds, "s", "lower", "one worker", one, target=TARGET)
        )
        for k, (sent, received) in enumerate(workers):
            rows.append(harness.Row(f"{name}, worker {k} sends", 1e-6 * sent, "MB", "lower"))
            rows.append(harness.Row(f"{name}, worker {k} receives", 1e-6 * received, "MB", "lower"))
    harness.finish("dask_workers", rows, harness.versions("numpy", "dask", "distributed", "pyarrow"), save)


if __name__ == "__main__":
    main()
