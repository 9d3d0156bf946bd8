"""Operational-space inertia of several links: Lambda^-1 = J M^-1 J^T (Khatib 1987), by the extended force
propagation of paper 3 (C-EFPA)."""

import numpy as np

from dynamics_node.algorithms.aba import carry_forces, inward
from dynamics_node.algorithms.jacobian import frame_jacobian, frame_pose
from dynamics_node.algorithms.transforms import joint_transforms
from dynamics_node.symbolic import inverse_congruence, rotation_transform, solve_definite, symmetric

MAX_CONDITION = 1e12


def extended_forces(robot, rates, q, links, reference="world_aligned"):
    """Lambda^-1 (6k, 6k) and J (6k, nv) of k links by C-EFPA. Eq. (62): unit wrenches at the links go to the
    root, each cluster giving way; Lambda^-1 sums what they do on the way. rates: explicit."""
    tree = robot.tree
    X_up = joint_transforms(tree, q)
    still, rest = np.zeros((tree.nbodies, 6)), np.zeros(robot.nv)
    passed = inward(robot, X_up, rates.G, still, np.zeros(tree.nv), rest, [True] * len(robot.clusters))
    wrenches = [_unit_wrenches(tree, q, link, reference) for link in links]
    total = np.zeros((6 * len(links), 6 * len(links)), dtype=object)
    for cluster, (S, U, D, _) in reversed(list(zip(robot.clusters, passed, strict=True))):
        felt = [sum(S[i].T @ P[i] for i in cluster.bodies if i in P) for P in wrenches]
        W = np.concatenate([np.zeros((len(D), 6)) if isinstance(w, int) else w for w in felt], axis=1)
        total = total + inverse_congruence(D, W.T)
        solved = solve_definite(D, W) if U else W
        for k, P in enumerate(wrenches):
            if not isinstance(felt[k], int):
                given = {i: own @ solved[:, 6 * k : 6 * k + 6] for i, own in U.items()}
                P |= {i: P[i] - given.pop(i) for i in cluster.bodies if i in given}  # of a body by itself
                carry_forces(tree, X_up, cluster.bodies, P)
                P |= {i: P[i] - block for i, block in given.items()}
    J = np.concatenate([rates.columns(frame_jacobian(tree, q, link, reference)) for link in links])
    return symmetric(total), J


def _unit_wrenches(tree, q, link, reference):
    """{body: (6, 6)}: the force on the body of unit wrenches at a link, in the axes of the reference."""
    frame = tree.frame(link)
    if frame.body < 0:
        return {}
    P = frame.X.T
    if reference == "world_aligned":
        P = P @ rotation_transform(frame_pose(tree, q, link)[0]).T
    return {frame.body: P}


def invert(inertia_inverse):
    """Lambda (n, n), or None where Lambda^-1 is singular, and the condition number of Lambda^-1.

    The inverse is given only below a condition number of 1e12.
    """
    condition = float(np.linalg.cond(inertia_inverse)) if inertia_inverse.size else np.inf
    if not condition < MAX_CONDITION:
        return None, condition
    return np.linalg.inv(inertia_inverse), condition
