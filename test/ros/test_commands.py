"""~/effort_commands with the checks of forward_command_controller of ros2_control."""

import numpy as np
import pytest
from rig import Rig
from robots import PANDA_JOINTS, ROBOTS
from std_msgs.msg import Float64MultiArray


class ForwardCommandController:
    """The behavior of the real controller: it rejects a wrong length and holds the last value."""

    def __init__(self, rig, count):
        self.command = np.full(count, np.nan)
        self.rejected = 0
        self.accepted = 0
        rig.node.create_subscription(
            Float64MultiArray, "dynamics_node/effort_commands", self._on_command, 100
        )

    def _on_command(self, message):
        if len(message.data) != len(self.command):
            self.rejected += 1
            return
        self.command = np.array(message.data)
        self.accepted += 1


@pytest.fixture(scope="module")
def joints():
    return [PANDA_JOINTS[k] for k in (6, 0, 3)]


@pytest.fixture(scope="module")
def bench(joints):
    rig = Rig(ROBOTS["panda7"], {"backend": "numpy", "command_joints": joints, "joint_state_timeout": 0.15})
    yield rig, ForwardCommandController(rig, 3)
    rig.close()


def test_a_controller_receives_valid_commands(bench, panda, joints):
    """Commands are in order, clamped, of the right length, and never from invalid or stale input."""
    rig, controller = bench
    at = [panda.names.index(name) for name in joints]
    rig.answered(panda.names, panda.q, panda.qd)
    rig.until(lambda: controller.accepted, what="a command")
    assert np.allclose(controller.command, panda.torque()[at], rtol=1e-10)

    last, accepted = controller.command.copy(), controller.accepted
    for q in (panda.q * np.nan, panda.q[:-1], panda.q + 1e6 * np.inf):
        rig.send_state(panda.names[: len(q)], q, panda.qd[: len(q)])
    rig.send_state([*panda.names[:-1], panda.names[0]], panda.q, panda.qd)
    rig.spin(0.3)
    assert np.array_equal(controller.command, last), "invalid input gives no command"

    fast = np.full(7, 200.0)
    rig.until(
        lambda: (
            (rig.send_state(panda.names, panda.q, fast), rig.spin(0.02))
            and controller.accepted > accepted + 3
        )
    )
    limits = panda.model.effort_limits[at]
    assert np.array_equal(np.abs(controller.command), limits), "torques at these speeds exceed the limits"

    rig.diagnostic(lambda s: "joint states older than 0.15 s" in s.message)
    command, accepted = controller.command.copy(), controller.accepted
    rig.spin(0.3)
    assert controller.accepted == accepted and np.array_equal(controller.command, command), (
        "without output the last value remains"
    )
    assert controller.rejected == 0
