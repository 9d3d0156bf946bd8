"""Block-sparse matrices as SVG: the equations of a factor graph, and what elimination makes of them."""

from html import escape
from typing import NamedTuple

from dynamics_node.graph.bayesnet import BayesNet
from dynamics_node.graph.draw import COLOUR
from dynamics_node.graph.factor_graph import FactorGraph

_LARGE, _SMALL, _LEFT, _TOP = 26, 13, 88, 52
FILL = "#d9534f"


def graph_matrix(graph: FactorGraph, ordering=None) -> str:
    """Rows are factors, columns variables (in the order of an elimination, if given)."""
    columns = list(ordering or graph.variables)
    rows = [_Row(factor.name, factor.rows, _own_colours(factor.blocks)) for factor in graph.factors]
    return _svg(rows, columns, "equations (rows), unknown variables (columns)")


def net_matrix(net: BayesNet, graph: FactorGraph) -> str:
    """The triangular matrix that elimination leaves; fill-in, which couples what no equation does, is red."""
    neighbours, rows = graph.neighbours(), []
    for conditional in net:
        x = conditional.variable
        blocks = _own_colours([x, *conditional.R])
        blocks |= dict.fromkeys(conditional.R.keys() - neighbours[x], FILL)
        rows.append(_Row(str(x), x.dim, blocks))
    return _svg(rows, [row.variable for row in net], "each row gives a variable by those to its right")


class _Row(NamedTuple):
    """Name, number of scalar rows, {variable: colour of its block}."""

    name: str
    dim: int
    blocks: dict


def _own_colours(variables):
    return {x: COLOUR[x.kind] for x in variables}


def _size(dim):
    return _SMALL if dim == 1 else _LARGE


def _svg(rows, columns, title):
    lefts, right = _starts([x.dim for x in columns], _LEFT)
    tops, bottom = _starts([row.dim for row in rows], _TOP)
    left = dict(zip(columns, lefts, strict=True))
    size = f'width="{right + 20}" height="{bottom + 12}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {right + 20} {bottom + 12}" '
            'font-family="sans-serif" font-size="11">',
            '<rect width="100%" height="100%" fill="white"/>',
            f'<text x="8" y="14" font-size="12" fill="#444">{escape(title)}</text>',
            f'<rect x="{_LEFT}" y="{_TOP}" width="{right - _LEFT}" height="{bottom - _TOP}" fill="#f6f6f6"/>',
            *(_head(x, at) for x, at in left.items()),
            *(mark for row, top in zip(rows, tops, strict=True) for mark in _marks(row, top, left)),
            "</svg>",
        ]
    )


def _head(variable, at):
    place = f"translate({at + _size(variable.dim) / 2 + 4:.0f} {_TOP - 6}) rotate(-60)"
    return f'<text transform="{place}">{escape(str(variable))}</text>'


def _marks(row, top, left):
    """The name of a row, and its blocks."""
    middle = top + _size(row.dim) / 2 + 4
    yield f'<text x="{_LEFT - 6}" y="{middle:.0f}" text-anchor="end">{escape(row.name)}</text>'
    for x, colour in row.blocks.items():
        size = f'width="{_size(x.dim) - 1}" height="{_size(row.dim) - 1}"'
        title = escape(f"{row.name}, {x}: {row.dim} x {x.dim}")
        yield f'<rect x="{left[x]}" y="{top}" {size} fill="{colour}"><title>{title}</title></rect>'


def _starts(dims, start):
    """Where each begins, and where the last one ends."""
    found = []
    for dim in dims:
        found.append(start)
        start += _size(dim)
    return found, start
