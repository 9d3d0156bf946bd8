"""The robot in use after valid and invalid descriptions and parameters. Robots are built in this process; for the
order of builds, see test_builds.py."""

import dataclasses
import time

import numpy as np
import pytest
from plain import robot_settings, settings
from robots import PANDA_JOINTS, ROBOTS
from tolerances import EXACT, error

from dynamics_demo.robots import five_bar, geared_chain
from dynamics_node.node.building.build_job import do
from dynamics_node.node.building.build_process import Builds
from dynamics_node.node.core.robot_manager import MOST_WARNINGS, RobotManager
from dynamics_node.robot.safe_xml import MAX_BYTES

PANDA = ROBOTS["panda7"].file.read_text()
UR5 = ROBOTS["ur5"].file.read_text()


class Log:
    def __init__(self):
        self.lines = []

    def info(self, text):
        self.lines.append(("info", text))

    def warning(self, text):
        self.lines.append(("warning", text))

    def error(self, text):
        self.lines.append(("error", text))

    def of(self, level):
        return [text for kind, text in self.lines if kind == level]


class BuildHere:
    """A Building without a process: poll builds the robot."""

    def __init__(self, job, background):
        self.job = job

    def poll(self):
        return do(self.job)

    def cancel(self):
        pass


class Node:
    """The calls of the node to RobotManager."""

    def __init__(self, chosen=None, **values):
        chosen = chosen or robot_settings("panda7", **values)
        self.log, self.began = Log(), 0
        self.manager = RobotManager(chosen, self.log, self._begin, Builds(BuildHere, time.monotonic))

    def _begin(self):
        self.began += 1

    def finish(self):
        while self.manager.building:
            self.manager.step()
        return self

    def describe(self, text):
        self.manager.describe(text)
        return self.finish()

    def set(self, **values):
        """Validate and use parameters as the node does."""
        changed = dataclasses.replace(self.manager.settings, **values)
        self.manager.check(changed)
        self.manager.use(changed)
        return self

    @property
    def core(self):
        return self.manager.core

    def tau(self, case, q=None, qd=None):
        q, qd = case.q if q is None else q, case.qd if qd is None else qd
        self.core.joints.update(case.names, q, qd, (), self.core.joints.newest + 1, 0)
        return self.core.solve(lambda: 0, 0).tau


# --- sources of descriptions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["robot_description", "robot_description_file"])
def test_a_parameter_overrides_the_topic(panda, how):
    node = Node(**{how: str(panda.robot.file) if how.endswith("file") else PANDA})
    node.manager.load_configured()
    for _ in range(3):
        node.describe("<robot name='other'><link name='l'/></robot>")
    node.manager.reject_length(MAX_BYTES + 17)
    assert error(node.tau(panda), panda.torque()) <= EXACT
    ignored = "robot_description on the topic is ignored: a parameter specifies the description"
    assert node.manager.failure == "" and node.log.of("info").count(ignored) == 1


def test_a_missing_file_is_an_error():
    node = Node(robot_description_file="/nowhere/robot.urdf")
    node.manager.load_configured()
    assert "robot_description_file" in node.manager.failure and "/nowhere/robot.urdf" in node.manager.failure
    assert node.core is None and node.log.of("error") == [node.manager.failure]


def test_reload_reads_the_file_again(panda, tmp_path):
    path = tmp_path / "robot.urdf"
    path.write_text(PANDA)
    node = Node(robot_description_file=str(path))
    node.manager.load_configured()
    before = node.finish().tau(panda)
    path.write_text(PANDA.replace("panda_link0", "pedestal"))
    assert node.manager.reload() == (True, "building")
    assert node.finish().core.model.base_link == "pedestal" and error(node.tau(panda), before) <= EXACT


def test_reload_during_a_build_reads_the_new_file(tmp_path):
    file = tmp_path / "parameters.yaml"
    text = "links: {panda_link7: {mass: 2.0, com: [0, 0, 0], inertia: {ixx: 0.1, iyy: 0.1, izz: 0.1, ixy: 0, ixz: 0, iyz: 0}}}\n"
    file.write_text(text)
    node = Node(parameters_file=str(file)).describe(PANDA)
    node.manager.reload()
    node.manager.step()  # it has read the file
    file.write_text(text.replace("2.0", "-3.0"))
    assert node.manager.reload() == (True, "building")
    assert "mass -3" in node.finish().manager.failure


def test_reload_without_a_description_fails():
    assert Node().manager.reload() == (False, "no robot description yet")


def test_a_description_that_is_too_long_is_rejected(panda):
    node = Node().describe(PANDA)
    node.manager.reject_length(MAX_BYTES + 17)
    assert "do not embed meshes" in node.manager.failure
    assert error(node.tau(panda), panda.torque()) <= EXACT


# --- bad descriptions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, reason",
    [
        ("<robot", "malformed XML"),
        ("", "malformed XML"),
        ('<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><robot>&x;</robot>', "DTD or an entity"),
        ("<robot name='r'><link name='a'/><link name='b'/></robot>", "without a parent joint: 'a', 'b'"),
    ],
)
def test_an_invalid_description_keeps_the_last_robot(panda, text, reason):
    node = Node().describe(PANDA).describe(text)
    assert reason in node.manager.failure and node.log.of("error") == [node.manager.failure]
    assert error(node.tau(panda), panda.torque()) <= EXACT
    assert node.describe(PANDA).manager.failure == ""


def test_parameters_apply_after_an_invalid_description(panda):
    """Regression of the fuzz test: the invalid text was built again and the new value was not used."""
    node = Node().describe(PANDA).describe("<robot")
    node.set(gravity=(0.0, 0.0, 0.0), solver="factor_graph", ordering="aba").finish()
    assert node.core.solver.description == "aba"
    assert np.abs(node.tau(panda, qd=np.zeros(7))).max() < 1e-12


def test_a_description_is_rebuilt_when_a_parameter_changes(panda):
    node = Node(joints=["no_such_joint"]).describe(PANDA)
    assert "unknown joint 'no_such_joint'" in node.manager.failure and node.core is None
    node.set(joints=PANDA_JOINTS).finish()
    assert error(node.tau(panda), panda.torque()) <= EXACT and node.manager.failure == ""


def test_a_robot_that_does_not_match_the_settings_is_rejected(panda):
    """Its joints differ from command_joints: the old robot remains."""
    node = Node(command_joints=PANDA_JOINTS[:3]).describe(PANDA).set(joints=()).describe(UR5)
    assert "command_joints: unknown joint 'panda_joint1'" in node.manager.failure
    assert node.core.joints.names[:7] == PANDA_JOINTS


def test_driven_joints_require_loops():
    node = Node(driven__joints=["panda_joint1"]).describe(PANDA)
    assert "requires closed loops" in node.manager.failure and node.core is None


# --- other robots -------------------------------------------------------------------------------------------


def test_other_joints_clear_the_state(panda):
    node = Node(settings(backend="numpy")).describe(PANDA)
    first = node.core
    assert node.describe(UR5).core is not first
    assert len(node.core.joints.names) == 6 and node.core.joints.missing()


def test_the_same_joints_keep_the_state(panda):
    node = Node().describe(PANDA)
    tau = node.tau(panda)
    first = node.core
    node.describe(PANDA.replace("panda_link0", "pedestal"))
    assert node.core is first and error(node.core.solve(lambda: 0, 0).tau, tau) <= EXACT


def test_trees_and_loops_can_be_exchanged():
    node = Node(settings(backend="numpy")).describe(geared_chain(2)).describe(PANDA)
    assert len(node.core.joints.names) == 8
    node.describe(five_bar())
    assert len(node.core.joints.names) == 4 and node.core.model.nv == 2


def test_a_loops_file_is_read_by_the_build(tmp_path):
    file = tmp_path / "loops.yaml"
    file.write_text("closed_loop: [[end2, end4]]\ntype: [3d]\n")
    ends = (
        '<link name="end2"/><link name="end4"/>'
        '<joint name="e2" type="fixed"><parent link="left_lower"/><child link="end2"/><origin xyz="0.5 0 0"/></joint>'
        '<joint name="e4" type="fixed"><parent link="right_lower"/><child link="end4"/><origin xyz="0.5 0 0"/></joint>'
    )
    text = five_bar().split("<loop")[0] + ends + "</robot>"
    node = Node(settings(backend="numpy", loops_file=str(file))).describe(text)
    assert node.core.model.nv == 2 and node.manager.failure == ""
    file.unlink()
    node.manager.reload()
    assert "loops.yaml" in node.finish().manager.failure and node.core.model.nv == 2


# --- settings -----------------------------------------------------------------------------------------------


def test_settings_are_checked_during_a_build():
    """Regression of the fuzz test: the check was skipped."""
    node = Node().describe(PANDA).set(solver="factor_graph")
    assert node.manager.building
    with pytest.raises(ValueError, match="effort_limits_list.* 0 "):
        node.set(effort_limits="list")


@pytest.mark.parametrize(
    "values, reason",
    [
        ({"problem": "hybrid", "forward_joints": ("knee",)}, "forward.*'knee'"),
        ({"command_joints": ("knee",)}, "command_joints.*'knee'.*panda_joint1"),
        ({"friction_joints": ("knee",)}, "friction.joints.*'knee'.*panda_joint1"),
        ({"tip_links": ("nose",)}, "tip_links.*'nose'"),
        ({"effort_limits": "list", "effort_limits_list": (1.0,)}, "effort_limits_list.* 1 "),
        ({"driven_joints": ("panda_joint1",)}, "driven.joints.*loops"),
    ],
)
def test_settings_that_do_not_match_the_robot_are_rejected(values, reason):
    node = Node().describe(PANDA)
    before = node.manager.settings
    with pytest.raises(ValueError, match=reason):
        node.set(**values)
    assert node.manager.settings is before and node.core.settings is before


def test_settings_for_other_joints_are_checked_after_the_build(panda):
    node = Node().describe(PANDA)
    node.set(joints=PANDA_JOINTS[:4], command_joints=PANDA_JOINTS[:2]).finish()
    assert node.core.joints.names == PANDA_JOINTS[:4] and len(node.core.command_index) == 2


def test_settings_without_a_rebuild_apply_at_once(panda):
    node = Node().describe(PANDA)
    began = node.began
    node.set(gravity=(0.0, 0.0, 0.0), effort_limits="none", rate=50.0)
    assert node.began == began and not node.manager.building
    assert np.abs(node.tau(panda, qd=np.zeros(7))).max() < 1e-12


def test_the_problem_can_change_at_run_time(panda):
    node = Node().describe(PANDA).set(problem="forward").finish()
    assert node.core.solver.problem.kind == "forward"
    node.set(problem="inverse").finish()
    assert error(node.tau(panda), panda.torque()) <= EXACT


@pytest.mark.parametrize("ordering", ["colamd", "metis", "minimum_degree", "rnea"])
def test_the_ordering_can_change_at_run_time(panda, ordering):
    node = Node().describe(PANDA)
    node.set(solver="factor_graph", ordering=ordering).finish()
    assert node.core.solver.description == ordering and node.core.solver.choice.solver == "factor_graph"
    assert error(node.tau(panda), panda.torque()) <= EXACT


# --- log lines ----------------------------------------------------------------------------------------------


def test_a_missing_compiler_is_logged_once(panda, monkeypatch, fresh, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    node = Node(backend="auto").describe(PANDA)
    assert node.core.solver.choice.backend == "numpy" and node.manager.failure == ""
    assert len([line for line in node.log.of("warning") if "no C compiler on the PATH" in line]) == 1
    assert error(node.tau(panda), panda.torque()) <= EXACT


def test_the_served_robot_is_logged_once():
    node = Node().describe(PANDA)
    node.describe(PANDA).describe(PANDA)
    assert node.log.of("info") == ["panda: 7 joints, inverse dynamics by rnea (numpy)"]


def test_warnings_of_a_robot_are_limited():
    link = "<link name='{0}'><inertial><mass value='1'/><inertia ixx='9' ixy='0' ixz='0' iyy='1' iyz='0' izz='1'/></inertial></link>"
    joint = "<joint name='j{0}' type='continuous'><parent link='{1}'/><child link='{0}'/></joint>"
    count = MOST_WARNINGS + 5
    parts = "".join(link.format(k) + joint.format(k, k - 1 if k > 1 else "root") for k in range(1, count + 1))
    node = Node(settings(backend="numpy")).describe(f"<robot name='r'><link name='root'/>{parts}</robot>")
    assert len(node.core.model.warnings) >= count
    warnings = node.log.of("warning")
    assert len(warnings) == MOST_WARNINGS + 1 and warnings[-1].endswith("more warnings: see `dynamics info`")


def test_a_xacro_file_is_expanded(panda, tmp_path):
    pytest.importorskip("xacro", reason="xacro: pip install xacro")
    path = tmp_path / "panda.urdf.xacro"
    path.write_text(PANDA)
    node = Node(robot_description_file=str(path))
    node.manager.load_configured()
    assert error(node.finish().tau(panda), panda.torque()) <= EXACT
    path.write_text(path.read_text().replace("</robot>", "<xacro:nothing/></robot>"))
    broken = Node(robot_description_file=str(path))
    broken.manager.load_configured()
    assert "nothing" in broken.manager.failure


def test_a_new_robot_without_the_payload_is_a_warning():
    node = Node().describe(PANDA)
    node.core.set_payload("panda_hand", 1.0, np.zeros(3), np.zeros((3, 3)))
    node.set(gravity=(0.0, 0.0, -1.6))
    assert node.core.payloads and not node.log.of("warning")
    node.set(joints=("panda_joint1",), fixed_joints=(), fixed_positions=()).finish()
    assert not node.core.payloads
    assert node.log.of("warning")[-1] == "the new robot has no payload on 'panda_hand': set it again"


def test_the_payload_of_an_unknown_link_is_not_estimated():
    node = Node().describe(PANDA)
    with pytest.raises(ValueError, match="payload_estimation.link.*'tol0'"):
        node.set(payload_estimation_link="tol0")
