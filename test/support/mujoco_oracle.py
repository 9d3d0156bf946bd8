"""MuJoCo as an oracle of linkages, by its mass matrix, bias and connection Jacobian, and of trees."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dynamics_node.symbolic import quaternion_rotation, transform_origin, transform_rotation

mujoco = pytest.importorskip("mujoco", minversion="3.2", reason="another oracle: pip install mujoco")


class Connected:
    """A linkage of hinges on a fixed base, read by MuJoCo from the same text. Two points of its axis connect the ends of
    a loop; one if it is a ball."""

    def __init__(self, linkage, mechanism):
        spec = mujoco.MjSpec.from_string(linkage.text.replace("<link", COMPILER + "<link", 1))
        spec.option.jacobian = mujoco.mjtJacobian.mjJAC_DENSE
        for tie in linkage.ties:
            along = tie.axis / np.linalg.norm(tie.axis)
            for k in range(1 if tie.kind == "ball" else 2):
                names = [f"{tie.name} {k} {side}" for side in "ps"]
                for name, end in zip(names, (tie.predecessor, tie.successor), strict=True):
                    spec.body(_body(end.link)).add_site(name=name, pos=end.origin + k * end.rotation @ along)
                ends = {"objtype": mujoco.mjtObj.mjOBJ_SITE, "name1": names[0], "name2": names[1]}
                spec.add_equality(type=mujoco.mjtEq.mjEQ_CONNECT, **ends)
        self.model = spec.compile()
        self.data = mujoco.MjData(self.model)
        names = mechanism.tree.v_names
        self.order = [self.model.jnt_dofadr[self.model.joint(name).id] for name in names]
        own = mechanism.independent
        self.own, self.dependent = own, np.setdiff1d(np.arange(len(names)), own)

    def _at(self, q, qd):
        self.data.qpos[self.order], self.data.qvel[self.order] = q, qd
        mujoco.mj_forward(self.model, self.data)
        J = self.data.efc_J.reshape(-1, self.model.nv)
        return J[self.data.efc_type == mujoco.mjtConstraint.mjCNSTR_EQUALITY][:, self.order]

    def torques(self, q, yd, ydd, step=1e-5):
        """tau of the independent joints; finite differences give the change of the Jacobian."""
        K = self._at(q, 0 * q)
        G = np.zeros((len(q), len(self.own)))
        G[self.own, np.arange(len(self.own))] = 1
        inverse = np.linalg.pinv(K[:, self.dependent], rcond=1e-10)
        G[self.dependent] = -inverse @ K[:, self.own]
        qd, qdd = G @ yd, G @ ydd
        change = (self._at(q + step * qd, 0 * q) - self._at(q - step * qd, 0 * q)) / (2 * step)
        qdd[self.dependent] -= inverse @ (change @ qd)
        self._at(q, qd)
        accelerations, inertial = np.zeros((2, self.model.nv))
        accelerations[self.order] = qdd
        mujoco.mj_mulM(self.model, self.data, inertial, accelerations)
        return G.T @ (inertial + self.data.qfrc_bias)[self.order]


COMPILER = '<mujoco><compiler balanceinertia="false" fusestatic="false" discardvisual="false"/></mujoco>'


def _body(link):
    return "world" if link == "ground" else link


POINT = 1e-3  # m, the radius of a sphere that stands for a point; the floor is as much lower


class Tree:
    """A tree, built body by body. In MuJoCo quaternions are w x y z. Rates of a ball joint are in body axes, those of a
    floating base are first linear in world axes, then angular in body axes."""

    def __init__(self, tree, contacts=(), friction=0.8, limits=False):
        """contacts: points of links that touch a floor at height 0."""
        assert not tree.constrained and not tree.explicit_joints
        spec = mujoco.MjSpec()
        spec.compiler.degree = False
        made = [spec.worldbody]
        for body in tree.bodies:
            own = made[body.parent + 1].add_body(name=body.name)
            made.append(own)
            R = transform_rotation(body.X_tree).T
            own.pos = transform_origin(body.X_tree)
            own.quat = _scalar_first(Rotation.from_matrix(R).as_quat())
            mass = body.inertia[5, 5]
            com = np.array([body.inertia[2, 4], body.inertia[0, 5], body.inertia[1, 3]]) / mass
            J = body.inertia[:3, :3] - mass * (com @ com * np.eye(3) - np.outer(com, com))
            own.mass, own.ipos, own.explicitinertial = mass, com, True
            own.fullinertia = [J[0, 0], J[1, 1], J[2, 2], J[0, 1], J[0, 2], J[1, 2]]
            kind = {"ball": "BALL", "prismatic": "SLIDE", "floating": "FREE"}.get(body.joint.kind, "HINGE")
            joint = own.add_joint(name=body.joint.name, type=getattr(mujoco.mjtJoint, f"mjJNT_{kind}"))
            if body.joint.type.has_axis:
                joint.axis = body.joint.axis
            joint.armature = body.joint.armature
            bounds = body.joint.limits.lower, body.joint.limits.upper
            if limits and body.joint.type.is_scalar and np.isfinite(bounds).all():
                joint.limited, joint.range = mujoco.mjtLimited.mjLIMITED_TRUE, bounds
        for contact in contacts:
            frame = tree.frame(contact.link)
            place = transform_origin(frame.X) + transform_rotation(frame.X).T @ np.array(contact.xyz)
            point = made[frame.body + 1].add_geom(size=[POINT, 0, 0], pos=place, mass=0.0)
            point.contype, point.conaffinity, point.condim, point.friction = 1, 0, 3, [friction, 0, 0]
        if contacts:
            floor = spec.worldbody.add_geom(
                type=mujoco.mjtGeom.mjGEOM_PLANE, size=[100, 100, 1], pos=[0, 0, -POINT]
            )
            floor.contype, floor.conaffinity, floor.friction = 0, 1, [friction, 0, 0]
            spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
        self._spec, self.model = spec, spec.compile()
        self.model.opt.gravity = tree.gravity
        self.data, self.tree = mujoco.MjData(self.model), tree

    def qpos(self, q):
        """Positions (..., nq) as MuJoCo has them."""
        theirs = np.empty_like(q)
        for joint, own in self._joints():
            at, array = self.model.jnt_qposadr[own], np.array(q[..., joint.q])
            if joint.type.quaternion is not None:
                array[..., -4:] = np.roll(array[..., -4:], 1, axis=-1)
            theirs[..., at : at + joint.type.nq] = array
        return theirs

    def qvel(self, q, qd):
        """Velocities (..., nv) as MuJoCo has them."""
        theirs = np.empty_like(qd)
        for joint, own in self._joints():
            at, array = self.model.jnt_dofadr[own], np.array(qd[..., joint.v])
            if joint.type.is_free:
                linear = quaternion_rotation(q[..., joint.q][..., 3:]) @ array[..., 3:, None]
                array = np.concatenate([linear[..., 0], array[..., :3]], axis=-1)
            theirs[..., at : at + joint.type.nv] = array
        return theirs

    def model_spec(self):
        """A copy of its MjSpec."""
        return self._spec.copy()

    def accelerations(self, q, qd, qacc):
        """qdd (nv,) from the accelerations of MuJoCo at a state: those of a floating base are in world axes there."""
        ours = np.empty_like(qacc)
        for joint, own in self._joints():
            at = self.model.jnt_dofadr[own]
            array = qacc[at : at + joint.type.nv]
            if joint.type.is_free:
                w, v = np.split(qd[joint.v], 2)
                linear = quaternion_rotation(q[joint.q][3:]).T @ array[:3] - np.cross(w, v)
                array = np.concatenate([array[3:], linear])
            ours[joint.v] = array
        return ours

    def _joints(self):
        for joint in self.tree.independent_joints:
            yield joint, self.model.joint(joint.name).id

    def inverse(self, q, qd, qdd):
        """tau of a robot on a fixed base."""
        self.data.qpos[:], self.data.qvel[:] = self.qpos(q), self.qvel(q, qd)
        self.data.qacc[:] = self.qvel(q, qdd)
        mujoco.mj_inverse(self.model, self.data)
        places = [(self.model.jnt_dofadr[own], joint) for joint, own in self._joints()]
        return np.concatenate([self.data.qfrc_inverse[v : v + joint.type.nv] for v, joint in places])


def _scalar_first(quaternion):
    return np.roll(quaternion, 1)
