"""Small trajectories, as (steps, prior): every kind of factor, loss and variable."""

import numpy as np
from balls import ball_robot

import dynamics_node as dn
from dynamics_node.trajectory import (
    TrajectoryFactor,
    TrajectoryGraph,
    cauchy,
    geman_mcclure,
    positions,
    prior,
    vector,
)

DT = 0.05
SCALAR = {"dt": (1,)}


def chain(count=25):
    """A point with a random-walk rate and measured positions: a linear problem."""
    p, v = vector("p", ["p"], rate="v"), vector("v", ["v"])
    walk = TrajectoryFactor(
        name="walk", residual=lambda v, v_next: v_next - v, rows=("v",), now=("v",), after=("v",)
    )
    graph = TrajectoryGraph((p, v), (_moves("p", "v"), walk, _read("p")))
    steps = _steps(graph, count, np.sin(DT * np.arange(count)), {"p moves": 1e-4, "walk": 2e-3, "read": 1e-3})
    return steps, prior(graph, {"v": [0.5]}, {"p": 0.1, "v": 0.2})


def pendulum(count=30, exact=True, loss=None, outliers=()):
    """A pendulum with measured angles and exact or noisy accelerations."""
    q, qd, qdd = vector("q", ["q"], "qd"), vector("qd", ["qd"], "qdd"), vector("qdd", ["qdd"])
    falls = TrajectoryFactor(
        name="falls",
        residual=lambda q, qdd: np.array([qdd[0] + 9.8 * np.sin(q[0])]),
        rows=("qdd",),
        now=("q", "qdd"),
        determines=(("qdd", 0),) if exact else (),
    )
    factors = (_moves("q", "qd"), _moves("qd", "qdd"), falls, _read("q", loss))
    graph = TrajectoryGraph((q, qd, qdd), factors)
    y = np.cos(3.0 * DT * np.arange(count))
    variances = {"q moves": 1e-6, "qd moves": 1e-4, "read": 1e-4} | ({} if exact else {"falls": 0.1})
    steps = _steps(graph, count, y, variances)
    steps["q"][:, 0] = y
    steps["qdd"][:, 0] = -9.8 * np.sin(y)
    steps["y"][list(outliers)] += 0.5
    return steps, prior(graph, {"q": [1.0], "qd": [0.1]}, {"q": 1e-2, "qd": 1.0} | _loose(exact))


def ball(count=12):
    """A moving ball joint with measured orientations, a variance per axis, and a prior far from the truth."""
    q = variable = positions(dn.parse_robot(ball_robot(0, joints=1)))
    qd, rows = vector("qd", q.names), q.names

    def turns(q, qd, dt, q_next):
        return variable.difference(q_next, variable.moved(q, dt[0] * qd))

    graph = TrajectoryGraph(
        (q, qd),
        (
            TrajectoryFactor(
                name="turns", residual=turns, rows=rows, now=("q", "qd"), after=("q",), data=SCALAR
            ),
            TrajectoryFactor(
                name="walk",
                residual=lambda qd, qd_next: qd_next - qd,
                rows=rows,
                now=("qd",),
                after=("qd",),
            ),
            TrajectoryFactor(
                name="read",
                residual=lambda q, start: variable.difference(q, start),
                rows=rows,
                now=("q",),
                data={"start": (4,)},
            ),
        ),
    )

    random = np.random.default_rng(3)
    steps = graph.steps(count)
    steps["dt"][:] = 0.1
    true = np.array([0.0, 0.0, 0.0, 1.0])
    for k in range(count):
        steps["start"][k] = variable.moved(true, 0.05 * random.standard_normal(3))
        steps["q"][k] = true
        true = variable.moved(true, 0.1 * np.array([1.0, -2.0, 0.5]))
    steps.weigh("turns", [1e-4, 2e-4, 3e-4])
    steps.weigh("walk", [1e-2, 3e-2, 1e-2])
    steps.weigh("read", [1e-3, 4e-3, 2e-2])
    start = variable.moved(np.array([0.0, 0.0, 0.0, 1.0]), np.array([0.4, -0.3, 0.2]))
    return steps, prior(graph, {"q": start}, {"q": [0.01, 0.1, 0.03], "qd": 4.0})


CASES = {
    "chain": chain,
    "pendulum": lambda: pendulum(exact=False),
    "exact": pendulum,
    "cauchy": lambda: pendulum(loss=cauchy(), outliers=(7, 20)),
    "geman_mcclure": lambda: pendulum(loss=geman_mcclure(6.0), outliers=(7,)),
    "ball": ball,
}


def _loose(exact):
    return {} if exact else {"qdd": 100.0}


def _moves(x, rate):
    """A factor of the trapezoidal rule."""

    def residual(dt, **arrays):
        return arrays[x + "_next"] - arrays[x] - 0.5 * dt * (arrays[rate] + arrays[rate + "_next"])

    return TrajectoryFactor(
        name=f"{x} moves", residual=residual, rows=(x,), now=(x, rate), after=(x, rate), data=SCALAR
    )


def _read(x, loss=None):
    return TrajectoryFactor(
        name="read",
        residual=lambda y, **read: read[x] - y,
        rows=("y",),
        now=(x,),
        data={"y": (1,)},
        loss=loss,
    )


def _steps(graph, count, y, variances):
    steps = graph.steps(count)
    steps["dt"][:] = DT
    steps["y"][:, 0] = y + 0.02 * np.random.default_rng(1).standard_normal(count)
    for name, variance in variances.items():
        steps.weigh(name, [variance])
    return steps
