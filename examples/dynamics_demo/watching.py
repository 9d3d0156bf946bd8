"""Shared code of the demo monitors: options, message memory, watching and conclusion."""

import argparse
import contextlib
import sys
import time

from rclpy.node import Node
from rclpy.utilities import remove_ros_args
from rich.console import Console
from rich.live import Live

from dynamics_demo import ANIMATED
from dynamics_node.node.ros.messages import nanoseconds
from dynamics_node.node.ros.running import Guard, end, make_executor

REMEMBERED = 5000
REFRESH = 0.1  # s


def options_of(name, description, given, least):
    """Options of a monitor from its arguments. least: {robot: default number of messages}, default robot
    first."""
    parser = argparse.ArgumentParser(prog=name, description=description)
    parser.add_argument("--robot", choices=least, default=next(iter(least)))
    parser.add_argument("--animate", default="", help="GIF of the robot and its errors")
    parser.add_argument("--seconds", type=float, default=10.0, help="duration of the motion, s")
    parser.add_argument("--plot", default="", help="plot file")
    parser.add_argument("--patience", type=float, default=30.0, help="seconds to wait for each message")
    parser.add_argument("--least", type=int, help="least number of checked messages")
    options = parser.parse_args(remove_ros_args(["", *given])[1:])
    if options.animate and options.robot not in ANIMATED:
        parser.error(f"--animate requires --robot {' or '.join(ANIMATED)}")
    options.least = least[options.robot] if options.least is None else options.least
    return options


def remember(table, message, value):
    """Store a value by its stamp, at most the newest REMEMBERED."""
    table[nanoseconds(message.header.stamp)] = value
    if len(table) > REMEMBERED:
        table.popitem(last=False)


class Watched(Node):
    """A monitor. times: of the checked messages.

    A demo's monitor has `verdict(least)`, the reason for a failure or ''; `verdict_lines(reason, plot)`, the
    last lines; `line()`, the current status; `save_plot(path)`; and, if they are options,
    `save_animation(path)` and `table()`, the status as a table for a terminal.
    """

    times: list[float]
    table = None

    @property
    def seen(self):
        """Number of received messages."""
        return len(self.times)

    def seen_enough(self, elapsed, options):
        """Whether the run is over, `elapsed` s after the first message."""
        return elapsed > options.seconds and len(self.times) >= options.least


@contextlib.contextmanager
def live_display(node):
    """A function that refreshes the table of a node, or prints a line a second without a table or
    terminal."""
    console, last = Console(), time.monotonic()

    def refresh():
        nonlocal last
        if time.monotonic() >= last + 1.0 and node.seen:
            last = time.monotonic()
            print(node.line(), flush=True)

    if node.table is None or not console.is_terminal:
        yield refresh
        return
    with Live(node.table(), console=console, auto_refresh=False) as live:
        yield lambda: live.update(node.table(), refresh=True)


def watch(node, stop, options):
    """Spin until the node has seen enough, and refresh the display.

    Stops if no message arrives for `options.patience` s.
    """
    executor = make_executor(Guard(node.get_logger().error))
    executor.add_node(node)
    first, last, seen = None, time.monotonic(), 0
    with live_display(node) as refresh:
        refreshed = 0.0
        while not stop.requested:
            executor.spin_once(timeout_sec=REFRESH)
            now = time.monotonic()
            if node.seen > seen:
                seen, last = node.seen, now
                first = first or now
            if now <= refreshed + REFRESH:
                continue
            refresh()
            refreshed = time.monotonic()
            over = first is not None and node.seen_enough(now - first, options)
            if over or now > last + options.patience:
                break
    executor.remove_node(node)


def conclude(node, stop, options):
    """Watch, save the plot and print the verdict. Exit code 0: messages arrived and were correct; 1: not; 2:
    a package is missing."""
    try:
        watch(node, stop, options)
        reason = node.verdict(options.least)
        if options.plot and node.seen:
            node.save_plot(options.plot)
        if options.animate and node.seen:
            print("drawing the animation ...", flush=True)
            node.save_animation(options.animate)
        print("\n".join(node.verdict_lines(reason, options.plot)), flush=True)
        return 1 if reason else 0
    except ImportError as error:
        print(f"{node.get_name()}: {error}", file=sys.stderr)
        return 2
    finally:
        end(node)
