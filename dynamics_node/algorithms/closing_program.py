"""Newton's step towards a closed position, as a Program."""

import numpy as np

from dynamics_node.algorithms.constraint_elimination import Elimination
from dynamics_node.algorithms.constraint_equations import position_program
from dynamics_node.algorithms.health import loop_health
from dynamics_node.algorithms.loop_equations import counting_equations
from dynamics_node.algorithms.rates import explicit_rates
from dynamics_node.algorithms.reduced_frames import economical_program
from dynamics_node.algorithms.tangent import moved
from dynamics_node.robot import Robot
from dynamics_node.symbolic import Program, interpret


def step_program(mechanism: Robot) -> Program:
    """q -> following (nq,), after Newton's step of the dependent joints, and health at q: an output as any
    other, without limits, for open loops are what the step is for."""
    return economical_program(mechanism, {"q": (mechanism.nq,)}, _step)


def _step(mechanism, q):
    tree, rest = mechanism.tree, np.zeros(mechanism.nv)
    following = np.array(q, dtype=object)
    for cluster in mechanism.clusters:
        if cluster.dependent:
            found = interpret(position_program(tree, cluster.constraints), q=q)
            rows, sizes = counting_equations(tree, cluster)
            elimination = Elimination(found["K"][rows][:, list(cluster.dependent)], sizes)
            step = -elimination.solve(found["phi"][rows][:, None])[:, 0]
            following = moved(tree, following, cluster.dependent, step)
    return {
        "following": following,
        "health": loop_health(mechanism, q, explicit_rates(mechanism, q, rest).condition),
    }
