"""The service get_capability: forces, accelerations and effective mass of a link, with the payloads."""

from typing import Any

import numpy as np

from dynamics_node.node.core.torques import joint_friction
from dynamics_node.node.errors import BadMessage
from dynamics_node.node.ros.messages import doubles, matrix_message, vector_message
from dynamics_node.node.services.requests import read_batch, read_limits
from dynamics_node.trajectory import capability, effective_mass, manipulability

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
    directions = np.array([(own.x, own.y, own.z) for own in request.directions]).reshape(-1, 1, 3)
    parts = [
        _Part(core, request, batch, slice(k, k + AT_ONCE), directions, now)
        for k in range(0, len(batch.q), AT_ONCE)
    ]
    columns = [f"direction {k}" for k in range(len(directions))]
    rows = [f"state {k}" for k in range(len(batch.q))]
    for name in ("force", "acceleration", "effective_mass"):
        values = np.concatenate([getattr(part, name) for part in parts], axis=1).T
        setattr(response, name, matrix_message(values, rows, columns))
    response.manipulability = doubles(np.concatenate([part.moves.measure for part in parts]))
    response.condition_number = doubles(np.concatenate([part.moves.condition for part in parts]))
    if request.vertices:
        for kind in ("force", "acceleration"):
            vertices = [own[np.isfinite(own).all(axis=1)] for part in parts for own in part.vertices(kind)]
            setattr(response, f"{kind}_counts", [len(own) for own in vertices])
            setattr(response, f"{kind}_vertices", [vector_message(own) for own in np.concatenate(vertices)])


class _Part:
    """Results of some states: force, acceleration, effective_mass (directions, states)."""

    def __init__(self, core, request, batch, rows, directions, now):
        model, link, q = core.model, request.link, batch.q[rows]
        reference = request.reference or "world_aligned"
        options: Any = {"reference": reference, "backend": "numpy"}  # other links need no compiler
        self._capability = capability(
            model, link, q, batch.qd[rows], batch.qdd[rows],
            limits=read_limits(core, request), gravity=core.gravity(now),
            friction=joint_friction(model, core.settings) if request.friction else False, **options,
        )  # fmt: skip
        self.moves = manipulability(model, link, q, **options)
        self.force, self.acceleration, self.effective_mass = np.zeros((3, len(directions), len(q)))
        for k, direction in enumerate(directions):
            self.force[k] = self._capability.force.along(direction)
            self.acceleration[k] = self._capability.acceleration.along(direction)
            self.effective_mass[k] = effective_mass(model, link, q, direction, **options)

    def vertices(self, kind):
        return getattr(self._capability, kind).vertices()
