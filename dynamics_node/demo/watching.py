"""What the monitors of the demos share: their options, what they remember, how they watch and conclude."""

import argparse
import sys
import time

from rclpy.utilities import remove_ros_args

from dynamics_node.node.guard import Guard
from dynamics_node.node.messages import nanoseconds
from dynamics_node.node.running import end, make_executor

REMEMBERED = 5000
REFRESH = 0.1  # s


def options_of(name, description, given, plot, least, robots=("panda",)):
    """The options of a monitor, from the arguments given. plot, least: defaults; robots: the choices."""
    parser = argparse.ArgumentParser(prog=name, description=description)
    parser.add_argument("--robot", choices=robots, default="panda")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--plot", default=plot, help="where to save the plot; '' for none")
    parser.add_argument("--patience", type=float, default=30.0, help="seconds to wait for the first and last")
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
        if time.monotonic() >= shown + 1.0 and monitor.times:
            shown = time.monotonic()
            print(line(), flush=True)

    return refresh


def watch(node, stop, seconds, least, patience, show):
    """Spin until `seconds` have passed since the first torque and `least` are checked; refresh what is shown.

    Neither the first torque nor the last that is wanted is waited for longer than `patience` s."""
    executor = make_executor(Guard(node.get_logger().error))
    executor.add_node(node)
    begin = time.monotonic()
    first = None
    with show(node) as refresh:
        shown = 0.0
        while not stop.asked:
            executor.spin_once(timeout_sec=REFRESH)
            now = time.monotonic()
            if first is None and node.times:
                first = now
            if now > shown + REFRESH:
                refresh()
                shown = now
            seen_enough = first is not None and now > first + seconds and len(node.times) >= least
            given_up = now > (begin if first is None else first + seconds) + patience
            if seen_enough or given_up:
                break
    executor.remove_node(node)


def conclude(node, stop, options, report):
    """Watch, save the plot, print the verdict; the exit code: 0: messages flowed and were right; 1: not; 2:
    something to install is missing. report: a module with `show`, `save_plot` and `verdict_lines`."""
    try:
        watch(node, stop, options.seconds, options.least, options.patience, report.show)
        reason = node.verdict(options.least)
        if options.plot and node.times:
            report.save_plot(node, options.plot)
        print("\n".join(report.verdict_lines(node, reason, options.plot)), flush=True)
        return 1 if reason else 0
    except ImportError as error:
        print(f"{node.get_name()}: {error}", file=sys.stderr)
        return 2
    finally:
        end(node)
