"""Random robots with ball joints as URDF+ text, and Pinocchio's spherical joints to judge them by."""

import numpy as np
from mechanisms import joint, link, loop, numbers, robot
from oracle import Oracle, pin

from dynamics_node.symbolic import transform_origin, transform_rotation

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


def leg():
    """A hip, which is a ball joint, and a knee."""
    parts = [link("hips"), link("thigh", 1, 2.0, solid=True), link("shank", 2, 1.0, solid=True)]
    parts += [
        joint("hip", "hips", "thigh", kind="ball"),
        joint("knee", "thigh", "shank", "0 0 -0.4", "0 1 0"),
    ]
    return robot(*parts, name="leg")


def ankle():
    """A foot on a ball joint, and two legs of variable length from the shin to it: the foot tells the legs."""
    parts = [link("shin"), link("foot", 1, 1.5, solid=True), joint("ball", "shin", "foot", kind="ball")]
    for k, y in enumerate(("0.1", "-0.1")):
        bodies = [f"{name}{k}" for name in ("cross", "tube", "piston")]
        kinds = (("revolute", "1 0 0"), ("revolute", "0 1 0"), ("prismatic", "0 0 1"))
        above = "shin"
        for j, (body, (kind, axis)) in enumerate(zip(bodies, kinds, strict=True)):
            xyz = f"-0.2 {y} 0.4" if j == 0 else "0 0 0"
            parts += [
                link(body, 10 * k + j + 2, 0.3, solid=True),
                joint(f"j_{body}", above, body, xyz, axis, kind),
            ]
            above = body
        parts.append(loop(f"tie{k}", "ball", above, "0 0 -0.4", "foot", f"-0.2 {y} 0"))
    return robot(*parts, name="ankle")


def rssr(independent=None):
    """A crank and a rocker, and a rod on a ball joint between: it turns about itself as well."""
    return robot(
        link("ground"),
        link("crank", 1, 1.0, solid=True),
        link("rod", 2, 0.5, solid=True),
        link("rocker", 3, 1.0, solid=True),
        joint("j_crank", "ground", "crank", "0 0 0", "0 0 1", independent=independent),
        joint("j_ball", "crank", "rod", "0.2 0 0", kind="ball"),
        joint("j_rocker", "ground", "rocker", "0.8 0 0.1", "0 1 0"),
        loop("tie", "ball", "rod", "0.6 0.1 0.1", "rocker", "0 0.1 0"),
        name="rssr",
    )


def wrist():
    """Four hinges that tie a hand on a ball joint to the ground: the ball joint follows from one of them."""
    place = ("0.3 0 0", "0 0.3 0", "0.1 0.2 0.3", "0.2 0 0.2", "0.1 0.1 0.2")
    axes = ("0 0 1", "0 1 0", "1 0 0", "0.6 0.8 0")
    parts, above = [link("l0")], "l0"
    for k, axis in enumerate(axes):
        parts += [
            link(f"l{k + 1}", k + 1, 1.0, solid=True),
            joint(f"j{k + 1}", above, f"l{k + 1}", place[k], axis),
        ]
        above = f"l{k + 1}"
    parts += [link("hand", 9, 0.7, solid=True), joint("j5", above, "hand", place[4], kind="ball")]
    return robot(*parts, loop("tie", "fixed", "l0", "0.7 0.6 0.7", "hand", "0 0 0"), name="wrist")


class BallOracle(Oracle):
    """A Robot in Pinocchio, joint by joint. Its spherical joints have q = x y z w and the angular velocity in body
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
