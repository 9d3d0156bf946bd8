"""Parameters: documented, checked, changed at run time without a gap and without a wrong torque."""

import time
from pathlib import Path

import numpy as np
import pytest
import yaml
from rcl_interfaces.srv import DescribeParameters, GetParameters, ListParameters
from rclpy.parameter import parameter_value_to_python
from rig import Rig, efforts, fresh_domain, stamp_of
from robots import ROBOTS
from tolerances import EXACT, error

from dynamics_node.node.settings import PARAMETERS

CONFIG = Path(__file__).parents[2] / "config" / "dynamics.yaml"


@pytest.fixture(scope="module")
def arm():
    made = Rig(ROBOTS["panda7"])
    made.until(lambda: "7 joints" in made.process.output())
    yield made
    made.close()


def _flat(tree, prefix=""):
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def test_config_documents_every_parameter_with_its_default():
    written = dict(_flat(yaml.safe_load(CONFIG.read_text())["/**"]["ros__parameters"]))
    table = {p.name: p.default for p in PARAMETERS}
    assert set(written) == set(table)
    for name, default in table.items():
        empty = default == [] and written[name] in ([""], [0.0], [])
        assert empty or written[name] == default, name


def test_config_file_is_accepted(rig, panda):
    r = rig(
        arguments=[
            "--ros-args",
            "--params-file",
            str(CONFIG),
            "-p",
            "joints:=[" + ",".join(panda.names) + "]",
        ]
    )
    assert error(efforts(r.answered(panda.names, panda.q, panda.qd), panda.names), panda.torque()) <= EXACT


def test_every_parameter_is_described(arm):
    names = [p.name for p in PARAMETERS]
    listed = arm.call(ListParameters, "list_parameters").result.names
    assert set(names) <= set(listed)
    answer = arm.call(DescribeParameters, "describe_parameters", DescribeParameters.Request(names=names))
    for parameter, descriptor in zip(PARAMETERS, answer.descriptors, strict=True):
        assert descriptor.description == parameter.description
        assert ("read at start only" in descriptor.additional_constraints) == parameter.read_only
        assert bool(descriptor.floating_point_range) == bool(parameter.bounds)
        assert not descriptor.dynamic_typing


REJECTED = {
    "out of range": ({"rate": -5.0}, ""),
    "huge timeout": ({"joint_state_timeout": 1e9}, ""),
    "NaN gravity": ({"gravity": [0.0, 0.0, float("nan")]}, "gravity has an entry that is not finite"),
    "short gravity": ({"gravity": [0.0, 0.0]}, "gravity needs 3 numbers, not 2"),
    "wrong type": ({"gravity": "down"}, ""),
    "unknown problem": ({"problem": "sideways"}, "problem 'sideways' is none of inverse, forward, hybrid"),
    "unknown solver": ({"solver": "magic"}, "solver 'magic' is none of"),
    "no such pair": ({"solver": "cluster", "backend": "gtsam"}, "valid: best with auto|numpy|c"),
    "no such ordering": ({"solver": "factor_graph", "ordering": "alphabetical"}, "ordering 'alphabetical'"),
    "ordering of nothing": ({"ordering": "aba"}, "has no orderings"),
    "custom without": ({"solver": "factor_graph", "ordering": "custom"}, "go together"),
    "hybrid without": ({"problem": "hybrid"}, "problem hybrid needs forward_joints"),
    "hybrid unknown": ({"problem": "hybrid", "forward_joints": ["knee"]}, "forward joint 'knee' is unknown"),
    "compensate": ({"problem": "forward", "compensate__gravity": False}, "compensate.* can be switched off"),
    "commands": ({"command_joints": ["knee"]}, "command_joints: 'knee' is none of panda_joint1"),
    "commands twice": ({"command_joints": ["panda_joint1"] * 2}, "command_joints names a joint twice"),
    "tips": ({"tip_links": ["nose"]}, "tip_links: the robot has no link 'nose'"),
    "limits": ({"effort_limits": "list", "effort_limits_list": [1.0]}, "effort_limits_list has 1 entries"),
    "negative limits": ({"effort_limits_list": [-1.0] * 7}, "must not be negative"),
    "held": ({"held__joints": ["panda_joint1"]}, "held.joints and held.positions differ in length"),
    "armature": ({"armature__joints": ["panda_joint1"]}, "armature.joints and armature.values differ"),
    "read only": ({"autostart": False}, ""),
}


@pytest.mark.parametrize("kind", REJECTED)
def test_bad_values_are_rejected_and_the_old_ones_stay(arm, panda, kind):
    values, words = REJECTED[kind]
    ok, reason = arm.set_parameters(**values)
    assert not ok and reason
    assert words in reason, reason
    for name, value in values.items():
        request = GetParameters.Request(names=[name.replace("__", ".")])
        stored = arm.call(GetParameters, "get_parameters", request).values  # empty: never set
        assert [value] != [parameter_value_to_python(v) for v in stored], name
    assert error(efforts(arm.answered(panda.names, panda.q, panda.qd), panda.names), panda.torque()) <= EXACT


BAD_STARTS = {
    "problem:=sideways": "problem 'sideways' is none of inverse, forward, hybrid",
    "rate:=20000": "rate 20000.0 is not between 0 and 10000",
    "gravity:=[0, 0, -9.81]": "Sequence should be of same type",  # rcl's own
}


def test_bad_start_parameters_end_the_node_with_one_line():
    from rig import NodeProcess

    started = {given: NodeProcess(fresh_domain(), arguments=["-p", given]) for given in BAD_STARTS}
    for given, process in started.items():
        assert process.process.wait(timeout=60) == 1
        *logged, line = process.output().splitlines()
        assert line.startswith("dynamics_node: ") and BAD_STARTS[given] in line
        assert all("[rcl]" in words for words in logged), logged


SWITCHES = [
    {"solver": "factor_graph", "ordering": "rnea"},
    {"ordering": "colamd"},
    {"ordering": "metis"},
    {"gravity": [1.0, 0.5, -9.0]},
    {"ordering": "minimum_degree"},
    {"ordering": "best"},
    {"gravity": [0.0, 0.0, -9.81]},
    {"solver": "cluster"},
    {"backend": "numpy"},
    {"solver": "best", "backend": "auto"},
]


def test_switching_at_run_time_is_never_silent_and_gives_no_wrong_torque(rig, panda):
    """At 200 Hz: every torque is right for its own input and the old or the new gravity."""
    r = rig(parameters={"joint_state_timeout": 5.0})
    r.answered(panda.names, panda.q, panda.qd)
    sent, received, gravities = {}, [], [np.array([0, 0, -9.81])]
    random = np.random.default_rng(6)

    def stream(seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            q = panda.q + random.uniform(-0.3, 0.3, 7)
            sent[r.send_state(panda.names, q, panda.qd)] = q
            r.spin(0.005)

    stream(0.3)
    r.torque_log.clear()
    for switch in SWITCHES * 2:
        assert r.set_parameters(**switch)[0]
        if "gravity" in switch:
            gravities.append(np.array(switch["gravity"]))
        stream(0.8)
    received = [(stamp_of(m), efforts(m, panda.names)) for m in r.torque_log]
    assert len(received) > 0.5 * len(sent)
    import pinocchio

    for stamp, tau in received:
        errors = []
        for gravity in gravities:
            panda.oracle.pin.gravity = pinocchio.Motion(gravity, np.zeros(3))
            errors.append(error(tau, panda.torque(q=sent[stamp])))
        assert min(errors) <= EXACT
    panda.oracle.pin.gravity = pinocchio.Motion(np.array([0, 0, -9.81]), np.zeros(3))
    _, values, _ = r.diagnostic()
    assert values["solver"] == "cluster" and int(values["silent"]) == 0


def test_solver_is_named_in_diagnostics(arm):
    assert arm.set_parameters(solver="factor_graph", ordering="colamd")[0]
    _, values, _ = arm.diagnostic(lambda s: ("algorithm", "colamd") in {(v.key, v.value) for v in s.values})
    assert (values["solver"], values["problem"]) == ("factor_graph", "inverse")
    assert arm.set_parameters(solver="best", ordering="best")[0]
    arm.diagnostic(lambda s: ("algorithm", "rnea") in {(v.key, v.value) for v in s.values})


def test_compiled_code_takes_over_from_numpy(rig, panda):
    """The node serves with numpy at once and swaps the compiled solver in."""
    r = rig()
    assert error(efforts(r.answered(panda.names, panda.q, panda.qd), panda.names), panda.torque()) <= EXACT
    r.diagnostic(lambda s: ("backend", "c") in {(v.key, v.value) for v in s.values}, timeout=30)
    assert error(efforts(r.answered(panda.names, panda.q, panda.qd), panda.names), panda.torque()) <= EXACT
    r.diagnostic(lambda s: ("building", "False") in {(v.key, v.value) for v in s.values}, timeout=30)
    output = r.process.output()  # the services follow the topics, without another line
    assert output.count("by rnea (numpy)") == output.count("by rnea (c)") == 1


def test_without_a_compiler_numpy_goes_on_and_the_log_says_so(rig, panda, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    r = rig()
    r.until(lambda: "no C compiler on the PATH" in r.process.output(), timeout=60, what="the log line")
    assert error(efforts(r.answered(panda.names, panda.q, panda.qd), panda.names), panda.torque()) <= EXACT
    _, values, _ = r.diagnostic()
    assert values["backend"] == "numpy" and values["description error"] == ""


def test_gtsam_backend_at_run_time(arm, panda):
    pytest.importorskip("gtsam", reason="pip install 'gtsam>=4.3'")
    assert arm.set_parameters(solver="factor_graph", ordering="colamd", backend="gtsam")[0]
    arm.diagnostic(lambda s: ("backend", "gtsam") in {(v.key, v.value) for v in s.values})
    tau = efforts(arm.answered(panda.names, panda.q, panda.qd), panda.names)
    assert error(tau, panda.torque()) <= 1e-8
    assert arm.set_parameters(solver="best", ordering="best", backend="auto")[0]


def test_problem_changes_at_run_time(arm, panda):
    assert arm.set_parameters(problem="forward")[0]
    arm.diagnostic(lambda s: ("problem", "forward") in {(v.key, v.value) for v in s.values})
    assert arm.set_parameters(problem="inverse")[0]
    assert arm.answered(panda.names, panda.q, panda.qd)


def test_armature_and_held_joints(rig, case):
    panda = case("panda7")
    held = [0.0, 0.0, 0.7]
    r = rig(
        None,
        {
            "robot_description_file": str(panda.robot.file),
            "joints": list(panda.names[:4]),
            "held.joints": list(panda.names[4:]),
            "held.positions": held,
            "armature.joints": ["panda_joint2"],
            "armature.values": [0.5],
            "joint_state_timeout": 30.0,
        },
    )
    q = np.append(panda.q[:4], held)
    still = np.zeros(7)
    tau = efforts(r.answered(panda.names[:4], q[:4], still[:4]), panda.names[:4])
    assert error(tau, panda.torque(q, still)[:4]) <= EXACT
    from dynamics_interfaces.srv import GetMassMatrix

    answer = r.call(GetMassMatrix, "get_mass_matrix")
    M = np.array(answer.mass_matrix.data).reshape(4, 4)
    expected = panda.oracle.mass_matrix(q)[:4, :4] + np.diag([0, 0.5, 0, 0])
    assert error(M, expected, tail=2) <= EXACT
