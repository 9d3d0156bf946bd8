"""Planar linkages at home against MuJoCo: its mass matrix, its bias, and the Jacobian of its own connections."""

import numpy as np
import pytest
from linkages import grid, palletizer
from tolerances import EXACT, error

import dynamics_node as dn

mujoco = pytest.importorskip("mujoco", minversion="3.2", reason="another oracle: pip install mujoco")


class Connected:
    """A linkage of hinges and pins whose joints are all zero at home, read by MuJoCo from the same text."""

    def __init__(self, linkage, mechanism):
        spec = mujoco.MjSpec.from_string(linkage.text.replace("<link", COMPILER + "<link", 1))
        spec.option.jacobian = mujoco.mjtJacobian.mjJAC_DENSE
        for tie in linkage.ties:
            equality = spec.add_equality(
                type=mujoco.mjtEq.mjEQ_CONNECT,
                objtype=mujoco.mjtObj.mjOBJ_BODY,
                name1=_body(tie.predecessor.link),
                name2=_body(tie.successor.link),
            )
            equality.data[:3] = tie.predecessor.origin
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


@pytest.mark.parametrize(
    "make, seed", [*((palletizer, k) for k in (1, 2, 3)), *((grid, k) for k in (4, 8, 15))]
)
def test_linkages_at_home(make, seed):
    linkage = make(np.random.default_rng(seed))
    mechanism = dn.parse_mechanism(linkage.text, floating_base=False)
    theirs, q = Connected(linkage, mechanism), np.zeros(mechanism.nq)
    yd, ydd = np.random.default_rng(0).uniform(-1, 1, (2, mechanism.nv))
    solver = dn.build(mechanism, dn.inverse_dynamics(mechanism))
    assert error(solver(q, 0 * yd, ydd), theirs.torques(q, 0 * yd, ydd)) <= EXACT
    assert error(solver(q, yd, ydd), theirs.torques(q, yd, ydd)) <= 1e-7
