"""Files in MJCF, against MuJoCo; and the URDF that is written of them."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
from mjcf_texts import ARM, FINGERS, FOUR_BAR, PENDULUM, TEXTS
from tolerances import EXACT

import dynamics_node as dn
from dynamics_node.algorithms import Actuation
from dynamics_node.algorithms.first_positions import closed_samples
from dynamics_node.algorithms.joint_friction import JointFriction
from dynamics_node.algorithms.rates import sampled_rates
from dynamics_node.robot.loading import read_description
from dynamics_node.robot.mjcf import read_mjcf
from dynamics_node.robot.urdf_writer import left_out, urdf_text

mujoco = pytest.importorskip("mujoco", reason="MuJoCo: pip install mujoco")


class Truth:
    """MuJoCo's mass matrix and forces, in our coordinates: rates of MuJoCo are T times ours."""

    def __init__(self, path, robot):
        spec = mujoco.MjSpec.from_file(str(path))
        spec.compiler.fusestatic = False
        self.model, self.robot = spec.compile(), robot
        self.data = mujoco.MjData(self.model)
        bits = mujoco.mjtDisableBit
        self.model.opt.disableflags |= bits.mjDSBL_CONSTRAINT | bits.mjDSBL_SPRING | bits.mjDSBL_DAMPER
        ours = {body.joint.name: body.joint for body in robot.bodies}
        bodies = [self.model.body(k).name or f"body_{k}" for k in range(self.model.nbody)]
        owners = [bodies[body] for body in self.model.jnt_bodyid]
        names = [self.model.joint(k).name or f"{owner}_joint_{k}" for k, owner in enumerate(owners)]
        self.joints = [ours[name] for name in names]

    def place(self, q, qd):
        """T (nv, nv) and dT/dt qd at a state of the tree."""
        T, turning, nv = np.zeros((self.model.nv, self.robot.tree.nv)), np.zeros(self.model.nv), len(qd)
        for k, joint in enumerate(self.joints):
            at, v = self.model.jnt_qposadr[k], self.model.jnt_dofadr[k]
            mine, rates = joint.position(q), np.eye(nv)[joint.v]
            if joint.kind == "floating":
                self.data.qpos[at : at + 7] = [*mine[:3], mine[6], *mine[3:6]]
                R = np.zeros(9)
                mujoco.mju_quat2Mat(R, self.data.qpos[at + 3 : at + 7])
                T[v : v + 3], T[v + 3 : v + 6] = R.reshape(3, 3) @ rates[3:], rates[:3]
                turning[v : v + 3] = R.reshape(3, 3) @ np.cross(qd[joint.v][:3], qd[joint.v][3:])
            elif joint.kind == "ball":
                self.data.qpos[at : at + 4], T[v : v + 3] = [mine[3], *mine[:3]], rates
            else:
                self.data.qpos[at], T[v] = mine[0], joint.rate(np.eye(nv)).T
        return T, turning

    def mass_and_bias(self, q, qd):
        T, turning = self.place(q, qd)
        self.data.qvel[:] = T @ qd
        mujoco.mj_forward(self.model, self.data)
        M = np.array([self._times(unit) for unit in np.eye(self.model.nv)])
        return T.T @ M @ T, T.T @ (M @ turning + self.data.qfrc_bias)

    def _times(self, unit):
        column = np.zeros(self.model.nv)
        mujoco.mj_mulM(self.model, self.data, column, unit)
        return column


def compare(path, count=4, truth_from=None):
    robot, random = dn.load_robot(path), np.random.default_rng(5)
    truth = Truth(truth_from or path, robot)
    mass = dn.build(robot, "mass_matrix", backend="numpy")
    bias = dn.build(robot, "nonlinear_effects", backend="numpy")
    for q in closed_samples(robot, count, random):
        qd = random.uniform(-1, 1, robot.nv)
        rates = sampled_rates(robot, q, qd)
        M, forces = truth.mass_and_bias(q, rates.qd)
        assert np.abs(mass(q) - rates.G.T @ M @ rates.G).max() < EXACT * np.abs(M).max()
        expected = rates.G.T @ (M @ rates.accelerations(np.zeros(robot.nv)) + forces)
        assert np.abs(bias(q, qd) - expected).max() < EXACT * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_dynamics_of_mujoco(text, tmp_path):
    file = tmp_path / "robot.xml"
    file.write_text(text)
    compare(file)


def _published():
    """Files of robots in MJCF that installed packages carry."""
    found = []
    for package, pattern in (
        ("dm_control", "suite/*.xml"),
        ("robosuite", "models/assets/robots/*/robot.xml"),
        ("gymnasium", "envs/mujoco/assets/*.xml"),
    ):
        spec = importlib.util.find_spec(package)
        found += sorted(Path(spec.submodule_search_locations[0]).glob(pattern)) if spec else []
    return [path for path in found if path.stem != "lqr"]


@pytest.mark.parametrize(
    "path", _published() or [None], ids=lambda path: path and f"{path.parent.name}/{path.stem}"
)
def test_published_robots(path):
    if path is None:
        pytest.skip("models in MJCF: pip install gymnasium, or dm_control robosuite")
    compare(path, 2)


def test_numbers_of_joints(tmp_path):
    file = tmp_path / "arm.xml"
    file.write_text(ARM)
    joints = {joint.name: joint for joint in read_mjcf(file).joints}
    yaw, reach, knee = (joints[name] for name in ("yaw", "reach", "knee"))
    assert (yaw.limits.lower, yaw.limits.upper) == pytest.approx((-np.pi / 2, np.pi / 2))
    assert yaw.limits.effort == 40
    assert knee.limits.effort == 50 * 2 + 2 * 3
    assert any("unequal ranges" in warning and "yaw, knee" in warning for warning in read_mjcf(file).warnings)
    assert (yaw.armature, yaw.damping, yaw.friction) == (0.01, 0.2, 0.1)
    assert (reach.spring, reach.torque_offset) == pytest.approx((100, -20))
    robot = dn.load_robot(file)
    assert robot.gravity.tolist() == [0, 1, -9.7]
    assert "mount" in robot.frames
    spring = dn.friction_torque(robot, robot.neutral(), np.zeros(robot.nv))
    assert spring[robot.v_names.index("reach")] == pytest.approx(-20)  # it is 0.2 m from its rest


@pytest.mark.parametrize(
    "actuators",
    [
        '<motor joint="j" ctrlrange="-1 1" gear="50" forcerange="-5 5"/>',
        '<motor joint="j" ctrlrange="-1 1" forcerange="-.3 .3"/> <motor joint="j" ctrlrange="-.1 .2" gear="-3"/>',
        '<motor joint="j" ctrlrange="0 1" gear="50"/> <motor joint="j" ctrlrange="0 1" gear="-40"/>',  # antagonists
        '<general joint="j" gainprm="-4" ctrlrange="-1 2" forcerange="-6 3" gear="2"/>',
        '<general joint="j" dyntype="filter" dynprm="1e-3" gainprm="4" ctrlrange="-1 1"/>',
        '<position joint="j" kp="100" forcerange="-7 7"/>',
    ],
)
def test_the_largest_torque_of_actuators(actuators, tmp_path):
    file = tmp_path / "arm.xml"
    file.write_text(
        '<mujoco><worldbody><body><joint name="j" axis="0 0 1"/><inertial pos="0 0 0" mass="1" '
        f'diaginertia="1 1 1"/></body></worldbody><actuator>{actuators}</actuator></mujoco>'
    )
    model = mujoco.MjModel.from_xml_path(str(file))
    data, torques = mujoco.MjData(model), []
    for signs in np.array(np.meshgrid(*[(-9.0, 9.0)] * model.nu)).reshape(model.nu, -1).T:
        data.ctrl[:] = signs
        if model.na:  # a filter ends at the control within its range
            data.act[:] = np.clip(signs, *model.actuator_ctrlrange.T)
        mujoco.mj_forward(model, data)
        torques.append(data.qfrc_actuator[0])
    assert dn.load_robot(file).effort_limits == pytest.approx(np.abs(torques).max())


def test_loops_close_where_mujoco_closes_them(tmp_path):
    file = tmp_path / "four_bar.xml"
    file.write_text(FOUR_BAR)
    robot = dn.load_robot(file)
    assert [constraint.kind for constraint in robot.constraints] == ["ball"]
    truth = Truth(file, robot)
    truth.model.opt.disableflags &= ~int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    (q,) = closed_samples(robot, 1, np.random.default_rng(2))
    truth.place(q, np.zeros(robot.tree.nv))
    mujoco.mj_forward(truth.model, truth.data)
    assert np.abs(truth.data.efc_pos[: truth.data.ne]).max() < 1e-9


def test_tendons_that_couple_joints_are_gears(tmp_path):
    """MuJoCo's equality holds at our positions; forces of tendons and of motors at them are MuJoCo's."""
    file = tmp_path / "fingers.xml"
    file.write_text(FINGERS)
    robot, random = dn.load_robot(file), np.random.default_rng(4)
    assert robot.v_names == ("a", "b", "c", "d")
    assert robot.warnings == ("the smaller torques of unequal ranges are not read: d",)
    truth = Truth(file, robot)
    bits = mujoco.mjtDisableBit
    truth.model.opt.disableflags &= ~int(bits.mjDSBL_CONSTRAINT | bits.mjDSBL_SPRING | bits.mjDSBL_DAMPER)
    truth.model.opt.disableflags |= int(bits.mjDSBL_FRICTIONLOSS)
    q, qd = random.uniform(-1, 1, (2, robot.nv))
    T, _ = truth.place(q, qd)
    truth.data.qvel[:] = T @ qd
    truth.data.ctrl[:] = 0.3, -0.4, 0.0
    mujoco.mj_forward(truth.model, truth.data)
    assert np.abs(truth.data.efc_pos[: truth.data.ne]).max() < 1e-12
    without = JointFriction(robot, coulomb=np.zeros(len(robot.friction)))
    assert np.abs(without(q, qd) + T.T @ truth.data.qfrc_passive).max() < EXACT
    motors = Actuation(robot, ["float32", "float64"])
    expected = T.T @ truth.data.qfrc_actuator
    assert np.abs(motors.to_coordinates(q, [0.3, -0.4]) - expected).max() < EXACT
    joints = {joint.name: joint.limits.effort for joint in read_mjcf(file).joints}
    assert joints["d"] == 2 * 3 * 5 and joints["b"] == np.inf  # its second motor moves another joint, too


@pytest.mark.parametrize("text", list(TEXTS.values())[:-1], ids=list(TEXTS)[:-1])
def test_the_urdf_of_it_is_the_same_robot(text, tmp_path):
    file = tmp_path / "robot.xml"
    file.write_text(text)
    description = read_mjcf(file)
    again = dn.parse_robot(urdf_text(description), gravity=description.gravity)
    robot = dn.load_robot(file)
    for q in closed_samples(robot, 3, np.random.default_rng(1)):
        for name in ("mass_matrix", "gravity_torque"):
            ours, theirs = (dn.evaluate(r, name, q, backend="numpy") for r in (robot, again))
            np.testing.assert_allclose(ours, theirs, atol=1e-12)
    lacks = " ".join(left_out(description))
    assert ("reach" in lacks) == (text is ARM)


def test_what_is_left_out_is_a_warning(tmp_path):
    file = tmp_path / "robot.xml"
    file.write_text(
        FOUR_BAR.replace('polycoef=".1 -2 0 0 0"', 'polycoef=".1 -2 3 0 0"').replace(
            "</mujoco>",
            '<tendon><fixed name="rope"><joint joint="crank" coef="1"/></fixed></tendon></mujoco>',
        )
    )
    warnings = " ".join(read_mjcf(file).warnings)
    assert "gear" in warnings and "rope" not in warnings
    file.write_text(
        ARM.replace(
            "</mujoco>",
            '<tendon><spatial name="rope"><site site="mount"/><site site="foot"/></spatial>'
            '<fixed name="bounded" limited="true" range="0 1"><joint joint="knee" coef="1"/></fixed>'
            '<fixed name="slack" stiffness="9" springlength="0 1"><joint joint="knee" coef="1"/></fixed>'
            '</tendon><equality><tendon tendon1="bounded" tendon2="slack" polycoef="0 1 1 0 0" name="bent"/>'
            "</equality></mujoco>",
        ).replace('<body name="leg">', '<body name="leg"> <site name="foot"/>')
    )
    warnings = read_mjcf(file).warnings
    for words in ("spatial.*rope", "limits.*bounded", "slack over.*slack", "bent"):
        assert [warning for warning in warnings if re.search(words, warning)], words


def test_meshes_that_determine_no_inertia_need_not_be_there(tmp_path):
    plain, meshed = tmp_path / "plain.xml", tmp_path / "meshed.xml"
    plain.write_text(ARM)
    text = ARM.replace("<worldbody>", '<asset><mesh name="m" file="absent.stl"/></asset><worldbody>', 1)
    meshed.write_text(text.replace("<site", '<geom type="mesh" mesh="m"/><site'))
    compare(meshed, 1, truth_from=plain)


@pytest.mark.parametrize(
    "text, word",
    [("<mujoco", "XML"), ("<mujoco><bogus/></mujoco>", "read"), ("<robot/>", "link"), ("", "XML")],
)
def test_an_invalid_file_names_itself_and_the_reason(text, word, tmp_path):
    file = tmp_path / "broken.xml"
    file.write_text(text)
    with pytest.raises(dn.ModelError, match=word):
        dn.load_robot(file)


def test_text_from_elsewhere_is_never_read_as_mjcf():
    """It may include any file of the machine."""
    with pytest.raises(dn.ModelError, match="load_robot"):
        dn.parse_robot(ARM)


def test_urdf_texts_hold_all_digits():
    from dynamics_demo.robots import five_bar

    description = read_description(five_bar())
    once = urdf_text(description)
    assert urdf_text(read_description(once)) == once


# --- xacro --------------------------------------------------------------------------------------------------


def test_xacro_is_expanded(tmp_path):
    pytest.importorskip("xacro", reason="xacro: pip install xacro")
    file = tmp_path / "pendulum.urdf.xacro"
    file.write_text(PENDULUM)
    assert dn.load_robot(file).inertias[0, 5, 5] == 2
    for mass in ("3", 3, 3.0, np.float32(3), np.int64(3)):
        assert dn.load_robot(file, xacro_arguments={"mass": mass}).inertias[0, 5, 5] == 3
    assert dn.load_robot(file, xacro_arguments={"mass": 0.1}).inertias[0, 5, 5] == 0.1
    for arguments, words in (
        ({"mass": [3]}, "'mass'.*not list"),
        ({"mass": None}, "NoneType"),
        ("mass:=3", "not str"),
    ):
        with pytest.raises(TypeError, match=f"xacro_arguments.*{words}"):
            dn.load_robot(file, xacro_arguments=arguments)
    flag = '<xacro:arg name="heavy" default="false"/> <xacro:property name="kg" value="1"/>'
    flag += '<xacro:if value="$(arg heavy)"> <xacro:property name="kg" value="5"/> </xacro:if>'
    text = PENDULUM.replace("<link", f"{flag}<link", 1).replace("$(arg mass)", "${kg}")
    file.write_text(text)
    for heavy, mass in ((True, 5), (False, 1), (np.True_, 5)):
        assert dn.load_robot(file, xacro_arguments={"heavy": heavy}).inertias[0, 5, 5] == mass
    file.write_text(PENDULUM.replace("-1/2", "nothing"))
    with pytest.raises(dn.ModelError, match="nothing"):
        dn.load_robot(file)


def test_an_expression_names_xacro():
    with pytest.raises(dn.ModelError, match=r"rod.*xacro"):
        dn.parse_robot(PENDULUM)


def test_arguments_of_xacro_need_a_xacro_file(tmp_path):
    file = tmp_path / "arm.xml"
    file.write_text(ARM)
    with pytest.raises(dn.ModelError, match="xacro"):
        dn.load_robot(file, xacro_arguments={"mass": "3"})


def test_convert(tmp_path, capsys):
    from dynamics_node.cli.commands import run

    file, urdf = tmp_path / "arm.xml", tmp_path / "arm.urdf"
    file.write_text(ARM)
    assert run(["convert", str(file), "-o", str(urdf)]) == 0
    assert "gravity" in "".join(capsys.readouterr())
    assert dn.load_robot(urdf).nv == dn.load_robot(file).nv
