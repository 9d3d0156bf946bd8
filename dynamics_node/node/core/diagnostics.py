"""Statistics of the nodes, and their statuses on /diagnostics, once a second."""

from collections import Counter, deque
from time import monotonic_ns
from typing import Any, NamedTuple

from dynamics_node.node.core.contact_estimate import estimate_status
from dynamics_node.node.core.contact_loads import ContactLoads, ContactMap
from dynamics_node.node.core.dynamics_core import Core
from dynamics_node.node.core.external_torque import contact_status
from dynamics_node.node.core.robot_manager import RobotManager
from dynamics_node.node.errors import NO_DESCRIPTION, NoOutput
from dynamics_node.node.state.joint_memory import NEVER
from dynamics_node.text import listed

MOST_TIMES = 1000  # solve times of a report
LARGEST_CHI_SQUARE = 5.0  # per reading; more is a contradiction between sensors


class Missing:
    """Why an estimate is missing at the last state; reason and remedy: "" if it was published or is off."""

    def __init__(self):
        self.set(None)

    def set(self, no_output: NoOutput | None):
        """Store the error, whose text may be computed later."""
        self._error = None if no_output is None else _without_traceback(no_output)
        self.remedy = "" if no_output is None else no_output.remedy

    @property
    def reason(self) -> str:
        return "" if self._error is None else str(self._error)


class Statistics:
    """The newest solve times (s) since the last report, and counts since the start."""

    _no_output: NoOutput | None

    def __init__(self):
        self.counts: Counter[str] = Counter()
        self._solve_times: deque[float] = deque(maxlen=MOST_TIMES)
        self._instead = ""
        self.note(NO_DESCRIPTION)
        self.last_drop = self.last_error = ""
        self.clamped: tuple[str, ...] = ()
        self._contacts: ContactMap | None = None
        self._loads: ContactLoads | None = None
        self.no_torque, self.no_contacts = Missing(), Missing()

    def solved(self, seconds, clamped, contacts=None, loads=None):
        """Count an output. contacts: a ContactMap, and its ContactLoads; None without contacts."""
        self.counts["solved"] += 1
        self._solve_times.append(seconds)
        self.clamped, self._contacts, self._loads = clamped, contacts, loads
        self._no_output, self._instead = None, ""

    def no_output(self, no_output: NoOutput):
        self.counts["no output"] += 1
        self._instead = ""
        self.note(no_output)

    def stale_output(self, on_stale: str):
        """Store what is published in place of the missing output: a value of on_stale."""
        self._instead = f"{on_stale} torques in place of the output"

    def note(self, no_output: NoOutput):
        """Store the reason without counting a state."""
        self._no_output, self.remedy = _without_traceback(no_output), no_output.remedy

    @property
    def no_output_reason(self) -> str:
        """Reason for no output at the last state, "" if there was output."""
        return "" if self._no_output is None else str(self._no_output)

    @property
    def trouble(self) -> str:
        """What is published in place of the output and why, "" if there was output."""
        return self.no_output_reason and f"{self._instead or 'no output'}: {self.no_output_reason}"

    @property
    def missing(self) -> tuple[str, str]:
        """Reason and remedy of the first missing estimate, "" if there is none."""
        for what, missing in (("contact estimate", self.no_contacts), ("external torques", self.no_torque)):
            if reason := missing.reason:
                return f"no {what}: {reason}", missing.remedy
        return "", ""

    def dropped(self, topic, reason):
        self.counts["dropped"] += 1
        self.last_drop = f"{topic}: {reason}"

    def failed(self, error):
        self.counts["errors"] += 1
        self.last_error = error

    @property
    def contact_trouble(self) -> str:
        """Why the active contacts cannot hold the robot at the last state, "" if they can."""
        if self._contacts is None or self._loads is None or self._no_output is not None:
            return ""
        return self._contacts.trouble(self._loads)

    @property
    def residual(self) -> str:
        """Magnitudes of the wrench that contacts do not give at the last state."""
        if self._loads is None:
            return ""
        moment, force = self._loads.missing
        return f"{force:.3g} N, {moment:.3g} N m"

    def take_times(self) -> dict[str, str]:
        """Percentiles of the solve times since the last call; {} if there were none."""
        if not self._solve_times:
            return {}
        times = sorted(self._solve_times)  # np.percentile takes 1 ms, once a second
        self._solve_times.clear()
        p50, p99 = (times[int(share * (len(times) - 1))] * 1e6 for share in (0.5, 0.99))
        return {"solve time p50 [us]": f"{p50:.1f}", "solve time p99 [us]": f"{p99:.1f}"}

    @property
    def problems(self) -> dict[str, Any]:
        """Rows for dropped messages, errors and missing output."""
        return {
            "dropped messages": self.counts["dropped"],
            "last drop": self.last_drop,
            "errors": self.counts["errors"],
            "last error": self.last_error,
            "no output because": self.no_output_reason,
        }


def _without_traceback(no_output):
    """The same error without its frames, which would keep their objects alive."""
    for error in (no_output, *no_output.args):
        if isinstance(error, Exception):
            error.__traceback__ = None
    return no_output


class Status(NamedTuple):
    """warn: whether something is wrong; values: {key: anything printable}."""

    warn: bool
    summary: str
    values: dict[str, Any]


def _common_problem(manager, statistics) -> str:
    """Problem of the description or the input, "" without one."""
    if manager.failure:
        served = "the last valid robot is in use" if manager.core is not None else "no robot yet"
        return f"{manager.failure} ({served})"
    return statistics.trouble


# --- of dynamics_node ---------------------------------------------------------------------------------------


def report(manager: RobotManager, statistics: Statistics, enabled: bool, lost_device: str = "") -> Status:
    """Status of dynamics_node; resets the solve times. lost_device: reason for services without the GPU, ""
    while it works."""
    values: dict[str, Any] = {"enabled": enabled, "building": manager.building}
    if manager.core is not None:
        values |= _of_core(manager.core)
    values |= {
        **statistics.take_times(),
        "solved": statistics.counts["solved"],
        "no output": statistics.counts["no output"],
        **statistics.problems,
        "clamped joints": ", ".join(statistics.clamped),
        "base residual": statistics.residual,
        "contact trouble": statistics.contact_trouble,
        "no external torques because": statistics.no_torque.reason,
        "no contact estimate because": statistics.no_contacts.reason,
        "description error": manager.failure,
        "lost GPU": lost_device,
    }
    warn, summary = _verdict(manager, statistics, enabled)
    if lost_device:
        warn, summary = True, f"{summary}; services on the CPU, the GPU is lost: {lost_device}"
    return Status(warn, summary, values)


def _of_core(core: Core) -> dict[str, Any]:
    robot = core.robot
    solver, algorithm, backend = robot.method
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
        "unrealized torque of driven joints": f"{core.coordinates.unrealized:.3g}",
        "unknown joints in joint_states": core.joints.unknown,
        "inconsistent explicit joints": ", ".join(core.coordinates.contradicted(core.joints.position)),
        "payloads": ", ".join(f"{link} {payload[0]:g} kg" for link, payload in core.payloads.items()),
        "external wrenches on": ", ".join(core.wrenches.links(monotonic_ns(), core.wrench_timeout)),
        "sensors": _sensors(core, now),
        "wrench sensor": core.wrench_sensor.status(now),
        "payload estimation": core.payload_estimation.status(),
        "active contacts": ", ".join(core.active.active),
        "estimated forces at contacts": estimate_status(core),
        "contact": contact_status(core) if core.settings.observer_enabled else "",
        "model warnings": "; ".join(robot.model.warnings[:5]),
    }


def _sensors(core, now):
    """Age of each reading of a sensor problem, and their chi-square."""
    if core.sensors is None:
        return ""
    ages = core.sensors.ages(now).items()
    rows = [f"{name} {'never' if age is None else f'{age * 1e3:.0f} ms'}" for name, age in ages]
    expected = core.solver.degrees_of_freedom
    return f"{', '.join(rows)}; chi-square {core.sensors.chi_square:.3g}, expected {expected}"


def _verdict(manager, statistics, enabled) -> tuple[bool, str]:
    if not (enabled or manager.failure):
        return False, "disabled"
    if trouble := _common_problem(manager, statistics):
        return True, trouble
    if reason := statistics.missing[0]:
        return True, reason
    if trouble := statistics.contact_trouble:
        return True, trouble
    if statistics.clamped:
        return True, f"torque clamped at {', '.join(statistics.clamped)}"
    return False, "running"


# --- of dynamics_estimator ----------------------------------------------------------------------------------


def estimator_report(manager: RobotManager, statistics: Statistics) -> Status:
    """Status of dynamics_estimator; resets the solve times."""
    core = manager.core
    stale = {} if core is None else core.stale_sensors(monotonic_ns())
    values: dict[str, Any] = {"building": manager.building}
    if core is not None:
        values |= _of_estimator(core, stale)
    values |= {
        **statistics.take_times(),
        "estimates": statistics.counts["solved"],
        **statistics.problems,
        "description error": manager.failure,
    }
    trouble = _common_problem(manager, statistics) or (_estimator_trouble(core, stale) if core else "")
    return Status(bool(trouble), trouble or "running", values)


def _of_estimator(core, stale) -> dict[str, Any]:
    settings, last, pending = core.settings, core.last, core.pending
    estimate = None if last is None else last.estimate
    return {
        "robot": core.model.name,
        "joints": len(core.joints.names),
        "rate [Hz]": f"{settings.rate:g}",
        "window [steps]": settings.steps,
        "lag [ms]": f"{settings.steps_of_lag / settings.rate * 1e3:g}",
        "torques": settings.torque_source,
        "stale sensors": _ages(stale),
        "not observable": "" if estimate is None else ", ".join(estimate.unobservable),
        "chi-square": ""
        if estimate is None
        else f"{estimate.chi_square:.3g} of {estimate.readings} readings",
        "worst sensor": "" if estimate is None else core.name_of(estimate.worst),
        "late readings used": _counts(core, pending.late),
        "readings too late": _counts(core, pending.too_late),
        "readings rejected": _counts(core, pending.rejected),
        "restarts": core.restarts,
        "unknown joints in joint_states": core.joints.unknown,
        "model warnings": "; ".join(core.model.warnings[:5]),
    }


def _counts(core, counter):
    return ", ".join(f"{core.name_of(name)} {count}" for name, count in counter.items())


def _ages(stale):
    return ", ".join(f"{name} {age}" for name, age in stale.items())


def _estimator_trouble(core, stale) -> str:
    if rejected := core.rejected_sensors():
        names = [f"{name} (mean error {error})" if error else name for name, error in rejected.items()]
        return f"readings contradict the encoders and are rejected: {listed(names)}"
    estimate = None if core.last is None else core.last.estimate
    unobservable = () if estimate is None else estimate.unobservable
    if stale:
        effect = f"; not observable: {listed(unobservable)}" if unobservable else ""
        return f"no readings from {_ages(stale)}{effect}"
    if unobservable:
        return f"not observable: {listed(unobservable)}"
    if estimate is not None and estimate.chi_square > LARGEST_CHI_SQUARE * estimate.readings:
        return f"readings contradict each other, {core.name_of(estimate.worst)} most"
    return ""
