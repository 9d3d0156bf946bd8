"""Advice in the messages of identification: the options to type, and the value of a result."""

import re

import numpy as np
import pytest
from bags import write_bag
from identified import Truth, in_chunks
from robots import PANDA_JOINTS, ROBOTS

import dynamics_node as dn
from dynamics_node.identification import USUAL, IdentificationError, identify, summary
from dynamics_node.io import TableError, open_table


@pytest.mark.parametrize("kind", ["csv", "bag"])
def test_missing_fingers_are_left_out_with_joints(tmp_path, kind):
    """The fingers are not other names of the arm's joints: the message suggests --joints."""
    panda = ROBOTS["panda"].model()
    if kind == "csv":
        pytest.importorskip("pyarrow", reason="csv: pip install 'dynamics_node[tables]'")
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


def test_message_suggests_a_term_to_leave_out(arm):
    """Slow motions do not distinguish rotors from bodies."""
    time = np.arange(0.0, 120.0, 0.1)
    recording = arm.recording(1, noise=0.5, time=time / 10.0) | {"time": time}
    recording["qd"], recording["qdd"] = recording["qd"] / 10.0, recording["qdd"] / 100.0
    W = arm.linear.matrix(*(recording[kind] for kind in ("q", "qd", "qdd")))
    recording["tau"] = W @ arm.parameters + 0.5 * np.random.default_rng(0).normal(size=recording["qd"].shape)
    terms = ("inertia", "rotor", "viscous", "coulomb", "offset")
    with pytest.raises(IdentificationError) as excinfo:
        identify(arm.robot, [in_chunks(recording)], terms, backend="c")
    advice = re.search(
        r"does not excite (\d+) of.*Without rotor \(--terms (.*?)\) (\d+) of them", str(excinfo.value)
    )
    assert advice and int(advice[3]) < int(advice[1]) and advice[2].split(",") == list(USUAL)


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
