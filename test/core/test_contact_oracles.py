"""Dynamics with contacts on many robots: by public functions without contacts, by Pinocchio and by MuJoCo."""

import pickle

import mujoco
import numpy as np
import pytest
from mujoco_oracle import Tree
from oracle import Oracle, pin
from robots import BALLS, LOOPS, ROBOTS, robot_of, states_of
from tolerances import error

import dynamics_node as dn
from dynamics_node.symbolic import cross_motion, rpy_rotation, transform_origin, transform_rotation

EXACT = 1e-8  # of random robots, some of which have condition numbers of 1e7
FEET = ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT")
SOLES = ("left_sole_link", "right_sole_link")
MANY = ("panda", "pr2", "icub", "tiago", "double_pendulum", "allegro_hand", "panda_floating", "go2")
RANDOM = [*MANY, *LOOPS, *BALLS, "quadruped", "humanoid"]


def random_contacts(robot, random, count):
    """Points and surfaces on links, some of them against another link."""
    moving = [name for name, frame in robot.frames.items() if frame.body >= 0]
    contacts = []
    while len(contacts) < count:
        link, other = random.choice(moving), random.choice(moving)
        fields = {"name": f"c{len(contacts)}", "xyz": random.uniform(-0.1, 0.1, 3)}
        if random.random() < 0.3:
            if robot.frames[link].body == robot.frames[other].body:
                continue
            fields["other"] = str(other)
        if random.random() < 0.3:
            contacts.append(dn.Contact(str(link), "surface", rpy=random.uniform(-1, 1, 3), **fields))
        else:
            contacts.append(dn.Contact(str(link), normal=random.normal(size=3), **fields))
    return contacts


class Reading:
    """Contacts at a state, by kinematics of links without contacts: axes (3, 3), place, and of the point of the link
    relative to the other side velocity and spatial acceleration (6,), all in the world."""

    def __init__(self, robot, contact, q, qd, qdd):
        self.contact, at = contact, (q, qd, qdd)
        self.R, p, V, A = self._of(robot, contact.link, at)
        self.x = p + self.R @ contact.xyz
        V, A = self._moved(p, V), self._moved(p, A)
        other = np.eye(3)
        if contact.other:
            other, p_other, V_other, A_other = self._of(robot, contact.other, at)
            V_other, A_other = self._moved(p_other, V_other), self._moved(p_other, A_other)
            A = A - A_other + cross_motion(V, V_other)
        self.A = A
        if contact.kind == "surface":
            self.axes = self.R @ rpy_rotation(contact.rpy)
        else:
            z = np.array(contact.normal)
            x = np.eye(3)[np.argmin(np.round(np.abs(z), 6))]
            x = x - (x @ z) * z
            self.axes = other @ np.stack(
                [x / np.linalg.norm(x), np.cross(z, x / np.linalg.norm(x)), z], axis=1
            )

    def _of(self, robot, link, at):
        R, p, V, A = dn.evaluate(robot, "frame_kinematics", *at, link=link, backend="numpy")
        return R, p, V, np.r_[A[:3], A[3:] - np.cross(V[:3], V[3:])]

    def _moved(self, p, V):
        return np.r_[V[:3], V[3:] + np.cross(V[:3], self.x - p)]

    @property
    def acceleration(self):
        """In the rows of the contact."""
        rows = np.r_[self.axes.T @ self.A[:3], self.axes.T @ self.A[3:]]
        return rows[-len(self.contact.rows) :]

    def wrenches(self, robot, q, forces):
        """{link: wrench (6,) on it, in its axes}."""
        full = np.r_[np.zeros(6 - len(forces)), forces]
        moment, force = self.axes @ full[:3], self.axes @ full[3:]
        found = {}
        for link, sign in ((self.contact.link, 1.0), (self.contact.other, -1.0)):
            if link:
                R, p = dn.evaluate(robot, "frame_pose", q, link=link, backend="numpy")
                about = sign * (moment + np.cross(self.x - p, force))
                found[link] = np.r_[R.T @ about, sign * (R.T @ force)]
        return found


@pytest.mark.parametrize("name", RANDOM)
def test_random_contacts(name):
    """Forces act like external wrenches, and contacts accelerate as wanted, of possible accelerations: this determines
    the solution. Sets are redundant more often than not; gravity and external wrenches are any."""
    robot, random = robot_of(name), np.random.default_rng(len(name))
    q, qd, qdd, f_ext = states_of(name, 4, seed=2)
    tau = random.uniform(-3, 3, qd.shape)
    contacts = random_contacts(robot, random, 3)
    problem = dn.forward_dynamics(robot, contacts)
    forward = dn.build(robot, problem, f_ext=True, backend="numpy")
    plain = dn.build(robot, "forward_dynamics", f_ext=True, backend="numpy")
    gravity = random.uniform(-5, 5, 3)
    for k in range(len(q)):
        active = (random.random(3) < 0.8).astype(float)
        wanted = np.concatenate([Reading(robot, c, q[k], qd[k], qdd[k]).acceleration for c in contacts])
        found, forces = forward(q[k], qd[k], tau[k], active, wanted, f_ext[k], gravity)
        readings = [Reading(robot, c, q[k], qd[k], found) for c in contacts]
        pushed = f_ext[k]
        for reading, place in zip(readings, problem.rows.places.values(), strict=True):
            for link, wrench in reading.wrenches(robot, q[k], forces[place]).items():
                pushed = pushed + dn.external_wrenches(robot, {link: wrench})
        expected = plain(q[k], qd[k], tau[k], pushed, gravity)
        size = max(np.abs(found).max(), np.abs(plain(q[k], qd[k], tau[k], f_ext[k], gravity)).max())
        assert np.abs(found - expected).max() < EXACT * size
        on = problem.rows.of_rows(active) > 0
        assert not forces[~on].any()
        reached = np.concatenate([reading.acceleration for reading in readings])
        assert np.abs(reached - wanted)[on].max(initial=0.0) < EXACT * max(size, np.abs(wanted).max())


# --- Pinocchio ----------------------------------------------------------------------------------------------


def constrained(oracle, q, qd, tau, links, kind):
    """Accelerations by pin.constraintDynamics, in our order."""
    model, data = oracle.pin, oracle.data
    models, datas = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
    for link in links:
        frame = model.frames[model.getFrameId(link, pin.BODY)]
        models.append(pin.RigidConstraintModel(kind, model, frame.parentJoint, frame.placement, pin.LOCAL))
        datas.append(models[-1].createData())
    pin.initConstraintDynamics(model, data, models, datas)
    state = oracle.q(q), oracle.v(qd), oracle.v(tau)
    settings = pin.ProximalSettings(1e-14, 0.0, 1)
    return pin.constraintDynamics(model, data, *state, models, datas, settings)[oracle.order].copy()


@pytest.mark.parametrize(
    "name, links", [("talos", SOLES), ("g1", ("left_ankle_roll_link", "right_ankle_roll_link"))]
)
def test_surfaces_of_pinocchio(name, links):
    """At any velocities: its six rows are the spatial acceleration."""
    robot = robot_of(name)
    q, qd, tau, _ = states_of(name, 6, seed=3)
    problem = dn.forward_dynamics(robot, [dn.Contact(link, "surface") for link in links])
    forward = dn.build(robot, problem, backend="numpy")
    oracle = Oracle(ROBOTS[name], robot)
    for k in range(len(q)):
        expected = constrained(oracle, q[k], qd[k], tau[k], links, pin.ContactType.CONTACT_6D)
        assert error(forward(q[k], qd[k], tau[k], [1, 1])[0], expected) < EXACT


def test_points_of_pinocchio_at_any_velocity():
    """Its points have the classical acceleration: w x v more."""
    robot = robot_of("solo12")
    q, qd, tau, _ = states_of("solo12", 6, seed=4)
    problem = dn.forward_dynamics(robot, [dn.Contact(foot) for foot in FEET])
    forward = dn.build(robot, problem, backend="numpy")
    oracle = Oracle(ROBOTS["solo12"], robot)
    for k in range(len(q)):
        expected = constrained(oracle, q[k], qd[k], tau[k], FEET, pin.ContactType.CONTACT_3D)
        velocities = [
            dn.evaluate(robot, "frame_kinematics", q[k], qd[k], qd[k], link=foot, backend="numpy")[2]
            for foot in FEET
        ]
        less = np.concatenate([-np.cross(V[:3], V[3:]) for V in velocities])
        assert error(forward(q[k], qd[k], tau[k], np.ones(4), less)[0], expected) < EXACT


# --- MuJoCo -------------------------------------------------------------------------------------------------

STIFF = {
    "solref": [-1e-6, -1e-6],
    "solimp": [0.9999, 0.9999, 0.001, 0.5, 2],
}  # forces from accelerations alone


def test_connects_and_welds_of_mujoco():
    """Its constraints give way by 1e-4 of what they stop. Moving states satisfy the rows; those of a weld are six."""
    robot = robot_of("solo12")
    contacts = [dn.Contact("FL_FOOT"), dn.Contact("HR_FOOT"), dn.Contact("FR_LOWER_LEG", "surface")]
    forward = dn.build(robot, dn.forward_dynamics(robot, contacts), backend="numpy")
    q, qd, tau, _ = states_of("solo12", 6, seed=5)
    q[:, 7:] *= 0.3
    tree = Tree(robot.tree)
    for k, active in enumerate([(1, 1, 0), (1, 0, 0), (0, 0, 1), (1, 0, 1), (1, 1, 0), (0, 0, 1)]):
        J = [
            dn.evaluate(robot, "frame_jacobian", q[k], link=c.link, backend="numpy")[6 - len(c.rows) :]
            for c, s in zip(contacts, active, strict=True)
            if s
        ]
        J = np.concatenate(J)
        rates = (qd[k] - np.linalg.pinv(J) @ J @ qd[k]) * (k % 2)
        found, _ = forward(q[k], rates, tau[k], active)
        expected = held(robot, tree, contacts, active, q[k], rates, tau[k])
        size = np.abs(dn.evaluate(robot, "forward_dynamics", q[k], rates, tau[k], backend="numpy")).max()
        assert np.abs(found - expected).max() < 2e-3 * size
        assert np.abs(found).max() > 1e-2 * size


def held(robot, tree, contacts, active, q, qd, tau):
    """qdd by MuJoCo."""
    spec = tree.model_spec()
    spec.option.solver, spec.option.iterations = mujoco.mjtSolver.mjSOL_NEWTON, 200
    spec.option.tolerance, spec.option.disableflags = 1e-14, mujoco.mjtDisableBit.mjDSBL_CONTACT
    for contact, s in zip(contacts, active, strict=True):
        if s:
            R, p = dn.evaluate(robot, "frame_pose", q, link=contact.link, backend="numpy")
            frame = robot.frame(contact.link)
            own = spec.body(robot.bodies[frame.body].name).add_site(name=contact.name)
            own.pos, own.quat = placed(frame.X)
            there = spec.worldbody.add_site(name=f"{contact.name} there")
            there.pos, there.quat = p, as_quaternion(R)
            kind = "WELD" if contact.kind == "surface" else "CONNECT"
            names = {"name1": own.name, "name2": there.name, "objtype": mujoco.mjtObj.mjOBJ_SITE}
            spec.add_equality(type=getattr(mujoco.mjtEq, f"mjEQ_{kind}"), **names, **STIFF)
    model = spec.compile()
    model.opt.gravity, data = robot.gravity, mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = tree.qpos(q), tree.qvel(q, qd)
    data.qfrc_applied[:] = tree.qvel(q, tau)  # forces turn as velocities do: by a rotation
    mujoco.mj_forward(model, data)
    return tree.accelerations(q, qd, data.qacc)


def placed(X):
    return transform_origin(X), as_quaternion(transform_rotation(X).T)


def as_quaternion(R):
    quaternion = np.zeros(4)
    mujoco.mju_mat2Quat(quaternion, np.ascontiguousarray(R).ravel())
    return quaternion


# --- a Function like every other ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def standing():
    """Solo12 on its feet: its Function, and the arguments of 40 states."""
    robot = robot_of("solo12")
    q, qd, tau, _ = states_of("solo12", 40, seed=6)
    active = np.random.default_rng(7).integers(0, 2, (40, 4)).astype(float)
    forward = dn.build(robot, dn.forward_dynamics(robot, [dn.Contact(foot) for foot in FEET]), backend="c")
    return robot, forward, (q, qd, tau, active)


def test_batches_and_single_states_agree(standing):
    _, forward, state = standing
    qdd, forces = forward(*state)
    out = np.empty_like(qdd), np.empty_like(forces)
    forward(*state, out=out)
    one = [forward(*(array[k] for array in state)) for k in range(40)]
    shaped = forward(*(array.reshape(8, 5, -1) for array in state))
    for k, both in enumerate((qdd, forces)):
        np.testing.assert_array_equal(out[k], both)
        assert error(np.stack([each[k] for each in one]), both).max() < 1e-11
        assert error(shaped[k].reshape(40, -1), both).max() < 1e-11


def test_backends_precisions_and_pickles_agree(standing):
    robot, forward, state = standing
    qdd, forces = forward(*state)
    again = pickle.loads(pickle.dumps(forward))(*state)
    np.testing.assert_array_equal(again[0], qdd)
    problem = forward.problem
    interpreted = dn.build(robot, problem, backend="numpy")(*state)
    single = dn.build(robot, problem, backend="c", precision="float32")(
        *(a.astype(np.float32) for a in state)
    )
    assert single[0].dtype == single[1].dtype == np.float32
    for k, both in enumerate((qdd, forces)):
        assert error(interpreted[k], both).max() < 1e-9
        assert error(single[k], both).max() < 0.05
        assert np.median(error(single[k], both)) < 1e-3


def test_redundant_sets_in_float32():
    """Rounding of float32 hides what is redundant: such states have the digits of float64."""
    robot = robot_of("talos")
    contacts = [dn.Contact(SOLES[0], name=str(k), xyz=(0.1 * k, 0.05 * k * k, 0)) for k in range(4)]
    problem = dn.forward_dynamics(robot, contacts)
    q, qd, tau, _ = (a.astype(np.float32) for a in states_of("talos", 20, seed=8))
    exact = dn.build(robot, problem, backend="numpy")(q, qd, tau, np.ones((20, 4)))
    single = dn.build(robot, problem, precision="float32")(q, qd, tau, np.ones((20, 4), np.float32))
    for found, expected in zip(single, exact, strict=True):
        assert np.isfinite(found).all() and np.median(error(found, expected)) < 1e-3


def test_one_bad_state_changes_no_other(standing):
    _, forward, state = standing
    q = state[0].copy()
    q[3] = np.nan
    found = forward(q, *state[1:], errors="nan")
    expected = forward(*state)
    for k in range(2):
        assert np.isnan(found[k][3]).all()
        np.testing.assert_array_equal(np.delete(found[k], 3, axis=0), np.delete(expected[k], 3, axis=0))
    with pytest.raises(dn.InputError, match="q"):
        forward(q, *state[1:])


def test_a_payload_at_run_time(standing):
    robot, _, state = standing
    problem = dn.forward_dynamics(robot, [dn.Contact(foot) for foot in FEET])
    heavier = dn.with_payload(robot, "base_link", 3.0, [0.1, 0.0, 0.05], 0.01 * np.eye(3))
    changed = dn.build(robot, problem, runtime_parameters=["inertia"]).with_inertias(heavier)
    twice = [np.concatenate([array, array[:1]]) for array in state]
    twice[0][-1, 9::3] = 1e-4  # legs that are nearly straight: at call time
    found, expected = changed(*twice), dn.build(heavier, problem, backend="numpy")(*twice)
    for one, other in zip(found, expected, strict=True):
        assert error(one, other).max() < 1e-9


def test_inverse_dynamics_of_forward_dynamics(standing):
    """Torques of the legs, and no torque of the base, come back where four feet can hold it."""
    robot, forward, (q, qd, tau, _) = standing
    tau = np.hstack([np.zeros((40, 6)), tau[:, 6:]])
    inverse = dn.build(robot, dn.inverse_dynamics(robot, forward.problem.contacts))
    qdd, forces = forward(q, qd, tau, np.ones((40, 4)))
    torques, shortest = inverse(q, qd, qdd, np.ones((40, 4)))
    assert np.abs(torques[:, :6]).max() < 1e-8 * np.abs(forces).max()
    lengths = np.linalg.norm(shortest, axis=1), np.linalg.norm(forces, axis=1)
    assert (lengths[0] <= lengths[1] * (1 + 1e-9)).all()
