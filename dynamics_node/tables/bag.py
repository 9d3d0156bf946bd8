"""The JointStates of a rosbag as a table, read through `rosbags`: ROS 1 and ROS 2, no ROS needed."""

import numpy as np

from dynamics_node.loops import Mechanism
from dynamics_node.tables.names import TableError, require

JOINT_STATE = "sensor_msgs/msg/JointState"


def read_bag(path, model, problem, chunk, topic, table):
    """A table(rows, timed, chunks) with a row for every JointState since all joints are known.

    A joint keeps what it had until another message has it. qd is zero where nobody gives it; accelerations
    are zero: no message has them. Raises TableError.
    """
    highlevel = require("rosbags.highlevel")
    if isinstance(model, Mechanism):
        raise TableError(f"{path}: bags of robots with closed loops are not read yet: make a table of states")
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
        found = []
        with highlevel.AnyReader([path]) as reader:
            connections = [c for c in reader.connections if c.topic == chosen]
            for connection, time, data in reader.messages(connections):
                message = reader.deserialize(data, connection.msgtype)
                if state.update(message):
                    found.append((*state.copy(), _stamp(message, time)))
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
    """The latest position, velocity and effort of every joint; NaN where nobody told."""

    def __init__(self, model, needs_effort):
        self._place = {name: k for k, name in enumerate(model.joint_names)}
        self._table = np.full((3, len(self._place)), np.nan)
        self._table[1] = 0.0
        self._needed = (0, 2) if needs_effort else (0,)

    def update(self, message):
        """True when all that is needed is known."""
        for row, numbers in enumerate((message.position, message.velocity, message.effort)):
            if len(numbers) == len(message.name):
                for name, number in zip(message.name, numbers, strict=True):
                    if name in self._place:
                        self._table[row, self._place[name]] = number
        return not self.missing()

    def missing(self):
        return [
            f"the {('position', 'velocity', 'effort')[row]} of {name!r}"
            for row in self._needed
            for name, k in self._place.items()
            if np.isnan(self._table[row, k])
        ]

    def copy(self):
        return self._table.copy()


def _stamp(message, received):
    """s; when the message was received if it has no stamp."""
    stamp = message.header.stamp
    return stamp.sec + 1e-9 * stamp.nanosec or 1e-9 * received


def _packed(rows, problem):
    q, qd, effort, time = (np.array(column) for column in zip(*rows, strict=True))
    known = {} if problem.kind == "inverse" else {"tau": effort}
    return {"q": q, "qd": qd, **known, "time": time}
