"""The simulated arm of the demo: MuJoCo's external torques and motion agree with our Jacobian and dynamics."""

import itertools

import numpy as np
import pytest
from tolerances import error

pytest.importorskip("mujoco", minversion="3.2", reason="the touched arm: pip install mujoco")
pytest.importorskip("pinocchio", reason="the robots: pip install example-robot-data")

import dynamics_node as dn
from dynamics_demo import pushed_arm
from dynamics_demo.panda import Noise, description
from dynamics_demo.pushed_arm import STEP, TOUCHES, PushedArm, touch_at


def test_reported_push_moves_the_arm():
    """M qdd + h = tau + J^T f by our dynamics over a contact, without noise."""
    arm, model = PushedArm(description(), noise=Noise()), dn.parse_robot(description())
    samples = [arm.sample(), *(arm.step() for _ in range(700))]
    forward = dn.build(model, dn.forward_dynamics(model))
    for before, after in itertools.pairwise(samples):
        touch = touch_at(before.time)
        J = dn.evaluate(model, "frame_jacobian", before.q, link=(touch or TOUCHES[0]).link, backend="numpy")[
            3:
        ]
        pushed = J.T @ (touch.force if touch else np.zeros(3))
        assert np.abs(before.pushed - pushed).max() <= 1e-9
        qdd = forward(before.q, before.qd, before.tau + pushed)
        assert error((after.qd - before.qd) / STEP, qdd) <= 1e-6
    assert any(sample.pushed.any() for sample in samples)


def test_touches_repeat_and_none_is_at_the_end():
    assert touch_at(1.5) is TOUCHES[0] and touch_at(pushed_arm.PERIOD + 1.5) is TOUCHES[0]
    assert touch_at(0.5) is touch_at(pushed_arm.PERIOD - 0.01) is None
