"""Work on parts of a batch by several threads, where that is worth waking them."""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache

# Operations per additional thread; waking one costs about 100 us, in which a core does 3 million of them.
WORTH_A_THREAD = 8_000_000
BLOCK = 16  # states; threads split the batch at multiples of the widest vector, 16 numbers of float32


def threads_worth(operations, most=None):
    """As many threads as the work is worth, by default at most one a core."""
    worth = operations // WORTH_A_THREAD
    return min(most or _cores(), worth) if worth > 1 else 1


def in_parts(count, threads, work):
    """The least of work(start, stop) over parts of count states, one a thread. The interpreter lock must be
    free while it works."""
    first, *others = _parts(count, threads)
    at_work = [_pool().submit(work, *part) for part in others]
    return min([work(*first), *(part.result() for part in at_work)])


def _parts(count, number):
    """(start, stop) of about equal parts, whole blocks each but the last."""
    size = max(1, -(-count // (number * BLOCK))) * BLOCK
    return [(start, min(start + size, count)) for start in range(0, max(1, count), size)]


def _cores():
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool():
    return ThreadPoolExecutor(_cores(), thread_name_prefix="dynamics_batch")


os.register_at_fork(after_in_child=_pool.cache_clear)  # a forked child has none of the threads
