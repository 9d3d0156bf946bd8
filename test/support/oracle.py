"""Pinocchio as the oracle of every Robot, in this project's coordinates.

Joints match by name. Pinocchio's rates are G qd and its accelerations G qdd + g. For a tree G is constant and g is
zero; for closed loops see loop_oracle.py.
"""

import re
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import pytest

from dynamics_node.symbolic import transform_origin, transform_rotation

pin = pytest.importorskip("pinocchio", reason="Pinocchio: pip install pin, or ros-$ROS_DISTRO-pinocchio")

REFERENCES = {"body": pin.LOCAL, "world_aligned": pin.LOCAL_WORLD_ALIGNED, "WORLD": pin.WORLD}
ANGULAR_FIRST = [3, 4, 5, 0, 1, 2]  # Pinocchio: linear first, also for a free flyer


class Spread(NamedTuple):
    """qd = G yd, qdd = G ydd + g; condition: of the equations that determine the dependent joints."""

    G: np.ndarray
    g: np.ndarray
    condition: float = 1.0


def rounded_turns(text):
    """URDF text with angles of `rpy` that are within 1e-9 rad of a multiple of a quarter turn rounded to it."""

    def rounded(match):
        angles = np.array(match[2].split(), dtype=float)
        turns = np.round(angles / (np.pi / 2)) * (np.pi / 2)
        return match[1] + " ".join(map(repr, np.where(np.abs(angles - turns) < 1e-9, turns, angles).tolist()))

    return re.sub(r"""(\brpy\s*=\s*["'])([-+.\deE\s]*)""", rounded, text)


class Oracle:
    """A robot of robots.py without loops, read by Pinocchio from the same text. mimic: with Pinocchio's own mimic
    joints; otherwise with free joints, coupled by our weights."""

    ties: Sequence = ()  # loop joints

    def __init__(self, robot, model, mimic=True):
        root = (pin.JointModelFreeFlyer(),) if robot.floating_base else ()
        full = pin.buildModelFromXML(rounded_turns(robot.file.read_text()), *root, mimic=mimic)
        if robot.joints is not None:
            others = [full.getJointId(name) for name in list(full.names)[1:] if name not in robot.joints]
            full = pin.buildReducedModel(full, others, pin.neutral(full))
        self._take(model, full)

    def _take(self, model, theirs):
        """order: ours[k] of the tree = theirs[order[k]]; numbers: the joint of every body; rotors (nv, nv): the part of the
        mass matrix from rotor inertias."""
        self.model, self.pin, self.data = model, theirs, theirs.createData()
        self.numbers = [self._number(body.joint) for body in model.bodies]
        tree = model.tree
        self.weights, self.order = np.zeros((theirs.nv, tree.nv)), np.zeros(tree.nv, dtype=int)
        for joint, rows in zip((body.joint for body in model.bodies), self._rows(), strict=True):
            self.weights[rows] = joint.rate(np.eye(tree.nv)).T[: len(rows)]
            if joint.masters is None:
                self.order[joint.v] = rows
        self.every = np.array([*chain.from_iterable(self._rows())], dtype=int)
        self.rotors = tree.axle_map.T @ np.diag(tree.armature) @ tree.axle_map
        assert not (self.ties and self.rotors.any()), "rotors of joints in loops"

    def _number(self, joint):
        return self.pin.getJointId(joint.name if self.pin.existJointName(joint.name) else "root_joint")

    def _rows(self):
        """Indices in Pinocchio's velocities for the joint of every body, in our order."""
        for body, number in zip(self.model.bodies, self.numbers, strict=True):
            joint = self.pin.joints[number]
            within = ANGULAR_FIRST if body.joint.kind == "floating" else range(joint.nv)
            yield [joint.idx_v + k for k in within]

    # --- a state ---

    def q(self, q):
        theirs = pin.neutral(self.pin)
        for body, number in zip(self.model.bodies, self.numbers, strict=True):
            joint, at = body.joint, self.pin.joints[number]
            value = q[joint.q] if joint.masters is None else joint.position(q)
            if joint.type.is_scalar and at.nq == 2:
                value = np.array([np.cos(value[0]), np.sin(value[0])])
            theirs[at.idx_q : at.idx_q + at.nq] = value[: at.nq]
        return theirs

    def v(self, rates):
        """Pinocchio's rates from those of the tree (nv,)."""
        return self.weights @ rates

    def spread(self, q, qd):
        return Spread(self.weights, np.zeros(self.pin.nv))

    def forces(self, f_ext):
        forces = [pin.Force.Zero() for _ in range(self.pin.njoints)]
        for number, wrench in zip(self.numbers, f_ext, strict=True):
            forces[number] = pin.Force(wrench[3:], wrench[:3])
        return forces

    # --- dynamics ---

    def inverse(self, q, qd, qdd, f_ext=None):
        G, g, _ = self.spread(q, qd)
        tau = G.T @ self.torques_of_all(q, G @ qd, G @ qdd + g, f_ext)
        return tau if self.ties else tau + self.rotors @ qdd

    def torques_of_all(self, q, rates, accelerations, f_ext=None):
        """Torques of every joint, in Pinocchio's order."""
        forces = [] if f_ext is None else [self.forces(f_ext)]
        return pin.rnea(self.pin, self.data, self.q(q), rates, accelerations, *forces)

    def mass_matrix(self, q):
        G = self.spread(q, np.zeros(self.model.nv)).G
        M = G.T @ self.mass_matrix_of_all(q) @ G
        return M if self.ties else M + self.rotors

    def mass_matrix_of_all(self, q):
        return symmetric(pin.crba(self.pin, self.data, self.q(q)))

    def forward(self, q, qd, tau, f_ext=None):
        if self.model.explicit_joints or self.rotors.any():  # not supported by its ABA
            h = self.inverse(q, qd, np.zeros_like(qd), f_ext)
            return np.linalg.solve(self.mass_matrix(q), tau - h)
        forces = [] if f_ext is None else [self.forces(f_ext)]
        return pin.aba(self.pin, self.data, self.q(q), self.v(qd), self.v(tau), *forces)[self.order]

    # --- links ---

    def jacobian(self, q, link, reference="world_aligned"):
        index = self.pin.getFrameId(link, pin.BODY)
        J = pin.computeFrameJacobian(self.pin, self.data, self.q(q), index, REFERENCES[reference])
        J = np.reshape(J, (6, -1))  # a single column comes as a vector
        return J[ANGULAR_FIRST] @ self.spread(q, np.zeros(self.model.nv)).G

    def pose(self, q, link):
        pin.framesForwardKinematics(self.pin, self.data, self.q(q))
        placement = self.data.oMf[self.pin.getFrameId(link, pin.BODY)]
        return placement.rotation.copy(), placement.translation.copy()


def symmetric(upper):
    """The symmetric matrix with this upper triangle."""
    return np.triu(upper) + np.triu(upper, 1).T


# --- trees that are not files of robots.py ------------------------------------------------------------------


class BallOracle(Oracle):
    """A Robot built in Pinocchio body by body, since its URDF reader has no ball joints. Its spherical joints have
    q = x y z w and the angular velocity in body axes, as ours."""

    def __init__(self, model):
        self._take(model, built(model))


def built(model):
    """Pinocchio's model of a Robot."""
    theirs = pin.Model()
    theirs.gravity.linear = model.gravity
    for body in model.bodies:
        number = theirs.addJoint(
            body.parent + 1, _joint(body.joint), _placement(body.X_tree), body.joint.name
        )
        theirs.appendBodyToJoint(number, _inertia(body.inertia), pin.SE3.Identity())
    for frame in model.frames.values():
        theirs.addFrame(pin.Frame(frame.name, frame.body + 1, 0, _placement(frame.X), pin.BODY))
    return theirs


def _joint(joint):
    if joint.kind in ("ball", "floating"):
        return {"ball": pin.JointModelSpherical, "floating": pin.JointModelFreeFlyer}[joint.kind]()
    kind = pin.JointModelPrismaticUnaligned if joint.kind == "prismatic" else pin.JointModelRevoluteUnaligned
    return kind(*joint.axis)


def _placement(X):
    return pin.SE3(transform_rotation(X).T, transform_origin(X))


def _inertia(inertia):
    mass = inertia[5, 5]
    com = np.array([inertia[2, 4], inertia[0, 5], inertia[1, 3]]) / mass
    return pin.Inertia(mass, com, inertia[:3, :3] - mass * (com @ com * np.eye(3) - np.outer(com, com)))


class Reference(Oracle):
    """A tree read from text with free joints in place of mimic joints, coupled by `mimics`. model: the Robot, which
    defines the coordinates; mimics: {joint: (master, multiplier, offset)}; armature: {joint: rotor inertia}."""

    def __init__(self, text, model, mimics=None, armature=None):
        owners = {joint.name: joint for joint in model.independent_joints}
        root = [pin.JointModelFreeFlyer()] if "floating_base" in owners else []
        self.mimics, rotors = mimics or {}, armature or {}
        self._take(model, pin.buildModelFromXML(rounded_turns(text), *root))
        self.weights, self.followed, inertias = np.zeros((self.pin.nv, model.nv)), [], np.zeros(self.pin.nv)
        for name in list(self.pin.names)[1:]:
            there = self.pin.joints[self.pin.getJointId(name)]
            master, multiplier, offset = self._masters(name)
            own = owners["floating_base" if master == "root_joint" else master]
            for k, row in enumerate(ANGULAR_FIRST if there.nv == 6 else [0]):
                self.weights[there.idx_v + row, own.v.start + k] = multiplier
            inertias[there.idx_v] += rotors.get(name, 0.0) if there.nv == 1 else 0.0
            self.followed.append((there, own, multiplier, offset))
        self.rotors = self.weights.T @ np.diag(inertias) @ self.weights

    def _masters(self, name):
        master, multiplier, offset = self.mimics.get(name, (name, 1.0, 0.0))
        while master in self.mimics:
            master, m, o = self.mimics[master]
            multiplier, offset = multiplier * m, offset + multiplier * o
        return master, multiplier, offset

    def q(self, q):
        theirs = pin.neutral(self.pin)
        for there, own, multiplier, offset in self.followed:
            value = q[own.q] if there.nv == 6 else multiplier * q[own.q] + offset
            if there.nv == 1 and there.nq == 2:
                value = np.array([np.cos(value[0]), np.sin(value[0])])
            theirs[there.idx_q : there.idx_q + there.nq] = value
        return theirs


# --- quantities ---------------------------------------------------------------------------------------------


class Quantities:
    """Quantities of a robot at one state by Pinocchio: {name: arrays in the order of QUANTITIES}, for those it computes.
    linear_first: motions, wrenches and the coordinates of a floating base are in the order of ROS."""

    def __init__(self, oracle, q, qd, qdd, linear_first=False):
        self.oracle, self.model, self.data = oracle, oracle.pin, oracle.data
        self.tree = not oracle.ties
        self.six = slice(None) if linear_first else ANGULAR_FIRST
        assert oracle.ties or not oracle.rotors.any()
        G, g, _ = oracle.spread(q, qd)
        self.q, self.qd, self.drift, self.qdd = oracle.q(q), G @ qd, g, G @ qdd + g
        base = linear_first and oracle.model.floating_base
        self.G = G[:, [*ANGULAR_FIRST, *range(6, G.shape[1])]] if base else G
        self.M = oracle.mass_matrix_of_all(q)

    def call(self, function, *state):
        return np.array(function(self.model, self.data, self.q, *state))

    def all(self, link, joint, reference="world_aligned"):
        """All quantities; link and joint: for those of one link or joint."""
        quantities = self.dynamics() | self.whole() | self.of_link(link, reference) | self.regressors()
        if self.tree:
            wrenches = self.wrenches()
            number = [body.joint.name for body in self.oracle.model.bodies].index(joint)
            quantities |= {"reaction_wrenches": [wrenches], "sensor_wrench": [wrenches[number]]}
        return quantities

    def dynamics(self):
        G, still = self.G, np.zeros(self.model.nv)
        h = self.call(pin.rnea, self.qd, self.drift)
        g = self.call(pin.computeGeneralizedGravity)
        quantities = {
            "inverse_dynamics": [G.T @ self.call(pin.rnea, self.qd, self.qdd)],
            "mass_matrix": [G.T @ self.M @ G],
            "inverse_mass_matrix": [self.inverse_mass_matrix()],
            "nonlinear_effects": [G.T @ h],
            "gravity_torque": [G.T @ g],
            "coriolis_torque": [G.T @ (h - g)],
        }
        if not self.tree:
            return quantities
        C = self.call(pin.computeCoriolisMatrix, self.qd)
        dq, dqd, _ = pin.computeRNEADerivatives(self.model, self.data, self.q, self.qd, self.qdd)
        assert not self.drift.any() and np.allclose(C @ self.qd, self.call(pin.rnea, self.qd, still) - g)
        return quantities | {
            "inverse_dynamics_derivatives": [G.T @ dq @ G, G.T @ dqd @ G, G.T @ self.M @ G],
            "coriolis_matrix": [G.T @ C @ G],
            "generalized_momentum": [G.T @ self.M @ self.qd, G.T @ (C.T @ self.qd - g)],
        }

    def inverse_mass_matrix(self):
        if self.oracle.ties or self.oracle.model.explicit_joints:
            return np.linalg.inv(self.G.T @ self.M @ self.G)
        return self.G.T @ symmetric(self.call(pin.computeMinverse)) @ self.G

    def whole(self):
        pin.ccrba(self.model, self.data, self.q, self.qd)
        h, A = np.array(self.data.hg).copy(), np.array(self.data.Ag).copy()
        c = np.array(self.data.com[0]).copy()
        about_origin, rows = h.copy(), A.copy()
        about_origin[3:] += np.cross(c, h[:3])
        rows[3:] += np.cross(c, A[:3].T).T
        pin.centerOfMass(self.model, self.data, self.q, self.qd, self.qdd)
        motion = [np.array(getattr(self.data, name)[0]) for name in ("com", "vcom", "acom")]
        return {
            "kinetic_energy": [self.call(pin.computeKineticEnergy, self.qd)],
            "potential_energy": [self.call(pin.computePotentialEnergy)],
            "spatial_momentum": [about_origin[self.six]],
            "spatial_momentum_matrix": [rows[self.six] @ self.G],
            "centroidal_momentum": [h[self.six]],
            "centroidal_momentum_matrix": [A[self.six] @ self.G],
            "center_of_mass": [c, self.call(pin.jacobianCenterOfMass) @ self.G],
            "center_of_mass_motion": motion,
        }

    def of_link(self, link, reference):
        index, axes = self.model.getFrameId(link, pin.BODY), REFERENCES[reference]
        J = np.array(pin.computeFrameJacobian(self.model, self.data, self.q, index, axes))
        J = J[self.six] @ self.G
        classical = reference == "world_aligned"  # the derivative of the velocity of the origin
        change = pin.getFrameClassicalAcceleration if classical else pin.getFrameAcceleration
        motions = []
        for qdd in (self.qdd, self.drift):
            pin.forwardKinematics(self.model, self.data, self.q, self.qd, qdd)
            pin.updateFramePlacements(self.model, self.data)
            motions.append(np.array(change(self.model, self.data, index, axes))[self.six])
        pose = self.data.oMf[index]
        velocity = np.array(pin.getFrameVelocity(self.model, self.data, index, axes))[self.six]
        inverse = J @ np.linalg.solve(self.G.T @ self.M @ self.G, J.T)
        quantities = {
            "frame_jacobian": [J],
            "frame_pose": [pose.rotation.copy(), pose.translation.copy()],
            "frame_poses": [pose.rotation[None].copy(), pose.translation[None].copy()],
            "frame_kinematics": [pose.rotation.copy(), pose.translation.copy(), velocity, motions[0]],
            "frame_jacobian_bias": [motions[1]],
            "operational_space_inertia_inverse": [inverse, J],
        }
        free_in_body_axes = self.oracle.model.floating_base and reference == "body"
        if self.tree and not free_in_body_axes:  # there it is another matrix with the same product with qd
            pin.computeJointJacobiansTimeVariation(self.model, self.data, self.q, self.qd)
            dJ = np.array(pin.getFrameJacobianTimeVariation(self.model, self.data, index, axes))
            quantities["frame_jacobian_time_derivative"] = [dJ[self.six] @ self.G]
        exists = np.linalg.cond(inverse) < 1e10
        return quantities | ({"operational_space_inertia": [np.linalg.inv(inverse), J]} if exists else {})

    def wrenches(self):
        """(bodies, 6)."""
        pin.rnea(self.model, self.data, self.q, self.qd, self.qdd)
        return np.array([np.array(self.data.f[number])[self.six] for number in self.oracle.numbers])

    def regressors(self):
        kinetic = self.call(pin.computeKineticEnergyRegressor, self.qd)
        potential = self.call(pin.computePotentialEnergyRegressor)
        Y = self.G.T @ self.call(pin.computeJointTorqueRegressor, self.qd, self.qdd)
        return {
            "joint_torque_regressor": [self._columns(Y)],
            "energy_regressor": [self._columns(kinetic), self._columns(potential)],
        }

    def _columns(self, matrix):
        """The columns of a regressor in our order of bodies."""
        blocks = matrix.reshape(*matrix.shape[:-1], -1, 10)
        return blocks[..., [number - 1 for number in self.oracle.numbers], :].reshape(matrix.shape)
