"""An executor without a queue: pending messages stay in the middleware, where QoS bounds them."""

import contextlib
import time
import warnings
from collections import defaultdict, deque
from inspect import iscoroutine
from itertools import chain
from typing import Any, NamedTuple

from rclpy.context import Context
from rclpy.exceptions import InvalidHandle
from rclpy.executors import Executor, ExternalShutdownException
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy
from rclpy.qos import QoSProfile
from rclpy.service import Service
from rclpy.utilities import timeout_sec_to_nsec

REQUESTS = QoSProfile(depth=1000)  # of services; the middleware drops the oldest of more, without a reply
MOST_WAITING = 100  # requests of a service that wait for an answer; the reply to others is a failure
EVENTS_PERIOD = 5.0  # s between checks of QoS events, which only log warnings
MOST = 100  # messages of one subscription in a turn, for any depth
SHARE = 0.005  # s of processor time of one subscription in a turn
RETRIES, RETRY_PERIOD = 4, 1.0  # of a reply whose client the middleware has not discovered yet
UNDISCOVERED = "failed to send response"  # the warning of rclpy after 0.1 s of waiting for the client
AWAITS = "the callback awaits: use another executor"


class TurnExecutor(Executor):
    """Each turn waits, answers one request of each service, calls the due timers, and then empties the
    subscriptions in the order of their creation.

    Every request has a reply: a turn takes the requests of a service from the middleware, in `share` s of
    processor time. MOST_WAITING of them wait for their turn, others are rejected at once. A request may
    arrive before the middleware has discovered the reader of its reply (ros2/rmw_fastrtps#842); the reply is
    then sent again, RETRIES times.

    rclpy's EventsExecutor queues an event for every message, without a bound. If a message takes longer than
    the period, its input becomes ever older, and timers and services wait behind it. Here the QoS depths and
    SHARE bound the length of a turn, and nothing waits longer than a turn. rclpy's SingleThreadedExecutor is
    bounded too, but creates a wait set and a Task for every callback. This one keeps the wait set until
    entities are created or destroyed. Callbacks must not await.

    problem(what, error) is called with exceptions of callbacks; the turn continues.
    """

    def __init__(self, problem, *, share: float = SHARE, context: Context | None = None):
        super().__init__(context=context)
        self._problem, self._share = problem, share
        self._waiting: dict[int, deque] = defaultdict(deque)  # of services: requests with their headers
        self._unsent: deque[_Reply] = deque()
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
        if self._unsent and time.monotonic() >= self._unsent[0].due:
            self._send(self._unsent.popleft())
        if time.monotonic() >= self._events_due:
            self._handle_events()
        wait_set = self._wait_set or self._gather()
        try:
            self._wait(wait_set, self._longest_wait(timeout_sec))
        except InvalidHandle:  # an entity was destroyed without a notification
            self._wait_set = None
            return
        self._answer(wait_set.get_ready_entities("service"))
        for kind, take in self._kinds.items():
            for pointer in wait_set.get_ready_entities(kind):
                if (entity := self._entities[kind].get(pointer)) is not None:
                    self._serve(entity, take, self._depth.get(pointer, 1))

    def _longest_wait(self, timeout_sec):
        """s until requests or replies of earlier turns are due, at most the timeout."""
        if any(self._waiting.values()):
            return 0
        if self._unsent:
            left = max(0.0, self._unsent[0].due - time.monotonic())
            return left if timeout_sec is None else min(left, timeout_sec)
        return timeout_sec

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
            "client": self._take_client,
            "timer": self._take_due_timer,
            "guard_condition": self._take_guard_condition,
            "subscription": self._take_subscription,
        }
        self._handles = {kind: [entity.handle for entity in group] for kind, group in entities.items()}
        self._entities = {kind: {e.handle.pointer: e for e in group} for kind, group in entities.items()}
        self._depth = {s.handle.pointer: _depth(s.qos_profile) for s in entities["subscription"]}
        for gone in self._waiting.keys() - self._entities["service"].keys():
            del self._waiting[gone]
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

    def _answer(self, ready):
        """Take the requests of the services that are ready, and answer one of each service."""
        for pointer, service in self._entities["service"].items():
            waiting = self._waiting[pointer]
            try:
                if pointer in ready:
                    self._take_requests(service, waiting)
                if waiting:
                    request, header = waiting.popleft()
                    if (response := self._response(service, request)) is not None:
                        self._send(_Reply(service, response, header))
            except InvalidHandle:  # a callback of the same turn destroyed it
                waiting.clear()
            except Exception as error:
                self._problem(_name(service), error)

    def _take_requests(self, service, waiting):
        """Take requests within `share`. Those of services without a failure in their response, which are
        those of parameters, wait in the middleware."""
        busy = _failure(service, f"busy: {MOST_WAITING} requests wait for an answer; call again later")
        most, end = 1 if busy is None else MOST_WAITING, time.thread_time() + self._share
        while busy is not None or len(waiting) < most:
            with service.handle:
                request, header = service.handle.service_take_request(service.srv_type.Request)
            if header is None:
                return
            if len(waiting) < most:
                waiting.append((request, header))
            else:
                self._send(_Reply(service, busy, header))
            if time.thread_time() >= end:
                return

    def _send(self, reply):
        """Send a reply, or keep it for later if its client is not discovered yet."""
        with warnings.catch_warnings(record=True) as caught, contextlib.suppress(InvalidHandle):
            warnings.simplefilter("always")
            reply.service.send_response(reply.response, reply.header)
        if not any(UNDISCOVERED in str(warning.message) for warning in caught):
            return
        if reply.tries < RETRIES:
            later = reply._replace(tries=reply.tries + 1, due=time.monotonic() + RETRY_PERIOD)
            self._unsent.append(later)
        else:
            lost = TimeoutError("a reply was lost: the middleware has not discovered its client")
            self._problem(_name(reply.service), lost)

    def _response(self, service, request):
        """Response of the callback; a failure after an exception, None if its type has none."""
        try:
            response = service.callback(request, service.srv_type.Response())
            if iscoroutine(response):
                response.close()
                raise TypeError(AWAITS)
        except Exception as error:
            self._problem(_name(service), error)
            return _failure(service, f"internal error, see the log: {type(error).__name__}")
        return response

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
        """Handle QoS events, which warn of incompatible QoS: 20 entities that every turn can omit. It takes
        up to a millisecond, and so precedes the wait for the next messages."""
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


class _Reply(NamedTuple):
    """A response and its address; due: the time of the next try."""

    service: Service
    response: Any
    header: Any
    tries: int = 0
    due: float = 0.0


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


def _failure(service, reason):
    """A response that states a failure; None if the type of the service has none."""
    response = service.srv_type.Response()
    if not hasattr(response, "success"):
        return None
    response.success = False
    if hasattr(response, "message"):
        response.message = reason
    return response


def _depth(qos):
    return min(qos.depth or MOST, MOST)


def _finish(coroutine):
    """Run a coroutine that does not await."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    coroutine.close()
    raise TypeError(AWAITS)


def _name(entity):
    return next(
        (getattr(entity, key) for key in ("srv_name", "topic") if hasattr(entity, key)), type(entity).__name__
    )
