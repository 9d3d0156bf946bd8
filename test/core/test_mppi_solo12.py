"""The example of a Solo12 that climbs a step: parts of it with few samples, and its exit code."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from robots import data_folder

import dynamics_node as dn

mujoco = pytest.importorskip(
    "mujoco", minversion="3.2", reason="the world of the example: pip install mujoco"
)
EXAMPLE = Path(__file__).parents[2] / "examples" / "mppi_solo12.py"


@pytest.fixture(scope="module")
def example():
    data_folder()  # skips without the robots
    return runpy.run_path(str(EXAMPLE))


def test_feet_of_the_gait_swing_two_by_two(example):
    robot, count = dn.example_robot("solo12"), round(example["PERIOD"] / example["DT"])
    q = np.tile(robot.neutral(), (count, 1))
    q[:, 7:] = example["gait"](0, 0.0, 0.3)[:count]
    feet = dn.evaluate(robot, "frame_poses", q, links=list(example["FEET"]), backend="numpy").positions
    lift = feet[..., 2] + example["HEIGHT"]
    assert np.allclose(lift[:, [0, 1]], lift[:, [3, 2]], rtol=0, atol=1e-9)
    assert (np.abs(lift[:, :2]).min(axis=1) < 1e-9).all()  # a pair is on the ground
    assert lift.max() == pytest.approx(example["LIFT"], rel=0.01)
    stands = (lift[:-1, 0] < 1e-9) & (lift[1:, 0] < 1e-9)
    assert np.allclose(np.diff(feet[:, 0, 0])[stands], -0.3 * example["DT"], rtol=0, atol=1e-3)


def test_the_ground_is_the_box(example):
    edge, step, x = example["EDGE"], example["STEP"], np.array([-0.2, 0.5, 0.7, 2.0])
    assert np.allclose(example["ground"](x, 0.0), np.where(x > edge, step, 0.0), rtol=0, atol=1e-4)


def test_it_sets_out(example):
    """0.6 s with 64 samples."""
    robot = dn.example_robot("solo12")
    path, samples, durations = example["run"](
        example["Planner"](robot, samples=64), example["World"](robot), 0.6
    )
    assert path.shape == (31, robot.nq) and durations.shape == (30, 2)
    assert samples[0].shape == (60, example["STEPS"] + 1, 3)
    assert not example["fallen"](path[-1])
    assert 0.05 < path[-1, 0] < 0.3 and abs(path[-1, 1]) < 0.1


def test_without_the_goal_the_exit_code_is_1(example, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("MPLBACKEND", "agg")
    main = example["main"]
    monkeypatch.setitem(main.__globals__, "SECONDS", 0.1)
    assert main(tmp_path / "page.html") == 1
    assert (tmp_path / "page.html").stat().st_size > 1e5
    assert "cm from the goal" in capsys.readouterr().out
