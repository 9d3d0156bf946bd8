"""Pinocchio's tree with every mimic joint free, and the map from the project's coordinates, made here."""

import numpy as np
import pinocchio as pin

TURNED = [3, 4, 5, 0, 1, 2]  # linear first there, angular first here


class Reference:
    """model: the project's, whose coordinates count; the base floats where it does there. mimics: {joint: (master, multiplier, offset)}; armature:
    {joint: rotor inertia}."""

    def __init__(self, text, model, mimics=None, armature=None):
        owners = {joint.name: joint for joint in model.independent_joints}
        base = [pin.JointModelFreeFlyer()] if "floating_base" in owners else []
        self.pin = pin.buildModelFromXML(text, *base)
        self.data, self.model = self.pin.createData(), model
        self._mimics = mimics or {}
        self.G, rotors = np.zeros((self.pin.nv, model.nv)), np.zeros(self.pin.nv)
        self._joints = []  # of every joint there: (its name, the joint here, multiplier, offset)
        for name in list(self.pin.names)[1:]:
            there = self.pin.joints[self.pin.getJointId(name)]
            master, multiplier, offset = self._mimics.get(name, (name, 1.0, 0.0))
            while master in self._mimics:
                master, m, o = self._mimics[master]
                multiplier, offset = multiplier * m, offset + multiplier * o
            own = owners["floating_base" if master == "root_joint" else master]
            order = TURNED if there.nv == 6 else [0]
            for k, row in enumerate(order):
                self.G[there.idx_v + row, own.v.start + k] = multiplier
            rotors[there.idx_v] += (armature or {}).get(name, 0.0) if there.nv == 1 else 0.0
            self._joints.append((there, own, multiplier, offset))
        self._rotors = self.G.T @ np.diag(rotors) @ self.G

    def q(self, q):
        out = pin.neutral(self.pin)
        for there, own, multiplier, offset in self._joints:
            if there.nv == 6:
                out[there.idx_q : there.idx_q + 7] = q[own.q]
                continue
            angle = multiplier * q[own.q][0] + offset
            out[there.idx_q : there.idx_q + there.nq] = (
                (np.cos(angle), np.sin(angle)) if there.nq == 2 else angle
            )
        return out

    def inverse(self, q, qd, qdd, f_ext=None):
        forces = [] if f_ext is None else [self._forces(f_ext)]
        tau = pin.rnea(self.pin, self.data, self.q(q), self.G @ qd, self.G @ qdd, *forces)
        return self.G.T @ tau + self._rotors @ qdd

    def mass_matrix(self, q):
        M = np.array(pin.crba(self.pin, self.data, self.q(q)))
        return self.G.T @ (np.triu(M) + np.triu(M, 1).T) @ self.G + self._rotors

    def jacobian(self, q, link):
        index = self.pin.getFrameId(link, pin.BODY)
        J = pin.computeFrameJacobian(self.pin, self.data, self.q(q), index, pin.LOCAL_WORLD_ALIGNED)
        return J.reshape(6, self.pin.nv)[TURNED] @ self.G

    def _forces(self, f_ext):
        forces = [pin.Force.Zero() for _ in range(self.pin.njoints)]
        for body, wrench in zip(self.model.bodies, f_ext, strict=True):
            name = body.joint.name
            index = self.pin.getJointId(name if self.pin.existJointName(name) else "root_joint")
            forces[index] = pin.Force(wrench[3:], wrench[:3])
        return forces
