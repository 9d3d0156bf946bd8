"""In which order the directions of a step, and the errors of its links, are eliminated.

Blocks are dense, but right sides are not: one costs nothing until a row in which it has something is
eliminated, and from then on it is full (George and Liu 1981, Computer Solution of Large Sparse Positive
Definite Systems, sec. 6.2). So rows come first that make few right sides full.
"""

import numpy as np

from dynamics_node.trajectory.factor import factor_program


def last_first(occupied) -> list[int]:
    """Rows of right sides (rows, columns), bool, in an order to be eliminated from the end."""
    left, full, order = list(range(len(occupied))), np.zeros(occupied.shape[1], dtype=bool), []
    while left:
        chosen = min(reversed(left), key=lambda row: np.count_nonzero(occupied[row] & ~full))
        full |= occupied[chosen]
        left.remove(chosen)
        order.append(chosen)
    return order[::-1]


def occupied_links(graph) -> tuple[np.ndarray, np.ndarray]:
    """Of the errors of all links by the free directions of a step and of the next one, (rows, free), where
    they may be other than zero; what exact factors determine is counted as what it depends on."""
    columns = len(graph.column_names)
    blocks = [np.zeros((2, 0, columns), dtype=bool)]
    blocks += [_occupied(graph, factor) for factor in graph.weighted if factor.after]
    own, after = np.concatenate(blocks, axis=1)
    depends = _dependence(graph)
    return own @ depends, after @ depends


def _dependence(graph):
    """(columns, free): on which free directions every direction depends."""
    exact = np.concatenate(
        [np.zeros((0, len(graph.column_names)), dtype=bool)]
        + [_occupied(graph, factor)[0] for factor in graph.exact]
    )
    found = np.eye(len(graph.column_names), dtype=bool)[:, graph.free]
    needs = exact[:, graph.determined] | np.eye(len(exact), dtype=bool)
    for _ in range(len(needs).bit_length()):
        needs = needs @ needs
    found[graph.determined] = needs @ exact[:, graph.free]
    return found


def _occupied(graph, factor):
    """(2, rows, columns): the Jacobian of a factor by the directions of its step, and of the next one."""
    program = factor_program(factor, graph.variables_of(factor))
    found = np.zeros((2, len(factor.rows), len(graph.column_names)), dtype=bool)
    for name, step, argument in factor.variables:
        numbers = program.outputs[f"by {argument}"] - program.input_size
        constant = (numbers >= 0) & (numbers < len(program.constants))
        zero = constant & (np.append(program.constants, 1.0)[np.where(constant, numbers, -1)] == 0)
        found[step][:, graph.columns[name]] = ~zero
    return found
