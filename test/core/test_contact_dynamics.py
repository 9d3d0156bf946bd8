"""Forward, inverse and hybrid dynamics with contacts, against dense equations with Pinocchio's matrices."""

from itertools import product

import numpy as np
import pytest
from oracle import Oracle, pin
from robots import ROBOTS, random_states, robot_of
from rolled import rolled
from tolerances import error

import dynamics_node as dn
from dynamics_node.symbolic import cross_motion, rpy_rotation, skew

EXACT = 1e-9  # accelerations and unique forces, relative to the largest
FEET = ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT")
SOLES = ("left_sole_link", "right_sole_link")


def corners(link, x=0.1, y=0.06):
    places = product((-x, x), (-y, y))
    return [dn.Contact(link, name=f"{link} {k}", xyz=(*place, 0.0)) for k, place in enumerate(places)]


SETS = {
    "four feet": ("solo12", [dn.Contact(foot) for foot in FEET]),
    "feet on slopes": ("solo12", [dn.Contact(foot, normal=(1, k, 2.0)) for k, foot in enumerate(FEET)]),
    "two soles": ("talos", [dn.Contact(sole, "surface", rpy=(0.1, 0.2, 0.3)) for sole in SOLES]),
    "corners of two soles": ("talos", [contact for sole in SOLES for contact in corners(sole)]),
    "a pressing arm": ("panda7", [dn.Contact("panda_link7", xyz=(0, 0, 0.1))]),
    "hand on thigh": ("solo12", [dn.Contact("FL_FOOT", other="HR_UPPER_LEG", xyz=(0.01, 0, 0))]),
}


BACKEND = {"solo12": "c", "panda7": "c", "talos": "numpy"}  # Talos takes 3 s to compile


class Dense:
    """The rows of contacts by Pinocchio's frames: J (rows, nv), and b (rows,) of the accelerations J qdd + b."""

    def __init__(self, name, contacts):
        self.robot, self.contacts = robot_of(name), contacts
        self.oracle = Oracle(ROBOTS[name], self.robot)

    def rows(self, q, qd):
        J, b = zip(*(self._rows(contact, q, qd) for contact in self.contacts), strict=True)
        return np.concatenate(J), np.concatenate(b)

    def _rows(self, contact, q, qd):
        R, p, J, b = self._point(contact.link, q, qd, contact.xyz)
        axes = R @ rpy_rotation(contact.rpy)
        if contact.kind == "point":
            axes = self._axes(contact, q)
        if contact.other:
            R_other, origin, *_ = self._point(contact.other, q, qd, (0, 0, 0))
            _, _, J_other, b_other = self._point(contact.other, q, qd, R_other.T @ (p - origin))
            V, V_other = J @ qd, J_other @ qd
            J, b = J - J_other, b - b_other + cross_motion(V, V_other)
        turn = np.kron(np.eye(2), axes.T)
        return (turn @ J)[-len(contact.rows) :], (turn @ b)[-len(contact.rows) :]

    def _axes(self, contact, q):
        R = (
            self._point(contact.other, q, np.zeros(self.robot.nv), (0, 0, 0))[0]
            if contact.other
            else np.eye(3)
        )
        z = np.array(contact.normal)
        x = np.eye(3)[np.argmin(np.abs(z))]
        x = x - (x @ z) * z
        x /= np.linalg.norm(x)
        return R @ np.stack([x, np.cross(z, x), z], axis=1)

    def _point(self, link, q, qd, xyz):
        """Of a point of a link: its axes and place, J (6, nv) of it in axes of the world, and the spatial
        acceleration (6,) without qdd."""
        model, data = self.oracle.pin, self.oracle.data
        frame = model.getFrameId(link, pin.BODY)
        pin.forwardKinematics(model, data, self.oracle.q(q), self.oracle.v(qd), np.zeros(model.nv))
        placement = pin.updateFramePlacement(model, data, frame)
        J = self.oracle.jacobian(q, link)
        a = pin.getFrameAcceleration(model, data, frame, pin.LOCAL_WORLD_ALIGNED)
        x = placement.rotation @ np.array(xyz)
        J = np.concatenate([J[:3], J[3:] - skew(x) @ J[:3]])
        return (
            placement.rotation,
            placement.translation + x,
            J,
            np.r_[a.angular, a.linear + np.cross(a.angular, x)],
        )

    def forward(self, q, qd, tau, active, accelerations=0.0):
        """qdd, and the rows that are active."""
        M, h = self.oracle.mass_matrix(q), self.oracle.inverse(q, qd, np.zeros(self.robot.nv))
        on = dn.forward_dynamics(self.robot, self.contacts).rows.of_rows(active) > 0
        J, b = self.rows(q, qd)
        J, b = J[on], (b - accelerations)[on]
        L = np.linalg.cholesky(M)
        half, still = np.linalg.solve(L, J.T), np.linalg.solve(L, tau - h)
        pushed = np.linalg.lstsq(half.T, -b - half.T @ still, rcond=1e-9)[0] if on.any() else 0.0
        return np.linalg.solve(L.T, still + pushed), on


def states(name, count, contacts):
    robot = robot_of(name)
    q, qd, tau = random_states(robot, count)[:3]
    active = np.random.default_rng(3).integers(0, 2, (count, len(contacts))).astype(float)
    active[0], active[1] = 1.0, 0.0
    return robot, q, qd, tau, active


@pytest.mark.parametrize("case", SETS)
def test_forward_dynamics(case):
    name, contacts = SETS[case]
    robot, q, qd, tau, active = states(name, 12, contacts)
    problem, dense = dn.forward_dynamics(robot, contacts), Dense(name, contacts)
    forward = dn.build(robot, problem, backend=BACKEND[name])
    wanted = np.random.default_rng(4).uniform(-1, 1, len(problem.rows.names)) * (
        case != "corners of two soles"
    )
    qdd, forces = forward(q, qd, tau, active, wanted)
    for k in range(len(q)):
        expected, on = dense.forward(q[k], qd[k], tau[k], active[k], wanted)
        assert error(qdd[k], expected) < EXACT
        J, _ = dense.rows(q[k], qd[k])
        rest = dense.oracle.inverse(q[k], qd[k], qdd[k]) - tau[k] - J.T @ forces[k]
        assert np.abs(rest).max() < EXACT * max(1.0, np.abs(forces[k]).max(), np.abs(tau[k]).max())
        assert not forces[k][~on].any()


def test_two_links_that_hold_each_other_stay_together():
    """A toe held to a thigh stays at its place on the thigh, while both move."""
    robot = robot_of("solo12")
    contact = dn.Contact("FL_FOOT", other="HR_UPPER_LEG")
    forward = dn.build(robot, dn.forward_dynamics(robot, contact))
    q, qd = random_states(robot, 1, seed=5)[:2]
    dense = Dense("solo12", [contact])
    J, _ = dense.rows(q[0], qd[0])
    still = qd[0] - np.linalg.pinv(J) @ J @ qd[0]
    before = place_on(robot, q[0])
    q, qd = rolled(robot, forward, q[0], still, np.zeros(robot.nv), np.ones(1), 0.1, 400)
    assert np.abs(place_on(robot, q) - before).max() < 1e-7
    assert np.abs(dense.rows(q, qd)[0] @ qd).max() < 1e-6


def place_on(robot, q):
    """The foot in axes of the thigh."""
    (R, p), (_, foot) = (
        dn.evaluate(robot, "frame_pose", q, link=link, backend="numpy")
        for link in ("HR_UPPER_LEG", "FL_FOOT")
    )
    return R.T @ (foot - p)


@pytest.mark.parametrize("case", SETS)
def test_forces_are_the_shortest(case):
    """Forces that move nothing are left out: lambda is orthogonal to every one of them."""
    name, contacts = SETS[case]
    robot, q, qd, tau, active = states(name, 6, contacts)
    _, forces = dn.build(robot, dn.forward_dynamics(robot, contacts), backend=BACKEND[name])(
        q, qd, tau, active
    )
    dense = Dense(name, contacts)
    rows = dn.forward_dynamics(robot, contacts).rows
    units = np.array([0.1 if "m" in row.rsplit(".", 1)[1][0] else 1.0 for row in rows.names])
    for k in range(len(q)):
        J = dense.rows(q[k], qd[k])[0] * rows.of_rows(active[k])[:, None] * units[:, None]
        _, sizes, V = np.linalg.svd(J.T)
        idle = V[int((sizes > 1e-9 * max(sizes.max(), 1e-9)).sum()) :]
        assert np.abs(idle @ (forces[k] / units)).max(initial=0.0) < EXACT * max(1.0, np.abs(forces[k]).max())


def test_the_equations_of_pinocchio():
    """Its point contacts have the classical acceleration, which differs by w x v; here v is zero."""
    name, contacts = SETS["four feet"]
    robot, q, qd, tau, _ = states(name, 5, contacts)
    dense, forward = Dense(name, contacts), dn.build(robot, dn.forward_dynamics(robot, contacts))
    model, data = dense.oracle.pin, dense.oracle.data
    models, datas = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
    for foot in FEET:
        frame = model.frames[model.getFrameId(foot)]
        kind = pin.ContactType.CONTACT_3D
        models.append(
            pin.RigidConstraintModel(kind, model, frame.parentJoint, frame.placement, pin.LOCAL_WORLD_ALIGNED)
        )
        datas.append(models[-1].createData())
    pin.initConstraintDynamics(model, data, models, datas)
    for k in range(len(q)):
        J, _ = dense.rows(q[k], qd[k])
        still = qd[k] - np.linalg.pinv(J) @ (J @ qd[k])
        state = [dense.oracle.q(q[k]), dense.oracle.v(still), dense.oracle.v(tau[k])]
        expected = pin.constraintDynamics(
            model, data, *state, models, datas, pin.ProximalSettings(1e-14, 0.0, 1)
        )
        qdd, _ = forward(q[k], still, tau[k], np.ones(4))
        assert error(qdd, expected[dense.oracle.order]) < 1e-8


@pytest.mark.parametrize("case", ["four feet", "two soles", "corners of two soles"])
def test_inverse_dynamics_need_no_motor_at_the_base(case):
    name, contacts = SETS[case]
    robot, q, qd, qdd, _ = states(name, 6, contacts)
    active = np.ones(len(contacts))
    inverse = dn.build(robot, dn.inverse_dynamics(robot, contacts), backend=BACKEND[name])
    tau, forces = inverse(q, qd, qdd, active)
    dense = Dense(name, contacts)
    for k in range(len(q)):
        J, _ = dense.rows(q[k], qd[k])
        expected = dense.oracle.inverse(q[k], qd[k], qdd[k])
        size = max(1.0, np.abs(forces[k]).max())
        assert np.abs(tau[k] + J.T @ forces[k] - expected).max() < EXACT * size
        assert np.abs(tau[k][:6]).max() < EXACT * size


def test_torques_at_the_base_are_what_contacts_cannot_give():
    robot = robot_of("solo12")
    inverse = dn.build(robot, dn.inverse_dynamics(robot, [dn.Contact(foot) for foot in FEET]))
    q, zero = robot.neutral(), np.zeros(robot.nv)
    plain = dn.evaluate(robot, "inverse_dynamics", q, zero, zero, backend="numpy")
    tau, forces = inverse(q, zero, zero, np.zeros(4))
    np.testing.assert_allclose(tau, plain, atol=1e-12)
    assert not forces.any()
    one, _ = inverse(q, zero, zero, [1, 0, 0, 0])  # one foot gives a force, but no moment about itself
    assert np.abs(one[:3]).max() > 0.1


def test_hybrid_dynamics_hold_a_robot_on_its_feet():
    """With accelerations of the legs at which all feet stand, the base follows; forward dynamics agree."""
    name, contacts = SETS["four feet"]
    robot, q, qd, tau, _ = states(name, 6, contacts)
    forward = dn.build(robot, dn.forward_dynamics(robot, contacts))
    hybrid = dn.build(robot, dn.hybrid_dynamics(robot, [robot.independent_joints[0].name], contacts))
    qdd, forces = forward(q, qd, tau, np.ones(4))
    legs = qdd.copy()
    legs[:, :6] = np.nan
    accelerations, torques, shortest = hybrid(q, qd, legs, tau, np.ones(4))
    dense = Dense(name, contacts)
    for k in range(len(q)):
        assert error(accelerations[k], qdd[k]) < EXACT
        J, _ = dense.rows(q[k], qd[k])
        expected = dense.oracle.inverse(q[k], qd[k], qdd[k]) - J.T @ shortest[k]
        assert np.abs(torques[k] - expected).max() < 1e-8 * max(1.0, np.abs(expected).max())
        assert np.linalg.norm(shortest[k]) <= np.linalg.norm(forces[k]) * (1 + EXACT)


def test_contacts_of_known_accelerations_push_with_nothing():
    """Hybrid dynamics that know every acceleration are inverse dynamics with a motor at the base, also their derivatives."""
    name, contacts = SETS["four feet"]
    robot, q, qd, qdd, active = states(name, 2, contacts)
    problems = dn.hybrid_dynamics(robot, [], contacts), dn.hybrid_dynamics(robot, [])
    touching, plain = (dn.build(robot, problem, backend="numpy") for problem in problems)
    found = touching(q, qd, qdd, 0 * qdd, active)
    np.testing.assert_allclose(found.tau, plain(q, qd, qdd, 0 * qdd).tau, rtol=EXACT, atol=EXACT)
    assert np.abs(found.contact_forces).max() < EXACT
    found = touching.derivatives()(q, qd, qdd, 0 * qdd, active)
    for one, other in zip(found, plain.derivatives()(q, qd, qdd, 0 * qdd), strict=False):
        np.testing.assert_allclose(one, other, rtol=EXACT, atol=EXACT)
    assert np.abs(found.dforces_dq).max() < EXACT


def test_what_contacts_lack_yet_is_refused():
    robot = robot_of("solo12")
    problem = dn.forward_dynamics(robot, [dn.Contact("FL_FOOT")])
    with pytest.raises(dn.ChoiceError, match="contacts"):
        dn.build(robot, problem, solver="cfa")
    with pytest.raises(dn.ChoiceError, match="contacts"):
        dn.build(robot, problem, singular="nearest")
    forward = dn.build(robot, problem, backend="numpy")
    with pytest.raises(dn.ChoiceError, match="contacts"):
        forward.rollout(robot.neutral(), np.zeros(18), np.zeros((3, 18)), 0.01)


def straight_legs(count=512):
    """Solo12 on four feet; one leg of every eighth state is straight, so that its early pivot vanishes."""
    robot, (_, contacts) = robot_of("solo12"), SETS["four feet"]
    q, qd, tau = random_states(robot, count)[:3]
    knee = robot.q_names.index("FL_KFE")
    q[::8, knee] = 0.0
    return dn.build(robot, dn.forward_dynamics(robot, contacts)), [q, qd, tau, np.ones((count, 4))]


def test_a_batch_with_states_at_weak_pivots_is_that_of_its_states():
    forward, arrays = straight_legs()
    together = forward(*arrays)
    for k in (0, 1, 8, 511):
        alone = forward(*(array[k] for array in arrays))
        for one, many in zip(alone, together, strict=True):
            assert error(many[k], one) < EXACT
    again = forward(*arrays, out=tuple(np.empty_like(array) for array in together))
    for one, other in zip(together, again, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("wrong", [("qd", 3, np.nan), ("tau", 2, np.inf), ("q", 6, 2.0)])
def test_a_bad_state_among_weak_pivots_is_named(wrong):
    forward, arrays = straight_legs()
    name, entry, value = wrong
    place = ("q", "qd", "tau").index(name)
    arrays[place][9, entry] = value
    with pytest.raises(dn.InputError, match="state 9|norm"):
        forward(*arrays)
    one = [array[9] for array in arrays]
    with pytest.raises(dn.InputError):
        forward(*one)
    found = forward(*arrays, errors="nan")
    assert np.flatnonzero(np.isnan(found.qdd).any(axis=1)).tolist() == [9]
