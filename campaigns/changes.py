"""Changes while the node serves: robots, payloads, solvers, parameters, publishers; and requests."""

import time

import numpy as np
from dynamics_interfaces.msg import DynamicsState
from dynamics_interfaces.srv import InverseDynamics, SetPayload
from rig import floats
from sensor_msgs.msg import JointState

from campaigns.references import AGREEMENT, Configuration, References, descriptions, payload

EVERY = {
    "robot": 40.0,
    "payload": 5.0,
    "solver": 15.0,
    "request": 1.0,
    "parameter": 3.0,
    "unknown_joint": 5.0,
}  # s
SOLVERS = (
    {"solver": "factor_graph", "ordering": "aba"},
    {"solver": "best", "ordering": "best"},
    {"solver": "factor_graph", "ordering": "rnea"},
)
HARMLESS = (
    {"reference_timeout": 0.7},
    {"reference_timeout": 0.5},
    {"wrench_timeout": 0.3},
    {"tip_links": ["nowhere"]},
    {"rate": -1.0},
    {"solver": "nonsense"},
)


class Changes:
    """One change at a time, each kind at its own times. failures: wrong replies."""

    def __init__(self, target, random):
        self._target, self._random = target, random
        self._references = References()
        self._loaded = False
        self._other = None
        self._next = {kind: time.monotonic() + self._pause(kind) for kind in EVERY}
        self.failures: list[str] = []

    def step(self):
        """Make the due change, or wait."""
        kind = min(self._next, key=self._next.get)
        wait = self._next[kind] - time.monotonic()
        if wait > 0:
            self._target.spin(min(wait, 0.2))
            return
        getattr(self, f"_{kind}")()
        self._next[kind] = time.monotonic() + self._pause(kind)

    def _pause(self, kind):
        return EVERY[kind] * self._random.uniform(0.3, 1.7)

    @property
    def _configuration(self):
        return Configuration(self._target.robot, self._loaded)

    def _robot(self):
        """Change the robot, without its payload."""
        if self._loaded:
            self._payload()
        self._target.take(
            self._random.choice([name for name in descriptions() if name != self._target.robot])
        )

    def _payload(self):
        """Attach or remove the payload."""
        before = self._configuration
        self._loaded = not self._loaded
        self._target.watch.allow(before, self._configuration)
        request = payload(self._target.robot) if self._loaded else payload(self._target.robot, 0)
        response = self._target.ask(SetPayload, "set_payload", request)
        if response is None or not response.success:
            self.failures.append(f"set_payload: {response}")
        self._target.serves(self._configuration)
        self._target.watch.allow(self._configuration)

    def _solver(self):
        self._set(self._random.choice(SOLVERS))

    def _parameter(self):
        self._set(self._random.choice(HARMLESS))

    def _set(self, values):
        if self._target.set(**values) is None:
            self.failures.append(f"no answer to {values}")

    def _unknown_joint(self):
        """Create or destroy a publisher of unknown joints."""
        node = self._target.client.node
        if self._other is not None:
            node.destroy_publisher(self._other)
            self._other = None
            return
        self._other = node.create_publisher(JointState, "joint_states", 10)
        self._other.publish(JointState(name=["a_stranger"], position=[0.0]))

    def _request(self):
        """Request inverse dynamics at a random time of the motion."""
        stamp = self._random.randrange(10**15)
        q, qd = (floats(values) for values in self._references.motion(stamp))
        state = DynamicsState(joints=JointState(name=self._references.names, position=q, velocity=qd))
        answer = self._target.ask(InverseDynamics, "inverse_dynamics", InverseDynamics.Request(state=state))
        if answer is None or not answer.success:
            self.failures.append(f"inverse_dynamics: {answer and answer.message}")
            return
        names, effort = answer.solution.joint_names, np.array(answer.solution.points[0].effort)
        error = self._references.error(self._configuration, stamp, names, effort)
        if error > AGREEMENT:
            self.failures.append(f"inverse_dynamics: off by {error:.3g}")
