"""Tasks on a cluster by dask: one for every item, with errors that name it."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dynamics_node.errors import ChoiceError, Error, TableError
from dynamics_node.io.tables import require

TIMEOUT = 10.0  # s to connect


@contextlib.contextmanager
def connected(address: str) -> Iterator[Any]:
    """A distributed.Client of a scheduler, tcp://HOST:8786. Raises ChoiceError where none answers, and
    without a worker; TableError without distributed."""
    distributed = require("distributed")
    try:
        client = distributed.Client(address, timeout=TIMEOUT, set_as_default=False)
    except (OSError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise ChoiceError(f"no cluster at {address!r} ({reason}): start one with `dask scheduler`") from None
    with client, client.as_current():
        if not client.scheduler_info()["workers"]:
            raise ChoiceError(f"the cluster has no workers: start some with `dask worker {address}`")
        yield client


def mapped(
    client, function: Callable, items: Sequence, name: Callable[[Any], Any], finished=None, **shared
) -> list:
    """[function(item, **shared) for item in items], a task each. Tasks of workers that die are repeated.

    name(item): for errors; finished(result): called in the order in which tasks end; shared: what a worker
    gets once. The first error cancels all other tasks: an Error that has the name, else a TableError.
    """
    as_completed = require("distributed").as_completed
    futures = client.map(
        function, items, pure=False,
        **{key: client.submit(_same, value, pure=False) for key, value in shared.items()},
    )  # fmt: skip
    number = {future.key: k for k, future in enumerate(futures)}
    results: list[Any] = [None] * len(items)
    try:
        for future, result in as_completed(futures, with_results=True, raise_errors=False):
            k = number[future.key]
            if future.status != "finished":
                raise _named(future.exception(), str(name(items[k])))
            results[k] = result
            if finished is not None:
                finished(result)
    finally:
        client.cancel(futures)
    return results


def _same(value):
    """A task that has the value: dask repeats it where workers are lost."""
    return value


def _named(error, name):
    if isinstance(error, Error) and name in str(error):
        return error
    return TableError(f"{name}: {error}" if isinstance(error, Error) else f"{name}: {error!r}")
