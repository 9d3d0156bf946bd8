"""The whole demo without `ros2 launch`: node, motion and monitor as processes, in a domain of their own.

`python -m dynamics_node.demo --seconds 10`; the exit code is the monitor's.
"""

import argparse
import os
import subprocess
import sys
import time

from dynamics_node.demo import pushed_arm
from dynamics_node.demo.robots import ROBOTS

DOMAIN = "42"  # not the default 0, in which a real robot may listen
TOUCHED = "touched"
PAUSE = 0.3  # s between two that end: what node.running.end tells of Fast DDS does not happen then


def main():
    """Start the three, wait for the monitor, stop the others. Returns its exit code."""
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    parser.add_argument(
        "--robot",
        choices=[*ROBOTS, TOUCHED],
        default="panda",
        help="panda, five_bar with its loop, or touched: a Panda in MuJoCo that is pushed",
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to watch")
    parser.add_argument("--plot", default="demo_torques.png", help="where to save the plot")
    parser.add_argument("--rate", type=float, default=500.0, help="of the joint states, Hz")
    parser.add_argument("--patience", type=float, default=30.0, help="seconds to wait for torques")
    options = parser.parse_args()
    domain = os.environ.get("ROS_DOMAIN_ID", DOMAIN)
    environment = {**os.environ, "ROS_DOMAIN_ID": domain}
    print(f"demo: in ROS domain {domain}; look on with ROS_DOMAIN_ID={domain} ros2 topic list", flush=True)

    def start(module, *arguments):
        return subprocess.Popen([sys.executable, "-m", module, *arguments], env=environment)

    if options.robot == TOUCHED:
        parameters, robot, mover, watcher = pushed_arm.PARAMETERS, (), "touched", "touch_monitor"
    else:
        lists = ROBOTS[options.robot].parameters
        parameters = {name: f"[{','.join(list_)}]" for name, list_ in lists.items()}
        robot, mover, watcher = ("--robot", options.robot), "motion", "monitor"
    given = [word for name, value in parameters.items() for word in ("-p", f"{name}:={value}")]
    helpers = [
        start("dynamics_node.node.main", "--ros-args", *given),
        start(f"dynamics_node.demo.{mover}", *robot, "--rate", str(options.rate)),
    ]
    try:
        watch = (
            "--seconds",
            str(options.seconds),
            "--plot",
            options.plot,
            "--patience",
            str(options.patience),
        )
        monitor = start(f"dynamics_node.demo.{watcher}", *robot, *watch)
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
