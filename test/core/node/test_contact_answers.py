"""Replies of the dynamics services for a robot on its feet, without a node. Against Pinocchio."""

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="ROS 2: source an installation, or use ./dev")
interfaces = pytest.importorskip(
    "dynamics_interfaces.srv", reason="build dynamics_interfaces first, or use ./dev"
)
pytest.importorskip("pinocchio", reason="the oracle: pip install pin")

from cases import case_of
from environments import COM, MASS, MOMENTS, load
from geometry_msgs.msg import Accel
from oracle import Oracle
from plain import serve
from standing import FEET, FILE, standing
from tolerances import error
from trajectory_msgs.msg import JointTrajectoryPoint

from dynamics_node.node.services.services import Services

EXACT = 1e-9
POSE = np.array([0.1, 0.2, 0.24, 0.0, 0.0, 0.1, np.sqrt(0.99)])
LEGS = np.tile([0.1, 0.8, -1.6], 4)
RISE = np.array([0.3, -0.2, 0.1, 0.5, -0.4, 0.6])  # angular first
LINEAR_FIRST = [3, 4, 5, 0, 1, 2]


class Dog:
    def __init__(self, file, **values):
        file.write_text(FILE)
        self.case = case_of("solo12")
        self.core = serve("solo12", contacts_file=str(file), **values).core

    def request(self, kind, points=(), **fields):
        request = kind.Request(**fields)
        joints, pose = request.state.joints, request.state.base_pose
        joints.name, joints.position = list(self.case.names), list(LEGS)
        joints.effort = [0.0] * 12
        request.state.has_base = True
        (p, o), numbers = (pose.position, pose.orientation), map(float, POSE)
        p.x, p.y, p.z, o.x, o.y, o.z, o.w = numbers
        request.points.joint_names = list(self.case.names)
        request.points.points = [JointTrajectoryPoint(**point) for point in points]
        return request

    def answer(self, kind, points=(), **fields):
        callback = Services(lambda: self.core).callback(kind)
        return callback(self.request(kind, points, **fields), kind.Response())

    def good(self, *arguments, **fields):
        answer = self.answer(*arguments, **fields)
        assert answer.success, answer.message
        return answer

    def state(self, shift=0.0):
        return np.concatenate([POSE, LEGS + shift])


@pytest.fixture(scope="module")
def dog(tmp_path_factory):
    return Dog(tmp_path_factory.mktemp("dog") / "contacts.yaml")


def accel(values):
    message = Accel()
    w, v = message.angular, message.linear
    w.x, w.y, w.z, v.x, v.y, v.z = map(float, values)
    return message


def matrix(message):
    return np.array(message.data).reshape(message.rows, message.cols)


def efforts(answer, field="effort"):
    return np.array([getattr(point, field) for point in answer.solution.points])


@pytest.mark.parametrize("payload", [False, True])
@pytest.mark.parametrize("feet", [FEET, FEET[2:0:-1] + FEET[:1], ()], ids=len)
@pytest.mark.parametrize("count", [1, 70])
def test_inverse_dynamics_of_many_points(tmp_path, feet, count, payload):
    dog, oracle = Dog(tmp_path / "contacts.yaml"), case_of("solo12").oracle
    if payload:
        oracle = Oracle(dog.case.robot, dog.case.model)
        dog.core.set_payload(dog.case.model.base_link, MASS, COM, MOMENTS)
        load(oracle, dog.case.model.base_link)
    shifts = np.linspace(0, 0.2, count)
    points = [{"positions": list(LEGS + shift), "accelerations": [0.5] * 12} for shift in shifts]
    accelerations = [accel(RISE * (1 + shift)) for shift in shifts]
    answer = dog.good(
        interfaces.InverseDynamics, points, active_contacts=list(feet), base_accelerations=accelerations
    )
    assert list(answer.base_wrenches.col_names)[::3] == ["force.x", "moment.x"]
    rows = matrix(answer.contact_forces) if feet else np.zeros((count, 12))
    assert list(answer.contact_forces.col_names)[:3] == (
        ["FL_FOOT.fx", "FL_FOOT.fy", "FL_FOOT.fz"] if feet else []
    )
    for k in range(0, count, 23):
        qdd = np.concatenate([RISE * (1 + shifts[k]), np.full(12, 0.5)])
        tau, forces = standing(
            oracle, dog.state(shifts[k]), np.zeros(18), qdd, [f for f in FEET if f in feet]
        )
        assert error(efforts(answer)[k], tau[6:]) < EXACT
        given = np.concatenate([forces.get(foot, np.zeros(3)) for foot in FEET])
        assert np.abs(rows[k] - given).max() < EXACT * max(1.0, np.abs(given).max())
        assert (
            np.abs(matrix(answer.base_wrenches)[k] - tau[:6][LINEAR_FIRST]).max() < EXACT * np.abs(tau).max()
        )


def test_inverse_dynamics_within_friction_cones(tmp_path):
    """Forces that the ground gives; where it gives none, the state and the contact are named."""
    pytest.importorskip("daqp", reason="the solver: pip install 'dynamics_node[contacts]'")
    dog = Dog(tmp_path / "contacts.yaml", contact_forces="friction_cones")
    points = [{"positions": list(LEGS)}] * 2
    still, forward, faster = (accel([0, 0, 0, x, 0, 0]) for x in (0.0, 6.0, 9.0))
    ask = {"active_contacts": list(FEET), "base_accelerations": [still, forward]}
    answer = dog.good(interfaces.InverseDynamics, points, **ask)
    forces = matrix(answer.contact_forces).reshape(2, 4, 3)
    assert (np.hypot(forces[..., 0], forces[..., 1]) <= 0.8 * forces[..., 2] + 1e-6).all()
    assert np.abs(matrix(answer.base_wrenches)).max() < 1e-4 and answer.message == ""
    ask["base_accelerations"] = [still, faster]
    answer = dog.answer(interfaces.InverseDynamics, points, **ask)
    assert not answer.success and "this acceleration at state 1: contact '" in answer.message
    assert "_FOOT' slips: " in answer.message and not answer.solution.points
    dog.core = serve(
        "solo12", contacts_file=str(tmp_path / "contacts.yaml"), contact_forces="friction_cones",
        on_violation="least",
    ).core  # fmt: skip
    answer = dog.good(interfaces.InverseDynamics, points, **ask)
    assert answer.message.startswith("least violation at state 1: contact '")
    assert len(answer.solution.points) == 2
    answer = dog.answer(
        interfaces.InverseDynamics, [{"positions": list(LEGS)}] * 10_001, active_contacts=list(FEET)
    )
    assert not answer.success and "10001 points; the limit is 10000 with contact_forces" in answer.message


def motion(dog, answer, k=0):
    """The accelerations (18,) of point k, and J^T of its contact forces."""
    base = matrix(answer.base_accelerations)[k][LINEAR_FIRST]
    qdd = np.concatenate([base, efforts(answer, "accelerations")[k]])
    forces = matrix(answer.contact_forces)[k].reshape(-1, 3)
    J = np.concatenate([dog.case.oracle.jacobian(dog.state(), foot)[3:] for foot in FEET])
    return qdd, J, forces


def test_forward_dynamics(dog):
    """The equation of motion holds, and active feet at rest do not accelerate."""
    tau = np.linspace(-1, 1, 12)
    answer = dog.good(
        interfaces.ForwardDynamics,
        [{"positions": list(LEGS), "effort": list(tau)}],
        active_contacts=list(FEET[:3]),
    )
    qdd, J, forces = motion(dog, answer)
    needed = dog.case.oracle.inverse(dog.state(), np.zeros(18), qdd)
    assert error(J.T @ forces.ravel() + np.r_[np.zeros(6), tau], needed) < EXACT
    assert np.abs(J @ qdd)[:9].max() < EXACT < np.abs(J @ qdd)[9:].max() and not forces[3].any()


def test_hybrid_dynamics(dog):
    """A joint without a motor under a robot whose base accelerates."""
    answer = dog.good(
        interfaces.HybridDynamics,
        [{"positions": list(LEGS), "effort": [0.0] * 12, "accelerations": [0.0] * 12}],
        forward_joints=["FL_KFE"],
        active_contacts=["HR_FOOT"],
        base_accelerations=[accel(RISE)],
    )
    qdd, J, forces = motion(dog, answer)
    needed = dog.case.oracle.inverse(dog.state(), np.zeros(18), qdd)
    tau = np.r_[matrix(answer.base_wrenches)[0][LINEAR_FIRST], efforts(answer)[0]]
    assert error(J.T @ forces.ravel() + tau, needed) < EXACT
    assert np.array_equal(qdd[:6], RISE) and tau[8] == 0.0 != qdd[8]


def test_replies_without_contacts_and_base(tmp_path):
    core = serve("panda7").core
    kind = interfaces.InverseDynamics
    request = kind.Request()
    request.state.joints.name, request.state.joints.position = list(core.joints.names), [0.1] * 7
    callback = Services(lambda: core).callback(kind)
    answer = callback(request, kind.Response())
    assert answer.success and not answer.contact_forces.data and not answer.base_wrenches.data
    request.active_contacts = ["FL_FOOT"]
    answer = callback(request, kind.Response())
    assert not answer.success and "set the parameter contacts_file" in answer.message
    request.active_contacts, request.base_accelerations = [], [accel(RISE)]
    answer = callback(request, kind.Response())
    assert not answer.success and "no floating base" in answer.message


@pytest.mark.parametrize(
    "fields, reason",
    [
        ({"active_contacts": ["TAIL"]}, "unknown contact TAIL; contacts_file has: FL_FOOT"),
        ({"active_contacts": ["FL_FOOT", "FL_FOOT"]}, "'FL_FOOT' is listed twice"),
        ({"active_contacts": [f"x{k}" for k in range(10_001)]}, "the limit is 10000"),
        ({"base_accelerations": [accel(RISE)] * 3}, "2 points but 3 entries in base_accelerations"),
        ({"base_accelerations": [accel(RISE), accel([np.nan] * 6)]}, "entry 1 of base_accelerations"),
        ({"base_accelerations": [accel([1e150] * 6)]}, "entry 0 of base_accelerations"),
    ],
)
def test_bad_requests(dog, fields, reason):
    for kind in (interfaces.InverseDynamics, interfaces.HybridDynamics):
        more = {"forward_joints": ["FL_KFE"]} if kind is interfaces.HybridDynamics else {}
        answer = dog.answer(kind, [{"positions": list(LEGS)}] * 2, **fields, **more)
        assert not answer.success and reason in answer.message
        assert not answer.solution.points and not answer.contact_forces.data
