"""A bar on a terminal, where rich is installed."""

import contextlib
import sys

try:
    from rich.progress import Progress
except ImportError:  # an extra: without it there is no bar
    Progress = None  # type: ignore[assignment,misc]


@contextlib.contextmanager
def progress(what, total):
    """advance(count of what is done more). total: None if only the end tells."""
    if Progress is None or not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console

    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.advance(task, done)
