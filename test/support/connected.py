"""Linkages by MuJoCo: its mass matrix, its bias and the Jacobian of its own connections."""

import numpy as np
import pytest

mujoco = pytest.importorskip("mujoco", minversion="3.2", reason="another oracle: pip install mujoco")


class Connected:
    """A linkage of hinges, its loops too, on a fixed base, read by MuJoCo from the same text: the ends of a loop are
    connected at two points of its axis, or at one where it is a ball."""

    def __init__(self, linkage, mechanism):
        spec = mujoco.MjSpec.from_string(linkage.text.replace("<link", COMPILER + "<link", 1))
        spec.option.jacobian = mujoco.mjtJacobian.mjJAC_DENSE
        for tie in linkage.ties:
            along = tie.axis / np.linalg.norm(tie.axis)
            for k in range(1 if tie.kind == "ball" else 2):
                names = [f"{tie.name} {k} {side}" for side in "ps"]
                for name, end in zip(names, (tie.predecessor, tie.successor), strict=True):
                    spec.body(_body(end.link)).add_site(name=name, pos=end.origin + k * end.rotation @ along)
                spec.add_equality(
                    type=mujoco.mjtEq.mjEQ_CONNECT,
                    objtype=mujoco.mjtObj.mjOBJ_SITE,
                    name1=names[0],
                    name2=names[1],
                )
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
        """tau of the independent joints; the change of the Jacobian by differences."""
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


COMPILER = '<mujoco><compiler balanceinertia="false" fusestatic="false" discardvisual="false"/></mujoco>'


def _body(link):
    return "world" if link == "ground" else link
