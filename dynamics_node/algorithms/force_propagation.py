"""How wrenches on bodies act through forward joints: extended force propagation (C-EFPA, paper 3, eq. 62).

Unit wrenches propagate to the root through the articulated bodies. The motion of every joint with known
torque absorbs a part. The effects on the way sum up to the operational-space matrix of the links.
"""

import numpy as np

from dynamics_node.algorithms.aba import carry_forces, columns
from dynamics_node.symbolic import inverse_congruence, solve_definite


def forces_at_joints(robot, X_up, solutions, wrenches, sizes, torques=()) -> list[np.ndarray]:
    """For every cluster the forces (d, columns) at its joints by wrenches, and by those that propagate from
    the clusters behind it.

    wrenches: of several places, {body: (6, size)} each, on the bodies in their axes; changed in place. sizes:
    of each place. torques: [(body, (nv,))], those at the joints of one cluster, that of the body; each is one
    more column. solutions: of `aba.inward`."""
    wrenches, sizes = [*wrenches, *({} for _ in torques)], [*sizes, *(1 for _ in torques)]
    first, ends, found = len(sizes) - len(torques), np.cumsum(sizes)[:-1], []
    every = list(zip(robot.clusters, columns(robot), solutions, strict=True))
    for cluster, at, (S, U, D, _) in reversed(every):
        d = next(iter(S.values())).shape[1]
        forces = [joint_forces(S, P, d, size) for P, size in zip(wrenches, sizes, strict=True)]
        started = {first + k: tau[at] for k, (body, tau) in enumerate(torques) if body in cluster.bodies}
        for k, tau in started.items():
            forces[k] = tau[:, None]
        F = np.concatenate([np.zeros((d, 0)), *forces], axis=1)
        found.append(F)
        rates = np.split(F if D is None or not U else solve_definite(D, F), ends, axis=1)
        for k, (P, rate) in enumerate(zip(wrenches, rates, strict=bool(sizes))):
            if k in started or any(i in P for i in cluster.bodies):
                absorbed = {} if D is None else {i: force @ rate for i, force in U.items()}
                propagate(robot.tree, X_up, cluster.bodies, P, absorbed)
    return found[::-1]


def apparent_matrix(solutions, forces, right=None):
    """Sum of F^T D^-1 F (columns, columns) over the clusters with known torque. right: for each of them one
    more column (d,), whose products are the last row and column."""
    count = forces[0].shape[1] + (right is not None)
    total = np.zeros((count, count))
    for k, (_, _, D, _) in enumerate(solutions):
        if D is not None:
            F = forces[k] if right is None else np.concatenate([forces[k], right[k][:, None]], axis=1)
            total = total + inverse_congruence(D, F.T)
    return total


def joint_forces(S, wrenches, d, size):
    """The forces (d, size) at the joints of a cluster with S {body: (6, d)} by wrenches {body: (6, size)}."""
    forces = [S[i].T @ wrenches[i] for i in S if i in wrenches]
    return sum(forces) if forces else np.zeros((d, size))


def propagate(tree, X_up, bodies, wrenches, absorbed):
    """Move wrenches {body: (6, k)} of a cluster to its parents, in place, without the parts that its motion
    absorbs: {body: (6, k)}, at the body of a cluster of one, else at the parents."""
    for i in bodies:
        if i in absorbed:
            wrenches[i] = wrenches.get(i, 0.0) - absorbed.pop(i)
    carry_forces(tree, X_up, bodies, wrenches)
    for i, block in absorbed.items():
        wrenches[i] = wrenches.get(i, 0.0) - block
