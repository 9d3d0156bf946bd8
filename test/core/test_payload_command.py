"""dynamics payload: from recordings to a request of set_payload."""

from pathlib import Path

import numpy as np
import pytest
import yaml
from carrying import COM, HAND, MASS, MOMENTS, motion, rubbing, torques
from robots import PANDA_JOINTS, ROBOTS
from state_tables import columns_of, save_columns

import dynamics_node as dn
from dynamics_node.cli import main

TIME = np.arange(0.0, 8.0, 0.01)
URDF, JOINTS = str(ROBOTS["panda7"].file), ["--joints", ",".join(PANDA_JOINTS)]


def run(*recordings, link=HAND, more=()):
    return main(["payload", URDF, *recordings, *JOINTS, "--link", link, *more])


def write(path, q, tau, names=PANDA_JOINTS):
    """Positions, efforts and time: accelerations follow by differentiation."""
    return str(save_columns(path, columns_of({"time": TIME, "q": q, "tau": tau}, names)))


def hand(*states):
    """Torques of a hand of 0.7 kg."""
    Y = dn.build(ROBOTS["panda7"].model(), "joint_torque_regressor", backend="numpy", link=HAND)(*states)
    return Y[..., :4] @ np.array([0.7, 0.0, 0.0, 0.02])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Recordings with and without the payload, with other joint names, without a hand, and of an arm at rest."""
    folder, states = tmp_path_factory.mktemp("recordings"), motion(1, time=TIME)
    noise = 0.1 * np.random.default_rng(0).normal(size=states[0].shape)
    loaded = torques(*states) + rubbing(states[1]) + noise
    empty = torques(*states, payload=False) + rubbing(states[1]) + noise[::-1]
    still = [np.tile(state[:1], (len(TIME), 1)) * (k == 0) for k, state in enumerate(states)]
    return {
        "loaded": write(folder / "loaded.csv", states[0], loaded),
        "theirs": write(folder / "theirs.csv", states[0], loaded, [f"fer_{k}" for k in range(1, 8)]),
        "empty": write(folder / "empty.csv", states[0], empty),
        "bare": write(folder / "bare.csv", states[0], empty - hand(*states)),
        "still": write(folder / "still.csv", still[0], torques(*still) + noise),
    }


@pytest.mark.parametrize(
    "which, more", [("loaded", []), ("theirs", ["--joints-map", "fer_*=panda_joint*"]), ("loaded", "tare")]
)
def test_command_prints_a_table_and_writes_a_request(files, tmp_path, capsys, which, more):
    out = tmp_path / "payload.yaml"
    tared = more == "tare"
    more = ["--tare", files["empty"]] if tared else more
    assert run(files[which], more=["-o", str(out), *more]) == 0
    output = capsys.readouterr()
    assert "are derivatives of the recorded positions below 10 Hz" in output.err
    assert "judge: ready for set_payload" in output.out and "check:" not in output.out
    assert ("without a tare" in output.out) == (not tared)
    com_lines = {
        line[:24].strip(): float(line.split()[-2]) for line in output.out.splitlines() if "[m]" in line
    }
    assert tuple(com_lines.values()) == pytest.approx(tuple(COM), abs=2e-3)
    request = yaml.safe_load(out.read_text())
    own, c = request["inertia"], request["inertia"]["com"]
    assert request["link"] == HAND and own["m"] == pytest.approx(MASS, abs=0.02)
    inertia = np.array(
        [
            [own["ixx"], own["ixy"], own["ixz"]],
            [own["ixy"], own["iyy"], own["iyz"]],
            [own["ixz"], own["iyz"], own["izz"]],
        ]
    )
    assert np.allclose(inertia, MOMENTS, atol=5e-3)
    loaded = dn.with_payload(ROBOTS["panda7"].model(), HAND, own["m"], (c["x"], c["y"], c["z"]), inertia)
    assert loaded.bodies[-1].inertia[5, 5] > own["m"]


def test_request_matches_set_payload(files, tmp_path):
    srv = pytest.importorskip(
        "dynamics_interfaces.srv", reason="build dynamics_interfaces first, or use ./dev"
    )

    def fill(message, values):
        assert values.keys() <= message.get_fields_and_field_types().keys()
        for name, value in values.items():
            if isinstance(value, dict):
                fill(getattr(message, name), value)
            else:
                setattr(message, name, value)

    out, request = tmp_path / "payload.yaml", srv.SetPayload.Request()
    assert run(files["loaded"], more=["-o", str(out)]) == 0
    values_of_file = yaml.safe_load(out.read_text())
    fill(request, values_of_file)
    assert request.link == HAND and request.inertia.m == values_of_file["inertia"]["m"]
    assert request.inertia.com.z == pytest.approx(COM[2], abs=2e-3)


def test_unidentifiable_payloads_are_reported(files, tmp_path, capsys):
    out = tmp_path / "payload.yaml"
    for recording, messages in (
        (
            "still",
            ["check: nothing moves", "check: mass is not excited", "judge: not excited enough: mass"],
        ),
        ("empty", ["judge: the mass is", "not significantly above zero"]),
        ("bare", ["judge: the torques correspond to 0.699 kg less", "panda_hand 0.73 kg"]),
    ):
        assert run(files[recording], more=["-o", str(out)]) == 1
        output = capsys.readouterr().out
        assert all(words in output for words in messages), output
        assert ("center of mass x" in output) == (recording == "empty")
    assert not out.exists()
    assert run(files["still"], more=["--no-friction"]) == 1
    output = capsys.readouterr().out
    assert "check: mass" not in output and "check: center of mass along x is identifiable only" in output


def test_invalid_arguments_are_rejected(files, tmp_path, capsys):
    missing = str(tmp_path / "none.csv")
    for link, recording, message, code in (
        ("tool9", files["loaded"], "--link: unknown link 'tool9'; the robot has: panda_hand", 2),
        ("panda_link0", files["loaded"], "'panda_link0' is fixed to the root", 3),
        (HAND, missing, "no such file", 3),
    ):
        assert run(recording, link=link) == code
        assert message in capsys.readouterr().err
    assert run(files["loaded"], more=["--floating-base"]) == 3
    assert "the ground forces on a floating base are not measured" in capsys.readouterr().err


def test_joints_without_efforts_move_as_recorded(files, tmp_path, capsys):
    """Positions of fingers outside --joints are recorded."""
    header, _, rows = Path(files["loaded"]).read_text().partition("\n")
    run = tmp_path / "fingers.csv"
    fingers = (0.02 + 0.01 * np.sin(TIME)).tolist()
    more = [f"{row},{q}" for row, q in zip(rows.splitlines(), fingers, strict=True)]
    run.write_text("\n".join([f"{header},q.panda_finger_joint1", *more]))
    assert main(["payload", URDF, str(run), *JOINTS, "--link", HAND]) == 0
    output = capsys.readouterr()
    assert "panda_finger_joint1 move as recorded" in output.err
    mass = next(float(line.split()[2]) for line in output.out.splitlines() if line.startswith("mass"))
    assert mass == pytest.approx(MASS, abs=0.05)
