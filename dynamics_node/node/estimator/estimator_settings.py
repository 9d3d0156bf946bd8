"""The parameters of dynamics_estimator, each a field of EstimatorSettings, and its build job.

An EstimatorJob runs in a separate process, see node/building/build_process.py.
"""

import logging
from dataclasses import dataclass
from typing import Any, cast

from dynamics_node.errors import InputError
from dynamics_node.functions import Backend, LoopSolver, build_loop_solver
from dynamics_node.node.building.build_job import described_robot
from dynamics_node.node.core.consistency import check_description, require_joints, require_joints_once
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
UNEVEN = 1e10  # (rad/s^2 / N m)^2: bound on the variance of jerk relative to that of torques
GROUPS = (*DESCRIBED, "noise")


@dataclass(frozen=True)
class EstimatedRobot:
    """A checked Robot with the graph of its smoother. topics: of its sensors; loop_solver: None without
    loops; notes: warnings of the build."""

    model: Robot
    smoothed: Smoothed
    topics: dict[str, Topic]
    loop_solver: LoopSolver | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class EstimatorJob:
    """A build request. choices: keyword arguments of parse_robot; loops_file, parameters_file, sensors_file:
    paths or ''; names: pairs of driver names and description names."""

    text: str | bytes
    choices: dict
    loops_file: str = ""
    parameters_file: str = ""
    sensors_file: str = ""
    names: Pairs = ()
    backend: str = "auto"

    def first(self) -> "EstimatorJob":
        """The whole job: the interpreter would be too slow."""
        return self

    def topics_first(self) -> "EstimatorJob":
        """The whole job: the estimator has no services."""
        return self

    def make(self) -> EstimatedRobot:
        """Build the robot and cache its code. Raises ValueError, KeyError, OSError, CompileError."""
        robot = described_robot(self)
        _reject_floating_joints(robot)
        declared = read_sensors(self.sensors_file, robot)
        sensors = tuple(s for s in moving(robot, declared) if type(s) in READ and s.value is None)
        if others := [sensor.name for sensor in declared if sensor not in sensors]:
            log.warning(
                "ignored sensors: %s; the estimator reads IMUs, gyros and accelerometers", listed(others)
            )
        topics = topics_of(sensor_problem(robot, sensors).sensors)
        smoothed = Smoothed(robot, sensors, self.backend)
        smoothed.compile()
        loop_solver = build_loop_solver(robot, cast(Backend, self.backend)) if robot.constrained else None
        return EstimatedRobot(robot, smoothed, topics, loop_solver)


def _reject_floating_joints(robot):
    for joint in robot.tree.independent_joints:
        if joint.type.is_free:
            raise InputError(
                f"floating joint {joint.name!r}: the estimator requires a fixed base and an encoder at every "
                "joint"
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
        "Motor torques: efforts of joint_states, of a command topic, or unknown",
        choices=TORQUES,
    )
    command_joints: tuple[str, ...] = parameter(
        (),
        "torque_source commanded: order of joints in ~/effort_commands; empty: ~/commanded_torques is read",
    )
    rate: float = parameter(500.0, "Steps per second, Hz", bounds=(10.0, 2000.0))
    window: float = parameter(
        0.02,
        "Window of the smoother, s, which accepts late messages; at least five steps",
        bounds=(1e-3, 1.0),
    )
    lag: float = parameter(
        0.01,
        "Lag of the published estimate behind the newest step, s; less than the window",
        bounds=(0.0, 1.0),
    )
    noise_encoder: tuple[float, ...] = parameter(
        (1e-4,),
        "Standard deviation of measured positions, rad or m; one for all or one per joint",
        entries=(1e-9, 1.0),
    )
    noise_torque: tuple[float, ...] = parameter(
        (0.2,),
        "Standard deviation of motor torques, N m or N; one for all or one per coordinate",
        entries=(1e-6, 1e6),
    )
    noise_jerk_density: float = parameter(
        1e3, "Spectral density of white jerk, rad^2/s^5 or m^2/s^5", bounds=(1e-3, 1e10)
    )
    noise_external_torque_density: float = parameter(
        1e3, "Density of the random walk of external torques, (N m)^2/s or N^2/s",
        bounds=(1e-6, 1e12),
    )  # fmt: skip
    joint_state_timeout: float = parameter(0.2, "Age at which joint states are stale, s", bounds=(1e-3, 60))
    sensor_timeout: float = parameter(0.2, "Age at which other readings are stale, s", bounds=(1e-3, 60))
    backend: str = parameter("auto", "Backend that runs the smoother", choices=BACKENDS)

    def job(self, text: str | bytes) -> EstimatorJob:
        """The build job of a robot description."""
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
        """Length of the window."""
        return max(SHORTEST, round(self.window * self.rate))

    @property
    def steps_of_lag(self) -> int:
        return round(self.lag * self.rate)

    def options(self) -> SmootherOptions:
        """Options of the JointSmoother."""
        return SmootherOptions(
            period=1.0 / self.rate,
            lag_steps=self.steps,
            encoder_std=self.noise_encoder,
            torque_std=self.noise_torque,
            jerk_density=self.noise_jerk_density,
            external_torque_density=self.noise_external_torque_density,
        )


PARAMETERS = parameters_of(EstimatorSettings, GROUPS)


def read_settings(values: dict[str, Any]) -> EstimatorSettings:
    """EstimatorSettings from {parameter name: value}. Raises ValueError with the name of the parameter and
    the reason."""
    settings = read_fields(EstimatorSettings, PARAMETERS, values)
    check_description(settings)
    require_joints_once(settings, ("command_joints",))
    if settings.steps > MOST_STEPS:
        raise InputError(
            f"window {settings.window:g} s has {settings.steps} steps at {settings.rate:g} Hz; the limit is "
            f"{MOST_STEPS}"
        )
    if settings.steps_of_lag > settings.steps - 1:
        raise InputError(f"lag {settings.lag:g} s must be less than the window of {settings.window:g} s")
    for name in ("encoder", "torque"):
        if not getattr(settings, f"noise_{name}"):
            raise InputError(f"noise.{name} needs one number, or one per joint")
    _check_jerk_density(settings)
    if settings.command_joints and settings.torque_source != COMMANDED:
        raise InputError("command_joints requires torque_source commanded")
    return settings


def _check_jerk_density(settings):
    """Raise ValueError for a jerk density next to which torques are practically exact: rounding would then
    dominate the accelerations."""
    T, torque = 1.0 / settings.rate, min(settings.noise_torque)
    most = UNEVEN * (torque**2 / T + settings.noise_external_torque_density)
    if settings.noise_jerk_density > most:
        raise InputError(
            f"noise.jerk_density {settings.noise_jerk_density:g} is above {most:.3g}, the limit for "
            f"noise.torque {torque:g} and noise.external_torque_density "
            f"{settings.noise_external_torque_density:g} at {settings.rate:g} Hz; raise one of these"
        )


def check_against(settings: EstimatorSettings, robot: EstimatedRobot):
    """Raise ValueError if names or lengths in the settings do not match the robot."""
    model = robot.model
    require_joints(settings, model, ("friction.joints", "command_joints"), explicit=False)
    counts = {"encoder": sum(j.type.is_scalar for j in model.tree.independent_joints), "torque": model.nv}
    for name, count in counts.items():
        given = len(getattr(settings, f"noise_{name}"))
        if given not in (1, count):
            raise InputError(f"noise.{name} has {given} entries; give 1 or {count}")
