"""Messages that waited on their way: those of a node that was stopped for a while, or starved."""

BUCKET = 1_000_000_000  # ns in which the slowest way counts as usual, twice
ENOUGH = 50_000_000  # ns beyond the slowest usual way that are no jitter


class Transit:
    """The way from publishers to the middleware, by its two stamps: when a message was published, and when it
    was received.

    While a process is stopped, messages wait in front of it; the middleware receives them when it goes on
    and calls them new. Clocks of two machines differ, so only how much longer than usual a message took
    says anything; where all take longer from one moment on, a clock was set, and they are usual soon.
    """

    def __init__(self):
        self._slowest: list[int | None] = [None, None]  # of this bucket and of the one before
        self._begun = 0
        self._refused = (0, 0)  # ns: since when, again and again, and when last

    def waited(self, published, received, now) -> int:
        """ns that a message took longer than usual, 0 for jitter or without stamps. published, received: of
        the clocks of both sides; now: of a steady one, all ns."""
        if published <= 0 or received <= 0:
            return 0
        took = received - published
        usual = max((slowest for slowest in self._slowest if slowest is not None), default=took)
        if took - usual > ENOUGH:
            since, last = self._refused
            self._refused = (now if now - last > BUCKET else since, now)
            if now - self._refused[0] < BUCKET:
                return took - usual
        self._note(took, now)
        return 0

    def _note(self, took, now):
        if now - self._begun >= BUCKET:
            self._slowest, self._begun = [None, self._slowest[0]], now
        slowest = self._slowest[0]
        self._slowest[0] = took if slowest is None else max(slowest, took)
