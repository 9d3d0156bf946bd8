"""The whole demo without `ros2 launch`: node, motion and monitor as processes, in a domain of their own.

`python -m dynamics_node.demo --seconds 10`; the exit code is the monitor's.
"""

import argparse
import os
import subprocess
import sys

from dynamics_node.demo.panda import JOINTS


def main():
    """Start the three, wait for the monitor, stop the others. Returns its exit code."""
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to watch")
    parser.add_argument("--plot", default="demo_torques.png", help="where to save the plot")
    parser.add_argument("--rate", type=float, default=500.0, help="of the joint states, Hz")
    options = parser.parse_args()
    environment = {**os.environ, "ROS_DOMAIN_ID": os.environ.get("ROS_DOMAIN_ID", "42")}

    def start(module, *arguments):
        return subprocess.Popen([sys.executable, "-m", module, *arguments], env=environment)

    helpers = [
        start("dynamics_node.node.main", "--ros-args", "-p", f"joints:=[{','.join(JOINTS)}]"),
        start("dynamics_node.demo.motion", "--rate", str(options.rate)),
    ]
    try:
        monitor = start(
            "dynamics_node.demo.monitor", "--seconds", str(options.seconds), "--plot", options.plot
        )
        return monitor.wait()
    except KeyboardInterrupt:
        return monitor.wait()
    finally:
        for process in helpers:
            process.terminate()
        for process in helpers:
            process.wait(timeout=10)


if __name__ == "__main__":
    sys.exit(main())
