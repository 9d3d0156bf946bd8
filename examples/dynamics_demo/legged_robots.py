"""The robots of the demos on legs, how they stand, and the phases of a demo. Without ROS."""

import re
import warnings
from typing import NamedTuple

import numpy as np

import dynamics_node as dn

CYCLE = 4e-3  # s, of control
FRICTION = 0.8
PHASES = ("PD alone", "with holding torques", "with full feed-forward")  # of equal duration
LIFTING = "lifting its feet"  # a last phase, with full feed-forward
LEAST_PHASE = 1.5  # s
SHIFT, LIFT, CLEAR = 0.5, 0.5, 0.1  # s: of weight to other feet, of a foot, and between both
STEP = SHIFT + LIFT + 2 * CLEAR
PARAMETERS = {  # of the node
    "floating_base": True,
    "joint_state_timeout": 2.0,
    "reference_timeout": 2.0,
}


class Legged(NamedTuple):
    """A robot, its stance and its motion.

    file: its name in example-robot-data; base: root link; feet: links that touch, whose axes are those of the
    world; half_lengths: of soles, m, () for points; stance: {joint: rad}, others 0; sway (3,): amplitudes of
    the center of mass along x and y and of the base along z, m; turn (3,): of the base about x, y and z, rad;
    rates (6,): of both, Hz; gains: {start of a joint's name: stiffness, N m/rad, and damping, N m s/rad};
    lifted: feet in the order in which they are lifted; rise: height of a lifted foot, m; view: height and
    distance of what the camera sees, m; seconds: default duration.
    """

    title: str
    file: str
    base: str
    feet: tuple[str, ...]
    half_lengths: tuple[float, ...]
    stance: dict[str, float]
    sway: tuple[float, ...]
    turn: tuple[float, ...]
    rates: tuple[float, ...]
    gains: dict[str, tuple[float, float]]
    lifted: tuple[str, ...]
    rise: float
    view: tuple[float, float]
    seconds: float

    def urdf(self) -> str:
        """Its description without joint friction."""
        return re.sub(r"<dynamics[^>]*/>", "", dn.example_robot_file(self.file).read_text())

    def robot(self) -> dn.Robot:
        """Its model. The node logs warnings about the description."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dn.ModelWarning)
            return dn.parse_robot(self.urdf(), floating_base=True)

    def contacts(self) -> list[dn.Contact]:
        """Its feet as contacts."""
        if not self.half_lengths:
            return [dn.Contact(foot, friction=FRICTION) for foot in self.feet]
        size = self.half_lengths
        return [dn.Contact(foot, "surface", half_lengths=size, friction=FRICTION) for foot in self.feet]

    def contacts_file(self) -> str:
        """Text of the contacts_file of the node."""
        surface = f", kind: surface, half_lengths: {list(self.half_lengths)}" if self.half_lengths else ""
        return f"contacts: [{{link: [{', '.join(self.feet)}], friction: {FRICTION}{surface}}}]\n"

    def gains_of(self, joints) -> np.ndarray:
        """Stiffness and damping (2, n) of joints."""
        chosen = [next(g for start, g in self.gains.items() if name.startswith(start)) for name in joints]
        return np.array(chosen).T

    @property
    def lifting(self) -> float:
        """Duration of the last phase, s."""
        return len(self.lifted) * STEP + 2 * SHIFT if self.lifted else 0.0

    @property
    def least_seconds(self) -> float:
        """The shortest duration, s."""
        return len(PHASES) * LEAST_PHASE + self.lifting

    def phases(self, seconds) -> dict[str, tuple[float, float]]:
        """{name: (begin, end)} of the phases of a demo that lasts some seconds."""
        ends = np.linspace(0.0, seconds - self.lifting, len(PHASES) + 1).tolist()
        phases = {name: (ends[k], ends[k + 1]) for k, name in enumerate(PHASES)}
        return phases | ({LIFTING: (ends[-1], seconds)} if self.lifted else {})


SOLO12 = Legged(
    title="Solo12",
    file="solo12",
    base="base_link",
    feet=("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT"),
    half_lengths=(),
    stance={  # knees point to the middle
        f"{leg}_{joint}": angle if leg[0] == "F" else -angle
        for leg in ("FL", "FR", "HL", "HR")
        for joint, angle in (("HFE", 0.8), ("KFE", -1.6))
    },
    sway=(0.02, 0.015, 0.012),
    turn=(0.08, 0.06, 0.12),
    rates=(0.9, 0.7, 1.1, 0.7, 1.0, 0.6),
    gains={"": (6.0, 0.15)},  # soft, so that the legs sag
    lifted=("FL_FOOT", "FR_FOOT", "HR_FOOT", "HL_FOOT"),
    rise=0.05,
    view=(0.12, 0.95),
    seconds=15.0,
)

TALOS = Legged(
    title="Talos",
    file="talos",
    base="base_link",
    feet=("left_sole_link", "right_sole_link"),
    half_lengths=(0.1, 0.06),
    stance={
        f"{limb}_{side}_{joint}_joint": angle if side == "left" or joint != mirrored else -angle
        for side in ("left", "right")
        for limb, mirrored, angles in (
            ("leg", 0, {3: -0.6, 4: 1.2, 5: -0.6}),
            ("arm", 2, {1: 0.26, 2: 0.17, 4: -0.53, 7: 0.1}),
        )
        for joint, angle in angles.items()
    },
    sway=(0.01, 0.03, 0.08),
    turn=(0.02, 0.04, 0.12),
    rates=(0.5, 0.4, 0.5, 0.4, 0.5, 0.3),
    gains={"leg": (4000.0, 200.0), "torso": (2000.0, 40.0), "arm": (100.0, 5.0), "": (20.0, 0.5)},
    lifted=(),
    rise=0.0,
    view=(0.6, 3.2),
    seconds=9.0,
)

ROBOTS = {"quadruped": SOLO12, "humanoid": TALOS}  # names of the demos
