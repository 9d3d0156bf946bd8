"""The type Attack, and the table of all attacks."""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from campaigns.target import Start, Target


class Attack(NamedTuple):
    """run(target, random) attacks a serving node; start(target, random) returns its Start, None for any node.
    started: run begins with the process and checks the result itself. codes: valid exit codes."""

    name: str
    run: Callable[[Target, Random], None]
    start: Callable[[Target, Random], Start] | None
    started: bool
    codes: tuple[int, ...]


ATTACKS: dict[str, Attack] = {}


def attack(start=None, started=False, codes=(0,)):
    """Add a function to the table by its name."""

    def enter(run):
        name = run.__name__.replace("_", " ").strip()
        ATTACKS[name] = Attack(name, run, start, started, codes)
        return run

    return enter
