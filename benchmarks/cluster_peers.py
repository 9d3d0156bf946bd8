"""Pinocchio from Python on robots with loops: constraintDynamics, lcaba, and mimic joints in place of
gears."""

import re

import numpy as np
from dynamics import microseconds

import dynamics_node as dn
from dynamics_demo.robots import four_bars

STATES = 64


def loop_times(count, states):
    """{name: us} of Pinocchio's solvers for `count` four-bars at closed states (q, yd, tau)."""
    text = four_bars(count)
    pins = [(f"coupler_j{k}", 0.8, f"rocker_j{k}", 0.6) for k in range(count)]
    return {
        "pin.constraintDynamics": _loop_time(text, pins, states, lcaba=False),
        "pin.lcaba": _loop_time(text, pins, states, lcaba=True),
    }


def _loop_time(text, pins, states, lcaba):
    """pins: (joint, x, joint, x) of coincident points. Each solver needs its own model and constraint
    data."""
    import pinocchio as pin

    model = pin.buildModelFromXML(text)
    contacts, datas = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
    for first, x, second, y in pins:
        places = [pin.SE3(np.eye(3), np.array([at, 0.0, 0.0])) for at in (x, y)]
        ends = [model.getJointId(joint) for joint in (first, second)]
        contact = pin.RigidConstraintModel(
            pin.ContactType.CONTACT_3D, model, ends[0], places[0], ends[1], places[1], pin.LOCAL
        )
        contacts.append(contact)
        datas.append(contact.createData())
    data = model.createData()
    if lcaba:
        pin.computeJointMinimalOrdering(model, data, contacts)
        settings, call = pin.ProximalSettings(1e-10, 1e-6, 10), pin.lcaba
    else:
        pin.initConstraintDynamics(model, data, contacts, datas)
        settings, call = pin.ProximalSettings(1e-10, 1e-10, 10), pin.constraintDynamics
    place, rates, effort, expected = _in_their_order(model, text, states)
    solution = call(model, data, place[0], rates[0], effort[0], contacts, datas, settings)
    assert np.abs(solution - expected).max() <= 1e-4 * np.abs(expected).max(), "both solve the same problem"
    return microseconds(
        lambda k: call(model, data, place[k], rates[k], effort[k], contacts, datas, settings), STATES
    )


def _in_their_order(model, text, states):
    """Positions, rates and efforts of all joints (STATES, nv), and the accelerations at the first state."""
    mechanism = dn.parse_robot(text)
    q, yd, tau = states(mechanism)
    order = [model.joints[model.getJointId(n)].idx_v for n in mechanism.tree.v_names]
    place, rates, effort = np.zeros((3, STATES, model.nv))
    expected = np.zeros(model.nv)
    ydd = dn.build(mechanism, "forward_dynamics", backend="numpy")(q[0], yd[0], tau[0])
    place[:, order] = q
    rates[:, order] = dn.spanning(mechanism, q, yd)[1]
    effort[:, [order[v] for v in mechanism.independent]] = tau
    expected[order] = dn.spanning(mechanism, q[0], yd[0], ydd)[2]
    return place, rates, effort, expected


def mimic_time(text):
    """us of crba and a Cholesky solve for a geared chain with mimic joints as rotors."""
    import pinocchio as pin

    model = pin.buildModelFromXML(with_mimic(text), mimic=True)
    data = model.createData()
    q, v, tau = np.random.default_rng(0).uniform(-0.5, 0.5, (3, STATES, model.nv))

    def solve(k):
        M = pin.crba(model, data, q[k])
        h = pin.nonLinearEffects(model, data, q[k], v[k])
        return _cholesky_solve(M, tau[k] - h)

    return microseconds(solve, STATES)


def _cholesky_solve(M, right):
    """Solve by LAPACK on the upper triangle, without copies or checks: the fastest way from Python."""
    from scipy.linalg.lapack import dposv

    return dposv(M, right, lower=0)[1]


def with_mimic(text, ratio=6.0):
    """A geared chain with <mimic> in place of <coupling>."""
    text = re.sub("<coupling.*?</coupling>", "", text)
    return re.sub(
        r'(<joint name="m(\d+)" type="revolute") independent="false"(.*?)</joint>',
        rf'\1\3<mimic joint="j\2" multiplier="{ratio}"/></joint>', text,
    )  # fmt: skip
