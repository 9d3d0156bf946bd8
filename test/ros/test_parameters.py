"""Parameters through the services of ROS. For validation and effects, see test/core/node/test_settings and
test_robot_manager; for torques during changes, test_switching."""

import re

import pytest
from domains import fresh_domain
from plain import extremes
from rcl_interfaces.srv import DescribeParameters, GetParameters, ListParameters
from rclpy.parameter import parameter_value_to_python
from rig import NodeProcess, efforts
from tolerances import EXACT, error

from dynamics_node.node.core.settings import PARAMETERS


def test_every_parameter_is_described(arm):
    names = [p.name for p in PARAMETERS]
    listed = arm.ask(ListParameters).result.names
    assert set(names) <= set(listed)
    answer = arm.ask(DescribeParameters, names=names)
    for parameter, descriptor in zip(PARAMETERS, answer.descriptors, strict=True):
        assert descriptor.description == parameter.description
        assert ("can be set only at start" in descriptor.additional_constraints) == parameter.read_only
        assert bool(descriptor.floating_point_range) == bool(parameter.bounds)
        assert not descriptor.dynamic_typing


REJECTED = {
    "of its own": ({"gravity": [0.0, 0.0]}, "gravity needs 3 numbers, not 2"),
    "of its type": ({"gravity": "down"}, ""),
    "out of range": ({"rate": -5.0}, ""),
    "divided by": ({"rate": 1e-12}, "rate must be between 0.01 and 10000 or 0, not 1e-12"),
    "with others": ({"fixed__joints": ["panda_joint1"]}, "fixed.joints and fixed.positions differ in length"),
    "with the robot": (
        {"command_joints": ["knee"]},
        "command_joints: unknown joint 'knee'; known: panda_joint1",
    ),
    "read only": ({"autostart": False}, ""),
}


@pytest.mark.parametrize("kind", REJECTED)
def test_invalid_values_are_rejected_and_the_old_ones_kept(arm, panda, kind):
    values, expected = REJECTED[kind]
    ok, reason = arm.set_parameters(**values)
    assert not ok and reason
    assert expected in reason, reason
    for name, value in values.items():
        stored = arm.ask(GetParameters, names=[name.replace("__", ".")]).values  # empty: never set
        assert [value] != [parameter_value_to_python(v) for v in stored], name
    assert error(efforts(arm.answered(panda.names, panda.q, panda.qd), panda.names), panda.torque()) <= EXACT


EVERYTHING = {  # that numbers are for
    "on_stale": "gravity",
    "wrench_sensor.name": "wrist",
    "observer.enabled": True,
    "observer.link": "panda_hand",
    "payload_estimation.link": "panda_hand",
    "velocity_source": "filter",
    "compensate.friction": True,
    "friction.joints": ["panda_joint1"],
    "friction.viscous": [1.0],
    "friction.coulomb": [1.0],
    "armature.joints": ["panda_joint1"],
    "armature.values": [0.1],
    "armature.gears": [1.0],
}


def test_extreme_values_do_not_stop_the_torques(rig, panda, tmp_path):
    """Each value is rejected, or accepted without an error; torques continue."""
    wrist = "{type: force_torque, name: wrist, joint: panda_hand_joint, measures: child_to_parent, std: 0.1}"
    (tmp_path / "sensors.yaml").write_text(f"sensors: [{wrist}]")
    r = rig(parameters=EVERYTHING | {"sensors_file": str(tmp_path / "sensors.yaml")})
    tau = efforts(r.answered(panda.names, panda.q, panda.qd, panda.qd), panda.names)
    names = [parameter.name for parameter in PARAMETERS]
    stored = map(parameter_value_to_python, r.ask(GetParameters, names=names).values)
    defaults = dict(zip(names, stored, strict=True))
    for name, value in extremes(PARAMETERS):
        dotted = name.replace(".", "__")
        ok, reason = r.set_parameters(**{dotted: value})
        assert ok or reason, (name, value)
        if ok:
            before = list(defaults[name]) if isinstance(value, list) else defaults[name]
            assert r.set_parameters(**{dotted: before})[0], name
    after = efforts(r.answered(panda.names, panda.q, panda.qd, panda.qd), panda.names)
    assert error(after, tau) <= EXACT
    assert not [word for word in ("Error", "Warning", "error") if word in r.process.output()], (
        r.process.output()
    )


BAD_STARTS = {
    "problem:=sideways": "problem must be one of inverse, forward, hybrid",
    "rate:=20000": "rate must be between 0.01 and 10000 or 0, not 20000.0",
    "gravity:=[0, 0, -9.81]": "Sequence should be of same type",  # an error of rcl
}


def test_invalid_start_parameters_end_the_node_with_one_line():
    started = {given: NodeProcess(fresh_domain(), arguments=["-p", given]) for given in BAD_STARTS}
    for given, process in started.items():
        assert process.process.wait(timeout=120) == 1
        *logged, line = process.output().splitlines()
        assert line.startswith("dynamics_node: ") and BAD_STARTS[given] in line
        assert all("[rcl]" in text for text in logged), logged


def test_compiled_code_replaces_numpy(rig, panda, monkeypatch):
    """The node starts with NumPy and swaps in the compiled solver."""
    monkeypatch.delenv("CC")
    r = rig(parameters={"backend": "auto"})
    assert error(efforts(r.answered(panda.names, panda.q, panda.qd), panda.names), panda.torque()) <= EXACT
    r.diagnostic(lambda s: ("backend", "c") in {(v.key, v.value) for v in s.values})
    assert error(efforts(r.answered(panda.names, panda.q, panda.qd), panda.names), panda.torque()) <= EXACT
    r.diagnostic(lambda s: ("building", "False") in {(v.key, v.value) for v in s.values})
    output = r.process.output()  # functions of services follow without a log line
    assert output.count("by rnea (numpy)") == output.count("by rnea (c)") == 1


def test_an_ordering_is_chosen_by_one_parameter(arm, panda):
    """As `ros2 param set` does it: a list of variables, lists with errors, and back."""
    arm.answered(panda.names, panda.q, panda.qd)
    bodies = range(len(panda.names), 0, -1)
    order = [*(f"A{k}" for k in bodies), *(f"F{k}" for k in bodies), *(f"tau{k}" for k in bodies)]
    for bad, reason in (
        (["A99", *order], "ordering.*unknown A99"),
        (order[:-1], "ordering.*leaves out"),
    ):
        accepted, answer = arm.set_parameters(ordering=",".join(bad))
        assert not accepted and re.search(reason, answer), answer
    assert arm.set_parameters(ordering=",".join(order))[0]
    arm.diagnostic(lambda s: ("algorithm", "custom") in {(v.key, v.value) for v in s.values})
    tau = efforts(arm.answered(panda.names, panda.q, panda.qd), panda.names)
    assert error(tau, panda.torque()) <= 1e-8
    assert arm.set_parameters(ordering="best")[0]
    arm.diagnostic(lambda s: ("algorithm", "rnea") in {(v.key, v.value) for v in s.values})


def test_gtsam_backend_at_run_time(arm, panda):
    pytest.importorskip("gtsam", reason="pip install 'gtsam>=4.3'")
    assert arm.set_parameters(solver="factor_graph", ordering="colamd", backend="gtsam")[0]
    arm.diagnostic(lambda s: ("backend", "gtsam") in {(v.key, v.value) for v in s.values})
    tau = efforts(arm.answered(panda.names, panda.q, panda.qd), panda.names)
    assert error(tau, panda.torque()) <= 1e-8
    assert arm.set_parameters(solver="best", ordering="best", backend="numpy")[0]
