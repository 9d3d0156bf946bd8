"""The parameters of dynamics_estimator, each a field of EstimatorSettings, and the job that they ask for.

An EstimatorJob runs in a process of its own: see node/building/build_process.py.
"""

import logging
from dataclasses import dataclass
from typing import Any

from dynamics_node.functions import LoopSolver, build_loop_solver
from dynamics_node.node.building.build_job import described_robot
from dynamics_node.node.core.consistency import check_description, refuse_joints_twice, require_joints
from dynamics_node.node.core.parameters import parameter, parameters_of, read_fields
from dynamics_node.node.core.settings import DESCRIBED, DescriptionSettings
from dynamics_node.node.state.sensor_readings import Topic, moving, read_sensors, topics_of
from dynamics_node.robot import Robot, sensor_problem
from dynamics_node.robot.joint_names import Pairs
from dynamics_node.text import listed
from dynamics_node.trajectory.gate import SHORTEST
from dynamics_node.trajectory.joint_graph import READ
from dynamics_node.trajectory.joint_smoother import Smoothed, SmootherOptions

log = logging.getLogger("dynamics_node")

MEASURED, COMMANDED, NONE = TORQUES = ("measured", "commanded", "none")
BACKENDS = ("auto", "c", "numpy")
MOST_STEPS = 200  # of a window
UNEVEN = 1e10  # (rad/s^2 / N m)^2: what jerk may add to an acceleration, beside what is known of torques
GROUPS = (*DESCRIBED, "noise")


@dataclass(frozen=True)
class EstimatedRobot:
    """A checked Robot with what estimates it; topics: of its sensors; closing: what closes its
    loops; notes: what was not to be had, and why."""

    model: Robot
    smoothed: Smoothed
    topics: dict[str, Topic]
    closing: LoopSolver | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class EstimatorJob:
    """What to build: `choices` go to parse_robot; loops_file, parameters_file, sensors_file: paths or '';
    names: pairs of what drivers call joints and what the description does."""

    text: str | bytes
    choices: dict
    loops_file: str = ""
    parameters_file: str = ""
    sensors_file: str = ""
    names: Pairs = ()
    backend: str = "auto"

    def first(self) -> "EstimatorJob":
        """Interpreted it would be too slow to be of use: nothing serves before all is compiled."""
        return self

    def topics_first(self) -> "EstimatorJob":
        """There is nothing but topics."""
        return self

    def make(self) -> EstimatedRobot:
        """The robot, with all its code in the cache. Raises ValueError, KeyError, OSError, CompileError."""
        robot = described_robot(self)
        _refuse_floating(robot)
        declared = read_sensors(self.sensors_file, robot)
        sensors = tuple(s for s in moving(robot, declared) if type(s) in READ and s.value is None)
        if others := [sensor.name for sensor in declared if sensor not in sensors]:
            log.warning("not read: %s; the estimator reads IMUs, gyros and accelerometers", listed(others))
        topics = topics_of(sensor_problem(robot, sensors).sensors)
        smoothed = Smoothed(robot, sensors, self.backend)
        smoothed.compile()
        closing = build_loop_solver(robot, self.backend) if robot.constrained else None
        return EstimatedRobot(robot, smoothed, topics, closing)


def _refuse_floating(robot):
    for joint in robot.tree.independent_joints:
        if joint.type.is_free:
            raise ValueError(
                f"floating joint {joint.name!r}: the estimator is for robots on a fixed base, all of whose "
                "joints have encoders"
            )


@dataclass(frozen=True)
class EstimatorSettings(DescriptionSettings):
    """Checked values of all parameters; see core/settings.py."""

    sensors_file: str = parameter(
        "",
        "YAML file of the robot's sensors and their topics, see docs/reference/estimator.md; empty: none",
        read_only=True,
    )
    torque_source: str = parameter(
        MEASURED,
        "Torques of the motors: efforts of joint_states, of a command topic, or unknown",
        choices=TORQUES,
    )
    command_joints: tuple[str, ...] = parameter(
        (),
        "torque_source commanded: order of the numbers on ~/effort_commands; empty: ~/commanded_torques",
    )
    rate: float = parameter(500.0, "Steps a second, Hz", bounds=(10.0, 2000.0))
    window: float = parameter(
        0.02, "Steps this far back stay open for late messages, s; at least five steps", bounds=(1e-3, 1.0)
    )
    lag: float = parameter(
        0.01,
        "What is published is this much older than the newest step, s; within the window",
        bounds=(0.0, 1.0),
    )
    noise_encoder: tuple[float, ...] = parameter(
        (1e-4,), "Noise of measured positions, rad or m; one for all or one per joint", entries=(1e-9, 1.0)
    )
    noise_torque: tuple[float, ...] = parameter(
        (0.2,),
        "Noise of the motors' torques, N m or N; one for all or one per coordinate",
        entries=(1e-6, 1e6),
    )
    noise_jerk_density: float = parameter(
        1e3, "How fast accelerations change: density of white jerk, rad^2/s^5 or m^2/s^5", bounds=(1e-3, 1e10)
    )
    noise_external_torque_density: float = parameter(
        1e3, "How fast external torques change: density of their random walk, (N m)^2/s or N^2/s",
        bounds=(1e-6, 1e12),
    )  # fmt: skip
    joint_state_timeout: float = parameter(0.2, "Age at which joint states are stale, s", bounds=(1e-3, 60))
    sensor_timeout: float = parameter(0.2, "Age at which another reading is stale, s", bounds=(1e-3, 60))
    backend: str = parameter("auto", "What runs it", choices=BACKENDS)

    def job(self, text: str | bytes) -> EstimatorJob:
        """What has to be built for a robot description."""
        return EstimatorJob(
            text,
            self.choices(),
            loops_file=self.loops_file,
            parameters_file=self.parameters_file,
            sensors_file=self.sensors_file,
            names=self.name_pairs(),
            backend=self.backend,
        )

    @property
    def steps(self) -> int:
        """Of the window."""
        return max(SHORTEST, round(self.window * self.rate))

    @property
    def steps_of_lag(self) -> int:
        return round(self.lag * self.rate)

    def options(self) -> SmootherOptions:
        """Of a JointSmoother."""
        return SmootherOptions(
            period=1.0 / self.rate,
            window=self.steps,
            encoder_std=self.noise_encoder,
            torque_std=self.noise_torque,
            jerk_density=self.noise_jerk_density,
            external_torque_density=self.noise_external_torque_density,
        )


PARAMETERS = parameters_of(EstimatorSettings, GROUPS)


def read_settings(values: dict[str, Any]) -> EstimatorSettings:
    """EstimatorSettings from {parameter name: value}. Raises ValueError with the parameter's name and the
    reason."""
    settings = read_fields(EstimatorSettings, PARAMETERS, values)
    check_description(settings)
    refuse_joints_twice(settings, ("command_joints",))
    if settings.steps > MOST_STEPS:
        raise ValueError(
            f"window {settings.window:g} s has {settings.steps} steps at {settings.rate:g} Hz; the limit is "
            f"{MOST_STEPS}"
        )
    if settings.steps_of_lag > settings.steps - 1:
        raise ValueError(f"lag {settings.lag:g} s is not within the window of {settings.window:g} s")
    for name in ("encoder", "torque"):
        if not getattr(settings, f"noise_{name}"):
            raise ValueError(f"noise.{name} needs a number, for all joints, or one of each")
    _refuse_uneven(settings)
    if settings.command_joints and settings.torque_source != COMMANDED:
        raise ValueError("command_joints goes with torque_source commanded")
    return settings


def _refuse_uneven(settings):
    """A jerk beside which torques, of motors and external, are as good as exact: rounding would then leave
    nothing of what tells accelerations."""
    T, torque = 1.0 / settings.rate, min(settings.noise_torque)
    most = UNEVEN * (torque**2 / T + settings.noise_external_torque_density)
    if settings.noise_jerk_density > most:
        raise ValueError(
            f"noise.jerk_density {settings.noise_jerk_density:g} is beyond {most:.3g}, which noise.torque "
            f"{torque:g} and noise.external_torque_density {settings.noise_external_torque_density:g} allow "
            f"at {settings.rate:g} Hz; raise one of them"
        )


def check_against(settings: EstimatorSettings, robot: EstimatedRobot):
    """Raise ValueError when the settings do not fit the robot: names and lengths."""
    model = robot.model
    require_joints(settings, model, ("friction.joints", "command_joints"), explicit=False)
    counts = {"encoder": sum(j.type.is_scalar for j in model.tree.independent_joints), "torque": model.nv}
    for name, count in counts.items():
        given = len(getattr(settings, f"noise_{name}"))
        if given not in (1, count):
            raise ValueError(f"noise.{name} has {given} entries; give one for all, or one of each of {count}")
