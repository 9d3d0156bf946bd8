"""What is known of the joints of a recording: JointStates that may each tell a part."""

from typing import NamedTuple

import numpy as np

from dynamics_node.io.names import TableError
from dynamics_node.robot.joint_names import Pairs, renamed


class _Layout(NamedTuple):
    """(index in a message, place in the vector) of positions, and of what independent joints alone have."""

    positions: tuple[np.ndarray, np.ndarray]
    rates: tuple[np.ndarray, np.ndarray]


class Latest:
    """The latest position, velocity and effort of every joint. values: {"q": (nq,), "qd", "tau": (nv,)}, NaN
    where nobody told.

    Positions of dependent joints are the last message's or NaN: they follow from the others. still: joints
    whose velocity is zero whatever comes; efforts: joints whose torques are needed, all by default. untold:
    kinds that some joint has not told yet; unknown: names in the messages that are none of the robot's.
    """

    def __init__(self, model, pairs: Pairs = (), still=(), efforts=None):
        scalar = [joint for joint in model.tree.independent_joints if joint.type.is_scalar]
        self._q_at = {joint.name: joint.q.start for joint in scalar}
        self._v_at = {joint.name: joint.v.start for joint in model.independent_joints}
        self._pairs = pairs
        self._layouts: dict[tuple[str, ...], _Layout] = {}
        self.unknown: set[str] = set()
        self._dependent = [at for name, at in self._q_at.items() if name not in self._v_at]
        self._tellers = {"q": list(self._v_at), "qd": list(self._v_at)}
        self._tellers["tau"] = list(self._v_at) if efforts is None else list(efforts)
        at = {"q": self._q_at, "qd": self._v_at, "tau": self._v_at}
        self._own = {
            kind: np.array([at[kind][name] for name in names], dtype=int)
            for kind, names in self._tellers.items()
        }
        self._still = [self._v_at[name] for name in still]
        widths = {"q": model.nq, "qd": model.nv, "tau": model.nv}
        self.values = {kind: np.full(n, np.nan) for kind, n in widths.items()}
        self._told = {kind: np.zeros(len(at), dtype=bool) for kind, at in self._own.items()}
        self.untold = set(self._own)

    def update(self, message):
        """Take in a JointState. Raises TableError when it tells a joint twice."""
        layout = self._layout(message.name)
        self.values["q"][self._dependent] = np.nan
        for kind, numbers, (source, target) in (
            ("q", message.position, layout.positions),
            ("qd", message.velocity, layout.rates),
            ("tau", message.effort, layout.rates),
        ):
            if len(numbers) == len(message.name):
                self.values[kind][target] = numbers[source]
        self.values["qd"][self._still] = 0.0
        for kind in tuple(self.untold):
            self._told[kind] |= np.isfinite(self.values[kind][self._own[kind]])
            if self._told[kind].all():
                self.untold.remove(kind)

    @property
    def tellers(self):
        """Names of the independent joints."""
        return list(self._v_at)

    def without(self, kind):
        """Names of the independent joints that never told a kind: NaN tells nothing."""
        return [name for name, told in zip(self._tellers[kind], self._told[kind], strict=True) if not told]

    def _layout(self, names):
        key = tuple(names)
        if key not in self._layouts:
            self._layouts[key] = self._new_layout(key)
        return self._layouts[key]

    def _new_layout(self, theirs):
        ours = [renamed(name, self._pairs) for name in theirs]
        known = [name for name in ours if name in self._q_at]
        for name in known:
            if known.count(name) > 1:
                both = " and ".join(repr(t) for t, o in zip(theirs, ours, strict=True) if o == name)
                raise TableError(f"a JointState tells joint {name!r} twice, as {both}")
        self.unknown |= {their for their, our in zip(theirs, ours, strict=True) if our not in self._q_at}
        return _Layout(_places(ours, self._q_at), _places(ours, self._v_at))


def _places(names, at):
    pairs = [(k, at[name]) for k, name in enumerate(names) if name in at]
    source, target = np.array(pairs, dtype=int).reshape(-1, 2).T
    return source, target
