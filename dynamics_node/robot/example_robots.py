"""Robots by name: those of example-robot-data, and those of the package dynamics_demo of the examples.

dynamics_demo is installed with the library, which does not depend on it: a name imports it.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from dynamics_node.errors import UnknownNameError
from dynamics_node.optional import install_command, required
from dynamics_node.robot.loading import load_robot, parse_robot
from dynamics_node.robot.robot import Robot
from dynamics_node.robot.wrong_calls import explains_wrong_calls
from dynamics_node.text import similar

PACKAGE = "example-robot-data"


class ExampleRobot(NamedTuple):
    """A file in the folder `robots` of the package, and whether its base floats."""

    path: str
    floating_base: bool = False


EXAMPLE_ROBOTS = {
    "allegro_hand": ExampleRobot("allegro_hand_description/urdf/allegro_left_hand.urdf"),
    "anymal_b": ExampleRobot("anymal_b_simple_description/robots/anymal.urdf", True),
    "anymal_c": ExampleRobot("anymal_c_simple_description/urdf/anymal.urdf", True),
    "baxter": ExampleRobot("baxter_description/urdf/baxter.urdf"),
    "double_pendulum": ExampleRobot("double_pendulum_description/urdf/double_pendulum_continuous.urdf"),
    "g1": ExampleRobot("g1_description/urdf/g1_29dof_rev_1_0.urdf", True),
    "go2": ExampleRobot("go2_description/urdf/go2.urdf", True),
    "hyq": ExampleRobot("hyq_description/robots/hyq_no_sensors.urdf", True),
    "icub": ExampleRobot("icub_description/robots/icub_reduced.urdf", True),
    "kinova": ExampleRobot("kinova_description/robots/kinova.urdf"),
    "panda": ExampleRobot("panda_description/urdf/panda.urdf"),
    "pr2": ExampleRobot("pr2_description/urdf/pr2.urdf"),
    "romeo": ExampleRobot("romeo_description/urdf/romeo_small.urdf", True),
    "simple_humanoid": ExampleRobot("simple_humanoid_description/urdf/simple_humanoid.urdf", True),
    "so101": ExampleRobot("so_arm_description/urdf/so101.urdf"),
    "solo12": ExampleRobot("solo_description/robots/solo12.urdf", True),
    "talos": ExampleRobot("talos_data/robots/talos_reduced.urdf", True),
    "tiago": ExampleRobot("tiago_description/robots/tiago.urdf"),
    "tiago_pro": ExampleRobot("tiago_pro_description/robots/tiago_pro.urdf"),
    "ur3": ExampleRobot("ur_description/urdf/ur3_robot.urdf"),
    "ur5": ExampleRobot("ur_description/urdf/ur5_robot.urdf"),
    "ur10": ExampleRobot("ur_description/urdf/ur10_robot.urdf"),
    "xarm7": ExampleRobot("xarm_description/urdf/xarm7.urdf"),
    "z1": ExampleRobot("z1_description/urdf/z1.urdf"),
}


OWN_ROBOTS = {  # of dynamics_demo.robots, and whether the base floats
    "belt_leg": False,
    "differential": False,
    "five_bar": False,
    "four_bar": False,
    "humanoid": True,
    "quadruped": True,
}


@explains_wrong_calls
def example_robot(name: str, **choices: Any) -> Robot:
    """Read a robot by name, of the package example-robot-data or of the examples of this package.

    Parameters
    ----------
    name : str
        "panda", "ur5", "kinova", "solo12", "anymal_c", "talos", ...; of the examples: "four_bar", "five_bar",
        "differential", "belt_leg", "quadruped", "humanoid". An unknown name raises an error that lists
        similar ones.
    **choices
        Arguments of `load_robot`; for the examples, of `parse_robot`. By default, legged robots have a
        floating base.

    Returns
    -------
    Robot

    Raises
    ------
    KeyError
        For an unknown name.
    FileNotFoundError
        If the package is not installed: pip install example-robot-data.

    Examples
    --------
    >>> robot = dn.example_robot("ur5")
    >>> robot.nv, robot.v_names[0]
    (6, 'shoulder_pan_joint')
    >>> linkage = dn.example_robot("five_bar")
    >>> linkage.nq, linkage.nv
    (4, 2)
    """
    if name in OWN_ROBOTS:
        text = required("dynamics_demo.robots", f"the robot {name!r}").ROBOTS[name]()
        return parse_robot(text, **({"floating_base": OWN_ROBOTS[name]} | choices))
    return load_robot(
        example_robot_file(name), **({"floating_base": EXAMPLE_ROBOTS[name].floating_base} | choices)
    )


@explains_wrong_calls
def example_robot_file(name: str) -> Path:
    """Return the file of a robot of example-robot-data.

    Parameters
    ----------
    name : str
        As in `example_robot`; the errors, too.

    Returns
    -------
    Path
        The URDF.

    Examples
    --------
    >>> dn.example_robot_file("panda").name
    'panda.urdf'
    """
    if name in OWN_ROBOTS:
        write = f"python -m dynamics_demo.robots {name} > {name}.urdf"
        raise UnknownNameError(f"the robot {name!r} has no file: {write} writes one")
    if name not in EXAMPLE_ROBOTS:
        known = [*EXAMPLE_ROBOTS, *OWN_ROBOTS]
        raise UnknownNameError(f"no example robot {name!r}; {similar(name, known)}")
    for folder in _shares():
        path = folder / PACKAGE / "robots" / EXAMPLE_ROBOTS[name].path
        if path.is_file():
            return path
    raise FileNotFoundError(f"{name}: its URDF is in the package {PACKAGE}: {install_command(PACKAGE)}")


def _shares() -> Iterator[Path]:
    """Folders `share` of a sourced ROS, and of what pip has installed."""
    for prefix in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep):
        if prefix:
            yield Path(prefix) / "share"
    for folder in sys.path:
        yield Path(folder) / "cmeel.prefix" / "share"
    yield Path(sys.prefix) / "share"
