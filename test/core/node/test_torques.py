"""Computed torques: states, omitted parts and limits. Against Pinocchio."""

import re
from dataclasses import replace

import numpy as np
import pytest
from cases import case_of
from plain import MS, point, robot_settings, serve
from robots import ROBOTS
from tolerances import EXACT, error

from dynamics_node.node.building.build_job import Failure, do
from dynamics_node.node.core.consistency import check_against
from dynamics_node.node.errors import NoOutput


def test_names_in_any_order_with_unknown_joints(panda):
    served, order = serve("panda7"), np.random.default_rng(3).permutation(7)
    names = [*(panda.names[k] for k in order), "gripper_left", "gripper_right"]
    served.receive(names, [*panda.q[order], 9, 9], [*panda.qd[order], 9, 9])
    assert error(served.tau(panda.names), panda.torque()) <= EXACT
    assert served.core.joints.unknown == 2 and served.core.joints.names == panda.names


def test_partial_states_of_two_publishers(panda):
    served = serve("panda7")
    served.receive(panda.names[:4], panda.q[:4], panda.qd[:4])
    served.no_output("never seen: panda_joint5, panda_joint6, panda_joint7")
    served.receive(panda.names[4:], panda.q[4:], panda.qd[4:])
    assert error(served.tau(), panda.torque()) <= EXACT
    served.receive(panda.names[:4], panda.q[:4] + 0.1, panda.qd[:4])
    moved = panda.q + 0.1 * (np.arange(7) < 4)
    assert error(served.tau(), panda.torque(moved)) <= EXACT


def test_mimic_joints_need_not_be_measured():
    gripper, served = case_of("panda"), serve("panda")
    q = np.append(gripper.q[:7], 0.02)
    served.receive(gripper.names, q, gripper.qd)
    assert "panda_finger_joint2" not in gripper.names
    assert error(served.tau(gripper.names), gripper.torque(q=q)) <= EXACT


def test_fixed_joints_and_rotors(panda):
    """Joints are fixed at the parameter; a rotor acts at its own joint."""
    fixed = [0.0, 0.0, 0.7]
    served = serve(
        "panda7", joints=panda.names[:4], fixed__joints=panda.names[4:], fixed__positions=fixed,
        armature__joints=["panda_joint2"], armature__values=[0.5],
    )  # fmt: skip
    q, still = np.append(panda.q[:4], fixed), np.zeros(7)
    served.receive(panda.names[:4], q[:4], still[:4])
    assert error(served.tau(), panda.torque(q, still)[:4]) <= EXACT
    served.refer(panda.names[:4], point(qdd=[0, 1.0, 0, 0]))
    expected = panda.torque(q, still, 1.0 * (np.arange(7) == 1))[:4] + 0.5 * (np.arange(4) == 1)
    assert error(served.tau(), expected) <= EXACT


def test_rotors_with_gears(panda):
    served = serve(
        "panda7", armature__joints=panda.names[:2], armature__values=[2e-5, 3e-5], armature__gears=[100.0, 50.0]
    )  # fmt: skip
    served.receive(panda.names, panda.q, panda.qd)
    served.refer(panda.names, point(qdd=panda.qdd))
    rotors = np.array([0.2, 0.075, 0, 0, 0, 0, 0]) * panda.qdd
    assert error(served.tau(), panda.torque(qdd=panda.qdd) + rotors) <= EXACT


# --- omitted and added parts --------------------------------------------------------------------------------


@pytest.mark.parametrize("off", ["gravity", "coriolis", "inertia"])
def test_compensation_can_omit_a_part(panda, off):
    served, gravity = serve("panda7", **{f"compensate__{off}": False}), panda.torque(qd=0 * panda.qd)
    coriolis = panda.torque() - gravity
    inertia = panda.torque(qdd=panda.qdd) - panda.torque()
    parts = {"gravity": gravity, "coriolis": coriolis, "inertia": inertia}
    served.receive(panda.names, panda.q, panda.qd)
    served.refer(panda.names, point(qdd=panda.qdd))
    expected = sum(part for name, part in parts.items() if name != off)
    assert error(served.tau(), expected) <= EXACT


def test_friction(panda):
    served = serve("panda7", compensate__friction=True)
    served.receive(panda.names, panda.q, panda.qd)
    urdf = panda.model.damping * panda.qd + panda.model.friction * np.tanh(panda.qd / 0.01)
    assert error(served.tau(), panda.torque() + urdf) <= EXACT and np.abs(urdf).max() > 0
    names = [panda.names[1], panda.names[4]]
    served.use(friction__joints=names, friction__viscous=[2.0, 3.0], friction__coulomb=[0.5, 0.25])
    viscous, coulomb = panda.model.damping.copy(), panda.model.friction.copy()
    viscous[[1, 4]], coulomb[[1, 4]] = [2.0, 3.0], [0.5, 0.25]
    expected = panda.torque() + viscous * panda.qd + coulomb * np.tanh(panda.qd / 0.01)
    assert error(served.tau(), expected) <= EXACT
    served.use(compensate__friction=False)
    assert error(served.tau(), panda.torque()) <= EXACT


def test_torques_are_clamped_and_joints_named(panda):
    limits = [1.0, 2.0, 0.5, 100.0, 100.0, 100.0, 100.0]
    served = serve("panda7", effort_limits="list", effort_limits_list=limits)
    served.receive(panda.names, panda.q, panda.qd)
    result, expected = served.solve(), np.clip(panda.torque(), -np.array(limits), limits)
    assert error(served.published(result), expected) <= EXACT
    assert result.clamped == tuple(np.array(panda.names)[expected != panda.torque()])
    assert "panda_joint2" in result.clamped


def test_a_list_of_limits_leaves_out_mimic_joints():
    """Regression: the list was checked against all joints, and clamped those that are published."""
    limits = [0.5] * 8
    hand = serve("panda", effort_limits="list", effort_limits_list=limits)
    check_against(hand.core.settings, hand.core.unloaded)
    with pytest.raises(ValueError, match="effort_limits_list has 9 entries, the robot 8 joints"):
        check_against(replace(hand.core.settings, effort_limits_list=(0.5,) * 9), hand.core.unloaded)
    names = hand.core.joints.names
    hand.receive(names, np.zeros(8), np.zeros(8))
    assert np.abs(hand.tau()).max() == 0.5


def test_limits_of_the_urdf_or_none(panda):
    served, qd = serve("panda7"), np.array([0, 30.0, 0, 30.0, 0, 0, 30.0])  # fast: more than 87 N m
    served.receive(panda.names, panda.q, qd)
    unlimited, limits = panda.torque(qd=qd), panda.model.effort_limits
    assert np.any(np.abs(unlimited) > limits)
    assert error(served.tau(), np.clip(unlimited, -limits, limits)) <= EXACT
    served.use(effort_limits="none")
    assert error(served.tau(), unlimited) <= EXACT and served.solve().clamped == ()


def test_limits_of_a_file_depend_on_velocity_and_sign(panda, tmp_path):
    """At the velocity of the state; the tightest limit counts."""
    file, qd = tmp_path / "limits.yaml", np.array([0, 1.5, 0, 1.0, 0, 0, 9.0])
    file.write_text(
        "joint_limits:\n  panda_joint2: {max_effort: 60, max_effort_at_velocity: [[0, 80], [2, 0]]}\n"
        "  panda_joint4: {min_effort: -3.5, max_effort: 90}\n  panda_joint6: {max_effort: 0.2}\n"
        "  panda_joint7: {max_effort_at_velocity: [[0, 5], [6, 0]]}\n"
    )
    served = serve("panda7", limits_file=str(file))
    limits = panda.model.effort_limits
    for sign in (1, -1):
        served.receive(panda.names, panda.q, sign * qd)
        low, high = -limits.copy(), limits.copy()
        low[1], high[1] = (-60.0, 20.0) if sign > 0 else (-20.0, 60.0)
        low[3], low[5], high[5] = -3.5, -0.2, 0.2
        low[6], high[6] = (-5.0, 0.0) if sign > 0 else (0.0, 5.0)  # faster than without load
        unlimited = panda.torque(qd=sign * qd)
        result, expected = served.solve(), np.clip(unlimited, low, high)
        assert error(served.published(result), expected) <= EXACT
        assert result.clamped == tuple(np.array(panda.names)[expected != unlimited])
    served.use(effort_limits="list", effort_limits_list=[2.0] * 7)
    assert np.abs(served.tau()).max() == 2.0 and np.abs(served.tau()[5]) == 0.2
    served.use(effort_limits="none")
    assert error(served.tau()[1:2], np.clip(unlimited[1:2], -20, 60)) <= EXACT


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("joint_limits: {nose: {max_effort: 1}}", "limits.yaml.*nose"),
        ("joint_limits: {panda_joint1: {max_effort_at_velocity: [[0, 1], [1, 2], [2, 5]]}}", "panda_joint1"),
        ("joint_limits: {panda_joint1: {min_effort: 1}}", "limits.yaml.*panda_joint1"),
        ("nothing", "joint_limits"),
        (None, "limits.yaml"),
    ],
)
def test_wrong_files_of_limits(tmp_path, text, match):
    file = tmp_path / "limits.yaml"
    if text is not None:
        file.write_text(text)
    failure = do(robot_settings("panda7", limits_file=str(file)).job(ROBOTS["panda7"].file.read_text()))
    assert isinstance(failure, Failure) and re.search(match, failure.reason)


def test_gravity_of_the_parameter(panda):
    served = serve("panda7")
    served.receive(panda.names, panda.q, 0 * panda.qd)
    served.use(gravity=[0.0, 0.0, 0.0])
    assert np.abs(served.tau()).max() < 1e-12


def test_a_gravity_that_overflows_gives_no_output(panda):
    served = serve("panda7", on_stale="gravity")
    served.receive(panda.names, panda.q, panda.qd)
    served.core.apply(replace(served.core.settings, gravity=(-1.7e308, 0.0, -1.7e308)))
    with pytest.raises(NoOutput):
        served.core.gravity_torques()


# --- velocities ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("qd", [(), np.full(7, 0.3), np.full(7, np.nan)], ids=["empty", "given", "NaN"])
def test_velocity_zero(panda, qd):
    served = serve("panda7", velocity_source="zero")
    served.receive(panda.names, panda.q, qd)
    assert error(served.tau(), panda.torque(qd=0 * panda.qd)) <= EXACT


@pytest.mark.parametrize("qd", [(), np.full(7, np.nan)], ids=["empty", "NaN"])
def test_velocity_differentiated(panda, qd):
    served = serve("panda7", velocity_source="differentiate")
    served.receive(panda.names, panda.q, qd)
    served.no_output("two positions are needed to differentiate: panda_joint1")
    for k in range(1, 20):
        q = panda.q + 1e-2 * k * panda.qd
        served.receive(panda.names, q, qd, stamp=served.stamp + 10 * MS)
    assert error(served.tau(), panda.torque(q=q)) <= 1e-6


@pytest.mark.parametrize("qd", [(), np.full(7, np.nan)], ids=["empty", "NaN"])
def test_a_missing_velocity_gives_no_output_with_a_remedy(panda, qd):
    served = serve("panda7")
    served.receive(panda.names, panda.q, qd)
    no_output = served.no_output("no velocity in joint_states for panda_joint1, ")
    assert str(no_output).endswith("(velocity_source: message)") and not no_output.stale
    assert no_output.remedy.startswith("set velocity_source:=differentiate")


def test_an_unneeded_velocity_may_be_missing(panda):
    served = serve("panda7", compensate__coriolis=False)
    served.receive(panda.names, panda.q)
    assert error(served.tau(), panda.torque(qd=0 * panda.qd)) <= EXACT


# --- problems -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["joint_states", "reference"])
def test_forward_dynamics_of_efforts(panda, source):
    served, tau = serve("panda7", problem="forward"), np.array([5.0, -20, 3, 10, 1, 2, 0.5])
    served.receive(panda.names, panda.q, panda.qd, tau if source == "joint_states" else 0 * tau)
    if source == "reference":
        served.refer(panda.names, point(effort=tau))
    result = served.solve()
    assert error(result.qdd, panda.oracle.forward(panda.q, panda.qd, tau)) <= 1e-9
    assert error(result.tau, tau) <= EXACT


def test_forward_dynamics_without_effort_gives_no_output(panda):
    served = serve("panda7", problem="forward")
    served.receive(panda.names, panda.q, panda.qd)
    served.no_output("no effort in joint_states or reference for panda_joint1")


def test_hybrid_dynamics(panda):
    chosen = ["panda_joint2", "panda_joint6"]
    served = serve("panda7", problem="hybrid", forward_joints=chosen)
    forward, tau = np.isin(panda.names, chosen), panda.torque(qdd=panda.qdd)
    served.receive(panda.names, panda.q, panda.qd)
    served.refer(panda.names, point(qdd=np.where(forward, 0, panda.qdd), effort=np.where(forward, tau, 0)))
    result = served.solve()
    assert error(result.qdd, panda.qdd) <= 1e-9 and error(result.tau, tau) <= 1e-9


def test_a_floating_joint_away_from_the_root_gives_no_output():
    mass = "<inertial><mass value='1'/><inertia ixx='1' ixy='0' ixz='0' iyy='1' iyz='0' izz='1'/></inertial>"
    text = f"""<robot name='r'><link name='a'/><link name='b'>{mass}</link><link name='c'>{mass}</link>
    <joint name='j' type='continuous'><parent link='a'/><child link='b'/></joint>
    <joint name='loose' type='floating'><parent link='b'/><child link='c'/></joint></robot>"""
    from plain import Served, settings

    served = Served(text, settings(backend="numpy"))
    assert served.core.joints.names == ("j",)
    served.receive(["j"], [0.1], [0.1])
    served.no_output("floating joint 'loose' is not at the root")
