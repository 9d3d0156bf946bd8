"""Derivatives of dynamics with contacts: against complex steps of the recursions, Pinocchio and differences."""

import numpy as np
import pytest
from oracle import pin
from robots import closed_states, random_states, robot_of
from test_contact_dynamics import EXACT, FEET, SETS, SOLES, Dense
from tolerances import error

import dynamics_node as dn
from dynamics_node.algorithms.contact_derivatives_by_limbs import contact_derivatives_by_limbs
from dynamics_node.robot.state_arrays import tangent_map
from dynamics_node.symbolic import interpret

STEP = 1e-30  # of a complex step
EIGHTH = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}  # weights of central differences of eighth order
KINDS = ("forward", "inverse", "hybrid")


def problem_of(kind, robot, contacts):
    if kind == "hybrid":
        return dn.hybrid_dynamics(robot, [joint.name for joint in robot.independent_joints[::2]], contacts)
    return {"forward": dn.forward_dynamics, "inverse": dn.inverse_dynamics}[kind](robot, contacts)


def by_complex_steps(function, state, active, wanted):
    """Derivatives of the unknowns and forces by q, qd and the knowns, of the Program of a solver."""
    robot, problem, program = function.robot, function.problem, function.program
    forward, (q, qd, known) = np.array(problem.forward), state
    others = {"active": active, "contact_accelerations": wanted, "gravity": robot.gravity}

    def unknowns(q=q, qd=qd, known=known):
        given = {"q": q, "qd": qd, "qdd": known, "tau": known} | others
        results = interpret(program, **{name: given[name] for name in program.inputs})
        own = {name: results.get(name, 0.0) for name in ("qdd", "tau")}
        return np.concatenate([np.where(forward, own["qdd"], own["tau"]), results["contact_forces"]], axis=-1)

    steps = 1j * STEP * np.eye(robot.nv)
    moved = (
        unknowns(q=q + 1j * STEP * tangent_map(robot, q).T),
        unknowns(qd=qd + steps),
        unknowns(known=known + steps),
    )
    blocks = [result.imag.T / STEP for result in moved]
    return [*(block[: robot.nv] for block in blocks), *(block[robot.nv :] for block in blocks)]


MORE = {
    "two arms": (
        "baxter",
        [
            dn.Contact("left_wrist", xyz=(0, 0, 0.1), normal=(1, 0, 1)),
            dn.Contact("right_wrist", "surface", rpy=(0.1, 0.2, 0.3)),
        ],
    ),
    "hands together": ("baxter", [dn.Contact("left_wrist", other="right_wrist")]),
    "ball joints": ("balls1", [dn.Contact(robot_of("balls1").bodies[-1].name, xyz=(0.1, 0.2, 0.3))]),
}
EVERY = SETS | MORE
CONTRADICTORY = (("hand on thigh", "hybrid"), ("two arms", "hybrid"))
REPEATED = (
    "corners of two soles",
    "feet on slopes",
    "hands together",
)  # rows of others: forward dynamics alone
CASES = [
    (case, kind)
    for case in EVERY
    for kind in (KINDS[:1] if case in REPEATED else KINDS)
    if (case, kind) not in CONTRADICTORY
]


@pytest.mark.parametrize("case, kind", CASES)
def test_against_complex_steps(case, kind):
    """With all contacts, and in forward dynamics with some of them."""
    name, contacts = EVERY[case]
    robot = robot_of(name)
    function = dn.build(robot, problem_of(kind, robot, contacts), backend="numpy")
    q, qd, known = random_states(robot, 2)[:3]
    random = np.random.default_rng(6)
    active = np.ones((2, len(contacts)))
    if kind != "inverse":
        active[1] = random.integers(0, 2, len(contacts))
    wanted = random.uniform(-1, 1, len(function.problem.rows.names)) * (case != "corners of two soles")
    both = (known, known) if kind == "hybrid" else (known,)
    computed = function.derivatives()(q, qd, *both, active, wanted)
    for k in range(2):
        expected = by_complex_steps(function, (q[k], qd[k], known[k]), active[k], wanted)
        for array, right in zip(computed, expected, strict=True):
            assert error(array[k], right, tail=2) < EXACT


KNEES = {"four feet": ("FL_KFE", "FR_KFE", "HL_KFE", "HR_KFE"), "two soles": ("leg_left_4_joint",)}


@pytest.mark.parametrize("case", KNEES)
def test_knees_that_are_nearly_straight(case):
    """Where a leg hardly moves its contact, forces are not eliminated with it."""
    name, contacts = EVERY[case]
    robot, count = robot_of(name), 9
    derivatives = dn.build(robot, dn.forward_dynamics(robot, contacts), backend="numpy").derivatives()
    q, qd, tau = random_states(robot, count)[:3]
    angles = np.array([0.0, *np.geomspace(1e-7, 1.0, count - 1)])
    for knee in KNEES[case]:
        q[:, robot.q_names.index(knee)] = angles
    states = {"q": q, "qd": qd, "tau": tau, "active": np.ones((count, len(contacts)))}
    still = np.zeros((count, len(derivatives.problem.rows.names)))
    states |= {"contact_accelerations": still, "gravity": np.tile(robot.gravity, (count, 1))}
    by_limbs, surer = derivatives.runner.first.program, derivatives.runner.second.program
    weak = (interpret(by_limbs, **states)["health"] > by_limbs.limits).any(axis=1)
    assert weak[:2].all() and not weak[-3:].any()
    expected = [*interpret(surer, **states).values()][:6]
    for array, right in zip(derivatives(*states.values()), expected, strict=True):
        assert error(array, right, tail=2).max() < EXACT


def test_which_contacts_are_eliminated_with_their_limbs():
    """Not those with more rows than joints of the limb, those that hold links to each other, and the point
    that a ball joint cannot pull."""
    others = ("corners of two soles", "hand on thigh", "hands together", "ball joints")
    for case, (name, contacts) in EVERY.items():
        robot = robot_of(name)
        problem = dn.forward_dynamics(robot, contacts)
        by_limbs = contact_derivatives_by_limbs(robot, problem) is not None
        assert by_limbs == (case not in others), case
        assert contact_derivatives_by_limbs(robot, dn.hybrid_dynamics(robot, [], contacts)) is None


def test_joints_that_follow_payloads_and_wrenches():
    """A finger that mimics another one; inertias that change without a build; wrenches, tilted gravity."""
    robot = robot_of("panda")
    finger = dn.Contact(list(robot.frames)[-1], xyz=(0.01, 0.0, 0.04))
    choices = {"backend": "numpy", "runtime_parameters": ["inertia"], "f_ext": True}
    function = dn.build(robot, dn.forward_dynamics(robot, [finger]), **choices)
    other = dn.with_payload(robot, "panda_link7", 2.0, [0.0, 0.0, 0.1], np.zeros((3, 3)))
    function = function.with_inertias(other)
    q, qd, tau, f_ext = (array[0] for array in random_states(robot, 1))
    gravity = np.array([0.5, -1.0, -9.0])
    computed = function.derivatives()(q, qd, tau, [1.0], f_ext=f_ext, gravity=gravity)
    steps = np.eye(robot.nv)
    for k, moved in enumerate(
        (
            lambda s: function(
                dn.integrate(robot, q, s * steps), qd, tau, [1.0], f_ext=f_ext, gravity=gravity
            ),
            lambda s: function(q, qd + s * steps, tau, [1.0], f_ext=f_ext, gravity=gravity),
            lambda s: function(q, qd, tau + s * steps, [1.0], f_ext=f_ext, gravity=gravity),
        )
    ):
        for result in range(2):
            expected = differences(lambda s, m=moved, r=result: m(s)[r], 2e-3).T
            assert error(computed[k + 3 * result], expected, tail=2) < 1e-7


def differences(function, step):
    return sum(w * (function(k * step) - function(-k * step)) for k, w in EIGHTH.items()) / step


def test_forces_that_cannot_hold_the_base():
    """On two points a robot can still turn: what is left of the torques at its base changes, too."""
    name, contacts = SETS["four feet"]
    robot, active = robot_of(name), np.array([0.0, 1.0, 1.0, 0.0])
    problem, dense = dn.inverse_dynamics(robot, contacts), Dense(name, contacts)
    on = problem.rows.of_rows(active)
    q, qd, qdd = (array[0] for array in random_states(robot, 1)[:3])

    def unknowns(q, qd):
        J = dense.rows(q, qd)[0] * on[:, None]
        w = dense.oracle.inverse(q, qd, qdd)
        forces = np.linalg.pinv(J[:, :6].T, rcond=1e-9) @ w[:6]
        return np.concatenate([w - J.T @ forces, forces])

    derivatives = dn.build(robot, problem, backend="numpy").derivatives()(q, qd, qdd, active)
    units, nv = np.eye(robot.nv), robot.nv
    for by, moved in (
        ("dq", lambda s, e: unknowns(dn.integrate(robot, q, s * e), qd)),
        ("dqd", lambda s, e: unknowns(q, qd + s * e)),
    ):
        expected = np.stack([differences(lambda s, e=e, f=moved: f(s, e), 5e-3) for e in units], axis=1)
        assert error(getattr(derivatives, f"dtau_{by}"), expected[:nv], tail=2) < EXACT
        assert error(getattr(derivatives, f"dforces_{by}"), expected[nv:], tail=2) < EXACT


def test_a_robot_with_loops():
    """Along motions in which the loops stay closed."""
    robot = robot_of("rod")
    link = robot.bodies[4].name
    contacts = [dn.Contact(link, xyz=(0.1, 0.02, 0.03), normal=(0.2, 0.1, 1.0))]
    function = dn.build(robot, dn.forward_dynamics(robot, contacts), backend="numpy")
    q, qd, tau = (array[0] for array in closed_states(robot, 1, reach=0.1)[:3])
    derivatives = function.derivatives()(q, qd, tau, [1.0])

    def unknowns(q=q, qd=qd, tau=tau):
        return np.concatenate(function(q, qd, tau, [1.0]))

    for by, moved in (
        ("dq", lambda s, e: unknowns(q=dn.integrate(robot, q, s * e))),
        ("dqd", lambda s, e: unknowns(qd=qd + s * e)),
        ("dtau", lambda s, e: unknowns(tau=tau + s * e)),
    ):
        expected = np.stack(
            [differences(lambda s, e=e, f=moved: f(s, e), 2e-3) for e in np.eye(robot.nv)], axis=1
        )
        assert error(getattr(derivatives, f"dqdd_{by}"), expected[: robot.nv], tail=2) < 1e-7
        assert error(getattr(derivatives, f"dforces_{by}"), expected[robot.nv :], tail=2) < 1e-7


class Pinocchio:
    """Its constrained dynamics and their derivatives."""

    def __init__(self, dense, links, kind, axes):
        self.oracle = dense.oracle
        self.pin, self.data = self.oracle.pin, self.oracle.data
        self.frames = [self.pin.getFrameId(link, pin.BODY) for link in links]
        self.models, self.datas = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
        for frame in (self.pin.frames[k] for k in self.frames):
            self.models.append(
                pin.RigidConstraintModel(kind, self.pin, frame.parentJoint, frame.placement, axes)
            )
            self.datas.append(self.models[-1].createData())
        pin.initConstraintDynamics(self.pin, self.data, self.models, self.datas)

    def derivatives(self, q, qd, tau):
        """qdd, and the derivatives of qdd and of the forces by q, qd and tau, in our order of coordinates."""
        state = self.oracle.q(q), self.oracle.v(qd), self.oracle.v(tau)
        settings, order = pin.ProximalSettings(1e-14, 0.0, 1), self.oracle.order
        qdd = pin.constraintDynamics(self.pin, self.data, *state, self.models, self.datas, settings)
        blocks = pin.computeConstraintDynamicsDerivatives(
            self.pin, self.data, self.models, self.datas, settings
        )
        return qdd[order], [b[:, order][order] if len(b) == len(order) else b[:, order] for b in blocks]


def test_soles_against_pinocchio():
    """Its 6D contacts have spatial accelerations in the axes of the sole, linear first, as have ours."""
    robot, contacts = robot_of("talos"), [dn.Contact(sole, "surface") for sole in SOLES]
    theirs = Pinocchio(Dense("talos", contacts), SOLES, pin.ContactType.CONTACT_6D, pin.LOCAL)
    derivatives = dn.build(robot, dn.forward_dynamics(robot, contacts), backend="numpy").derivatives()
    q, qd, tau = random_states(robot, 3, seed=8)[:3]
    linear_first = [*range(3, 6), *range(3), *range(9, 12), *range(6, 9)]
    computed = derivatives(q, qd, tau, np.ones(2))
    for k in range(3):
        _, expected = theirs.derivatives(q[k], qd[k], tau[k])
        for array, right in zip(computed, expected, strict=True):
            array = array[k] if len(array[k]) == robot.nv else array[k][linear_first]
            assert error(array, right, tail=2) < 1e-8


def test_feet_against_pinocchio():
    """Its 3D contacts have classical accelerations, a + w x v. Where v is zero, this changes by w x dv."""
    name, contacts = SETS["four feet"]
    robot, dense = robot_of(name), Dense(name, contacts)
    theirs = Pinocchio(dense, FEET, pin.ContactType.CONTACT_3D, pin.LOCAL_WORLD_ALIGNED)
    derivatives = dn.build(robot, dn.forward_dynamics(robot, contacts), backend="numpy").derivatives()
    q, qd, tau = random_states(robot, 3, seed=9)[:3]
    for k in range(3):
        J, _ = dense.rows(q[k], qd[k])
        still = qd[k] - np.linalg.pinv(J) @ (J @ qd[k])
        own = derivatives(q[k], still, tau[k], np.ones(4))
        _, expected = theirs.derivatives(q[k], still, tau[k])
        changes = []
        state = dense.oracle.q(q[k]), dense.oracle.v(still), np.zeros(theirs.pin.nv)
        pin.computeForwardKinematicsDerivatives(theirs.pin, theirs.data, *state)
        for frame in theirs.frames:
            R = pin.updateFramePlacement(theirs.pin, theirs.data, frame).rotation
            w = R @ pin.getFrameVelocity(theirs.pin, theirs.data, frame).angular
            parts = pin.getFrameVelocityDerivatives(theirs.pin, theirs.data, frame, pin.LOCAL)
            changes.append([pin.skew(w) @ R @ part[:3, dense.oracle.order] for part in parts])
        pull = own.dforces_dtau.T  # -M^-1 J^T A^-1
        by_position, by_velocity = (np.concatenate(part) for part in zip(*changes, strict=True))
        assert error(own.dqdd_dq + pull @ by_position, expected[0], tail=2) < 1e-8
        assert error(own.dqdd_dqd + pull @ by_velocity, expected[1], tail=2) < 1e-8
        assert error(own.dqdd_dtau, expected[2], tail=2) < 1e-8
        assert error(own.dforces_dtau, expected[5], tail=2) < 1e-8


def test_contradictory_accelerations_have_no_derivatives():
    """The foot cannot move away from the thigh while the joints between them stand still."""
    name, contacts = SETS["hand on thigh"]
    robot = robot_of(name)
    derivatives = dn.build(robot, problem_of("hybrid", robot, contacts), backend="numpy").derivatives()
    q, qd, known = random_states(robot, 1)[:3]
    with pytest.raises(dn.SolutionError):
        derivatives(q, qd, known, known, [1.0])
    both = derivatives(np.tile(q, (2, 1)), qd, known, known, [[1.0], [0.0]], errors="nan")
    assert np.isnan(both.dforces_dq[0]).all() and np.isfinite(both.dforces_dq[1]).all()
    assert np.isfinite(derivatives(q, qd, known, known, [0.0]).dq).all()


def test_compiled_batches_and_single_precision():
    name, contacts = SETS["a pressing arm"]
    robot = robot_of(name)
    function = dn.build(robot, dn.forward_dynamics(robot, contacts), backend="c")
    q, qd, tau = random_states(robot, 20)[:3]
    active = np.arange(20)[:, None] % 2
    expected = dn.build(robot, function.problem, backend="numpy").derivatives()(q, qd, tau, active)
    single = dn.build(robot, function.problem, backend="c", precision="float32").derivatives()
    for computed, tolerance in (
        (function.derivatives()(q, qd, tau, active), 1e-9),
        (single(q, qd, tau, active), 1e-2),
    ):
        for array, right in zip(computed, expected, strict=True):
            assert error(array, right, tail=2).max() < tolerance


def test_second_derivatives_are_refused():
    robot = robot_of("panda7")
    inverse = dn.build(robot, dn.inverse_dynamics(robot, [dn.Contact("panda_link7")]), backend="numpy")
    with pytest.raises(dn.ChoiceError, match="contacts"):
        inverse.derivatives().derivatives()


def test_a_build_divides_by_no_zero():
    robot = robot_of("solo12")
    forward = dn.build(robot, dn.forward_dynamics(robot, dn.Contact("FL_FOOT")), backend="numpy")
    with np.errstate(all="raise"):
        forward.derivatives()
