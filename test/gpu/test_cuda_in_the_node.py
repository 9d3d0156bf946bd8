"""The node with backend cuda, which is for the batches of its services; without a device, and with one that it loses."""

import pickle
import resource
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from robots import ROBOTS, data_folder

from dynamics_node.codegen import DEVICES
from dynamics_node.codegen.cuda import device
from dynamics_node.node.building import build_job
from dynamics_node.node.building.build_job import Failure, Job, do
from dynamics_node.node.core.settings import Settings
from dynamics_node.node.services.service_process import Follower, Reply
from dynamics_node.robot import KINDS

TEXT = (data_folder() / ROBOTS["double_pendulum"].path).read_text()


@pytest.mark.parametrize("backend", DEVICES)
def test_the_device_is_for_services(backend):
    settings = Settings(backend=backend)
    job = settings.job(TEXT)
    assert (job.backend, job.services) == (backend, backend)
    assert (job.first().backend, job.first().services) == ("numpy", "numpy")  # while the rest is compiled
    assert job.topics_first().backend == backend


def test_without_a_device_a_robot_is_rejected_with_the_reason(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    result = do(Job(TEXT, {}, "inverse", backend="cuda", services="cuda"))
    assert isinstance(result, Failure) and "backend cuda runs by CuPy: " in result.reason


def test_a_robot_is_built_and_served(stand_in):
    robot = do(Job(TEXT, {}, KINDS[0], backend="cuda", services="cuda"))
    assert not isinstance(robot, Failure), robot.reason
    assert (
        robot.method[2] == "cuda" and robot.forward.runner.backend == robot.inverse.runner.backend == "cuda"
    )
    assert robot.mass_matrix.runner.backend == "c"
    served = pickle.loads(pickle.dumps(robot))
    stand_in.launches.clear()
    q = np.linspace(-1, 1, 400).reshape(200, 2)
    np.testing.assert_allclose(served.forward(q, q, served.inverse(q, q, q)), q, rtol=1e-9, atol=1e-9)
    assert len(stand_in.launches) == 2
    stand_in.fault.plan(0)
    np.testing.assert_allclose(served.forward(q, q, served.inverse(q, q, q)), q, rtol=1e-9, atol=1e-9)
    assert served.method[2] == "c, for cuda is lost"


def test_a_building_process_that_opens_a_device_is_limited_in_what_it_writes():
    """Drivers reserve addresses of all memory there is."""
    code = (
        "import resource; from dynamics_node.node.building.build_job import limit_resources; limit_resources(True)\n"
        "print(resource.getrlimit(resource.RLIMIT_AS)[0], resource.getrlimit(resource.RLIMIT_DATA)[0])\n"
        "import mmap; mmap.mmap(-1, 2**33, prot=mmap.PROT_READ)\n"
        "bytearray(5 * 2**30)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    addresses, data = map(int, done.stdout.split())
    assert addresses == resource.getrlimit(resource.RLIMIT_AS)[0]
    assert data in (build_job.MEMORY_LIMIT, resource.getrlimit(resource.RLIMIT_DATA)[1])
    assert done.returncode == 1 and done.stderr.strip().endswith("MemoryError")


def test_the_process_of_services_passes_on_that_its_device_is_lost(monkeypatch):
    """With its next question, and with one of its own when it is lost in an answer."""
    requests = []
    connection = SimpleNamespace(
        send_bytes=lambda text: requests.append(text.decode()),
        poll=lambda seconds: True,
        recv_bytes=lambda: pickle.dumps(Reply(len(requests), 0, None, None, None)),
    )
    follower = Follower(connection)
    assert follower.core() is None
    follower.report_lost_device()
    monkeypatch.setattr(device, "_lost", ["cudaErrorLaunchFailure"])
    follower.report_lost_device()
    follower.report_lost_device()
    assert requests == ["1 0 ", "2 0 cudaErrorLaunchFailure"]
