"""Pinocchio in this project's coordinates, matched by joint name."""

import numpy as np
import pytest

pin = pytest.importorskip("pinocchio", reason="Pinocchio: pip install pin, or ros-$ROS_DISTRO-pinocchio")


class Oracle:
    """The same robot read by Pinocchio from the same file."""

    def __init__(self, robot, model):
        full = (
            pin.buildModelFromUrdf(str(robot.file), pin.JointModelFreeFlyer(), mimic=True)
            if robot.floating_base
            else pin.buildModelFromUrdf(str(robot.file), mimic=True)
        )
        if robot.joints is not None:
            held = [n for n in list(full.names)[1:] if n not in robot.joints]
            full = pin.buildReducedModel(full, [full.getJointId(n) for n in held], pin.neutral(full))
        self.model, self.pin = model, full
        self.data = full.createData()
        self.order = self._velocity_order()

    def _joint(self, joint):
        name = "root_joint" if joint.kind == "floating" else joint.name
        return self.pin.joints[self.pin.getJointId(name)]

    def _velocity_order(self):
        """ours[k] = theirs[order[k]]; a floating base has its linear part first there."""
        order = np.zeros(self.model.nv, dtype=int)
        for joint in self.model.independent_joints:
            start = self._joint(joint).idx_v
            within = [3, 4, 5, 0, 1, 2] if joint.kind == "floating" else [0]
            order[joint.v] = [start + k for k in within]
        return order

    def q(self, q):
        theirs = pin.neutral(self.pin)
        for joint in self.model.independent_joints:
            at = self._joint(joint)
            value = q[joint.q]
            if joint.kind == "continuous":
                value = np.array([np.cos(value[0]), np.sin(value[0])])
            theirs[at.idx_q : at.idx_q + at.nq] = value
        return theirs

    def v(self, rates):
        theirs = np.zeros(self.pin.nv)
        theirs[self.order] = rates
        return theirs

    def _forces(self, f_ext):
        forces = [pin.Force.Zero() for _ in range(self.pin.njoints)]
        for body, wrench in zip(self.model.bodies, f_ext, strict=True):
            name = "root_joint" if body.joint.kind == "floating" else body.joint.name
            forces[self.pin.getJointId(name)] = pin.Force(wrench[3:], wrench[:3])
        return forces

    def inverse(self, q, qd, qdd, f_ext=None):
        arguments = [self.q(q), self.v(qd), self.v(qdd)]
        if f_ext is not None:
            arguments.append(self._forces(f_ext))
        return pin.rnea(self.pin, self.data, *arguments)[self.order]

    def mass_matrix(self, q):
        M = np.array(pin.crba(self.pin, self.data, self.q(q)))
        M = np.triu(M) + np.triu(M, 1).T
        return M[np.ix_(self.order, self.order)]

    def forward(self, q, qd, tau, f_ext=None):
        if self.model.explicit_joints:  # its ABA refuses mimic joints
            h = self.inverse(q, qd, np.zeros_like(qd), f_ext)
            return np.linalg.solve(self.mass_matrix(q), tau - h)
        arguments = [self.q(q), self.v(qd), self.v(tau)]
        if f_ext is not None:
            arguments.append(self._forces(f_ext))
        return pin.aba(self.pin, self.data, *arguments)[self.order]

    def jacobian(self, q, link, reference):
        frame = {"body": pin.LOCAL, "world_aligned": pin.LOCAL_WORLD_ALIGNED}[reference]
        index = self.pin.getFrameId(link, pin.BODY)
        J = pin.computeFrameJacobian(self.pin, self.data, self.q(q), index, frame)
        return J[[3, 4, 5, 0, 1, 2]][:, self.order]

    def pose(self, q, link):
        pin.framesForwardKinematics(self.pin, self.data, self.q(q))
        placement = self.data.oMf[self.pin.getFrameId(link, pin.BODY)]
        return placement.rotation.copy(), placement.translation.copy()
