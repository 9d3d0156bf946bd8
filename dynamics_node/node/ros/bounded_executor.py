"""An executor without a queue: pending messages stay in the middleware, where QoS bounds them."""

import time
from itertools import chain

from rclpy.context import Context
from rclpy.exceptions import InvalidHandle
from rclpy.executors import Executor, ExternalShutdownException
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy
from rclpy.utilities import timeout_sec_to_nsec

EVENTS_PERIOD = 1.0  # s between checks of QoS events, which only log warnings
MOST = 100  # messages of one subscription in a turn, for any depth
SHARE = 0.005  # s of processor time of one subscription in a turn


class TurnExecutor(Executor):
    """Each turn waits, answers one request of each service, calls the due timers, and then empties the
    subscriptions in the order of their creation.

    rclpy's EventsExecutor queues an event for every message, without a bound. If a message takes longer than
    the period, its input becomes ever older, and timers and services wait behind it. Here the QoS depths and
    SHARE bound the length of a turn, and nothing waits longer than a turn. rclpy's SingleThreadedExecutor is
    bounded too, but creates a wait set and a Task for every callback. This one keeps the wait set until
    entities are created or destroyed. Callbacks must not await.

    problem(what, error) is called with exceptions of callbacks; the turn continues.
    """

    def __init__(self, problem, *, context: Context | None = None):
        super().__init__(context=context)
        self._problem = problem
        self._wait_set = None
        self._events_due = 0.0

    def wake(self):
        """Begin a turn; entities may have been created or destroyed. Callable from every thread."""
        self._wait_set = None
        super().wake()

    def add_node(self, node):
        self._wait_set = None
        return super().add_node(node)

    def remove_node(self, node):
        self._wait_set = None
        super().remove_node(node)

    def spin_once(self, timeout_sec: float | None = None):
        """One turn; without work it ends after the timeout (None: never)."""
        wait_set = self._wait_set or self._gather()
        try:
            self._wait(wait_set, timeout_sec)
        except InvalidHandle:  # an entity was destroyed without a notification
            self._wait_set = None
            return
        for kind, take in self._kinds.items():
            for pointer in wait_set.get_ready_entities(kind):
                if (entity := self._entities[kind].get(pointer)) is not None:
                    self._serve(entity, take, self._depth.get(pointer, 1))
        if time.monotonic() >= self._events_due:
            self._handle_events()

    def spin_once_until_future_complete(self, future, timeout_sec=None):
        """One turn; the future wakes it."""
        future.add_done_callback(lambda _: self.wake())
        self.spin_once(getattr(timeout_sec, "timeout", timeout_sec))

    def _gather(self):
        """The wait set of all current entities."""
        nodes = self.get_nodes()
        entities = {
            "service": [s for node in nodes for s in node.services],
            "client": [c for node in nodes for c in node.clients],
            "timer": [t for node in nodes for t in node.timers],
            "guard_condition": [g for node in nodes for g in node.guards],
            "subscription": [s for node in nodes for s in node.subscriptions],
        }
        self._kinds = {
            "service": self._take_service,
            "client": self._take_client,
            "timer": self._take_due_timer,
            "guard_condition": self._take_guard_condition,
            "subscription": self._take_subscription,
        }
        self._handles = {kind: [entity.handle for entity in own] for kind, own in entities.items()}
        self._entities = {kind: {e.handle.pointer: e for e in own} for kind, own in entities.items()}
        self._depth = {s.handle.pointer: _depth(s.qos_profile) for s in entities["subscription"]}
        self._handles["guard_condition"] += [self._guard.handle, self._sigint_gc.handle]
        self._wait_set = wait_set = _wait_set(self._context, self._handles)
        return wait_set  # another thread may have reset the attribute

    def _wait(self, wait_set, timeout_sec):
        wait_set.clear_entities()
        for kind, handles in self._handles.items():
            add = getattr(wait_set, f"add_{kind}")
            for handle in handles:
                add(handle)
        wait_set.wait(timeout_sec_to_nsec(timeout_sec))
        if not self._context.ok():
            raise ExternalShutdownException

    def _serve(self, entity, take, most):
        """Serve an entity up to `most` times within its SHARE."""
        end = time.thread_time() + SHARE
        for _ in range(most):
            try:
                execute = take(entity)
                if execute is None:
                    return
                _finish(execute())
            except Exception as error:
                self._problem(_name(entity), error)
            if time.thread_time() >= end:
                return

    def _handle_events(self):
        """Handle QoS events, which warn of incompatible QoS: 20 entities that every turn can omit."""
        self._events_due = time.monotonic() + EVENTS_PERIOD
        events = list(chain.from_iterable(node.waitables for node in self.get_nodes()))
        if not events:
            return
        wait_set = _wait_set(self._context, {}, sum(e.get_num_entities().num_events for e in events))
        added = [event for event in events if _add_event(event, wait_set)]
        wait_set.wait(0)
        for event in added:
            if event.is_ready(wait_set):
                _finish(event.execute(event.take_data()))

    def _take_due_timer(self, timer):
        """The callback of a timer, None if a callback of the same turn canceled or reset it."""
        try:
            with timer.handle:
                due = timer.handle.is_timer_ready()
        except InvalidHandle:
            return None
        return self._take_timer(timer) if due else None


def _wait_set(context, handles, events=0):
    kinds = ("subscription", "guard_condition", "timer", "client", "service")
    counts = [len(handles.get(kind, ())) for kind in kinds]
    with context.handle:
        return _rclpy.WaitSet(*counts, events, context.handle)


def _add_event(event, wait_set):
    """Add an event to the wait set; False if its entity was destroyed."""
    try:
        event.add_to_wait_set(wait_set)
    except InvalidHandle:
        return False
    return True


def _depth(qos):
    return min(qos.depth or MOST, MOST)


def _finish(coroutine):
    """Run a coroutine that does not await."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    coroutine.close()
    raise TypeError("the callback awaits: use another executor")


def _name(entity):
    return next(
        (getattr(entity, key) for key in ("srv_name", "topic") if hasattr(entity, key)), type(entity).__name__
    )
