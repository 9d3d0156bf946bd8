"""Services: replies against Pinocchio, and invalid requests. For those about trajectories and capability, see
test/core/node/test_trajectory_answers and test_capability_answers."""

import numpy as np
import pytest
from dynamics_interfaces.msg import DynamicsState
from dynamics_interfaces.srv import (
    CheckTrajectory,
    ForwardDynamics,
    GetCapability,
    GetMassMatrix,
    GetOperationalSpaceInertia,
    GetQuantity,
    HybridDynamics,
    InverseDynamics,
    PlanStop,
    ScaleTrajectory,
    SetPayload,
)
from payloads import payload
from rclpy.qos import QoSProfile
from rig import Rig, floats, point, stamp_of, state, trajectory
from robots import PANDA_JOINTS, ROBOTS
from tolerances import EXACT, error

import dynamics_node as dn

LINEAR_FIRST = [3, 4, 5, 0, 1, 2]


@pytest.fixture(scope="module")
def arm(case):
    made = Rig(ROBOTS["panda7"], {"joint_state_timeout": 30.0, "tip_links": ["panda_hand"]})
    panda = case("panda7")
    made.answered(panda.names, panda.q, panda.qd)
    yield made
    made.close()


def with_base(message, pose, twist=(0,) * 6):
    message.has_base = True
    p, o = message.base_pose.position, message.base_pose.orientation
    p.x, p.y, p.z, o.x, o.y, o.z, o.w = floats(pose)
    w, v = message.base_twist.angular, message.base_twist.linear
    w.x, w.y, w.z, v.x, v.y, v.z = floats(twist)
    return message


def matrix(message):
    return np.array(message.data).reshape(message.rows, message.cols)


def good(response):
    assert response.success, response.message
    return response


def assert_rejected(response, reason):
    assert not response.success
    assert reason in response.message, response.message


def test_every_request_of_a_burst_has_a_reply(arm, panda):
    """A queue of ROS's usual depth holds ten requests."""
    request = InverseDynamics.Request(state=state(panda.names, panda.q, panda.qd))
    name = f"{arm.served}/inverse_dynamics"
    client = arm.node.create_client(InverseDynamics, name, qos_profile=QoSProfile(depth=100))
    arm.until(client.service_is_ready)
    futures = [client.call_async(request) for _ in range(40)]
    arm.until(lambda: all(future.done() for future in futures))
    for future in futures:
        (only,) = good(future.result()).solution.points
        assert error(only.effort, panda.torque()) <= EXACT
    arm.node.destroy_client(client)


# --- inverse, forward, hybrid ---------------------------------------------------------------------------


def test_inverse_of_a_state(arm, panda):
    (only,) = good(arm.ask(InverseDynamics, state=state(panda.names, panda.q, panda.qd))).solution.points
    assert error(only.effort, panda.torque()) <= EXACT
    assert np.array_equal(only.positions, panda.q) and np.array_equal(only.velocities, panda.qd)


def test_an_empty_request_uses_the_latest_measured_state(arm, panda):
    arm.answered(panda.names, panda.q, panda.qd)
    solution = good(arm.ask(InverseDynamics)).solution
    assert tuple(solution.joint_names) == panda.names
    assert error(solution.points[0].effort, panda.torque()) <= EXACT


def test_inverse_of_a_trajectory(arm, panda):
    random = np.random.default_rng(4)
    q, qd, qdd = random.uniform(-1, 1, (3, 200, 7))
    order = random.permutation(7)
    points = [point(0.01 * k, q[k, order], qd[k, order], qdd[k, order]) for k in range(200)]
    solution = good(
        arm.ask(InverseDynamics, points=trajectory([panda.names[k] for k in order], *points))
    ).solution
    expected = [panda.oracle.inverse(*s) for s in zip(q, qd, qdd, strict=True)]
    assert error([p.effort for p in solution.points], expected).max() <= EXACT
    assert solution.points[150].time_from_start == points[150].time_from_start


def test_replies_have_the_stamp_of_their_state(arm, panda):
    given = state(panda.names, panda.q, panda.qd)
    given.joints.header.stamp.sec = 12
    measured = stamp_of(arm.answered(panda.names, panda.q, panda.qd))
    for stated, stamp in ((DynamicsState(), None), (given, 12 * 10**9)):
        replies = (
            arm.ask(InverseDynamics, state=stated).solution,
            arm.ask(GetMassMatrix, state=stated),
            arm.ask(GetOperationalSpaceInertia, state=stated, links=["panda_link7"]),
        )
        for reply in replies:
            assert reply.header.frame_id == "panda_link0"
            # of the answered state or a later one
            assert stamp_of(reply) == stamp if stamp else measured <= stamp_of(reply) <= arm.next_stamp()


def test_points_override_the_state(arm, panda):
    points = trajectory(["panda_joint4"], point(qdd=[2.0]))
    (only,) = good(
        arm.ask(InverseDynamics, state=state(panda.names, panda.q, panda.qd), points=points)
    ).solution.points
    assert error(only.effort, panda.torque(qdd=2.0 * (np.arange(7) == 3))) <= EXACT


def test_forward_of_state_and_of_points(arm, panda):
    tau = np.array([5.0, -20, 3, 10, 1, 2, 0.5])
    expected = panda.oracle.forward(panda.q, panda.qd, tau)
    measured = ForwardDynamics.Request(state=state(panda.names, panda.q, panda.qd, tau))
    points = ForwardDynamics.Request(
        state=state(panda.names, panda.q, panda.qd), points=trajectory(panda.names, point(effort=tau))
    )
    for request in (measured, points):
        (only,) = good(arm.call(ForwardDynamics, "forward_dynamics", request)).solution.points
        assert error(only.accelerations, expected) <= 1e-9
        assert np.array_equal(only.effort, tau)


def test_missing_efforts_are_rejected(arm, panda):
    without_effort = state(panda.names, panda.q, panda.qd)
    rejected = arm.ask(ForwardDynamics, state=without_effort)
    assert_rejected(rejected, "neither points nor state have the effort of panda_joint1")
    some = trajectory(panda.names[:6], point(effort=[0.0] * 6))
    fields = {"state": without_effort, "points": some}
    rejected = arm.ask(HybridDynamics, **fields, forward_joints=["panda_joint7"])
    assert_rejected(rejected, "the effort of panda_joint7")
    good(arm.ask(HybridDynamics, **fields, forward_joints=["panda_joint6"]))


def test_base_of_the_request_with_measured_joints(dog, case):
    solo = case("solo12")
    pose = np.array([0.1, 0.2, 0.3, 0.5, 0.5, -0.5, 0.5])

    def measured():
        dog.send_state(solo.names, solo.q, solo.qd)
        answer = dog.ask(GetMassMatrix, state=with_base(state(), pose))
        return answer if answer.success else None

    answer = dog.until(measured, what="a measured state")
    order = [*LINEAR_FIRST, *range(6, 18)]
    M = solo.oracle.mass_matrix(np.concatenate([pose, solo.q]))[np.ix_(order, order)]
    assert error(matrix(answer.mass_matrix), M, tail=2) <= EXACT


def test_hybrid(arm, panda):
    chosen = ["panda_joint3", "panda_joint5"]
    forward = np.isin(panda.names, chosen)
    tau = panda.torque(qdd=panda.qdd)
    points = point(qdd=np.where(forward, 0, panda.qdd), effort=np.where(forward, tau, 0))
    fields = {"state": state(panda.names, panda.q, panda.qd), "points": trajectory(panda.names, points)}
    (only,) = good(arm.ask(HybridDynamics, **fields, forward_joints=chosen)).solution.points
    assert error(only.accelerations, panda.qdd) <= 1e-9 and error(only.effort, tau) <= 1e-9


def test_gravity_set_at_run_time_is_used(arm, panda):
    assert arm.set_parameters(gravity=[0.0, 0.0, 0.0])[0]
    (only,) = good(arm.ask(InverseDynamics, state=state(panda.names, panda.q, 0 * panda.qd))).solution.points
    assert np.abs(only.effort).max() < 1e-12
    assert arm.set_parameters(gravity=[0.0, 0.0, -9.81])[0]


# --- matrices ---------------------------------------------------------------------------------------


def test_mass_matrix(arm, panda):
    answer = good(arm.ask(GetMassMatrix, state=state(panda.names, panda.q, panda.qd)))
    assert tuple(answer.mass_matrix.row_names) == tuple(answer.mass_matrix.col_names) == panda.names
    assert error(matrix(answer.mass_matrix), panda.oracle.mass_matrix(panda.q), tail=2) <= EXACT
    assert error(answer.nonlinear_effects, panda.torque()) <= EXACT


@pytest.mark.parametrize("reference", ["", "world_aligned", "body"])
@pytest.mark.parametrize("links", [[], ["panda_hand"], ["panda_link4", "panda_hand"]])
def test_operational_space(arm, panda, links, reference):
    fields = {"state": state(panda.names, panda.q), "links": links, "reference": reference}
    answer = good(arm.ask(GetOperationalSpaceInertia, **fields))
    names = links or ["panda_hand"]
    rows = [f"{n}.{part}.{axis}" for n in names for part in ("linear", "angular") for axis in "xyz"]
    assert list(answer.jacobian.row_names) == list(answer.inertia_inverse.row_names) == rows
    assert tuple(answer.jacobian.col_names) == panda.names
    J = np.concatenate(
        [panda.oracle.jacobian(panda.q, n, reference or "world_aligned")[LINEAR_FIRST] for n in names]
    )
    assert error(matrix(answer.jacobian), J, tail=2) <= EXACT
    inverse = J @ np.linalg.solve(panda.oracle.mass_matrix(panda.q), J.T)
    assert error(matrix(answer.inertia_inverse), inverse, tail=2) <= 1e-9
    if len(names) == 1:
        assert np.allclose(matrix(answer.inertia) @ inverse, np.eye(6), atol=1e-6)
        assert answer.condition_number == pytest.approx(np.linalg.cond(inverse), rel=1e-6)
    else:  # twelve rows, seven joints
        assert answer.inertia.rows == 0 and answer.condition_number >= 1e12
        assert "singular" in answer.message


def test_floating_base(dog, case):
    solo = case("solo12")
    pose = np.array([0.1, 0.2, 0.3, 0.5, 0.5, -0.5, 0.5])
    twist = np.array([0.3, -0.1, 0.2, 0.5, 0.4, -0.3])
    message = with_base(state(solo.names, solo.q, solo.qd), pose, twist)
    answer = good(dog.ask(GetMassMatrix, state=message))
    assert list(answer.mass_matrix.row_names[:6]) == [
        f"floating_base.{part}.{axis}" for part in ("linear", "angular") for axis in "xyz"
    ]
    q, qd = np.concatenate([pose, solo.q]), np.concatenate([twist, solo.qd])
    order = [*LINEAR_FIRST, *range(6, 18)]
    M = solo.oracle.mass_matrix(q)[np.ix_(order, order)]
    assert error(matrix(answer.mass_matrix), M, tail=2) <= EXACT
    assert error(answer.nonlinear_effects, solo.oracle.inverse(q, qd, 0 * qd)[order]) <= EXACT
    answer = good(dog.ask(GetOperationalSpaceInertia, state=message, links=["FL_FOOT", "HR_FOOT"]))
    J = np.concatenate(
        [solo.oracle.jacobian(q, n, "world_aligned")[LINEAR_FIRST] for n in ("FL_FOOT", "HR_FOOT")]
    )[:, order]
    assert error(matrix(answer.jacobian), J, tail=2) <= EXACT
    assert error(matrix(answer.inertia_inverse), J @ np.linalg.solve(M, J.T), tail=2) <= 1e-9
    (only,) = good(dog.ask(InverseDynamics, state=message)).solution.points
    assert error(only.effort, solo.oracle.inverse(q, qd, 0 * qd)[6:]) <= EXACT


def test_a_stop(arm, case):
    q, qd = [0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8], [1.5, 0.5, 0.0, -0.8, 0.0, 0.6, 0.0]
    answer = good(arm.ask(PlanStop, state=state(NAMES, q, qd)))
    stop = dn.stopping_trajectory(case("panda7").model, q, qd, backend="numpy")
    assert np.isclose(answer.time, stop.time, rtol=1e-6) and answer.link_names == ["panda_hand"]
    assert np.allclose([point.positions for point in answer.solution.points], stop.trajectory.q)


# --- refusals ---------------------------------------------------------------------------------------


def test_services_fail_without_a_robot(rig):
    r = rig(None)
    assert r.call(SetPayload, "set_payload", payload()).message == "no robot yet"
    for kind, name in (
        (InverseDynamics, "inverse_dynamics"),
        (ForwardDynamics, "forward_dynamics"),
        (HybridDynamics, "hybrid_dynamics"),
        (GetMassMatrix, "get_mass_matrix"),
        (GetOperationalSpaceInertia, "get_operational_space_inertia"),
        (GetCapability, "get_capability"),
        (CheckTrajectory, "check_trajectory"),
        (ScaleTrajectory, "scale_trajectory"),
        (PlanStop, "plan_stop"),
    ):
        assert_rejected(r.call(kind, name), "no robot yet")
    assert_rejected(r.ask(GetQuantity, quantity="nonlinear_effects"), "no robot yet")


NAMES = list(PANDA_JOINTS)
BAD_STATES = {
    "missing": (state(NAMES[:6], [0] * 6), "the state lacks joint panda_joint7"),
    "twice": (state([*NAMES, NAMES[0]], [0] * 8), "joint 'panda_joint1' is listed twice"),
    "unequal": (state(NAMES, [0] * 6), "7 names but 6 entries in position"),
    "NaN": (state(NAMES, [0, 0, np.nan, 0, 0, 0, 0]), "position of 'panda_joint3' is nan"),
    "NaN velocity": (state(NAMES, [0] * 7, [np.nan] * 7), "velocity NaN for panda_joint1"),
    "too many": (state([f"j{k}" for k in range(10_001)], [0] * 10_001), "10001 names; the limit is 10000"),
}


@pytest.mark.parametrize("case_name", BAD_STATES)
def test_invalid_states_are_rejected(arm, case_name):
    message, reason = BAD_STATES[case_name]
    assert_rejected(arm.ask(GetMassMatrix, state=message), reason)
    assert_rejected(arm.ask(InverseDynamics, state=message), reason)


FULL = state(NAMES, [0.1] * 7)
BAD_POINTS = {
    "unknown": (trajectory(["elbow"], point(qdd=[1.0])), "points have unknown joint elbow"),
    "twice": (trajectory(["panda_joint1"] * 2, point(qdd=[1, 1])), "joint 'panda_joint1' is listed twice"),
    "unequal": (trajectory(NAMES, point(qdd=[1, 1])), "point 0: 7 names but 2 entries in accelerations"),
    "NaN": (trajectory(["panda_joint2"], point(qdd=[np.nan])), "accelerations of 'panda_joint2' is nan"),
}


@pytest.mark.parametrize("case_name", BAD_POINTS)
def test_invalid_points_are_rejected(arm, case_name):
    points, reason = BAD_POINTS[case_name]
    assert_rejected(arm.ask(InverseDynamics, state=FULL, points=points), reason)


def test_too_many_points_are_rejected(arm):
    request = InverseDynamics.Request(state=FULL)
    request.points.points = [point(float(k)) for k in range(100_001)]
    assert_rejected(
        arm.call(InverseDynamics, "inverse_dynamics", request),
        "the trajectory has 100001 points; the limit is 100000",
    )


def test_invalid_links_and_references_are_rejected(arm):
    def call(**fields):
        return arm.ask(GetOperationalSpaceInertia, state=FULL, **fields)

    assert_rejected(call(links=["nose"]), "unknown link 'nose'; the robot has: panda_hand")
    assert_rejected(call(links=["panda_hand"], reference="sideways"), "unknown reference 'sideways'")


def test_a_request_without_links_is_rejected(dog, case):
    solo = case("solo12")
    message = with_base(state(solo.names, solo.q), (0, 0, 0, 0, 0, 0, 1))
    assert_rejected(dog.ask(GetOperationalSpaceInertia, state=message), "no links")


def test_hybrid_with_an_unknown_joint_is_rejected(arm):
    assert_rejected(
        arm.ask(HybridDynamics, state=FULL, forward_joints=["knee"]), "forward joint 'knee' is unknown"
    )


def test_a_missing_or_invalid_base_is_rejected(dog, case):
    solo = case("solo12")
    assert_rejected(
        dog.ask(GetMassMatrix, state=state(solo.names, solo.q)), "floating base, but no odom message yet"
    )
    assert_rejected(
        dog.ask(GetMassMatrix, state=with_base(state(solo.names, solo.q), (0, 0, 0, 1, 1, 1, 1))),
        "quaternion of the base has norm 2",
    )


def test_the_last_robot_serves_during_a_build(arm, panda):
    """Also after an invalid description."""
    arm.describe("<robot name='broken'>")
    good(arm.ask(GetMassMatrix, state=state(panda.names, panda.q)))
    message, _, _ = arm.diagnostic(lambda s: "malformed" in s.message)
    assert "the last valid robot is in use" in message
    good(arm.ask(GetMassMatrix, state=state(panda.names, panda.q)))
    arm.describe(panda.robot.file.read_text())
