"""Output of a command: text, or one JSON object."""

import contextlib
import json
import math
import os
import sys
from pathlib import Path

import numpy as np

from dynamics_node.text import printable

try:
    from rich.progress import Progress
except ImportError:  # optional: without it there is no progress bar
    Progress = None  # type: ignore[assignment,misc]


def say(text, stream):
    """Print a line, `printable`. If its reader has closed the stream, this and all later text goes nowhere: a
    command completes, and writes its files, without it."""
    try:
        print(printable(text), file=stream, flush=True)
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


class Printer:
    """Results on stdout, notes and progress on stderr.

    With `--json`, stdout has one object of what `data` collected, and no lines. With `--quiet`, there are no
    notes, no progress and no names of written files.
    """

    def __init__(self, as_json=False, quiet=False):
        self._as_json, self._quiet = as_json, quiet
        self._data: dict[str, object] = {}

    def line(self, text=""):
        """A line of the result."""
        if not self._as_json:
            say(text, sys.stdout)

    def table(self, head, rows):
        """Lines of cells, texts or numbers, in columns: the first one aligned to the left."""
        cells = [[cell if isinstance(cell, str) else f"{cell:.4g}" for cell in row] for row in (head, *rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for first, *rest in cells:
            right = (f"{cell:>{width}}" for cell, width in zip(rest, widths[1:], strict=True))
            self.line("  ".join([f"{first:{widths[0]}}", *right]).rstrip())

    def data(self, **values):
        """Entries of the JSON object."""
        self._data |= values

    def note(self, text):
        """A remark on stderr."""
        if not self._quiet:
            say(f"dynamics: {text}", sys.stderr)

    def written(self, path):
        """The name of a file that now exists."""
        files = self._data.setdefault("written", [])
        assert isinstance(files, list)
        files.append(str(path))
        if not self._quiet:
            self.line(f"written: {path}")

    @contextlib.contextmanager
    def progress(self, stage, total=None):
        """A bar on a terminal; yields advance(steps). total: None if only the end is known."""
        if Progress is None or self._quiet or not sys.stderr.isatty():
            yield lambda steps: None
            return
        from rich.console import Console

        with Progress(console=Console(stderr=True)) as bar:
            task = bar.add_task(stage, total=total)
            yield lambda steps: bar.advance(task, steps)

    def close(self):
        """Print the JSON object, if one was requested."""
        if self._as_json:
            say(json.dumps(_plain(self._data), indent=2), sys.stdout)


def _plain(value):
    """The value as JSON has it: lists for arrays, null for numbers that are not finite."""
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value
