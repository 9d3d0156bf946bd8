"""Random robots with ball joints as URDF+ text, and Pinocchio's spherical joints to judge them by."""

import numpy as np
from mechanisms import joint, link, numbers, robot
from oracle import Oracle, pin

from dynamics_node.spatial import transform_origin, transform_rotation

KINDS = ("ball", "ball", "revolute", "continuous", "prismatic", "fixed")


def ball_robot(seed, joints=5, kinds=KINDS):
    """URDF+ text of a random tree whose first joint is a ball."""
    random = np.random.default_rng(seed)
    parts = [link("l0", 0, 1.0)]
    for k in range(1, joints + 1):
        kind = "ball" if k == 1 else str(random.choice(kinds))
        parent = f"l{k - 1 if random.random() < 0.7 else random.integers(k)}"
        place, axis, turn = np.round(random.uniform(-0.5, 0.5, (3, 3)), 3)
        parts.append(link(f"l{k}", 100 * seed + k, float(np.round(random.uniform(0.3, 3), 2)), solid=True))
        parts.append(
            joint(f"j{k}", parent, f"l{k}", numbers(place), numbers(axis), kind, rpy=numbers(3 * turn))
        )
    return robot(*parts, name=f"balls{seed}")


class BallOracle(Oracle):
    """A Model in Pinocchio, joint by joint. Its spherical joints have q = x y z w and the angular velocity in body
    axes, as ours; its free flyers have the linear part first."""

    def __init__(self, model):
        self.model, self.pin = model, pin.Model()
        self.pin.gravity.linear = model.gravity
        for body in model.bodies:
            placement = _placement(body.X_tree)
            parent = body.parent + 1
            index = self.pin.addJoint(parent, _joint_model(body.joint), placement, body.joint.name)
            self.pin.appendBodyToJoint(index, _inertia(body.inertia), pin.SE3.Identity())
        for frame in model.frames.values():
            self.pin.addFrame(pin.Frame(frame.name, frame.body + 1, 0, _placement(frame.X), pin.BODY))
        self.data = self.pin.createData()
        self.order = self._velocity_order()

    def _joint(self, joint):
        return self.pin.joints[self.pin.getJointId(joint.name)]

    def _velocity_order(self):
        within = {"floating": [3, 4, 5, 0, 1, 2], "ball": [0, 1, 2]}
        order = np.zeros(self.model.nv, dtype=int)
        for own in self.model.independent_joints:
            order[own.v] = [self._joint(own).idx_v + k for k in within.get(own.kind, [0])]
        return order

    def q(self, q):
        theirs = pin.neutral(self.pin)
        for own in self.model.independent_joints:
            at = self._joint(own)
            theirs[at.idx_q : at.idx_q + at.nq] = q[own.q]
        return theirs

    def _forces(self, f_ext):
        return [pin.Force.Zero(), *(pin.Force(wrench[3:], wrench[:3]) for wrench in f_ext)]


def _joint_model(joint):
    if joint.kind in ("ball", "floating"):
        return {"ball": pin.JointModelSpherical, "floating": pin.JointModelFreeFlyer}[joint.kind]()
    made = pin.JointModelPrismaticUnaligned if joint.kind == "prismatic" else pin.JointModelRevoluteUnaligned
    return made(*joint.axis)


def _placement(X):
    return pin.SE3(transform_rotation(X).T, transform_origin(X))


def _inertia(inertia):
    mass = inertia[5, 5]
    com = np.array([inertia[2, 4], inertia[0, 5], inertia[1, 3]]) / mass
    return pin.Inertia(mass, com, inertia[:3, :3] - mass * (com @ com * np.eye(3) - np.outer(com, com)))
