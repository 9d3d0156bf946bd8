"""Shared by all benchmarks: rows with ratios, a table, a JSON file, a description of the machine."""

import argparse
import json
import os
import platform
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).parent


@dataclass
class Row:
    """One figure and its peer's. ratio = value / peer_value; ok: the target is met (None: no target)."""

    name: str
    value: float | None
    unit: str
    better: str
    peer: str = ""
    peer_value: float | None = None
    ratio: float | None = None
    target: float | None = None
    ok: bool | None = None
    reason: str = ""

    def __post_init__(self):
        if self.value is not None and self.peer_value:
            self.ratio = self.value / self.peer_value
        judged = self.ratio if self.peer else self.value
        if self.target is not None and judged is not None:
            self.ok = bool(judged <= self.target if self.better == "lower" else judged >= self.target)


def machine():
    model = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.processor(),
    )
    return {"cpu": model, "cores": os.cpu_count(), "system": platform.platform(terse=True)}


def versions(*packages):
    numbers = {"python": platform.python_version()}
    for package in packages:
        try:
            numbers[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            numbers[package] = "absent"
    return numbers


def print_table(rows):
    print(
        f"{'name':46} {'value':>10} {'unit':6} {'peer':24} {'peer value':>10} {'ratio':>7} {'target':>7}  ok"
    )
    for r in rows:
        ok = {True: "yes", False: "NO", None: "-"}[r.ok]
        print(
            f"{r.name:46} {_number(r.value):>10} {r.unit:6} {r.peer:24} {_number(r.peer_value):>10} "
            f"{_number(r.ratio):>7} {_number(r.target):>7}  {ok} {r.reason}"
        )


def _number(x):
    return "" if x is None else f"{x:.4g}"


def arguments(name):
    parser = argparse.ArgumentParser(prog=name)
    parser.add_argument("--save", action="store_true", help="write the JSON file to benchmarks/results/")
    return parser


def content(rows, package_versions):
    """What the JSON file of a benchmark holds."""
    return {"machine": machine(), "versions": package_versions, "rows": [asdict(row) for row in rows]}


def finish(name, rows, package_versions, save, **more):
    """Print the rows and write NAME.json, with additional entries `more`."""
    print_table(rows)
    folder = HERE / "results" if save else HERE
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(content(rows, package_versions) | more, indent=1) + "\n")
    print(f"written: {path.relative_to(HERE.parent)}")
