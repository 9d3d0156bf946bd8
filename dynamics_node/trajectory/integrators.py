"""Factors between a step and the next one: rules of integration.

Positions with quaternions have no sum: a step is measured in the chart `difference` around its own position,
whose coordinates c change by D qd, D = dc/dq dq/dt. Of joints with one coordinate D is the identity, and the
rules are the plain ones. directions: those that have a row, all by default.
"""

from functools import lru_cache

import numpy as np

from dynamics_node.robot import Shapes
from dynamics_node.symbolic import Program, derivative_name, interpret, jacobian, trace
from dynamics_node.trajectory.factor import Factor
from dynamics_node.trajectory.passive import PassiveTorques
from dynamics_node.trajectory.systems import System
from dynamics_node.trajectory.variables import Variable

DT: Shapes = {"dt": (1,)}


def euler(x: Variable, directions=None) -> Factor:
    """Explicit, of first order: x_next - x - dt xd."""

    def residual(dt, **v):
        step = x.difference(v[x.name + "_next"], v[x.name])
        return (step - dt * v[x.rate])[chosen]

    chosen = _chosen(x, directions)
    return _between("euler", x, chosen, residual, after=(x.name,))


def trapezoidal(x: Variable, directions=None) -> Factor:
    """Of second order: x_next - x - dt/2 (xd + xd_next)."""

    def residual(dt, **v):
        step, rate = _in_chart(x, v[x.name], v[x.name + "_next"], v[x.rate + "_next"])
        return (step - 0.5 * dt * (v[x.rate] + rate))[chosen]

    chosen = _chosen(x, directions)
    return _between("trapezoidal", x, chosen, residual, after=(x.name, x.rate))


def simpson(system: System, directions=None, passive: PassiveTorques | None = None) -> Factor:
    """Of fourth order, rows of q, then of qd: Lobatto IIIA with three stages (Hairer, Norsett and Wanner,
    Solving Ordinary Differential Equations I, sec. II.7; Hermite-Simpson collocation).

    The middle of a step is that of the cubics through both ends, its acceleration follows from forward
    dynamics with the torque `tau_middle` (nv,), data, and passive torques if they are given. Dependent joints
    of loops are there off their closed position by dt^4, their accelerations too: the order stays.
    """
    x, chosen = system.q, _chosen(system.q, directions)

    tangent = {} if passive is None else {f"{name}_middle": shape for name, shape in passive.data.items()}

    def residual(dt, tau_middle, q, qd, qdd, q_next, qd_next, qdd_next, **dry):
        step, rate = _in_chart(x, q, q_next, qd_next)
        middle = x.moved(q, 0.5 * step + 0.125 * dt * (qd - rate))
        v = 0.5 * (qd + qd_next) + 0.125 * dt * (qdd - qdd_next)
        own = {name.removesuffix("_middle"): numbers for name, numbers in dry.items()}
        overcome = () if passive is None else (passive.torque(middle, v, **own),)
        a = system.forward(middle, v, tau_middle, *overcome)
        there = _in_chart(x, q, middle, v)[1]
        of_q = step - dt * (1 / 6) * (qd + 4 * there + rate)
        of_qd = qd_next - qd - dt * (1 / 6) * (qdd + 4 * a + qdd_next)
        return np.concatenate([of_q[chosen], of_qd[chosen]])

    return Factor(
        name="simpson",
        residual=residual,
        rows=tuple(f"{name} {x.names[k]}" for name in ("q", "qd") for k in chosen),
        now=("q", "qd", "qdd"),
        after=("q", "qd", "qdd"),
        data=DT | {"tau_middle": (len(system.independent),)} | tangent,
    )


def equality(x: Variable, directions=None, name="equality") -> Factor:
    """x_next - x: that little changes."""

    def residual(**v):
        return x.difference(v[x.name + "_next"], v[x.name])[chosen]

    chosen = _chosen(x, directions)
    rows = tuple(x.names[k] for k in chosen)
    return Factor(name=f"{name} {x.name}", residual=residual, rows=rows, now=(x.name,), after=(x.name,))


def random_walk(x: Variable, directions=None) -> Factor:
    """x_next - x of what nothing else drives, as a bias; its variance grows with dt."""
    return equality(x, directions, name="random walk")


def _between(rule, x, chosen, residual, after):
    return Factor(
        name=f"{rule} {x.name}",
        residual=residual,
        rows=tuple(x.names[k] for k in chosen),
        now=(x.name, x.rate),
        after=after,
        data=DT,
    )


def _chosen(x, directions):
    return list(range(x.tangent)) if directions is None else list(directions)


def _in_chart(x, start, to, rates):
    """The step (tangent,) from start to `to`, and by what it changes at rates (tangent,) there."""
    found = interpret(_chart(x), start=start, to=to)
    return found["step"], found["D"] @ rates


@lru_cache(maxsize=64)  # variables of the systems at hand
def _chart(x: Variable) -> Program:
    """start, to -> step (tangent,) and D (tangent, tangent), by what it changes along the directions."""
    shapes = {"start": (x.size,), "to": (x.size,)}
    step = trace(lambda start, to: {"step": x.difference(to, start)}, shapes)
    derived = jacobian(step, ["step"], ["to"])

    def function(start, to):
        by = interpret(derived, start=start, to=to)[derivative_name("step", "to")]
        return {"step": interpret(step, start=start, to=to)["step"], "D": by @ x.tangent_map(to)}

    return trace(function, shapes)
