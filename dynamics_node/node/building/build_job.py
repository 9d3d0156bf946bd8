"""What a building process does: a Job to a checked Robot with its solvers. See build_process.py.

The process is a fork of the build server (build_server.py). It ends with the node, and what it starts with
it; it may take so much memory and time, and is the first to go where memory runs out.
"""

import contextlib
import logging
import os
import pickle
import resource
import warnings
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np

from dynamics_node.algorithms import parse_robot, read_loops_file
from dynamics_node.codegen import DEVICES, CompileError
from dynamics_node.codegen.c.compiler import untuned
from dynamics_node.codegen.cache import sweep
from dynamics_node.estimation import (
    JointFilter,
    MomentumObserver,
    ObserverOptions,
    PayloadFunctions,
    build_observer,
    payload_functions,
)
from dynamics_node.functions import (
    Estimator,
    LoopSolver,
    QuantityFunction,
    RobotFunction,
    build,
    build_for_service,
    build_loop_solver,
    changeable,
)
from dynamics_node.node.state.sensor_readings import moving, read_sensors, sensor_named, unobservable_without
from dynamics_node.robot import ModelWarning, Robot, forward_dynamics, inverse_dynamics, named, sensor_problem
from dynamics_node.robot.joint_names import Pairs, with_their_names
from dynamics_node.robot.overrides import read_parameters_file
from dynamics_node.robot.safe_files import file_trouble
from dynamics_node.robot.sensors import ForceTorque, Sensor

log = logging.getLogger("dynamics_node")

COMPILING = ("auto", "c", *DEVICES)  # backends that take their time
INERTIA: Final = "operational_space_inertia_inverse"
REFERENCE = "world_aligned"
NO_PAYLOAD = "no payload is estimated"  # how a note begins that says why
NICENESS = 5  # more, and a node that is busy with numpy would wait long for its compiled solver
MEMORY_LIMIT = 4 * 2**30  # bytes of the process, and of the compiler's each
CPU_LIMIT = 900  # s of each; by the clock a node waits for TIME_LIMIT
LONGEST_REASON = 2000  # characters


@dataclass(frozen=True)
class Job:
    """What to build: `choices` go to parse_robot, the rest to build. services: backend of what answers
    services, made ready for many states; links: those whose operational-space inertia is asked by default;
    loops_file, parameters_file, sensors_file: paths of a sidecar file, of numbers that count instead of the
    description's, and of the robot's sensors, or ''; names: pairs of what drivers call joints and what the
    description does; wrench_sensor: name of a force/torque sensor, or ''; filter: position_std and
    jerk_density of a JointFilter; payload_link: of which is estimated what it carries, or ''. The robot has
    the drivers' names. tuned: of several ways to compile the fastest is looked for."""

    text: str | bytes
    choices: dict
    problem: str
    forward_joints: tuple[str, ...] = ()
    solver: str = "best"
    ordering: str | tuple[str, ...] = "best"
    backend: str = "auto"
    services: str = "numpy"
    loops_file: str = ""
    parameters_file: str = ""
    sensors_file: str = ""
    names: Pairs = ()
    links: tuple[str, ...] = ()
    wrench_sensor: str = ""
    observer: ObserverOptions | None = None
    filter: tuple[float, float] | None = None
    payload_link: str = ""
    tuned: bool = True

    def make(self) -> "ServedRobot":
        """The robot. Raises ValueError, KeyError, OSError and others, in words for people."""
        with contextlib.nullcontext() if self.tuned else untuned():
            return _build(self)

    def first(self) -> "Job":
        """What serves a new robot while the rest is compiled; an observer, or what estimates a payload, would
        take milliseconds a sample."""
        if self.backend not in COMPILING:
            return self
        return replace(self, backend="numpy", services="numpy", observer=None, payload_link="")

    def topics_first(self) -> "Job":
        """What serves topics, while the rest is compiled: what answers services, and other ways to compile
        the same, of which the fastest then serves."""
        return replace(self, services="numpy", tuned=self.backend not in COMPILING)


@dataclass(frozen=True)
class ServedRobot:
    """A checked Robot with the functions that serve it: what the node computes, and those for
    services; inertias: {(links, reference): operational-space inertia} of those asked by default; closing:
    what closes its loops; sensors: all that sensors_file declares; unobservable_without: {sensor of a sensor
    problem: what is open without it, in words}; wrench_sensor: whose readings are compensated, or None, and
    carried: the wrench of the parent ON the child there in free air; observer: None where none is asked for,
    or none is to be had; rates: filter of the independent joints with one coordinate, if one is asked for;
    payload: what estimates what a link carries, or None; notes: what was not to be had, and why."""

    model: Robot
    solver: RobotFunction
    inverse: RobotFunction
    forward: RobotFunction
    mass_matrix: QuantityFunction
    nonlinear_effects: QuantityFunction
    inertias: dict[tuple[tuple[str, ...], str], QuantityFunction]
    closing: LoopSolver | None = None
    sensors: tuple[Sensor, ...] = ()
    unobservable_without: dict[str, tuple[str, ...]] = field(default_factory=dict)
    wrench_sensor: ForceTorque | None = None
    carried: QuantityFunction | None = None
    observer: MomentumObserver | None = None
    rates: JointFilter | None = None
    payload: PayloadFunctions | None = None
    notes: tuple[str, ...] = ()

    @property
    def way(self) -> tuple[str, str, str]:
        """Solver, algorithm and backend, for people."""
        own = self.solver
        if isinstance(own, Estimator):
            return "least squares", own.description, own.runner.backend
        return own.choice.solver, own.description, own.runner.backend

    def with_inertias(self, model: Robot) -> "ServedRobot":
        """All functions with the inertias of another Robot; nothing is compiled."""
        names = ("solver", "inverse", "forward", "mass_matrix", "nonlinear_effects")
        changed = {name: getattr(self, name).with_inertias(model) for name in names}
        inertias = {key: function.with_inertias(model) for key, function in self.inertias.items()}
        carried = self.carried and self.carried.with_inertias(model)
        observer = self.observer and self.observer.with_inertias(model)
        payload = self.payload and self.payload.with_inertias(model)
        changed |= {"inertias": inertias, "carried": carried, "observer": observer, "payload": payload}
        return replace(self, model=model, **changed)

    def operational_space_inertia(self, links, reference) -> QuantityFunction:
        """Compiled for what is asked by default, at call time for others. Raises KeyError for an unknown
        link, ValueError for an unknown reference."""
        found = self.inertias.get((tuple(links), reference))
        return found or build(self.model, INERTIA, backend="numpy", links=list(links), reference=reference)


@dataclass(frozen=True)
class Failure:
    """Why a Job could not be done, in one line. passing: by no fault of its own; it may be tried again."""

    reason: str
    passing: bool = False


def do(job):
    """What a Job makes, with its notes; every error of the description or the choice becomes a Failure."""
    try:
        with _noted() as notes:
            robot = job.make()
        return replace(robot, notes=tuple(dict.fromkeys(notes)))
    except MemoryError:
        return Failure(f"building the robot takes more than {MEMORY_LIMIT / 2**30:g} GiB of memory")
    except KeyError as error:
        return Failure(str(error.args[0])[:LONGEST_REASON])
    except OSError as error:
        return Failure(file_trouble(error)[:LONGEST_REASON])
    except (ValueError, ImportError, ArithmeticError, CompileError) as error:
        return Failure(str(error)[:LONGEST_REASON])
    except Exception as error:  # a defect of ours must not end the node either
        return Failure(f"{type(error).__name__}: {error}"[:LONGEST_REASON])


def _build(job):
    model = described_robot(job)
    sensors = read_sensors(job.sensors_file, model)
    if job.problem == "sensors":
        solver, open_without = _estimator(model, job, moving(model, sensors))
    else:
        solver, open_without = _solver(model, job), {}
    wrist = sensor_named(sensors, "wrench_sensor.name", job.wrench_sensor, ForceTorque)
    beside = _beside(job.services)
    quantity = partial(build_for_service, model, backend=beside)
    links = job.links if set(job.links) <= set(model.frames) else ()
    return ServedRobot(
        model=model,
        solver=solver,
        inverse=build_for_service(model, inverse_dynamics(model), backend=job.services, batches=True),
        forward=build_for_service(model, forward_dynamics(model), backend=job.services, batches=True),
        mass_matrix=quantity("mass_matrix"),
        nonlinear_effects=quantity("nonlinear_effects"),
        inertias={(links, REFERENCE): quantity(INERTIA, links=list(links))} if links else {},
        closing=build_loop_solver(model, beside) if model.constrained else None,
        sensors=sensors,
        unobservable_without=open_without,
        wrench_sensor=wrist,
        carried=wrist and quantity("sensor_wrench", joint=wrist.joint, xyz=wrist.xyz, rpy=wrist.rpy),
        observer=_observer(model, job),
        rates=_rates(model, job),
        payload=_payload(model, job),
    )


def _solver(model, job):
    problem = named(job.problem, model, job.forward_joints)
    choice = {"solver": job.solver, "ordering": job.ordering, "backend": job.backend}
    return build_for_service(model, problem, **choice)


def _estimator(model, job, sensors):
    """And what is open without each of its sensors."""
    open_without = unobservable_without(model, sensors)
    problem = sensor_problem(model, sensors)
    return build_for_service(model, problem, backend=job.backend), open_without


def _observer(model, job):
    """Torques are more important: a robot whose observer is refused is served without."""
    if job.observer is None:
        return None
    backend = job.backend if job.backend in COMPILING else "numpy"
    try:
        return build_observer(model, job.observer, _beside(backend), changeable(model))
    except (ValueError, KeyError) as error:
        log.warning("no observer: %s", error.args[0])
        return None


def _payload(model, job):
    """As with the observer."""
    if not job.payload_link:
        return None
    backend = job.backend if job.backend in COMPILING else "numpy"
    try:
        return payload_functions(model, job.payload_link, _beside(backend), changeable(model))
    except (ValueError, KeyError) as error:
        log.warning("%s: %s", NO_PAYLOAD, error.args[0])
        return None


def _rates(model, job):
    if job.filter is None:
        return None
    joints = [joint for joint in model.independent_joints if joint.type.is_scalar]
    wraps = np.array([joint.type.wraps for joint in joints], dtype=bool)
    position_std, jerk_density = job.filter
    return JointFilter(len(joints), position_std, jerk_density, wraps=wraps, backend=_beside(job.services))


def _beside(backend):
    """What runs all that is for one state: devices are for many."""
    return "auto" if backend in DEVICES else backend


def described_robot(job) -> Robot:
    """The robot of a Job's description and of the files beside it, with the drivers' names. Raises ModelError
    and OSError."""
    loops = read_loops_file(job.loops_file) if job.loops_file else None
    parameters = read_parameters_file(job.parameters_file) if job.parameters_file else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)  # the node logs the robot's warnings
        robot = parse_robot(job.text, loops=loops, parameters=parameters, **job.choices)
    return called(robot, job.names)


def called(robot: Robot, pairs: Pairs) -> Robot:
    """The robot with the drivers' names of joints."""
    return robot.with_tree(with_their_names(robot.tree, pairs))


@contextlib.contextmanager
def _noted():
    """The warnings of the library meanwhile, for the node to say."""
    notes: list[str] = []

    class Notes(logging.Handler):
        def emit(self, record):
            notes.append(record.getMessage()[:LONGEST_REASON])

    logger, handler = logging.getLogger("dynamics_node"), Notes(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield notes
    finally:
        logger.removeHandler(handler)


# --- the process --------------------------------------------------------------------------------------------


def limit_resources(reserves=False):
    """Of this process and of each that it starts: memory and CPU time. reserves: drivers of devices reserve
    far more addresses than they have memory, so what is written to counts, and not the addresses."""
    memory = resource.RLIMIT_DATA if reserves else resource.RLIMIT_AS
    for what, most in ((memory, MEMORY_LIMIT), (resource.RLIMIT_CPU, CPU_LIMIT)):
        _, hard = resource.getrlimit(what)
        bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with contextlib.suppress(ValueError, OSError):  # macOS knows no limit of address space
            resource.setrlimit(what, (bound, bound))


def _make_way(aside):
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))  # the node may be bound to a core that it needs
    if aside:
        os.nice(NICENESS)


def work(request: int, answer: int, aside: bool):
    """Do the Job of one file, whose descriptor is `request`, into another; the environment comes with it."""
    with os.fdopen(request, "rb") as file:
        environment, job = pickle.load(file)
    os.environ.clear()
    os.environ.update(environment)
    limit_resources(reserves=job.backend in DEVICES)
    _make_way(aside)
    with contextlib.suppress(CompileError):
        sweep()
    result = do(job)
    with os.fdopen(answer, "wb") as file:
        pickle.dump(result, file)
