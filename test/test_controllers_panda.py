"""dynamics_controllers with the exported Panda: torques, names, hash, and tracking in MuJoCo at 500 Hz."""

import hashlib
import subprocess
import sys

import numpy as np
import pytest
from controller_law import Law, LawLibrary, Status

import dynamics_node as dn

pytest.importorskip(
    "pinocchio", reason="the Panda comes with it: pip install pin, or ros-$ROS_DISTRO-pinocchio"
)

from dynamics_demo.panda import PANDA_JOINTS
from dynamics_demo.tracked_arm import (
    CYCLE,
    DAMPING,
    FRICTION,
    PAYLOAD,
    RATE_GAIN,
    ROTORS,
    SECONDS,
    STIFFNESS,
    TrackedArm,
    Trajectory,
    described,
    feedback,
)

SETTLING = 1.0  # s at the start of each third that are ignored, as in the demo


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("panda")


@pytest.fixture(scope="module")
def laws(once):
    return LawLibrary(once)


@pytest.fixture(scope="module")
def description():
    return described()


@pytest.fixture(scope="module")
def robot(description):
    return dn.parse_robot(description, joints=PANDA_JOINTS)


@pytest.fixture(scope="module")
def command(folder):
    """An executable `dynamics` of this checkout."""
    script = folder / "dynamics"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dynamics_node.cli "$@"\n')
    script.chmod(0o700)
    return script


@pytest.fixture(scope="module")
def library(command, description, once):
    """The library that a controller makes of its robot_description."""

    def export(folder):
        (folder / "panda.urdf").write_text(description)
        subprocess.run(
            [command, "export", folder / "panda.urdf", f"--joints={','.join(PANDA_JOINTS)}", "--target=shared",
             "--runtime-parameters=inertia", "--name=panda", f"--output={folder / 'library'}"],
            check=True, capture_output=True, text=True,
        )  # fmt: skip

    return once("library_of_the_panda", export) / "library" / "libpanda.so"


def attach_payload(law, robot):
    """The payload of the demo: a ball in the hand, which is fixed to the last link."""
    frame = robot.frame(PAYLOAD.link)
    rotation, position = frame.X[:3, :3].T, -frame.X[:3, :3].T @ frame.X[3:, :3]
    position = np.array([position[2, 1], position[0, 2], position[1, 0]])
    law.attach(frame.body, PAYLOAD.mass, PAYLOAD.center, PAYLOAD.moment * np.eye(3), rotation, position)


def test_joints_and_hash_are_those_of_the_description(laws, library, description):
    law = laws.law(library, Law.EFFORT, 7)
    assert law.joints == list(PANDA_JOINTS)
    assert law.urdf_hash == hashlib.sha256(description.encode()).hexdigest()


def test_controller_exports_the_description(laws, command, description):
    assert laws.exported(command, description, ",".join(PANDA_JOINTS)) == list(PANDA_JOINTS)
    with pytest.raises(ValueError, match="fails: .*elbow"):
        laws.exported(command, description, "elbow")


@pytest.mark.parametrize("law", Law)
@pytest.mark.parametrize("loaded", [False, True], ids=["bare", "loaded"])
def test_torques_are_those_of_pinocchio(laws, library, description, robot, law, loaded):
    import pinocchio

    model = pinocchio.buildModelFromXML(description)
    assert list(model.names)[1:] == list(PANDA_JOINTS)
    own = laws.law(library, law, 7)
    if loaded:
        attach_payload(own, robot)
        hand = model.frames[model.getFrameId(PAYLOAD.link)]
        inertia = pinocchio.Inertia(PAYLOAD.mass, np.array(PAYLOAD.center), PAYLOAD.moment * np.eye(3))
        model.appendBodyToJoint(hand.parentJoint, inertia, hand.placement)
    data, random = model.createData(), np.random.default_rng(5)
    for q, qd, qdd, effort in random.uniform(-1.5, 1.5, (20, 4, 7)):
        if law is Law.EFFORT:
            status, tau = own.update(q, qd, effort=effort)
            expected = effort + pinocchio.rnea(model, data, q, qd, np.zeros(7))
        else:
            status, tau = own.update(q, qd, position=q, velocity=qd, acceleration=qdd)
            expected = pinocchio.rnea(model, data, q, qd, qdd)
        assert status is Status.OK
        np.testing.assert_allclose(tau, expected, rtol=0, atol=1e-10 * max(1.0, np.abs(expected).max()))


def test_torques_are_those_of_the_interpreter(laws, library, robot):
    own = laws.law(library, Law.FEEDFORWARD, 7)
    interpreted = dn.build(robot, "inverse_dynamics", backend="numpy")
    for state in np.random.default_rng(6).uniform(-2, 2, (20, 3, 7)):
        _, tau = own.update(*state[:2], position=state[0], velocity=state[1], acceleration=state[2])
        expected = interpreted(*state)
        np.testing.assert_allclose(tau, expected, rtol=0, atol=1e-12 * max(1.0, np.abs(expected).max()))


def tracking_error(description, *torques):
    """Root mean square (3,) of all joints in mrad for each third of the demo's motion. torques: of a third, what
    torque(t, q, qd, pd) sends to the motors, where pd are the torques of the PD controller."""
    arm, trajectory = TrackedArm(description), Trajectory.lasting(SECONDS)
    steps = round(SECONDS / CYCLE)
    errors = np.empty((steps, 7))
    for k in range(steps):
        t, q, qd = k * CYCLE, arm.q, arm.qd
        errors[k] = trajectory.smooth(t)[0] - q
        arm.step(torques[3 * k // steps](t, q, qd, feedback(trajectory, t, q, qd)))
    settled = errors.reshape(3, -1, 7)[:, round(SETTLING / CYCLE) :]
    return 1e3 * np.sqrt((settled**2).mean(axis=(1, 2)))


def test_tracking_error_in_the_loop(laws, library, robot, description, capsys):
    """The thirds of `./dev demo`, with the law in the control loop in place of the node on topics: PD alone,
    with gravity and Coriolis torques (law effort), with full feed-forward (law feedforward)."""
    pytest.importorskip("mujoco", reason="MuJoCo: pip install 'mujoco>=3.3.7,<4'")
    carried = laws.law(library, Law.EFFORT, 7)
    driven = laws.law(
        library, Law.FEEDFORWARD, 7, p=STIFFNESS, d=RATE_GAIN, armature=ROTORS, friction=True,
        viscous=DAMPING, coulomb=FRICTION,
    )  # fmt: skip
    for law in carried, driven:
        attach_payload(law, robot)
    trajectory = Trajectory.lasting(SECONDS)

    def alone(t, q, qd, pd):
        return pd

    def gravity(t, q, qd, pd):
        status, tau = carried.update(q, qd, effort=pd, period=CYCLE)
        assert status is Status.OK
        return tau

    def full(t, q, qd, pd):
        position, velocity = trajectory.smooth(t)
        acceleration = trajectory.linear(t)[2]
        status, tau = driven.update(q, qd, position=position, velocity=velocity, acceleration=acceleration)
        assert status is Status.OK
        return tau

    errors = tracking_error(description, alone, gravity, full)
    with capsys.disabled():
        print(f"\ntracking error in the loop [mrad]: PD, gravity, full feed-forward {errors.round(3)}")
    assert 30 < errors[0] < 60
    assert errors[1] < 0.6 * errors[0]
    assert errors[2] < 0.2


def test_tracking_error_of_efforts_in_the_trajectory(robot, description, capsys):
    """Efforts of all points in advance, linear between them, as joint_trajectory_controller adds them to its PID:
    of the rigid bodies, and with rotors and friction."""
    pytest.importorskip("mujoco", reason="MuJoCo: pip install 'mujoco>=3.3.7,<4'")
    loaded = dn.with_payload(robot, PAYLOAD.link, PAYLOAD.mass, PAYLOAD.center, PAYLOAD.moment * np.eye(3))
    trajectory = Trajectory.lasting(SECONDS)
    q, qd, qdd = np.moveaxis(trajectory.points, 1, 0)
    rigid = dn.build(loaded, "inverse_dynamics", backend="numpy")(q, qd, qdd)
    drives = np.multiply(ROTORS, qdd) + np.multiply(DAMPING, qd) + np.multiply(FRICTION, np.tanh(qd / 0.01))

    def added(efforts):
        return lambda t, q, qd, pd: pd + [np.interp(t, trajectory.time, column) for column in efforts.T]

    errors = tracking_error(description, added(0 * rigid), added(rigid), added(rigid + drives))
    with capsys.disabled():
        print(f"\ntracking error [mrad]: PD, efforts of rigid bodies, of all {errors.round(3)}")
    assert 30 < errors[0] < 60
    assert errors[1] < 0.5 * errors[0]
    assert errors[2] < 0.25
