"""Which equations of a cluster count: planar loops may be written as spatial ones."""

from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms.constraint_equations import position_program
from dynamics_node.robot.robot import fact
from dynamics_node.symbolic import interpret, pivoted, power_of_two

RANK = 1e-7  # sizes beside the largest that count as zero
NEAR = 1e-5  # and near a singular position


class Counting(NamedTuple):
    """rows (m,): of K of a cluster; sizes (m,): their usual norms over all coordinates, about."""

    rows: list[int]
    sizes: np.ndarray


@fact
def counting_equations(tree, cluster) -> Counting:
    """The rows that no others imply with the same weights at every position.

    They depend on the frames in which `tree` and the constraints are given. A row that others imply with
    weights that change (spherical linkages, double parallelograms) counts: without it the rest would be
    singular at some positions. Then there are more rows than dependent joints.
    """
    found = interpret(position_program(tree, cluster.constraints), q=cluster.samples)["K"]
    K = found[:, :, [*cluster.independent, *cluster.dependent]]
    rows = _independent_rows(np.swapaxes(K, 0, 1).reshape(K.shape[1], -1))
    return Counting(rows, power_of_two(np.median(np.linalg.norm(K[:, rows], axis=2), axis=0)))


def ranks_of(K, zero=RANK):
    """(count,) of matrices K (count, rows, n); zero: sizes beside the largest that count as zero."""
    sizes = np.linalg.svd(K, compute_uv=False)
    return (sizes > zero * sizes[:, :1]).sum(axis=1)


def _independent_rows(K):
    """Numbers of rows of K (rows, any) of which all others consist."""
    sizes = np.linalg.norm(K, axis=1)
    there = np.flatnonzero(sizes > RANK * sizes.max(initial=0.0))
    order, left = pivoted(K[there] / sizes[there, None])
    return sorted(there[k].item() for k, size in zip(order, left, strict=True) if size > RANK)
