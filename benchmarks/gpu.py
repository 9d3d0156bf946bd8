"""Rates of batches on a GPU: arrays on the device and of NumPy, beside the same batch by C on all cores
and the bound of the device's memory.

    ./dev bench gpu [--save]; on a machine that cannot install anything: ./dev gpu bundle
"""

import math
import pickle
import sys
import time
from itertools import product
from pathlib import Path

import harness
import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "test" / "support"))

from parallel_robots import chain, states

import dynamics_node as dn
from dynamics_node.codegen.cuda import cupy_module
from dynamics_node.errors import DeviceError

PICKLED = Path(__file__).with_name("robots.pickle")  # of a bundle, see gpu_bundle.py
ROBOTS, PROBLEMS, PRECISIONS = ("panda", "solo12", "talos"), ("inverse", "forward"), ("float32", "float64")
STATES, REPEATS = 2**20, 20
CHAINS = ((10, 1), (10, 10_000), (64, 1), (64, 10_000), (200, 1), (200, 10_000))  # links, states: paper 5


def robot(name):
    """That of a bundle, or of example-robot-data."""
    if PICKLED.exists():
        return pickle.loads(PICKLED.read_bytes())[name]
    import robots

    return robots.robot(name)


def seconds(work):
    """Wall-clock time of a call on the host, the shortest one."""
    work()
    times = []
    for _ in range(3):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def seconds_there(cupy, work):
    """Time of work that is given to the current stream, by the device's clock: the median."""
    work()
    times = []
    for _ in range(REPEATS):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        work()
        end.record()
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(start, end) / 1e3)
    return float(np.median(times))


def bandwidth(cupy):
    """Bytes a second that a copy on the device reads and writes."""
    a, b = (cupy.empty(2**28, np.uint8) for _ in range(2))
    return 2 * a.nbytes / seconds_there(cupy, lambda: b.data.copy_from_device_async(a.data, a.nbytes))


def rates(cupy, name, problem, precision, memory):
    """Rows of a robot: arrays on the device, in columns and in rows, and arrays of NumPy."""
    model, case = robot(name), f"{name} {problem} {precision}"
    on_gpu, on_cpu = (
        dn.build(model, f"{problem}_dynamics", backend=backend, precision=precision)
        for backend in ("cuda", "c")
    )
    given = [array.astype(precision) for array in states(model, STATES)[:3]]
    here = STATES / seconds(lambda: on_cpu(*given))
    bound = memory / (np.dtype(precision).itemsize * (given[0].shape[1] + 3 * model.nv))
    for layout in ("C", "F"):
        arrays = [cupy.asarray(array, order=layout) for array in given]
        out = cupy.empty_like(arrays[1])
        rate = STATES / seconds_there(cupy, lambda a=arrays, o=out: on_gpu(*a, out=o, errors="nan"))
        note = f"{rate / bound:.0%} of what memory allows"
        where = "columns" if layout == "F" else "rows"
        yield row(f"{case}, on the device, {where}", rate, here, note)
    rate = STATES / seconds(lambda: on_gpu(*given))
    yield row(f"{case}, NumPy in and out", rate, here, "")


def row(name, rate, here, reason):
    return harness.Row(name, rate / 1e9, "G/s", "higher", "C, all cores", here / 1e9, reason=reason)


def chains():
    """Rows of paper 5's figures: calls of CFA by arrays of CuPy, arrays of NumPy in and out."""
    for links, count in CHAINS:
        model = chain(links)
        given = states(model, count)[:3]
        solve = dn.build(model, "forward_dynamics", solver="cfa", backend="cuda")
        recursion = dn.build(model, "forward_dynamics", backend="c")
        here, there = (1e3 * seconds(lambda f=function, g=given: f(*g)) for function in (recursion, solve))
        name = f"cfa, {links} links, {count} states"
        yield harness.Row(name, there, "ms", "lower", "recursion in C", here)


def absent(reason):
    """Rows of a machine without a device."""
    for case in map(" ".join, product(ROBOTS, PROBLEMS, PRECISIONS)):
        yield harness.Row(f"{case}, on the device", None, "G/s", "higher", "C, all cores", reason=reason)


def main():
    options = harness.arguments("gpu").parse_args()
    device = None
    try:
        cupy = cupy_module()
        device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
        memory = bandwidth(cupy)
        rows = [harness.Row("copy on the device", memory / 1e9, "GB/s", "higher", reason=device)]
        for case in product(ROBOTS, PROBLEMS, PRECISIONS):
            rows += rates(cupy, *case, memory)
        rows += chains()
    except DeviceError as error:
        rows = list(absent(str(error)))
    assert all(r.value is None or math.isfinite(r.value) for r in rows)
    versions = harness.versions("numpy", "cupy-cuda13x", "nvidia-cuda-nvrtc")
    harness.finish("gpu", rows, versions, options.save, device=device)


if __name__ == "__main__":
    main()
