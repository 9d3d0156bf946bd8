"""Long cycles of a node and their parts: time on the processor, waits for it, page faults, garbage
collections, callbacks. A tracer wraps the executor of the process; the node has no hook.

    python benchmarks/node_cycles.py FILE MODULE ARGUMENT ...

runs `main` of a module, and writes the report to a file at its end. `./dev bench node_latency --trace`
reports the node and the echo node in turn. A cycle lasts from the end of a wait to the next wait.
"""

import gc
import os
import resource
import sys
import time
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import numpy as np

LONG = 3  # medians
SETTLING = 7.0  # s at the start without records
LISTED = 8  # cycles in the report


class Counts(NamedTuple):
    """Counts of this thread. wall, cpu, waited (for a processor, though ready): ns; faults: minor and major
    page faults; yielded, preempted: context switches."""

    wall: int
    cpu: int
    waited: int
    faults: int
    yielded: int
    preempted: int

    def since(self, before):
        """The counts since earlier ones."""
        return Counts(*(a - b for a, b in zip(self, before, strict=True)))


class Tracer:
    """Counts and callbacks of every cycle."""

    def __init__(self):
        self._schedule = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        self._recording = time.monotonic() + SETTLING
        self._begun: Counts | None = None
        self._called: list[str] = []
        self.cycles: list[tuple[Counts, tuple[str, ...]]] = []
        gc.callbacks.append(self._on_collection)

    def install(self):
        """Wrap the executor."""
        from dynamics_node.node.ros import bounded_executor

        kind, name = bounded_executor.TurnExecutor, bounded_executor._name
        wait, serve, respond = kind._wait, kind._serve, kind._response

        def traced_wait(executor, *arguments):
            self._end()
            try:
                wait(executor, *arguments)
            finally:
                self._begun = self._counts()

        def traced_serve(executor, entity, *arguments):
            called = name(entity)
            self._called.append(entity.callback.__qualname__ if called == "Timer" else called)
            serve(executor, entity, *arguments)

        def traced_respond(executor, service, request):
            self._called.append(service.srv_name)
            return respond(executor, service, request)

        kind._wait, kind._serve, kind._response = traced_wait, traced_serve, traced_respond

    def _counts(self):
        waited = int(os.pread(self._schedule, 100, 0).split()[1])
        usage = resource.getrusage(resource.RUSAGE_THREAD)
        faults = usage.ru_minflt + usage.ru_majflt
        times = time.perf_counter_ns(), time.thread_time_ns()
        return Counts(*times, waited, faults, usage.ru_nvcsw, usage.ru_nivcsw)

    def _end(self):
        if self._begun is not None and time.monotonic() > self._recording:
            self.cycles.append((self._counts().since(self._begun), tuple(self._called)))
        self._called.clear()

    def _on_collection(self, phase, info):
        if phase == "stop":
            self._called.append(f"collection {info['generation']}")

    def report(self) -> str:
        """The percentiles of the counts, and the long cycles by callback and one by one."""
        table = np.array([counts for counts, _ in self.cycles], dtype=float)
        if not len(table):
            return "no cycles"
        median = np.median(table, axis=0)
        lines = [f"{len(table)} cycles:       median       99 %       mean"]
        columns = median, np.percentile(table, 99, axis=0), table.mean(axis=0)
        for name, *row in zip(Counts._fields, *columns, strict=True):
            lines.append(f"  {name:12}" + "".join(f"{value:11.4g}" for value in row))
        by_length = np.argsort(-table[:, 0])
        long = [k for k in by_length if table[k, 0] > LONG * median[0]]
        own = sum(table[k, 1] > LONG * median[0] for k in long)
        lines.append(f"above {LONG} medians: {len(long)}, of these {own} on the processor for so long")
        usual = Counter(name for _, called in self.cycles for name in set(called))
        for name, count in Counter(name for k in long for name in set(self.cycles[k][1])).most_common():
            lines.append(f"  {count} of {usual[name]} with {name}")
        for k in by_length[:LISTED]:
            counts, called = self.cycles[k]
            times = ", ".join(f"{key} {1e-3 * getattr(counts, key):.0f} us" for key in Counts._fields[:3])
            events = ", ".join(f"{key} {getattr(counts, key)}" for key in Counts._fields[3:])
            lines.append(f"  {times}, {events}: {', '.join(called)}")
        return "\n".join(lines)


def main():
    path, module, *arguments = sys.argv[1:]
    sys.argv = [module, *arguments]
    entry, tracer = import_module(module), Tracer()

    def importing(name):  # the node forks its server of builds before it imports ROS
        imported = import_module(name)
        tracer.install()
        return imported

    if module == "dynamics_node.node.main":
        entry.import_module = importing
    else:
        tracer.install()
    code = entry.main()
    Path(path).write_text(tracer.report() + "\n")
    sys.exit(code)


if __name__ == "__main__":
    main()
