"""What an attack is, and the list of all."""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from campaigns.target import Start, Target


class Attack(NamedTuple):
    """run(target, random) attacks a node that serves; start(target, random) says how that one is started,
    None: any node will do. started: run begins as soon as the process does, and says itself what must come of
    it. codes: with which the node may end."""

    name: str
    run: Callable[[Target, Random], None]
    start: Callable[[Target, Random], Start] | None
    started: bool
    codes: tuple[int, ...]


ATTACKS: dict[str, Attack] = {}


def attack(start=None, started=False, codes=(0,)):
    """Put a function into the table, by its name."""

    def enter(run):
        name = run.__name__.replace("_", " ").strip()
        ATTACKS[name] = Attack(name, run, start, started, codes)
        return run

    return enter
