"""Counts and times of what the nodes do, and their statuses on /diagnostics, once a second."""

from collections import Counter, deque
from time import monotonic_ns
from typing import Any, NamedTuple

import numpy as np

from dynamics_node.node.core.dynamics_core import Core
from dynamics_node.node.core.measured_efforts import told
from dynamics_node.node.core.robot_manager import RobotManager
from dynamics_node.node.errors import NO_DESCRIPTION, NoOutput
from dynamics_node.node.state.joint_memory import NEVER
from dynamics_node.text import listed

DOUBTFUL = 5.0  # mean square of a reading's error over its variance


class Statistics:
    """solve times (s) since the last report, and counts since the start."""

    _silence: NoOutput | None

    def __init__(self):
        self.counts: Counter[str] = Counter()
        self._solve_times: deque[float] = deque(maxlen=20_000)
        self.note(NO_DESCRIPTION)
        self.last_drop = self.last_error = ""
        self.clamped: tuple[str, ...] = ()
        self.observing(None)

    def solved(self, seconds, clamped):
        self.counts["solved"] += 1
        self._solve_times.append(seconds)
        self.clamped = clamped
        self._silence = None

    def silent(self, silence: NoOutput):
        self.counts["silent"] += 1
        self.note(silence)

    def note(self, silence: NoOutput):
        """Why nothing is published, without a state that was not answered."""
        self._silence, self.remedy = _kept(silence), silence.remedy

    @property
    def silent_because(self) -> str:
        """Why nothing was published last, "" where something was."""
        return "" if self._silence is None else str(self._silence)

    def observing(self, silence: NoOutput | None):
        """Why nothing is said of what pushes on the robot."""
        self._unobserved = None if silence is None else _kept(silence)
        self.unobserved_remedy = "" if silence is None else silence.remedy

    @property
    def unobserved(self) -> str:
        """Why nothing was said of what pushes on the robot last, "" where something was."""
        return "" if self._unobserved is None else str(self._unobserved)

    def dropped(self, topic, reason):
        self.counts["dropped"] += 1
        self.last_drop = f"{topic}: {reason}"

    def failed(self, error):
        self.counts["errors"] += 1
        self.last_error = error

    def take_times(self) -> dict[str, str]:
        """Percentiles of the solve times since the last call; {} without any."""
        if not self._solve_times:
            return {}
        p50, p99 = np.percentile(self._solve_times, (50, 99)) * 1e6
        self._solve_times.clear()
        return {"solve time p50 [us]": f"{p50:.1f}", "solve time p99 [us]": f"{p99:.1f}"}

    @property
    def troubles(self) -> dict[str, Any]:
        """What went wrong, and why nothing is published."""
        return {
            "dropped messages": self.counts["dropped"],
            "last drop": self.last_drop,
            "errors": self.counts["errors"],
            "last error": self.last_error,
            "silent because": self.silent_because,
        }


def _kept(silence):
    """Without the frames in which it was raised, and what they hold."""
    for error in (silence, *silence.args):
        if isinstance(error, Exception):
            error.__traceback__ = None
    return silence


class Status(NamedTuple):
    """warn: something is not as it should be; values: {key: anything printable}."""

    warn: bool
    summary: str
    values: dict[str, Any]


def _verdict_of_both(manager, statistics) -> str:
    """What is wrong with the description or the input, "" for nothing."""
    if manager.failure:
        served = "the last good model serves" if manager.core is not None else "no model yet"
        return f"{manager.failure} ({served})"
    return statistics.silent_because and f"silent: {statistics.silent_because}"


# --- of dynamics_node ---------------------------------------------------------------------------------------


def report(manager: RobotManager, statistics: Statistics, enabled: bool, lost_device: str = "") -> Status:
    """What is served, how fast and why not; the solve times begin anew. lost_device: why services go on
    without their GPU."""
    values: dict[str, Any] = {"enabled": enabled, "building": manager.building}
    if manager.core is not None:
        values |= _of_core(manager.core)
    values |= {
        **statistics.take_times(),
        "solved": statistics.counts["solved"],
        "silent": statistics.counts["silent"],
        **statistics.troubles,
        "clamped joints": ", ".join(statistics.clamped),
        "no external torques because": statistics.unobserved,
        "description error": manager.failure,
        "lost GPU": lost_device,
    }
    warn, summary = _verdict(manager, statistics, enabled)
    if lost_device:
        warn, summary = True, f"{summary}; services by the CPU, the GPU is lost: {lost_device}"
    return Status(warn, summary, values)


def _of_core(core: Core) -> dict[str, Any]:
    robot = core.robot
    solver, algorithm, backend = robot.way
    now, condition = monotonic_ns(), core.coordinates.condition
    oldest = int(core.joints.oldest(now))
    age = f"{(now - oldest) * 1e-6:.1f}" if oldest > NEVER else ""
    return {
        "robot": robot.model.name,
        "joints": len(core.joints.names),
        "problem": robot.solver.problem.kind,
        "solver": solver,
        "algorithm": algorithm,
        "backend": backend,
        "oldest joint state [ms]": age,
        "loops": ", ".join(constraint.name for constraint in getattr(robot.model, "constraints", ())),
        "condition of the loops": "" if condition is None else f"{condition:.3g}",
        "torque that driven joints miss": f"{core.coordinates.unrealized:.3g}",
        "unknown joints in joint_states": core.joints.unknown,
        "explicit joints off": ", ".join(core.coordinates.contradicted(core.joints.position)),
        "payloads": ", ".join(f"{link} {payload[0]:g} kg" for link, payload in core.payloads.items()),
        "external wrenches on": ", ".join(core.wrenches.links(monotonic_ns(), core.wrench_timeout)),
        "sensors": _sensors(core, now),
        "wrench sensor": core.wrench_sensor.status(now),
        "payload estimation": core.payload_estimation.status(),
        "pushed": told(core) if core.settings.observer_enabled else "",
        "model warnings": "; ".join(robot.model.warnings[:5]),
    }


def _sensors(core, now):
    """Of a sensor problem: how old every reading is, and how well they agree."""
    if core.sensors is None:
        return ""
    ages = core.sensors.ages(now).items()
    told = [f"{name} {'never' if age is None else f'{age * 1e3:.0f} ms'}" for name, age in ages]
    expected = core.solver.degrees_of_freedom
    return f"{', '.join(told)}; chi-square {core.sensors.chi_square:.3g}, expected {expected}"


def _verdict(manager, statistics, enabled) -> tuple[bool, str]:
    if not (enabled or manager.failure):
        return False, "disabled"
    if trouble := _verdict_of_both(manager, statistics):
        return True, trouble
    if statistics.unobserved:
        return True, f"no external torques: {statistics.unobserved}"
    if statistics.clamped:
        return True, f"torque clamped at {', '.join(statistics.clamped)}"
    return False, "running"


# --- of dynamics_estimator ----------------------------------------------------------------------------------


def estimator_report(manager: RobotManager, statistics: Statistics) -> Status:
    """What is estimated, how fast, from what, and why not; the solve times begin anew."""
    core = manager.core
    silent = {} if core is None else core.silent_sensors(monotonic_ns())
    values: dict[str, Any] = {"building": manager.building}
    if core is not None:
        values |= _of_estimator(core, silent)
    values |= {
        **statistics.take_times(),
        "estimates": statistics.counts["solved"],
        **statistics.troubles,
        "description error": manager.failure,
    }
    trouble = _verdict_of_both(manager, statistics) or (_estimator_trouble(core, silent) if core else "")
    return Status(bool(trouble), trouble or "running", values)


def _of_estimator(core, silent) -> dict[str, Any]:
    settings, told, waiting = core.settings, core.last, core.waiting
    estimate = None if told is None else told.estimate
    return {
        "robot": core.model.name,
        "joints": len(core.joints.names),
        "rate [Hz]": f"{settings.rate:g}",
        "window [steps]": settings.steps,
        "lag [ms]": f"{settings.steps_of_lag / settings.rate * 1e3:g}",
        "torques": settings.torque_source,
        "silent sensors": _each(silent),
        "not observable": "" if estimate is None else ", ".join(estimate.unobservable),
        "chi-square": ""
        if estimate is None
        else f"{estimate.chi_square:.3g} of {estimate.readings} readings",
        "worst sensor": "" if estimate is None else core.name_of(estimate.worst),
        "late readings used": _counts(core, waiting.late),
        "readings too late": _counts(core, waiting.outside),
        "readings rejected": _counts(core, waiting.rejected),
        "begun anew": core.restarts,
        "unknown joints in joint_states": core.joints.unknown,
        "model warnings": "; ".join(core.model.warnings[:5]),
    }


def _counts(core, counter):
    return ", ".join(f"{core.name_of(name)} {count}" for name, count in counter.items())


def _each(silent):
    return ", ".join(f"{name} {age}" for name, age in silent.items())


def _estimator_trouble(core, silent) -> str:
    if doubted := core.doubted():
        return f"readings rejected, which encoders contradict: {listed(map(core.name_of, doubted))}"
    estimate = None if core.last is None else core.last.estimate
    unobservable = () if estimate is None else estimate.unobservable
    if silent:
        tells = f"; nothing tells {listed(unobservable)}" if unobservable else ""
        return f"nothing from {_each(silent)}{tells}"
    if unobservable:
        return f"nothing tells {listed(unobservable)}"
    if estimate is not None and estimate.chi_square > DOUBTFUL * estimate.readings:
        return f"readings contradict each other, {core.name_of(estimate.worst)} most"
    return ""
