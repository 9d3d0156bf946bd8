"""Start and end of the process: descriptions, signals, a hanging middleware.

Every rig publishes its description before the start of the node and ends it by SIGINT, see rig.py."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from domains import fresh_domain
from dynamics_interfaces.srv import GetMassMatrix
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rig import NodeProcess, efforts
from std_srvs.srv import SetBool
from tolerances import EXACT, error

from dynamics_node.node.building.worker import WORKERS


def change(rig, transition):
    """Whether a transition succeeds."""
    return rig.ask(ChangeState, transition=Transition(id=transition)).success


def state(rig):
    """The label of the state."""
    return rig.ask(GetState).current_state.label


def test_an_inactive_node_publishes_nothing_and_keeps_its_robot(rig, panda):
    r = rig(parameters={"joint_state_timeout": 60.0})
    r.answered(panda.names, panda.q, panda.qd)
    assert state(r) == "active" and change(r, Transition.TRANSITION_DEACTIVATE)
    assert state(r) == "inactive"
    assert r.silent_for(0.3, lambda: r.send_state(panda.names, panda.q, panda.qd))
    assert r.ask(GetMassMatrix).success
    assert change(r, Transition.TRANSITION_ACTIVATE)
    torques = efforts(r.answered(panda.names, panda.q, panda.qd), panda.names)
    assert error(torques, panda.torque()) <= EXACT


def test_a_node_that_is_cleaned_up_has_no_robot_until_it_is_configured(rig, panda):
    r = rig()
    r.answered(panda.names, panda.q, panda.qd)
    assert change(r, Transition.TRANSITION_DEACTIVATE) and change(r, Transition.TRANSITION_CLEANUP)
    response = r.ask(GetMassMatrix)
    assert (response.success, response.message) == (False, "no robot yet")
    response = r.call(SetBool, "set_enabled", SetBool.Request(data=True))
    assert (response.success, response.message) == (False, "the node is not configured")
    assert change(r, Transition.TRANSITION_CONFIGURE) and change(r, Transition.TRANSITION_ACTIVATE)
    torques = efforts(r.answered(panda.names, panda.q, panda.qd), panda.names)
    assert error(torques, panda.torque()) <= EXACT


def test_without_autostart_a_node_is_configured_and_not_active(rig, panda):
    """A transition that the state does not allow has a reply."""
    r = rig(parameters={"autostart": False})
    assert r.silent_for(0.3, lambda: r.send_state(panda.names, panda.q, panda.qd))
    assert state(r) == "inactive" and not change(r, Transition.TRANSITION_CONFIGURE)
    assert r.call(SetBool, "set_enabled", SetBool.Request(data=True)).success
    assert state(r) == "active" and r.answered(panda.names, panda.q, panda.qd)


def test_a_signal_ends_a_running_node(rig, panda):
    r = rig()
    r.answered(panda.names, panda.q, panda.qd)
    assert r.process.stop(signal.SIGTERM) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_a_node_without_a_description(rig, number):
    r = rig(describe=False)
    r.until(r.states.get_subscription_count, what="discovery")
    assert r.process.stop(number) == 0


def test_a_signal_during_a_build_ends_the_node(rig, panda):
    r = rig(describe=False)
    r.until(r.states.get_subscription_count, what="discovery")
    r.describe(panda.robot.file.read_text())
    r.spin(0.05)
    assert r.process.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_during_the_start_end_the_node(number):
    """Signals work before most imports and the middleware."""
    process = NodeProcess(fresh_domain())
    caught = Path(f"/proc/{process.process.pid}/status")

    def handles_sigterm():
        (mask,) = [line.split()[1] for line in caught.read_text().splitlines() if line.startswith("SigCgt")]
        return int(mask, 16) >> (signal.SIGTERM - 1) & 1

    while not handles_sigterm():
        time.sleep(0.001)
    assert process.stop(number) == 0
    assert process.output() == ""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_workers_start_and_end_with_the_node(number):
    """They are forks of the node without ROS; that of the services then imports it."""
    process = NodeProcess(fresh_domain())
    tasks = Path(f"/proc/{process.process.pid}/task/{process.process.pid}")
    while len(children := (tasks / "children").read_text().split()) < len(WORKERS):
        time.sleep(0.001)
    workers = [Path(f"/proc/{child}") for child in children]
    names = {worker.name for worker in WORKERS}
    while {(worker / "comm").read_text().strip() for worker in workers} != names:  # of new forks
        time.sleep(0.001)
    builders = [worker for worker in workers if (worker / "comm").read_text().strip() == WORKERS[0].name]
    assert len(builders) == 2
    for builder in builders:
        assert "rclpy" not in (builder / "maps").read_text() and len([*(builder / "task").iterdir()]) == 1
    assert process.stop(number) == (-signal.SIGKILL if number == signal.SIGKILL else 0)
    while any(worker.exists() and (worker / "cmdline").read_bytes() for worker in workers):
        time.sleep(0.001)


STUCK = """
from rclpy.node import Node
from dynamics_node.node.ros import running

class Stuck(Node):
    def destroy_node(self):
        print("destroying", flush=True)
        sum(iter(int, 1))  # like Fast DDS: in C, without Python signal handlers

running.END_TIMEOUT = 1
stop = running.start_rclpy()
stop.requested = True
running.run(Stuck("stuck"), stop)
"""


def test_a_hanging_middleware_is_killed():
    """Fast DDS may loop forever while a participant is destroyed."""
    process = subprocess.run([sys.executable, "-c", STUCK], stdout=subprocess.PIPE, text=True, timeout=120)
    assert (process.returncode, process.stdout) == (-signal.SIGALRM, "destroying\n")
