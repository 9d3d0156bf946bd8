"""What a recording that does not do is answered with: what to type, and what a result is worth."""

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
def test_fingers_that_nobody_records(tmp_path, kind):
    """They are not other names of the arm's joints: --joints goes on without them."""
    panda = ROBOTS["panda"].model()
    if kind == "csv":
        pytest.importorskip("pyarrow", reason="csv: pip install 'dynamics_node[tables]'")
        header = ",".join(["time", *(f"q.{name}" for name in PANDA_JOINTS)])
        (tmp_path / "run.csv").write_text(f"{header}\n{','.join(8 * '0')}\n")
        path = tmp_path / "run.csv"
    else:
        path = tmp_path / "bag"
        write_bag(path, [("/s", PANDA_JOINTS, np.zeros(7), np.zeros(7), np.zeros(7))])
    with pytest.raises(TableError) as caught:
        open_table(path, panda, dn.inverse_dynamics(panda))
    told = str(caught.value)
    assert "panda_finger_joint1" in told and "--joints panda_joint1 panda_joint2" in told
    assert "--joints-map" not in told


@pytest.fixture(scope="module")
def arm():
    return Truth(ROBOTS["ur5"].model(), backend="c")


def test_a_term_that_can_be_left_out(arm):
    """Slow motions do not tell rotors from bodies."""
    time = np.arange(0.0, 120.0, 0.1)
    recording = arm.recording(1, noise=0.5, time=time / 10.0) | {"time": time}
    recording["qd"], recording["qdd"] = recording["qd"] / 10.0, recording["qdd"] / 100.0
    W = arm.linear.matrix(*(recording[kind] for kind in ("q", "qd", "qdd")))
    recording["tau"] = W @ arm.parameters + 0.5 * np.random.default_rng(0).normal(size=recording["qd"].shape)
    terms = ("inertia", "rotor", "viscous", "coulomb", "offset")
    with pytest.raises(IdentificationError) as caught:
        identify(arm.robot, [in_chunks(recording)], terms, backend="c")
    told = re.search(
        r"does not tell (\d+) of.*Without rotor \(--terms (.*?)\) (\d+) of them", str(caught.value)
    )
    assert told and int(told[3]) < int(told[1]) and told[2].split() == list(USUAL)


def test_friction_that_is_no_term_is_no_load(arm):
    found = identify(arm.robot, [in_chunks(arm.recording(3))], ("inertia",), backend="c")
    assert not any("carries" in told for told in found.warnings), found.warnings


def test_what_bodies_weigh(arm):
    """Torques of a fixed base do not tell the mass of its first link."""
    found = identify(arm.robot, [in_chunks(arm.recording(3))], backend="c")
    told = next(one.told for one in summary(found) if one.stage == "bodies")
    weighs = re.search(r"the bodies weigh (\S+) kg, described (\S+) kg, which torques do not tell", told)
    masses = arm.robot.inertias[:, 5, 5].sum()
    assert weighs and float(weighs[2]) == pytest.approx(masses, rel=0.01)
