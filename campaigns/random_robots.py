"""Random robots against independent references, for a limited time.

Trees, mechanisms, linkages with several assemblies, linkages drawn open, damaged files, and stops of known
robots, together and on paths, alternate. The printed seed determines all robots: number k of seed s is always
the same. Failures are written to a folder with the command that reproduces them.
"""

import argparse
import importlib
import os
import tempfile
import time
import traceback
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

KINDS = ("trees", "mechanisms", "assemblies", "open_loops", "damaged_files", "stops", "path_stops")
FAILURES = ("SILENT ERROR", "FALSELY REFUSED", "CRASH")


class Result(NamedTuple):
    """Result of robot `number` of a kind; verdict: its kind, a colon and the reason."""

    kind: str
    number: int
    name: str
    text: str
    verdict: str

    @property
    def word(self):
        return self.verdict.partition(":")[0]


def main(arguments=None):
    """Run the campaign. Exit code: 1 after a failure."""
    options = _options(arguments)
    seed = options.seed if options.seed is not None else int.from_bytes(os.urandom(4), "big")
    console = Console()
    console.print(f"seed {seed}, {options.workers} workers, at most {options.minutes:g} minutes")
    deadline = time.monotonic() + 60 * options.minutes
    counts: Counter = Counter()
    folder = None
    with _progress(console) as progress:
        task = progress.add_task("", total=None, counts="starting")
        for result in _results(seed, options, deadline):
            counts[result.kind, result.word] += 1
            progress.update(task, counts=_line(counts))
            if result.word in FAILURES:
                folder = folder or Path(tempfile.mkdtemp(prefix=f"numbers-{seed}-", dir=options.folder))
                _write(folder, seed, result)
                progress.console.print(f"{result.kind} {result.number}: {result.verdict}", markup=False)
    console.print(_line(counts) or "no robots")
    if folder is not None:
        console.print(f"failures, with their descriptions: {folder}", markup=False)
    return int(any(counts[kind, word] for kind in KINDS for word in FAILURES))


def _options(arguments):
    parser = argparse.ArgumentParser(prog="numbers", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0, help="time limit")
    parser.add_argument("--seed", type=int, help="seed of all robots (default: random)")
    parser.add_argument("--count", type=int, help="largest number of robots of each kind")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="kinds of robots")
    parser.add_argument("--first", type=int, default=0, help="number of the first robot")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", default=None, help="parent of the folder of failures")
    return parser.parse_args(arguments)


def _progress(console):
    columns = (SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.fields[counts]}", markup=False))
    return Progress(*columns, console=console, refresh_per_second=2)


def _line(counts):
    """Counts of verdicts so far."""
    parts = []
    for kind in KINDS:
        own = {word: n for (k, word), n in sorted(counts.items()) if k == kind}
        if own:
            parts.append(f"{kind} {sum(own.values())}: {', '.join(f'{n} {word}' for word, n in own.items())}")
    return "; ".join(parts)


def _results(seed, options, deadline):
    """Results in order of completion, with two pending robots per worker."""
    robots = _numbered(options)
    with ProcessPoolExecutor(options.workers) as pool:
        pending = set()
        while True:
            while len(pending) < 2 * options.workers and time.monotonic() < deadline:
                robot = next(robots, None)
                if robot is None:
                    break
                pending.add(pool.submit(tried, seed, *robot))
            if not pending:
                return
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()


def _numbered(options):
    """(kind, number) of all robots, with alternating kinds."""
    number = options.first
    while options.count is None or number < options.first + options.count:
        for kind in options.kinds:
            yield kind, number
        number += 1


def tried(seed, kind, number) -> Result:
    """Draw a robot and check it."""
    module = importlib.import_module(f"campaigns.{kind}")
    case = module.draw(np.random.default_rng([seed, KINDS.index(kind), number]))
    try:
        verdict = module.check(case)
    except Exception:
        verdict = f"CRASH: {traceback.format_exc()}"
    return Result(kind, number, case.name, case.text, verdict)


def _write(folder, seed, result):
    """Write the description and the command that reproduces the failure."""
    stem = f"{result.kind}-{result.number}"
    (folder / f"{stem}.urdf").write_text(result.text, encoding="utf-8")
    again = f"--seed {seed} --kinds {result.kind} --first {result.number} --count 1"
    lines = [result.name, result.verdict, f"python campaigns/numbers.py {again}"]
    (folder / f"{stem}.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")
