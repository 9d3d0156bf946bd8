"""Parameter files in both nodes: springs and offsets, overriding parameters, driver names."""

import numpy as np
from five_bars import DRIVEN, QD, Q
from plain import Served, serve, settings
from robots import PANDA_JOINTS, ROBOTS
from test_linkages_served import FiveBar
from tolerances import error
from two_links import ARM, NAMES, PUSH, SENSORS, Swing

import dynamics_node as dn
from dynamics_node.algorithms import smooth_friction
from dynamics_node.node.building.build_job import Failure, do
from dynamics_node.node.core.external_torque import external_torque
from dynamics_node.node.estimator.estimator_core import EstimatorCore
from dynamics_node.node.estimator.estimator_settings import PARAMETERS, read_settings
from dynamics_node.node.state.sensor_readings import SensorMessage

NS, PERIOD, BEGIN = 1_000_000_000, 4_000_000, 1_700_000_000_000_000_000


def write_file(folder, text):
    path = folder / "parameters.yaml"
    path.write_text(text)
    return str(path)


def test_springs_of_passive_joints_load_the_driven_ones(tmp_path):
    """tau += G^T tau_q, at the dependent position."""
    file = write_file(tmp_path, "joints: {j3: {spring: 2.5, offset: 0.75, creep: 0.5}, j1: {offset: -1.5}}")
    bench = FiveBar(parameters_file=file, compensate__friction=True)
    q = bench.oracle_robot.closed(Q)
    G, at = bench.oracle_robot.motion(q), bench.oracle_robot.at
    names = list(bench.served.core.joints.names)
    bench.served.receive(DRIVEN, Q, QD)
    result = bench.served.solve()
    j3 = result.q[bench.served.core.coordinates.q_at][names.index("j3")]
    creep = 0.5 * np.tanh(G[at["j3"]] @ QD / 0.1)
    added = G[at["j3"]] * (2.5 * j3 + 0.75 + creep) - G[at["j1"]] * 1.5
    assert error(bench.served.published(result, DRIVEN), bench.torque() + added) <= 1e-9
    bench.served.use(compensate__friction=False)
    bench.served.receive(DRIVEN, Q, QD)
    assert error(bench.served.tau(DRIVEN), bench.torque()) <= 1e-9


def test_springs_and_offsets_are_not_external_torques(tmp_path):
    file = write_file(tmp_path, "joints: {panda_joint1: {offset: 4}, panda_joint2: {spring: 30}}")
    served = serve("panda7", observer__enabled=True, parameters_file=file)
    model, q = served.core.model, np.array([0.0, -0.6, 0.0, -2.2, 0.0, 1.6, 0.7])
    passive_torques = np.array([4.0, 30 * q[1], 0, 0, 0, 0, 0])
    effort = dn.evaluate(model, "gravity_torque", q, backend="numpy") + passive_torques
    for _ in range(5):
        served.wait(1)
        served.receive(PANDA_JOINTS, q, np.zeros(7), effort, stamp=served.ros)
        estimate = external_torque(served.core, served.now)
    assert np.abs(estimate.torques).max() < 1e-9


def test_parameters_override_the_file(tmp_path):
    """The file has the joint names of the description, not those of drivers."""
    text = "joints: {%s}" % ", ".join(  # noqa: UP031
        f"{name}: {{rotor: 1, viscous: 2, coulomb: 3}}" for name in PANDA_JOINTS
    )
    driver_names = [name.replace("panda", "fer") for name in PANDA_JOINTS]
    served = serve(
        "panda7", parameters_file=write_file(tmp_path, text), joints=driver_names, compensate__friction=True,
        joint_names__from=["fer_*"], joint_names__to=["panda_*"], effort_limits="none",
        armature__joints=driver_names[:1], armature__values=[0.25],
        friction__joints=driver_names[1:2], friction__viscous=[0.5], friction__coulomb=[0.0],
    )  # fmt: skip
    model = ROBOTS["panda7"].model(armature=dict(zip(PANDA_JOINTS, [0.25, *np.ones(6)], strict=True)))
    random = np.random.default_rng(0)
    q, qd = random.uniform(-1, 1, (2, 7))
    viscous, coulomb = np.array([2, 0.5, *5 * [2.0]]), np.array([3, 0, *5 * [3.0]])
    served.receive(driver_names, q, qd)
    expected = dn.evaluate(model, "nonlinear_effects", q, qd, backend="numpy")
    assert error(served.tau(), expected + smooth_friction(qd, viscous, coulomb)) <= 1e-10
    M, right = (dn.evaluate(each, "mass_matrix", q, backend="numpy") for each in (served.core.model, model))
    assert np.allclose(M, right)


def test_an_invalid_file_is_rejected_with_the_entry(tmp_path):
    for text, reason in (
        ("joints: {panda_joint9: {}}", "no joint 'panda_joint9'"),
        ("joints: {a: b}", "line 1, column 13"),
    ):
        failure = do(
            serve_settings(parameters_file=write_file(tmp_path, text)).job(ROBOTS["panda7"].file.read_text())
        )
        assert isinstance(failure, Failure) and reason in failure.reason and not failure.transient
    gone = do(serve_settings(parameters_file=str(tmp_path / "none.yaml")).job(ARM))
    assert isinstance(gone, Failure) and "none.yaml" in gone.reason


def serve_settings(**values):
    return settings(backend="numpy", **values)


def test_the_estimator_uses_the_file(tmp_path):
    """Springs and offsets are not external torques there either."""
    sensors = tmp_path / "imus.yaml"
    sensors.write_text(SENSORS)
    file = write_file(tmp_path, "joints: {joint1: {spring: 7, offset: -2}}")
    default = {parameter.name: parameter.default for parameter in PARAMETERS}
    chosen = {"rate": NS / PERIOD, "window": 0.024, "lag": 0.008}
    chosen |= {"sensors_file": str(sensors), "parameters_file": file}
    options = read_settings(default | chosen)
    robot = do(options.job(ARM))
    assert not isinstance(robot, Failure), robot
    core, swing = EstimatorCore(robot, options), Swing()
    for k in range(60):
        stamp = BEGIN + k * PERIOD
        t = (stamp - BEGIN) / NS
        q = swing.state(t)[0]
        core.receive_sensor("imu", SensorMessage(swing.imu(t), "", stamp, stamp))
        core.receive_states(NAMES, q, (), swing.torque(t) + np.array([7 * q[0] - 2, 0.0]), stamp, stamp)
        reason = core.advance(stamp)
    np.testing.assert_allclose(reason.estimate.external_torque, PUSH, atol=0.1)


def test_bodies_of_the_file_replace_those_of_the_description(tmp_path):
    """The same functions use the numbers of the file."""
    body = "{mass: 2, com: [0.1, 0, 0], inertia: {ixx: 1, ixy: 0, ixz: 0, iyy: 1, iyz: 0, izz: 1}}"
    plain = Served(ARM, serve_settings())
    served = Served(ARM, serve_settings(parameters_file=write_file(tmp_path, f"links: {{lower: {body}}}")))
    for one in (plain, served):
        one.receive(NAMES, [0.3, 0.4], [0.5, 0.6])
    other = dn.parse_robot(
        ARM.replace(
            '<origin xyz="0.2 0 0"/><mass value="1"/>\n<inertia ixx="0.01" ixy="0" ixz="0" iyy="0.02" iyz="0" izz="0.02"/>',
            '<origin xyz="0.1 0 0"/><mass value="2"/>\n<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/>',
        )
    )
    right = dn.evaluate(
        other, "nonlinear_effects", np.array([0.3, 0.4]), np.array([0.5, 0.6]), backend="numpy"
    )
    assert error(served.tau(), right) <= 1e-12 < error(plain.tau(), right)
