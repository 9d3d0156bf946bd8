"""`./dev gpu save`: what a device has measured, checked and kept in benchmarks/results/gpu.json; and read
from there."""

import json
from pathlib import Path
from typing import NamedTuple

from gpu_bundle import FOLDER
from gpu_predict import digest

RESULTS = Path(__file__).parent / "results" / "gpu.json"
_NEEDED = ("device", "ceilings", "bits", "times")


class Measured(NamedTuple):
    """run: gpu.json of a device, as gpu_day/run.py wrote it."""

    run: dict

    @property
    def device(self):
        """Its name."""
        return self.run["device"]["name"]

    def rate(self, text, card):
        """States a second of the kernel with this text on a card, at the count where most are done; None
        where that card or this text did not run."""
        if card not in self.device:
            return None
        rates = [
            row["states_per_second"]
            for row in self.run["times"]
            if row["digest"] == digest(text) and "states_per_second" in row
        ]
        return max(rates, default=None)


def read(path=RESULTS):
    """Measured, None where no device has run."""
    run = json.loads(path.read_text()).get("run") if path.is_file() else None
    return Measured(run) if run else None


def taken(folder=FOLDER):
    """The Measured of a bundle that has run. Raises SystemExit that says what is wrong with it."""
    path, index = folder / "gpu.json", folder / "kernels.json"
    if not index.is_file():
        raise SystemExit(f"no bundle in {folder}: ./dev gpu bundle")
    if not path.is_file():
        raise SystemExit(
            f"no {path}: run python3 {folder}/run.py on a machine with a GPU, and bring gpu.json back here"
        )
    run = json.loads(path.read_text())
    if run.get("bundle") != json.loads(index.read_text())["digest"]:
        raise SystemExit(f"{path} is of another bundle than the one in {folder}")
    if missing := [part for part in _NEEDED if not run.get(part)]:
        raise SystemExit(f"{path} is without {', '.join(missing)}: nothing is kept")
    wrong = [row["kernel"] for row in run["bits"] if not row["ok"]]
    wrong += [f"chain of {row['links']}" for row in run.get("chains", ()) if not row["ok"]]
    if wrong:
        raise SystemExit(f"kernels with wrong results, of which no rate is worth keeping: {', '.join(wrong)}")
    if not run.get("complete"):
        print("the run was cut: what it did is kept")
    return Measured(run)
