"""Advice in the messages of identification: the options to type, and the value of a result."""

import re

import numpy as np
import pytest
from bags import write_bag
from identified import Truth, as_measured, in_chunks
from robots import PANDA_JOINTS, ROBOTS, PublishedRobot

import dynamics_node as dn
from dynamics_node.errors import TableError
from dynamics_node.identification import USUAL, identify, summary
from dynamics_node.io import open_table


@pytest.mark.parametrize("kind", ["csv", "bag"])
def test_missing_fingers_are_left_out_with_joints(tmp_path, kind):
    """The fingers are not other names of the arm's joints: the message suggests --joints."""
    panda = ROBOTS["panda"].model()
    if kind == "csv":
        header = ",".join(["time", *(f"q.{name}" for name in PANDA_JOINTS)])
        (tmp_path / "run.csv").write_text(f"{header}\n{','.join(8 * '0')}\n")
        path = tmp_path / "run.csv"
    else:
        path = tmp_path / "bag"
        write_bag(path, [("/s", PANDA_JOINTS, np.zeros(7), np.zeros(7), np.zeros(7))])
    with pytest.raises(TableError) as excinfo:
        open_table(path, panda, dn.inverse_dynamics(panda))
    message = str(excinfo.value)
    assert "panda_finger_joint1" in message and "--joints panda_joint1,panda_joint2" in message
    assert "--joints-map" not in message


@pytest.fixture(scope="module")
def arm():
    return Truth(ROBOTS["ur5"].model(), backend="c")


def test_slow_motions_excite_rotors_poorly(arm):
    """They do not distinguish rotors from bodies: the summary names them, and the rest is identified."""
    time = np.arange(0.0, 120.0, 0.1)
    recording = arm.recording(1, noise=0.5, time=time / 10.0) | {"time": time}
    recording["qd"], recording["qdd"] = recording["qd"] / 10.0, recording["qdd"] / 100.0
    W = arm.linear.matrix(*(recording[kind] for kind in ("q", "qd", "qdd")))
    recording["tau"] = W @ arm.parameters + 0.5 * np.random.default_rng(0).normal(size=recording["qd"].shape)
    terms = ("inertia", "rotor", "viscous", "coulomb", "offset")
    fit = identify(arm.robot, [in_chunks(recording)], terms, backend="c")
    assert sum(".rotor" in text for text in fit.excitation.weak) >= 3 and fit.better
    assert any("poorly excited" in line.text and ".rotor" in line.text for line in summary(fit))


@pytest.mark.parametrize("name, rotors", [("ur10", [6.0, 6.0, 4.0, 1.0, 1.0, 1.0]), ("kinova", 6 * [0.6])])
def test_terms_are_selected_by_the_error_of_unseen_torques(name, rotors):
    """Heavy rotors of geared motors: without their term, bodies become too heavy. Friction is that of real
    gears, which no term describes exactly."""
    published = {"ur10": PublishedRobot("ur_description/urdf/ur10_robot.urdf")} | ROBOTS
    robot, with_rotors = published[name].model(), (*USUAL, "rotor")
    truth = Truth(robot, terms=with_rotors, backend="c")
    bodies, p = truth.linear.places("inertia"), truth.parameters
    p[bodies] = truth.linear.described[bodies]
    p[truth.linear.places("viscous")], p[truth.linear.places("coulomb")] = 8.0, 5.0
    masses = np.array([one.endswith(".m") for one in truth.linear.names], dtype=float)
    for rotor, expected in ((0.0, USUAL), (np.array(rotors), with_rotors)):
        p[truth.linear.places("rotor")] = rotor
        recordings = [in_chunks(as_measured(truth, truth.recording(k), seed=k)) for k in (1, 2)]
        fit = identify(robot, recordings, backend="c")
        assert fit.linear.terms == expected and fit.selection.terms == expected
        mass = masses[: len(fit.parameters)] @ fit.parameters
        assert mass == pytest.approx(masses @ p, rel=0.35)
    plain = identify(robot, recordings, USUAL, backend="c")
    assert plain.linear.terms == USUAL and plain.selection.added == ("rotor",)
    assert masses[: len(plain.parameters)] @ plain.parameters > 1.6 * masses @ p
    (advice,) = [line for line in summary(plain) if "--terms" in line.text]
    assert not advice.good and "rotor reduces" in advice.text and ",".join(with_rotors) in advice.text
    unseen = plain.rmse_cross_validated, fit.rmse_cross_validated
    assert np.mean(unseen[1] / unseen[0]) < 0.6


def test_unmodeled_friction_is_no_payload(arm):
    fit = identify(arm.robot, [in_chunks(arm.recording(3))], ("inertia",), backend="c")
    assert not any("carries" in warning for warning in fit.warnings), fit.warnings


def test_unidentifiable_mass_is_reported(arm):
    """The torques of a fixed base do not determine the mass of its first link."""
    fit = identify(arm.robot, [in_chunks(arm.recording(3))], backend="c")
    text = next(line.text for line in summary(fit) if line.stage == "bodies")
    match = re.search(r"total mass (\S+) kg, described (\S+) kg; the torques determine it only", text)
    masses = arm.robot.inertias[:, 5, 5].sum()
    assert match and float(match[2]) == pytest.approx(masses, rel=0.01)
