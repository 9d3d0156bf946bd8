"""gpu.json, written anew whenever something is known: what a cut leaves is what was done."""

import json
import time
from pathlib import Path


class Record:
    """parts: {name: value} of JSON. `rows` of a part are kept as they come."""

    def __init__(self, path, **parts):
        self.path = Path(path)
        self.parts = dict(parts)
        self.began = time.monotonic()

    def put(self, name, value):
        self.parts[name] = value
        self._write()

    def add(self, name, row):
        """One row more of a part, printed too."""
        self.parts.setdefault(name, []).append(row)
        self._write()
        print(f"{time.monotonic() - self.began:6.0f} s  {name}: {_line(row)}", flush=True)

    def _write(self):
        beside = self.path.with_suffix(".part")
        beside.write_text(json.dumps(self.parts, indent=1) + "\n")
        beside.replace(self.path)


def _line(row):
    shown = {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in row.items()}
    return ", ".join(f"{key} {value}" for key, value in shown.items() if value is not None)
