"""Forward dynamics of long chains on parallel machines (paper 5): JSIIA, ABIA, CFA."""

from dynamics_node.chains.chain_arrays import (
    Motions,
    chain_arrays,
    require_definite_inertias,
    require_narrow_tree,
)
from dynamics_node.chains.parallel_dynamics import SOLVERS, forward_dynamics, inverse_dynamics, on_host
from dynamics_node.chains.tridiagonal import CFA_ORDERINGS
