"""Reaction wrenches in closed loops: every body is balanced, by Pinocchio's forces of the tree; passive joints have no
torque, and loop joints no force along their free directions. These conditions determine a unique answer. Also
Pinocchio's own constraint force."""

import re

import numpy as np
import pytest
from oracle import pin
from robots import LOOPS, SPATIAL, closed_states, robot_of
from tolerances import EXACT, error

import dynamics_node as dn
from dynamics_node.algorithms import reaction_wrenches
from dynamics_node.algorithms.rates import spread_rates

PLANAR = ["four_bar", "tilted five_bar"]
TOLERANCE = 1e-9  # of forces of 50 N


def unit(vector):
    return vector / np.linalg.norm(vector)


class Balance:
    """The balance of a mechanism and its joint wrenches at one state, about the root's origin in its axes, force first.

    loops (bodies, 6): the remaining wrench of loop joints on each body; torques (bodies,): about the joints' axes."""

    def __init__(self, name, **options):
        self.mechanism = robot_of(name)
        q, yd, ydd = (a[0] for a in closed_states(self.mechanism, 1, seed=5, reach=0.05))
        rates, accelerations = spread_rates(self.mechanism, q, yd, ydd)
        self.bodies = self.mechanism.tree.bodies
        self.model = pin.buildModelFromXML(re.sub("<loop .*?</loop>", "", LOOPS[name], flags=re.DOTALL))
        self.data = self.model.createData()
        self.number = [self.model.getJointId(body.joint.name) for body in self.bodies]
        self.q, self.qd, self.qdd = (self.theirs(values) for values in (q, rates, accelerations))
        pin.rnea(self.model, self.data, self.q, self.qd, self.qdd)
        pin.computeJointJacobians(self.model, self.data, self.q)
        self.place = [self.data.oMi[number].copy() for number in self.number]
        trees = [self.data.f[number].copy() for number in self.number]
        wrenches = dn.evaluate(self.mechanism, "reaction_wrenches", q, yd, ydd, **options, backend="numpy")
        ours = [pin.Force(w[3:], w[:3]) for w in wrenches]
        self.tau = dn.evaluate(self.mechanism, "inverse_dynamics", q, yd, ydd, backend="numpy")
        self.loops = self.on_bodies(trees) - self.on_bodies(ours)
        axes = [pin.getJointJacobian(self.model, self.data, n, pin.LOCAL)[:, n - 1] for n in self.number]
        self.torques = np.array([axis @ w.vector for axis, w in zip(axes, ours, strict=True)])

    def theirs(self, values):
        rates = np.zeros(self.model.nv)
        rates[[number - 1 for number in self.number]] = values
        return rates

    def on_bodies(self, wrenches):
        """The sum of the wrenches of the parent and the children on every body."""
        there = np.array([p.act(w).vector for p, w in zip(self.place, wrenches, strict=True)])
        total = there.copy()
        for k, parent in enumerate(self.mechanism.tree.parents):
            if parent >= 0:
                total[parent] -= there[k]
        return total

    def end(self, loop, k):
        """Axes and origin of the frame of a loop on its predecessor (0) or successor (1)."""
        body = (loop.predecessor, loop.successor)[k]
        place = self.place[body] if body >= 0 else pin.SE3.Identity()
        return place.rotation @ loop.rotations[k], place.act(loop.origins[k])


def forbidden_components(balance, loop):
    """Components of the wrench of a loop joint on its successor that must be zero."""
    (P, p), (S, s) = (balance.end(loop, k) for k in (0, 1))
    force, moment = balance.loops[loop.successor].reshape(2, 3)
    moment = moment - np.cross(s, force)
    n = P @ unit(loop.axis)
    return {
        "revolute": lambda: [moment @ n],
        "prismatic": lambda: [force @ n],
        "universal": lambda: [moment @ n, moment @ (S @ unit(loop.second_axis))],
        "ball": lambda: moment,
        "planar": lambda: [*np.cross(n, force), moment @ n],
        "rod": lambda: [*moment, *np.cross(force, unit(s - p))],
    }[loop.kind]()


def require_balanced(balance):
    """Require the balance of all bodies and return the loops."""
    mechanism = balance.mechanism
    loops = mechanism.constraints
    tied = {body for loop in loops for body in (loop.predecessor, loop.successor)}
    free = [k for k in range(len(balance.bodies)) if k not in tied]
    assert np.abs(balance.loops).max() > 0.1 and np.abs(balance.loops[free]).max(initial=0.0) <= TOLERANCE
    torques = np.zeros(len(balance.bodies))
    torques[mechanism.independent] = balance.tau
    assert np.abs(balance.torques - torques).max() <= TOLERANCE
    return loops


@pytest.mark.parametrize("name", [*SPATIAL])
def test_spatial_loop_is_balanced(name):
    balance = Balance(name)
    (loop,) = require_balanced(balance)
    assert np.abs(forbidden_components(balance, loop)).max() <= TOLERANCE


@pytest.mark.parametrize("name", PLANAR)
def test_least_wrenches_of_planar_loops_are_balanced(name):
    """Both ends are on bodies, with opposite wrenches."""
    balance = Balance(name, redundant="least")
    (loop,) = require_balanced(balance)
    assert np.abs(balance.loops[loop.predecessor] + balance.loops[loop.successor]).max() <= TOLERANCE
    assert np.abs(forbidden_components(balance, loop)).max() <= TOLERANCE


def test_rods_have_axial_forces():
    """Both rods act on the plate, one on each crank: as many unknowns as equations."""
    balance = Balance("differential")
    rods = require_balanced(balance)
    for rod in rods:
        (_, p), (_, s) = (balance.end(rod, k) for k in (0, 1))
        force, moment = balance.loops[rod.predecessor].reshape(2, 3)
        assert np.abs(np.cross(force, unit(s - p))).max() <= TOLERANCE
        assert np.abs(moment - np.cross(p, force)).max() <= TOLERANCE
    assert np.abs(balance.loops.sum(axis=0)).max() <= TOLERANCE


def test_force_of_a_ball_agrees_with_pinocchio():
    """The reference is Pinocchio's constrained forward dynamics with three rows, under our torques."""
    balance = Balance("ball")
    (loop,) = balance.mechanism.constraints
    contact = pin.RigidConstraintModel(
        pin.ContactType.CONTACT_3D,
        balance.model,
        balance.number[loop.successor],
        pin.SE3(np.eye(3), loop.origins[1]),
        0,
        pin.SE3(np.eye(3), loop.origins[0]),
        pin.ReferenceFrame.LOCAL,
    )
    contacts, data = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
    contacts.append(contact)
    data.append(contact.createData())
    model_data = balance.model.createData()
    pin.initConstraintDynamics(balance.model, model_data, contacts, data)
    torques = np.zeros(balance.model.nv)
    own = [balance.number[k] - 1 for k in balance.mechanism.independent]
    torques[own] = balance.tau
    qdd = pin.constraintDynamics(balance.model, model_data, balance.q, balance.qd, torques, contacts, data)
    assert error(qdd, balance.qdd) <= 1e-8
    at_tip = balance.place[loop.successor].rotation @ data[0].contact_force.linear
    assert error(balance.loops[loop.successor][:3], at_tip) <= 1e-8


@pytest.mark.parametrize("name", ["geared_chain", "belt_leg"])
def test_gears_and_belts_act_between_body_and_parent(name):
    """The wrench between a body and its parent moves the subtree, as for trees."""
    mechanism = robot_of(name)
    q, yd, ydd = (a[0] for a in closed_states(mechanism, 1))
    wrenches = dn.build(mechanism, "reaction_wrenches", backend="numpy")(q, yd, ydd)
    right = reaction_wrenches(mechanism.tree, q, *spread_rates(mechanism, q, yd, ydd))
    assert error(wrenches, np.asarray(right, dtype=float), tail=2) <= EXACT


def test_undetermined_wrenches_raise_an_error_with_the_joint():
    mechanism = robot_of("five_bar")
    message = "'j5'.* 5 components.* 2 joints"
    with pytest.raises(dn.ModelError, match=message):
        dn.build(mechanism, "reaction_wrenches")
    with pytest.raises(ValueError, match="'most'.*refuse, least"):
        dn.build(mechanism, "reaction_wrenches", redundant="most")


def test_compiled_wrenches_of_many_states():
    mechanism = robot_of("ball")
    q, yd, ydd = closed_states(mechanism, 40, reach=0.05)
    plain, compiled = (
        dn.build(mechanism, "reaction_wrenches", backend=backend) for backend in ("numpy", "c")
    )
    assert error(compiled(q, yd, ydd), plain(q, yd, ydd), tail=2).max() <= 1e-9
