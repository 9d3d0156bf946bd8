"""The whole demo without `ros2 launch`: node, motion and monitor as processes, in a domain of their own; or,
of a trajectory, no topics at all.

`python -m dynamics_node.demo --seconds 10`; the exit code is the monitor's.
"""

import argparse
import os
import subprocess
import sys
import time
from typing import NamedTuple

from dynamics_node.demo import four_bar_trajectory, identified, pushed_arm
from dynamics_node.demo.robots import ROBOTS

DOMAIN = "42"  # not the default 0, in which a real robot may listen
PAUSE = 0.3  # s between two that end: what node.running.end tells of Fast DDS does not happen then


class Demo(NamedTuple):
    """parameters: of the node, as text; mover, monitor: modules of this package, and their arguments; plot:
    where it is saved by default."""

    parameters: dict[str, str]
    mover: str
    monitor: str
    arguments: tuple[str, ...]
    plot: str


def _of_robot(name):
    lists = ROBOTS[name].parameters
    parameters = {key: f"[{','.join(values)}]" for key, values in lists.items()}
    return Demo(parameters, "motion", "monitor", ("--robot", name), "demo_torques.png")


DEMOS = {name: _of_robot(name) for name in ROBOTS} | {
    "touched": Demo(pushed_arm.PARAMETERS, "touched", "touch_monitor", (), "demo_touched.png")
}
WITHOUT_TOPICS = {  # with their seconds and plots by default
    "four_bar_trajectory": four_bar_trajectory,
    "identified": identified,
}


def main():
    """The exit code of what is chosen."""
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    parser.add_argument(
        "--robot",
        choices=[*DEMOS, *WITHOUT_TOPICS],
        default="panda",
        help="panda, five_bar with its loop, touched: a Panda in MuJoCo that is pushed; "
        "without topics, four_bar_trajectory: the paper's mechanism, falling and following, or "
        "identified: a Panda in MuJoCo whose inertias and friction are found from its motion",
    )
    parser.add_argument("--seconds", type=float, help="how long to watch, 10, or to simulate, 5 or 30")
    parser.add_argument("--plot", help="where to save the plot; by default demo_*.png")
    parser.add_argument("--rate", type=float, default=500.0, help="of the joint states, Hz")
    parser.add_argument("--patience", type=float, default=30.0, help="seconds to wait for torques")
    options = parser.parse_args()
    if options.robot in WITHOUT_TOPICS:
        chosen = {"seconds": options.seconds, "plot": options.plot}
        given = {name: value for name, value in chosen.items() if value is not None}
        return WITHOUT_TOPICS[options.robot].main(**given)
    return _with_topics(options)


def _with_topics(options):
    """Start the three, wait for the monitor, stop the others. Returns its exit code."""
    domain = os.environ.get("ROS_DOMAIN_ID", DOMAIN)
    environment = {**os.environ, "ROS_DOMAIN_ID": domain}
    print(f"demo: in ROS domain {domain}; look on with ROS_DOMAIN_ID={domain} ros2 topic list", flush=True)

    def start(module, *arguments):
        return subprocess.Popen([sys.executable, "-m", module, *arguments], env=environment)

    demo = DEMOS[options.robot]
    plot = demo.plot if options.plot is None else options.plot
    given = [word for name, value in demo.parameters.items() for word in ("-p", f"{name}:={value}")]
    helpers = [
        start("dynamics_node.node.main", "--ros-args", *given),
        start(f"dynamics_node.demo.{demo.mover}", *demo.arguments, "--rate", str(options.rate)),
    ]
    try:
        watch = {"seconds": options.seconds or 10.0, "plot": plot, "patience": options.patience}
        words = [word for name, value in watch.items() for word in (f"--{name}", str(value))]
        monitor = start(f"dynamics_node.demo.{demo.monitor}", *demo.arguments, *words)
        return monitor.wait()
    except KeyboardInterrupt:
        return monitor.wait()
    finally:
        for process in reversed(helpers):
            time.sleep(PAUSE)
            process.terminate()
            process.wait(timeout=10)


if __name__ == "__main__":
    sys.exit(main())
