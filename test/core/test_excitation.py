"""Excitation motions for base parameters: exact derivatives, limits, and errors."""

from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from cart_pole import CART
from oracle import Oracle, pin
from robots import ROBOTS, robot_of
from scipy.interpolate import BPoly
from two_links import ARM

import dynamics_node as dn
from dynamics_node import InputError
from dynamics_node.algorithms import smooth_friction
from dynamics_node.identification import TERMS, RegressorModel, base_parameters
from dynamics_node.identification.excitation import joint_bounds, solutions
from dynamics_node.identification.excitation.information import Regressor, roundness, volume
from dynamics_node.identification.excitation.limits_along_motion import BoxRows, TorqueRows
from dynamics_node.identification.excitation.objective import ExcitationProblem, Series, random_motion
from dynamics_node.io.motion_files import message_text, read_limits, trajectory_message

WALLS = {
    "panda7": ("panda_link7", [-1.0, -np.inf, 0.1], [1.0, 0.6, np.inf]),
    "two_links": ("lower", [-np.inf, -1.0, -0.5], [0.9, 1.0, np.inf]),
    "cart_pole": ("pole", [-1.0, -np.inf, -np.inf], [0.6, np.inf, np.inf]),
}


def model_of(name):
    texts = {"two_links": ARM, "cart_pole": CART}
    return dn.parse_robot(texts[name]) if name in texts else ROBOTS[name].model()


def problem_of(name, start=None, boxed=True):
    """With all terms; boxed: a box bounds a point away from its link's origin."""
    model = model_of(name)
    bounds, linear = joint_bounds(model), RegressorModel(model, TERMS, "numpy")
    base = base_parameters(linear)
    random = np.random.default_rng(5)
    sizes, noise = random.uniform(0.5, 2.0, base.count), random.uniform(0.5, 2.0, model.nv)
    regressor = Regressor(linear, base, sizes, noise, 0.1 * bounds.velocity)
    rows = [TorqueRows(model, bounds, "numpy")]
    if boxed:
        rows.append(BoxRows(model, dn.Box(*WALLS[name], point=[0.1, 0.2, 0.3]), "numpy"))
    return ExcitationProblem(Series(6.0, 3, start), bounds, regressor, rows)


def small(**choices):
    """A design for two links, interpreted."""
    return dn.design_excitation(
        dn.parse_robot(ARM), 5.0, 3, **({"backend": "numpy", "restarts": 1, "acceleration": 15.0} | choices)
    )


@pytest.fixture(scope="module")
def arm():
    return small()


# --- derivatives --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WALLS)
def test_derivatives_are_exact(name):
    """Against central differences along random directions: criteria, and smooth maxima of every limit."""
    problem, random = problem_of(name), np.random.default_rng(0)
    x = 0.3 * random.normal(size=problem.shape)
    for criterion in (volume, roundness):
        slope = problem.criterion(x, criterion)[1]
        for step in 1e-6 * random.normal(size=(3, *x.shape)):
            ahead, back = problem.criterion(x + step, criterion)[0], problem.criterion(x - step, criterion)[0]
            assert (ahead - back) / 2 == pytest.approx((slope * step).sum(), rel=2e-5, abs=1e-9)
    slopes = problem.smooth_used(x, 30.0)[1]
    assert len(slopes) == len(problem.names) == len(problem.two_sided)
    for step in 1e-6 * random.normal(size=(3, *x.shape)):
        ahead, back = problem.smooth_used(x + step, 30.0)[0], problem.smooth_used(x - step, 30.0)[0]
        assert np.allclose((ahead - back) / 2, (slopes * step).sum(axis=(1, 2)), rtol=1e-5, atol=1e-10)


def test_smooth_maxima_are_above_and_near():
    problem = problem_of("cart_pole")
    x = random_motion(problem, np.random.default_rng(1))
    used, smooth = problem.used(x), problem.smooth_used(x, 50.0)[0]
    assert np.all(smooth >= used) and np.all(smooth <= used + np.log(2 * problem.count) / 50.0)


@pytest.mark.parametrize("name", ["two_links", "cart_pole"])
def test_regressor_predicts_torques(name):
    """Its product with base parameters is the described robot's torque, with friction away from reversals."""
    problem = problem_of(name)
    regressor, model = problem.regressor, problem.regressor.linear.robot
    random = np.random.default_rng(2)
    q, qd, qdd = random.uniform(-1, 1, (3, 40, model.nv))
    qd = np.sign(qd) * (0.6 + np.abs(qd)) * problem.bounds.velocity  # away from zero velocity
    W = regressor.matrix(q, qd, qdd) * regressor.noise[:, None] / regressor.sizes
    described = regressor.base.values(regressor.linear.described)
    tau = dn.build(model, dn.inverse_dynamics(model), backend="numpy")(q, qd, qdd)
    tau += smooth_friction(qd, model.damping, model.friction)
    assert np.allclose(W @ described, tau, atol=1e-5)


# --- motions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [None, [0.3, -0.2]])
def test_series_are_periodic_and_at_rest_at_their_ends(start):
    problem = problem_of("cart_pole", None if start is None else np.array([0.3, -0.2]))
    x = np.random.default_rng(3).normal(size=problem.shape)
    curves = problem.curves_at(np.array([0.0, 6.0, 2.0, 2.0 - 1e-5, 2.0 + 1e-5]))
    q, qd, qdd = curves.states(x)
    assert np.allclose(q[0], q[1]) and np.allclose(qd[:2], 0) and np.allclose(qdd[:2], 0)
    assert start is None or np.allclose(q[0], start)
    assert np.allclose(qd[2], (q[4] - q[3]) / 2e-5, rtol=1e-6, atol=1e-7)
    assert np.allclose(qdd[2], (qd[4] - qd[3]) / 2e-5, rtol=1e-6, atol=1e-6)


def test_random_motions_keep_within_limits():
    problem, random = problem_of("two_links", boxed=False), np.random.default_rng(0)
    most = [problem.used(random_motion(problem, random), problem.fine).max() for _ in range(10)]
    assert 0.99 < max(most) <= 1.0


def test_limits_hold_between_samples():
    """Pinocchio's torques and hand positions of a Panda, at a hundred times as many instants as in the optimization."""
    robot, model = ROBOTS["panda7"], ROBOTS["panda7"].model()
    box = dn.Box("panda_link7", [0.2, -0.4, 0.2], [0.7, 0.4, np.inf])
    limits = {"panda_joint2": {"max_acceleration": 3.0, "max_effort": 40.0}}
    trajectory = dn.design_excitation(
        model, 8.0, 3, terms=("inertia",), boxes=[box], limits=limits, restarts=1, acceleration=9.0
    )
    time = np.linspace(0.0, 8.0, 6001)
    q, qd, qdd = trajectory.states(time)
    bound = model.independent_joints
    lower, upper, speed, effort = (
        np.array([getattr(joint.limits, name) for joint in bound])
        for name in ("lower", "upper", "velocity", "effort")
    )
    most = np.full(7, 9.0)
    most[1], effort[1] = 3.0, 40.0
    middle, half = (lower + upper) / 2, 0.45 * (upper - lower)
    used = [np.abs(q - middle) / half, np.abs(qd) / (0.9 * speed), np.abs(qdd) / (0.9 * most)]
    oracle, tau, hand = Oracle(robot, model), np.zeros((len(time) // 10 + 1, 7)), []
    frame = oracle.pin.getFrameId("panda_link7")
    for k, state in enumerate(zip(q[::10], qd[::10], qdd[::10], strict=True)):
        tau[k] = oracle.inverse(*state) + model.damping * state[1]
        pin.framesForwardKinematics(oracle.pin, oracle.data, oracle.q(state[0]))
        hand.append(oracle.data.oMf[frame].translation.copy())
    used.append(np.abs(tau) / (0.9 * effort))
    assert max(ratio.max() for ratio in used) <= 1.0 + 1e-9
    assert max(ratio.max() for ratio in used) > 0.99
    hand = np.array(hand)
    assert np.all(hand >= box.lower) and np.all(hand <= box.upper)
    assert np.abs(trajectory.torques(time[::10]) - tau).max() <= 1e-9 * np.abs(tau).max()
    assert trajectory.condition < 0.5 * trajectory.before


def test_better_than_random(arm):
    assert arm.condition < 0.95 * arm.before and max(arm.used.values()) <= 1.0
    W = arm.base.reduced(arm.linear.matrix(*arm.states(np.linspace(0, 5, 1200, endpoint=False))))
    sizes = arm.problem.regressor.sizes
    assert np.linalg.cond((W * sizes).reshape(-1, arm.base.count)) == pytest.approx(
        arm.condition,
        rel=5e-3,  # reversals fall between other samples
    )


def test_volume_criterion_gives_another_motion(arm):
    """It has more information in total and less in the worst direction."""
    round_one, large = arm.information, small(criterion="volume").information
    assert np.linalg.slogdet(large)[1] > np.linalg.slogdet(round_one)[1]
    assert np.linalg.cond(large) > np.linalg.cond(round_one)


def test_expected_deviations_match_least_squares(arm):
    """For fits to torques with noise."""
    random, time = np.random.default_rng(0), np.linspace(0, 5, 1000, endpoint=False)
    W = arm.base.reduced(arm.linear.matrix(*arm.states(time))).reshape(-1, arm.base.count)
    fits = np.linalg.lstsq(W, random.normal(size=(len(W), 400)), rcond=None)[0]
    assert np.allclose(fits.std(axis=1), arm.std(len(time)), rtol=0.2)


def test_the_same_seed_gives_the_same_motion(arm):
    again, other = small(), small(seed=1)
    assert np.array_equal(again.coefficients, arm.coefficients)
    assert not np.allclose(other.coefficients, arm.coefficients)
    assert other.condition < other.before


def test_search_time_is_limited(arm):
    """Without time, the best random motion is the result."""
    unimproved = small(time_limit=0.0)
    assert unimproved.condition == pytest.approx(unimproved.before) and max(unimproved.used.values()) <= 1.0
    assert unimproved.tried == 1 < arm.tried


def test_compile_time_is_no_search_time(monkeypatch):
    """After a slow compilation the search still has its whole limit."""
    now, steps = [0.0], []
    search, main = (
        import_module(f"dynamics_node.identification.excitation.{name}") for name in ("search", "design")
    )
    monkeypatch.setattr(search, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def compile_slowly(problem, criteria):
        now[0] += 1000.0
        steps.append(now[0])

    monkeypatch.setattr(main, "_compile", compile_slowly)
    trajectory = small(time_limit=10.0)
    assert steps == [1000.0] and trajectory.condition < trajectory.before


def test_start_position_and_prismatic_joint():
    solved = []
    trajectory = dn.design_excitation(
        dn.parse_robot(CART), 4.0, 3, q0=[-0.1, 0.5], restarts=1, backend="numpy",
        terms=("inertia", "viscous"), progress=solved.append, units="si",
    )  # fmt: skip
    q, qd, qdd = trajectory.states(np.array([0.0, 4.0]))
    assert np.allclose(q, [-0.1, 0.5]) and np.allclose(qd, 0) and np.allclose(qdd, 0)
    assert np.allclose(trajectory.start, [-0.1, 0.5]) and sum(solved) == solutions("condition", 1)
    tau = trajectory.torques(np.linspace(0, 4, 997))
    assert np.all(np.abs(tau) <= 0.9 * np.array([60.0, 5.0])) and max(trajectory.used.values()) <= 1.0


# --- missing limits -----------------------------------------------------------------------------------------


def test_assumed_limits_are_noted():
    bounds = joint_bounds(dn.parse_robot(ARM), factor=0.5)
    assert np.allclose(bounds.center, 0) and np.allclose(bounds.half, [1.5, np.pi / 2])
    assert np.allclose(bounds.velocity, 2.5) and np.allclose(bounds.acceleration, 7.5)
    assert np.allclose(bounds.effort, 25)
    assert bounds.notes == (
        "joint2: no position limits, assuming a range of 6.283 rad",
        "joint1, joint2: no acceleration limit, assuming 0.33 s to reach the highest velocity",
    )
    free = joint_bounds(ROBOTS["double_pendulum"].model(), acceleration=2.0, factor=1.0)
    assert np.allclose(free.velocity, 1.0) and np.allclose(free.acceleration, 2.0)
    assert "joint1, joint2: no velocity limit, assuming 1 rad/s" in free.notes


def test_huge_limits_count_as_none():
    """Simulators write 1e16 for no limit."""
    text = ARM.replace('lower="-3" upper="3" velocity="5"', 'lower="-1e16" upper="1e16" velocity="1e16"')
    bounds = joint_bounds(dn.parse_robot(text), factor=1.0)
    assert np.allclose(bounds.center, 0) and np.allclose(bounds.half, np.pi)
    assert np.allclose(bounds.velocity, [1.0, 5.0])
    assert bounds.notes[:2] == (
        "joint1, joint2: no position limits, assuming a range of 6.283 rad",
        "joint1: no velocity limit, assuming 1 rad/s",
    )


def test_mimic_joints_limit_their_leader():
    """Both fingers of a Panda have the same limits; here the second has a smaller range and speed."""
    model = ROBOTS["panda"].model()
    k = model.v_names.index("panda_finger_joint1")
    limits = {"max_position": 0.03, "max_velocity": 0.05}
    bounds = joint_bounds(model, factor=1.0, limits={"panda_finger_joint2": limits, "wrist": {}})
    assert bounds.center[k] + bounds.half[k] == pytest.approx(0.03)
    assert bounds.velocity[k] == pytest.approx(0.05)
    assert "wrist: limits are not used, no such movable joint" in bounds.notes


LIMITS = """joint_limits:
  joint1: {has_velocity_limits: true, max_velocity: 2.5, has_acceleration_limits: false, max_acceleration: 1.0}
  joint2:
    has_position_limits: true
    min_position: -0.5
    max_position: 1.5
    max_jerk: 3.0
"""


def test_files_of_limits(tmp_path):
    path = tmp_path / "joint_limits.yaml"
    path.write_text(LIMITS)
    limits = read_limits(path)
    assert limits == {
        "joint1": {"max_velocity": 2.5},
        "joint2": {"min_position": -0.5, "max_position": 1.5, "max_jerk": 3.0},
    }
    bounds = joint_bounds(dn.parse_robot(ARM), factor=1.0, limits=limits)
    assert np.allclose(bounds.velocity, [2.5, 5.0]) and np.allclose(bounds.center, [0.0, 0.5])
    for key, value in (
        ("min_effort", -3.0),
        ("max_effort_at_velocity", [[0, 9], [3, 0]]),
        ("max_continuous_effort", 2.0),
    ):
        with pytest.raises(ValueError, match=f"'joint2'.*{key}.*max_effort"):
            joint_bounds(dn.parse_robot(ARM), limits={"joint2": {key: value}})
    assert "joint2: max_jerk is not used, check the motion with check_trajectory" in bounds.notes
    for wrong, message in (
        ({"joint1": {"max_speed": 2.0}}, "'joint1'.*unknown 'max_speed'.*max_velocity"),
        ({"joint1": {"max_velocity": np.nan}}, "max_velocity of 'joint1'.*positive"),
        ({"joint1": {"max_velocity": -2.0}}, "max_velocity of 'joint1'.*positive"),
        ({"joint1": {"max_velocity": "2.0"}}, "max_velocity of 'joint1'.*positive"),
        ({"joint1": 2.0}, "limits must be"),
        ([2.0], "limits must be"),
    ):
        with pytest.raises(InputError, match=message):
            joint_bounds(dn.parse_robot(ARM), limits=wrong)
    for text, message in (
        ("joint_limits: {joint1: {max_velocity: fast}}", "max_velocity.*joint1.*positive"),
        ("joint_limits: {joint1: {max_velocity: -1}}", "max_velocity.*joint1.*positive"),
        ("joint_limits: {joint1: {min_position: .nan}}", "min_position.*joint1"),
        ("joint_limits: {joint1: 3}", "joint1.*mapping"),
        ("joints: {}", "joint_limits"),
        ("joint_limits: {a: &x {}, b: *x}", "alias"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            read_limits(path)


# --- messages -----------------------------------------------------------------------------------------------


def test_interpolated_points_follow_the_motion(arm):
    """A joint_trajectory_controller joins positions, velocities and accelerations by quintic polynomials."""
    message = yaml.safe_load(message_text(arm.message()))
    assert message["joint_names"] == ["joint1", "joint2"]
    points = message["points"]
    time = [p["time_from_start"]["sec"] + 1e-9 * p["time_from_start"]["nanosec"] for p in points]
    assert time[0] == 0 and time[-1] == 5.0 and np.allclose(np.diff(time), 0.05)
    states = [[p[kind] for p in points] for kind in ("positions", "velocities", "accelerations")]
    spline = BPoly.from_derivatives(time, np.array(states).swapaxes(0, 1))
    fine = np.linspace(0, 5, 3001)
    for order, right in enumerate(arm.states(fine)):
        assert np.abs(spline.derivative(order)(fine) - right).max() <= 1e-5 * 30**order


def test_messages_have_the_types_of_ros(arm):
    msg = pytest.importorskip("trajectory_msgs.msg", reason="ROS 2: source an installation, or use ./dev")
    from builtin_interfaces.msg import Duration

    read = yaml.safe_load(message_text(arm.message()))
    points = [
        msg.JointTrajectoryPoint(**point | {"time_from_start": Duration(**point["time_from_start"])})
        for point in read["points"]
    ]
    message = msg.JointTrajectory(joint_names=read["joint_names"], points=points)
    assert len(message.points) == 101 and message.points[-1].time_from_start.sec == 5
    assert np.allclose(message.points[0].positions, arm.start, atol=1e-6)
    assert not np.any(message.points[0].velocities) and not np.any(message.points[100].accelerations)


def test_names_that_look_like_yaml_stay_names():
    names = ["a: b", "- c", "yes", "1.0", "d\ne", "#f"]
    message = trajectory_message(names, np.zeros(1), {"positions": np.zeros((1, 6))})
    assert yaml.safe_load(message_text(message))["joint_names"] == names


# --- errors -------------------------------------------------------------------------------------------------


def test_unsupported_robots_raise():
    for robot, message in (
        (robot_of("five_bar"), r"closed loops"),
        (ROBOTS["solo12"].model(), "floating_base"),
        (
            dn.parse_robot(ARM.replace('type="continuous"', 'type="ball"')),
            "joint2.*ball",
        ),
        (dn.parse_robot(ARM, joints=[]), "no movable joint"),
    ):
        with pytest.raises(dn.ExcitationError, match=message):
            dn.design_excitation(robot)


def test_infeasible_limits_raise():
    weak = dn.parse_robot(ARM.replace('velocity="5" effort="50"', 'velocity="5" effort="3"', 1))
    near = {"joint1": {"min_position": 0.1, "max_position": 0.5}}
    with pytest.raises(dn.ExcitationError, match=r"torque.*joint1.* \d+"):
        dn.design_excitation(weak, 5.0, 2, backend="numpy", restarts=1, limits=near)
    with pytest.raises(dn.ExcitationError, match=r" 0 s.*time limit"):
        dn.design_excitation(weak, 5.0, 2, backend="numpy", restarts=1, limits=near, time_limit=0.0)
    stuck = dn.parse_robot(CART.replace('friction="2"', 'friction="55"'))
    with pytest.raises(ValueError, match="slide.*effort 54"):
        dn.design_excitation(stuck, backend="numpy")
    with pytest.raises(ValueError, match="joint1.*3.5 and 3"):
        joint_bounds(dn.parse_robot(ARM), limits={"joint1": {"min_position": 3.5, "max_position": 4.0}})
    with pytest.raises(ValueError, match="hinge.*0 and 0"):
        dn.design_excitation(dn.parse_robot(CART.replace('lower="-1" upper="2"', "")))


@pytest.mark.parametrize(
    "choices, message",
    [
        ({"criterion": "best"}, "criterion 'best'"),
        ({"units": "inch"}, "units 'inch'"),
        ({"restarts": 0}, "restarts"),
        ({"period": 0.0}, "period"),
        ({"harmonics": 1}, "least 2 harmonics"),
        ({"harmonics": 10**6}, "most 50 harmonics"),
        ({"acceleration": 1e-200, "backend": "numpy", "time_limit": 0.0}, "determines too little"),
        ({"period": 1e9, "backend": "numpy", "time_limit": 0.0}, "determines too little"),
        ({"factor": 1.5}, "factor of limits"),
        ({"velocity": -1.0}, "velocity.*positive"),
        ({"noise": [1.0, 2.0, 3.0]}, "noise.*joint1, joint2"),
        ({"noise": 0.0}, "noise.*positive"),
        ({"time_limit": np.nan}, "time limit.*negative"),
        ({"time_limit": -1.0}, "time limit.*negative"),
        ({"q0": [0.0]}, "q0.*joint1, joint2"),
        ({"q0": [2.9, 0.0]}, "q0.*joint1.*2.9.*-2.7.*2.7"),
        ({"boxes": [dn.Box("hand", [0, 0, 0], [1, 1, 1])]}, "box.*'hand'"),
        ({"terms": ("mass",)}, "terms"),
    ],
)
def test_invalid_arguments_raise(choices, message):
    with pytest.raises(ValueError, match=message):
        dn.design_excitation(dn.parse_robot(ARM), **choices)


def test_empty_and_invalid_boxes():
    with pytest.raises(ValueError, match="lower.*empty"):
        dn.Box("lower", [0, 0, 0], [1, 0, 1])
    with pytest.raises(ValueError, match="upper.*lower.*three"):
        dn.Box("lower", [0, 0, 0], [1, 1])
    with pytest.raises(ValueError, match="point.*lower.*finite"):
        dn.Box("lower", [0, 0, 0], [1, 1, 1], [0, np.inf, 0])
    everywhere = BoxRows(dn.parse_robot(ARM), dn.Box("lower", [-np.inf] * 3, [np.inf] * 3), "numpy")
    assert everywhere.names == () and everywhere.values(*np.zeros((3, 4, 2))).shape == (4, 0)
