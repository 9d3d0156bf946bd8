"""Identification from recordings of several formats, and of a floating base."""

import numpy as np
import pytest
import yaml
from bags import write_bag
from identified import Truth
from state_tables import columns_of, save_columns
from two_links import ARM, NAMES

import dynamics_node as dn
from dynamics_node.algorithms import smooth_friction
from dynamics_node.cli import main
from dynamics_node.errors import TableError
from dynamics_node.identification import RegressorModel
from dynamics_node.io import open_table
from dynamics_node.robot import load_robot

TOPIC = "/joint_states"


# --- identification -----------------------------------------------------------------------------------------


def recorded_name(name):
    return f"left/{name}"


def as_table(path, part):
    arrays = {kind: part[kind] for kind in ("time", "q", "tau")}
    save_columns(path, columns_of(arrays, [recorded_name(name) for name in NAMES]))


def as_npz(path, part):
    np.savez(path, **{kind: part[kind] for kind in ("q", "tau", "time")})


def as_bag(path, part, **options):
    names = [recorded_name(name) for name in reversed(NAMES)]
    rows = zip(part["q"][:, ::-1], part["tau"][:, ::-1], strict=True)
    write_bag(path, [(TOPIC, names, q, [], tau) for q, tau in rows], np.round(1e9 * part["time"]), **options)


FORMATS = {
    "run.csv": as_table,
    "run.parquet": as_table,
    "sqlite": as_bag,
    "mcap": lambda path, part: as_bag(path, part, plugin="MCAP", version=9),
    "packed": lambda path, part: as_bag(path, part, plugin="MCAP", compression="MESSAGE"),
}


@pytest.fixture(scope="module")
def parts():
    """Recordings with disjoint spans of time."""
    arm = Truth(dn.parse_robot(ARM))
    return [arm.recording(k, time=np.arange(0.0, 6.0, 0.01) + 100.0 * k) for k in range(len(FORMATS))]


def report_of(folder, files, *options):
    """The report of `dynamics identify`."""
    (folder / "robot.urdf").write_text(ARM)
    out = folder / "out"
    assert main(["identify", str(folder / "robot.urdf"), *map(str, files), "-o", str(out), *options]) == 0
    return yaml.safe_load((out / "report.yaml").read_text())


def test_recordings_of_many_formats_together(tmp_path, parts):
    """The result is that of NumPy tables."""
    files, plain = [], []
    for (name, write), part in zip(FORMATS.items(), parts, strict=True):
        write(tmp_path / name, part)
        as_npz(tmp_path / f"{name}.npz", part)
        files.append(tmp_path / name)
        plain.append(tmp_path / f"{name}.npz")
    report = report_of(tmp_path, files, "--joints-map", "left/*=*")
    expected = report_of(tmp_path, plain)
    assert report["states"] == expected["states"] == 5 * 570
    rows = zip(report["base_parameters"], expected["base_parameters"], strict=True)
    assert all(
        abs(fitted["value"] - reference["value"]) <= 1e-4 * reference["std"] for fitted, reference in rows
    )
    page = (tmp_path / "out" / "report.html").read_text()
    assert all(f"{name}.npz: velocities and accelerations are derivatives" in page for name in FORMATS)


def test_unknown_names_error_suggests_a_map(tmp_path, parts, capsys):
    as_bag(tmp_path / "bag", parts[0])
    (tmp_path / "robot.urdf").write_text(ARM)
    arguments = ["identify", str(tmp_path / "robot.urdf"), str(tmp_path / "bag"), "-o", str(tmp_path / "out")]
    assert main(arguments) == 3
    assert "--joints-map 'left/*=*'" in capsys.readouterr().err
    assert main([*arguments, "--joints-map", "right/*=*"]) == 3
    assert "but of left/joint1, left/joint2" in capsys.readouterr().err


# --- floating bases -----------------------------------------------------------------------------------------

FLYING = ARM.replace(
    '<link name="base"/>',
    '<link name="base"><inertial><origin xyz="0.05 0 0"/><mass value="3"/><inertia ixx="0.2" ixy="0" ixz="0" '
    'iyy="0.3" iyz="0" izz="0.25"/></inertial></link>',
)


class Flight:
    """The arm on a free base, with other bodies than described."""

    def __init__(self):
        self.robot = dn.parse_robot(FLYING, floating_base=True)
        self.linear = RegressorModel(self.robot, backend="numpy")
        self.truth = 1.2 * self.linear.described
        for term in ("viscous", "coulomb", "offset"):
            self.truth[self.linear.places(term)] += 0.3

    def recording(self, seed, count=2000, step=0.005):
        """Twists of sines and the poses that follow. The torques, with the wrench on the base, produce the motion."""
        random = np.random.default_rng(seed)
        time = step * np.arange(count)
        phases = np.multiply.outer(time, random.uniform(1, 7, (5, 8))) + random.uniform(0, 6, (5, 8))
        sizes = random.normal(size=(5, 8))
        qd = (sizes * np.sin(phases)).sum(axis=1)
        q = np.tile(self.robot.neutral(), (count, 1))
        q[:, 7:] = step * np.cumsum(qd[:, 6:], axis=0)
        move = self.robot.independent_joints[0].type.moved
        for k in range(1, count):
            q[k, :7] = move(q[k - 1, :7], 0.5 * step * (qd[k - 1, :6] + qd[k, :6]))
        qdd = np.gradient(qd, step, axis=0, edge_order=2)
        tau = self.linear.matrix(q, qd, qdd) @ self.truth + 0.02 * random.normal(size=qd.shape)
        return {"time": time, "q": q, "qd": qd, "tau": tau, "qdd": qdd}


def columns_of_flight(model, recording):
    arrays = {kind: recording[kind] for kind in ("time", "q", "qd", "tau")}
    return columns_of(arrays, model.v_names, model.q_names)


def test_identification_of_a_floating_base(tmp_path):
    flight = Flight()
    (tmp_path / "robot.urdf").write_text(FLYING)
    save_columns(tmp_path / "run.csv", columns_of_flight(flight.robot, flight.recording(1)))
    arguments = ["identify", str(tmp_path / "robot.urdf"), str(tmp_path / "run.csv"), "--floating-base"]
    assert main([*arguments, "-o", str(tmp_path / "out")]) == 0
    fitted = load_robot(
        tmp_path / "robot.urdf", parameters_file=tmp_path / "out" / "parameters.yaml", floating_base=True
    )
    unseen = flight.recording(2, 300)
    state = [unseen[kind] for kind in ("q", "qd", "qdd")]
    tau = dn.build(fitted, dn.inverse_dynamics(fitted), backend="numpy")(*state) + fitted.torque_offsets
    tau += smooth_friction(unseen["qd"], fitted.damping, fitted.friction)
    expected = flight.linear.matrix(*state) @ flight.truth
    assert np.all(np.std(tau - expected, axis=0) < 0.01 * np.std(expected, axis=0) + 0.02)
    assert abs(fitted.inertias[:, 5, 5].sum() - 7.2) < 0.01  # the mass of the whole robot


def test_missing_columns_of_a_floating_base_raise(tmp_path):
    flight, recording = Flight(), Flight().recording(1, 50)
    write_bag(tmp_path / "bag", [(TOPIC, NAMES, *np.zeros((3, 2)))])
    problem = dn.inverse_dynamics(flight.robot)
    with pytest.raises(TableError) as excinfo:
        open_table(tmp_path / "bag", flight.robot, problem, measured=True, cutoff=10.0)
    for first, last in (("q.floating_base.x", "q.floating_base.qw"), ("qd.floating_base.angular.x", "qd.floating_base.linear.z"),
                        ("tau.floating_base.angular.x", "tau.floating_base.linear.z")):  # fmt: skip
        assert f"{first} ... {last}" in str(excinfo.value)
    np.savez(tmp_path / "run.npz", **{kind: recording[kind] for kind in ("q", "tau", "time")})
    with pytest.raises(TableError, match=r"provide qd.floating_base.angular.x, .* qd.floating_base.linear.z"):
        open_table(tmp_path / "run.npz", flight.robot, problem, measured=True, cutoff=10.0)
    whole = columns_of_flight(flight.robot, recording)
    for absent in ("q.floating_base.qw", "tau.floating_base.linear.z"):
        save_columns(tmp_path / "run.csv", {name: column for name, column in whole.items() if name != absent})
        with pytest.raises(TableError, match=f"column '{absent}'"):
            open_table(tmp_path / "run.csv", flight.robot, problem, measured=True, cutoff=10.0)
