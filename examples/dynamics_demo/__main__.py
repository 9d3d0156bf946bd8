"""The whole demo without `ros2 launch`: node, robot and monitor as processes in a ROS domain of their own, or
a demo without topics.

`python -m dynamics_demo --seconds 12`; the exit code is the monitor's.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from dynamics_node.process import one_blas_thread

one_blas_thread()  # before NumPy is imported

from dynamics_demo import ANIMATED, identified, legged_robots, pushed_arm, tracked_arm  # noqa: E402

DOMAIN = "42"  # not the default 0, which a real robot may use
PAUSE = 0.3  # s between two terminations: avoids the Fast DDS problem described in node.running.end


class Demo(NamedTuple):
    """parameters: of the node; plot: default file; seconds: default duration; least_seconds: the shortest;
    contacts: text of its contacts_file, '' without."""

    parameters: dict[str, Any]
    plot: str
    seconds: float = 10.0
    least_seconds: float = 0.0
    contacts: str = ""


DEMOS = {
    "tracking": Demo(tracked_arm.PARAMETERS, "demo_tracking.png", tracked_arm.SECONDS, 6.0),
    "five_bar": Demo({}, "demo_five_bar.png"),
    "touched": Demo(pushed_arm.PARAMETERS, "demo_touched.png"),
    **{
        name: Demo(
            legged_robots.PARAMETERS, f"demo_{name}.png", legged.seconds, legged.least_seconds,
            legged.contacts_file(),
        )
        for name, legged in legged_robots.ROBOTS.items()
    },
}  # fmt: skip
WITHOUT_TOPICS = {  # with default seconds and plots
    "identified": identified,
}


def main():
    """Exit code of the selected demo."""
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    parser.add_argument(
        "--robot",
        choices=[*DEMOS, *WITHOUT_TOPICS],
        default="tracking",
        help="tracking: a Panda in MuJoCo follows a trajectory without and with the node's torques; "
        "five_bar: a closed loop; touched: a Panda in MuJoCo under external forces; "
        "quadruped: a Solo12 in MuJoCo sways on four feet, then lifts one after the other; "
        "humanoid: a Talos in MuJoCo squats and sways on two flat feet; "
        "identified (without topics): identification of inertias and friction of a Panda in MuJoCo",
    )
    parser.add_argument("--seconds", type=float, help="duration, s (default: 5 to 30)")
    parser.add_argument("--plot", help="plot file (default: demo_*.png); '' for none")
    parser.add_argument("--animate", help=f"GIF of the robot and its errors: {', '.join(ANIMATED)}")
    parser.add_argument(
        "--patience", type=float, default=30.0, help="seconds to wait for torques (default: 30)"
    )
    options = parser.parse_args()
    if options.animate and options.robot not in ANIMATED:
        parser.error(f"--animate requires --robot {' or '.join(ANIMATED)}")
    least = DEMOS[options.robot].least_seconds if options.robot in DEMOS else 0.0
    if options.seconds is not None and options.seconds < least:
        parser.error(f"--seconds must be at least {least:g} for {options.robot}")
    if options.robot in WITHOUT_TOPICS:
        chosen = {"seconds": options.seconds, "plot": options.plot}
        given = {name: value for name, value in chosen.items() if value is not None}
        return WITHOUT_TOPICS[options.robot].main(**given)
    if options.animate:
        try:
            _drawing(options.robot).close()  # or else it would fail at the end
        except ImportError as error:
            print(f"demo: {error}", file=sys.stderr)
            return 2
    with tempfile.TemporaryDirectory() as folder:
        return _with_topics(options, folder)


def _drawing(robot):
    """What renders the robot of a demo. Raises ImportError."""
    if (legged := legged_robots.ROBOTS.get(robot)) is not None:
        from dynamics_demo.legged_plots import LeggedDrawing

        return LeggedDrawing(legged)
    from dynamics_demo.plots import Drawing

    return Drawing()


def _with_topics(options, folder):
    """Start the three processes and stop the others when one ends, usually the monitor. Returns its exit
    code."""
    domain = os.environ.get("ROS_DOMAIN_ID", DOMAIN)
    environment = {**os.environ, "ROS_DOMAIN_ID": domain}
    print(
        f"demo: in ROS domain {domain}: where ROS 2 is installed, ROS_DOMAIN_ID={domain} ros2 topic list",
        flush=True,
    )

    def start(module, *arguments):
        return subprocess.Popen([sys.executable, "-m", module, *arguments], env=environment)

    demo, parameters = DEMOS[options.robot], dict(DEMOS[options.robot].parameters)
    if demo.contacts:
        file = Path(folder, "contacts.yaml")
        file.write_text(demo.contacts)
        parameters["contacts_file"] = str(file)
    seconds = ("--seconds", str(options.seconds or demo.seconds))
    watch = {"plot": demo.plot if options.plot is None else options.plot, "patience": options.patience}
    watch |= {"animate": options.animate} if options.animate else {}
    words = [word for name, value in watch.items() for word in (f"--{name}", str(value))]
    given = [word for name, value in parameters.items() for word in ("-p", f"{name}:={json.dumps(value)}")]
    robot = ("--robot", options.robot)
    helpers = [
        start("dynamics_node.node.main", "--ros-args", *given),
        start("dynamics_demo.motion", *robot, *seconds),
    ]
    monitor = start("dynamics_demo.monitor", *robot, *seconds, *words)
    try:
        return code_of_the_first([monitor, *helpers])
    except KeyboardInterrupt:
        return monitor.wait()
    finally:
        for process in (monitor, *reversed(helpers)):
            if process.poll() is None:
                time.sleep(PAUSE)
                process.terminate()
                process.wait(timeout=10)


def code_of_the_first(processes):
    """The exit code of the first process that ends."""
    while all(process.poll() is None for process in processes):
        time.sleep(0.1)
    return next(process.returncode for process in processes if process.poll() is not None)


if __name__ == "__main__":
    sys.exit(main())
