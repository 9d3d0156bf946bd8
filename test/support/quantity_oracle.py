"""What Pinocchio says of the quantities of a robot at one state, as ROS has them: linear before angular."""

import numpy as np
from oracle import pin

REFERENCES = {"body": pin.LOCAL, "world_aligned": pin.LOCAL_WORLD_ALIGNED}


class Quantities:
    """oracle: an Oracle of a Robot; q, qd, qdd in our order. `all` has everything."""

    def __init__(self, oracle, q, qd, qdd):
        self.oracle, self.model, self.data = oracle, oracle.pin, oracle.data
        order = np.arange(oracle.model.nv)
        if oracle.model.floating_base:
            order[:6] = [3, 4, 5, 0, 1, 2]
        self.v = oracle.order[order]  # theirs of every row that ROS has
        self.q, self.qd, self.qdd = oracle.q(q), oracle.v(qd), oracle.v(qdd)
        names = ["root_joint" if b.joint.kind == "floating" else b.joint.name for b in oracle.model.bodies]
        self.bodies = [self.model.getJointId(name) - 1 for name in names]

    def call(self, function, *state):
        return np.array(function(self.model, self.data, self.q, *state))

    def all(self, link, joint, reference="world_aligned"):
        """{name: [arrays]}."""
        found = self.dynamics() | self.whole() | self.of_link(link, reference) | self.regressors()
        wrenches = self.wrenches()
        number = [body.joint.name for body in self.oracle.model.bodies].index(joint)
        return found | {"reaction_wrenches": [wrenches], "sensor_wrench": [wrenches[number]]}

    def dynamics(self):
        still = np.zeros(self.model.nv)
        M = self.call(pin.crba)
        M = np.triu(M) + np.triu(M, 1).T
        h = self.call(pin.rnea, self.qd, still)[self.v]
        g = self.call(pin.computeGeneralizedGravity)[self.v]
        C = self.call(pin.computeCoriolisMatrix, self.qd)
        dq, dqd, _ = pin.computeRNEADerivatives(self.model, self.data, self.q, self.qd, self.qdd)
        rows = np.ix_(self.v, self.v)
        return {
            "inverse_dynamics": [self.call(pin.rnea, self.qd, self.qdd)[self.v]],
            "inverse_dynamics_derivatives": [dq[rows], dqd[rows], M[rows]],
            "mass_matrix": [M[np.ix_(self.v, self.v)]],
            "inverse_mass_matrix": [np.linalg.inv(M)[np.ix_(self.v, self.v)]],
            "nonlinear_effects": [h],
            "gravity_torque": [g],
            "coriolis_torque": [h - g],
            "coriolis_matrix": [C[np.ix_(self.v, self.v)]],
            "generalized_momentum": [(M @ self.qd)[self.v], (C.T @ self.qd)[self.v] - g],
        }

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
            "spatial_momentum": [about_origin],
            "spatial_momentum_matrix": [rows[:, self.v]],
            "centroidal_momentum": [h],
            "centroidal_momentum_matrix": [A[:, self.v]],
            "center_of_mass": [c, self.call(pin.jacobianCenterOfMass)[:, self.v]],
            "center_of_mass_motion": motion,
        }

    def of_link(self, link, reference):
        index, axes = self.model.getFrameId(link, pin.BODY), REFERENCES[reference]
        M = self.call(pin.crba)
        M = np.triu(M) + np.triu(M, 1).T
        J = np.array(pin.computeFrameJacobian(self.model, self.data, self.q, index, axes))
        change = (
            pin.getFrameAcceleration if reference == "body" else pin.getFrameClassicalAcceleration
        )  # world-aligned is the derivative of the velocity of the origin
        motions = []
        for qdd in (self.qdd, np.zeros(self.model.nv)):
            pin.forwardKinematics(self.model, self.data, self.q, self.qd, qdd)
            pin.updateFramePlacements(self.model, self.data)
            motions.append(np.array(change(self.model, self.data, index, axes)))
        pin.computeJointJacobiansTimeVariation(self.model, self.data, self.q, self.qd)
        dJ = np.array(pin.getFrameJacobianTimeVariation(self.model, self.data, index, axes))
        pose = self.data.oMf[index]
        velocity = np.array(pin.getFrameVelocity(self.model, self.data, index, axes))
        return {
            "frame_jacobian": [J[:, self.v]],
            "frame_jacobian_time_derivative": [dJ[:, self.v]],
            "frame_poses": [pose.rotation[None].copy(), pose.translation[None].copy()],
            "frame_pose": [pose.rotation.copy(), pose.translation.copy()],
            "frame_kinematics": [pose.rotation.copy(), pose.translation.copy(), velocity, motions[0]],
            "frame_jacobian_bias": [motions[1]],
            "operational_space_inertia": [np.linalg.inv(J @ np.linalg.solve(M, J.T)), J[:, self.v]],
            "operational_space_inertia_inverse": [J @ np.linalg.solve(M, J.T), J[:, self.v]],
        }

    def wrenches(self):
        """(bodies, 6), force before moment."""
        pin.rnea(self.model, self.data, self.q, self.qd, self.qdd)
        return np.array([np.array(f) for f in self.data.f])[1:][self.bodies]

    def regressors(self):
        energies = pin.computeKineticEnergyRegressor, pin.computePotentialEnergyRegressor
        kinetic, potential = self.call(energies[0], self.qd), self.call(energies[1])
        Y = self.call(pin.computeJointTorqueRegressor, self.qd, self.qdd)[self.v]
        return {
            "joint_torque_regressor": [self._columns(Y)],
            "energy_regressor": [self._columns(kinetic), self._columns(potential)],
        }

    def _columns(self, matrix):
        blocks = matrix.reshape(*matrix.shape[:-1], -1, 10)
        return blocks[..., self.bodies, :].reshape(matrix.shape)
