"""Estimates of robots with loops: against Pinocchio's tree with constraints written down by hand."""

from typing import NamedTuple

import numpy as np
import pytest

pytest.importorskip("pinocchio", reason="the oracle: pip install pin")

from linkages import palletizer, spatial, stewart
from projection import Projection
from sensor_truth import Truth
from tolerances import error
from trials import positions

import dynamics_node as dn
from dynamics_node.robot import sensors as s

ACCURATE = 1e-8  # of an estimate beside the largest entry
XYZ, RPY = (0.03, -0.05, 0.11), (0.4, -0.7, 1.9)


class File(NamedTuple):
    """A robot as of ROBOTS."""

    file: object
    floating_base: bool
    joints: None = None


def moving(make, folder, seed=3, **more):
    """(Robot, Projection, Truth of its tree, independent q, qd, qdd) of a linkage near home."""
    linkage = make(np.random.default_rng(seed), **more)._replace(floating_base=False)
    mechanism = dn.parse_robot(linkage.text, floating_base=linkage.floating_base)
    (folder / "robot.urdf").write_text(linkage.text)
    reference, random = Projection(linkage, mechanism), np.random.default_rng(5)
    q = list(positions(linkage, mechanism, random))[-1]
    assert np.isfinite(q).all()
    qd, qdd = random.uniform(-1, 1, (2, mechanism.nv))
    spread = reference.spread(q, qd)
    rates, changes = spread.G @ qd, spread.G @ qdd + spread.g
    file = File(folder / "robot.urdf", linkage.floating_base)
    truth = Truth(file, mechanism.tree, q, rates, changes)
    return mechanism, reference, truth, (q, qd, qdd)


LINKAGES = {
    "palletizer": (palletizer, {}),
    "stewart": (stewart, {}),
    "universal": (spatial, {"kinds": ["universal"], "seed": 4}),
    "rod": (spatial, {"kinds": ["rod"], "seed": 1}),
}


@pytest.mark.parametrize("name", LINKAGES)
def test_exact_readings_give_the_motion_back(name, tmp_path):
    make, more = LINKAGES[name]
    mechanism, reference, truth, (q, qd, qdd) = moving(make, tmp_path, **more)
    tau = reference.torques(q, qd, qdd)
    last = mechanism.bodies[-1].name
    sensors = [
        s.JointTorque(joint.name, std=0.1) for joint in mechanism.independent_joints if joint.type.is_scalar
    ]
    sensors += [s.JointAcceleration(body.joint.name, std=0.5) for body in mechanism.bodies]
    sensors += [s.Imu(last, std=0.01, xyz=XYZ, rpy=RPY)]
    problem = dn.sensor_problem(mechanism, sensors, ["tau"])
    estimator = dn.build(mechanism, problem, backend="numpy")
    own = {f"{joint.name} torque": tau[joint.v] for joint in mechanism.independent_joints}
    by_name = {x.name: own.get(x.name) if x.name in own else truth.reading(x) for x in sensors}
    found = estimator(q, qd, by_name)
    assert error(found.qdd, qdd) <= ACCURATE
    assert error(found.tau, tau) <= ACCURATE
    assert found.chi_square <= 1e-9
    assert estimator.degrees_of_freedom > 0
    less = dn.sensor_problem(mechanism, [x for x in sensors if not isinstance(x, s.JointTorque)])
    again = dn.build(mechanism, less, backend="numpy")(
        q, qd, {k: v for k, v in by_name.items() if "torque" not in k}
    )
    assert error(again.tau, tau) <= ACCURATE


def test_a_floating_base_that_is_held(tmp_path):
    """What holds it is read, or follows from torques and accelerations."""
    linkage = palletizer(np.random.default_rng(3))._replace(floating_base=True)
    mechanism = dn.parse_robot(linkage.text, floating_base=True)
    reference, random = Projection(linkage, mechanism), np.random.default_rng(5)
    q = list(positions(linkage, mechanism, random))[-1]
    qd, qdd = random.uniform(-1, 1, (2, mechanism.nv))
    tau = reference.torques(q, qd, qdd)
    root, base = mechanism.bodies[0].name, slice(0, 6)
    motors = [s.JointTorque(name, std=0.1) for name in mechanism.joint_names]
    held = s.ExternalWrench(root, std=0.5)
    moving = [s.JointAcceleration(joint.name, std=0.1) for joint in mechanism.independent_joints]
    readings = {x.name: tau[6 + k] for k, x in enumerate(motors)} | {held.name: tau[base]}
    readings |= {x.name: qdd[joint.v] for x, joint in zip(moving, mechanism.independent_joints, strict=True)}
    for sensors in (
        [*motors, held],
        [*moving, s.ExternalWrench(root, rows="unknown")],
        [*motors, *moving, held],
    ):
        problem = dn.sensor_problem(mechanism, sensors)
        given = {x.name: readings[x.name] for x, at in zip(sensors, problem.labels, strict=True) if at}
        found = dn.build(mechanism, problem, backend="numpy")(q, qd, given)
        assert error(found.qdd, qdd) <= ACCURATE
        assert error(found.tau, np.append(np.zeros(6), tau[6:])) <= ACCURATE
        assert error(found.f_ext[0], tau[base]) <= ACCURATE


def test_open_loops_have_no_result(tmp_path):
    mechanism, _, _, (q, qd, _) = moving(palletizer, tmp_path)
    problem = dn.sensor_problem(
        mechanism, [s.JointAcceleration(joint.name, std=0.1) for joint in mechanism.independent_joints]
    )
    estimator = dn.build(mechanism, problem, backend="numpy")
    ajar = q + 0.01
    with pytest.raises(dn.SolutionError, match="open|closed"):
        estimator(ajar, qd, np.zeros(len(problem.readings)))
    found = estimator(np.stack([q, ajar]), qd, np.zeros(len(problem.readings)), errors="nan")
    assert np.isfinite(found.tau[0]).all() and np.isnan(found.tau[1]).all()


def test_a_force_sensor_where_a_loop_ends_on_either_side_is_refused():
    text = """<robot name="r"><link name="base"/>{}
    <loop name="tie" type="revolute"><predecessor link="base"><origin xyz="1 0 0"/></predecessor>
    <successor link="c"><origin xyz="1 0 0"/></successor><axis xyz="0 0 1"/></loop></robot>"""
    inertial = (
        '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    )
    parts = []
    for k, (name, parent, kind) in enumerate(
        [("a", "base", "revolute"), ("b", "a", "revolute"), ("c", "b", "revolute"), ("d", "c", "fixed")]
    ):
        parts.append(
            f'<link name="{name}">{inertial}</link><joint name="j{name}" type="{kind}"><parent link="{parent}"/>'
            f'<child link="{name}"/><origin xyz="{0.2 + 0.3 * k} 0.1 0"/><axis xyz="0 0 1"/>'
            '<limit lower="-1" upper="1" effort="1" velocity="1"/></joint>'
        )
    mechanism = dn.parse_robot(text.format("".join(parts)))
    with pytest.raises(
        dn.SensorError, match="'jd force torque': loop 'tie' ends at a link that is fixed to both sides"
    ):
        dn.sensor_problem(mechanism, [s.ForceTorque("jd", measures="parent_to_child", std=1)])
    dn.sensor_problem(mechanism, [s.ForceTorque("jb", measures="parent_to_child", std=1)])
