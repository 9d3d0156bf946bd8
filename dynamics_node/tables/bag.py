"""The JointStates of a rosbag as a table, read through `rosbags`: ROS 1 and ROS 2, no ROS needed."""

import numpy as np

from dynamics_node.loops import ClosureError, Mechanism, tree_of
from dynamics_node.solver import build_closing
from dynamics_node.tables.names import TableError, require

JOINT_STATE = "sensor_msgs/msg/JointState"


def read_bag(path, model, problem, chunk, topic, table):
    """A table(rows, timed, chunks) with a row for every JointState since all joints are known.

    A joint keeps what it had until another message has it. qd is zero where nobody gives it; accelerations
    are zero: no message has them. Of a robot with loops the independent joints are enough: the others follow,
    on the branch of the row before; rows that cannot be closed are NaN. Raises TableError.
    """
    highlevel = require("rosbags.highlevel")
    if model.floating_base:
        raise TableError(f"{path}: JointStates do not tell where a floating base is: make a table of states")
    try:
        with highlevel.AnyReader([path]) as reader:
            chosen = _topic(path, reader, topic)
            rows = sum(c.msgcount for c in reader.connections if c.topic == chosen)
    except (highlevel.AnyReaderError, OSError, AssertionError) as error:
        raise TableError(f"{path} is no table and no bag: {error}") from None

    def chunks():
        state = _State(model, needs_effort=problem.kind != "inverse")
        position = _closed_positions(model) if isinstance(model, Mechanism) else np.copy
        found = []
        with highlevel.AnyReader([path]) as reader:
            connections = [c for c in reader.connections if c.topic == chosen]
            for connection, time, data in reader.messages(connections):
                message = reader.deserialize(data, connection.msgtype)
                if state.update(message):
                    found.append(
                        (position(state.positions), *state.rates_and_efforts(), _stamp(message, time))
                    )
                if len(found) == chunk:
                    yield _packed(found, problem)
                    found = []
        if found:
            yield _packed(found, problem)
        if missing := state.missing():
            raise TableError(f"{path}: no JointState on {chosen} tells {', '.join(missing[:12])}")

    return table(rows, True, chunks)


def _topic(path, reader, topic):
    topics = sorted({c.topic for c in reader.connections if c.msgtype == JOINT_STATE})
    if topic is None and len(topics) == 1:
        return topics[0]
    if topic not in topics:
        listed = ", ".join(topics) or "none"
        raise TableError(f"{path}: choose a topic with {JOINT_STATE}: there are {listed}")
    return topic


class _State:
    """The latest position, velocity and effort of every joint; NaN where nobody told.

    positions (nq,). Those of dependent joints are the last message's or NaN: they follow from the others.
    """

    def __init__(self, model, needs_effort):
        self._q_at = {joint.name: joint.q.start for joint in tree_of(model).independent_joints}
        self._own = {joint.name: joint.v.start for joint in model.independent_joints}
        self._dependent = [at for name, at in self._q_at.items() if name not in self._own]
        self.positions = np.full(model.nq, np.nan)
        self._rates, self._efforts = np.zeros(model.nv), np.full(model.nv, np.nan)
        self._needs_effort = needs_effort

    def update(self, message):
        """True when all that is needed is known."""
        self.positions[self._dependent] = np.nan
        for numbers, kept, places in (
            (message.position, self.positions, self._q_at),
            (message.velocity, self._rates, self._own),
            (message.effort, self._efforts, self._own),
        ):
            if len(numbers) == len(message.name):
                for name, number in zip(message.name, numbers, strict=True):
                    if name in places:
                        kept[places[name]] = number
        return not self.missing()

    def missing(self):
        positions = [f"the position of {n!r}" for n in self._own if np.isnan(self.positions[self._q_at[n]])]
        if not self._needs_effort:
            return positions
        return positions + [
            f"the effort of {n!r}" for n, at in self._own.items() if np.isnan(self._efforts[at])
        ]

    def rates_and_efforts(self):
        return self._rates.copy(), self._efforts.copy()


def _closed_positions(mechanism):
    """A function of one position after the other that closes the loops, on the branch of the one before."""
    closing, last = build_closing(mechanism), None

    def closed(q):
        nonlocal last
        try:
            last, _ = closing.following(q, last)
        except ClosureError:
            return np.full(mechanism.nq, np.nan)
        return last

    return closed


def _stamp(message, received):
    """s; when the message was received if it has no stamp."""
    stamp = message.header.stamp
    return stamp.sec + 1e-9 * stamp.nanosec or 1e-9 * received


def _packed(rows, problem):
    q, qd, effort, time = (np.array(column) for column in zip(*rows, strict=True))
    known = {} if problem.kind == "inverse" else {"tau": effort}
    return {"q": q, "qd": qd, **known, "time": time}
