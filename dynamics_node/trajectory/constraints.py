"""Exact factors of one step: the loops of a mechanism are closed, and stay so; and priors."""

from dynamics_node.trajectory.factor import Factor
from dynamics_node.trajectory.systems import System
from dynamics_node.trajectory.variables import Variable


def position_constraint(system: System) -> Factor:
    """phi(q) = 0 determines the dependent positions."""
    return _constraint(system, "position", system.positions, ("q",))


def velocity_constraint(system: System) -> Factor:
    """K(q) qd = 0 determines the dependent velocities."""
    return _constraint(system, "velocity", system.velocities, ("q", "qd"))


def acceleration_constraint(system: System) -> Factor:
    """K qdd + dK/dt qd = 0 determines the dependent accelerations."""
    return _constraint(system, "acceleration", system.accelerations, ("q", "qd", "qdd"))


def _constraint(system, kind, function, now):
    """The last of the variables is determined."""
    return Factor(
        name=f"{kind} constraint",
        residual=lambda **x: function(*(x[name] for name in now)),
        rows=tuple(f"{kind} {system.directions[k]}" for k in system.dependent),
        now=now,
        determines=tuple((now[-1], k) for k in system.dependent),
    )


def prior_factor(x: Variable, directions=None) -> Factor:
    """x is near the data `prior NAME` (size,), along `directions`, all by default."""
    chosen = list(range(x.tangent)) if directions is None else list(directions)
    value = f"prior {x.name}"
    return Factor(
        name=value,
        residual=lambda **v: x.difference(v[x.name], v[value])[chosen],
        rows=tuple(x.names[k] for k in chosen),
        now=(x.name,),
        data={value: (x.size,)},
    )
