"""A rig per test; every node must end with exit code 0 and without a traceback."""

import pytest
from robots import ROBOTS

pytest.importorskip("rclpy", reason="ROS 2: source an installation, or use ./dev")

from cases import case_of
from flags import QUICK_CC
from rig import Rig

NUMPY = {"backend": "numpy"}


@pytest.fixture(scope="session", autouse=True)
def quick_compiler():
    """Nodes compile without optimization."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CC", str(QUICK_CC))
        yield


@pytest.fixture
def rig():
    """rig(robot name or None, parameters...) -> Rig. The default backend is NumPy: compilation in every
    rig would take most of the time."""
    rigs = []

    def make(name="panda7", parameters=None, **options):
        rigs.append(Rig(ROBOTS[name] if name else None, NUMPY | (parameters or {}), **options))
        return rigs[-1]

    yield make
    for made in rigs:
        made.close()


@pytest.fixture(scope="module")
def arm():
    """A Panda by NumPy for all tests of a file that restore it."""
    made = Rig(ROBOTS["panda7"], NUMPY).serving()
    yield made
    made.close()


@pytest.fixture(scope="module")
def dog():
    """A quadruped by NumPy, whose states last 30 s."""
    made = Rig(ROBOTS["solo12"], NUMPY | {"joint_state_timeout": 30.0})
    made.until(lambda: "12 joints" in made.process.output())
    yield made
    made.close()


@pytest.fixture(scope="session")
def panda():
    """The Panda, its oracle and a state."""
    return case_of("panda7")


@pytest.fixture(scope="session")
def case():
    """case(name of a robot): the same for another robot."""
    return case_of
