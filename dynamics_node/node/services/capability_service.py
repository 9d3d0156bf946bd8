"""The service get_capability: forces, accelerations and effective mass of a link, with the payloads."""

from typing import Any, NamedTuple

import numpy as np

from dynamics_node.node.core.torques import joint_friction
from dynamics_node.node.errors import BadMessage
from dynamics_node.node.ros.messages import doubles, matrix_message, vector_message
from dynamics_node.node.services.requests import read_batch, read_limits
from dynamics_node.trajectory import (
    Capability,
    Manipulability,
    capability,
    effective_mass,
    manipulability,
)

MOST_STATES = 10_000  # of an arm, which take 1 s
MOST_WITH_VERTICES = 1_000
MOST_CLOSED = 200  # states with loops, one by one: 1.4 s for a five-bar
MOST_DIRECTIONS = 100
AT_ONCE = 500  # states in memory


def answer_capability(core, request, response, now):
    """Fill in a GetCapability reply. now: steady ns. Raises BadMessage, NoOutput and the errors of
    `capability`."""
    if core.settings.driven_joints:
        raise BadMessage("get_capability does not support driven.joints")
    most = MOST_WITH_VERTICES if request.vertices else MOST_STATES
    most = min(most, MOST_CLOSED) if core.model.constrained else most
    for name, count, bound in (
        ("states", len(request.points.points), most),
        ("directions", len(request.directions), MOST_DIRECTIONS),
    ):
        if count > bound:
            raise BadMessage(f"{count} {name}; the limit is {bound}")
    if not request.link:
        raise BadMessage("get_capability needs the field link")
    batch = read_batch(core, request.state, request.points, now)
    directions = np.array([(d.x, d.y, d.z) for d in request.directions]).reshape(-1, 1, 3)
    chunks = [slice(k, k + AT_ONCE) for k in range(0, len(batch.q), AT_ONCE)]
    parts = [_capability(core, request, batch, rows, directions, now) for rows in chunks]
    rows = [f"state {k}" for k in range(len(batch.q))]
    columns = [f"direction {k}" for k in range(len(directions))]
    along = np.concatenate([part.along for part in parts], axis=1).transpose(2, 1, 0)
    response.force, response.acceleration, response.effective_mass = (
        matrix_message(values, rows, columns) for values in along
    )
    response.manipulability = doubles(np.concatenate([part.moves.measure for part in parts]))
    response.condition_number = doubles(np.concatenate([part.moves.condition for part in parts]))
    if request.vertices:
        limits = [part.limits for part in parts]
        response.force_counts, response.force_vertices = _vertices(limit.force for limit in limits)
        response.acceleration_counts, response.acceleration_vertices = _vertices(
            limit.acceleration for limit in limits
        )


class _Capability(NamedTuple):
    """Results of some states. along (directions, states, 3): force, acceleration and effective mass."""

    limits: Capability
    moves: Manipulability
    along: np.ndarray


def _capability(core, request, batch, rows, directions, now) -> _Capability:
    model, link, q = core.model, request.link, batch.q[rows]
    reference = request.reference or "world_aligned"
    options: Any = {"reference": reference, "backend": "numpy"}  # other links need no compiler
    limits = capability(
        model, link, q, batch.qd[rows], batch.qdd[rows],
        limits=read_limits(core, request), gravity=core.gravity(now),
        friction=joint_friction(model, core.settings) if request.friction else False, **options,
    )  # fmt: skip
    along = [
        (limits.force.along(d), limits.acceleration.along(d), effective_mass(model, link, q, d, **options))
        for d in directions
    ]
    shape = len(directions), 3, len(q)
    moves = manipulability(model, link, q, **options)
    return _Capability(limits, moves, np.reshape(along, shape).transpose(0, 2, 1))


def _vertices(polytopes):
    """Counts of the vertices of each state, and all vertices."""
    vertices = [of_state[np.isfinite(of_state).all(axis=1)] for p in polytopes for of_state in p.vertices()]
    return [len(of_state) for of_state in vertices], [vector_message(v) for v in np.concatenate(vertices)]
