"""The parameters that say of which robot, and with what beside its description. Without ROS."""

from dataclasses import dataclass, replace
from typing import Any, TypeVar

from dynamics_node.node.core.table import parameter
from dynamics_node.robot.joint_names import Pairs, renamed

FARTHEST = 1e6  # rad, m, m/s^2 or a gear ratio: no robot has more
DESCRIBED = ("joint_names", "held", "armature", "friction")  # groups of parameters
Kind = TypeVar("Kind", bound="DescriptionSettings")


@dataclass(frozen=True)
class DescriptionSettings:
    """Checked values of the parameters that nodes have in common."""

    robot_description: str = parameter("", "URDF text; empty: taken from the topic robot_description")
    robot_description_file: str = parameter(
        "", "URDF file; wins over the topic, yields to robot_description", read_only=True
    )
    loops_file: str = parameter(
        "", "YAML file of loops that the description does not have; see docs/loops.md", read_only=True
    )
    parameters_file: str = parameter(
        "",
        "YAML file of inertias, rotors, friction, offsets and springs that count instead of the "
        "description's; see docs/identification.md",
        read_only=True,
    )
    strict: bool = parameter(False, "Refuse links with implausible inertia instead of warning")
    joints: tuple[str, ...] = parameter((), "Joints that move; the others are held. Empty: all")
    joint_names_from: tuple[str, ...] = parameter(
        (), "Joints that drivers call otherwise than the description: their names, or patterns with one star"
    )
    joint_names_to: tuple[str, ...] = parameter(
        (),
        "What the description calls these joints, in the same order; elsewhere the drivers' names are used",
    )
    held_joints: tuple[str, ...] = parameter((), "Held joints whose position is not zero")
    held_positions: tuple[float, ...] = parameter(
        (), "Their positions, rad or m", entries=(-FARTHEST, FARTHEST)
    )
    armature_joints: tuple[str, ...] = parameter((), "Joints whose rotor inertia is given here")
    armature_values: tuple[float, ...] = parameter(
        (), "Their rotor inertias, kg m^2 or kg; at the joint, or see armature.gears"
    )
    armature_gears: tuple[float, ...] = parameter(
        (),
        "Gear ratios: the inertias are the motors' then. Empty: all 1",
        entries=(-FARTHEST, FARTHEST),
    )
    friction_joints: tuple[str, ...] = parameter(
        (), "Joints whose friction is given here; others have the URDF's"
    )
    friction_viscous: tuple[float, ...] = parameter((), "Their viscous friction, N m s/rad or N s/m")
    friction_coulomb: tuple[float, ...] = parameter((), "Their Coulomb friction, N m or N")

    def without_description(self: Kind) -> Kind:
        """The settings without the robot_description, which may have megabytes."""
        return replace(self, robot_description="")

    def choices(self) -> dict[str, Any]:
        """What parse_robot is to make of a description."""
        return {
            "strict": self.strict,
            "joints": self._described(self.joints) or None,
            "positions": dict(zip(self._described(self.held_joints), self.held_positions, strict=True)),
            "armature": self.armature(),
        }

    def name_pairs(self) -> Pairs:
        """Of the drivers' names and those of the description."""
        return tuple(zip(self.joint_names_from, self.joint_names_to, strict=True))

    def armature(self) -> dict[str, float]:
        """{joint: rotor inertia at the joint}: a motor's counts with the square of its gear ratio."""
        gears = self.armature_gears or (1.0,) * len(self.armature_joints)
        rows = zip(self._described(self.armature_joints), self.armature_values, gears, strict=True)
        return {joint: value * gear**2 for joint, value, gear in rows}

    def _described(self, names):
        """The description's names of joints."""
        return tuple(renamed(name, self.name_pairs()) for name in names)
