"""The node with backend cuda, which is for the batches of its services; without a device, and with one that it
loses: the driver is the fake one, in which nobody runs kernels."""

import os
import pickle
import resource
import subprocess
import sys

import fake_cuda
import numpy as np
import pytest
from robots import ROBOTS, data_folder

from dynamics_node.codegen import DEVICES
from dynamics_node.node.building import build_job
from dynamics_node.node.building.build_job import Failure, Job, do
from dynamics_node.node.core.settings import Settings
from dynamics_node.robot import KINDS

TEXT = (data_folder() / ROBOTS["double_pendulum"].path).read_text()


def with_fake():
    """The environment of a process that finds the fake, and the compiler."""
    if fake_cuda.headers() is None:
        pytest.skip("cuda.h: pip install nvidia-cuda-runtime")
    known = os.environ.get("LD_LIBRARY_PATH", "")
    return {"LD_LIBRARY_PATH": f"{fake_cuda.library().parent}:{known}".strip(":")}


@pytest.mark.parametrize("backend", DEVICES)
def test_the_device_is_for_services(backend):
    settings = Settings(backend=backend)
    job = settings.job(TEXT)
    assert (job.backend, job.services) == (backend, backend)
    assert (job.first().backend, job.first().services) == ("numpy", "numpy")  # while the rest is compiled
    assert job.topics_first().backend == backend


def test_without_a_device_a_robot_is_refused_with_the_reason(monkeypatch):
    monkeypatch.setattr("dynamics_node.codegen.cuda.driver.LIBRARY", "libcuda-of-nowhere.so.1")
    fake_cuda.opened.forget()
    result = do(Job(TEXT, {}, "inverse", backend="cuda", services="cuda"))
    assert isinstance(result, Failure) and result.reason.startswith("backend cuda: no NVIDIA driver: ")
    fake_cuda.opened.forget()


def test_a_robot_is_built_and_served(fake):
    robot = do(Job(TEXT, {}, KINDS[0], backend="cuda", services="cuda"))
    assert not isinstance(robot, Failure), robot.reason
    assert robot.way[2] == "cuda" and robot.forward.runner.backend == robot.inverse.runner.backend == "cuda"
    assert robot.mass_matrix.runner.backend == "c"
    served = pickle.loads(pickle.dumps(robot))
    compiled = len(fake.texts)
    q = np.linspace(-1, 1, 400).reshape(200, 2)
    close = served.forward(q, q, served.inverse(q, q, q))
    np.testing.assert_allclose(close, q, rtol=1e-9, atol=1e-9)
    assert len(fake.texts) == compiled and len(fake.launches) == 2
    fake.fail(0, lasts=True)
    np.testing.assert_allclose(served.forward(q, q, served.inverse(q, q, q)), q, rtol=1e-9, atol=1e-9)
    assert served.way[2] == "c, for cuda is lost"


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


def test_services_of_a_node_that_loses_its_device_go_on_and_it_says_so():
    pytest.importorskip("rclpy", reason="ROS 2: source an installation, or use ./dev")
    from dynamics_interfaces.msg import DynamicsState
    from dynamics_interfaces.srv import InverseDynamics
    from rig import Rig, point, trajectory
    from sensor_msgs.msg import JointState

    parameters = {"backend": "cuda", "joint_state_timeout": 60.0}
    made = Rig(ROBOTS["double_pendulum"], parameters, environment=with_fake()).serving()
    names = list(ROBOTS["double_pendulum"].model().joint_names)
    made.until(lambda: "(cuda)" in made.process.output(), what="the compiled robot")
    made.diagnostic(lambda status: any(v.key == "building" and v.value == "False" for v in status.values))
    state = DynamicsState(joints=JointState(name=names, position=[0.1, 0.2], velocity=[0.0, 0.0]))
    points = trajectory(names, *(point(0.1 * k, qdd=[1.0, 0.0]) for k in range(100)))
    for _ in range(2):
        response = made.call(
            InverseDynamics, "inverse_dynamics", InverseDynamics.Request(state=state, points=points)
        )
        assert response.success and len(response.solution.points) == 100
        assert np.isfinite(response.solution.points[-1].effort).all()
    made.until(lambda: "the GPU is lost, services go on with the CPU" in made.process.output())
    message, values, _ = made.diagnostic(lambda status: "the GPU is lost" in status.message)
    assert "nobody runs kernels here" in values["lost GPU"] and "services by the CPU" in message
    made.close()
