"""The service get_quantity: any quantity of docs/reference/quantities.md at one state, as named matrices.

NumPy computes the result without a compiler. Programs of the last requests are cached; their number and the
size of a reply are bounded.
"""

from math import prod
from typing import NamedTuple

import numpy as np

from dynamics_node.algorithms import QUANTITIES
from dynamics_node.algorithms.regressors import NAMES
from dynamics_node.functions import evaluate
from dynamics_node.node.errors import BadMessage
from dynamics_node.node.ros.messages import AXES, SWAP, WRENCH_AXES, linear_first, link_rows, matrix_message
from dynamics_node.node.services.requests import read_accelerations, read_links, read_vectors
from dynamics_node.text import LONGEST_WORD, listed, nearest

MOST_NUMBERS = 1_000_000  # of a result: 8 MB, or the second derivatives of 100 joints, which take 3 s
OPTIONS = ("link", "joint", "links", "reference")  # fields of a request
NEEDED = ("link", "joint")  # options without a default
OF_ALL = (
    "joint_torque_regressor",
    "momentum_regressor",
)  # quantities of all bodies if a request names no link

RESULTS = {
    name: row for name, row in QUANTITIES.items() if "tau" not in row.reads and "contacts" not in row.needs
}


class Axis(NamedTuple):
    """names: of its entries; order: their indices in our arrays."""

    names: list[str]
    order: np.ndarray


def answer_quantity(core, request, response, now):
    """Fill in names and values of a GetQuantity reply. now: steady ns. Raises BadMessage, NoOutput and the
    errors of `evaluate`."""
    name = request.quantity
    if name not in RESULTS:
        raise BadMessage(_unknown(name))
    options = _options(core, request)
    axes = _axes(core.model, options)
    _require_small(name, axes)
    q, qd = read_vectors(core, request.state, now)
    qdd = read_accelerations(core, request.state.joints.name, request.accelerations)
    row, state = QUANTITIES[name], {"q": q, "qd": qd, "qdd": qdd}
    arrays = [state[read] for read in row.reads if read in state]
    gravity = core.gravity(now) if "gravity" in row.reads else None
    results = evaluate(core.model, name, *arrays, gravity=gravity, backend="numpy", **options)
    results = results if row.result else (results,)
    response.names = list(row.returns)
    response.values = [
        _message(result, array, [axes[letter] for letter in letters])
        for result, array, letters in zip(response.names, results, row.returns.values(), strict=True)
    ]


def _unknown(name):
    if name in ("forward_dynamics", "hybrid_dynamics"):
        return f"{name} reads torques: call ~/{name}"
    near = nearest(name, RESULTS)
    hint = f"similar: {', '.join(near)}" if near else f"known: {', '.join(RESULTS)}"
    return f"unknown quantity {name[:LONGEST_WORD]!r}; {hint}"


def _options(core, request):
    """Options of the request, by keyword. Raises BadMessage for an unknown or a missing option."""
    name, options = request.quantity, [o for o in OPTIONS if o in QUANTITIES[request.quantity].options]
    given = {option: value for option in OPTIONS if (value := getattr(request, option))}
    if foreign := [option for option in given if option not in options]:
        has = f"it has {', '.join(options)}" if options else "it has none"
        raise BadMessage(f"{name} has no option {listed(foreign)}; {has}")
    needed = () if name in OF_ALL else NEEDED
    if missing := [option for option in needed if option in options and option not in given]:
        raise BadMessage(f"{name} needs the field {missing[0]}")
    if "links" in given or "links" in QUANTITIES[name].needs:
        given["links"] = read_links(core, given.get("links", ()))
    return given


def _axes(model, options) -> dict[str, Axis]:
    """{letter: Axis}, see Quantity.returns."""
    tree, bodies = model.tree, [body.name for body in model.bodies]
    links = options.get("links") or [options.get("link", "")]
    carriers = [options["link"]] if "link" in options else bodies
    parameters = [f"{body}.{parameter}" for body in carriers for parameter in NAMES]
    return {
        "v": _coordinates(model),
        "t": _axles(tree),
        "m": Axis(*link_rows(links)),
        "l": _plain_axis(options.get("links") or model.frames),
        "s": Axis(list(AXES), SWAP),
        "w": Axis(list(WRENCH_AXES), SWAP),
        "x": _plain_axis("xyz"),
        "b": _plain_axis(bodies),
        "p": _plain_axis(parameters),
    }


def _coordinates(model):
    order = linear_first(model)
    return Axis([model.v_names[k] for k in order], order)


def _axles(tree):
    axis, shared = _coordinates(tree), [joint.name for joint in tree.shared_joints]
    return Axis(
        [*axis.names, *shared], np.append(axis.order, len(axis.order) + np.arange(len(shared))).astype(int)
    )


def _plain_axis(names):
    return Axis(list(names), np.arange(len(names)))


def _require_small(name, axes):
    numbers = max(
        prod(len(axes[letter].names) for letter in letters) for letters in RESULTS[name].returns.values()
    )
    if numbers > MOST_NUMBERS:
        raise BadMessage(f"{name} of this robot has {numbers} numbers; the limit is {MOST_NUMBERS}")


def _message(result, array, axes):
    """A NamedMatrix: a vector is one column, a number is 1 x 1, the last two of three axes are joined."""
    if axes:
        array = array[np.ix_(*(axis.order for axis in axes))]
    names = [axis.names for axis in axes]
    if len(names) == 3:
        names = [names[0], [f"{a}, {b}" for a in names[1] for b in names[2]]]
    rows, columns = [*names, [result], [result]][:2]
    return matrix_message(array.reshape(len(rows), len(columns)), rows, columns)
