"""dynamics_controllers without ROS: loader and control law, compiled by the host, and the files of the package."""

import re
import subprocess
import time
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import yaml
from commands import exit_code
from controller_law import HERE, NAN, PACKAGE, PLAIN, ROOT, Law, LawLibrary, Status, compiled
from scipy.spatial.transform import Rotation

import dynamics_node as dn
from dynamics_demo import robots

G = 9.81
INERTIA, MOMENT = np.array([0.5, 0.1]), np.array([1.0, 0.3])  # of pendulums.c
POSITIONS = np.array([0.4, -1.2]), np.array([0.3, -0.7])  # q, qd
MOTION = POSITIONS[0] + np.array([0.02, -0.01]), POSITIONS[1] + np.array([0.1, 0.3]), np.array([2.0, -3.0])


def pendulums(q, qd, qdd):
    """Inverse dynamics of pendulums.c."""
    return INERTIA * qdd + G * MOMENT * np.sin(q) + 0.2 * np.prod(qd)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("controllers")


@pytest.fixture(scope="module")
def laws(once):
    return LawLibrary(once)


@pytest.fixture(scope="module")
def arm(folder):
    """The exported library of two pendulums."""
    return compiled(folder, "libarm.so", HERE / "pendulums.c")


@pytest.fixture(scope="module")
def changeable(folder):
    """The same with inertial parameters as an input."""
    (folder / "inertia").mkdir()
    return compiled(folder / "inertia", "libarm.so", HERE / "pendulums.c", flags=["-DINERTIA"])


# --- torques ------------------------------------------------------------------------------------------------


def test_effort_references_are_added_to_gravity_and_coriolis_torques(laws, arm):
    q, qd = POSITIONS
    status, tau = laws.law(arm, Law.EFFORT, 2).update(q, qd, effort=[1.0, -2.0])
    assert status is Status.OK
    np.testing.assert_allclose(tau, np.add([1.0, -2.0], pendulums(q, qd, 0)))


@pytest.mark.parametrize("effort", [0.0, NAN], ids=["zero", "nan"])
def test_gravity_stays_when_the_trajectory_controller_stops(laws, arm, effort):
    """joint_trajectory_controller writes zero efforts after an abort and when it is deactivated; references
    that nobody writes are NaN."""
    law = laws.law(arm, Law.EFFORT, 2)
    q = POSITIONS[0]
    assert law.update(q, np.zeros(2), effort=[5.0, 5.0])[0] is Status.OK
    status, tau = law.update(q, np.zeros(2), effort=effort)
    assert status is Status.OK
    np.testing.assert_allclose(tau, pendulums(q, np.zeros(2), 0))
    assert np.abs(tau).min() > 1


def test_feedforward_law_adds_gains_to_inverse_dynamics_of_the_reference(laws, arm):
    q, qd = POSITIONS
    position, velocity, acceleration = MOTION
    p, d = np.array([100.0, 50.0]), np.array([10.0, 5.0])
    law = laws.law(arm, Law.FEEDFORWARD, 2, p=p, d=d, armature=[0.05, 0.02])
    status, tau = law.update(q, qd, position=position, velocity=velocity, acceleration=acceleration)
    expected = pendulums(position, velocity, acceleration) + [0.05, 0.02] * acceleration
    assert status is Status.OK
    np.testing.assert_allclose(tau, expected + p * (position - q) + d * (velocity - qd))


def test_computed_torque_law_imposes_the_acceleration_of_the_error(laws, arm):
    q, qd = POSITIONS
    position, velocity, acceleration = MOTION
    law = laws.law(arm, Law.COMPUTED_TORQUE, 2, p=[100, 50], d=[10, 5], armature=0.05)
    status, tau = law.update(q, qd, position=position, velocity=velocity, acceleration=acceleration)
    wanted = acceleration + [100, 50] * (position - q) + [10, 5] * (velocity - qd)
    assert status is Status.OK
    np.testing.assert_allclose(tau, pendulums(q, qd, wanted) + 0.05 * wanted)


@pytest.mark.parametrize("law", [Law.FEEDFORWARD, Law.COMPUTED_TORQUE])
def test_joints_without_a_reference_are_carried_and_braked(laws, arm, law):
    q, qd = POSITIONS
    status, tau = laws.law(arm, law, 2, p=100, d=[10, 5]).update(q, qd)
    brake = -np.array([10, 5]) * qd
    expected = pendulums(q, qd, brake) if law is Law.COMPUTED_TORQUE else pendulums(q, qd, 0) + brake
    assert status is Status.OK
    np.testing.assert_allclose(tau, expected)


def test_one_joint_without_a_reference_does_not_disturb_the_other(laws, arm):
    q, qd = POSITIONS
    law = laws.law(arm, Law.FEEDFORWARD, 2, p=100, d=[10, 5])
    position, velocity, acceleration = np.array([0.5, NAN]), np.array([NAN, 9.0]), np.array([NAN, 9.0])
    status, tau = law.update(q, qd, position=position, velocity=velocity, acceleration=acceleration)
    expected = pendulums([0.5, q[1]], np.array([0.0, qd[1]]), 0)
    assert status is Status.OK
    np.testing.assert_allclose(tau - expected, [100 * (0.5 - q[0]) - 10 * qd[0], -5 * qd[1]])


def test_gains_change_while_the_law_runs(laws, arm):
    q, qd = POSITIONS
    position, velocity, acceleration = MOTION
    law = laws.law(arm, Law.FEEDFORWARD, 2, p=100, d=[10, 5])
    law.update(q, qd, position=position, velocity=velocity, acceleration=acceleration)
    p, d = np.array([30.0, 20.0]), np.array([3.0, 0.0])
    law.set_gains(p, d)
    _, tau = law.update(q, qd, position=position, velocity=velocity, acceleration=acceleration)
    expected = pendulums(position, velocity, acceleration)
    np.testing.assert_allclose(tau, expected + p * (position - q) + d * (velocity - qd))
    for bad in ([1.0, NAN], [-1.0, 1.0]):
        with pytest.raises(ValueError, match="gains must be finite and not negative"):
            law.set_gains(bad, d)
    assert (
        law.update(q, qd, position=position, velocity=velocity, acceleration=acceleration)[1] == tau
    ).all()


def test_gravity_can_be_left_to_the_drives(laws, arm):
    q, qd = POSITIONS
    status, tau = laws.law(arm, Law.EFFORT, 2, gravity=False).update(q, qd, effort=1.0)
    assert status is Status.OK
    np.testing.assert_allclose(tau, 1.0 + pendulums(q, qd, 0) - pendulums(q, np.zeros(2), 0))


def test_friction_follows_the_reference_and_without_one_the_state(laws, arm):
    q, qd = POSITIONS
    friction = dict(friction=True, viscous=[2.0, 1.0], coulomb=[0.5, 0.4])

    def rub(v):
        return np.multiply([2.0, 1.0], v) + [0.5, 0.4] * np.tanh(np.divide(v, 0.01))

    _, tau = laws.law(arm, Law.EFFORT, 2, **friction).update(q, qd, effort=0)
    np.testing.assert_allclose(tau, pendulums(q, qd, 0) + rub(qd))
    law = laws.law(arm, Law.FEEDFORWARD, 2, **friction)
    _, tau = law.update(q, qd, position=q, velocity=[0.004, NAN], acceleration=0)
    np.testing.assert_allclose(tau, pendulums(q, np.array([0.004, 0.0]), 0) + rub([0.004, 0.0]))


def test_continuous_joints_take_the_shorter_way(laws, arm):
    q = np.array([3.1, 3.1])
    law = laws.law(arm, Law.FEEDFORWARD, 2, p=100, continuous=[1, 0])
    _, tau = law.update(q, np.zeros(2), position=-q)
    errors = np.array([2 * np.pi - 6.2, -6.2])
    np.testing.assert_allclose(tau, pendulums(-q, np.zeros(2), 0) + 100 * errors)


def test_torques_stay_within_the_limits(laws, arm):
    law = laws.law(arm, Law.EFFORT, 2, effort_limit=[np.inf, 2.0])
    assert law.update(np.zeros(2), np.zeros(2), effort=[500.0, -1.9])[1].tolist() == [500.0, -1.9]
    assert law.limited_torques == 0
    assert law.update(np.zeros(2), np.zeros(2), effort=[500.0, -9.0])[1].tolist() == [500.0, -2.0]
    assert (law.limited_torques, law.limited_joint) == (1, 1)


# --- invalid states -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "q, qd", [([NAN, 0.1], [0, 0]), ([0.1, 0.1], [0, np.inf]), ([3.0, 0.1], [0, 0]), ([0, 0], [1e200, 1e200])],
    ids=["nan", "infinite", "singular", "overflow"],
)  # fmt: skip
def test_an_invalid_state_is_bridged_by_gravity_and_then_fails(laws, arm, q, qd):
    """Gravity torques of the last valid state for hold_time, whatever torque was the last; then no torques."""
    law = laws.law(arm, Law.EFFORT, 2, hold_time=0.0055)
    valid = POSITIONS[0]
    assert law.update(q, qd, effort=7.0)[0] is Status.FAILED  # there is no valid state yet
    assert law.update(valid, POSITIONS[1], effort=7.0)[0] is Status.OK
    for _ in range(2):
        status, tau = law.update(q, qd, effort=7.0)
        assert status is Status.HOLDING
        np.testing.assert_allclose(tau, pendulums(valid, np.zeros(2), 0))
    status, after = law.update(q, qd, effort=7.0)
    assert status is Status.FAILED
    assert np.isnan(after).all()  # not written
    assert law.invalid_states == 4
    assert law.update(valid, POSITIONS[1], effort=7.0)[0] is Status.OK
    assert law.update(q, qd, effort=7.0)[0] is Status.HOLDING  # the time begins again
    law.reset()
    assert law.update(q, qd, effort=7.0)[0] is Status.FAILED
    assert law.invalid_states == 6  # also those before the reset: the log has them a second later
    finite = np.isfinite(q) & np.isfinite(qd)
    assert law.invalid_joint == (2 if finite.all() else np.argmin(finite))


@pytest.mark.parametrize("period", [0.0, -1.0, NAN])
def test_a_period_without_meaning_does_not_end_the_bridge(laws, arm, period):
    law = laws.law(arm, Law.EFFORT, 2)
    law.update(*POSITIONS, effort=0)
    assert law.update([NAN, 0], [0, 0], effort=0, period=period)[0] is Status.HOLDING


# --- payload ------------------------------------------------------------------------------------------------


def test_payload_changes_the_torques_of_its_body(laws, changeable):
    law = laws.law(changeable, Law.EFFORT, 2)
    q = POSITIONS[0]
    np.testing.assert_allclose(law.update(q, np.zeros(2), effort=0)[1], pendulums(q, np.zeros(2), 0))
    law.attach(1, 2.0, [0.25, 0, 0], np.zeros((3, 3)))
    _, tau = law.update(q, np.zeros(2), effort=0)
    np.testing.assert_allclose(tau - pendulums(q, np.zeros(2), 0), [0, G * 0.5 * np.sin(q[1])])


def test_payloads_are_moved_to_the_axes_of_the_body(laws, changeable):
    """The moment about the joint's axis of a payload in a turned and shifted frame."""
    random = np.random.default_rng(3)
    A = random.normal(size=(3, 3))
    second = A @ A.T
    moments = np.trace(second) * np.eye(3) - second
    R = Rotation.random(random_state=4).as_matrix()
    position, center = random.normal(size=(2, 3))
    law = laws.law(changeable, Law.FEEDFORWARD, 2)
    still = dict(position=[0, 0], velocity=[0, 0], acceleration=[0, 1])
    before = law.update(np.zeros(2), np.zeros(2), **still)[1]
    law.attach(1, 2.0, center, moments, R, position)
    x = R @ center + position
    added = (R @ moments @ R.T)[2, 2] + 2.0 * (x[0] ** 2 + x[1] ** 2)
    np.testing.assert_allclose(law.update(np.zeros(2), np.zeros(2), **still)[1] - before, [0, added])


def test_inertia_of_another_thread_is_read_whole_and_in_order(laws):
    assert laws.c.latest_of(100_000) == 100_000


IMPOSSIBLE = {
    "negative": (-1.0, np.eye(3)),
    "nan": (NAN, np.eye(3)),
    "triangle": (1.0, np.diag([1.0, 1.0, 2.1])),
    "negative moments": (1.0, -np.eye(3)),
    "indefinite": (1.0, np.ones((3, 3))),
    "small triangle": (1.0, 1e-5 * np.diag([1.0, 1.0, 2.1])),
}


@pytest.mark.parametrize("mass, moments", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_impossible_payloads_are_rejected(laws, changeable, mass, moments):
    with pytest.raises(ValueError, match="payload"):
        laws.law(changeable, Law.EFFORT, 2).attach(0, mass, np.zeros(3), moments)


@pytest.mark.parametrize("moments", [np.zeros((3, 3)), np.diag([1.0, 1.0, 2.0]), 1e-8 * np.eye(3)])
def test_payloads_at_the_bounds_are_accepted(laws, changeable, moments):
    turned = Rotation.random(random_state=4).as_matrix()
    laws.law(changeable, Law.EFFORT, 2).attach(0, 1.0, np.zeros(3), turned @ moments @ turned.T)


# --- loading ------------------------------------------------------------------------------------------------


def test_loader_reads_joints_and_hash(laws, arm):
    law = laws.law(arm, Law.EFFORT, 2)
    assert law.joints == ["shoulder", "el\nbow"]
    assert law.urdf_hash == "1"


def test_libraries_that_do_not_load_are_named(laws, arm, folder):
    with pytest.raises(ValueError, match="libabsent.so.* does not load"):
        laws.law(folder / "libabsent.so", Law.EFFORT, 2)
    (folder / "arm.so").write_bytes(arm.read_bytes())
    with pytest.raises(ValueError, match="arm.so.*lib<prefix>.so"):
        laws.law(folder / "arm.so", Law.EFFORT, 2)
    (folder / "librobot.so").write_bytes(arm.read_bytes())
    with pytest.raises(ValueError, match="librobot.so.*'robot_inverse_dynamics_casadi'.*dynamics export"):
        laws.law(folder / "librobot.so", Law.EFFORT, 2)


def test_settings_that_do_not_fit_name_the_joint(laws, arm):
    with pytest.raises(ValueError, match="3 joints have settings.* has 2"):
        laws.law(arm, Law.EFFORT, 3)
    with pytest.raises(ValueError, match=r"'el\?bow': gains"):
        laws.law(arm, Law.FEEDFORWARD, 2, p=[1, -1])
    with pytest.raises(ValueError, match="'shoulder': the effort limit must be positive"):
        laws.law(arm, Law.EFFORT, 2, effort_limit=[0, 1])
    with pytest.raises(ValueError, match="hold_time"):
        laws.law(arm, Law.EFFORT, 2, hold_time=NAN)


def test_inputs_that_the_law_does_not_set_are_rejected(laws, folder):
    """The function would read them as zero: identified rotor inertias would vanish."""
    (folder / "armature").mkdir()
    library = compiled(folder / "armature", "libarm.so", HERE / "pendulums.c", flags=['-DINPUT="armature"'])
    with pytest.raises(ValueError, match="input 'armature', .*--runtime-parameters inertia"):
        laws.law(library, Law.EFFORT, 2)


@pytest.fixture(scope="module")
def five_bar(folder):
    """The robot, and the library that the command exports: q has four positions, qd two independent joints."""
    (folder / "five_bar.urdf").write_text(description := robots.five_bar())
    options = ["--target", "shared", "--name", "arm", "--quiet", "--runtime-parameters", "inertia"]
    assert exit_code(["export", folder / "five_bar.urdf", *options, "-o", folder / "five_bar"]) == 0
    return dn.parse_robot(description), folder / "five_bar" / "libarm.so"


def test_loops_are_closed_by_the_exported_step(laws, five_bar):
    """Measured are the independent joints; torques are those at the closed position, also of the reference."""
    robot, library = five_bar
    law, p = laws.law(library, Law.FEEDFORWARD, 2, p=10.0), 10.0
    assert law.joints == list(robot.v_names) == ["j1", "j2"]
    inverse, solver = dn.build(robot, "inverse_dynamics", backend="numpy"), dn.build_loop_solver(robot)
    closed = None
    for k in range(200):
        t = 0.4 + 0.01 * k  # the first state is far from the closed position of the library
        wanted = [0.4 * np.sin(3 * t), -0.3 * np.sin(2 * t)]
        qd, qdd = [1.2 * np.cos(3 * t), -0.6 * np.cos(2 * t)], [-3.6 * np.sin(3 * t), 1.2 * np.sin(2 * t)]
        off = np.array([0.001, -0.002])
        status, tau = law.update(wanted + off, qd, position=wanted, velocity=qd, acceleration=qdd)
        start = np.full(robot.nq, NAN)
        start[[robot.q_names.index(name) for name in law.joints]] = wanted
        closed, _ = solver.following(start, closed)
        assert status is Status.OK
        np.testing.assert_allclose(tau, inverse(closed, qd, qdd) - p * off, rtol=0, atol=1e-9)


def test_states_at_which_loops_cannot_close_are_invalid(laws, five_bar):
    _, library = five_bar
    law = laws.law(library, Law.EFFORT, 2)
    assert law.update([0.1, 0.1], [0, 0], effort=0)[0] is Status.OK
    assert law.update([2.5, -2.5], [0, 0], effort=0)[0] is Status.HOLDING
    assert law.invalid_joint == 2  # none: all states are finite
    assert law.update([0.1, 0.1], [0, 0], effort=0)[0] is Status.OK


def test_robots_with_more_positions_than_joints_are_rejected(laws, folder):
    (folder / "loop").mkdir()
    library = compiled(folder / "loop", "libarm.so", HERE / "pendulums.c", flags=["-DPOSITIONS=4"])
    with pytest.raises(ValueError, match="4 positions for 2 joints; ball joints and floating bases"):
        laws.law(library, Law.EFFORT, 2)


def test_other_joints_and_descriptions_are_named(laws, arm):
    law = laws.law(arm, Law.EFFORT, 2)
    assert law.fault(joints=["el\nbow", "shoulder"]) is None  # in any order
    assert re.search("'wrist' of the parameter joints is not in", law.fault(joints=["shoulder", "wrist"]))
    assert re.search(r"moves the joint 'el\?bow'.*--joints='shoulder'", law.fault(joints=["shoulder"]))
    assert law.fault(urdf_hash="1") is None
    assert re.search("SHA-256 '1'.*'abc'.*export again", law.fault(urdf_hash="abc"))


def test_export_runs_a_command_with_an_argument_vector(laws, folder, changeable):
    """The description is a file; no shell reads it or the names of joints."""
    script, log = folder / "command", folder / "words"
    script.write_text(
        f"""#!/bin/sh
printf '%s\n' "$@" > {log}
cat "$2" >> {log}
mkdir "${{8#--output=}}"
cp {changeable} "${{8#--output=}}/librobot.so"
"""
    )
    script.chmod(0o700)
    with pytest.raises(ValueError, match="librobot.so.*'robot_inverse_dynamics_casadi'"):  # it is named arm
        laws.exported(script, "<robot>$(touch {folder}/bad)</robot>", "a;`b`")
    words = log.read_text().splitlines()
    assert words[0] == "export" and words[-1] == "<robot>$(touch {folder}/bad)</robot>"
    assert "--joints=a;`b`" in words and "--runtime-parameters=inertia" in words
    assert not Path(words[1]).parent.exists()  # the folder is removed


def test_failures_of_the_export_have_its_last_line(laws, folder):
    script = folder / "failing"
    script.write_text("#!/bin/sh\necho first\necho 'dynamics: no joint' >&2\nexit 3\n")
    script.chmod(0o700)
    with pytest.raises(ValueError, match="fails: 'dynamics: no joint'"):
        laws.exported(script, "<robot/>", "a")
    with pytest.raises(ValueError, match="absent' does not run: No such file"):
        laws.exported(folder / "absent", "<robot/>", "a")


def test_exports_that_hang_are_ended_with_their_children(laws, folder):
    script, sign = folder / "hanging", folder / "child"
    script.write_text(f"#!/bin/sh\nsleep 1000 &\necho $! > {sign}\nwait\n")
    script.chmod(0o700)
    with pytest.raises(ValueError, match="exceeds 3000 ms"):
        laws.exported(script, "<robot/>", "a", seconds=3)
    state = Path("/proc", sign.read_text().strip(), "stat")
    while state.exists() and state.read_text().split()[2] != "Z":  # SIGKILL takes effect a little later
        time.sleep(0.01)


# --- real time ----------------------------------------------------------------------------------------------


def test_update_neither_allocates_nor_locks_nor_writes(folder, laws, arm, changeable, five_bar):
    """Functions of the host program take the place of malloc, free, pthread_mutex_lock and write."""
    host = compiled(folder, "calls_in_update", *laws.objects, HERE / "calls_in_update.cpp")
    for library in arm, changeable, five_bar[1]:
        done = subprocess.run([host, library], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        lines = [line.split() for line in done.stdout.splitlines()]
        counts = {name: [int(number) for number in numbers] for name, *numbers in lines}
        assert min(counts.pop("on_purpose")[1:]) > 0  # they are counted
        assert counts == {law.name.lower(): [2000, 0, 0, 0] for law in Law}


# --- files of the package -----------------------------------------------------------------------------------


def xml(name):
    return ElementTree.parse(PACKAGE / name).getroot()


def cmake():
    text = re.sub(r"#.*", "", (PACKAGE / "CMakeLists.txt").read_text())
    return text.replace("${PROJECT_NAME}", re.search(r"project\((\w+)\)", text).group(1))


def sources(suffix):
    return {path.name: path.read_text() for path in PACKAGE.rglob(f"*{suffix}")}


def leaves(table, prefix=""):
    """Names of the parameters of a file of generate_parameter_library, `__map_joints` as `joints_map`."""
    for key, value in table.items():
        name = re.sub(r"^__map_(\w+)$", r"\1_map", key)
        if "type" in value:
            yield prefix + name
        else:
            yield from leaves(value, f"{prefix}{name}.")


def test_package_has_the_version_of_the_repository():
    root = ElementTree.parse(ROOT / "package.xml").getroot()
    for field in ("version", "license", "maintainer"):
        assert xml("package.xml").findtext(field) == root.findtext(field)
    (project,) = re.findall(r"project\((\w+)\)", cmake())
    assert xml("package.xml").findtext("name") == PACKAGE.name == project


def test_dependencies_of_cmake_are_declared():
    """Eigen3 and inverse_dynamics_solver belong to a plugin that is built where the latter is installed."""
    named = set(re.findall(r"find_package\((\w+) REQUIRED\)", cmake())) - {"Eigen3"}
    (listed,) = re.findall(r"foreach\(package ([\w\s]+)\)", cmake())
    declared = {entry.text for entry in xml("package.xml") if entry.tag.endswith("depend")}
    assert named | set(listed.split()) <= declared | {"dynamics_interfaces"}
    assert "dynamics_node" in declared  # installs dynamics_interfaces
    used = set().union(
        *(re.findall(r"(\w+)::\w+", line) for line in re.findall(r"target_link_libraries\([^)]*\)", cmake()))
    )
    assert used - {"Eigen3"} <= set(listed.split())


@pytest.mark.parametrize("file, base", [
    ("dynamics_controllers.xml", "controller_interface"), ("inverse_dynamics_solver.xml", "inverse_dynamics_solver"),
])  # fmt: skip
def test_plugins_are_those_of_the_libraries(file, base):
    library, (plugin,) = xml(file), xml(file).findall("class")
    declared = re.search(rf"add_library\({library.get('path')} SHARED ([^)]*)\)", cmake()).group(1).split()
    exports = [
        re.search(r"PLUGINLIB_EXPORT_CLASS\(\s*([\w:]+),\s*([\w:]+)\)", (PACKAGE / source).read_text())
        for source in declared
    ]
    (own,) = [match.groups() for match in exports if match]
    assert own == (plugin.get("type"), plugin.get("base_class_type"))
    assert plugin.get("name") == plugin.get("type").replace("::", "/")
    assert plugin.get("base_class_type").startswith(f"{base}::")
    assert f"pluginlib_export_plugin_description_file({base} {file})" in cmake()
    installed = re.search(r"set\(libraries ([^)]*)\)", cmake()).group(1).split()
    installed += re.findall(r"list\(APPEND libraries (\w+)\)", cmake())
    assert library.get("path") in installed


def test_package_uses_no_file_outside_its_folder():
    """It is released from a repository of its own."""
    assert ".." not in cmake()
    for text in (sources(".cpp") | sources(".hpp") | sources(".c")).values():
        assert not re.search(r'#include "[^"]*\.\./', text)


def test_headers_of_other_packages_have_the_names_of_their_releases():
    """ROS 2 packages name C++ headers .hpp; inverse_dynamics_solver does since 1.0.0, which CMake requires."""
    included = re.findall(
        r'#include "(\w+/[\w/]+\.h)"', "".join((sources(".cpp") | sources(".hpp")).values())
    )
    assert [name for name in included if name.startswith("inverse_dynamics_solver/")] == []
    assert "find_package(inverse_dynamics_solver 1.0 QUIET)" in cmake()


def test_every_source_is_compiled():
    compiled_files = set(re.findall(r"src/(\w+\.cpp)", cmake()))
    assert compiled_files == {path.name for path in (PACKAGE / "src").glob("*.cpp")}


def test_parameters_of_the_file_are_those_of_the_code():
    (table,) = yaml.safe_load((PACKAGE / "src" / "dynamics_feedforward.yaml").read_text()).items()
    code = sources("dynamics_feedforward.cpp")["dynamics_feedforward.cpp"]
    header = sources("dynamics_feedforward.hpp")["dynamics_feedforward.hpp"]
    assert f"{table[0]}::ParamListener" in header
    assert re.search(r"generate_parameter_library\((\w+)", cmake()).group(1) + ".hpp" in header
    names = set(leaves(table[1]))
    used = {re.sub(r"\.c_str$", "", name) for name in re.findall(r"\bparams_\.([\w.]*\w)", code)}
    used -= {f"gains.joints_map.{name}" for name in ("at", "find", "end")} | {"drives.joints_map.at"}
    for local, group in ("gains", "gains"), ("drive", "drives"):
        used |= {f"{group}.joints_map.{name}" for name in re.findall(rf"(?<![\w.]){local}\.(\w+)", code)}
    assert used == names


def test_laws_of_the_parameter_are_those_of_the_code():
    table = yaml.safe_load((PACKAGE / "src" / "dynamics_feedforward.yaml").read_text())[
        "dynamics_feedforward"
    ]
    (laws,) = table["law"]["validation"]["one_of<>"]
    header = sources("feedforward_law.hpp")["feedforward_law.hpp"]
    assert re.findall(r"^  (\w+), ", header.split("enum class Law")[1].split("}")[0], re.MULTILINE) == laws
    assert [law.name.lower() for law in Law] == laws


def test_sources_that_the_host_compiles_include_no_ros():
    plain = set(PLAIN) | {name.replace(".cpp", ".hpp") for name in PLAIN}
    for name, text in (sources(".cpp") | sources(".hpp")).items():
        included = re.findall(r'#include [<"]([\w/.]+)[>"]', text)
        assert name not in plain or not any("rcl" in i or "urdf" in i or "interface" in i for i in included)
