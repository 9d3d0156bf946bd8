"""The arguments of a call: arrays over one batch, their checks, and the good states among them."""

import math
from dataclasses import dataclass, replace

import numpy as np

from dynamics_node.functions.checks import (
    finite_states,
    require_finite,
    require_flags,
    require_unit_quaternions,
    same_batch,
    shaped,
    unit_states,
)
from dynamics_node.robot.robot import cached_on_robot


@dataclass(frozen=True)
class Signature:
    """The arguments of a function, for checks and messages.

    inputs: {name: (shape at one state, names of the entries along its first axis)}; quaternions: (input,
    index of the first of four numbers of unit length, name of the joint); flags: inputs of zeros and ones.
    """

    name: str
    inputs: dict
    quaternions: tuple[tuple[str, int, str], ...] = ()
    flags: tuple[str, ...] = ()

    def named(self, name) -> "Signature":
        return replace(self, name=name)

    def with_contacts(self, rows) -> "Signature":
        """With the arguments of contacts, given their ContactRows or None."""
        if rows is None:
            return self
        names = tuple(contact.name for contact in rows.contacts)
        more = {
            **dict.fromkeys(("active", "restitution"), ((len(names),), names)),
            "contact_accelerations": ((len(rows.names),), rows.names),
        }
        return replace(self, inputs=self.inputs | more, flags=("active",))


def plain_signature(name, shapes) -> Signature:
    """The Signature of arrays whose entries have no names: messages have their numbers."""
    rows = {
        key: (tuple(shape), tuple(map(str, range(shape[0] if shape else 0)))) for key, shape in shapes.items()
    }
    return Signature(name, rows)


@cached_on_robot
def robot_signature(robot) -> Signature:
    """The Signature of the arrays of a robot's state."""
    rates = ((robot.nv,), robot.v_names)
    bodies = [body.name for body in robot.bodies]
    inputs = {
        "q": ((robot.nq,), robot.q_names),
        **dict.fromkeys(("qd", "qdd", "tau"), rates),
        "gravity": ((3,), "xyz"),
        "f_ext": ((robot.nbodies, 6), bodies),
    }
    return Signature(robot.name, inputs, tuple(("q", at.start, joint) for joint, at in robot.quaternions))


class Arguments:
    """values: {name of the signature: given value}. Raises InputError for wrong shapes."""

    def __init__(self, signature: Signature, values, dtype=np.float64):
        self._signature = signature
        axes = signature.inputs
        self.arrays = {name: shaped(name, value, axes[name], dtype) for name, value in values.items()}
        self.batch = same_batch({name: (a, self._axes(name)) for name, a in self.arrays.items()})
        self.count = math.prod(self.batch)

    def _axes(self, name):
        return len(self._signature.inputs[name][0])

    def require_valid(self):
        """Raise InputError, naming argument and coordinate, unless all values are finite, quaternions of unit
        length, and flags zeros and ones."""
        for name, array in self.arrays.items():
            require_finite(name, array, self._signature.inputs[name])
            if name in self._signature.flags:
                require_flags(name, array, self._signature.inputs[name])
        for joint, quaternions in self._quaternions():
            require_unit_quaternions(joint, quaternions)

    def good(self):
        """Which states `require_valid` accepts: bool (count,)."""
        good = np.ones(self.batch, dtype=bool)
        for name, array in self.arrays.items():
            good &= finite_states(array, self._axes(name))
            if name in self._signature.flags:
                good &= ((array == 0.0) | (array == 1.0)).all(axis=-1)
        for _, quaternions in self._quaternions():
            good &= unit_states(quaternions)
        return good.ravel()

    def _quaternions(self):
        """(joint, quaternions (..., 4))"""
        for name, start, joint in self._signature.quaternions:
            if name in self.arrays:
                yield joint, self.arrays[name][..., start : start + 4]

    def spread(self):
        """The arrays over the whole batch."""
        return {
            name: np.broadcast_to(a, (*self.batch, *self._shape(name))) for name, a in self.arrays.items()
        }

    def rows(self, chosen=None):
        """{name: array (count, *shape), or (*shape) if all states share it}; chosen (count,) bool: of these
        states only."""
        return {name: self._rows(name, array, chosen) for name, array in self.arrays.items()}

    def _rows(self, name, array, chosen):
        shape = self._shape(name)
        if array.ndim == len(shape):
            return np.ascontiguousarray(array)
        rows = np.ascontiguousarray(np.broadcast_to(array, (*self.batch, *shape)).reshape(self.count, *shape))
        return rows if chosen is None else rows[chosen]

    def _shape(self, name):
        return self._signature.inputs[name][0]
