"""The equations of sensor problems: the true motion by Pinocchio satisfies every row."""

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

pytest.importorskip("pinocchio", reason="the oracle: pip install pin")

from robots import ROBOTS, random_states
from sensor_truth import Truth, sensor_problem_of, tips
from tolerances import EXACT

import dynamics_node as dn
from dynamics_node.graph.sensor_system import sensor_system, sensor_values
from dynamics_node.robot import load_robot
from dynamics_node.robot import sensors as s
from dynamics_node.symbolic import trace

TREES = ("panda", "ur5", "baxter", "solo12", "simple_humanoid", "talos")
XYZ, RPY = (0.03, -0.05, 0.11), (0.4, -0.7, 1.9)


def all_sensors(model):
    """A sensor of every kind at every possible joint and link."""
    foot = tips(model)[-1]
    for k, body in enumerate(model.bodies):
        joint, link = body.joint, body.name
        measures = ("parent_to_child", "child_to_parent")[k % 2]
        if joint.masters is None and not joint.type.is_free:
            yield s.JointTorque(joint.name, std=0.1)
        yield s.JointAcceleration(joint.name, std=0.0 if body.parent < 0 else 0.2)
        std = (0.1, 0.1, 0.1, 2.0, 2.0, 0.0)
        yield s.ForceTorque(joint.name, measures=measures, std=std, xyz=XYZ, rpy=RPY)
        yield s.Accelerometer(link, std=0.1, xyz=XYZ, rpy=RPY)
        yield s.AngularAcceleration(link, std=0.1, rpy=RPY)
        yield s.Gyro(link, std=0.1, rpy=RPY)
        yield s.Imu(link, covariance=np.diag([1e-4] * 3 + [1e-2] * 3), xyz=RPY, rpy=XYZ)
    yield dn.Contact(foot, "surface", xyz=XYZ, rpy=RPY)
    yield s.ExternalWrench(foot, rows=("mz", "fx", "fz"), std=1.0, xyz=XYZ, rpy=RPY)
    yield s.ExternalWrench(foot, std=3.0, rpy=XYZ, name="again")
    yield s.ExternalWrench(foot, rows=("mx", "my"), std=0.0, value=0.0, xyz=XYZ, rpy=RPY, name="no moment")
    yield dn.Contact(model.bodies[0].name, "surface", xyz=RPY)


def truths(name, count=3):
    model = ROBOTS[name].model()
    q, qd, qdd, _ = random_states(model, count, seed=5)
    random = np.random.default_rng(6)
    foot, root = tips(model)[-1], model.bodies[0].name
    for k in range(count):
        w = random.uniform(-20, 20, (2, 6))
        w[0, :2] = 0.0
        yield Truth(
            ROBOTS[name], model, q[k], qd[k], qdd[k], [(foot, XYZ, RPY, w[0]), (root, XYZ, RPY, w[1])]
        )


def relative_residual(factor, values):
    terms = [block @ values[x] for x, block in factor.blocks.items()]
    size = sum((np.abs(term) for term in terms), np.abs(factor.rhs)).max()
    return np.abs(factor.given(values).rhs).max() / max(1.0, size)


@pytest.mark.parametrize("name", TREES)
def test_true_motion_satisfies_every_row(name):
    for truth in truths(name):
        problem = sensor_problem_of(truth.model, all_sensors(truth.model))
        q, qd, _ = truth.state
        system = sensor_system(truth.model, problem, q, qd, truth.readings(problem))
        values = truth.values(problem)
        for factor in (*system.exact, *system.noisy):
            assert relative_residual(factor, values) <= EXACT, factor
        assert [len(c) for c in system.covariances] == [factor.rows for factor in system.noisy]
        labels = [*system.labels, *system.exact_labels.values()]
        assert sum(map(len, labels)) == sum(map(len, problem.labels))


@pytest.mark.parametrize("name", TREES)
def test_results_follow_from_the_variables(name):
    truth = next(truths(name, 1))
    problem = sensor_problem_of(truth.model, all_sensors(truth.model))
    system = sensor_system(truth.model, problem, *truth.state[:2], truth.readings(problem))
    qdd, tau, f_ext = sensor_values(truth.model, system, truth.values(problem))
    free = [body.joint.v for body in truth.model.bodies if body.joint.type.is_free]
    driven = np.delete(np.arange(truth.model.nv), [k for v in free for k in range(truth.model.nv)[v]])
    np.testing.assert_allclose(qdd, truth.state[2])
    np.testing.assert_allclose(tau[driven], truth.tau[driven])
    np.testing.assert_allclose(f_ext, truth.f_ext, atol=1e-12)


@pytest.mark.parametrize("name", ["panda", "solo12"])
def test_batch_has_the_rows_of_its_states(name):
    together = list(truths(name))
    model = together[0].model
    problem = sensor_problem_of(model, all_sensors(model))
    q, qd = (np.stack([truth.state[k] for truth in together]) for k in (0, 1))
    readings = np.stack([truth.readings(problem) for truth in together])
    system = sensor_system(model, problem, q, qd, readings)
    for k in range(len(together)):
        one = sensor_system(model, problem, q[k], qd[k], readings[k])
        for factor, its in zip((*system.exact, *system.noisy), (*one.exact, *one.noisy), strict=True):
            rhs = np.broadcast_to(factor.rhs, (len(together), factor.rows))
            np.testing.assert_allclose(rhs[k], its.rhs, atol=1e-12)
            for x, block in its.blocks.items():
                whole = np.broadcast_to(factor.blocks[x], (len(together), *block.shape[-2:]))
                np.testing.assert_allclose(whole[k], block, atol=1e-12)


@pytest.mark.parametrize("name", ["panda", "solo12"])
def test_symbols_give_the_same_rows(name):
    truth = next(truths(name, 1))
    model, (q, qd, _) = truth.model, truth.state
    problem = sensor_problem_of(model, all_sensors(model))
    readings = truth.readings(problem)

    def rows(q, qd, readings, gravity):
        system = sensor_system(model, problem, q, qd, readings, gravity)
        parts = [np.concatenate([f.rhs for f in (*system.exact, *system.noisy)])]
        parts += [block.ravel() for f in (*system.exact, *system.noisy) for block in f.blocks.values()]
        return {"all": np.concatenate([np.asarray(array, dtype=object) for array in parts])}

    program = trace(rows, problem.reads(model))
    from dynamics_node.symbolic import interpret

    results = interpret(program, q=q, qd=qd, readings=readings, gravity=model.gravity)["all"]
    np.testing.assert_allclose(results, rows(q, qd, readings, model.gravity)["all"].astype(float), atol=1e-10)


# --- fixed joints and loops ---------------------------------------------------------------------------------

FIXED = {"panda": "panda_joint8", "solo12": "FL_ANKLE", "talos": "wrist_left_ft_joint"}


@pytest.mark.parametrize("name", FIXED)
def test_force_sensor_at_a_fixed_joint(name, tmp_path):
    """Pinocchio gives the wrench at a revolute joint at rest in place of the fixed joint."""
    fixed = ROBOTS[name]
    text = fixed.file.read_text()
    pattern = rf'(<joint [^>]*name="{FIXED[name]}"[^>]*)type="fixed"|(<joint [^>]*)type="fixed"([^>]*name="{FIXED[name]}")'
    limit = '<limit lower="-1" upper="1" effort="1" velocity="1"/>'
    text, count = re.subn(pattern, r'\1\2type="revolute"\3', text)
    head, tail = re.split(rf'(?<=name="{FIXED[name]}")|(?<=name="{FIXED[name]}" )', text, maxsplit=1)
    assert count == 1
    (tmp_path / "robot.urdf").write_text(head + tail.replace("</joint>", f"{limit}</joint>", 1))
    turning = Turning(tmp_path / "robot.urdf", fixed.floating_base)
    model, other = fixed.model(), turning.model()
    assert other.nv == model.nv + 1
    foot = tips(model)[-1]
    supports = [(foot, XYZ, RPY, range(6))]
    for q, qd, qdd, _ in zip(*random_states(model, 3, seed=8), strict=True):
        w = [(link, XYZ, RPY, np.arange(6.0)) for link in (child_of(model, FIXED[name]), foot)]
        truth = Truth(fixed, model, q, qd, qdd, w, supports)
        spread = [np.insert(x, places(other, model, of), 0.0) for x, of in ((q, "q"), (qd, "v"), (qdd, "v"))]
        there = Truth(turning, other, *spread, w, supports)
        pose = {"xyz": XYZ, "rpy": RPY}
        sensors = [s.ForceTorque(FIXED[name], measures="child_to_parent", std=1.0, **pose)]
        sensors += [s.ExternalWrench(at[0], std=1.0) for at in w]
        sensors += [dn.Contact(at[0], "surface") for at in w]
        problem = sensor_problem_of(model, sensors)
        system = sensor_system(model, problem, q, qd, there.readings(sensor_problem_of(other, sensors)))
        for factor in (*system.exact, *system.noisy):
            assert relative_residual(factor, truth.values(problem)) <= EXACT, factor


class Turning(NamedTuple):
    """A robot of ROBOTS with one more movable joint."""

    file: Path
    floating_base: bool
    joints: None = None

    def model(self):
        return load_robot(self.file, floating_base=self.floating_base)


def child_of(model, fixed):
    return next(frame.name for frame in model.frames.values() if frame.fixed_joint == fixed)


def places(other, model, of):
    """The index of the additional coordinate."""
    names, own = (getattr(m, f"{of}_names") for m in (other, model))
    return next(k for k, name in enumerate(names) if name not in own)
