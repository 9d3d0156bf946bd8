"""Tasks on a cluster by dask: one for every item, with errors that name it."""

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dynamics_node.errors import ChoiceError, Error, TableError
from dynamics_node.io.tables import RecordingWarning, require

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
    with client:
        if not client.scheduler_info()["workers"]:
            raise ChoiceError(f"the cluster has no workers: start some with `dask worker {address}`")
        yield client


class Tasks:
    """Tasks of a distributed.Client. Its RecordingWarnings are those of the tasks, once each."""

    def __init__(self, client):
        self._client, self._warned = client, set[str]()

    def map(
        self, function: Callable, items: Sequence, name: Callable[[Any], Any], finished=None, **shared
    ) -> Iterator[Any]:
        """function(item, **shared) of all items in order, a task each. Tasks of workers that die are
        repeated.

        name(item): for errors; finished(result): called in the order in which tasks end; shared: what a
        worker gets once. The first error cancels all other tasks: an Error that has the name, else a
        TableError.
        """
        as_completed = require("distributed").as_completed
        values = {key: self._client.submit(_same, value, pure=False) for key, value in shared.items()}
        futures = self._client.map(_task, items, function=function, pure=False, **values)
        number = {future.key: k for k, future in enumerate(futures)}
        ended = as_completed(futures, loop=self._client.loop, with_results=True, raise_errors=False)
        results, given = dict[int, Any](), 0
        try:
            for future, result in ended:
                k = number[future.key]
                if future.status != "finished":
                    raise _named(future.exception(), str(name(items[k])))
                results[k], texts = result
                future.release()
                self._warn(texts)
                if finished is not None:
                    finished(results[k])
                while given in results:
                    yield results.pop(given)
                    given += 1
        finally:
            self._client.cancel(futures)

    def _warn(self, texts):
        for text in texts:
            if text not in self._warned:
                warnings.warn(text, RecordingWarning, stacklevel=3)
            self._warned.add(text)


def _task(item, function, **shared):
    """The result, and texts of RecordingWarnings."""
    given = {key: value for key, (value,) in shared.items()}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RecordingWarning)
        result = function(item, **given)
    return result, [str(one.message) for one in caught if issubclass(one.category, RecordingWarning)]


def _same(value):
    """A task that has the value: dask repeats it where workers are lost. Workers send the types of results,
    and those of compiled functions are not pickled."""
    return (value,)


def _named(error, name):
    if isinstance(error, Error) and name in str(error):
        return error
    return TableError(f"{name}: {error}" if isinstance(error, Error) else f"{name}: {error!r}")
