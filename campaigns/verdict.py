"""Table and verdict of the attacks."""

from collections import defaultdict
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

STOP_LIMIT = 1.0  # s, to the answer of set_enabled false
WIDTH = 120  # characters, also without a terminal
COLUMNS = ("dead", "mute", "wrong", "stale", "stopped", "slow", "left")  # see Outcome.failures
EXPLAINED = {
    "dead": "the node ended, hung or ended with another exit code",
    "mute": "no right torques, although there was input",
    "wrong": "torques that differ from Pinocchio for their stamp",
    "stale": "torques of input older than joint_state_timeout",
    "stopped": "torques after the node replied that it is disabled",
    "slow": f"stops answered after more than {STOP_LIMIT:g} s of time on a core",
    "left": "processes that outlived the node",
}


@dataclass
class Outcome:
    """One draw: counts and texts of failures, number of torques, slowest stop (s)."""

    name: str
    draw: int
    failures: dict[str, int] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    torques: int = 0
    slowest: float = 0.0
    seconds: float = 0.0

    def fail(self, kind, words, count=1):
        """Count a failure."""
        self.failures[kind] = self.failures.get(kind, 0) + count
        self.words.append(f"{kind}: {words}")

    def take(self, report):
        """Add a report of the Watch."""
        self.torques += report.counts.get("torques", 0)
        for kind in ("wrong", "stale", "stopped"):
            if count := report.counts.get(kind, 0):
                first = next(finding.what for finding in report.findings if finding.kind == kind)
                self.fail(kind, first, count)
        stops = [*report.stops, report.waiting]
        self.slowest = max(self.slowest, *(took for took, _ in stops))
        slow = [seconds for _, seconds in stops if seconds > STOP_LIMIT]
        if slow:
            self.fail("slow", f"set_enabled false took {max(slow):.2f} s", len(slow))


def show(outcomes, seed):
    """Print the table and the failures. Returns whether there are none."""
    console = Console(width=WIDTH)
    table = Table(title=f"seed {seed}")
    table.add_column("attack", no_wrap=True)
    for column in ("draws", "torques", "slowest stop [s]", *COLUMNS):
        table.add_column(column, justify="right")
    by_name = defaultdict(list)
    for outcome in outcomes:
        by_name[outcome.name].append(outcome)
    for name, of_name in sorted(by_name.items()):
        table.add_row(name, *_cells(of_name))
    table.add_section()
    table.add_row("all", *_cells(outcomes))
    console.print(table)
    bad = [outcome for outcome in outcomes if outcome.failures]
    for outcome in bad:
        console.print(f"draw {outcome.draw}, {outcome.name}: {'; '.join(outcome.words)}", markup=False)
    for kind in COLUMNS:
        if any(kind in outcome.failures for outcome in bad):
            console.print(f"{kind}: {EXPLAINED[kind]}", style="dim", markup=False)
    return not bad


def _cells(outcomes):
    yield str(len(outcomes))
    yield str(sum(outcome.torques for outcome in outcomes))
    yield f"{max((outcome.slowest for outcome in outcomes), default=0.0):.2f}"
    for column in COLUMNS:
        count = sum(outcome.failures.get(column, 0) for outcome in outcomes)
        yield f"[red]{count}[/red]" if count else "0"
