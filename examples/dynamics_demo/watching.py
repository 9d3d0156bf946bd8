"""What the monitors of the demos share: their options, what they remember, how they watch and conclude."""

import argparse
import contextlib
import sys
import time

from rclpy.node import Node
from rclpy.utilities import remove_ros_args
from rich.console import Console
from rich.live import Live

from dynamics_node.node.ros.guard import Guard
from dynamics_node.node.ros.messages import nanoseconds
from dynamics_node.node.ros.running import end, make_executor

REMEMBERED = 5000
REFRESH = 0.1  # s


def options_of(name, description, given, least, robots=()):
    """Options of a monitor, from the arguments given. least: by default; robots: choices, default first."""
    parser = argparse.ArgumentParser(prog=name, description=description)
    if robots:
        parser.add_argument("--robot", choices=robots, default=robots[0])
    if "tracking" in robots:
        parser.add_argument("--animate", default="", help="tracking: GIF of the arm and its errors")
    parser.add_argument("--seconds", type=float, default=10.0, help="tracking: as long as its trajectory")
    parser.add_argument("--plot", default="", help="where to save the plot")
    parser.add_argument("--patience", type=float, default=30.0, help="seconds to wait for each message")
    parser.add_argument("--least", type=int, default=least, help="messages that must have been checked")
    return parser.parse_args(remove_ros_args(["", *given])[1:])


def remember(table, message, value):
    """Keep what belongs to a stamp, the newest REMEMBERED of them."""
    table[nanoseconds(message.header.stamp)] = value
    if len(table) > REMEMBERED:
        table.popitem(last=False)


def line_a_second(monitor, line):
    """A function that prints line(), once a second from the first message on."""
    shown = time.monotonic()

    def refresh():
        nonlocal shown
        if time.monotonic() >= shown + 1.0 and monitor.seen:
            shown = time.monotonic()
            print(line(), flush=True)

    return refresh


@contextlib.contextmanager
def live_table(monitor, table, line):
    """A function that refreshes table(monitor); without a terminal it prints line(monitor) once a second."""
    console = Console()
    if not console.is_terminal:
        yield line_a_second(monitor, lambda: line(monitor))
        return
    with Live(table(monitor), console=console, auto_refresh=False) as live:
        yield lambda: live.update(table(monitor), refresh=True)


class Watched(Node):
    """A monitor. seen: how many of its messages have come; times: of those that it has checked."""

    times: list[float]

    @property
    def seen(self):
        return len(self.times)

    def seen_enough(self, elapsed, options):
        """Whether the run is over, `elapsed` s after the first message."""
        return elapsed > options.seconds and len(self.times) >= options.least


def watch(node, stop, options, show):
    """Spin until the node has seen enough; refresh what is shown.

    No message is waited for longer than `options.patience` s after the one before."""
    executor = make_executor(Guard(node.get_logger().error))
    executor.add_node(node)
    first, last, seen = None, time.monotonic(), 0
    with show(node) as refresh:
        shown = 0.0
        while not stop.asked:
            executor.spin_once(timeout_sec=REFRESH)
            now = time.monotonic()
            if node.seen > seen:
                seen, last = node.seen, now
                first = first or now
            if now > shown + REFRESH:
                refresh()
                shown = time.monotonic()
            over = first is not None and node.seen_enough(now - first, options)
            if over or now > last + options.patience:
                break
    executor.remove_node(node)


def conclude(node, stop, options, report):
    """Watch, save the plot, print the verdict; the exit code: 0: messages flowed and were right; 1: not; 2:
    something to install is missing. report: a module with `show`, `save_plot`, `verdict_lines` and, where
    it is an option, `save_animation`."""
    try:
        watch(node, stop, options, report.show)
        reason = node.verdict(options.least)
        if options.plot and node.seen:
            report.save_plot(node, options.plot)
        if getattr(options, "animate", "") and node.seen:
            print("drawing the animation ...", flush=True)
            report.save_animation(node, options.animate)
        print("\n".join(report.verdict_lines(node, reason, options.plot)), flush=True)
        return 1 if reason else 0
    except ImportError as error:
        print(f"{node.get_name()}: {error}", file=sys.stderr)
        return 2
    finally:
        end(node)
