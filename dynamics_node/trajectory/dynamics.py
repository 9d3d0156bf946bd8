"""The equations of motion as factors of one step.

The torque (nv,) is a sum of what is known, data, and of what is not, variables: `known` and `unknown` are
their names, 'tau' what motors do, 'external_torque' what else acts.
"""

from dynamics_node.trajectory.factor import Factor
from dynamics_node.trajectory.passive import PassiveTorques
from dynamics_node.trajectory.systems import System


def inverse_dynamics(
    system: System, determines: str | None, known=(), unknown=(), passive: PassiveTorques | None = None
) -> Factor:
    """ID(q, qd, qdd) - torque = 0, with passive torques beside ID if they are given.

    determines: 'qdd', of the independent directions (a forward problem), or one of `unknown` (an inverse
    one), exactly; None: rows with a variance, in N m or N.
    """
    if determines == "qdd":
        determined = tuple(("qdd", k) for k in system.independent)
    elif determines is None or determines in unknown:
        determined = tuple((determines, k) for k in range(len(system.independent)) if determines)
    else:
        raise ValueError(f"inverse dynamics determine 'qdd' or one of {unknown}, not {determines!r}")

    tangent = {} if passive is None else passive.data

    def residual(q, qd, qdd, **torques):
        own = {name: torques.pop(name) for name in tangent}
        overcome = () if passive is None else (passive.torque(q, qd, **own),)
        return system.inverse(q, qd, qdd, *overcome) - sum(torques.values())

    return Factor(
        name="dynamics",
        residual=residual,
        rows=system.torque_names,
        now=("q", "qd", "qdd", *unknown),
        data={name: (len(system.independent),) for name in known} | tangent,
        determines=determined,
        definite=determines == "qdd",
    )


def forward_dynamics(system: System, directions=None, known=(), unknown=()) -> Factor:
    """qdd - FD(q, qd, torque) of some directions, all by default, with a variance, in rad/s^2 or m/s^2: the
    paper's f_dyn."""
    chosen = list(range(len(system.directions)) if directions is None else directions)

    def residual(q, qd, qdd, **torques):
        return (qdd - system.forward(q, qd, sum(torques.values())))[chosen]

    return Factor(
        name="dynamics",
        residual=residual,
        rows=tuple(system.directions[k] for k in chosen),
        now=("q", "qd", "qdd", *unknown),
        data={name: (len(system.independent),) for name in known},
    )
