"""Forward dynamics of long chains on parallel machines (paper 5): JSIIA, ABIA, CFA."""

from dynamics_node.chains.chain_arrays import (
    Motions,
    RobotArrays,
    require_definite_inertias,
    require_narrow_tree,
)
from dynamics_node.chains.parallel_dynamics import SOLVERS, forward_dynamics, inverse_dynamics
from dynamics_node.chains.tridiagonal import WAYS

__all__ = [
    "SOLVERS",
    "WAYS",
    "Motions",
    "RobotArrays",
    "forward_dynamics",
    "inverse_dynamics",
    "require_definite_inertias",
    "require_narrow_tree",
]
