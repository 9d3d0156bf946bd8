"""Two dask workers against one: the time of the same work, and the bytes that every worker sends.

Workers are processes with one thread, pinned to one core each, on this machine. Functions read arrays made
on the workers and are reduced there. Tables and recordings lie in Parquet files; the best of some rounds
counts. What is sent are results for this process and data for the other worker; files are not counted.
"""

import os
import shutil
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
        q, qd, qdd = (
            da.random.default_rng(k).uniform(-1, 1, (STATES, 7), chunks=(CHUNK, 7)) for k in range(3)
        )
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
        code = dynamics([*map(str, words), "-o", str(out), "--cluster", client.scheduler.address, "--quiet"])
        assert code == 0, code

    return run


def pinned(dask_worker):
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[int(dask_worker.name) % os.cpu_count()]})


def measured(workers, jobs):
    """{name: (least seconds, bytes that each worker sent in one round)}"""
    found = {}
    with (
        distributed.LocalCluster(
            workers, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.run(pinned)
        for name, job in jobs.items():
            times, sent = [], []
            for _ in range(ROUNDS + 1):  # the first one compiles and imports
                before = client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total)
                begin = time.perf_counter()
                job(client)
                times.append(time.perf_counter() - begin)
                after = client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total)
                sent = [after[worker] - before[worker] for worker in after]
            found[name] = min(times[1:]), sent
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
            f"torques of {STATES // 10**6} million states": lambda client: functions(client, "torques"),
            f"derivatives of {STATES // 10**6} million states": lambda client: functions(
                client, "derivatives"
            ),
            f"evaluate, {ROWS // 10**6} million rows": lambda client: evaluate(
                client, folder / "tau.parquet"
            ),
            f"identify, {RECORDINGS} recordings of a minute": lambda client: identify(client, folder / "out"),
        }
        alone, both = measured(1, jobs), measured(2, jobs)
    for name, (seconds, sent) in both.items():
        rows.append(
            harness.Row(
                f"{name}, two workers", seconds, "s", "lower", "one worker", alone[name][0], target=TARGET
            )
        )
        rows += [
            harness.Row(f"{name}, sent by worker {k}", 1e-6 * n, "MB", "lower") for k, n in enumerate(sent)
        ]
    harness.finish("dask_workers", rows, harness.versions("numpy", "dask", "distributed", "pyarrow"), save)


if __name__ == "__main__":
    main()
