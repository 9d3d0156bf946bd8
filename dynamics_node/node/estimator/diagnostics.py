"""What /diagnostics says of the estimator, once a second. Without ROS."""

from time import monotonic_ns
from typing import Any

from dynamics_node.node.building.robot_manager import RobotManager
from dynamics_node.node.core.diagnostics import Statistics, Status
from dynamics_node.node.estimator.estimator_core import ENCODERS, TORQUES, EstimatorCore
from dynamics_node.text import listed

WORDS = {ENCODERS: "joint_states", TORQUES: "torques"}
DOUBTFUL = 5.0  # mean square of a reading's error over its variance


def report(manager: RobotManager, statistics: Statistics) -> Status:
    """What is estimated, how fast, from what, and why not; the solve times begin anew."""
    values: dict[str, Any] = {"building": manager.building}
    core = manager.core
    silent = {} if core is None else core.silent_sensors(monotonic_ns())
    if core is not None:
        values |= _of_core(core, silent)
    if percentiles := statistics.take_percentiles():
        values["solve time p50 [us]"], values["solve time p99 [us]"] = (f"{p:.1f}" for p in percentiles)
    values |= {
        "estimates": statistics.counts["solved"],
        "dropped messages": statistics.counts["dropped"],
        "last drop": statistics.last_drop,
        "errors": statistics.counts["errors"],
        "last error": statistics.last_error,
        "silent because": statistics.silent_because,
        "description error": manager.failure,
    }
    return Status(*_verdict(manager, statistics, silent), values)


def _of_core(core: EstimatorCore, silent) -> dict[str, Any]:
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
        "worst sensor": "" if estimate is None else WORDS.get(estimate.worst, estimate.worst),
        "late readings used": _counts(waiting.late),
        "readings too late": _counts(waiting.outside),
        "readings rejected": _counts(waiting.rejected),
        "begun anew": core.restarts,
        "unknown joints in joint_states": core.joints.unknown,
        "model warnings": "; ".join(core.model.warnings[:5]),
    }


def _counts(counter):
    return ", ".join(f"{WORDS.get(name, name)} {count}" for name, count in counter.items())


def _each(silent):
    return ", ".join(f"{name} {age}" for name, age in silent.items())


def _verdict(manager, statistics, silent) -> tuple[bool, str]:
    if manager.failure:
        served = "the last good model serves" if manager.core is not None else "no model yet"
        return True, f"{manager.failure} ({served})"
    if statistics.silent_because:
        return True, f"silent: {statistics.silent_because}"
    if manager.core is not None and (doubted := manager.core.doubted()):
        return (
            True,
            f"readings rejected, which encoders contradict: {listed([WORDS.get(n, n) for n in doubted])}",
        )
    told = manager.core.last if manager.core is not None else None
    unobservable = () if told is None else told.estimate.unobservable
    if silent:
        tells = f"; nothing tells {listed(list(unobservable))}" if unobservable else ""
        return True, f"nothing from {_each(silent)}{tells}"
    if unobservable:
        return True, f"nothing tells {listed(list(unobservable))}"
    if told is not None and told.estimate.chi_square > DOUBTFUL * told.estimate.readings:
        return (
            True,
            f"readings contradict each other, {WORDS.get(told.estimate.worst, told.estimate.worst)} most",
        )
    return False, "running"
