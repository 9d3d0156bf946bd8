"""Drawings as SVG, without any other program: columns of variables, one for each body, and rows, one for each
kind.

If that is too wide or hides a variable, every branch of the robot gets a band of rows of its own, and columns
are the distance of a body from the root.

Circles are unknown variables, squares known ones, dots factors; arrows point from known variables to those
that follow.
"""

from dataclasses import dataclass, field
from html import escape

_STEP_X, _STEP_Y, _RADIUS, _MARGIN = 110, 84, 21, 46
_WIDE = 12  # columns of a band


@dataclass(frozen=True)
class Node:
    """A variable at a column, with an offset in columns, and in a row; symbol and index are its label."""

    column: int
    row: str
    symbol: str
    index: str
    color: str
    known: bool = False
    offset: int = 0


@dataclass
class Sketch:
    """nodes: {key: Node}; factors: (name, keys of its variables); arrows: (key, key). rows: their order, from
    the top; empty ones are left out. parents: of a tree; column k + 1 has its parent in column parents[k] +
    1."""

    title: str
    rows: tuple[str, ...]
    parents: tuple[int, ...] = ()
    nodes: dict = field(default_factory=dict)
    factors: list = field(default_factory=list)
    arrows: list = field(default_factory=list)

    def _counted(self):
        """(name, keys, how many factors of the same only variable came before)"""
        before: dict = {}
        for name, keys in self.factors:
            nth = before.get(keys[0], 0) if len(keys) == 1 else 0
            if len(keys) == 1:
                before[keys[0]] = nth + 1
            yield name, keys, nth

    def _places(self):
        """{key: (x, y)}"""
        used = [row for row in self.rows if any(node.row == row for node in self.nodes.values())]
        columns = {node.column: (0, node.column) for node in self.nodes.values()}
        drawn = self._drawn(columns, used)
        if self.parents and (len(columns) > _WIDE or len(set(drawn.values())) < len(drawn)):
            return self._drawn(banded(self.parents, columns), used)
        return drawn

    def _drawn(self, at, used):
        """Positions of nodes for columns at (band, column)."""
        left = min((at[node.column][1] for node in self.nodes.values()), default=0)
        places = {}
        for key, node in self.nodes.items():
            band, column = at[node.column]
            line = used.index(node.row) + band * (len(used) + 0.5)
            places[key] = (_MARGIN + _STEP_X * (column + node.offset - left), 60 + int(_STEP_Y * line))
        return places

    def svg(self) -> str:
        """The drawing."""
        place = self._places()
        width = max([320, *(x + _MARGIN for x, _ in place.values())])
        height = max([60, *(y + _MARGIN for _, y in place.values())])
        factors = [
            mark
            for name, keys, nth in self._counted()
            for mark in _factor(name, [place[k] for k in keys], nth)
        ]
        arrows = [_arrow(place[a], place[b]) for a, b in self.arrows]
        nodes = [_node(node, *place[key]) for key, node in self.nodes.items()]
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
                f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="14">',
                '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="6" refY="4" orient="auto">'
                '<path d="M0 0 L8 4 L0 8 z" fill="#555"/></marker></defs>',
                '<rect width="100%" height="100%" fill="white"/>',
                f'<text x="14" y="20" font-size="12" fill="#444">{escape(self.title)}</text>',
                *factors,
                *arrows,
                *nodes,
                "</svg>",
            ]
        )


def banded(parents, columns):
    """{column: (band, column)} of a tree: the longest branch goes on in the band of its parent, others go to
    the next free one. Columns without a body come last."""
    children, height = _grown(parents)
    taken: list[set[int]] = []
    places: dict[int, tuple[int, int]] = {}
    waiting = [(0, -1, 0, True)]
    while waiting:
        body, band, column, begins = waiting.pop()
        if begins or column == _WIDE:
            column %= _WIDE
            band = _room(taken, band + 1, range(column, column + height[body] + 2))
        places[body] = (band, column)
        nearest = sorted(children.get(body, []), key=lambda child: (height[child], -child))
        waiting += [(child, band, column + 1, child != nearest[-1]) for child in nearest]
    for k, other in enumerate(sorted(set(columns) - set(places))):
        places[other] = (len(taken) + k // _WIDE, k % _WIDE)
    return places


def _grown(parents):
    """{column: columns of its children} and the depth of the tree from every column."""
    children: dict[int, list[int]] = {}
    height = dict.fromkeys(range(len(parents) + 1), 0)
    for body in range(len(parents), 0, -1):
        parent = parents[body - 1] + 1
        children.setdefault(parent, []).append(body)
        height[parent] = max(height[parent], height[body] + 1)
    return children, height


def _room(taken, first, columns):
    """The first band from `first` on in which these columns are free; marks them as taken."""
    wanted = {column for column in columns if column <= _WIDE}
    band = next((k for k in range(first, len(taken)) if taken[k].isdisjoint(wanted)), len(taken))
    taken.extend(set() for _ in range(band + 1 - len(taken)))
    taken[band] |= wanted
    return band


def _factor(name, places, nth):
    x, y = _center(places, nth)
    lines = [f'<line x1="{x:.0f}" y1="{y:.0f}" x2="{a}" y2="{b}" stroke="#777"/>' for a, b in places]
    return [*lines, f'<circle cx="{x:.0f}" cy="{y:.0f}" r="4.5"><title>{escape(name)}</title></circle>']


def _center(places, nth):
    """Between the variables; next to a single one, where it would be hidden, and below earlier ones."""
    if len(places) == 1:
        return places[0][0] + 1.7 * _RADIUS, places[0][1] + (0.9 * nth - 1.2) * _RADIUS
    return tuple(sum(axis) / len(places) for axis in zip(*places, strict=True))


def _arrow(start, end):
    """A curve that bows aside, so that long arrows avoid the nodes."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = (dx * dx + dy * dy) ** 0.5
    ux, uy = dx / length, dy / length
    bow = 0.12 * length
    middle = (start[0] + dx / 2 - uy * bow, start[1] + dy / 2 + ux * bow)
    tip = (end[0] - ux * (_RADIUS + 5), end[1] - uy * (_RADIUS + 5))
    return (
        f'<path d="M{start[0]:.0f} {start[1]:.0f} '
        f'Q{middle[0]:.0f} {middle[1]:.0f} {tip[0]:.0f} {tip[1]:.0f}" '
        'fill="none" stroke="#555" marker-end="url(#tip)"/>'
    )


def _node(node, x, y):
    r, style = _RADIUS, f'fill="{node.color}" stroke="#333"'
    shape = (
        f'<rect x="{x - r}" y="{y - r}" width="{2 * r}" height="{2 * r}" {style}/>'
        if node.known
        else f'<circle cx="{x}" cy="{y}" r="{r}" {style}/>'
    )
    label = f'{node.symbol}<tspan font-size="10" dy="4">{escape(node.index)}</tspan>'
    return f'{shape}<text x="{x}" y="{y + 4}" text-anchor="middle">{label}</text>'
