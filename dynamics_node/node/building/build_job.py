"""The building process: a Job becomes a checked Robot with its solvers. See build_process.py.

The process is a worker (worker.py). It and its children end with the node. Its memory and time are limited,
and the kernel kills it first if memory runs out.
"""

import contextlib
import logging
import os
import pickle
import resource
import socket
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np

from dynamics_node.codegen import DEVICES
from dynamics_node.codegen.c.compiler import untuned
from dynamics_node.codegen.cache import sweep
from dynamics_node.errors import CompileError, InputError, ModelWarning
from dynamics_node.estimation import (
    ContactObserver,
    JointFilter,
    MomentumObserver,
    ObserverOptions,
    PayloadFunctions,
    build_contact_observer,
    build_observer,
    payload_functions,
)
from dynamics_node.functions import (
    ContactSolver,
    Estimator,
    Function,
    LoopSolver,
    RobotFunction,
    build_contact_solver,
    build_contact_wrenches,
    build_for_service,
    build_loop_solver,
    changeable,
    evaluate,
)
from dynamics_node.io.motion_files import JointLimits, read_limits
from dynamics_node.node.state.active_contacts import read_contacts
from dynamics_node.node.state.coordinates import JointCoordinates
from dynamics_node.node.state.sensor_readings import moving, read_sensors, sensor_named, unobservable_without
from dynamics_node.robot import Robot, forward_dynamics, inverse_dynamics, named, parse_robot, sensor_problem
from dynamics_node.robot.contacts import Contact
from dynamics_node.robot.joint_names import Pairs, with_their_names
from dynamics_node.robot.loops_file import read_loops_file
from dynamics_node.robot.overrides import read_parameters_file
from dynamics_node.robot.safe_files import file_trouble
from dynamics_node.robot.sensors import ForceTorque, Imu, Sensor
from dynamics_node.trajectory.motion_limits import effort_limits_of, joint_limits

log = logging.getLogger("dynamics_node")

COMPILING = ("auto", "c", *DEVICES)  # backends that compile
INERTIA: Final = "operational_space_inertia_inverse"
REFERENCE = "world_aligned"
CONES: Final = "friction_cones"
CONTACT_FORCES = ("shortest", CONES)
NO_PAYLOAD = "no payload is estimated"  # start of a note with the reason
MEMORY_LIMIT = 4 * 2**30  # bytes of the process and of each compiler process
CPU_LIMIT = 900  # s of each job and compiler; TIME_LIMIT is the limit in wall time
MOST_MEMORY = 2**30  # bytes; after a job that took more, a new process follows
DONE = b"."
LONGEST_REASON = 2000  # characters


@dataclass(frozen=True)
class Job:
    """A build request. The robot has the driver names of joints.

    choices: keyword arguments of parse_robot; services: backend of the functions for services, prepared for
    batches; links: of the default operational-space inertia; loops_file, parameters_file, sensors_file,
    contacts_file, limits_file: paths of added loops, overriding parameters, sensors, contacts and limits, or
    ''; contact_forces: of CONTACT_FORCES; effort_limits, effort_limits_list: parameters that the forces CONES
    read; names: pairs of driver names and description names; wrench_sensor: name of a force/torque sensor,
    or ''; contact_observer: its options, level and IMU ('' for none), or None; filter: position_std and
    jerk_density of a JointFilter; payload_link: of the payload estimation, or ''; tuned: whether to time
    several ways to compile.
    """

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
    contacts_file: str = ""
    limits_file: str = ""
    contact_forces: str = "shortest"
    effort_limits: str = ""
    effort_limits_list: tuple[float, ...] = ()
    names: Pairs = ()
    links: tuple[str, ...] = ()
    wrench_sensor: str = ""
    observer: ObserverOptions | None = None
    contact_observer: tuple[ObserverOptions, float, str] | None = None
    filter: tuple[float, float] | None = None
    payload_link: str = ""
    tuned: bool = True

    def make(self) -> "ServedRobot":
        """Build the robot. Raises ValueError, KeyError, OSError and others, with messages for users."""
        with contextlib.nullcontext() if self.tuned else untuned():
            return _build(self)

    def first(self) -> "Job":
        """The job of the first stage, interpreted, which serves a new robot during compilation. It omits the
        observers and the payload estimation, which would take milliseconds per sample."""
        if self.backend not in COMPILING:
            return self
        slow = replace(self, observer=None, contact_observer=None, payload_link="")
        return replace(slow, backend="numpy", services="numpy")

    def topics_first(self) -> "Job":
        """The job of the second stage, which compiles the functions for topics. The functions for services
        and tuning follow in the third."""
        return replace(self, services="numpy", tuned=self.backend not in COMPILING)


@dataclass(frozen=True)
class ServedRobot:
    """A checked Robot with its functions for topics and services.

    inertias: {(links, reference): operational-space inertia} for the default links; loop_solver: None without
    loops; sensors: of sensors_file; unobservable_without: {sensor: texts of quantities} of a sensor problem;
    wrench_sensor: the sensor to compensate, or None; sensor_wrench: there, by the parent ON the child without
    contact; observer: None if disabled or not possible; contact_observer: None if contacts are given; rates:
    filter of the independent scalar joints, or None; payload: functions of the payload estimation, or None;
    notes: warnings of the build; touching: None without contacts, which `solver` has as an argument, unlike
    `inverse` and `forward`; limits: of limits_file.
    """

    model: Robot
    solver: RobotFunction
    inverse: RobotFunction
    forward: RobotFunction
    mass_matrix: RobotFunction
    nonlinear_effects: RobotFunction
    inertias: dict[tuple[tuple[str, ...], str], RobotFunction]
    loop_solver: LoopSolver | None = None
    sensors: tuple[Sensor, ...] = ()
    unobservable_without: dict[str, tuple[str, ...]] = field(default_factory=dict)
    wrench_sensor: ForceTorque | None = None
    sensor_wrench: RobotFunction | None = None
    observer: MomentumObserver | None = None
    contact_observer: ContactObserver | None = None
    rates: JointFilter | None = None
    payload: PayloadFunctions | None = None
    notes: tuple[str, ...] = ()
    touching: "ContactFunctions | None" = None
    limits: JointLimits = field(default_factory=dict)

    @property
    def method(self) -> tuple[str, str, str]:
        """Solver, algorithm and backend, for reports."""
        solver = self.solver
        if self.touching is not None and self.touching.cones is not None:
            return "quadratic program", "DAQP with friction cones", self.touching.cones.qp.runner.backend
        if isinstance(solver, Estimator):
            return "least squares", solver.description, solver.runner.backend
        return solver.choice.solver, solver.description, solver.runner.backend

    def with_inertias(self, model: Robot) -> "ServedRobot":
        """A copy with the inertias of another Robot, without compilation."""
        names = ("solver", "inverse", "forward", "mass_matrix", "nonlinear_effects")
        changed = {name: getattr(self, name).with_inertias(model) for name in names}
        inertias = {key: function.with_inertias(model) for key, function in self.inertias.items()}
        sensor_wrench = self.sensor_wrench and self.sensor_wrench.with_inertias(model)
        observer = self.observer and self.observer.with_inertias(model)
        contact_observer = self.contact_observer and self.contact_observer.with_inertias(model)
        payload = self.payload and self.payload.with_inertias(model)
        touching = self.touching and self.touching.with_inertias(model)
        changed |= {
            "touching": touching,
            "inertias": inertias,
            "sensor_wrench": sensor_wrench,
            "observer": observer,
            "contact_observer": contact_observer,
            "payload": payload,
        }
        return replace(self, model=model, **changed)

    def operational_space_inertia(self, links, reference) -> Callable:
        """The compiled function of the default links, or an interpreted one. Raises KeyError for an unknown
        link, ValueError for an unknown reference."""
        compiled = self.inertias.get((tuple(links), reference))
        options = {"backend": "numpy", "links": tuple(links), "reference": reference}
        return compiled or partial(evaluate, self.model, INERTIA, **options)


@dataclass(frozen=True)
class ContactFunctions:
    """Functions for the contacts of contacts_file. cones: None without contact_forces friction_cones."""

    contacts: tuple[Contact, ...]
    inverse: RobotFunction
    forward: RobotFunction
    wrenches: Function
    cones: ContactSolver | None = None

    def with_inertias(self, model: Robot) -> "ContactFunctions":
        """See ServedRobot."""
        inverse, forward = self.inverse.with_inertias(model), self.forward.with_inertias(model)
        cones = self.cones and self.cones.with_inertias(model)
        return replace(self, inverse=inverse, forward=forward, cones=cones)


@dataclass(frozen=True)
class Failure:
    """Error of a Job, in one line. transient: not caused by the job, which may be retried."""

    reason: str
    transient: bool = False


def do(job):
    """Result of a Job, with its notes; errors become a Failure."""
    try:
        with _collected_warnings() as notes:
            robot = job.make()
        return replace(robot, notes=tuple(dict.fromkeys(notes)))
    except MemoryError:
        return Failure(f"building the robot needs more than {MEMORY_LIMIT / 2**30:g} GiB of memory")
    except KeyError as error:
        return Failure(str(error.args[0])[:LONGEST_REASON])
    except OSError as error:
        return Failure(file_trouble(error)[:LONGEST_REASON])
    except (ValueError, ImportError, ArithmeticError, CompileError) as error:
        return Failure(str(error)[:LONGEST_REASON])
    except Exception as error:  # internal errors must not end the node either
        return Failure(f"{type(error).__name__}: {error}"[:LONGEST_REASON])


def _build(job):
    model = described_robot(job)
    sensors, contacts = read_sensors(job.sensors_file, model), read_contacts(job.contacts_file, model)
    limits = _read_limits(job.limits_file, model)
    if job.problem == "sensors":
        solver, not_observable = _estimator(model, job, moving(model, sensors), contacts)
    else:
        solver, not_observable = _solver(model, job, contacts), {}
    wrist = sensor_named(sensors, "wrench_sensor.name", job.wrench_sensor, ForceTorque)
    backend = _single_state_backend(job.services)
    quantity = partial(build_for_service, model, backend=backend)
    links = job.links if set(job.links) <= set(model.frames) else ()
    return ServedRobot(
        model=model,
        solver=solver,
        inverse=build_for_service(model, inverse_dynamics(model), backend=job.services, batches=True),
        forward=build_for_service(model, forward_dynamics(model), backend=job.services, batches=True),
        mass_matrix=quantity("mass_matrix"),
        nonlinear_effects=quantity("nonlinear_effects"),
        inertias={(links, REFERENCE): quantity(INERTIA, links=list(links))} if links else {},
        loop_solver=build_loop_solver(model, backend) if model.constrained else None,
        sensors=sensors,
        unobservable_without=not_observable,
        wrench_sensor=wrist,
        sensor_wrench=wrist and quantity("sensor_wrench", joint=wrist.joint, xyz=wrist.xyz, rpy=wrist.rpy),
        observer=_observer(model, job),
        contact_observer=_contact_observer(model, job, contacts, sensors),
        rates=_rates(model, job),
        payload=_payload(model, job),
        touching=_contact_functions(model, job, contacts, limits),
        limits=limits,
    )


def _read_limits(path, model) -> JointLimits:
    """Limits of a file, none without one. Raises OSError and InputError."""
    limits = read_limits(path) if path else {}
    try:
        joint_limits(model, limits)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return limits


def _solver(model, job, contacts):
    problem = named(job.problem, model, job.forward_joints, contacts)
    choice = {"solver": job.solver, "ordering": job.ordering, "backend": job.backend}
    return build_for_service(model, problem, f_ext=True, **choice)


def _contact_functions(model, job, contacts, limits):
    """The ContactFunctions; None without contacts, and if an Estimator has their forces."""
    if not contacts or job.problem == "sensors":
        return None
    backend = job.services
    return ContactFunctions(
        contacts=contacts,
        inverse=build_for_service(model, inverse_dynamics(model, contacts), backend=backend, batches=True),
        forward=build_for_service(model, forward_dynamics(model, contacts), backend=backend, batches=True),
        wrenches=build_contact_wrenches(model, contacts, _single_state_backend(backend)),
        cones=_cones(model, contacts, job, limits),
    )


def _cones(model, contacts, job, limits):
    """The solver of contact forces within friction cones; None for the shortest forces."""
    if job.contact_forces != CONES:
        return None
    backend = job.backend if job.backend in COMPILING else "numpy"
    solver = build_contact_solver(
        model,
        contacts,
        effort_limits=_efforts(model, job, limits),
        f_ext=True,
        backend=_single_state_backend(backend),
        runtime_parameters=changeable(model),
    )
    solver.compile(batches=job.services in COMPILING)
    return solver


def _efforts(model, job, limits):
    """Effort limits (nv,) of a ContactSolver. Raises InputError for those of limits_file that it does not
    have."""
    efforts = model.effort_limits if job.effort_limits == "urdf" else np.full(model.nv, np.inf)
    if job.effort_limits == "list":
        names = JointCoordinates(model).names
        listed = dict(zip(names, job.effort_limits_list, strict=False))  # check_against counts them
        for joint in model.independent_joints:
            efforts[joint.v] = listed.get(joint.name, np.inf)
    bounds = effort_limits_of(efforts, model.v_names, limits)
    unequal = (bounds.slope != 0) | (bounds.lower != -bounds.upper)
    if unequal.any():
        name = model.v_names[bounds.joint[unequal.argmax()]]
        raise InputError(
            f"{job.limits_file}: contact_forces {CONES} reads max_effort alone, not limits of {name!r} by "
            "velocity or sign"
        )
    return bounds.ranges(np.zeros(model.nv))[1]


def _estimator(model, job, sensors, contacts):
    """The Estimator, and the quantities that are not observable without each of its sensors."""
    not_observable = unobservable_without(model, sensors, contacts)
    problem = sensor_problem(model, sensors, contacts=contacts)
    return build_for_service(model, problem, backend=job.backend), not_observable


def _observer(model, job):
    """The observer, None if it is not possible: the robot is served without."""
    if job.observer is None:
        return None
    backend = job.backend if job.backend in COMPILING else "numpy"
    try:
        return build_observer(model, job.observer, _single_state_backend(backend), changeable(model))
    except (ValueError, KeyError) as error:
        log.warning("no observer: %s", error.args[0])
        return None


def _contact_observer(model, job, contacts, sensors):
    """The observer of the active contacts, None if they are given. Raises ValueError."""
    if job.contact_observer is None or not contacts:
        return None
    options, level, imu = job.contact_observer
    sensor = sensor_named(sensors, "contact_estimation.imu", imu, Imu)
    backend = _single_state_backend(job.backend if job.backend in COMPILING else "numpy")
    choices = {"imu": sensor, "level": level, "backend": backend, "runtime_parameters": changeable(model)}
    try:
        return build_contact_observer(model, contacts, options, **choices)
    except ValueError as error:
        raise InputError(f"contact_source estimated: {error}") from None


def _payload(model, job):
    """The payload functions, None if they are not possible."""
    if not job.payload_link:
        return None
    backend = job.backend if job.backend in COMPILING else "numpy"
    try:
        return payload_functions(model, job.payload_link, _single_state_backend(backend), changeable(model))
    except (ValueError, KeyError) as error:
        log.warning("%s: %s", NO_PAYLOAD, error.args[0])
        return None


def _rates(model, job):
    if job.filter is None:
        return None
    position_std, jerk_density = job.filter
    return JointFilter(model, position_std, jerk_density, backend=_single_state_backend(job.services))


def _single_state_backend(backend):
    """Backend for single states: devices are for batches."""
    return "auto" if backend in DEVICES else backend


def described_robot(job) -> Robot:
    """The robot of the description and the files of a Job, with the driver names of joints. Raises ModelError
    and OSError."""
    loops = read_loops_file(job.loops_file) if job.loops_file else None
    parameters = read_parameters_file(job.parameters_file) if job.parameters_file else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)  # the node logs the robot's warnings
        robot = parse_robot(job.text, loops=loops, parameters=parameters, **job.choices)
    return with_driver_names(robot, job.names)


def with_driver_names(robot: Robot, pairs: Pairs) -> Robot:
    """The robot with the driver names of joints."""
    return robot.with_tree(with_their_names(robot.tree, pairs))


@contextlib.contextmanager
def _collected_warnings():
    """Collects warnings of the library, which the node logs."""
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
    """Limit memory and CPU time of this process and of each child, from now on. reserves: limit the data
    segment instead of the address space, of which device drivers reserve more than they use."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    bounds = {
        resource.RLIMIT_AS: resource.RLIM_INFINITY if reserves else MEMORY_LIMIT,
        resource.RLIMIT_DATA: MEMORY_LIMIT if reserves else resource.RLIM_INFINITY,
        resource.RLIMIT_CPU: CPU_LIMIT + int(usage.ru_utime + usage.ru_stime),
    }
    for kind, bound in bounds.items():
        _, hard = resource.getrlimit(kind)
        within = bound if hard == resource.RLIM_INFINITY or 0 <= bound < hard else hard
        with contextlib.suppress(ValueError, OSError):  # macOS has no limit of address space
            resource.setrlimit(kind, (within, hard))


def work(connection: socket.socket):
    """Run jobs until the node ends. Each message has the descriptors of a file with the Job, and of one for
    the result; DONE follows the result."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(connection, 1, 2)
        if not message:
            return
        _run_job(*descriptors)
        connection.send(DONE)
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > MOST_MEMORY:
            return  # the next job begins with little


def _run_job(request, answer):
    """Run the Job in the file descriptor `request`, and write the result to `answer`."""
    with os.fdopen(request, "rb") as file:
        job = pickle.load(file)
    limit_resources(reserves=job.backend in DEVICES)
    with contextlib.suppress(CompileError):
        sweep()
    result = do(job)
    with os.fdopen(answer, "wb") as file:
        pickle.dump(result, file)
