"""The arm of the tracking demo: MuJoCo has the friction of the URDF, and PD with Pinocchio's torques tracks the path."""

import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("mujoco", minversion="3.2", reason="the arm: pip install mujoco")
pytest.importorskip("pinocchio", reason="the robots: pip install example-robot-data")

from robots import PANDA_JOINTS

import dynamics_node as dn
from dynamics_demo.oracles import ArmOracle
from dynamics_demo.tracked_arm import (
    CYCLE,
    DAMPING,
    FRICTION,
    PAYLOAD,
    ROTORS,
    TrackedArm,
    Trajectory,
    described,
    feedback,
)


@pytest.fixture(scope="module")
def oracle():
    return ArmOracle(described(), PANDA_JOINTS, ROTORS, PAYLOAD)


def test_mujoco_has_the_described_friction():
    arm, model = TrackedArm(described()).model, dn.parse_robot(described())
    at = [arm.joint(name).dofadr[0] for name in PANDA_JOINTS]
    for mujoco, own, stated in (
        (arm.dof_damping, model.damping, DAMPING),
        (arm.dof_frictionloss, model.friction, FRICTION),
    ):
        assert tuple(mujoco[at]) == tuple(own) == stated
    assert arm.nv == 7 and tuple(arm.dof_armature[at]) == ROTORS


def test_trajectory_is_within_limits_and_starts_at_rest(oracle):
    trajectory, model = Trajectory.lasting(6.0), dn.parse_robot(described())
    q, qd, qdd = np.moveaxis(trajectory.points, 1, 0)
    assert not qd[0].any() and not qdd[0].any()
    limits = [joint.limits for joint in model.independent_joints]
    for k, limit in enumerate(limits):
        assert limit.lower < q[:, k].min() and q[:, k].max() < limit.upper
        assert np.abs(qd[:, k]).max() < limit.velocity
    tau = np.stack([oracle.torques(*point) for point in trajectory.points])
    assert (np.abs(tau) < model.effort_limits).all()


def test_interpolated_rates_match_the_motion():
    """Within interpolation errors: cubic for positions, linear for the rest."""
    trajectory, h = Trajectory.lasting(6.0), 1e-4
    for t in (0.313, 2.718, 5.003):
        (before, _), (q, qd), (after, _) = (trajectory.smooth(at) for at in (t - h, t, t + h))
        linear = trajectory.linear(t)
        assert np.abs((after - before) / (2 * h) - qd).max() <= 1e-5
        assert np.abs(linear[0] - q).max() <= 1e-4 and np.abs(linear[1] - qd).max() <= 1e-3
        assert np.abs((after - 2 * q + before) / h**2 - linear[2]).max() <= 2e-2


def test_torques_of_pinocchio_track_the_trajectory(oracle):
    """The torques are one cycle late, like those of the node."""
    arm, trajectory = TrackedArm(described()), Trajectory.lasting(3.0)
    tau = oracle.torques(*trajectory.linear(0.0))
    errors = []
    for t in CYCLE * np.arange(1500):
        errors.append(trajectory.smooth(t)[0] - arm.q)
        arm.step(tau + feedback(trajectory, t, arm.q, arm.qd))
        tau = oracle.torques(*trajectory.linear(t))
    assert np.abs(errors).max() <= 2e-3


PICTURES = """
import sys
import numpy as np
from dynamics_demo.plots import MISSING, Drawing
from dynamics_demo.tracked_arm import CENTER
try:
    drawing = Drawing()
except ImportError as error:
    sys.exit(f"none: {error}")
for off in (0.0, 0.2):
    picture = drawing.picture(CENTER, CENTER + off).astype(int)
    white = (picture == 255).all(axis=2).mean()
    colored = (picture[..., 0] - picture[..., 2] > 60).mean()  # only the ghost is more red than blue
    print(white, colored)
drawing.close()
"""


def drawn(**environment):
    return subprocess.run(
        [sys.executable, "-c", PICTURES], env={**os.environ, **environment}, capture_output=True, text=True
    )


def test_tracking_error_is_in_color():
    done = drawn()
    if done.stderr.startswith("none"):
        pytest.skip(done.stderr)
    (white, colored), (_, more) = (map(float, line.split()) for line in done.stdout.splitlines())
    assert 0.5 < white < 0.95 and colored == 0 and more > 0.01, done.stderr


def test_missing_graphics_packages_are_named():
    done = drawn(MUJOCO_GL="off")
    assert done.returncode == 1 and "sudo apt install libegl1" in done.stderr
