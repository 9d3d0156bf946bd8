"""Rollouts with contacts, limits and friction of joints: mechanics by hand, MuJoCo, and both backends."""

import numpy as np
import pytest
from robots import robot_of
from scipy.spatial.transform import Rotation

import dynamics_node as dn
from dynamics_node.symbolic import interpret, split, trace

G = 9.81
BOX = """
<robot name="box"> <link name="world"/>
  <joint name="free" type="floating"> <parent link="world"/> <child link="box"/> </joint>
  <link name="box"> <inertial> <mass value="2"/>
    <inertia ixx=".02" iyy=".03" izz=".04" ixy="0" ixz="0" iyz="0"/> </inertial> </link>
</robot>"""
SLIDER = """
<robot name="slider"> <link name="world"/>
  <joint name="slide" type="prismatic"> <parent link="world"/> <child link="mass"/> <axis xyz="1 0 0"/>
    <limit lower="-1" upper="0.5" effort="100" velocity="100"/> <dynamics friction="{}" damping="{}"/> </joint>
  <link name="mass"> <inertial> <mass value="2"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/> </inertial> </link>
</robot>"""
CORNERS = [
    dn.Contact("box", name=f"{k}", xyz=(0.1 * (k % 2 * 2 - 1), 0.1 * (k // 2 * 2 - 1), -0.1))
    for k in range(4)
]
FEET = [dn.Contact(foot) for foot in ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT")]
LEGS = np.array([0, 0.8, -1.6] * 2 + [0, -0.8, 1.6] * 2)


def forward_of(robot, **choices):
    return dn.build(robot, "forward_dynamics", **choices)


def on_slope(degrees, mu):
    """The box at rest on a slope: forward dynamics, the plane, and q."""
    angle = np.radians(degrees)
    normal = np.array([np.sin(angle), 0.0, np.cos(angle)])
    turned = Rotation.from_rotvec([0, angle, 0]).as_quat()
    return dn.Plane(normal=tuple(normal), friction=mu), np.r_[0.1 * normal, turned], angle


@pytest.mark.parametrize(
    "backend, degrees, mu",
    [
        *(("c", *slope) for slope in ((30, 0.8), (20, 0.5), (30, 0.5), (45, 0.2), (20, 0.0))),
        ("numpy", 20, 0.5),  # it sticks
        ("numpy", 30, 0.5),  # it slides
    ],
)
def test_a_block_on_a_slope_sticks_or_slides(backend, degrees, mu):
    plane, q, angle = on_slope(degrees, mu)
    forward = forward_of(dn.parse_robot(BOX), backend=backend)
    path = forward.rollout(
        q, np.zeros(6), np.zeros((100, 6)), 1e-3, contacts=CORNERS, ground=plane, sweeps=30
    )
    along = (path.qd[-1, 3] - path.qd[50, 3]) / 0.05
    assert along == pytest.approx(max(0.0, G * (np.sin(angle) - mu * np.cos(angle))), abs=1e-3 * G)
    assert path.contact_forces[-1, 2::3].sum() == pytest.approx(2 * G * np.cos(angle), rel=1e-6)
    tangential = np.hypot(path.contact_forces[-1, 0::3], path.contact_forces[-1, 1::3])
    assert (tangential <= mu * path.contact_forces[-1, 2::3] * (1 + 1e-9) + 1e-12).all()


def test_a_thrown_box_never_gains_energy():
    robot = dn.parse_robot(BOX)
    random = np.random.default_rng(1)
    q = np.concatenate(
        [random.uniform(0.3, 0.6, (8, 3)), Rotation.random(8, random_state=2).as_quat()], axis=1
    )
    qd = random.uniform(-3, 3, (8, 6))
    corners = [
        dn.Contact("box", name=f"{k}", xyz=np.where(np.unpackbits(np.uint8(k))[-3:], 0.1, -0.1))
        for k in range(8)
    ]
    path = forward_of(robot).rollout(q, qd, np.zeros((1000, 6)), 1e-3, contacts=corners, sweeps=50)
    energy = sum(
        dn.evaluate(robot, f"{kind}_energy", *state)
        for kind, state in (("kinetic", (path.q, path.qd)), ("potential", (path.q,)))
    )
    assert (np.diff(energy, axis=1).max(axis=1) < 2e-3 * energy[:, 0]).all()
    assert (energy[:, -1] < energy[:, 0]).all()
    lowest = path.q[..., 2].min()
    assert lowest > 0.05  # it does not sink in


def test_a_ball_rebounds_by_its_restitution():
    robot = dn.parse_robot(BOX)
    q, drop = np.r_[0, 0, 1.0, 0, 0, 0, 1], dn.Contact("box")
    path = forward_of(robot).rollout(
        q, np.zeros(6), np.zeros((900, 6)), 1e-3, contacts=drop, ground=dn.Plane(restitution=0.6)
    )
    speed = path.qd[:, 5]
    hit = int(np.argmax(speed > 0))
    assert speed[hit] == pytest.approx(0.6 * np.sqrt(2 * G), rel=0.01)


def test_simulate_takes_contacts():
    """Its steps are those of a rollout that solves every step anew; a controller reads the state before."""
    plane, q, angle = on_slope(20, 0.2)
    robot = dn.parse_robot(BOX)
    slide = dn.simulate(robot, q, steps=100, dt=1e-3, contacts=CORNERS, ground=plane, backend="numpy")
    expected = G * (np.sin(angle) - 0.2 * np.cos(angle))
    assert slide.qd[-1, 3] == pytest.approx(0.1 * expected, rel=1e-3)
    assert slide.qdd[-1, 3] == pytest.approx(expected, rel=1e-3)
    assert slide.contact_forces.shape == (101, 12)
    assert slide.contact_forces[-1, 2::3].sum() == pytest.approx(2 * G * np.cos(angle), rel=1e-6)
    mass = dn.parse_robot(SLIDER.format(0, 0))
    held = dn.simulate(
        mass,
        [0.3],
        [0.0],
        2.0,
        dt=2e-3,
        torque=lambda time, q, qd: [40 * (0.7 - q[0]) - 20 * qd[0]],
        contacts=(),
    )
    assert held.q[-1, 0] == pytest.approx(0.5, abs=1e-9) and held.tau[-1, 0] == pytest.approx(8.0)
    with pytest.raises(dn.TrajectoryError, match=r"slider, at .* s: .*shorten dt") as caught:
        dn.simulate(
            mass,
            [0.3],
            [-1.5e308],
            steps=9,
            dt=10.0,
            torque=lambda time, q, qd: [-1e308],
            contacts=(),
            limits=False,
        )
    assert 1 <= len(caught.value.solution) < 10


@pytest.mark.parametrize("force, moves", [(2.4, False), (-2.4, False), (2.6, True), (-2.6, True)])
def test_a_joint_sticks_below_its_dry_friction(force, moves):
    robot = dn.parse_robot(SLIDER.format(2.5, 0))
    path = forward_of(robot).rollout([0.0], [0.0], np.full((100, 1), force), 1e-3, contacts=())
    expected = 0.1 * (abs(force) - 2.5) / 2 * np.sign(force) if moves else 0.0
    assert path.qd[-1, 0] == pytest.approx(expected, abs=1e-12)


def test_a_joint_stops_at_its_limit():
    robot = dn.parse_robot(SLIDER.format(0, 0))
    path = forward_of(robot).rollout([0.0], [1.0], np.full((1000, 1), 5.0), 1e-3, contacts=())
    assert path.q.max() == pytest.approx(0.5, abs=1e-9)
    assert abs(path.qd[-1, 0]) < 1e-9
    free = forward_of(robot).rollout([0.0], [1.0], np.full((1000, 1), 5.0), 1e-3, contacts=(), limits=False)
    assert free.q.max() > 1.5


def test_damping_decays_as_it_should():
    robot = dn.parse_robot(SLIDER.format(0, 4))
    for dt, tolerance in ((1e-3, 2e-3), (1e-4, 2e-4)):
        steps = round(0.2 / dt)
        path = forward_of(robot).rollout([0.0], [1.0], np.zeros((steps, 1)), dt, contacts=())
        assert path.qd[-1, 0] == pytest.approx(np.exp(-0.2 * 4 / 2), rel=tolerance)
    stiff = dn.parse_robot(SLIDER.format(0, 1e5))
    path = forward_of(stiff).rollout([0.0], [1.0], np.zeros((10, 1)), 1e-2, contacts=())
    assert (np.abs(np.diff(path.qd[:, 0])) <= 1.0).all()  # implicit: no oscillation
    assert 0 <= path.qd[-1, 0] < 1e-9


def test_a_quadruped_stands_on_the_forces_of_its_contacts():
    robot = robot_of("solo12")
    q = np.r_[0, 0, 0, 0, 0, 0, 1, LEGS]
    q[2] = -dn.evaluate(robot, "frame_poses", q, links=[c.link for c in FEET]).positions[:, 2].min()
    tau, _ = dn.build(robot, dn.inverse_dynamics(robot, FEET))(q, np.zeros(18), np.zeros(18), np.ones(4))
    tau[:6] = 0
    path = forward_of(robot).rollout(q, np.zeros(18), np.tile(tau, (50, 1)), 1e-3, contacts=FEET, sweeps=100)
    assert np.abs(path.qd).max() < 1e-6
    forces = path.contact_forces[-1].reshape(4, 3)
    np.testing.assert_allclose(forces.sum(axis=0), [0, 0, robot.mass * G], atol=1e-6)
    _, stuck = dn.build(robot, dn.forward_dynamics(robot, FEET))(path.q[-1], path.qd[-1], tau, np.ones(4))
    np.testing.assert_allclose(forces.ravel(), stuck, atol=1e-4)


def sampled(robot, count=16, steps=30):
    random = np.random.default_rng(0)
    q = np.tile(np.r_[0, 0, 0.223, 0, 0, 0, 1, LEGS], (count, 1))
    q[:, 7:] += random.uniform(-0.1, 0.1, (count, 12))
    tau = np.zeros((count, steps, 18))
    tau[..., 6:] = random.uniform(-1, 1, (count, steps, 12))
    return q, random.uniform(-0.3, 0.3, (count, 18)), tau


def test_both_backends_agree():
    robot = robot_of("solo12")
    q, qd, tau = sampled(robot)
    ours, theirs = (
        forward_of(robot, backend=backend).rollout(q, qd, tau, 0.005, contacts=FEET)
        for backend in ("c", "numpy")
    )
    for name in ours._fields:
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=1e-7, err_msg=name)


def test_samples_do_not_depend_on_their_neighbors():
    robot = robot_of("solo12")
    q, qd, tau = sampled(robot)
    forward = forward_of(robot)
    together = forward.rollout(q, qd, tau, 0.005, contacts=FEET)
    poisoned = qd.copy()
    poisoned[1::2] = 1e200
    others = forward.rollout(q, poisoned, tau, 0.005, contacts=FEET)
    for k in (0, 2, 14):
        alone = forward.rollout(q[k], qd[k], tau[k], 0.005, contacts=FEET)
        for name in together._fields:
            np.testing.assert_array_equal(getattr(alone, name), getattr(together, name)[k])
            np.testing.assert_array_equal(getattr(others, name)[k], getattr(together, name)[k])
    assert np.isnan(others.qd[1, -1]).all()


def test_float32():
    robot = robot_of("solo12")
    q, qd, tau = sampled(robot, steps=10)
    exact = forward_of(robot).rollout(q, qd, tau, 0.005, contacts=FEET)
    single = forward_of(robot, precision="float32").rollout(q, qd, tau, 0.005, contacts=FEET)
    assert single.q.dtype == np.float32
    assert np.median(np.abs(single.q - exact.q)[:, -1]) < 1e-3


def test_more_sweeps_leave_less():
    robot = robot_of("solo12")
    q, qd, tau = sampled(robot, count=64)
    left = [
        np.mean(forward_of(robot).rollout(q, qd, tau, 0.005, contacts=FEET, sweeps=n).residual)
        for n in (3, 10, 100)
    ]
    assert left[2] < left[0]
    assert left[2] < 1e-3 * left[0]


def test_what_rollouts_refuse():
    robot = robot_of("solo12")
    forward, zero = forward_of(robot, backend="numpy"), np.zeros((2, 18))
    start = robot.neutral(), np.zeros(18), zero, 0.01
    for contacts, ground, error in (
        ([dn.Contact("FL_FOOT", "surface")], dn.Plane(), dn.ChoiceError),
        ([dn.Contact("toe")], dn.Plane(), dn.ContactError),
        (FEET, "floor", TypeError),
    ):
        with pytest.raises(error):
            forward.rollout(*start, contacts=contacts, ground=ground)
    with pytest.raises(dn.ChoiceError, match="rk4"):
        forward.rollout(*start, contacts=FEET, integrator="rk4")
    with pytest.raises(dn.InputError, match="friction"):
        forward.rollout(*start, contacts=FEET, friction="dry")
    with pytest.raises(dn.InputError, match="sweeps"):
        forward.rollout(*start, contacts=FEET, sweeps=0)


@pytest.mark.parametrize(
    "fields",
    [{"normal": (0, 0, 0)}, {"friction": -1}, {"restitution": 2}, {"offset": np.nan}, {"normal": "up"}],
)
def test_an_invalid_plane_is_an_error(fields):
    with pytest.raises(dn.ContactError, match="plane"):
        dn.Plane(**fields)


def test_a_program_is_split_where_an_input_enters():
    def function(a, b, p):
        c = a * b
        return {"early": c + a, "late": c * p + b, "both": p * p, "more": np.sin(b) + p * p + c}

    whole = trace(function, {"a": (2,), "b": (2,), "p": (2,)})
    parts, places, size = split(whole, [("p",), ()], [("early",), ("late", "both"), ("more",)])
    given = {name: np.random.default_rng(k).normal(size=(5, 2)) for k, name in enumerate("abp")}
    memory = np.full((5, size), np.nan)
    for name in "ab":
        memory[:, places[name]] = given[name]
    expected = interpret(whole, **given)
    for k, part in enumerate(parts):
        if k == 1:
            memory[:, places["p"]] = given["p"]
        memory[:, part.writes : part.end] = interpret(part.program, x=memory[:, part.reads])["y"]
    for name, values in expected.items():
        np.testing.assert_array_equal(memory[:, places[name]], values)
    assert parts[2].program.op_count()["sin"] == 2  # computed by the part that needs them
    assert parts[0].program.op_count()["mul"] == 2
