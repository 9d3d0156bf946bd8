"""The process of the computing services: torques continue next to it, and it lives as long as the node."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from dynamics_interfaces.srv import GetOperationalSpaceInertia, InverseDynamics
from rig import TIMEOUT, floats, point, stamp_of, state, trajectory
from robots import PANDA_JOINTS
from tolerances import EXACT, error

from dynamics_node.node.building.worker import SERVER

NAMES = list(PANDA_JOINTS)
WHOLE = state(NAMES, [0.1] * 7, [0.0] * 7)


def process_of(rig):
    """Its process id, a child of the node."""

    def services_pid():
        of_services = [pid for pid in _children(rig.process.process.pid) if _serves(pid)]
        return of_services[0] if of_services else None

    return rig.until(services_pid, what="the process of the services")


def _children(pid):
    try:
        tasks = [*Path(f"/proc/{pid}/task").iterdir()]
        return [int(number) for task in tasks for number in (task / "children").read_text().split()]
    except OSError:  # the process has just ended
        return []


def _serves(pid):
    """Whether this process id is a process of services."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == SERVER.name
    except OSError:
        return False


def test_torques_continue_during_a_long_request(rig, panda):
    """The conversion of 20 000 points by rclpy takes longer than ten of these states."""
    r = rig(parameters={"joint_state_timeout": 60.0})
    r.answered(panda.names, panda.q, panda.qd)
    points = [point(float(k), qdd=panda.qdd) for k in range(20_000)]
    client = r.node.create_client(InverseDynamics, "dynamics_node/inverse_dynamics")
    r.until(client.service_is_ready)
    request = InverseDynamics.Request(state=WHOLE, points=trajectory(NAMES, *points))
    future = client.call_async(request)
    sent, last = [], None
    while not future.done():
        sent.append(r.send_state(panda.names, panda.q, panda.qd))
        r.spin(0.01)
        last = max(r.torques, default=None)
    assert last in sent and len(set(sent) & set(r.torques)) >= 5
    response = future.result()
    assert response.success and len(response.solution.points) == 20_000
    expected = panda.oracle.inverse(np.full(7, 0.1), np.zeros(7), panda.qdd)
    assert error(np.array(response.solution.points[-1].effort), expected) <= EXACT


def test_a_killed_process_is_restarted(rig, panda):
    r = rig().serving()
    assert r.ask(InverseDynamics, state=WHOLE).success
    first = process_of(r)
    os.kill(first, signal.SIGKILL)
    r.until(lambda: f"ended with code -{signal.SIGKILL.value}" in r.process.output())
    assert process_of(r) != first
    assert r.answered(panda.names, panda.q, panda.qd)
    client = r.node.create_client(InverseDynamics, "dynamics_node/inverse_dynamics")
    futures = []

    def answered():  # DDS keeps the killed process alive for a while
        futures.append(client.call_async(InverseDynamics.Request(state=WHOLE)))
        r.spin(0.3)
        return next((future for future in futures if future.done()), None)

    assert r.until(answered).result().success


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_process_ends_with_the_node(rig, number):
    r = rig(None)
    pid = process_of(r)
    r.until(r.states.get_subscription_count)
    r.process.process.send_signal(number)
    r.process.process.wait(TIMEOUT)
    r.until(lambda: not _serves(pid))
    r.process.process.returncode = 0  # the rig expects exit code 0


def test_the_process_ends_if_the_node_is_gone():
    script = (
        "import socket; from dynamics_node.node.services import service_process as it\n"
        "start = it.Start({}, '_nobody', '/', [])\n"
        "ours, its = socket.socketpair(); connection = it.Connection(ours.detach())\n"
        "connection.send_bytes(it.pickle.dumps(start)); connection.close(); it.work(its)\n"
    )
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=TIMEOUT)
    assert (process.returncode, process.stderr) == (0, "")


def test_links_are_counted_before_the_computation(rig):
    r = rig().serving()

    def reason(links):
        response = r.ask(GetOperationalSpaceInertia, state=WHOLE, links=links)
        return "" if response.success else response.message

    assert "50000 links in the request; the robot has" in reason(["panda_hand"] * 50_000)
    assert reason(["panda_hand"] * 2) == "link 'panda_hand' is listed twice"
    assert reason(["panda_hand"]) == ""


def test_points_with_a_whole_state_need_no_measured_state(rig, panda):
    """Also if there is a stale one."""
    r = rig(parameters={"joint_state_timeout": 0.3})
    r.answered(panda.names, panda.q, panda.qd)
    r.diagnostic(lambda status: "joint states older" in status.message)

    def reply(**fields):
        points = trajectory(panda.names, point(**fields))
        return r.ask(InverseDynamics, points=points)

    response = reply(q=panda.q, qd=panda.qd)
    assert response.success, response.message
    assert error(np.array(response.solution.points[0].effort), panda.torque()) <= EXACT
    for fields, what in (({"q": floats(panda.q)}, "velocity"), ({"qd": floats(panda.qd)}, "position")):
        response = reply(**fields)
        assert not response.success
        assert f"neither points nor state have the {what} of panda_joint1" in response.message
        assert "(joint states older than 0.3 s" in response.message
    assert stamp_of(r.torque_log[-1])
