"""The whole demo without `ros2 launch`: node, motion and monitor as processes, in a domain of their own.

`python -m dynamics_node.demo --seconds 10`; the exit code is the monitor's.
"""

import argparse
import os
import subprocess
import sys
import time

from dynamics_node.demo.robots import ROBOTS

DOMAIN = "42"  # not the default 0, in which a real robot may listen
PAUSE = 0.3  # s between two that end: what node.running.end tells of Fast DDS does not happen then


def main():
    """Start the three, wait for the monitor, stop the others. Returns its exit code."""
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    parser.add_argument("--robot", choices=ROBOTS, default="panda", help="panda, or five_bar with its loop")
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

    lists = ROBOTS[options.robot].parameters.items()
    parameters = [word for name, list_ in lists for word in ("-p", f"{name}:=[{','.join(list_)}]")]
    robot = ("--robot", options.robot)
    helpers = [
        start("dynamics_node.node.main", "--ros-args", *parameters),
        start("dynamics_node.demo.motion", *robot, "--rate", str(options.rate)),
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
        monitor = start("dynamics_node.demo.monitor", *robot, *watch)
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
