"""Rollouts with contacts: scenes whose motion is known, and bounds that no motion passes."""

import numpy as np
import pytest
from robots import robot_of
from scipy.spatial.transform import Rotation

import dynamics_node as dn

G, DT = 9.81, 1e-3
REST = np.zeros(6)
FLAT = np.r_[0, 0, 0.1, 0, 0, 0, 1.0]  # q of a body whose points are 0.1 m below its center
FREE = """
<robot name="free"> <link name="world"/>
  <joint name="free" type="floating"> <parent link="world"/> <child link="body"/> </joint>
  <link name="body"> <inertial> <mass value="{0}"/>
    <inertia ixx="{1}" iyy="{2}" izz="{3}" ixy="0" ixz="0" iyz="0"/> </inertial> </link>
</robot>"""
CUBE = FREE.format(2, 0.02, 0.02, 0.02)
CORNERS = np.array([np.where(np.unpackbits(np.uint8(k))[-3:], 0.1, -0.1) for k in range(8)])


def points(places):
    return [dn.Contact("body", name=f"{k}", xyz=place) for k, place in enumerate(places)]


BELOW = points(CORNERS[CORNERS[:, 2] < 0])
TRIPOD = points([(0.1, 0, -0.1), (-0.06, 0.08, -0.1), (-0.06, -0.08, -0.1)])


def rolled(text, q, qd, steps, contacts, ground=None, dt=DT, **choices):
    """The path without torques."""
    robot = dn.parse_robot(text)
    forward = dn.build(robot, "forward_dynamics", backend=choices.pop("backend", "auto"))
    tau, ground = np.zeros((steps, robot.nv)), ground or dn.Plane()
    places = {} if contacts is None else {"contacts": contacts, "ground": ground}
    return forward.rollout(q, qd, tau, dt, **places, **choices)


def energies(robot, path):
    return sum(
        dn.evaluate(robot, f"{kind}_energy", *state)
        for kind, state in (("kinetic", (path.q, path.qd)), ("potential", (path.q,)))
    )


# --- one body ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("speed, mu", [(1.0, 0.3), (2.0, 0.4), (2.0, 0.8)])
def test_a_thrown_block_slides_its_distance(speed, mu):
    steps = int(speed / (mu * G) / DT) + 100
    path = rolled(CUBE, FLAT, np.r_[0, 0, 0, speed, 0, 0], steps, TRIPOD, dn.Plane(friction=mu))
    assert path.q[-1, 0] == pytest.approx(speed**2 / (2 * mu * G), abs=speed * DT)
    np.testing.assert_allclose(path.qd[-1], 0, atol=1e-9)


@pytest.mark.parametrize("restitution", [0.0, 0.5, 0.9])
def test_a_dropped_point_rises_to_its_height(restitution):
    plane = dn.Plane(restitution=restitution)
    path = rolled(CUBE, np.r_[0, 0, 1.0, FLAT[3:]], REST, 700, dn.Contact("body"), plane, dt=2e-3)
    hit = int(np.argmax(path.q[:, 2] < 0.02))
    assert path.q[hit:, 2].max() == pytest.approx(restitution**2, abs=0.02)


@pytest.mark.parametrize("contacts, turned", [(BELOW, 0.05), (points(CORNERS), np.pi)])
def test_a_thrown_cube_never_gains_energy(contacts, turned):
    random, count = np.random.default_rng(1), 16
    q = np.tile(FLAT, (count, 1))
    q[:, 2] += random.uniform(0.1, 0.5, count)
    q[:, 3:] = Rotation.from_rotvec(random.uniform(-turned, turned, (count, 3)) / np.sqrt(3)).as_quat()
    qd = random.uniform(-2, 2, (count, 6))
    path = rolled(CUBE, q, qd, 1500, contacts, sweeps=30)
    energy = energies(dn.parse_robot(CUBE), path)
    assert (np.diff(energy, axis=1) < 1e-4).all()  # J; that of the slow push out of the ground


@pytest.mark.parametrize("mu", [0.0, 0.8])
@pytest.mark.parametrize("inertia", [1e-2, 1e-3, 1e-4, 1e-5])
def test_few_sweeps_after_an_impact_add_no_energy(inertia, mu):
    """Corners far out on a body that turns easily: the impulses of the step before are far from those of this one."""
    random, count = np.random.default_rng(5), 16
    text, q = FREE.format(1, inertia, inertia, inertia), np.tile(FLAT, (count, 1))
    q[:, 2] += random.uniform(0.05, 0.3, count)
    q[:, 3:] = Rotation.random(count, random_state=3).as_quat()
    qd = random.uniform(-3, 3, (count, 6))
    path = rolled(text, q, qd, 300, points(CORNERS), dn.Plane(friction=mu), dt=2e-3)
    energy = energies(dn.parse_robot(text), path)
    assert (np.diff(energy, axis=1) < 0.05).all()  # J
    assert (energy.max(axis=1) <= energy[:, 0]).all()


@pytest.mark.parametrize("mu", [1.5, 3.0, 100.0])
def test_painleve_s_rod_does_not_explode(mu):
    rod = FREE.format(1, 1 / 3, 1 / 3, 1e-3)  # half a length of 1 m, along z
    angles, speeds = np.meshgrid(np.radians([20, 45, 60, 75]), [-4.0, -1.0, 1.0, 4.0])
    angles, speeds = angles.ravel(), speeds.ravel()
    q = np.zeros((len(angles), 7))
    q[:, 2] = np.cos(angles)
    q[:, 3:] = Rotation.from_rotvec(angles[:, None] * [0, 1, 0]).as_quat()
    qd = np.zeros((len(angles), 6))
    qd[:, 3:] = Rotation.from_quat(q[:, 3:]).apply(speeds[:, None] * [1, 0, 0], inverse=True)
    path = rolled(rod, q, qd, 800, points([(0, 0, -1), (0, 0, 1)]), dn.Plane(friction=mu))
    energy = energies(dn.parse_robot(rod), path)
    assert (energy.max(axis=1) < energy[:, 0] * 1.001).all()


def test_errors_halve_with_the_step():
    """A body slides and turns on three points, whose forces are unique."""
    ends, start = [], np.r_[0, 0, 8.0, 1.0, 0.5, 0]
    for steps in (50, 100, 200, 6400):
        path = rolled(CUBE, FLAT, start, steps, TRIPOD, dn.Plane(friction=0.3), dt=0.2 / steps, sweeps=50)
        ends.append(np.r_[path.q[-1], path.qd[-1]])
    errors = [np.abs(end - ends[-1]).max() for end in ends[:-1]]
    assert errors[0] / errors[1] == pytest.approx(2, abs=0.3)
    assert errors[1] / errors[2] == pytest.approx(2, abs=0.3)


@pytest.mark.parametrize("dt", [1e-4, 1e-3, 5e-3, 2e-2])
def test_a_penetration_does_not_launch_a_body(dt):
    q = np.tile(FLAT, (3, 1))
    q[:, 2] -= [1e-3, 0.01, 0.1]
    path = rolled(CUBE, q, REST, round(0.7 / dt), BELOW, dt=dt)
    assert path.q[..., 2].max() < 0.1 + 3e-3
    assert (path.q[:, -1, 2] > 0.1 - 1e-3).all()


@pytest.mark.parametrize("dt", [1e-3, 5e-3, 2e-2])
@pytest.mark.parametrize("contacts", [None, ()])
def test_a_spinning_body_flies_as_one_that_does_not(contacts, dt):
    steps = round(1 / dt)
    path = rolled(CUBE, np.r_[0, 0, 9, FLAT[3:]], np.r_[0, 10, 0, 3, 0, 4], steps, contacts, dt=dt)
    np.testing.assert_allclose(path.q[-1, :3], [3, 0, 9 + 4 - 0.5 * G * (1 + dt)], atol=1e-9)
    v = Rotation.from_quat(path.q[-1, 3:]).apply(path.qd[-1, 3:])
    np.testing.assert_allclose(v, [3, 0, 4 - G], atol=1e-9)


# --- joints --------------------------------------------------------------------------------------------------

ARM = """
<robot name="arm"> <link name="world"/>
  <joint name="j" type="{}"> <parent link="world"/> <child link="arm"/> <origin xyz="0 0 {}"/>
    <axis xyz="{}"/> <limit lower="-3" upper="3" effort="100" velocity="100"/> </joint>
  <link name="arm"> <inertial> <origin xyz="0.5 0 0"/> <mass value="1"/>
    <inertia ixx="0.02" iyy="0.02" izz="0.02" ixy="0" ixz="0" iyz="0"/> </inertial> </link>
</robot>"""
TIP = dn.Contact("arm", xyz=(1.0, 0, 0))


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("backend", ["c", "numpy"])
class TestPlanarMechanisms:
    """Their contacts do not move in every direction: the Delassus matrix is singular."""

    def run(self, backend, precision, joint, q, qd, steps):
        robot = dn.parse_robot(ARM.format(*joint))
        forward = dn.build(robot, "forward_dynamics", backend=backend, precision=precision)
        return forward.rollout([q], [qd], np.zeros((steps, 1)), 2e-3, contacts=TIP)

    def test_a_pendulum_comes_to_rest_on_the_floor(self, backend, precision):
        path = self.run(backend, precision, ("revolute", 0.3, "0 1 0"), -0.2, 0.0, 600)
        assert path.q[-1, 0] == pytest.approx(np.arcsin(0.3), abs=1e-5)
        x, y, z = path.contact_forces[-1]
        assert y == pytest.approx(0, abs=1e-6)
        assert z * np.cos(path.q[-1, 0]) + x * 0.3 == pytest.approx(G * 0.5 * np.cos(path.q[-1, 0]), rel=1e-3)

    def test_a_slider_falls_onto_the_floor(self, backend, precision):
        path = self.run(backend, precision, ("prismatic", 0.1, "0 0 1"), 0.0, 0.0, 300)
        assert path.q[-1, 0] == pytest.approx(-0.1, abs=1e-5)
        np.testing.assert_allclose(path.contact_forces[-1], [0, 0, G], atol=1e-3)

    @pytest.mark.parametrize("height", [-0.01, 0.0, 0.01])
    def test_what_cannot_leave_the_floor_has_no_force(self, backend, precision, height):
        path = self.run(backend, precision, ("prismatic", height, "1 0 0"), 0.0, 1.0, 100)
        assert path.q[-1, 0] == pytest.approx(0.2, abs=1e-6)
        np.testing.assert_array_equal(path.contact_forces, 0)


def test_a_joint_loses_its_energy_at_a_limit():
    robot = dn.parse_robot(ARM.format("prismatic", 0, "1 0 0"))
    path = dn.build(robot, "forward_dynamics").rollout(
        [[2.9], [-2.9], [3.1]], [[2.0], [-2.0], [0.0]], np.zeros((300, 1)), 1e-3, contacts=()
    )
    np.testing.assert_allclose(path.q[:2, -1, 0], [3, -3], atol=1e-9)
    np.testing.assert_allclose(path.qd[:2, -1, 0], 0, atol=1e-9)
    assert (np.diff(np.abs(path.qd[:2, :, 0]), axis=1) <= 1e-12).all()
    assert path.q[2, -1, 0] < 3 + 0.1 - 0.04  # it returns, slowly
    assert np.abs(path.qd[2]).max() < 0.3


# --- a robot -------------------------------------------------------------------------------------------------


def test_a_quadruped_stands_on_the_forces_of_inverse_dynamics():
    robot = robot_of("solo12")
    feet = [dn.Contact(foot) for foot in ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT")]
    q = np.r_[0, 0, 0, 0, 0, 0, 1, [0, 0.8, -1.6] * 2, [0, -0.8, 1.6] * 2]
    q[2] = -dn.evaluate(robot, "frame_poses", q, links=[c.link for c in feet]).positions[:, 2].min()
    zero = np.zeros(18)
    tau, forces = dn.build(robot, dn.inverse_dynamics(robot, feet))(q, zero, zero, np.ones(4))
    forward = dn.build(robot, "forward_dynamics")
    path = forward.rollout(q, zero, np.tile(np.r_[REST, tau[6:]], (100, 1)), DT, contacts=feet)
    np.testing.assert_allclose(path.contact_forces[-1], forces, atol=1e-6)
    np.testing.assert_allclose(path.q[-1], q, atol=1e-9)


# --- attacks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mu", [0.0, 1e3])
@pytest.mark.parametrize("mass", [1e-3, 1e3])
def test_extreme_masses_steps_and_friction(mass, mu):
    """Also from below the ground: no penetration gives more than its height, and both backends agree."""
    text, ground = FREE.format(mass, *[0.01 * mass] * 3), dn.Plane(friction=mu)
    random, count = np.random.default_rng(4), 9
    q = np.tile(FLAT, (count, 1))
    q[:, 2] += random.uniform(-0.05, 0.3, count)
    q[:, 3:] = Rotation.random(count, random_state=3).as_quat()
    qd = random.uniform(-3, 3, (count, 6))
    for dt in (1e-4, 2e-2):
        path = rolled(text, q, qd, 200, points(CORNERS), ground, dt=dt)
        energy = energies(dn.parse_robot(text), path)
        assert (energy.max(axis=1) - energy[:, 0] < 0.25 * mass * G).all()
        x, y, z = (path.contact_forces[..., k::3] for k in range(3))
        assert (z >= 0).all() and (np.hypot(x, y) <= mu * z * (1 + 1e-9)).all()
        theirs = rolled(text, q, qd, 30, points(CORNERS), ground, dt=dt, backend="numpy")
        np.testing.assert_allclose(path.q[:, :31], theirs.q, atol=1e-9)
        np.testing.assert_allclose(
            path.contact_forces[:, :30], theirs.contact_forces, rtol=1e-6, atol=1e-6 * mass / dt
        )


@pytest.mark.parametrize("value", [1e9, 1e160])
def test_one_of_thousands_explodes_alone(value):
    random, count, bad = np.random.default_rng(4), 2051, [0, 1234, 2050]
    q = np.tile(FLAT, (count, 1))
    q[:, 2] += random.uniform(-0.02, 0.1, count)
    qd, tau = random.uniform(-3, 3, (count, 6)), random.uniform(-5, 5, (count, 20, 6))
    forward = dn.build(dn.parse_robot(CUBE), "forward_dynamics")
    expected = forward.rollout(q, qd, tau, 5e-3, contacts=points(CORNERS))
    others = np.delete(np.arange(count), bad)
    qd[bad[:2]], tau[bad[2], 10] = value, value
    found = forward.rollout(q, qd, tau, 5e-3, contacts=points(CORNERS))
    for name, array in found._asdict().items():
        np.testing.assert_array_equal(array[others], getattr(expected, name)[others])
    assert np.isnan(found.qd[bad, -1]).all() and np.isfinite(found.qd[others]).all()
