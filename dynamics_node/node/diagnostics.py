"""/diagnostics, once a second."""

from time import monotonic_ns

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

from dynamics_node.node.joint_memory import NEVER
from dynamics_node.node.text import shown


def diagnostic_message(stamp, name, level, summary, values) -> DiagnosticArray:
    """One status; values: {key: anything printable}."""
    status = DiagnosticStatus(
        level=level,
        name=name,
        message=shown(summary),
        hardware_id="",
        values=[KeyValue(key=key, value=shown(value)) for key, value in values.items()],
    )
    message = DiagnosticArray(status=[status])
    message.header.stamp = stamp
    return message


def report(core, statistics, *, enabled, building, failure):
    """Level, summary and values of the status."""
    values = {"enabled": enabled, "building": building}
    if core is not None:
        values |= _of_core(core)
    percentiles = statistics.take_percentiles()
    if percentiles:
        values["solve time p50 [us]"], values["solve time p99 [us]"] = (f"{p:.1f}" for p in percentiles)
    values |= {
        "solved": statistics.counts["solved"],
        "silent": statistics.counts["silent"],
        "dropped messages": statistics.counts["dropped"],
        "last drop": statistics.last_drop,
        "errors": statistics.counts["errors"],
        "last error": statistics.last_error,
        "clamped joints": ", ".join(statistics.clamped),
        "silent because": statistics.silent_because,
        "description error": failure,
    }
    return *_verdict(core, statistics, enabled, failure), values


def _of_core(core):
    robot = core.robot
    now, condition = monotonic_ns(), core.coordinates.condition
    oldest = int(core.joints.oldest(now))
    age = f"{(now - oldest) * 1e-6:.1f}" if oldest > NEVER else ""
    return {
        "robot": robot.model.name,
        "joints": len(core.joints.names),
        "problem": robot.solver.problem.kind,
        "solver": robot.solver.choice.solver,
        "algorithm": robot.solver.description,
        "backend": robot.solver.choice.backend,
        "oldest joint state [ms]": age,
        "loops": ", ".join(constraint.name for constraint in getattr(robot.model, "constraints", ())),
        "condition of the loops": "" if condition is None else f"{condition:.3g}",
        "torque that driven joints miss": f"{core.coordinates.unrealized:.3g}",
        "unknown joints in joint_states": core.joints.unknown,
        "payloads": ", ".join(f"{link} {payload[0]:g} kg" for link, payload in core.payloads.items()),
        "external wrenches on": ", ".join(core.wrenches.links(monotonic_ns(), core.wrench_timeout)),
        "model warnings": "; ".join(robot.model.warnings[:5]),
    }


def _verdict(core, statistics, enabled, failure):
    if failure:
        served = "the last good model serves" if core is not None else "no model yet"
        return DiagnosticStatus.WARN, f"{failure} ({served})"
    if not enabled:
        return DiagnosticStatus.OK, "disabled"
    if statistics.silent_because:
        return DiagnosticStatus.WARN, f"silent: {statistics.silent_because}"
    if statistics.clamped:
        return DiagnosticStatus.WARN, f"torque clamped at {', '.join(statistics.clamped)}"
    return DiagnosticStatus.OK, "running"
