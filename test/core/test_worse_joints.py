"""Joints with a worse fit than the description are named, even if the overall fit is better."""

from dataclasses import replace

import numpy as np
import pytest
import yaml
from identified import TIME, Truth, in_chunks
from robots import ROBOTS

from dynamics_node.cli import main
from dynamics_node.identification import identify, summary, worse_joints, write_page

JOINT = "wrist_2_joint"


@pytest.fixture(scope="module")
def arm():
    """A robot with described friction at one joint."""
    arm = Truth(ROBOTS["ur5"].model(), 1, "c")
    k = arm.linear.joints.index(next(joint for joint in arm.linear.joints if joint.name == JOINT))
    for term in ("viscous", "coulomb", "offset"):
        arm.parameters[arm.linear.places(term)][k] = 0.0
    return arm


def coupled(arm, until):
    """A recording in which a torque of another joint acts on the joint up to a share `until` of the time."""
    recording = arm.recording(1)
    k = list(arm.robot.v_names).index(JOINT)
    more = 3.0 * (1.0 + np.tanh(recording["qd"][:, k + 1])) * (recording["time"] < until * TIME[-1])
    tau = recording["tau"].copy()
    tau[:, k] += more
    return recording | {"tau": tau}


@pytest.fixture(scope="module")
def fitted(arm):
    return identify(arm.robot, [in_chunks(coupled(arm, 0.7))])


def worse_parts(arm, fitted):
    """Tenths of the recording with clearly larger errors than the description: their numbers, and the RMS errors of the
    result and of the description in them."""
    recording, k = coupled(arm, 0.7), list(arm.robot.v_names).index(JOINT)
    W = arm.linear.matrix(*(recording[kind] for kind in ("q", "qd", "qdd")))[:, k]
    own, described = (
        np.array([part.mean() for part in np.array_split((W @ p - recording["tau"][:, k]) ** 2, 10)])
        for p in (fitted.parameters, arm.linear.described)
    )
    worse = np.flatnonzero((own > 1.2**2 * described) & (own > 0.5**2 * own.mean()))
    return worse, [float(np.sqrt(squares[worse].mean())) for squares in (own, described)]


def test_joint_that_is_worse_in_some_parts_is_named(arm, fitted, tmp_path):
    """The worse parts are those without the torque of the other joint."""
    assert fitted.better
    worse, (late, _) = worse_joints(fitted), worse_parts(arm, fitted)
    assert len(late) and set(late) <= {7, 8, 9}
    assert list(worse) == [JOINT] and f"in {len(late)} of 10 parts of the recordings" in worse[JOINT]
    verdicts = [(verdict.text, verdict.good) for verdict in summary(fitted) if verdict.stage == "judge"]
    assert verdicts == [
        (f"NOT better at {JOINT}: {worse[JOINT]}", False),
        ("better than the description", True),
    ]
    page = write_page(fitted, tmp_path / "report.html").read_text()
    assert f"<td>judge</td>\n<td><strong>NOT better at {JOINT}: in {len(late)} of" in page


def test_reported_errors_are_those_of_the_worse_parts(arm, fitted):
    """The reported errors agree with the recording."""
    words = worse_joints(fitted)[JOINT].split()
    numbers = [float(words[i - 1]) for i, word in enumerate(words) if word == "N"]
    assert numbers == pytest.approx(worse_parts(arm, fitted)[1], rel=0.02)


def test_joint_that_is_worse_overall_is_named(fitted):
    """One joint is worse while the overall fit is better."""
    k = fitted.base.joints.index(JOINT)
    described = fitted.rmse_nominal.copy()
    described[k] = 0.5 * fitted.rmse_cross_validated[k]
    other = replace(fitted, rmse_nominal=described)
    assert (
        f"the error is {fitted.rmse_cross_validated[k]:.3g} N m, the description's {described[k]:.3g} N m"
        == worse_joints(other)[JOINT]
    )


def test_better_joints_are_not_named(arm):
    assert worse_joints(identify(arm.robot, [in_chunks(coupled(arm, 1.1))])) == {}
    clean = identify(arm.robot, [in_chunks(arm.recording(k)) for k in (2, 3)])
    assert worse_joints(clean) == {}


def test_command_reports_the_joint(arm, tmp_path, capsys):
    """The command names the joint, writes it to the report and returns 0, since the overall fit is better."""
    np.savez(tmp_path / "run.npz", **coupled(arm, 0.7))
    out = tmp_path / "out"
    assert main(["identify", str(ROBOTS["ur5"].file), str(tmp_path / "run.npz"), "-o", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    judged = [line for line in lines if line.startswith("judge: ")]
    assert judged[0].startswith(f"judge: NOT better at {JOINT}: in ")
    assert judged[1:] == ["judge: better than the description"] and lines[:2] == judged
    assert list(yaml.safe_load((out / "report.yaml").read_text())["worse"]) == [JOINT]
