"""A long run in ordinary use: joint states at 1 kHz with changes of robots, payloads, solvers, parameters and
publishers, and service calls. Every torque is checked, and memory must not grow. See
docs/how-to/campaigns.md."""

import argparse
import secrets
import signal
import sys
import time
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parents[1]
sys.path[:1] = [
    str(ROOT),
    str(ROOT / "test" / "support"),
]  # not this folder: its `numbers` would shadow that of Python

import numpy as np
from rich.console import Console
from rich.table import Table

from campaigns.changes import Changes
from campaigns.target import Dead, Mute, Start, Target

RATE = 1000.0  # Hz
SAMPLE = 2.0  # s between samples of memory
FLAT = 1.0  # MB in 10 minutes: largest growth of memory over the second half
SHORTEST = 580.0  # s, for the growth to exceed its noise
LEAST = 0.2  # fraction of states with a torque: busy cores answer only the newest
COLUMNS = ("minute", "states", "torques", "wrong", "stale", "p50 [ms]", "p99 [ms]", "p99.9 [ms]", "max [ms]")


class Soak:
    """Measurements: one row per minute, and samples of memory (s, MB)."""

    def __init__(self, seed, rate):
        self.random = Random(seed)
        self.target = Target(rate)
        self.memory: list[tuple[float, float]] = []
        self.rows: list[tuple] = []
        self.totals = dict.fromkeys(("states", "torques", "wrong", "stale"), 0)
        self.failures: list[str] = []

    def run(self, seconds, minute=60.0):
        """Run changes for some time."""
        target = self.target
        target.start(Start(robot="panda"))
        try:
            target.serves()
            target.watch.report()
            changes = Changes(target, self.random)
            began = time.monotonic()
            row, sample = began + minute, began
            while (now := time.monotonic()) < began + seconds:
                changes.step()
                if now >= sample:
                    self.memory.append((now - began, self._memory()))
                    sample = now + SAMPLE
                if now >= row:
                    self._close_minute()
                    row = now + minute
            self._close_minute()
            self.failures += changes.failures
        except (Dead, Mute) as reason:
            self.failures.append(
                f"{type(reason).__name__.lower()}: {reason}; {target.process.output()[-300:]}"
            )
        self._end()

    def _end(self):
        code, left = self.target.stop(signal.SIGTERM)
        if code != 0:
            self.failures.append(f"exit code {code}")
        if left:
            self.failures.append(f"left behind: {', '.join(left)}")
        self.target.close()

    def _close_minute(self):
        """Add a row to the table."""
        report = self.target.watch.report()
        counts = (report.sent, *(report.counts.get(kind, 0) for kind in ("torques", "wrong", "stale")))
        for kind, count in zip(self.totals, counts, strict=True):
            self.totals[kind] += count
        latencies = [1e3 * report.percentiles[p] for p in (50, 99, 99.9, 100)]
        files = len(list(self._proc("fd").iterdir()))
        self.rows.append((len(self.rows) + 1, *counts, *latencies, self._memory(), files))
        self.failures += [f"{finding.kind}: {finding.what}" for finding in report.findings]

    def _memory(self):
        """Resident memory of the node, MB."""
        line = next(line for line in self._proc("status").read_text().splitlines() if "VmRSS" in line)
        return int(line.split()[1]) / 1024

    def _proc(self, name):
        if not self.target.alive:
            raise Dead("the node has ended")
        return Path("/proc") / str(self.target.pid) / name

    def growth(self):
        """MB in 10 minutes: the slope of memory over the second half."""
        times, sizes = np.array(self.memory).T
        late = times > times[-1] / 2
        return 600 * float(np.polyfit(times[late], sizes[late], 1)[0])

    @property
    def long(self):
        """Whether the run is long enough for the growth of memory to exceed its noise."""
        return bool(self.memory) and self.memory[-1][0] >= SHORTEST


def verdict(soak):
    """Reasons of a failed run; empty for a passed one."""
    reasons = list(soak.failures)
    if soak.totals["torques"] < LEAST * soak.totals["states"]:
        reasons.append(f"{soak.totals['torques']} torques for {soak.totals['states']} states")
    if soak.long and soak.growth() > FLAT:
        reasons.append(f"memory grows by {soak.growth():.1f} MB in 10 minutes")
    return reasons


def show(soak, reasons):
    """Print the minutes and the verdict."""
    table = Table(*(*COLUMNS, "memory [MB]", "open files"))
    for row in soak.rows:
        table.add_row(*(f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in row))
    console = Console(width=120)
    console.print(table)
    totals = ", ".join(f"{count} {kind}" for kind, count in soak.totals.items())
    growth = f"memory grows by {soak.growth():.2f} MB in 10 minutes" if soak.memory else "no memory"
    console.print(
        f"{totals}; {growth}{'' if soak.long else ' (not checked: the run is too short)'}", markup=False
    )
    for reason in reasons[:20]:
        console.print(f"FAILED: {reason}", markup=False)
    console.print("FAILED" if reasons else "PASSED", style="red" if reasons else "green")


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="campaign soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None, help="seed of the changes (default: random)")
    parser.add_argument("--rate", type=float, default=RATE, help="rate of joint states, Hz")
    options = parser.parse_args(arguments)
    seed = secrets.randbelow(10**6) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    soak = Soak(seed, options.rate)
    soak.run(60 * options.minutes)
    reasons = verdict(soak)
    show(soak, reasons)
    return 1 if reasons else 0


if __name__ == "__main__":
    sys.exit(main())
