"""The fastest of several ways to compile a Program: measured once on this processor, noted in the cache."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from time import thread_time_ns
from typing import NamedTuple

from dynamics_node.codegen.c.shared_library import compile_library, hash_here
from dynamics_node.codegen.cache import read_entry, write_entry
from dynamics_node.codegen.errors import CompileError

ROUNDS = 40  # of all ways in turn; of each the shortest time counts
CLEARLY = 0.98  # of the time of the first way: what another must stay below


_untuned = ContextVar("untuned", default=False)


@contextmanager
def untuned():
    """Inside, of a Program that was not measured before only the first way is compiled."""
    token = _untuned.set(True)
    try:
        yield
    finally:
        _untuned.reset(token)


class Way(NamedTuple):
    """identity, source, flags: as of `compile_library`."""

    identity: str
    source: Callable[[], str]
    flags: tuple[str, ...] = ()


def compile_fastest(ways: dict[str, Way], trial: Callable[[str], Callable[[], object]]) -> str:
    """Key of the library compiled in the fastest of the ways, by their names: the first one unless another is
    clearly faster, or `untuned`.

    trial: makes of a key a function that runs the library for some 10 us. Raises CompileError.
    """
    if len(ways) == 1:
        return compile_library(*next(iter(ways.values())))
    note = f"{hash_here(*(part for name, way in ways.items() for part in (name, way.identity)))}.way"
    chosen = (read_entry(note) or b"").decode(errors="replace")
    if chosen not in ways and _untuned.get():
        chosen = next(iter(ways))
    elif chosen not in ways:
        chosen = fastest({name: trial(key) for name, key in _compiled(ways).items()})
        with suppress(CompileError):  # a full disk: another process will measure again
            write_entry(note, chosen.encode())
    return compile_library(*ways[chosen])


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


def _compiled(ways):
    """Keys by the names of the ways; side by side, for the compiler is a process of its own."""
    with ThreadPoolExecutor(len(ways)) as pool:
        keys = {name: pool.submit(copy_context().run, compile_library, *way) for name, way in ways.items()}
        return {name: key.result() for name, key in keys.items()}
