"""Against MuJoCo: planar linkages at home by its mass matrix, its bias and the Jacobian of its own connections; trees
with ball joints."""

import numpy as np
import pytest
from balls import ball_robot
from connected import Connected
from linkages import grid, palletizer
from robots import random_states
from scipy.spatial.transform import Rotation
from tolerances import EXACT, error

import dynamics_node as dn
from dynamics_node.symbolic import transform_origin, transform_rotation

mujoco = pytest.importorskip("mujoco", minversion="3.2", reason="another oracle: pip install mujoco")


@pytest.mark.parametrize(
    "make, seed", [*((palletizer, k) for k in (1, 2, 3)), *((grid, k) for k in (4, 8, 15))]
)
def test_linkages_at_home(make, seed):
    linkage = make(np.random.default_rng(seed))
    mechanism = dn.parse_robot(linkage.text, floating_base=False)
    theirs, q = Connected(linkage, mechanism), np.zeros(mechanism.nq)
    yd, ydd = np.random.default_rng(0).uniform(-1, 1, (2, mechanism.nv))
    solver = dn.build(mechanism, dn.inverse_dynamics(mechanism))
    assert error(solver(q, 0 * yd, ydd), theirs.torques(q, 0 * yd, ydd)) <= EXACT
    assert error(solver(q, yd, ydd), theirs.torques(q, yd, ydd)) <= 1e-7


class Balls:
    """A tree with ball joints, body by body. MuJoCo has quaternions as w x y z and rates in body axes."""

    def __init__(self, tree):
        spec = mujoco.MjSpec()
        made = [spec.worldbody]
        for body in tree.bodies:
            own = made[body.parent + 1].add_body(name=body.name)
            made.append(own)
            R = transform_rotation(body.X_tree).T
            own.pos, own.quat = (
                transform_origin(body.X_tree),
                _scalar_first(Rotation.from_matrix(R).as_quat()),
            )
            mass = body.inertia[5, 5]
            com = np.array([body.inertia[2, 4], body.inertia[0, 5], body.inertia[1, 3]]) / mass
            J = body.inertia[:3, :3] - mass * (com @ com * np.eye(3) - np.outer(com, com))
            own.mass, own.ipos, own.explicitinertial = mass, com, True
            own.fullinertia = [J[0, 0], J[1, 1], J[2, 2], J[0, 1], J[0, 2], J[1, 2]]
            kind = {"ball": "BALL", "prismatic": "SLIDE"}.get(body.joint.kind, "HINGE")
            joint = own.add_joint(name=body.joint.name, type=getattr(mujoco.mjtJoint, f"mjJNT_{kind}"))
            joint.armature = body.joint.armature
            if kind != "BALL":
                joint.axis = body.joint.axis
        self.model = spec.compile()
        self.model.opt.gravity = tree.gravity
        self.data, self.tree = mujoco.MjData(self.model), tree

    def inverse(self, q, qd, qdd):
        for joint in self.tree.independent_joints:
            own = self.model.joint(joint.name).id
            at, v = self.model.jnt_qposadr[own], self.model.jnt_dofadr[own]
            theirs = _scalar_first(q[joint.q]) if joint.kind == "ball" else q[joint.q]
            self.data.qpos[at : at + joint.type.nq] = theirs
            for numbers, rates in ((self.data.qvel, qd), (self.data.qacc, qdd)):
                numbers[v : v + joint.type.nv] = rates[joint.v]
        mujoco.mj_inverse(self.model, self.data)
        order = [self.model.jnt_dofadr[self.model.joint(j.name).id] for j in self.tree.independent_joints]
        places = zip(order, self.tree.independent_joints, strict=True)
        return np.concatenate([self.data.qfrc_inverse[v : v + joint.type.nv] for v, joint in places])


def _scalar_first(quaternion):
    return np.roll(quaternion, 1)


@pytest.mark.parametrize("seed", range(4))
def test_ball_joints(seed):
    tree = dn.parse_robot(ball_robot(seed), armature={"j1": 0.05})
    theirs = Balls(tree)
    solver = dn.build(tree, dn.inverse_dynamics(tree), backend="numpy")
    for q, qd, qdd in zip(*random_states(tree, 5, seed=seed)[:3], strict=True):
        assert error(solver(q, qd, qdd), theirs.inverse(q, qd, qdd)) <= EXACT
