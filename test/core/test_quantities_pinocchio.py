"""The quantities and regressors of trees against Pinocchio, over the tests' robots, and the compiled ones against them."""

import re
from pathlib import Path

import numpy as np
import pytest
from mechanisms import joint
from mechanisms import link as body
from mechanisms import robot as robot_text
from oracle import pin
from robots import ROBOTS, random_states
from tolerances import EXACT, error, solved

import dynamics_node as dn
from dynamics_node import algorithms
from dynamics_node.algorithms import QUANTITIES, quantity_program, rnea
from dynamics_node.robot.state_arrays import moved
from dynamics_node.symbolic import interpret

COUNT = 3
SWAPPED = [3, 4, 5, 0, 1, 2]  # angular first


@pytest.fixture
def states(model):
    return random_states(model, COUNT, seed=9)[:3]


class Pinocchio:
    """What it says at one state, in our order."""

    def __init__(self, oracle, q, qd, qdd):
        self.model, self.data, self.order = oracle.pin, oracle.data, oracle.order
        self.state = oracle.q(q), oracle.v(qd), oracle.v(qdd)
        names = ["root_joint" if b.joint.kind == "floating" else b.joint.name for b in oracle.model.bodies]
        self.bodies = [self.model.getJointId(name) - 1 for name in names]

    def call(self, function, count):
        return np.array(function(self.model, self.data, *self.state[:count]))

    def columns(self, matrix):
        """Of a matrix with rows or columns of joints the last axis, in our order of bodies."""
        blocks = matrix.reshape(*matrix.shape[:-1], -1, 10)
        return blocks[..., self.bodies, :].reshape(matrix.shape)


def each(oracle, states):
    return [Pinocchio(oracle, *state) for state in zip(*states, strict=True)]


def test_torques_and_coriolis_matrix(model, oracle, states):
    q, qd, _ = states
    still, none = np.zeros_like(qd), np.zeros(3)
    found = rnea(model, q, still, still), rnea(model, q, qd, still, gravity=none)
    C = algorithms.coriolis_matrix(model, q, qd)
    assert error((C @ qd[..., None])[..., 0], found[1]).max() <= EXACT
    if model.explicit_joints:  # Pinocchio has neither of these
        return
    for k, theirs in enumerate(each(oracle, states)):
        right = theirs.call(pin.computeCoriolisMatrix, 2)[np.ix_(oracle.order, oracle.order)]
        g = theirs.call(pin.computeGeneralizedGravity, 1)[oracle.order]
        assert error(found[0][k], g) <= EXACT
        assert error(found[1][k], right @ qd[k]) <= EXACT
        if not model.floating_base:  # of these several C are right
            assert error(C[k], right, tail=2) <= EXACT


def test_the_coriolis_matrix_is_half_of_what_changes(model):
    """dM/dt = C + C^T, by differences: so dM/dt - 2 C is skew."""
    q, qd, _ = (a[0] for a in random_states(model, 1, seed=4)[:3])
    C = algorithms.coriolis_matrix(model, q, qd)
    every = np.arange(model.nv)
    ahead, behind = (
        dn.evaluate(model, "mass_matrix", moved(model, q, every, s * 1e-6 * qd)) for s in (1, -1)
    )
    assert error(C + C.T, (ahead - behind) / 2e-6, tail=2) <= 1e-6


def test_energies_momentum_and_centre_of_mass(model, oracle, states):
    q, qd, qdd = states
    T, V = algorithms.kinetic_energy(model, q, qd), algorithms.potential_energy(model, q)
    h = algorithms.centroidal_momentum(model, q, qd)
    A = algorithms.centroidal_momentum_matrix(model, q)
    c, J = algorithms.center_of_mass(model, q)
    motion = algorithms.center_of_mass_motion(model, q, qd, qdd)
    about_origin = algorithms.spatial_momentum(model, q, qd)
    assert (
        error((algorithms.spatial_momentum_matrix(model, q) @ qd[..., None])[..., 0], about_origin).max()
        <= EXACT
    )
    assert error((A @ qd[..., None])[..., 0], h).max() <= EXACT
    assert error((J @ qd[..., None])[..., 0], motion[1]).max() <= EXACT
    if model.explicit_joints:
        return
    for k, theirs in enumerate(each(oracle, states)):
        data = theirs.data
        assert error([T[k]], [theirs.call(pin.computeKineticEnergy, 2)]) <= EXACT
        assert error([V[k]], [theirs.call(pin.computePotentialEnergy, 1)]) <= EXACT
        pin.ccrba(theirs.model, data, *theirs.state[:2])
        assert error(h[k], np.array(data.hg)[SWAPPED]) <= EXACT
        assert error(A[k], np.array(data.Ag)[SWAPPED][:, oracle.order], tail=2) <= EXACT
        right = theirs.call(pin.jacobianCenterOfMass, 1)
        assert error(J[k], right[:, oracle.order], tail=2) <= EXACT
        pin.centerOfMass(theirs.model, data, *theirs.state)
        for own, name in zip((c[k], motion[1][k], motion[2][k]), ("com", "vcom", "acom"), strict=True):
            assert error(own, getattr(data, name)[0]) <= EXACT
        assert error(motion[0][k], c[k]) <= EXACT


@pytest.mark.parametrize("reference", ["world_aligned", "body", "WORLD"])
def test_links(model, oracle, states, reference):
    q, qd, qdd = states
    links = [name for name, frame in model.frames.items() if frame.body >= 0]
    aligned = {"body": pin.LOCAL, "world_aligned": pin.LOCAL_WORLD_ALIGNED, "WORLD": pin.WORLD}[reference]
    classical = reference == "world_aligned"
    change = pin.getFrameClassicalAcceleration if classical else pin.getFrameAcceleration
    every = dn.evaluate(model, "frame_poses", q)
    # Pinocchio's is another matrix with the same product with qd: of mimic joints, and of a free base in body axes
    theirs_is_the_derivative = reference == "WORLD" or not (
        model.explicit_joints or (model.floating_base and reference == "body")
    )
    for link in links[:: max(1, len(links) // 3)]:
        of_link = {"link": link, "reference": reference}
        R, p, v, a = dn.evaluate(model, "frame_kinematics", *states, **of_link)
        J = dn.evaluate(model, "frame_jacobian", q, **of_link)
        dJ = dn.evaluate(model, "frame_jacobian_time_derivative", q, qd, **of_link)
        drift = dn.evaluate(model, "frame_jacobian_bias", q, qd, **of_link)
        assert error((J @ qdd[..., None])[..., 0] + drift, a).max() <= EXACT
        assert error((J @ qdd[..., None] + dJ @ qd[..., None])[..., 0], a).max() <= EXACT
        number = list(model.frames).index(link)
        for k, theirs in enumerate(each(oracle, states)):
            pin.forwardKinematics(theirs.model, theirs.data, *theirs.state)
            pin.updateFramePlacements(theirs.model, theirs.data)
            index = theirs.model.getFrameId(link, pin.BODY)
            arguments = theirs.model, theirs.data, index, aligned
            assert error(R[k], theirs.data.oMf[index].rotation, tail=2) <= EXACT
            assert error(p[k], theirs.data.oMf[index].translation) <= EXACT
            assert error(every.rotations[k, number], R[k], tail=2) <= EXACT
            assert error(every.positions[k, number], p[k]) <= EXACT
            assert error(v[k], np.array(pin.getFrameVelocity(*arguments))[SWAPPED]) <= EXACT
            assert error(a[k], np.array(change(*arguments))[SWAPPED]) <= EXACT
            pin.computeJointJacobiansTimeVariation(theirs.model, theirs.data, *theirs.state[:2])
            rows = np.ix_(SWAPPED, theirs.order)
            assert error(J[k], np.array(pin.getFrameJacobian(*arguments))[rows], tail=2) <= EXACT
            right = np.array(pin.getFrameJacobianTimeVariation(*arguments))[rows]
            if theirs_is_the_derivative:
                assert error(dJ[k], right, tail=2) <= EXACT
        ahead, behind = (
            dn.evaluate(model, "frame_jacobian", dn.integrate(model, q[0], s * qd[0]), **of_link)
            for s in (1e-6, -1e-6)
        )
        assert np.allclose((ahead - behind) / 2e-6, dJ[0], atol=1e-8)


def test_the_inverse_mass_matrix(model, oracle, states):
    q, tolerance = states[0], solved(dn.evaluate(model, "mass_matrix", states[0]))
    found = dn.evaluate(model, "inverse_mass_matrix", q)
    for k, one in enumerate(q):
        if model.explicit_joints:  # which computeMinverse does not have
            right = np.linalg.inv(oracle.mass_matrix(one))
        else:
            right = np.array(pin.computeMinverse(oracle.pin, oracle.data, oracle.q(one)))
            right = np.triu(right) + np.triu(right, 1).T
            right = right[np.ix_(oracle.order, oracle.order)]
        assert error(found[k], right, tail=2) <= tolerance[k]


def test_what_joints_bear(model, oracle, states):
    wrenches = algorithms.reaction_wrenches(model, *states)
    for k, theirs in enumerate(each(oracle, states)):
        pin.rnea(theirs.model, theirs.data, *theirs.state)
        right = np.array([np.array(f)[SWAPPED] for f in theirs.data.f])[1:][theirs.bodies]
        assert error(wrenches[k], right, tail=2) <= EXACT


def test_regressors(model, oracle, states):
    q, qd, qdd = states
    parameters = algorithms.inertial_parameters(model.inertias)
    p = parameters.ravel()
    Y = algorithms.joint_torque_regressor(model, q, qd, qdd)
    P, R = algorithms.momentum_regressor(model, q, qd)
    T, V = algorithms.energy_regressor(model, q, qd)
    momenta = algorithms.generalized_momentum(model, q, qd)
    assert error(Y @ p + model.armature * qdd, rnea(model, q, qd, qdd)).max() <= EXACT
    assert error(P @ p + model.armature * qd, momenta[0]).max() <= EXACT
    assert error(R @ p, momenta[1]).max() <= EXACT
    rotors = 0.5 * (model.armature * qd**2).sum(axis=1)
    assert np.allclose(T @ p + rotors, algorithms.kinetic_energy(model, q, qd), rtol=EXACT)
    assert np.allclose(V @ p, algorithms.potential_energy(model, q), rtol=EXACT)
    assert np.allclose(algorithms.inertias_of_parameters(parameters), model.inertias, atol=1e-12)
    for k, theirs in enumerate(each(oracle, states) if not model.explicit_joints else ()):
        right = theirs.columns(theirs.call(pin.computeJointTorqueRegressor, 3)[oracle.order])
        assert error(Y[k], right, tail=2) <= EXACT
        assert error(T[k], theirs.columns(theirs.call(pin.computeKineticEnergyRegressor, 2))) <= EXACT
        assert error(V[k], theirs.columns(theirs.call(pin.computePotentialEnergyRegressor, 1))) <= EXACT


# --- compiled -------------------------------------------------------------------------------------------------


NEW = [
    "gravity_torque", "coriolis_torque", "coriolis_matrix", "kinetic_energy", "potential_energy", "spatial_momentum",
    "spatial_momentum_matrix", "centroidal_momentum", "centroidal_momentum_matrix", "center_of_mass", "center_of_mass_motion", "frame_kinematics", "frame_jacobian_bias", "reaction_wrenches",
    "joint_torque_regressor", "momentum_regressor", "energy_regressor", "joint_regressor",
]  # fmt: skip


def options(name, robot):
    linked = name in ("frame_kinematics", "frame_jacobian_bias")
    return {"link": list(robot.frames)[-1]} if linked else {}


@pytest.mark.parametrize("name", ["panda", "solo12"])
def test_programs_are_their_functions(name):
    """In the frames and with the regrouped inertias of Programs."""
    model = ROBOTS[name].model()
    given = dict(zip(("q", "qd", "qdd"), random_states(model, COUNT)[:3], strict=True), gravity=model.gravity)
    for quantity in NEW:
        row, more = QUANTITIES[quantity], options(quantity, model)
        reads = {read: given[read] for read in row.reads}
        found = interpret(quantity_program(model, quantity, **more), **reads)
        right = dn.evaluate(model, quantity, *(a for read, a in reads.items() if read != "gravity"), **more)
        for result, plain in zip(row.returns, right if row.result else (right,), strict=True):
            tail = found[result].ndim - 1
            plain = np.broadcast_to(plain, found[result].shape)
            assert error(found[result].reshape(COUNT, -1), plain.reshape(COUNT, -1)).max() <= EXACT, (
                quantity,
                tail,
            )


@pytest.mark.parametrize("quantity", ["kinetic_energy", "joint_torque_regressor"])
def test_compiled_in_both_precisions(quantity):
    """One state, batches, float32, results without axes."""
    model = ROBOTS["double_pendulum"].model()
    q, qd, qdd, _ = random_states(model, 100)
    given = (q, qd, qdd)[: len(QUANTITIES[quantity].reads) - (quantity != "kinetic_energy")]
    right = dn.evaluate(model, quantity, *given)
    function = dn.build(model, quantity, backend="c")
    single = dn.build(model, quantity, backend="c", precision="float32")
    assert np.allclose(function(*given), right, rtol=1e-10, atol=1e-10)
    one = function(*(a[3] for a in given))
    assert one.shape == right.shape[1:] and np.allclose(one, right[3], rtol=1e-10, atol=1e-10)
    found = single(*(a.astype(np.float32) for a in given))
    assert found.dtype == np.float32 and np.abs(found - right).max() <= 1e-4 * np.abs(right).max()
    with pytest.raises(ValueError, match="unknown precision 'half'"):
        dn.build(model, quantity, precision="half")


SLIDER = robot_text(
    body("base", 1, 2.0),
    body("arm", 2, 1.0),
    joint("slide", "base", "arm", "0.1 0.2 0.3", "0 1 0", "prismatic"),
)


@pytest.mark.parametrize("kind", ["turning", "floating and sliding"])
def test_second_derivatives(kind):
    """Against differences of the first ones."""
    turning = kind == "turning"
    model = ROBOTS["double_pendulum"].model() if turning else dn.parse_robot(SLIDER, floating_base=True)
    q, qd, qdd = (a[0] for a in random_states(model, 1)[:3])
    first = dn.build(model, "inverse_dynamics_derivatives", backend="numpy")
    found = dn.build(model, "inverse_dynamics_second_derivatives", backend="numpy")(q, qd, qdd)
    every = np.arange(model.nv)

    def along(call, step=1e-6):
        columns = [np.array(call(step * e)) - call(-step * e) for e in np.eye(model.nv)]
        return np.stack(columns, axis=-1) / (2 * step)

    by_q = along(lambda e: np.array(first(moved(model, q, every, e), qd, qdd)))
    by_qd = along(lambda e: np.array(first(q, qd + e, qdd)))
    for own, other in zip(found, (by_q[0], by_qd[0], by_qd[1], by_q[2]), strict=True):
        assert error(own, other, tail=3) <= 1e-6


def test_every_quantity_is_told():
    """In docs/reference/quantities.md, with what it reads."""
    told = (Path(__file__).parents[2] / "docs" / "reference" / "quantities.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)`[^|]*\| ([^|]*) \|", told, re.MULTILINE))
    assert {name: tuple(reads.split(", ")) for name, reads in rows.items()} == {
        name: row.reads for name, row in QUANTITIES.items()
    }


def test_what_is_asked_wrongly():
    model = ROBOTS["panda7"].model()
    with pytest.raises(TypeError, match="spatial_momentum has no option link"):
        dn.build(model, "spatial_momentum", link="tip")
    with pytest.raises(TypeError, match="frame_jacobian needs the option link"):
        dn.evaluate(model, "frame_jacobian", np.zeros(7))
    with pytest.raises(dn.ChoiceError, match="mass_matrix"):
        dn.build(model, "mass_matrix", solver="cfa")
    with pytest.raises(dn.ChoiceError, match="mass_matrix has no derivatives"):
        dn.build(model, "mass_matrix", backend="numpy").derivatives()
    with pytest.raises(KeyError, match="unknown link 'tool'"):
        dn.build(model, "frame_kinematics", link="tool")
