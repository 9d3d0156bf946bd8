"""The fastest of several ways to compile a Program: measured once on this processor, noted in the cache."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from time import thread_time_ns

from dynamics_node.backends.c.library import compile_library, hash_here
from dynamics_node.backends.cache import read_entry, write_entry
from dynamics_node.backends.errors import CompileError

ROUNDS = 40  # of all ways in turn; of each the shortest time counts
CLEARLY = 0.98  # of the time of the first way: what another must stay below

Ways = dict[str, tuple[str, ...]]  # flags of the compiler by the names of the ways


def compile_fastest(
    identity: str, source: Callable[[], str], ways: Ways, trial: Callable[[str], Callable[[], object]]
) -> str:
    """Key of the library compiled in the fastest way, the first one unless another is clearly faster.

    identity, source: as of `compile_library`; trial: makes of a key a function that runs the library for some
    10 us. Raises CompileError.
    """
    note = f"{hash_here(identity, *ways)}.way"
    way = (read_entry(note) or b"").decode(errors="replace")
    if way not in ways:
        way = fastest({name: trial(key) for name, key in _compiled(identity, source, ways).items()})
        with suppress(CompileError):  # a full disk: another process will measure again
            write_entry(note, way.encode())
    return compile_library(identity, source, ways[way])


def fastest(trials: dict[str, Callable[[], object]]) -> str:
    """Name of the function that takes the least time."""
    times = dict.fromkeys(trials, float("inf"))
    for _ in range(ROUNDS):
        for name, run in trials.items():
            started = thread_time_ns()
            run()
            times[name] = min(times[name], thread_time_ns() - started)
    first, best = next(iter(times)), min(times, key=times.__getitem__)
    return best if times[best] < CLEARLY * times[first] else first


def _compiled(identity, source, ways):
    """Keys by the names of the ways; side by side, for the compiler is a process of its own."""
    text = source()
    with ThreadPoolExecutor(len(ways)) as pool:
        keys = {
            name: pool.submit(copy_context().run, compile_library, identity, lambda: text, flags)
            for name, flags in ways.items()
        }
        return {name: key.result() for name, key in keys.items()}
