"""Covariances along a trajectory, from what its elimination has left: Rauch, Tung and Striebel 1965."""

import numpy as np

from dynamics_node.trajectory.graph import TrajectoryGraph


def covariances(graph: TrajectoryGraph, found) -> np.ndarray:
    """(count, columns, columns) of all directions at every step. found: {name: (count, *shape)}, as of
    Sweeps: P = (H^-1 - H^-1 F^T S^-1 F H^-1) + G P_next G^T with G = H^-1 F^T S^-1 F_next, backward."""
    P = _inverse(found["L"], found["inverse"])
    if len(P) > 1:  # nothing follows the last step
        linked = {name: rows[:-1] for name, rows in found.items()}
        gain = P[:-1] @ np.swapaxes(linked["by_own"], 1, 2)
        gain = gain @ _inverse(linked["L_links"], linked["inverse_links"])
        P[:-1] -= gain @ linked["by_own"] @ P[:-1]
        gain = gain @ linked["by_next"]
        for k in range(len(P) - 2, -1, -1):
            P[k] += gain[k] @ P[k + 1] @ gain[k].T
    return _of_all(graph, 0.5 * (P + np.swapaxes(P, 1, 2)), found["slopes"])


def _inverse(below, inverse):
    """(count, n, n): of L^T D L, from L below the diagonal and 1 / D (count, n)."""
    n = inverse.shape[1]
    L = np.zeros((len(inverse), n, n))
    rows, columns = np.tril_indices(n, -1)
    L[:, rows, columns] = below
    L[:, np.arange(n), np.arange(n)] = 1.0
    half = np.linalg.inv(L)
    return half @ (inverse[..., None] * np.swapaxes(half, 1, 2))


def _of_all(graph, free, slopes):
    """(count, columns, columns) of all directions from those (count, free, free) of the free ones."""
    B = np.zeros((len(free), len(graph.column_names), free.shape[-1]))
    B[:, graph.order, :] = np.eye(free.shape[-1])
    B[:, graph.determined, :] = -slopes
    return B @ free @ np.swapaxes(B, 1, 2)
