"""Payloads, external wrenches and gravity of an IMU. Against Pinocchio."""

import numpy as np
import pytest
from environments import COM, HAND, MASS, MOMENTS, PUSHED, TILT, UP, load, pin, quaternion, with_wrench
from oracle import Oracle
from plain import built, serve
from tolerances import EXACT, error

from dynamics_node.node.errors import BadMessage
from dynamics_node.node.state.sensor_readings import SensorMessage


@pytest.fixture
def own(panda):
    """A Panda of Pinocchio for one test, which may change it."""
    return Oracle(panda.robot, panda.model)


@pytest.fixture
def served(panda):
    made = serve("panda7", wrench_timeout=0.4, joint_state_timeout=60.0)
    made.receive(panda.names, panda.q, panda.qd)
    return made


def set_payload(served, link=HAND, mass=MASS, com=COM, moments=MOMENTS):
    served.core.set_payload(link, mass, com, moments)


# --- payloads -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["c", "numpy"])
def test_a_payload_is_attached_and_removed(panda, own, backend):
    served = serve("panda7", backend=backend)
    served.receive(panda.names, panda.q, panda.qd)
    set_payload(served)
    load(own)
    loaded = own.inverse(panda.q, panda.qd, 0 * panda.q)
    assert error(loaded, panda.torque()) > 0.05 and error(served.tau(), loaded) <= EXACT
    set_payload(served, mass=0)
    assert error(served.tau(), panda.torque()) <= EXACT and served.core.payloads == {}


def test_a_payload_replaces_the_last_one_and_survives_a_rebuild(panda, own, served):
    set_payload(served, mass=9)
    set_payload(served)
    set_payload(served, "panda_link5", 0.7)
    load(own)
    load(own, "panda_link5", 0.7)
    expected = own.inverse(panda.q, panda.qd, 0 * panda.q)
    assert error(served.tau(), expected) <= EXACT
    chosen = serve("panda7", solver="factor_graph", ordering="crba").core.settings
    served.core.replace(built(served.text, chosen), chosen)
    assert served.core.solver.description == "crba" and error(served.tau(), expected) <= EXACT


def test_a_core_with_the_snapshot_computes_the_same(served):
    """The process of the services copies the Core of the node."""
    other = serve("panda7", wrench_timeout=0.4, joint_state_timeout=60.0)
    for mass in (MASS, 0):
        set_payload(served, mass=mass)
        other.core.follow(served.core.snapshot())
        assert np.array_equal(other.tau(), served.tau())
    assert other.core.payloads == {}


def test_a_payload_on_the_fixed_root_changes_nothing(panda, served):
    set_payload(served, "panda_link0")
    assert error(served.tau(), panda.torque()) <= EXACT


# --- wrenches -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["c", "numpy"])
def test_wrenches_act_and_time_out(panda, own, backend):
    served = serve("panda7", backend=backend, wrench_timeout=0.4, joint_state_timeout=60.0)
    served.receive(panda.names, panda.q, panda.qd)
    for link, (moment, force) in PUSHED.items():
        served.core.wrenches.update(link, (*moment, *force), served.now)
    expected = with_wrench(own, panda, PUSHED)
    assert error(expected, panda.torque()) > 0.05 and error(served.tau(), expected) <= EXACT
    assert error(served.wait(400).tau(), expected) <= EXACT
    assert error(served.wait(1).tau(), panda.torque()) <= EXACT, "both have timed out"


@pytest.mark.parametrize(
    "link, wrench, reason",
    [
        ("nowhere", (0, 0, 0, 1, 0, 0), "frame_id 'nowhere'"),
        ("", (0, 0, 0, 1, 0, 0), "frame_id ''"),
        (HAND, (0, 0, 0, np.nan, 0, 0), "finite"),
        (HAND, (0, 0, 0, 1e150, 0, 0), "above"),
    ],
    ids=["unknown", "empty", "NaN", "huge"],
)
def test_a_bad_wrench_is_dropped(panda, served, link, wrench, reason):
    with pytest.raises(BadMessage, match=reason):
        served.core.wrenches.update(link, wrench, served.now)
    assert error(served.tau(), panda.torque()) <= EXACT


# --- gravity ------------------------------------------------------------------------------------------------


RPY = 0.4, -0.7, 1.9
TURN = pin.rpy.rpyToMatrix(*RPY)  # rotation of the turned IMU in root axes


@pytest.fixture
def tilted(panda, tmp_path):
    (tmp_path / "sensors.yaml").write_text(f"""
sensors:
  - {{type: imu, name: base, link: panda_link0, std: 0.1}}
  - {{type: imu, name: turned, link: panda_link0, rpy: {list(RPY)}, frame: imu_link, std: 0.1}}
""")
    path = str(tmp_path / "sensors.yaml")
    made = serve("panda7", sensors_file=path, sensor_timeout=0.5, joint_state_timeout=60.0)
    made.receive(panda.names, panda.q, panda.qd)
    return made


def receive_imu(served, name, frame, orientation, acceleration):
    numbers = (0.0, 0.0, 0.0, *acceleration)
    served.core.receive_sensor(
        f"~/sensors/{name}", SensorMessage(numbers, frame, None, served.now, orientation)
    )


@pytest.mark.parametrize(
    "name, frame, orientation, acceleration",
    [
        ("base", "", None, UP),
        ("base", "panda_link0", None, 1.3 * UP),
        ("base", "", quaternion(TILT), (np.nan, 0, 0)),
        ("turned", "imu_link", None, TURN.T @ UP),
        ("turned", "", quaternion(TILT @ TURN), (0, 0, 0)),
    ],
    ids=["acceleration", "its direction only", "orientation", "turned", "turned orientation"],
)
def test_gravity_of_an_imu(panda, own, tilted, name, frame, orientation, acceleration):
    tilted.use(gravity_sensor=name)
    tilted.no_output(f"no message yet of gravity_sensor {name}")
    receive_imu(tilted, name, frame, orientation, acceleration)
    own.pin.gravity.linear = -UP
    expected = own.inverse(panda.q, panda.qd, 0 * panda.q)
    assert error(tilted.tau(), expected) <= 1e-9
    assert error(tilted.wait(500).tau(), expected) <= 1e-9
    assert tilted.wait(1).no_output(f"gravity_sensor {name} older than 0.5 s").stale
    tilted.use(gravity_sensor="")
    assert error(tilted.tau(), panda.torque()) <= EXACT


@pytest.mark.parametrize(
    "frame, orientation, acceleration, reason",
    [
        ("camera", None, (0, 0, 9.81), "'panda_link0'.*'camera'"),
        ("", None, (0, 0, 0.1), "vertical"),
        ("", None, (0, 0, np.nan), "vertical"),
        ("", (0, 0, 0, 0), (0, 0, 9.81), "norm 0"),
    ],
)
def test_a_bad_imu_is_dropped(tilted, frame, orientation, acceleration, reason):
    tilted.use(gravity_sensor="base")
    with pytest.raises(BadMessage, match=reason):
        receive_imu(tilted, "base", frame, orientation, acceleration)
    assert tilted.core.gravity.tilt is None


def test_the_quaternion_and_the_matrix_are_the_same_tilt():
    assert np.allclose(pin.Quaternion(np.array(quaternion(TILT))).matrix() @ UP, [0, 0, 9.81])
