"""What identification stands on: regressors of a Panda beside Pinocchio's, called from Python state by state.

Thread CPU time on one core; the calls of a row take turns and the least of the medians of some rounds
counts. The peer's loop leaves what ours does: one array of all regressors.
"""

import os

import harness
import numpy as np
from functions import together
from robots import PANDA, random_states, robot, robot_file

import dynamics_node as dn

COUNTS = (256, 1024, 4096)
PER_STATE = 0.4  # us
FASTER = 1 / 20
LOOP = 200  # states of the peer's loop: its time a state does not depend on their number


def regressors():
    """Joint torques of many states."""
    model = robot("panda")
    peer = _Peer()
    states = random_states(model, max(COUNTS))
    double, single = (
        dn.build_quantity(model, "joint_torque_regressor", backend="c", precision=precision)
        for precision in ("float64", "float32")
    )
    peer.require_same(double, [a[:5] for a in states])
    for count in COUNTS:
        rows = [a[:count] for a in states]
        small = [a.astype(np.float32) for a in rows]
        ours, other, loop = together(
            lambda r=rows: double(*r), lambda r=small: single(*r), lambda r=rows: peer.loop(*r)
        )
        for told, value in (("", ours), (", float32", other)):
            name, each = f"panda regressor, {count} states{told}", value / count
            yield harness.Row(f"{name}, a state", each, "us", "lower", target=PER_STATE)
            yield harness.Row(name, each, "us", "lower", peer.name, loop / LOOP, target=FASTER)


class _Peer:
    """Pinocchio from Python."""

    def __init__(self):
        import pinocchio

        self._pin, self.name = pinocchio, f"Pinocchio {pinocchio.__version__}"
        full = pinocchio.buildModelFromUrdf(str(robot_file("panda")))
        held = [full.getJointId(name) for name in list(full.names)[1:] if name not in PANDA]
        self._model = pinocchio.buildReducedModel(full, held, pinocchio.neutral(full))
        self._data = self._model.createData()
        self._columns = 10 * self._model.nv
        self._out = np.empty((LOOP, self._model.nv, self._columns))

    def loop(self, q, qd, qdd):
        """Some states, one by one."""
        compute, model, data, out = self._pin.computeJointTorqueRegressor, self._model, self._data, self._out
        for k in range(LOOP):
            out[k] = compute(model, data, q[k], qd[k], qdd[k])

    def require_same(self, function, states):
        """Both compute the same."""
        compute = self._pin.computeJointTorqueRegressor
        right = [np.array(compute(self._model, self._data, *state)) for state in zip(*states, strict=True)]
        assert np.abs(function(*states) - right).max() <= 1e-10 * np.abs(right).max()


def main():
    options = harness.arguments("identify").parse_args()
    os.sched_setaffinity(0, {os.cpu_count() - 1})
    rows = list(regressors())
    harness.finish("identify", rows, harness.versions("numpy", "pin"), options.save)


if __name__ == "__main__":
    main()
