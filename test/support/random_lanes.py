"""Random functions with nearly the same operations on every lane."""

import numpy as np

from dynamics_node.symbolic import trace

SIZE = 3  # inputs of a lane
OPERATIONS = (
    lambda a, b, c: a + c * b,
    lambda a, b, c: b - a * 2.0,
    lambda a, b, c: a * b * c,
    lambda a, b, c: a * c,
    lambda a, b, c: np.sin(1.0 * a + b),
    lambda a, b, c: 1.0 / (a * a + 2.0),
)


def nearly_alike(seed):
    """A Program of x (lanes, SIZE) and s (2,), and the corresponding entries of x on all lanes. Some lanes have another
    operand or constant, and some operations combine lanes."""
    random = np.random.default_rng(seed)
    lanes = int(random.choice([2, 4]))

    def function(x, s):
        rows = [*map(list, x.T), *([v] * lanes for v in s)]
        for _ in range(random.integers(8, 40)):
            operation = OPERATIONS[random.integers(len(OPERATIONS))]
            row = [operation(a, b, c) for a, b, c in zip(*_operands(random, rows), strict=True)]
            rows.append([sum(row)] * lanes if random.random() < 0.15 else row)
        values = [value * 1.0 for row in rows[-4:] for value in row]
        return {"y": np.array(values, dtype=object), "z": np.array([-values[0], values[0]], dtype=object)}

    program = trace(function, {"x": (lanes, SIZE), "s": (2,)})
    return program, [tuple(k + SIZE * lane for lane in range(lanes)) for k in range(SIZE)]


def _operands(random, rows):
    """Two values and a constant for every lane."""
    first, second = (list(rows[k]) for k in random.integers(len(rows), size=2))
    lane = random.integers(len(first))
    if random.random() < 0.1:
        second[lane] = rows[random.integers(len(rows))][lane]
    return first, second, random.choice([-1.0, 0.0, 0.5, 1.0, 2.0], len(first))
