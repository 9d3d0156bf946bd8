"""Joints at which a result is worse than the description are named, however good it is taken together."""

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
    """As it is described at one joint."""
    arm = Truth(ROBOTS["ur5"].model(), 1, "c")
    k = arm.linear.joints.index(next(joint for joint in arm.linear.joints if joint.name == JOINT))
    for term in ("viscous", "coulomb", "offset"):
        arm.parameters[arm.linear.places(term)][k] = 0.0
    return arm


def coupled(arm, until):
    """Beside its own, the joint has a torque of another one until then: a gear that both share."""
    recording = arm.recording(1)
    k = list(arm.robot.v_names).index(JOINT)
    more = 3.0 * (1.0 + np.tanh(recording["qd"][:, k + 1])) * (recording["time"] < until * TIME[-1])
    tau = recording["tau"].copy()
    tau[:, k] += more
    return recording | {"tau": tau}


@pytest.fixture(scope="module")
def found(arm):
    return identify(arm.robot, [in_chunks(coupled(arm, 0.7))])


def parts(arm, found):
    """Of tenths of the recording itself where clearly more is left than of the description: their numbers, and
    what is left in them of the result and of the description."""
    recording, k = coupled(arm, 0.7), list(arm.robot.v_names).index(JOINT)
    W = arm.linear.matrix(*(recording[kind] for kind in ("q", "qd", "qdd")))[:, k]
    own, described = (
        np.array([part.mean() for part in np.array_split((W @ p - recording["tau"][:, k]) ** 2, 10)])
        for p in (found.parameters, arm.linear.described)
    )
    worse = np.flatnonzero((own > 1.2**2 * described) & (own > 0.5**2 * own.mean()))
    return worse, [float(np.sqrt(one[worse].mean())) for one in (own, described)]


def test_worse_in_some_parts(arm, found, tmp_path):
    """Of those in which the torque of the other joint has gone."""
    assert found.better
    worse, (late, _) = worse_joints(found), parts(arm, found)
    assert len(late) >= 2 and set(late) <= {7, 8, 9}
    assert list(worse) == [JOINT] and f"in {len(late)} of 10 parts of the recordings" in worse[JOINT]
    told = [(verdict.told, verdict.good) for verdict in summary(found) if verdict.stage == "judge"]
    assert told == [(f"NOT better at {JOINT}: {worse[JOINT]}", False), ("better than the description", True)]
    page = write_page(found, tmp_path / "report.html").read_text()
    assert f"<tr class=odd><td>judge</td><td>NOT better at {JOINT}: in {len(late)} of" in page


def test_the_numbers_are_those_of_these_parts(arm, found):
    """What is said is left, from the recording itself."""
    words = worse_joints(found)[JOINT].split()
    numbers = [float(words[i - 1]) for i, word in enumerate(words) if word == "N"]
    assert numbers == pytest.approx(parts(arm, found)[1], rel=0.02)


def test_worse_in_all(found):
    """A single joint, while all of them taken together are better."""
    k = found.base.joints.index(JOINT)
    described = found.rmse_nominal.copy()
    described[k] = 0.5 * found.rmse_cross_validated[k]
    other = replace(found, rmse_nominal=described)
    assert (
        f"{found.rmse_cross_validated[k]:.3g} N m are left, of the description {described[k]:.3g} N m"
        == worse_joints(other)[JOINT]
    )


def test_nothing_is_said_of_better_joints(arm):
    assert worse_joints(identify(arm.robot, [in_chunks(coupled(arm, 1.1))])) == {}
    clean = identify(arm.robot, [in_chunks(arm.recording(k)) for k in (2, 3)])
    assert worse_joints(clean) == {}


def test_the_command(arm, tmp_path, capsys):
    """Names it, writes it down, and returns 0: all taken together are better."""
    np.savez(tmp_path / "run.npz", **coupled(arm, 0.7))
    out = tmp_path / "out"
    assert main(["identify", str(ROBOTS["ur5"].file), str(tmp_path / "run.npz"), "-o", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    judged = [line for line in lines if line.startswith("judge: ")]
    assert judged[0].startswith(f"judge: NOT better at {JOINT}: in ")
    assert judged[1:] == ["judge: better than the description"] and lines.index(judged[0]) > len(lines) - 8
    assert list(yaml.safe_load((out / "report.yaml").read_text())["worse"]) == [JOINT]
