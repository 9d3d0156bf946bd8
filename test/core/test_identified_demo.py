"""The demo of identification: MuJoCo simulates the robot of truth.urdf, and the demo can fail."""

import itertools

import numpy as np
import pytest

pytest.importorskip("mujoco", minversion="3.2", reason="the arm of the demo: pip install mujoco")
pytest.importorskip("rosbags", reason="recordings: pip install rosbags")
pytest.importorskip("matplotlib", reason="the demo's plot: pip install matplotlib")
pytest.importorskip("pinocchio", reason="the robots: pip install example-robot-data")

import dynamics_node as dn
from dynamics_demo import identified as demo
from dynamics_demo import recorded_arm
from dynamics_demo.panda import NO_NOISE, PANDA_JOINTS, SimulatedArm, description
from dynamics_demo.recorded_arm import STEP, motion_of_file, wandering
from dynamics_node.io import read_table


@pytest.mark.long
def test_demo_passes_and_draws(tmp_path, capsys):
    plot = tmp_path / "identified.png"
    assert demo.main(seconds=8.0, plot=str(plot)) == 0
    output = capsys.readouterr().out
    assert "69 base parameters" in output and "demo: passed" in output
    assert plot.stat().st_size > 10_000


def test_demo_fails_without_an_improvement():
    random = np.random.default_rng(0)
    measured = random.normal(size=(500, 7))
    zeros = np.zeros((500, 7))
    comparison = demo.Compared(np.arange(500.0), measured, zeros, zeros, measured - 0.2)
    problems = list(demo.shortcomings(comparison))
    assert [problem.split(":")[0] for problem in problems] == [*PANDA_JOINTS, "the description is no worse"]


def test_simulated_torques_are_those_of_truth_urdf(tmp_path):
    """Without noise, while a joint moves, including rotors and friction."""
    text = recorded_arm.truth(description())
    arm = SimulatedArm(text, wandering(3), STEP, NO_NOISE, 0, recorded_arm.GAINS, recorded_arm.ROTORS)
    samples = [arm.sample(), *(arm.step() for _ in range(4000))]
    (tmp_path / "truth.urdf").write_text(text, encoding="utf-8")
    parameters = demo.true_parameters(tmp_path / "panda.urdf")
    linear = dn.RegressorModel(dn.parse_robot(description()), demo.TERMS)
    errors = []
    for sample, after in list(itertools.pairwise(samples))[1000::50]:
        torque = linear.matrix(sample.q, sample.qd, (after.qd - sample.qd) / STEP) @ parameters
        errors.append(np.where(np.abs(sample.qd) > 0.1, sample.tau - torque, 0.0))
    errors = np.array(errors)
    assert (errors != 0).sum() > 100
    assert np.abs(errors).max() <= 0.02


def test_bag_contains_the_samples(tmp_path):
    samples = list(recorded_arm.samples(wandering(1), 5, seconds=0.2))
    recorded_arm.write_bag(tmp_path / "bag", samples)
    table = read_table(tmp_path / "bag", dn.parse_robot(description()), ("q", "qd", "tau"))
    for kind in ("q", "qd", "tau"):
        assert np.array_equal(table[kind], [getattr(sample, kind) for sample in samples])
    assert table["time"] - table["time"][0] == pytest.approx(0.002 * np.arange(100), abs=1e-6)


def test_trajectory_repeats(tmp_path):
    path = tmp_path / "trajectory.yaml"
    rows = [
        ([0.0] * 7, [0.0] * 7, [0.0] * 7),
        ([0.5] * 7, [0.1] * 7, [0.0] * 7),
        ([0.0] * 7, [0.0] * 7, [0.0] * 7),
    ]
    points = [
        f"- {{positions: {q}, velocities: {qd}, accelerations: {qdd}, time_from_start: {{sec: {k}, nanosec: 0}}}}"
        for k, (q, qd, qdd) in enumerate(rows)
    ]
    names = list(PANDA_JOINTS)
    path.write_text("\n".join([f"joint_names: {names}", "points:", *points]))
    motion = motion_of_file(path)
    for t in (1.0, 3.0):
        assert np.allclose(motion(t), ([0.5] * 7, [0.1] * 7, [0.0] * 7), atol=1e-12)
    path.write_text("\n".join([f"joint_names: {names[1:]}", "points:", *points]))
    with pytest.raises(ValueError, match="panda_joint1"):
        motion_of_file(path)
